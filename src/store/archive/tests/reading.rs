//! What readers see, and that they leave nothing behind.

use super::*;
use crate::model::conversation::RecordClass;

type Seen = Vec<(PathBuf, u32, i64, i64, Option<Digest>)>;

fn tree(dir: &Path) -> Seen {
    use std::os::unix::fs::MetadataExt;
    walkdir::WalkDir::new(dir)
        .sort_by_file_name()
        .into_iter()
        .map(|entry| {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            let hash = meta
                .is_file()
                .then(|| Digest::of(&std::fs::read(entry.path()).unwrap()));
            (
                entry.path().to_path_buf(),
                meta.mode(),
                meta.mtime(),
                meta.mtime_nsec(),
                hash,
            )
        })
        .collect()
}

/// Every reading function once.
fn read_all(lab: &Lab) -> usize {
    let reader = lab.reader();
    let mut n = 0;
    reader.counts().unwrap();
    reader.head().unwrap();
    reader.last_commit_ms().unwrap();
    let mut ids = Vec::new();
    reader
        .conversations(&Listing::default(), &mut |c| {
            ids.push(c.id);
            Ok(())
        })
        .unwrap();
    for id in ids {
        reader.sources_of(&id).unwrap();
        reader.branches(&id).unwrap();
        for _ in 0..2 {
            reader
                .messages(&id, &mut |_| {
                    n += 1;
                    Ok(())
                })
                .unwrap();
            reader.records(&id, &mut |_| Ok(())).unwrap();
        }
    }
    reader
        .for_each_source(&mut |s| reader.skips(s.key, &mut |_| Ok(())))
        .unwrap();
    crate::store::coverage::tail(&lab.root()).unwrap();
    n
}

#[test]
fn reading_and_verifying_leave_no_trace() {
    let lab = damage::full_lab();
    lab.index("hot", &[msg("h", "1", "in the WAL")]).unwrap();
    for state in ["hot", "no shm", "empty wal", "no wal"] {
        let side = |s: &str| lab.db().with_extension(format!("db-{s}"));
        match state {
            "no shm" => std::fs::remove_file(side("shm")).unwrap(),
            "empty wal" => std::fs::write(side("wal"), b"").unwrap(),
            "no wal" => std::fs::remove_file(side("wal")).unwrap(),
            _ => {}
        }
        let before = tree(&lab.path());
        let n = read_all(&lab);
        let hot = named(&lab.reader(), "h").is_some();
        assert_eq!(
            hot,
            matches!(state, "hot" | "no shm"),
            "{state}: rows in the WAL are seen"
        );
        assert!(n > 0);
        assert_eq!(lab.findings(), vec![], "{state}");
        assert_eq!(tree(&lab.path()), before, "{state}");
    }
}

#[test]
fn a_reader_sees_one_state_while_a_writer_commits() {
    let lab = Lab::new();
    lab.index("a", &[msg("s", "1", "one")]).unwrap();
    let reader = lab.reader();
    assert_eq!(reader.counts().unwrap().messages, 1);
    lab.index("a", &[msg("s", "1", "one"), msg("s", "2", "two")])
        .unwrap();
    assert_eq!(reader.counts().unwrap().messages, 1);
    assert_eq!(lab.reader().counts().unwrap().messages, 2);
}

#[test]
fn listing_finding_and_accounting() {
    let lab = Lab::new();
    lab.index(
        "a",
        &[
            msg("session-one", "1", "x").at(10),
            fact("session-one", "First"),
        ],
    )
    .unwrap();
    lab.index("b", &[msg("session-two", "1", "y").at(30).salted("s")])
        .unwrap();
    lab.index(
        "c",
        &[msg("other", "1", "z").at(20), msg("other", "1", "z").at(20)],
    )
    .unwrap();
    let names: Vec<String> = lab.list().into_iter().map(|c| c.native_id).collect();
    assert_eq!(names, ["session-two", "other", "session-one"]);
    let reader = lab.reader();
    let page = Listing {
        limit: Some(1),
        offset: 1,
        ..Listing::default()
    };
    let mut seen = Vec::new();
    let total = reader
        .conversations(&page, &mut |c| {
            seen.push(c.native_id);
            Ok(())
        })
        .unwrap();
    assert_eq!((total, seen), (3, vec!["other".to_owned()]));
    let none = Listing {
        provider: Some(Provider::Codex),
        ..Listing::default()
    };
    assert_eq!(reader.conversations(&none, &mut |_| Ok(())).unwrap(), 0);

    let one = named(&reader, "session-one").unwrap();
    assert_eq!(one.title.as_deref(), Some("First"));
    assert_eq!((one.started_ms, one.ended_ms), (Some(10), Some(10)));
    assert_eq!(named(&reader, &one.id).unwrap(), one);
    assert_eq!(named(&reader, &one.id[..8]).unwrap(), one);
    assert_eq!(named(&reader, "session-o").unwrap(), one);
    let Named::Several { candidates, total } = reader.named("session-".as_ref(), &[]).unwrap()
    else {
        panic!("two begin with it");
    };
    let ids: Vec<&str> = candidates.iter().map(|c| c.native_id.as_str()).collect();
    assert_eq!((ids, total), (vec!["session-two", "session-one"], 2));
    for (name, expected) in [("sess", Named::TooShort), ("%", Named::TooShort)] {
        assert_eq!(reader.named(name.as_ref(), &[]).unwrap(), expected);
    }
    for name in ["session%", "sessio_-one", "session-one "] {
        assert_eq!(reader.named(name.as_ref(), &[]).unwrap(), Named::Nothing);
    }
    let e = reader.messages("nothing", &mut |_| Ok(())).unwrap_err();
    assert_eq!(e.kind(), crate::error::ErrorKind::NotFound);

    let c = named(&reader, "other").unwrap();
    let mut classes = Vec::new();
    reader
        .records(&c.id, &mut |r| {
            classes.push(r.class);
            Ok(())
        })
        .unwrap();
    assert_eq!(classes, [RecordClass::Messages, RecordClass::Duplicate]);
    let source = reader.source(key("c")).unwrap().unwrap();
    assert_eq!(source.main_session.as_deref(), Some("other"));
    assert_eq!(
        (
            source.accounting.messages.records,
            source.accounting.duplicate.records
        ),
        (1, 1)
    );
    assert_eq!(source.accounting.accounted(), source.accounting.length);
    let cursor = reader.cursor(key("c")).unwrap().unwrap();
    assert_eq!(cursor.resume.offset, source.accounting.length);
    assert_eq!(cursor.resume.state, b"state");
}

#[test]
fn skips_are_read_back() {
    let lab = damage::full_lab();
    let mut seen = Vec::new();
    lab.reader()
        .skips(key("skipping"), &mut |s| {
            seen.push((s.span.offset, s.span.len, s.reason));
            Ok(())
        })
        .unwrap();
    assert_eq!(
        seen,
        [
            (0, 10, SkipReason::NulBlock),
            (10, 4, SkipReason::Fragment),
            (14, 6, SkipReason::TornTail)
        ]
    );
    let a = lab
        .reader()
        .source(key("skipping"))
        .unwrap()
        .unwrap()
        .accounting;
    assert_eq!((a.length, a.accounted(), a.tail.unwrap().len), (20, 20, 6));
}

#[test]
fn verification_stops_when_told() {
    let lab = Lab::new();
    let lines: Vec<Raw> = (0..2000).map(|i| plain("s", &i.to_string())).collect();
    lab.index("a", &lines).unwrap();
    let summary = verify_deep(&lab.root(), &|| true, &mut |f| panic!("{f:?}"))
        .unwrap()
        .unwrap();
    assert!(!summary.complete);
    let all = verify_deep(&lab.root(), &|| false, &mut |f| panic!("{f:?}"))
        .unwrap()
        .unwrap();
    assert!(all.complete);
    assert_eq!(all.rows["messages"], 2000);
}

#[test]
fn a_name_is_looked_up_in_indexes_alone() {
    let lab = Lab::new();
    lab.index("a", &[msg("s", "1", "one")]).unwrap();
    let conn = raw(&lab.db());
    for sql in crate::store::archive::session_name::lookups() {
        let plan: Vec<String> = conn
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .unwrap()
            .query_map(
                rusqlite::params_from_iter(
                    ["a"; 2].iter().take(sql.matches("?2").count().min(1) + 1),
                ),
                |r| r.get(3),
            )
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(
            plan.iter().any(|step| step.contains("USING INDEX")),
            "{plan:?}"
        );
        assert!(
            !plan.iter().any(|step| step.starts_with("SCAN c")),
            "{plan:?}"
        );
    }
}
