//! What is lost for good: it is listed by session and record, accepted by plan, and no alarm from then
//! on; and what comes back is used.

use std::fs;

use serde_json::Value;

use super::lab::{apply, bytes, claude, current, db, exported, fingerprint, indexed, plan, tamper};
use super::sandbox::{Ran, Sandbox};

const SESSION: &str = ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl";
const NATIVE: &str = "00000000-0000-4000-8000-000000000001";
const PACK: &str = "raw-mirror/packs/00000001.pack";

/// The harnesses pruned everything.
fn prune(s: &Sandbox) {
    for folder in [".claude", ".codex"] {
        let _ = fs::remove_dir_all(s.home().join(folder));
    }
}

fn words(planned: &Ran) -> Vec<String> {
    let actions = planned.at("/repair_plan/actions").as_array().unwrap();
    let word = |a: &Value| a["action"].as_str().unwrap().to_owned();
    actions.iter().map(word).collect()
}

fn rung(planned: &Ran) -> Vec<u64> {
    let rungs = planned.at("/repair_plan/rungs").as_array().unwrap();
    let taken = rungs.iter().filter(|r| r["taken"] == true);
    taken.map(|r| r["rung"].as_u64().unwrap()).collect()
}

fn lost(planned: &Ran) -> Vec<Value> {
    planned
        .at("/coverage_summary/lost")
        .as_array()
        .unwrap()
        .clone()
}

/// Both checks end with 0; the codes of what the deep one found, without what is only info.
#[track_caller]
fn no_error(s: &Sandbox) -> Vec<String> {
    s.run(&["doctor", "check"]).expect(0);
    let check = s
        .run(&["doctor", "check", "--deep", "--detail", "full"])
        .expect(0);
    let found = check.at("/findings").as_array().unwrap();
    let alarm = found.iter().filter(|f| f["severity"] != "info");
    alarm
        .map(|f| f["code"].as_str().unwrap().to_owned())
        .collect()
}

#[track_caller]
fn code(s: &Sandbox, args: &[&str], code: &str) -> Option<Value> {
    let check = s.run(&[&["doctor", "check", "--detail", "full"], args].concat());
    let found = check.at("/findings").as_array().unwrap().clone();
    found.into_iter().find(|f| f["code"] == code)
}

#[test]
fn what_the_verified_archive_holds_is_a_warning_once_its_source_is_gone() {
    for gone in [PACK, "raw-mirror"] {
        let s = indexed();
        let path = s.data().join(gone);
        match gone {
            PACK => fs::remove_file(path).unwrap(),
            _ => fs::remove_dir_all(path).unwrap(),
        }
        // While the source can heal it, it is an error, and the repair says what does.
        s.run(&["doctor", "check", "--deep"]).expect(1);
        let planned = plan(&s, &["doctor", "repair"]).expect(0);
        assert_eq!(planned.text("/recommended_action"), "index-full", "{gone}");
        prune(&s);
        assert!(no_error(&s).contains(&"archive-only".to_owned()), "{gone}");
        let check = s.run(&["doctor", "check"]).expect(0);
        assert_eq!(check.text("/status"), "warn");
        assert_eq!(check.text("/coverage_risk/status"), "archive-only");
        let planned = plan(&s, &["doctor", "repair"]).expect(0);
        assert_eq!(planned.text("/status"), "no-op", "{}", planned.stdout);
        // Rows that are damaged as well hold nothing.
        tamper(&s);
        s.run(&["doctor", "check", "--deep"]).expect(1);
    }
}

#[test]
fn what_nothing_holds_is_accepted_by_plan_and_comes_back_by_undo_or_with_its_bytes() {
    let s = indexed();
    // Captured as evidence: no row was ever made of it.
    s.put(
        ".claude/history.jsonl",
        b"{\"display\":\"a prompt\",\"timestamp\":1780000000000,\"project\":\"/src/a\"}\n",
    );
    s.run(&["index"]).expect(0);
    prune(&s);
    no_error(&s);
    let kept = s.path().join("kept.pack");
    fs::rename(s.data().join(PACK), &kept).unwrap();
    let error = code(&s, &[], "promise-not-kept").unwrap();
    assert_eq!(error["severity"], "error");
    let truth = exported(&s);

    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "planned", "{}", planned.stdout);
    assert_eq!(words(&planned), ["accept-loss"]);
    assert_eq!(planned.text("/risk_level"), "high");
    let all = lost(&planned);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["what"], "capture");
    assert_eq!(all[0]["seq"], "1");
    assert!(all[0]["hash"].is_string() && all[0]["source"].is_string());
    let packs = fs::read_dir(s.data().join("raw-mirror/packs")).unwrap();
    assert_eq!(packs.count(), 0, "nothing was put there");

    let before = bytes(&s);
    let applied = apply(&s, &planned).expect(0);
    assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
    let run = applied.text("/receipt/run_id").to_owned();
    // Nothing that was there was changed or removed.
    let after = bytes(&s);
    for (path, hash) in &before {
        let is_log = path.ends_with("events.jsonl") || path.ends_with("writer.info");
        assert!(
            is_log || after.get(path) == Some(hash),
            "{}",
            path.display()
        );
    }
    no_error(&s);
    let info = code(&s, &["--deep"], "accepted-loss").unwrap();
    assert_eq!(info["severity"], "info");
    assert!(info["message"].as_str().unwrap().contains(&run), "{info}");
    let again = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(again.text("/status"), "no-op", "{}", again.stdout);
    assert_eq!(
        apply(&s, &planned).expect(0).text("/status"),
        "already-applied"
    );

    // Undone: the alarm is back, and the same plan applies again.
    let argv = applied.at("/rollback/argv").as_array().unwrap();
    assert_eq!(argv[4].as_str().unwrap(), run);
    let undo = plan(&s, &["doctor", "runs", "undo", "latest"]).expect(0);
    apply(&s, &undo).expect(0);
    s.run(&["doctor", "check"]).expect(1);
    let third = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(fingerprint(&third), fingerprint(&planned));
    apply(&s, &third).expect(0);
    no_error(&s);
    assert_eq!(exported(&s), truth);

    // A damaged record of it accepts nothing.
    let record = s.data().join("doctor/accepted");
    let newest = fs::read_dir(&record)
        .unwrap()
        .map(|e| e.unwrap().path())
        .max()
        .unwrap();
    let text = fs::read_to_string(&newest).unwrap();
    fs::write(&newest, text.replace("\"seq\":1", "\"seq\":2")).unwrap();
    s.run(&["doctor", "check"]).expect(1);
    fs::write(&newest, text).unwrap();
    no_error(&s);

    // The bytes come back: nothing is lost any more, whatever was accepted.
    fs::rename(&kept, s.data().join(PACK)).unwrap();
    assert_eq!(no_error(&s), [""; 0]);
    s.run(&["mirror", "verify", "--deep"]).expect(0);
    s.run(&["index"]).expect(0);
    assert_eq!(exported(&s), truth);
}

#[test]
fn where_nothing_can_be_read_a_new_archive_is_begun_by_plan() {
    for gone in ["noise", "file", "generations"] {
        let s = indexed();
        let old = current(&s);
        let truth = exported(&s);
        match gone {
            "noise" => fs::write(db(&s), [9u8; 50_000]).unwrap(),
            "file" => fs::remove_file(db(&s)).unwrap(),
            _ => fs::remove_dir_all(s.data().join("generations")).unwrap(),
        }
        fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
        s.run(&["doctor", "check"]).expect(1);

        let planned = plan(&s, &["doctor", "repair"]).expect(0);
        assert_eq!(planned.text("/status"), "planned", "{}", planned.stdout);
        assert_eq!(rung(&planned), [6]);
        assert_eq!(
            words(&planned),
            ["stage-candidate", "accept-loss", "promote-candidate"]
        );
        let records: u64 = lost(&planned)
            .iter()
            .map(|l| l["count"].as_str().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(records, planned.number("/coverage_summary/missing_records"));
        assert_eq!(planned.number("/coverage_summary/missing_conversations"), 2);
        assert!(lost(&planned).iter().all(|l| l["source"].is_string()));
        let seqs: Vec<_> = lost(&planned).iter().map(|l| l["seq"].clone()).collect();
        assert!(seqs.contains(&"2".into()), "{seqs:?}");

        let applied = apply(&s, &planned).expect(0);
        assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
        prune(&s);
        // What is derived serves the new one once an index has run.
        s.run(&["index"]).expect(0);
        assert_eq!(no_error(&s), [""; 0], "{gone}");
        assert!(code(&s, &[], "accepted-loss").is_some());
        assert!(s.sessions().is_empty());
        if gone == "noise" {
            let seal = s.data().join("generations").join(&old).join("seal.json");
            let seal: Value = serde_json::from_slice(&fs::read(seal).unwrap()).unwrap();
            assert_eq!(seal["sole_copy"], true);
            // The noise is no orphan either.
            let idle = plan(&s, &["doctor", "repair"]).expect(0);
            assert_eq!(idle.text("/status"), "no-op", "{}", idle.stdout);
        }

        // Life goes on, and what is lost from now on is an alarm again, under the same numbers.
        s.put(SESSION, &claude(60));
        s.run(&["index"]).expect(0);
        assert_eq!(no_error(&s), [""; 0], "{gone}");
        assert_eq!(s.sessions().len(), 1);
        let id = s.sessions()[0]["id"].as_str().unwrap().to_owned();
        let texts =
            |all: &[Value]| -> Vec<Value> { all.iter().map(|m| m["text"].clone()).collect() };
        assert_eq!(texts(&s.messages(&id)), texts(&truth[&id]));
        let now = s.messages(&id);
        tamper(&s);
        s.run(&["doctor", "check", "--deep"]).expect(1);
        let second = plan(&s, &["doctor", "repair"]).expect(0);
        assert_eq!(rung(&second), [4], "{}", second.stdout);
        assert_eq!(second.number("/coverage_summary/missing_conversations"), 0);
        apply(&s, &second).expect(0);
        assert_eq!(s.messages(&id), now);
        assert_eq!(no_error(&s), ["lexical-stale"], "{gone}");
        fs::remove_file(s.data().join(PACK)).unwrap();
        prune(&s);
        tamper(&s);
        s.run(&["doctor", "check", "--deep"]).expect(1);
    }
}

#[test]
fn a_new_archive_is_never_begun_where_anything_gives_more() {
    let s = indexed();
    let backup = plan(&s, &["doctor", "backups", "create"]).expect(0);
    apply(&s, &backup).expect(0);
    fs::write(db(&s), [9u8; 50_000]).unwrap();
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(rung(&planned), [5], "{}", planned.stdout);
    assert!(!words(&planned).contains(&"accept-loss".to_owned()));
    // A damaged backup still gives its rows.
    super::lab::damage_text(
        &s.data().join("backups/b00000001/agent_search.db"),
        b"answer 7:",
    );
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(rung(&planned), [4], "{}", planned.stdout);
    let all = lost(&planned);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["what"], "messages");
}

#[test]
fn begun_anew_it_can_be_undone_and_what_the_mirror_has_is_read() {
    let s = indexed();
    fs::write(db(&s), [9u8; 50_000]).unwrap();
    let noise = fs::read(db(&s)).unwrap();
    let old = current(&s);
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    // Captures only: the archive is gone.
    s.run(&["index"]).expect(1);
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    // The mirror has those numbers again.
    apply(&s, &planned).expect(0);
    assert_eq!(s.sessions().len(), 2);
    assert_eq!(no_error(&s), ["lexical-stale"]);
    let undo = plan(&s, &["doctor", "runs", "undo", "latest"]).expect(0);
    apply(&s, &undo).expect(0);
    assert_eq!(current(&s), old);
    assert_eq!(fs::read(db(&s)).unwrap(), noise);
    s.run(&["doctor", "check"]).expect(1);
    let again = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(fingerprint(&again), fingerprint(&planned));
}

/// Removes the row of one record and its messages, as a lost page would.
fn remove_line(s: &Sandbox, line: i64) {
    let conn = rusqlite::Connection::open(db(s)).unwrap();
    let id: i64 = conn
        .query_row(
            "SELECT r.id FROM records r JOIN conversations c ON c.id=r.conversation \
             WHERE c.native_id=?1 AND r.line=?2",
            (NATIVE, line),
            |r| r.get(0),
        )
        .unwrap();
    conn.execute_batch("PRAGMA foreign_keys=OFF").unwrap();
    conn.execute(
        "DELETE FROM messages WHERE id>=?1 AND id<?2",
        (id << 24, (id + 1) << 24),
    )
    .unwrap();
    conn.execute("DELETE FROM records WHERE id=?1", [id])
        .unwrap();
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    conn.close().unwrap();
}

#[test]
fn what_is_lost_is_listed_by_session_and_record() {
    let s = indexed();
    prune(&s);
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    let line = |n: usize| -> Vec<u8> {
        let text = claude(60);
        text.split(|b| *b == b'\n').nth(n - 1).unwrap().to_vec()
    };
    // One text; one row without a trace; two rows of the second capture.
    tamper(&s);
    for n in [18, 50, 51] {
        remove_line(&s, n);
    }
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(rung(&planned), [3], "{}", planned.stdout);
    assert_eq!(planned.number("/coverage_summary/missing_records"), 3);
    let missing = &planned.at("/coverage_summary/missing")[0];
    assert_eq!(missing["native_id"], NATIVE);
    assert_eq!(missing["provider"], "claude");
    let all = lost(&planned);
    assert_eq!(all.len(), 3, "{all:#?}");
    assert!(all.iter().all(|l| l["native_id"] == NATIVE));
    let of = |what: &str, seq: &str| {
        all.iter()
            .find(|l| l["what"] == what && l["seq"] == seq)
            .unwrap_or_else(|| panic!("{what} {seq} in {all:#?}"))
    };
    let one = of("records", "1");
    assert_eq!(
        (&one["count"], &one["lines"][0], &one["lines"][1]),
        (&"1".into(), &"18".into(), &"18".into())
    );
    let two = of("records", "2");
    assert_eq!(
        (&two["count"], &two["lines"][0], &two["lines"][1]),
        (&"2".into(), &"50".into(), &"51".into())
    );
    let text = of("messages", "1");
    assert_eq!(text["lines"][0], "8");
    assert_eq!(text["hash"], blake3::hash(&line(8)).to_hex().to_string());
    assert_eq!(text["reason"], "row-damaged");
    // Covered: another loss is another plan.
    assert_eq!(planned.at("/repair_plan/covered/lost/total"), "3");

    // For people.
    let page = s.command(&["doctor", "repair"]).output().unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    for told in ["line 18", "lines 50 to 51", "line 8", NATIVE, "capture 2"] {
        assert!(page.contains(told), "{told} in {page}");
    }

    let applied = apply(&s, &planned).expect(0);
    assert_eq!(applied.text("/status"), "applied", "{}", applied.stdout);
    let codes = no_error(&s);
    assert!(!codes.is_empty() && codes.iter().all(|c| c != "promise-not-kept"));
    assert!(code(&s, &[], "accepted-loss").is_some());
    assert_eq!(
        plan(&s, &["doctor", "repair"]).expect(0).text("/status"),
        "no-op"
    );

    remove_line(&s, 20);
    // The outgoing archive was kept, and still has it.
    let none = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(none.number("/coverage_summary/missing_records"), 0);
    let sealed = applied.text("/receipt/backup_id");
    fs::remove_dir_all(s.data().join("generations").join(sealed)).unwrap();
    let other = plan(&s, &["doctor", "repair"]).expect(0);
    // What was accepted is not listed again.
    assert_eq!(other.number("/coverage_summary/missing_records"), 1);
    let again: Vec<Value> = lost(&other);
    let rows: Vec<_> = again.iter().filter(|l| l["what"] == "records").collect();
    assert_eq!(rows.len(), 1, "{again:#?}");
    assert_eq!(rows[0]["lines"][0], "20");
    apply(&s, &other).expect(0);
    no_error(&s);
}

#[test]
fn the_plan_of_an_undo_lists_by_session_and_record_what_it_leaves_behind() {
    let s = indexed();
    // One text, two rows; the mirror gives all of them back.
    tamper(&s);
    for n in [18, 19] {
        remove_line(&s, n);
    }
    let repaired = plan(&s, &["doctor", "repair"]).expect(0);
    apply(&s, &repaired).expect(0);
    let undo = plan(&s, &["doctor", "runs", "undo", "latest"]).expect(0);
    assert_eq!(undo.number("/coverage_summary/missing_records"), 2);
    let missing = &undo.at("/coverage_summary/missing")[0];
    assert_eq!(
        (&missing["native_id"], &missing["provider"]),
        (&NATIVE.into(), &"claude".into())
    );
    let all = lost(&undo);
    assert_eq!(all.len(), 2, "{all:#?}");
    assert!(
        all.iter()
            .all(|l| l["native_id"] == NATIVE && l["reason"] == "in-outgoing-archive")
    );
    let text = claude(60);
    let lines: Vec<&[u8]> = text.split(|b| *b == b'\n').collect();
    let rows = all.iter().find(|l| l["what"] == "records").unwrap();
    let begin: usize = lines[..17].iter().map(|l| l.len() + 1).sum();
    assert_eq!(rows["count"], "2");
    assert_eq!(rows["lines"], serde_json::json!(["18", "19"]));
    assert_eq!(rows["bytes"][0], begin.to_string());
    let damaged = all.iter().find(|l| l["what"] == "messages").unwrap();
    assert_eq!(damaged["lines"], serde_json::json!(["8", "8"]));
    assert_eq!(damaged["hash"], blake3::hash(lines[7]).to_hex().to_string());
    assert_eq!(undo.number("/coverage_summary/lost_total"), 2);
    apply(&s, &undo).expect(0);
}

#[test]
fn the_plan_of_a_restore_lists_by_record_what_nothing_can_give() {
    let s = indexed();
    let made = apply(&s, &plan(&s, &["doctor", "backups", "create"]).expect(0)).expect(0);
    let id = made.text("/backup_id").to_owned();
    s.put(SESSION, &claude(90));
    s.run(&["index"]).expect(0);
    prune(&s);
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    for n in [70, 71] {
        remove_line(&s, n);
    }
    let planned = s
        .run(&["doctor", "backups", "restore", "--keep-newer", &id])
        .expect(0);
    assert_eq!(planned.number("/coverage_summary/missing_records"), 2);
    let all = lost(&planned);
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(all[0]["native_id"], NATIVE);
    assert_eq!(all[0]["count"], "2");
    assert_eq!(all[0]["lines"], serde_json::json!(["70", "71"]));
    // Without what is newer, whatever the archive shows and whatever it lost of that is listed.
    let older = s.run(&["doctor", "backups", "restore", &id]).expect(21);
    assert_eq!(older.number("/coverage_summary/missing_records"), 30);
    let all = lost(&older);
    let count = |l: &Value| l["count"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(all.iter().map(count).sum::<u64>(), 30, "{all:#?}");
    assert!(
        all.iter()
            .all(|l| l["reason"] == "newer-than-backup" && l["seq"] == "3")
    );
    let lines: Vec<&Value> = all.iter().map(|l| &l["lines"]).collect();
    for wanted in [
        serde_json::json!(["61", "69"]),
        serde_json::json!(["72", "90"]),
    ] {
        assert!(lines.contains(&&wanted), "{all:#?}");
    }
}

#[test]
fn long_lists_are_cut_with_total_and_the_command_for_all() {
    let s = indexed();
    prune(&s);
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    for n in 0..25 {
        remove_line(&s, 2 * n + 2);
    }
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(lost(&planned).len(), 20);
    assert_eq!(planned.number("/coverage_summary/lost_total"), 25);
    assert!(planned.at("/coverage_summary/lost_digest").is_string());
    let argv: Vec<String> = planned
        .at("/coverage_summary/detail_argv")
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|w| w.as_str().unwrap().to_owned())
        .collect();
    let full = super::lab::run_argv(&s, &argv).expect(0);
    assert_eq!(lost(&full).len(), 25);
    assert_eq!(fingerprint(&full), fingerprint(&planned));
    assert!(full.at("/coverage_summary/detail_argv").is_null());
}

/// A run that was killed before its receipt: its intent is there, and what it wrote.
fn unreceipt(s: &Sandbox, applied: &Ran) {
    fs::remove_file(s.data().join(applied.text("/receipt/path"))).unwrap();
}

#[test]
fn a_killed_run_accepts_nothing_unless_it_is_finished() {
    // Without a promotion it has not taken effect: closed, and the alarm stays.
    let s = indexed();
    s.put(
        ".claude/history.jsonl",
        b"{\"display\":\"a\",\"timestamp\":1780000000000,\"project\":\"/\"}\n",
    );
    s.run(&["index"]).expect(0);
    prune(&s);
    fs::remove_file(s.data().join(PACK)).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    let applied = apply(&s, &planned).expect(0);
    no_error(&s);
    unreceipt(&s, &applied);
    s.run(&["doctor", "check"]).expect(1);
    s.run(&["index"]).expect(0);
    assert!(code(&s, &[], "promise-not-kept").is_some());
    let again = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(fingerprint(&again), fingerprint(&planned));
    apply(&s, &again).expect(0);
    no_error(&s);

    // With one, whoever comes next finishes it.
    let s = indexed();
    fs::write(db(&s), [9u8; 50_000]).unwrap();
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    let applied = apply(&s, &planned).expect(0);
    prune(&s);
    unreceipt(&s, &applied);
    assert!(code(&s, &[], "accepted-loss").is_none());
    s.run(&["index"]).expect(0);
    assert!(code(&s, &[], "accepted-loss").is_some());
    assert_eq!(no_error(&s), [""; 0]);
}

#[test]
fn an_accepted_loss_is_no_promise_to_the_scan_either() {
    let s = indexed();
    fs::write(db(&s), [9u8; 50_000]).unwrap();
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    apply(&s, &planned).expect(0);
    prune(&s);
    s.run(&["index"]).expect(0);
    let scan = s.run(&["doctor", "archive-scan"]).expect(0);
    assert_eq!(
        scan.number("/coverage_summary/conversations"),
        0,
        "{}",
        scan.stdout
    );
}

/// Keeps every command from reading what matches.
fn exclude(s: &Sandbox, pattern: &str) {
    let folder = s.home().join(".config/cass");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("config.toml"),
        format!("exclude = [\"{pattern}\"]\n"),
    )
    .unwrap();
}

const HISTORY: &str = ".claude/history.jsonl";

fn with_evidence() -> Sandbox {
    let s = indexed();
    s.put(
        HISTORY,
        b"{\"display\":\"a\",\"timestamp\":1780000000000,\"project\":\"/\"}\n",
    );
    s.run(&["index"]).expect(0);
    s
}

/// The finding about the lost capture of a file, and the command that it recommends.
#[track_caller]
fn told_of(ran: &Ran, code: &str) -> (Value, String) {
    let found = ran.at("/findings").as_array().unwrap();
    let f = found.iter().find(|f| f["code"] == code);
    let f = f.unwrap_or_else(|| panic!("no {code} in {}", ran.stdout));
    let next = f["next"].as_str().unwrap_or_default();
    (f.clone(), next.to_owned())
}

#[test]
fn a_loss_whose_source_is_there_and_not_read_names_what_would_help() {
    let full = ["doctor", "check", "--detail", "full"];
    for (obstacle, help) in [("excluded", "include it again"), ("mode", "chmod")] {
        let s = with_evidence();
        fs::remove_file(s.data().join(PACK)).unwrap();
        let source = s.home().join(HISTORY);
        match obstacle {
            "excluded" => exclude(&s, "**/history.jsonl"),
            _ => {
                if s.run_as_nobody(&["doctor", "check"]).is_none() {
                    println!("passed over: nobody can't be played here");
                    continue;
                }
                super::sandbox::mode(&source, 0);
            }
        }
        let run = |args: &[&str]| s.run_as_nobody(args).unwrap();
        let run = |args: &[&str]| match obstacle {
            "excluded" => s.run(args),
            _ => run(args),
        };
        // The sessions come back, the history does not.
        let index = run(&["index", "--full"]);
        assert!([0, 8].contains(&index.code), "{}", index.stdout);
        let check = run(&full).expect(1);
        let (f, next) = told_of(&check, "promise-not-kept");
        let message = f["message"].as_str().unwrap();
        for word in [
            "~/.claude/history.jsonl",
            help,
            "index --full",
            "accept the loss",
        ] {
            assert!(message.contains(word), "{obstacle}: {word}: {message}");
        }
        assert_eq!(next, "repair", "{obstacle}");
        // The plan says so before anyone approves, and applies.
        let planned = run(&["doctor", "repair"]).expect(0);
        assert_eq!(words(&planned), ["accept-loss"], "{obstacle}");
        assert!(planned.stdout.contains(help), "{}", planned.stdout);
        let argv = super::lab::apply_argv(&planned);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        run(&argv).expect(0);
        run(&full).expect(0);
        // What helps does.
        match obstacle {
            "excluded" => fs::remove_file(s.home().join(".config/cass/config.toml")).unwrap(),
            _ => super::sandbox::mode(&source, 0o600),
        }
        run(&["index", "--full"]).expect(0);
        let check = run(&["doctor", "check", "--deep", "--detail", "full"]).expect(0);
        assert!(!check.stdout.contains("promise-not-kept"));
        assert!(!s.get(&source, 1).is_empty());
    }
}

#[test]
fn what_an_index_brings_back_is_not_offered_for_acceptance() {
    let s = with_evidence();
    fs::remove_file(s.data().join(PACK)).unwrap();
    let check = s.run(&["doctor", "check", "--detail", "full"]).expect(1);
    assert_eq!(told_of(&check, "promise-not-kept").1, "index-full");
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/status"), "no-op");
    assert_eq!(planned.text("/recommended_action"), "index-full");
    s.run(&["index", "--full"]).expect(0);
    // Older captures of the one that grew are gone for good, and the archive has their records.
    assert!(no_error(&s).iter().all(|c| c == "archive-only"));
    assert!(!s.get(&s.home().join(HISTORY), 1).is_empty());
}

#[test]
fn records_of_another_machine_are_a_known_state_and_no_error() {
    let other = indexed();
    let s = Sandbox::in_memory();
    let id = "00000000-0000-4000-8000-000000000009";
    let text = String::from_utf8(claude(6)).unwrap().replace(NATIVE, id);
    s.put(
        &format!(".claude/projects/-src-b/{id}.jsonl"),
        text.as_bytes(),
    );
    s.run(&["index"]).expect(0);
    let own = s.sessions().len();
    let from = format!("--from={}", other.data().display());
    let planned = plan(&s, &["doctor", "repair", &from]).expect(0);
    apply(&s, &planned).expect(0);
    assert_eq!(s.sessions().len(), own + 2);
    s.run(&["index"]).expect(0);
    // The files of the other home are there to be seen, and no index here reads them.
    for pruned in [false, true] {
        if pruned {
            prune(&other);
        }
        for deep in [&[][..], &["--deep"]] {
            assert_eq!(no_error(&s), [""; 0], "pruned: {pruned}");
            let f = code(&s, deep, "captured-elsewhere").unwrap();
            assert_eq!((&f["severity"], &f["count"]), (&"info".into(), &2.into()));
            assert!(f["next"].is_null(), "{f}");
        }
        let check = s.run(&["doctor", "check"]).expect(0);
        assert_eq!(check.text("/coverage_risk/status"), "archive-only");
        assert_eq!(check.text("/recommended_action"), "none");
        let idle = plan(&s, &["doctor", "repair"]).expect(0);
        assert_eq!(idle.text("/status"), "no-op", "{}", idle.stdout);
        s.run(&["index", "--full"]).expect(0);
    }
    // What was captured here and is lost is told apart from it.
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    let f = code(&s, &[], "capture-missing").unwrap();
    assert_eq!((&f["severity"], &f["count"]), (&"error".into(), &1.into()));
    s.run(&["index", "--full"]).expect(0);
    assert_eq!(no_error(&s), [""; 0]);
}

#[test]
fn a_loss_before_any_archive_is_accepted_once_an_index_has_made_one() {
    let s = with_evidence();
    let data = s.data();
    // As a first index leaves it that could capture and not archive.
    for gone in ["generations", "derived"] {
        fs::remove_dir_all(data.join(gone)).unwrap();
    }
    for gone in ["CURRENT", "coverage.jsonl", PACK] {
        fs::remove_file(data.join(gone)).unwrap();
    }
    prune(&s);
    let check = s.run(&["doctor", "check", "--detail", "full"]).expect(1);
    assert_eq!(told_of(&check, "promise-not-kept").1, "index");
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(planned.text("/recommended_action"), "index");
    // Each step names the next one.
    let index = s.run(&["index"]).expect(8);
    assert_eq!(index.text("/err/kind"), "sources-failed");
    let check = s.run(&["doctor", "check", "--detail", "full"]).expect(1);
    assert_eq!(told_of(&check, "promise-not-kept").1, "repair");
    let planned = plan(&s, &["doctor", "repair"]).expect(0);
    assert_eq!(words(&planned), ["accept-loss"]);
    apply(&s, &planned).expect(0);
    assert_eq!(no_error(&s), [""; 0]);
    // What is on record as lost fails no index any more.
    s.run(&["index"]).expect(0);
    s.run(&["index", "--full"]).expect(0);
    assert_eq!(no_error(&s), [""; 0]);
}
