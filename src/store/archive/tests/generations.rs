//! Making the first generation, and what lies there instead of one.

use super::*;
use crate::error::ErrorKind;
use crate::store::generation::{self, GenerationId, Live};

fn locate(lab: &Lab) -> Result<Live> {
    generation::locate(&lab.root())
}

fn open_kinds(lab: &Lab) -> (ErrorKind, ErrorKind) {
    (
        ArchiveReader::open(&lab.root()).unwrap_err().kind(),
        lab.try_writing(|_| ()).unwrap_err().kind(),
    )
}

#[test]
fn the_first_generation_is_staged_verified_and_named() {
    let lab = Lab::new();
    assert_eq!(locate(&lab).unwrap(), Live::Never { mirror: false });
    assert!(ArchiveReader::open(&lab.root()).unwrap().is_none());
    let mut any = false;
    assert!(
        verify_deep(&lab.root(), &|| false, &mut |_| any = true)
            .unwrap()
            .is_none()
            && !any
    );
    lab.writing(|w| assert_eq!(w.head().commit, 0));
    assert_eq!(
        std::fs::read(lab.path().join("CURRENT")).unwrap(),
        b"g00000001\n"
    );
    let Live::Present(live) = locate(&lab).unwrap() else {
        panic!()
    };
    assert_eq!(live.manifest.created_ms, 7);
    assert_eq!(live.manifest.schema_version, SCHEMA_VERSION);
    assert_eq!(lab.reader().counts().unwrap(), Counts::default());
    lab.assert_sound();
    // It is not made a second time.
    lab.writing(|w| assert_eq!(w.generation().manifest, live.manifest));
    use std::os::unix::fs::MetadataExt;
    for entry in walkdir::WalkDir::new(lab.path()).min_depth(1) {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().mode() & 0o777;
        let expected = if entry.file_type().is_dir() {
            0o700
        } else {
            0o600
        };
        assert_eq!(mode, expected, "{}", entry.path().display());
    }
}

#[test]
fn an_interrupted_creation_is_used_again() {
    let whole = Lab::new();
    whole.writing(|_| ());
    let folder = whole.path().join("generations/g00000001");
    // The states in which a kill can leave it: each without CURRENT and without a ledger.
    for state in ["folder", "empty file", "no manifest", "no current"] {
        let lab = Lab::new();
        let to = lab.path().join("generations/g00000001");
        std::fs::create_dir_all(&to).unwrap();
        match state {
            "folder" => {}
            "empty file" => std::fs::write(to.join("agent_search.db"), b"").unwrap(),
            _ => {
                for name in ["agent_search.db", "agent_search.db-wal", "manifest.json"] {
                    if state == "no current" || name != "manifest.json" {
                        std::fs::copy(folder.join(name), to.join(name)).unwrap();
                    }
                }
            }
        }
        assert_eq!(
            locate(&lab).unwrap(),
            Live::Never { mirror: false },
            "{state}"
        );
        lab.writing(|w| assert_eq!(w.generation().id, GenerationId::numbered(1), "{state}"));
        lab.index("a", &[msg("s", "1", "x")]).unwrap();
        lab.assert_sound();
    }
    // CURRENT is there, the promote line is not.
    std::fs::remove_file(whole.path().join("coverage.jsonl")).unwrap();
    assert!(!whole.writing(|w| w.found().ledger_rebuilt));
    assert!(whole.path().join("coverage.jsonl").exists());
}

/// What an older program had begun is no archive of this schema: it stays, and another folder is made.
#[test]
fn an_interrupted_creation_of_an_older_program_is_not_used_again() {
    let lab = Lab::new();
    let old = lab.path().join("generations/g00000001");
    std::fs::create_dir_all(&old).unwrap();
    let conn = rusqlite::Connection::open(old.join("agent_search.db")).unwrap();
    conn.execute_batch(include_str!("../../../../migrations/0001_archive.sql"))
        .unwrap();
    for (id, name, value) in [
        (1, "archive_id", "a"),
        (2, "generation", "g00000001"),
        (3, "created_ms", "7"),
        (4, "cass_version", "0.1.0"),
    ] {
        conn.execute(
            "INSERT INTO meta VALUES (?1, ?2, ?3, zeroblob(32))",
            (id, name, value),
        )
        .unwrap();
    }
    conn.pragma_update(None, "user_version", 1).unwrap();
    conn.pragma_update(None, "application_id", APPLICATION_ID)
        .unwrap();
    conn.close().unwrap();
    let before = std::fs::read(old.join("agent_search.db")).unwrap();
    lab.writing(|w| assert_eq!(w.generation().id, GenerationId::numbered(2)));
    lab.index("a", &[msg("s", "1", "x")]).unwrap();
    lab.assert_sound();
    assert!(std::fs::read(old.join("agent_search.db")).unwrap() == before);
}

#[test]
fn a_folder_with_commits_or_damage_is_never_used_again() {
    for damage in [false, true] {
        let lab = Lab::new();
        lab.index("a", &[msg("s", "1", "x")]).unwrap();
        lab.checkpoint();
        std::fs::remove_file(lab.path().join("CURRENT")).unwrap();
        std::fs::remove_file(lab.path().join("coverage.jsonl")).unwrap();
        let old = lab.path().join("generations/g00000001/agent_search.db");
        if damage {
            let mut bytes = std::fs::read(&old).unwrap();
            bytes[..4096].fill(0xee);
            std::fs::write(&old, bytes).unwrap();
        }
        let before = std::fs::read(&old).unwrap();
        // A new archive beside it would hide it: refused, and nothing is touched.
        let refused = lab.try_writing(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ArchiveMissing);
        assert!(std::fs::read(&old).unwrap() == before);
        assert!(!lab.path().join("CURRENT").exists());
        assert!(!lab.path().join("generations/g00000002").exists());
    }
}

#[test]
fn a_foreign_archive_is_left_alone() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path()).unwrap();
    std::fs::write(lab.path().join("agent_search.db"), b"theirs").unwrap();
    assert_eq!(
        open_kinds(&lab),
        (ErrorKind::ForeignArchive, ErrorKind::ForeignArchive)
    );
    assert!(!lab.path().join("generations").exists());
    assert!(!lab.path().join("CURRENT").exists());
}

#[test]
fn a_mirror_without_an_archive_is_no_loss() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.path().join("raw-mirror")).unwrap();
    assert_eq!(locate(&lab).unwrap(), Live::Never { mirror: true });
    lab.writing(|_| ());
}

#[test]
fn an_archive_that_existed_is_missed() {
    type Damage = fn(&Lab);
    let cases: [(&str, Damage, ErrorKind); 6] = [
        (
            "CURRENT",
            |l| std::fs::remove_file(l.path().join("CURRENT")).unwrap(),
            ErrorKind::ArchiveMissing,
        ),
        (
            "database",
            |l| std::fs::remove_file(l.db()).unwrap(),
            ErrorKind::ArchiveMissing,
        ),
        (
            "generations",
            |l| std::fs::remove_dir_all(l.path().join("generations")).unwrap(),
            ErrorKind::ArchiveMissing,
        ),
        (
            "manifest",
            |l| std::fs::remove_file(l.db().with_file_name("manifest.json")).unwrap(),
            ErrorKind::ArchiveUnreadable,
        ),
        (
            "torn manifest",
            |l| std::fs::write(l.db().with_file_name("manifest.json"), b"{\"for").unwrap(),
            ErrorKind::ArchiveUnreadable,
        ),
        (
            "damaged CURRENT",
            |l| std::fs::write(l.path().join("CURRENT"), b"g0000 001\n").unwrap(),
            ErrorKind::ArchiveUnreadable,
        ),
    ];
    for (name, damage, kind) in cases {
        let lab = Lab::new();
        lab.index("a", &[msg("s", "1", "x")]).unwrap();
        damage(&lab);
        assert_eq!(open_kinds(&lab), (kind, kind), "{name}");
    }
}

#[test]
fn a_newer_schema_is_refused_and_not_touched() {
    let lab = Lab::new();
    lab.index("a", &[msg("s", "1", "x")]).unwrap();
    lab.checkpoint();
    let path = lab.db().with_file_name("manifest.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let schema = |version: i64| format!("\"schema_version\": {version}");
    for (old, new) in [
        (schema(SCHEMA_VERSION), schema(SCHEMA_VERSION + 1)),
        ("\"format\": 1".to_owned(), "\"format\": 3".to_owned()),
    ] {
        let newer = text
            .replace(&old, &new)
            .replace("\"cass_version\"", "\"unknown\": [], \"cass_version\"");
        assert_ne!(newer, text);
        std::fs::write(&path, newer).unwrap();
        let before = std::fs::read(lab.db()).unwrap();
        assert_eq!(
            open_kinds(&lab),
            (ErrorKind::SchemaTooNew, ErrorKind::SchemaTooNew)
        );
        assert!(std::fs::read(lab.db()).unwrap() == before);
    }
}

#[test]
fn a_candidate_is_refused_where_something_lies_and_knows_its_origin() {
    let lab = Lab::new();
    lab.index("a", &[msg("s", "1", "x")]).unwrap();
    lab.checkpoint();
    let first = lab.reader().generation().clone();
    let id = GenerationId::numbered(2);
    let lock = WriterLock::acquire(lab.root(), "test", 0).unwrap();
    let cap = Capture::new(&lock);
    let stage = || ArchiveWriter::stage(cap, &id, &first.manifest.archive_id, 9);
    drop(stage().unwrap());
    assert_eq!(stage().unwrap_err().kind(), ErrorKind::TargetExists);
    // An empty one is no copy of the first, and a copy is none of another archive.
    let copied = |of: &generation::Manifest| generation::Generation {
        id: id.clone(),
        manifest: generation::Manifest::copied(&id, of, 9),
    };
    let open = |g: &generation::Generation| {
        ArchiveWriter::open_staged(cap, g)
            .map(drop)
            .map_err(|e| e.kind())
    };
    let of_first = copied(&first.manifest);
    assert_eq!(
        (of_first.manifest.format, of_first.manifest.created_ms),
        (2, 9)
    );
    assert_eq!(open(&of_first), Err(ErrorKind::ArchiveCorrupt));
    let to = lab.path().join("generations/g00000002/agent_search.db");
    std::fs::copy(lab.db(), &to).unwrap();
    assert_eq!(open(&of_first), Ok(()));
    let mut other = first.manifest.clone();
    other.archive_id = "other".into();
    assert_eq!(open(&copied(&other)), Err(ErrorKind::ArchiveCorrupt));
    let verified = |g: &generation::Generation| {
        let mut kinds = Vec::new();
        verify_generation(cap.root(), g, &|| false, &mut |f| kinds.push(f.kind)).unwrap();
        kinds
    };
    assert_eq!(verified(&copied(&other)), [FindingKind::Header]);
    let unnamed = generation::Generation {
        id: id.clone(),
        manifest: generation::Manifest::made(&id, &first.manifest.archive_id, 9),
    };
    assert_eq!(verified(&unnamed), [FindingKind::Header]);
    // A commit to the copy goes on behind the last one, and is promised only once it is live.
    let before = std::fs::read(lab.path().join("coverage.jsonl")).unwrap();
    let mut writer = ArchiveWriter::open_staged(cap, &of_first).unwrap();
    let line = feed(&mut writer, "b", &[msg("t", "1", "y")], false)
        .unwrap()
        .unwrap();
    assert_eq!((line.commit, line.generation.clone()), (2, id.clone()));
    let (made, head) = writer.finish_staged(cap, None).unwrap();
    assert_eq!(made, of_first);
    assert_eq!(verified(&made), []);
    assert!(std::fs::read(lab.path().join("coverage.jsonl")).unwrap() == before);
    generation::set_current(cap, &id).unwrap();
    promote_line(cap, &made, head, "copied", None).unwrap();
    drop(lock);
    assert_eq!(lab.writing(|w| (w.head(), w.found().backfilled)), (head, 0));
    assert_eq!(lab.texts(&lab.list()[1].id), ["y"]);
    lab.assert_sound();
}
