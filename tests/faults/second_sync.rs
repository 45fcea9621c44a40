//! R12: what must not follow a sync that failed. The kernel reports a lost write once; a second sync
//! of the same file answers well, and the data may be gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::tracer::Ended;

/// The calls, as strace lists them, that [`no_second_sync`] has to see.
pub const ALSO: &str =
    "fsync,fdatasync,unlink,unlinkat,openat,ftruncate,mkdirat,renameat,renameat2";

/// The names that a folder got and its last sync does not cover.
#[derive(Default)]
struct Names(BTreeMap<String, BTreeSet<String>>);

impl Names {
    fn follow(&mut self, line: &str) {
        let (Some((call, result)), Some(folder)) = (line.rsplit_once(" = "), of_fd(line)) else {
            return;
        };
        if result.starts_with("-1") {
            return;
        }
        let quoted: Vec<&str> = call.split('"').skip(1).step_by(2).collect();
        let mut gets = |folder: &str, name: &str| {
            let names = self.0.entry(folder.to_owned()).or_default();
            names.insert(name.to_owned());
        };
        match *quoted {
            [name] if line.contains("mkdirat(") || line.contains("O_CREAT") => gets(folder, name),
            [from, to] if line.contains(" rename") => {
                let other = call.split('"').nth(2).and_then(of_fd);
                gets(other.unwrap_or(folder), to);
                self.lose(folder, from);
            }
            [name] if line.contains(" unlinkat(") => self.lose(folder, name),
            _ if line.contains("sync(") => _ = self.0.remove(folder),
            _ => {}
        }
    }

    fn lose(&mut self, folder: &str, name: &str) {
        if let Some(names) = self.0.get_mut(folder) {
            names.remove(name);
        }
    }

    /// Whether all that a folder got is out of it again.
    fn are_gone(&self, folder: &str) -> bool {
        self.0.get(folder).is_some_and(BTreeSet::is_empty)
    }
}

/// The path of the first file descriptor that is named.
fn of_fd(text: &str) -> Option<&str> {
    text.split_once('<')?
        .1
        .split_once('>')
        .map(|(path, _)| path)
}

/// R12: what failed to be synced is not synced again, and nothing is acknowledged. These are other
/// syncs: of a file that was removed or emptied before it was made anew (SQLite takes a failed
/// transaction back; then the whole candidate is thrown away); of a folder that every name was taken
/// out of again that the failed one was for, which makes their going durable. In `doctor/` a run that
/// failed notes that it did: when the note is lost, it is a run that was interrupted, and the next
/// one ends it. SQLite opens a folder by its whole path to sync it, and takes no notice when that
/// fails. What is derived is verified before it is named, and can be made again.
pub fn no_second_sync(ended: &Ended, when: &str) {
    let (mut failed, mut second): (Option<&str>, Option<&str>) = (None, None);
    let mut opened_by_sqlite: BTreeSet<&str> = BTreeSet::new();
    let mut names = Names::default();
    for line in ended.log.lines() {
        names.follow(line);
        let named = line.split('"').nth(1).unwrap_or_default();
        if line.contains("openat(AT_FDCWD") && line.contains("O_RDONLY") {
            opened_by_sqlite.insert(named);
        } else if line.contains("sync(") {
            let path = of_fd(line).unwrap_or_default();
            if line.contains("(INJECTED)") {
                if opened_by_sqlite.contains(path) {
                    return;
                }
                failed = Some(path);
            } else if failed == Some(path) {
                second = second.or(Some(line));
            }
        } else if let Some(path) = failed {
            let is_it = Path::new(named).file_name() == Path::new(path).file_name();
            let removed = is_it && (line.contains("unlink") || line.contains("O_TRUNC"));
            let emptied = line.contains("ftruncate(") && of_fd(line) == Some(path);
            if removed || emptied || names.are_gone(path) {
                (failed, second) = (None, None);
            }
        }
    }
    let is_derived = |line: &str| line.contains("/derived/");
    if let Some(line) = second {
        let is_note = of_fd(line).is_some_and(|path| path.ends_with("/data/doctor"));
        assert!(
            is_derived(line) || is_note,
            "{when}: synced again after a failed sync: {line}\n{}",
            ended.log
        );
    }
    let mut injected = ended.log.lines().filter(|l| l.contains("(INJECTED)"));
    assert!(
        injected.any(is_derived) || !ended.out.status.success(),
        "{when}: acknowledged after a failed sync"
    );
}
