//! The command that repairs: every case through the program, in a home without data directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use cass::session_log::LogName;
use serde_json::Value;

use crate::cases::{self, Case};
use crate::table::{check_all, text_of};

/// A home, and what is run in it.
pub struct Home {
    pub dir: tempfile::TempDir,
}

impl Home {
    pub fn new() -> Home {
        // In memory where that can be: every run syncs, and none of these tests is about a disk.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() {
            tempfile::tempdir_in(memory)
        } else {
            tempfile::tempdir()
        };
        Home {
            dir: dir.expect("a home"),
        }
    }

    /// Runs words; exit and document.
    pub fn run(&self, words: &[&str]) -> (i32, Value) {
        let output = Command::cargo_bin("cass")
            .expect("the program")
            .env_clear()
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path())
            .args(words)
            .arg("--json")
            .output()
            .expect("it runs");
        let code = output.status.code().expect("a code");
        let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
            panic!(
                "{words:?}: {e}: {}",
                String::from_utf8_lossy(&output.stdout)
            )
        });
        (code, document)
    }

    pub fn repair(&self, words: &[&str], path: &Path) -> (i32, Value) {
        let path = path.to_str().expect("UTF-8");
        let mut all = vec!["doctor", "session-log", "repair"];
        all.extend(words);
        all.extend(["--", path]);
        let at = all.len() - 2;
        all.insert(at, "--json");
        // Behind the separator everything is a name.
        let output = Command::cargo_bin("cass")
            .expect("the program")
            .env_clear()
            .env("HOME", self.dir.path())
            .current_dir(self.dir.path())
            .args(&all)
            .output()
            .expect("it runs");
        let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
            panic!("{all:?}: {e}: {}", String::from_utf8_lossy(&output.stdout))
        });
        (output.status.code().expect("a code"), document)
    }

    /// Plans and applies.
    pub fn apply(&self, words: &[&str], path: &Path) -> (i32, Value) {
        let (code, plan) = self.repair(words, path);
        assert_eq!((code, &plan["status"]), (0, &"planned".into()), "{plan}");
        self.apply_as(words, path, fingerprint(&plan))
    }

    pub fn apply_as(&self, words: &[&str], path: &Path, fingerprint: &str) -> (i32, Value) {
        let mut all = words.to_vec();
        all.extend(["--yes", "--plan-fingerprint", fingerprint]);
        self.repair(&all, path)
    }

    pub fn is_empty(&self) -> bool {
        fs::read_dir(self.dir.path()).expect("the home").count() == 0
    }
}

pub fn fingerprint(plan: &Value) -> &str {
    plan["repair_plan"]["plan_fingerprint"]
        .as_str()
        .expect("a fingerprint")
}

/// Every file below a folder with its bytes.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = walkdir::WalkDir::new(root).into_iter();
    all.filter(|_| root.exists())
        .map(|e| e.expect("an entry"))
        .filter(|e| e.file_type().is_file())
        .map(|e| {
            let rel = e.path().strip_prefix(root).expect("below");
            (rel.to_owned(), fs::read(e.path()).expect("read"))
        })
        .collect()
}

/// The frames of a packed log, by zstd's own reckoning.
fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let Ok(len) = zstd::zstd_safe::find_frame_compressed_size(bytes) else {
            break;
        };
        let (frame, rest) = bytes.split_at(len);
        out.push(frame);
        bytes = rest;
    }
    out
}

/// How a repair treats what it does not touch: lines, or frames with the header's as exactly one line.
fn keeps_what_it_does_not_touch(name: &str, was: &[u8], is: &[u8]) {
    if !name.ends_with("__zstd") {
        return;
    }
    let (was, is) = (frames(was), frames(is));
    let header = zstd::stream::decode_all(is[0]).expect("a frame");
    assert_eq!(header.iter().filter(|b| **b == b'\n').count(), 1, "{name}");
    assert_eq!(header.last(), Some(&b'\n'), "{name}");
    // A frame whose text is all still there in one piece is there byte for byte.
    let text = text_of(&is.concat(), true);
    let reframed = name.contains("frame_layout");
    for frame in was.iter().filter(|_| !reframed) {
        let of_frame = zstd::stream::decode_all(*frame).expect("a frame");
        let kept = is.contains(frame);
        let at = memchr::memmem::find_iter(&text, &of_frame).count();
        // Its text may be there once more where it was dropped: then the other frame is kept.
        assert!(kept || at <= 1, "{name}: a frame was packed anew");
        if !kept && at == 1 {
            let twin = is
                .iter()
                .any(|f| zstd::stream::decode_all(*f).expect("a frame") == of_frame);
            assert!(!twin, "{name}: a frame was packed anew");
        }
    }
}

/// The rows that a plan leaves out, one by one, each with the digest of its bytes.
fn says_what_it_leaves_out(case: &Case, plan: &Value) {
    use sha2::{Digest, Sha256};
    let name = &case.name;
    let log = case.log();
    let packed = log.extension().is_some_and(|e| e == "zstd");
    let bytes = fs::read(&log).expect("the log");
    // Of a torn frame zstd's own tool gives what it can.
    let mut text = Vec::new();
    if packed {
        let mut decoder = zstd::stream::read::Decoder::new(&bytes[..]).expect("a decoder");
        let mut block = [0; 1];
        while matches!(std::io::Read::read(&mut decoder, &mut block), Ok(1)) {
            text.push(block[0]);
        }
    } else {
        text = bytes;
    }
    let left_out = &plan["repair_plan"]["actions"][0]["log"]["left_out"];
    let all = left_out["first"].as_array().expect("a list");
    let ranges = case.expected["dropped_rows"].as_array().expect("rows");
    let due: Vec<u64> = ranges
        .iter()
        .flat_map(|r| r[0].as_u64().expect("a row")..=r[1].as_u64().expect("a row"))
        .collect();
    // What a fingerprint covers has its numbers as text.
    let count = |v: &Value| v.as_str().and_then(|n| n.parse::<u64>().ok());
    let rows: Vec<u64> = all.iter().filter_map(|r| count(&r["row"])).collect();
    let shown = due.len().min(20);
    assert_eq!(rows[..shown], due[..shown], "{name}");
    let total = count(&left_out["total"]).expect("a number");
    let fragments = all.iter().filter(|r| r["row"].is_null()).count();
    assert_eq!(total, (due.len() + fragments) as u64, "{name}");
    let ends_torn = !text.ends_with(b"\n");
    assert_eq!(fragments, usize::from(ends_torn), "{name}");
    for one in all {
        let number =
            |key: &str| usize::try_from(count(&one[key]).expect("a number")).expect("fits");
        let at = number("offset");
        let row = &text[at..at + number("bytes")];
        assert!(!row.contains(&b'\n'), "{name}");
        assert_eq!(text[at - 1], b'\n', "{name}");
        let end = text.get(at + row.len());
        assert_eq!(end.is_none(), one["row"].is_null(), "{name}");
        if let Some(n) = count(&one["row"]) {
            let before = text[..at].iter().filter(|b| **b == b'\n').count();
            assert_eq!(before as u64, n, "{name}");
        }
        let digest: String = Sha256::digest(row)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(one["sha256"], digest, "{name}");
    }
}

fn goes_as_expected(case: &Case) {
    let name = &case.name;
    let tree_root = case.root();
    let before = tree(&tree_root);
    let home = Home::new();
    // Below this root two logs are refused: a plan is about one.
    let root = match name.strip_suffix("__raw").or(name.strip_suffix("__zstd")) {
        Some("identity_same_id_in_two_projects") => {
            let (code, several) = home.repair(&[], &tree_root);
            assert_eq!(
                (code, &several["err"]["kind"]),
                (2, &"ambiguous-name".into())
            );
            case.log()
        }
        _ => tree_root.clone(),
    };
    let optional = case.text("verdict") == Some("interrupted_turn_recoverable");
    let words: &[&str] = if optional { &["--close-turn"] } else { &[] };
    if optional {
        let (code, idle) = home.repair(&[], &root);
        assert_eq!(
            (code, &idle["status"]),
            (0, &"no-op".into()),
            "{name}: {idle}"
        );
    }
    let (code, plan) = home.repair(words, &root);
    assert!(home.is_empty(), "{name}: a plan writes nothing");
    assert_eq!(plan["log"]["verdict"], case.expected["verdict"], "{name}");
    if case.expected["must_refuse"] == true {
        assert_eq!(
            (code, &plan["status"]),
            (21, &"blocked".into()),
            "{name}: {plan}"
        );
        assert_eq!(plan["err"]["kind"], "blocked", "{name}");
        let kinds: Vec<&str> = plan["evidence_searched"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|e| e["kind"].as_str().expect("a word"))
            .collect();
        assert_eq!(
            kinds,
            [
                "older-generation",
                "captured-version",
                "backup",
                "forked-child",
                "live-process"
            ],
            "{name}"
        );
        let log = &plan["log"];
        let some = |key: &str| log[key].as_array().is_some_and(|l| !l.is_empty());
        match case.text("verdict") {
            Some("forked_log") => assert!(some("candidates"), "{name}: {log}"),
            Some("tool_identity_mismatch") => {
                assert!(some("call_places"), "{name}: {log}");
                let places = log["call_places"].as_array().expect("places");
                let roles: Vec<&str> = places.iter().filter_map(|p| p["place"].as_str()).collect();
                assert!(
                    roles.contains(&"result") || roles.contains(&"call"),
                    "{name}: {log}"
                );
            }
            _ => {}
        }
        // The refused plan can't be applied either, and leaves no data directory.
        let (code, refused) = home.apply_as(words, &root, fingerprint(&plan));
        assert_eq!(
            (code, &refused["err"]["kind"]),
            (21, &"blocked".into()),
            "{name}"
        );
        assert!(home.is_empty(), "{name}");
    } else if let Some(wanted) = case.repaired() {
        assert_eq!(
            (code, &plan["status"]),
            (0, &"planned".into()),
            "{name}: {plan}"
        );
        says_what_it_leaves_out(case, &plan);
        let (code, done) = home.apply_as(words, &root, fingerprint(&plan));
        assert_eq!(
            (code, &done["status"]),
            (0, &"applied".into()),
            "{name}: {done}"
        );
        let output = home.dir.path().join("repaired-sessions");
        let log = case.log();
        let rel = log.strip_prefix(&root).expect("below");
        let written = tree(&output);
        assert_eq!(written.keys().collect::<Vec<_>>(), [rel], "{name}");
        let packed = LogName::of(log.file_name().expect("a name").to_str().expect("UTF-8"))
            .expect("a log")
            .packed;
        assert!(
            text_of(&written[rel], packed) == text_of(&wanted, packed),
            "{name}: the repaired text differs"
        );
        keeps_what_it_does_not_touch(name, &before[rel], &written[rel]);
        let lines = text_of(&wanted, packed)
            .iter()
            .filter(|b| **b == b'\n')
            .count();
        assert_eq!(plan["log_after"]["rows"], lines - 1, "{name}");
        let events = &case.expected["repaired_event_count"];
        assert_eq!(plan["log_after"]["events"], *events, "{name}");
        let told = &check_all(&output)[0].1.diagnosis;
        assert_eq!(plan["log_after"]["verdict"], told.verdict.name(), "{name}");
        let (code, again) = home.repair(&[], &output);
        assert_eq!(
            (code, &again["status"]),
            (0, &"no-op".into()),
            "{name}: {again}"
        );
        let (code, twice) = home.repair(words, &root);
        assert_eq!(
            (code, &twice["status"]),
            (0, &"no-op".into()),
            "{name}: {twice}"
        );
        let (code, repeated) = home.apply_as(words, &root, fingerprint(&plan));
        assert_eq!(
            (code, &repeated["status"]),
            (0, &"already-applied".into()),
            "{name}: {repeated}"
        );
        let at = log.to_str().expect("UTF-8").to_owned() + "@1";
        let (code, _) = home.run(&["mirror", "get", &at, "-o", "original"]);
        assert_eq!(code, 0, "{name}");
        let original = fs::read(home.dir.path().join("original")).expect("the original");
        assert!(
            original == before[rel],
            "{name}: the mirror has the original"
        );
    } else {
        assert_eq!(
            (code, &plan["status"]),
            (0, &"no-op".into()),
            "{name}: {plan}"
        );
    }
    assert!(
        tree(&tree_root) == before,
        "{name}: the original was changed"
    );
}

#[test]
fn the_page_tells_the_log_before_and_after_and_nothing_of_the_archive() {
    let (case, home) = (cases::named("dup_last_4__raw"), Home::new());
    let (log, wanted) = (case.log(), case.repaired().expect("a log"));
    let rows = |text: &[u8]| text.iter().filter(|b| **b == b'\n').count() - 1;
    let words = |yes: &[&str]| {
        let output = Command::cargo_bin("cass")
            .expect("the program")
            .env_clear()
            .env("HOME", home.dir.path())
            .current_dir(home.dir.path())
            .args(["doctor", "session-log", "repair"])
            .args(yes)
            .arg(&log)
            .output()
            .expect("it runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    // An archive has something to be told of.
    assert_eq!(home.run(&["index"]).0, 0);
    let (_, plan) = home.repair(&[], &log);
    let pages = [
        words(&[]),
        words(&["--yes", "--plan-fingerprint", fingerprint(&plan)]),
    ];
    let was = fs::read(&log).expect("the log");
    for page in pages {
        let of = |what: &str| {
            let mut lines = page.lines().filter(|l| l.trim_start().starts_with(what));
            let line = lines.next().unwrap_or_else(|| panic!("{what}: {page}"));
            assert_eq!(lines.next(), None, "{page}");
            line.to_owned()
        };
        let (before, after) = (of("before "), of("after "));
        assert!(before.contains(&format!(" {} rows,", rows(&was))), "{page}");
        assert!(before.ends_with("reappended_duplicates"), "{page}");
        assert!(
            after.contains(&format!(" {} rows,", rows(&wanted))),
            "{page}"
        );
        assert!(after.ends_with(", clean"), "{page}");
        assert!(page.contains("left out  row "), "{page}");
    }
}

#[test]
fn every_case_is_repaired_or_refused_as_it_must_be() {
    let all = cases::all();
    std::thread::scope(|scope| {
        for part in all.chunks(all.len().div_ceil(4)) {
            scope.spawn(|| part.iter().for_each(goes_as_expected));
        }
    });
}
