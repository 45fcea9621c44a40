use std::fs;
use std::path::PathBuf;

use super::sandbox::{Sandbox, files_below, snapshot};
use super::talk::{id, search, texts};

fn world() -> Sandbox {
    let s = Sandbox::new();
    let all: Vec<String> = (0..300)
        .map(|n| format!("needle number{n} {}", "word ".repeat(20)))
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    texts(&s, &id(1), &all);
    s.run(&["index"]).expect(0);
    s
}

fn folder(s: &Sandbox) -> PathBuf {
    let lexical = s.data().join("derived/lexical");
    let current = fs::read_to_string(lexical.join("CURRENT")).unwrap();
    lexical.join(current.trim_end())
}

#[track_caller]
fn code(s: &Sandbox) -> Option<String> {
    let before = snapshot(&s.data());
    let run = s
        .run(&["doctor", "check", "--only", "derived.lexical"])
        .expect(0);
    assert!(snapshot(&s.data()) == before, "the check left a trace");
    run.json["findings"]
        .as_array()
        .and_then(|f| f.first())
        .map(|f| {
            assert_eq!(f["severity"], "warn");
            assert_eq!(
                run.at("/recommended_commands/0/argv/1"),
                "index",
                "{}",
                run.stdout
            );
            f["code"].as_str().unwrap().to_owned()
        })
}

#[track_caller]
fn heals(s: &Sandbox, what: &str) {
    let exported = s.messages(s.sessions()[0]["id"].as_str().unwrap()).len();
    assert_eq!(exported, 300, "{what}");
    s.run(&["index"]).expect(0);
    assert_eq!(code(s), None, "{what}");
    assert_eq!(search(s, &["needle"]).number("/total"), 300, "{what}");
    let folders = fs::read_dir(s.data().join("derived/lexical"))
        .unwrap()
        .count();
    assert_eq!(folders, 2, "{what}: CURRENT and one index");
}

/// Moves a folder out of the data directory and leaves a link in its place.
fn moved_behind_a_link(s: &Sandbox, rel: &str) {
    let (from, to) = (s.data().join(rel), s.home().join("elsewhere"));
    fs::rename(&from, &to).unwrap();
    std::os::unix::fs::symlink(&to, &from).unwrap();
}

/// Opens the index as any program could, and changes it.
fn tamper(s: &Sandbox, sql: &str) {
    let db = folder(s).join("index.db");
    let conn = rusqlite::Connection::open(db).unwrap();
    conn.execute_batch(sql).unwrap();
    drop(conn);
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(folder(s).join(format!("index.db{suffix}")));
    }
}

#[test]
fn every_broken_state_is_found_and_healed() {
    type Break = fn(&Sandbox);
    let ways: &[(&str, &str, Break)] = &[
        ("derived gone", "lexical-missing", |s| {
            fs::remove_dir_all(s.data().join("derived")).unwrap()
        }),
        ("index gone", "lexical-missing", |s| {
            fs::remove_dir_all(folder(s)).unwrap()
        }),
        ("a file in its place", "lexical-missing", |s| {
            fs::remove_dir_all(s.data().join("derived/lexical")).unwrap();
            fs::write(s.data().join("derived/lexical"), "x").unwrap();
        }),
        ("a link in its place", "lexical-missing", |s| {
            moved_behind_a_link(s, "derived/lexical")
        }),
        ("a link above it", "lexical-missing", |s| {
            moved_behind_a_link(s, "derived")
        }),
        ("a link to nothing above it", "lexical-missing", |s| {
            fs::remove_dir_all(s.data().join("derived")).unwrap();
            std::os::unix::fs::symlink("/nonexistent/x", s.data().join("derived")).unwrap();
        }),
        ("a file above it", "lexical-missing", |s| {
            fs::remove_dir_all(s.data().join("derived")).unwrap();
            fs::write(s.data().join("derived"), "x").unwrap();
        }),
        ("the index behind a link", "lexical-corrupt", |s| {
            let name = folder(s).file_name().unwrap().to_owned();
            let rel = PathBuf::from("derived/lexical").join(name);
            moved_behind_a_link(s, rel.to_str().unwrap())
        }),
        ("CURRENT gone", "lexical-building", |s| {
            fs::remove_file(s.data().join("derived/lexical/CURRENT")).unwrap()
        }),
        ("CURRENT garbage", "lexical-building", |s| {
            fs::write(s.data().join("derived/lexical/CURRENT"), "\u{0}../../x").unwrap()
        }),
        ("CURRENT names another", "lexical-missing", |s| {
            fs::write(s.data().join("derived/lexical/CURRENT"), "l99999999\n").unwrap()
        }),
        ("empty file", "lexical-corrupt", |s| {
            fs::write(folder(s).join("index.db"), "").unwrap()
        }),
        ("garbage", "lexical-corrupt", |s| {
            fs::write(folder(s).join("index.db"), vec![7; 100_000]).unwrap()
        }),
        ("cut", "lexical-corrupt", |s| {
            let db = folder(s).join("index.db");
            let bytes = fs::read(&db).unwrap();
            fs::write(&db, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("a page of zeros", "lexical-corrupt", |s| {
            let db = folder(s).join("index.db");
            let mut bytes = fs::read(&db).unwrap();
            let n = bytes.len();
            bytes[n - 8192..n - 4096].fill(0);
            fs::write(&db, bytes).unwrap();
        }),
        ("rows taken out", "lexical-hollow", |s| {
            tamper(
                s,
                "DELETE FROM message WHERE rowid IN (SELECT id FROM doc LIMIT 60); DELETE FROM doc WHERE id IN (SELECT id FROM doc LIMIT 60)",
            )
        }),
        ("hollow and saying so", "lexical-hollow", |s| {
            tamper(
                s,
                "DELETE FROM message WHERE rowid IN (SELECT id FROM doc); DELETE FROM doc; UPDATE meta SET documents=0",
            )
        }),
        ("no meta", "lexical-corrupt", |s| {
            tamper(s, "DELETE FROM meta")
        }),
        ("another format", "lexical-stale", |s| {
            tamper(s, "UPDATE meta SET format=format+1")
        }),
        ("the format before", "lexical-stale", |s| {
            tamper(
                s,
                "DROP TABLE newest; ALTER TABLE meta DROP COLUMN messages; ALTER TABLE meta DROP COLUMN newest_from; ALTER TABLE meta DROP COLUMN newest_documents; UPDATE meta SET format=1",
            )
        }),
        (
            "a count of the archive that is not its own",
            "lexical-hollow",
            |s| tamper(s, "UPDATE meta SET messages=messages+1"),
        ),
        ("a newest part that is not there", "lexical-hollow", |s| {
            tamper(s, "UPDATE meta SET newest_from=200, newest_documents=101")
        }),
        ("another archive", "lexical-stale", |s| {
            tamper(s, "UPDATE meta SET archive_id='x'")
        }),
        ("half-built", "lexical-building", |s| {
            tamper(s, "UPDATE meta SET complete=0")
        }),
        ("a table gone", "lexical-corrupt", |s| {
            tamper(s, "DROP TABLE doc")
        }),
    ];
    for (what, expected, break_it) in ways {
        let s = world();
        assert_eq!(code(&s), None, "{what}");
        break_it(&s);
        assert_eq!(code(&s).as_deref(), Some(*expected), "{what}");
        let run = s.run(&["search", "needle"]);
        assert_eq!(
            (run.code, run.text("/err/kind")),
            (8, "lexical-unavailable"),
            "{what}: {}",
            run.stdout
        );
        assert_eq!(run.at("/recommended_commands/0/argv/1"), "index", "{what}");
        assert_eq!(run.at("/hits").as_array().map(Vec::len), Some(0), "{what}");
        heals(&s, what);
    }
}

#[test]
fn an_index_behind_the_archive_answers_and_says_so() {
    let s = world();
    texts(&s, &id(2), &["needle late"]);
    let run = s.run(&["index", "--skip-lexical"]).expect(0);
    assert_eq!(run.text("/lexical/outcome"), "skipped");
    assert_eq!(code(&s).as_deref(), Some("lexical-stale"));
    let run = s.run(&["search", "needle"]).expect(0);
    assert_eq!(run.text("/lexical/state"), "stale");
    assert_eq!(
        (run.number("/total"), run.at("/total_is_lower_bound")),
        (300, &true.into())
    );
    let run = s.run(&["index"]).expect(0);
    assert_eq!(run.text("/lexical/outcome"), "updated");
    assert_eq!(run.number("/lexical/added"), 1);
    assert_eq!(search(&s, &["late"]).number("/total"), 1);
    let again = s.run(&["index"]).expect(0);
    assert_eq!(again.text("/status"), "no-op");
}

/// Each file below derived/ removed, emptied, filled with garbage: nothing that is not derived
/// changes, and one run heals.
#[test]
fn any_file_may_vanish_or_be_overwritten() {
    let s = world();
    let names: Vec<PathBuf> = files_below(&s.data().join("derived"))
        .into_iter()
        .map(|p| p.strip_prefix(s.data().join("derived")).unwrap().to_owned())
        .collect();
    assert!(names.len() >= 3);
    for n in 0..names.len() {
        for way in ["remove", "empty", "garbage"] {
            let files = files_below(&s.data().join("derived"));
            let Some(path) = files.get(n) else { continue };
            match way {
                "remove" => fs::remove_file(path).unwrap(),
                "empty" => fs::write(path, "").unwrap(),
                _ => fs::write(path, vec![0xA5; 5000]).unwrap(),
            }
            let precious = s
                .run(&["doctor", "check", "--skip", "derived.lexical"])
                .expect(0);
            assert_ne!(precious.text("/status"), "error");
            heals(&s, &format!("{way} {}", path.display()));
        }
    }
}

#[test]
fn nothing_is_written_or_removed_behind_a_link() {
    use std::os::unix::fs::symlink;
    let s = Sandbox::new();
    texts(&s, &id(1), &["needle"]);
    s.run(&["index", "--skip-lexical"]).expect(0);
    let elsewhere = s.path().join("elsewhere");
    for rel in ["derived", "derived/lexical", "derived/lexical/l00000001"] {
        let _ = fs::remove_dir_all(s.data().join("derived"));
        let _ = fs::remove_dir_all(&elsewhere);
        fs::create_dir_all(elsewhere.join("lexical/l00000001")).unwrap();
        fs::write(elsewhere.join("lexical/l00000001/index.db"), "mine").unwrap();
        let before = snapshot(&elsewhere);
        let link = s.data().join(rel);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&elsewhere, &link).unwrap();
        let run = s.run(&["index"]).expect(0);
        assert_eq!(run.text("/lexical/outcome"), "built", "{}", run.stdout);
        assert!(snapshot(&elsewhere) == before, "{rel}");
        assert_eq!(search(&s, &["needle"]).number("/total"), 1, "{rel}");
    }
}
