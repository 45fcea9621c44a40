//! R10: a disk without room. The disks are small file systems in memory; mounting them needs root,
//! and without it the test says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::lab::{apply, bytes, exported, indexed, plan, tamper};
use super::sandbox::Sandbox;

/// The data directory, moved to a small file system in memory; taken away when it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn below(s: &Sandbox) -> Option<Disk> {
        let (data, aside) = (s.data(), s.path().join("aside"));
        fs::rename(&data, &aside).unwrap();
        fs::create_dir(&data).unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=32m,mode=0700", "tmpfs"])
            .arg(&data)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success());
        if !made {
            println!("passed over: a file system in memory can't be mounted here");
            return None;
        }
        let disk = Disk(data);
        let copied = Command::new("cp")
            .args(["-a", "--"])
            .arg(aside.join("."))
            .arg(&disk.0)
            .status();
        assert!(copied.is_ok_and(|s| s.success()));
        Some(disk)
    }

    /// Leaves so much room.
    fn leave(&self, free: u64) {
        let filler = self.0.join("filler");
        let _ = fs::remove_file(&filler);
        let stat = rustix::fs::statvfs(&self.0).unwrap();
        let now = stat.f_bavail * stat.f_frsize;
        let fill = usize::try_from(now.saturating_sub(free)).unwrap();
        fs::write(&filler, vec![7u8; fill]).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg(&self.0).status();
        assert!(std::thread::panicking() || gone.is_ok_and(|s| s.success()));
    }
}

fn held(s: &Sandbox) -> Vec<(PathBuf, String)> {
    let kept = |p: &Path| {
        let p = p.to_string_lossy();
        !p.contains("locks") && !p.contains("filler")
    };
    bytes(s).into_iter().filter(|(p, _)| kept(p)).collect()
}

#[test]
fn without_room_nothing_changes_and_with_room_the_same_plan_is_applied() {
    let s = indexed();
    let truth = exported(&s);
    let planned_backup = plan(&s, &["doctor", "backups", "create"]).expect(0);
    let backup_first = apply(&s, &planned_backup).expect(0);
    assert_eq!(backup_first.text("/status"), "applied");
    let second = plan(&s, &["doctor", "backups", "create", "--label", "2"]).expect(0);
    let Some(disk) = Disk::below(&s) else {
        return;
    };
    for (name, is_repair) in [("backup", false), ("repair", true)] {
        let planned = if is_repair {
            tamper(&s);
            plan(&s, &["doctor", "repair"]).expect(0)
        } else {
            plan(&s, &["doctor", "backups", "create", "--label", "2"]).expect(0)
        };
        if !is_repair {
            assert_eq!(
                super::lab::fingerprint(&planned),
                super::lab::fingerprint(&second),
                "where the directory lies is no part of a plan"
            );
        }
        for kib in [0, 4, 16, 64, 256, 512, 900] {
            disk.leave(kib << 10);
            let before = held(&s);
            for _ in 0..2 {
                let refused = apply(&s, &planned).expect(21);
                assert_eq!(refused.text("/err/kind"), "no-space", "{name} {kib}");
                let number = |of: &str| -> u64 {
                    refused.text(&format!("/err/context/{of}")).parse().unwrap()
                };
                assert!(number("required_bytes") > number("free_bytes"), "{name}");
            }
            assert_eq!(held(&s), before, "{name} {kib}: something was left");
            let check = s.run(&["doctor", "check"]);
            assert!(
                check.at("/operation_outcome").is_object(),
                "{}",
                check.stdout
            );
            let health = s.run(&["health"]);
            assert!(
                health.at("/operation_outcome").is_object(),
                "{}",
                health.stdout
            );
        }
        disk.make_room();
        let applied = apply(&s, &planned).expect(0);
        assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
        assert_eq!(exported(&s), truth, "{name}");
    }
    // The disk is small, and the check says so; nothing else is wrong.
    let check = s.run(&["doctor", "check", "--deep"]);
    assert_eq!(
        check.text("/recommended_action"),
        "make-room",
        "{}",
        check.stdout
    );
}
