//! A generation that was superseded, kept as it was.

use cass::error::ErrorKind;
use cass::model::interrupt::Interrupt;
use cass::store::generation::GenerationId;
use cass::store::seal::{self, Seal, Sealing};

use crate::sandbox::Sandbox;
use crate::{indexed, locked, root};

fn id(n: u32) -> GenerationId {
    GenerationId::numbered(n)
}

/// Another generation is live: the first one's files under another id, which only `CURRENT` needs.
fn superseded() -> Sandbox {
    let sandbox = indexed();
    let generations = sandbox.data().join("generations");
    let next = generations.join("g00000002");
    std::fs::create_dir(&next).unwrap();
    for entry in std::fs::read_dir(generations.join("g00000001")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), next.join(entry.file_name())).unwrap();
    }
    let manifest = next.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(&manifest, text.replace("g00000001", "g00000002")).unwrap();
    std::fs::write(sandbox.data().join("CURRENT"), "g00000002\n").unwrap();
    sandbox
}

fn seal(sandbox: &Sandbox, n: u32, run: &str, now_ms: i64) -> cass::error::Result<Seal> {
    locked(sandbox, |cap| {
        let sealing = Sealing {
            generation: &id(n),
            superseded_by: Some(&id(2)),
            run_id: Some(run),
            reason: "rebuilt from the mirror",
            sole_copy: true,
            now_ms,
        };
        seal::write(cap, &sealing, &Interrupt::new())
    })
}

fn kind<T>(result: cass::error::Result<T>) -> Option<ErrorKind> {
    result.err().map(|e| e.kind())
}

#[test]
fn a_seal_says_what_the_files_were_and_every_change_is_seen() {
    let sandbox = superseded();
    let made = seal(&sandbox, 1, "r1", 5).unwrap();
    assert_eq!(made.commit, Some(1));
    let names: Vec<&str> = made.files.iter().map(|f| f.name.as_str()).collect();
    assert!(
        names.contains(&"agent_search.db") && names.contains(&"manifest.json"),
        "{names:?}"
    );
    assert!(!names.iter().any(|n| n.ends_with("-shm")));
    // Written again: the same seal, its time included.
    assert_eq!(seal(&sandbox, 1, "r1", 9).unwrap(), made);
    let list = sandbox.run(&["doctor", "backups", "list"]).expect(0);
    assert_eq!(list.text("/backups/0/backup_id"), "g00000001");
    assert_eq!(list.text("/backups/0/kind"), "sealed-generation");
    assert_eq!(list.at("/backups/0/sole_copy"), true);
    let verify = ["doctor", "backups", "verify", "g00000001", "--deep"];
    sandbox.run(&verify).expect(0);
    for name in ["agent_search.db", "manifest.json", "seal.json"] {
        let path = sandbox.data().join("generations/g00000001").join(name);
        let whole = std::fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        sandbox.run(&verify).expect(23);
        if name == "agent_search.db" {
            // The same run does not paint it over; the generation was live before another's.
            assert_eq!(
                kind(seal(&sandbox, 1, "r1", 9)),
                Some(ErrorKind::VerifyFailed)
            );
        }
        std::fs::write(&path, whole).unwrap();
    }
    sandbox.run(&verify).expect(0);
}

#[test]
fn a_damaged_archive_can_be_sealed_and_the_live_one_not() {
    let sandbox = superseded();
    let folder = sandbox.data().join("generations/g00000001");
    std::fs::write(folder.join("agent_search.db"), "no database").unwrap();
    std::fs::write(folder.join("manifest.json"), "{").unwrap();
    let made = seal(&sandbox, 1, "r1", 5).unwrap();
    assert_eq!(
        (made.commit, made.head, made.archive_id),
        (None, None, None)
    );
    sandbox
        .run(&["doctor", "backups", "verify", "g00000001"])
        .expect(0);
    assert_eq!(
        kind(seal(&sandbox, 2, "r1", 5)),
        Some(ErrorKind::UnsafeTarget)
    );
    assert_eq!(
        kind(seal(&sandbox, 7, "r1", 5)),
        Some(ErrorKind::ArchiveMissing)
    );
    std::fs::write(sandbox.data().join("CURRENT"), "?").unwrap();
    assert_eq!(
        kind(seal(&sandbox, 1, "r2", 5)),
        Some(ErrorKind::ArchiveUnreadable)
    );
}

#[test]
fn a_sealed_generation_is_neither_an_orphan_nor_removed_and_loses_its_seal_when_it_is_live_again() {
    let sandbox = superseded();
    let orphans = ["doctor", "check", "--only", "repair.orphans"];
    let seen = sandbox.run(&orphans).expect(0);
    assert_eq!(seen.text("/findings/0/code"), "orphan-generation");
    seal(&sandbox, 1, "r1", 5).unwrap();
    let seen = sandbox.run(&orphans).expect(0);
    assert_eq!(seen.at("/findings").as_array().unwrap().len(), 0);
    let removed = locked(&sandbox, |cap| kind(cap.remove_candidate("g00000001")));
    assert_eq!(removed, Some(ErrorKind::UnsafeTarget));
    let lifted = locked(&sandbox, |cap| kind(seal::lift(cap, &id(1))));
    assert_eq!(lifted, Some(ErrorKind::UnsafeTarget));
    std::fs::write(sandbox.data().join("CURRENT"), "g00000001\n").unwrap();
    let run = sandbox.run(&["doctor", "backups", "verify", "g00000001"]);
    assert_eq!(run.expect(3).text("/err/kind"), "not-found");
    assert_eq!(locked(&sandbox, |cap| kind(seal::lift(cap, &id(1)))), None);
    assert_eq!(seal::read(&root(&sandbox), &id(1)).unwrap(), None);
}
