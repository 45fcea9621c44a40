//! Logs that lost something which a captured version of them still has.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::cases;
use crate::repairing::{Home, fingerprint};
use crate::table::text_of;

/// A harness's home with one log in it.
struct Lab {
    home: Home,
    log: PathBuf,
    /// The log as it was when nothing was wrong with it.
    whole: Vec<u8>,
}

impl Lab {
    fn of(name: &str) -> Lab {
        let case = cases::named(name);
        let home = Home::new();
        let root = home.dir.path().join(".dsh/sessions");
        cases::copy_tree(&case.root(), &root);
        let log = root.join(case.log().strip_prefix(case.root()).expect("below"));
        let whole = fs::read(&log).expect("the log");
        Lab { home, log, whole }
    }

    /// Lets the log have these bytes, and captures it.
    fn capture(&self, bytes: &[u8]) {
        fs::write(&self.log, bytes).expect("written");
        let (code, document) = self.home.run(&["index"]);
        assert_eq!(code, 0, "{document}");
    }

    fn plan(&self, bytes: &[u8]) -> (i32, Value) {
        fs::write(&self.log, bytes).expect("written");
        self.home.repair(&[], &self.log)
    }

    /// The log of these bytes becomes `wanted`.
    fn becomes(&self, what: &str, bytes: &[u8], wanted: &[u8]) {
        let (code, plan) = self.plan(bytes);
        assert_eq!(
            (code, &plan["status"]),
            (0, &"planned".into()),
            "{what}: {plan}"
        );
        assert_eq!(plan["log"]["must_refuse"], true, "{what}");
        let make = &plan["repair_plan"]["actions"][0]["log"]["make"];
        assert_eq!(make["by"], "rebuild", "{what}: {plan}");
        let completes = |e: &&Value| e["completes"] == true;
        let evidence = plan["evidence_searched"].as_array().expect("a list");
        assert!(evidence.iter().any(|e| completes(&e)), "{what}: {plan}");
        let output = self.home.dir.path().join(format!("out {what}"));
        let words = ["--output", output.to_str().expect("UTF-8")];
        let (code, done) = self.home.apply(&words, &self.log);
        assert_eq!(
            (code, &done["status"]),
            (0, &"applied".into()),
            "{what}: {done}"
        );
        let rel = self
            .log
            .strip_prefix(self.home.dir.path().join(".dsh/sessions"));
        let made = fs::read(output.join(rel.expect("below"))).expect("the new log");
        assert!(made == wanted, "{what}: not what it was");
        assert!(
            fs::read(&self.log).expect("the log") == bytes,
            "{what}: the log was changed"
        );
    }

    fn is_refused(&self, what: &str, bytes: &[u8]) {
        let (code, plan) = self.plan(bytes);
        assert_eq!(
            (code, &plan["err"]["kind"]),
            (21, &"blocked".into()),
            "{what}: {plan}"
        );
        let (code, _) = self.home.apply_as(&[], &self.log, fingerprint(&plan));
        assert_eq!(code, 21, "{what}");
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|b| *b == b'\n').collect()
}

fn without(lines: &[&[u8]], gone: std::ops::Range<usize>) -> Vec<u8> {
    [&lines[..gone.start], &lines[gone.end..]].concat().concat()
}

#[test]
fn what_a_captured_version_has_comes_back_byte_for_byte() {
    let lab = Lab::of("clean_two_turns__raw");
    let whole = lab.whole.clone();
    let rows = lines(&whole);
    assert!(rows.len() > 50);
    // The log went on since it was captured.
    lab.capture(&rows[..40].concat());
    lab.becomes("middle", &without(&rows, 20..25), &whole);
    lab.becomes("begin", &without(&rows, 0..7), &whole);
    let mut zeros = whole.clone();
    let at = rows[..20].concat().len();
    zeros[at..at + rows[20].len() + rows[21].len()].fill(0);
    lab.becomes("zeros", &zeros, &whole);

    // Up to the end of what was captured nothing behind the hole can be compared.
    lab.is_refused("beyond", &without(&rows, 35..42));
    lab.is_refused("at its end", &without(&rows, 30..40));
    // Another log, or one that has a row of its own in the hole.
    let mut other = without(&rows, 20..25);
    let at = memchr::memmem::find(&other, b"\"time\":1").expect("a time") + 8;
    other[at] = if other[at] == b'9' { b'8' } else { b'9' };
    lab.is_refused("differs before", &other);
    let mut own = rows.clone();
    let foreign = String::from_utf8(rows[21].to_vec()).expect("UTF-8");
    let foreign = foreign.replacen("\"turn\":1", "\"turn\":7", 1);
    own[21] = foreign.as_bytes();
    own.remove(22);
    lab.is_refused("own row", &own.concat());
    let mut behind = rows.clone();
    let changed = String::from_utf8(rows[30].to_vec()).expect("UTF-8");
    let changed = changed.replacen("\"time\":", "\"time\":1", 1);
    behind[30] = changed.as_bytes();
    lab.is_refused("differs behind", &without(&behind, 20..25));
}

#[test]
fn a_frame_that_is_damaged_comes_back_from_a_captured_version() {
    let lab = Lab::of("clean_two_turns__zstd");
    let whole = lab.whole.clone();
    let mut borders = vec![0];
    while borders[borders.len() - 1] < whole.len() {
        let at = borders[borders.len() - 1];
        let len = zstd::zstd_safe::find_frame_compressed_size(&whole[at..]).expect("a frame");
        borders.push(at + len);
    }
    assert!(borders.len() > 8);
    lab.capture(&whole[..borders[borders.len() - 3]]);
    let (from, to) = (borders[3], borders[4]);
    let mut flipped = whole.clone();
    flipped[(from + to) / 2] ^= 0x40;
    lab.becomes("flipped", &flipped, &whole);
    lab.becomes("gone", &[&whole[..from], &whole[to..]].concat(), &whole);
    let mut garbage = whole.clone();
    garbage.splice(from..to, *b"no frame at all");
    lab.becomes("garbage", &garbage, &whole);
    let mut header = whole.clone();
    header[..4].fill(0xFF);
    lab.becomes("header", &header, &whole);
    let n = borders.len();
    lab.is_refused(
        "beyond",
        &[&whole[..borders[n - 4]], &whole[borders[n - 2]..]].concat(),
    );
    assert!(!text_of(&whole, true).is_empty());
}

#[test]
fn what_is_no_loss_is_refused_whatever_was_captured() {
    for (clean, damaged) in [
        ("clean_two_turns__raw", "tool_result_ids_disagree__raw"),
        ("clean_two_turns__raw", "dup_differs_in_payload__raw"),
        ("clean_two_turns__raw", "turn_numbers_jump__raw"),
    ] {
        let lab = Lab::of(clean);
        let case = cases::named(damaged);
        let bytes = fs::read(case.log()).expect("the log");
        lab.capture(&lab.whole);
        lab.is_refused(damaged, &bytes);
    }
}

#[test]
fn other_evidence_is_named_where_it_lies() {
    let case = cases::named("missing_middle_4__raw");
    let (log, home) = (case.log(), Home::new());
    // An older generation, and a session that was forked from this one.
    let text = fs::read_to_string(&log).expect("the log");
    fs::copy(&log, log.with_file_name("session.v1.jsonl")).expect("copied");
    let v1 = text.replacen("\"version\":0", "\"version\":1", 1);
    fs::write(log.with_file_name("session.v1.jsonl"), v1).expect("written");
    let id = case.text("session_id").expect("an id");
    let (header, rest) = text.split_once('\n').expect("a header");
    let child = header.replacen(id, "session-child", 1);
    let child = child.trim_end_matches('}').to_owned()
        + &format!(",\"parentSession\":\"{id}\",\"seedLength\":9}}\n{rest}");
    let folder = log
        .parent()
        .and_then(std::path::Path::parent)
        .expect("a project");
    fs::create_dir(folder.join("session-child")).expect("a folder");
    fs::write(folder.join("session-child/session.jsonl"), child).expect("written");
    let (code, plan) = home.repair(&[], &log.with_file_name("session.v1.jsonl"));
    assert_eq!(code, 21, "{plan}");
    let of = |kind: &str| {
        let list = plan["evidence_searched"].as_array().expect("a list");
        list.iter()
            .find(|e| e["kind"] == kind)
            .expect("told")
            .clone()
    };
    let older = of("older-generation");
    assert_eq!(
        (&older["found"], &older["verdict"]),
        (&true.into(), &"missing_middle".into())
    );
    assert!(
        older["path"]["path"]
            .as_str()
            .expect("a path")
            .ends_with("session.jsonl")
    );
    let child = of("forked-child");
    assert_eq!(
        (&child["found"], &child["events"]),
        (&true.into(), &9.into()),
        "{plan}"
    );
    assert_eq!(of("captured-version")["found"], false);
    let live = of("live-process");
    assert!(
        live["what"]
            .as_str()
            .expect("words")
            .contains("Stop prompting")
    );
}

#[test]
fn a_torn_log_of_which_more_was_captured_is_told() {
    let lab = Lab::of("clean_two_turns__raw");
    let whole = lab.whole.clone();
    lab.capture(&whole);
    let rows = lines(&whole);
    let torn = [rows[..30].concat(), rows[30][..9].to_vec()].concat();
    let (code, plan) = lab.plan(&torn);
    assert_eq!((code, &plan["status"]), (0, &"planned".into()), "{plan}");
    let warned = plan["safety_gates"]
        .as_array()
        .expect("gates")
        .iter()
        .find(|g| g["verdict"] == "warn")
        .expect("a warning");
    let reason = warned["reason"].as_str().expect("words");
    assert!(reason.contains("has 52 events"), "{reason}");
    // A log that only has what was captured has no such warning.
    let (_, plan) = lab.plan(&[&whole[..], b"{\"type"].concat());
    assert!(!plan["safety_gates"].to_string().contains("warn"), "{plan}");
}
