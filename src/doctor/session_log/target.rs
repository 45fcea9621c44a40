//! Where a repaired log may be written.

use std::path::{Path, PathBuf};

use crate::model::plan::{FileState, Gate, GateResult, GateVerdict, LogPlace};
use crate::session_log::{
    self, Entry, Header, Kind, LogName, Looked, project_folder, session_folder,
};

use super::read;

/// Where the person wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Below a folder, absolute, that becomes a sessions root.
    Folder(PathBuf),
    /// Over the log itself.
    InPlace {
        /// Whether the person says that the harness is stopped.
        harness_stopped: bool,
    },
}

/// What is to be written, as far as its place depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) entry: &'a Entry,
    /// None of a store.
    pub(super) header: Option<&'a Header>,
    pub(super) result: &'a FileState,
}

/// What the place says.
pub(super) enum Answer {
    /// It is free; or shut, for a reason.
    Gate(LogPlace, GateResult),
    /// What would be written is there.
    Done(PathBuf),
}

/// The path of a log below its sessions root; that of a store has one name.
fn below(wanted: Wanted<'_>) -> Option<String> {
    let name = match wanted.entry.kind {
        Kind::Store => return Some("sessions.db".to_owned()),
        Kind::Log(name) => name,
        Kind::Loose { packed } => LogName {
            generation: wanted.header?.version,
            packed,
        },
    };
    let header = wanted.header?;
    let generation = match name.generation {
        0 => String::new(),
        n => format!(".v{n}"),
    };
    Some(format!(
        "{}/{}/session{generation}.jsonl{}",
        project_folder(header.cwd.as_deref()),
        session_folder(&header.id),
        if name.packed { ".zstd" } else { "" }
    ))
}

/// Looks at the place.
pub(super) fn look(place: &Place, wanted: Wanted<'_>, data_dir: &Path) -> Answer {
    match place {
        Place::Folder(folder) => in_folder(folder, wanted, data_dir),
        Place::InPlace { harness_stopped } => {
            let why = against(wanted, *harness_stopped);
            Answer::Gate(LogPlace::InPlace, gate(why))
        }
    }
}

fn gate(why: Option<String>) -> GateResult {
    let (verdict, reason) = match why {
        Some(why) => (GateVerdict::Block, why),
        None => (GateVerdict::Pass, "the place may be written".to_owned()),
    };
    GateResult {
        gate: Gate::LogTarget,
        verdict,
        reason,
    }
}

fn in_folder(folder: &Path, wanted: Wanted<'_>, data_dir: &Path) -> Answer {
    let rel = below(wanted).unwrap_or_default();
    let target = folder.join(&rel);
    let place = LogPlace::Folder {
        folder: folder.to_string_lossy().into_owned(),
        rel: rel.clone(),
    };
    let shut = |why: String| Answer::Gate(place.clone(), gate(Some(why)));
    if rel.is_empty() {
        return shut("the log has no header that says where it belongs".to_owned());
    }
    let data_dir = std::fs::canonicalize(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    if folder.starts_with(&data_dir) {
        return shut("the data directory takes no logs".to_owned());
    }
    match std::fs::symlink_metadata(&target) {
        Ok(_) if is(&target, wanted.result) => return Answer::Done(target),
        Ok(_) => {
            return shut(format!(
                "{} exists already and is not overwritten",
                target.display()
            ));
        }
        Err(_) => {}
    }
    if !folder.is_dir() && !folder.parent().is_some_and(Path::is_dir) {
        return shut(format!(
            "{} is no folder, and none is above it",
            folder.display()
        ));
    }
    if std::fs::symlink_metadata(folder).is_ok() && !folder.is_dir() {
        return shut(format!("{} is no folder", folder.display()));
    }
    Answer::Gate(place.clone(), gate(spoilt(folder, wanted)))
}

fn is(path: &Path, wanted: &FileState) -> bool {
    read::open(path)
        .ok()
        .and_then(|f| session_log::digests(&f).ok())
        .is_some_and(|(len, _, blake3)| len == wanted.len.0 && blake3 == wanted.blake3)
}

/// Why the harness would refuse the folder with this log in it.
fn spoilt(folder: &Path, wanted: Wanted<'_>) -> Option<String> {
    let packed = wanted.entry.form().map(|f| f.packed)?;
    let own = wanted.header.map(|h| session_folder(&h.id))?;
    let Ok(Looked { entries, .. }) = session_log::look(folder) else {
        return None;
    };
    for other in entries {
        let where_it_is = other.path.display();
        match other.kind {
            Kind::Loose { .. } => {
                return Some(format!(
                    "{where_it_is} is of a layout for which the harness refuses the whole root"
                ));
            }
            Kind::Log(name) if name.packed != packed => {
                return Some(format!(
                    "{where_it_is} has the other encoding, and the harness refuses a root of both"
                ));
            }
            Kind::Log(_) if other.folders.as_ref().is_some_and(|(_, s)| *s == own) => {
                return Some(format!("{where_it_is} is a log of the same session"));
            }
            Kind::Log(_) | Kind::Store => {}
        }
    }
    None
}

/// What speaks against writing over the log.
fn against(wanted: Wanted<'_>, harness_stopped: bool) -> Option<String> {
    let entry = wanted.entry;
    let Kind::Log(name) = entry.kind else {
        return Some("only a log in its own session's folder is repaired in place".to_owned());
    };
    let Some((_, session)) = &entry.folders else {
        return Some("the log does not lie below a sessions root".to_owned());
    };
    if let Some(newer) = entry.siblings.iter().find(|s| s.log > name) {
        return Some(format!(
            "{} is the session's log; this one is an older generation",
            newer.name
        ));
    }
    if name.generation == 0 && !harness_stopped {
        return Some(
            "the harness of this version takes no lock: --harness-stopped says that it was ended"
                .to_owned(),
        );
    }
    let root = entry.path.ancestors().nth(3)?;
    held(root, session)
}

/// A lock of the kind that is made and removed, which names the session. It is never taken away.
fn held(root: &Path, session: &str) -> Option<String> {
    let mut names: Vec<String> = std::fs::read_dir(root)
        .ok()?
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".lock") && name.contains(session))
        .collect();
    names.sort();
    let name = names.first()?;
    let text = crate::sources::file::read_small(&root.join(name), 64).unwrap_or_default();
    let pid: String = text.trim().chars().filter(char::is_ascii_digit).collect();
    let who = if pid.is_empty() {
        "an unknown process".to_owned()
    } else {
        format!("process {pid}")
    };
    Some(format!("{who} has the session, by the lock {name}"))
}
