//! A disk without room: one exit for it, whatever call met it, and nothing half made. The disks
//! are small file systems in memory; mounting them needs root, and without it the tests say so.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::sandbox::{Ran, Sandbox, content, ran, snapshot};

/// A file system in memory; taken away when it is dropped.
struct Disk<'p>(&'p Path);

impl<'p> Disk<'p> {
    fn mount(at: &'p Path, options: &str) -> Option<Disk<'p>> {
        let _ = std::fs::create_dir(at);
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(at)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success());
        if !made {
            println!("passed over: a file system in memory can't be mounted here");
        }
        made.then_some(Disk(at))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg(self.0).status();
        assert!(std::thread::panicking() || gone.is_ok_and(|s| s.success()));
    }
}

fn session(name: &str, lines: usize) -> String {
    let mut out = String::new();
    for n in 0..lines {
        // No two alike, so that compression does not make it small.
        let text = blake3::hash(format!("{name} {n}").as_bytes()).to_hex();
        let words = text.repeat(4);
        out += &format!(
            "{{\"parentUuid\":null,\"sessionId\":\"{name}\",\"type\":\"user\",\"uuid\":\"{n}\",\
             \"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{words}\"}}}}\n"
        );
    }
    out
}

#[track_caller]
fn no_room(run: Ran, what: &str) {
    assert_eq!(run.code, 21, "{what}: {}\n{}", run.stdout, run.stderr);
    assert_eq!(run.text("/err/kind"), "no-space", "{what}");
}

#[test]
fn what_does_not_fit_is_not_handed_out_in_part() {
    let sandbox = Sandbox::new();
    let bytes = session("S", 400);
    let source = sandbox.put(".claude/projects/-p/S.jsonl", bytes.as_bytes());
    // Rewritten, so that an export is two files, of which the disk holds one.
    sandbox.run(&["index"]).expect(0);
    sandbox.put(
        ".claude/projects/-p/S.jsonl",
        session("S", 3).replace("user", "usex").as_bytes(),
    );
    sandbox.run(&["index"]).expect(0);
    let at = sandbox.path().join("disk");
    let (small, large) = (1 + bytes.len() / 2, bytes.len() + 8192);
    for (size, raw_only) in [(small, false), (large, true)] {
        let Some(_disk) = Disk::mount(&at, &format!("size={size}")) else {
            return;
        };
        if raw_only {
            std::fs::write(at.join("fill"), vec![1; 6000]).unwrap();
        }
        let before = snapshot(&at);
        let target = at.join("x");
        let target = target.to_str().unwrap();
        let id = sandbox.named("S")[0]["id"].as_str().unwrap().to_owned();
        let source = source.to_str().unwrap();
        for args in [
            vec!["export", &id, "--format", "raw", "-o", target],
            vec!["export", &id, "--format", "json", "-o", target],
            vec!["mirror", "get", source, "--seq", "1", "-o", target],
        ] {
            if raw_only && args[0] != "export" {
                continue;
            }
            no_room(sandbox.run(&args), &format!("{args:?}"));
            let names: Vec<_> = snapshot(&at).into_keys().collect();
            assert_eq!(
                names,
                before.keys().cloned().collect::<Vec<_>>(),
                "{args:?}"
            );
        }
    }
}

#[test]
fn a_full_disk_under_the_data_directory_is_one_kind_of_failure() {
    let sandbox = Sandbox::new();
    for n in 0..3 {
        let name = format!("S{n}");
        sandbox.put(
            &format!(".claude/projects/-p/{name}.jsonl"),
            session(&name, 20).as_bytes(),
        );
    }
    let index = |at: &Path| {
        let mut c = sandbox.command(&["index", "--json"]);
        ran(c.env("CASS_DATA_DIR", at.join("data")).output().unwrap())
    };
    let at = sandbox.path().join("disk");
    // Files run out at each file that a first run makes: SQLite's logs are among them.
    let mut ended_well = false;
    for files in 1..60 {
        let Some(_disk) = Disk::mount(&at, &format!("size=16m,nr_inodes={files}")) else {
            return;
        };
        let run = index(&at);
        if run.code == 0 {
            ended_well = true;
            break;
        }
        no_room(run, &format!("{files} files"));
        // What was captured stays, and the same run ends well when there is room.
        let more = ["-o", "remount,nr_inodes=1000"];
        assert!(
            Command::new("mount")
                .args(more)
                .arg(&at)
                .status()
                .unwrap()
                .success()
        );
        index(&at).expect(0);
    }
    assert!(ended_well);

    // Bytes run out behind a first run.
    let Some(_disk) = Disk::mount(&at, "size=8m") else {
        return;
    };
    index(&at).expect(0);
    let before = content(&at.join("data"));
    let mut fill = std::fs::File::create(at.join("fill")).unwrap();
    while std::io::Write::write_all(&mut fill, &[1; 4096]).is_ok() {}
    sandbox.put(".claude/projects/-p/S9.jsonl", session("S9", 20).as_bytes());
    no_room(index(&at), "more to capture");
    assert_eq!(content(&at.join("data")), before);
    std::fs::remove_file(at.join("data/raw-mirror/index/mirror.db")).unwrap();
    while std::io::Write::write_all(&mut fill, &[1; 4096]).is_ok() {}
    no_room(index(&at), "the mirror's index is gone");
    // Open, a file that has no name still takes its room.
    drop(fill);
    std::fs::remove_file(at.join("fill")).unwrap();
    index(&at).expect(0);
}
