//! Repairs of SQLite stores: a copy of the store, changed.

use std::fs;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::types::Value as Cell;

use crate::cases;
use crate::repairing::{Home, fingerprint};
use crate::table::check_all;

type Rows = Vec<Vec<Cell>>;

fn rows(path: &Path, sql: &str) -> Rows {
    let conn = Connection::open(path).expect("a store");
    let mut statement = conn.prepare(sql).expect("a query");
    let n = statement.column_count();
    let all = statement
        .query_map([], |row| (0..n).map(|i| row.get(i)).collect())
        .expect("rows");
    all.map(|r| r.expect("a row")).collect()
}

const EVENTS: &str = "SELECT * FROM events ORDER BY session_id, seq";

/// The sound store with its last turn cut off in the middle and a broken row at the end.
fn torn() -> (cases::Case, i64) {
    let case = cases::named("sqlite_clean");
    let conn = Connection::open(case.log()).expect("a store");
    let end: i64 = conn
        .query_row(
            "SELECT max(seq) FROM events WHERE type = 'step/start'",
            [],
            |r| r.get(0),
        )
        .expect("a step");
    conn.execute("DELETE FROM events WHERE seq > ?1 + 1", [end])
        .expect("cut");
    conn.execute(
        "UPDATE events SET data = '{\"cut' WHERE seq = ?1 + 1",
        [end],
    )
    .expect("broken");
    (case, end)
}

#[test]
fn a_torn_end_of_a_store_is_cut_and_closed_in_a_copy() {
    let (case, end) = torn();
    let (store, home) = (case.log(), Home::new());
    let was = fs::read(&store).expect("the store");
    let before = rows(&store, EVENTS);
    let (code, plan) = home.repair(&[], &store);
    assert_eq!((code, &plan["status"]), (0, &"planned".into()), "{plan}");
    assert_eq!(plan["log"]["verdict"], "torn_tail_recoverable", "{plan}");
    let left_out = &plan["repair_plan"]["actions"][0]["log"]["left_out"];
    assert_eq!(left_out["total"], "1", "{left_out}");
    let row = &left_out["first"][0];
    assert_eq!(row["session"], case.expected["session_id"], "{left_out}");
    // It is the last one of the only session.
    assert_eq!(row["row"], before.len().to_string(), "{left_out}");
    assert!(home.is_empty());
    let (code, done) = home.apply_as(&[], &store, fingerprint(&plan));
    assert_eq!((code, &done["status"]), (0, &"applied".into()), "{done}");
    assert!(
        fs::read(&store).expect("the store") == was,
        "the original was changed"
    );
    let made = home.dir.path().join("repaired-sessions/sessions.db");
    let checked = check_all(&made);
    assert_eq!(checked.len(), 1);
    assert_eq!(checked[0].1.diagnosis.verdict.name(), "clean");
    // Every row before the torn one is what it was; what comes behind closes the turn.
    let after = rows(&made, EVENTS);
    let kept = before.len() - 1;
    assert_eq!(before[kept][1], Cell::Integer(end + 1), "the broken row");
    assert_eq!(after[..kept], before[..kept]);
    let kinds: Vec<&Cell> = after[kept..].iter().map(|r| &r[2]).collect();
    let text = |t: &str| Cell::Text(t.to_owned());
    assert_eq!(kinds, [&text("step/end"), &text("turn/end")]);
    let revision = "SELECT revision FROM sessions";
    let number = |path: &Path| match rows(path, revision)[0][0] {
        Cell::Integer(n) => n,
        _ => panic!("a number"),
    };
    assert_eq!(number(&made), number(&store) + 1);
    let (code, again) = home.repair(&[], &made);
    assert_eq!((code, &again["status"]), (0, &"no-op".into()), "{again}");
    let (code, blocked) = home.repair(&["--in-place", "--harness-stopped"], &store);
    assert_eq!(
        (code, &blocked["status"]),
        (21, &"blocked".into()),
        "{blocked}"
    );
}

#[test]
fn what_lies_in_the_log_of_a_store_is_part_of_it() {
    let (case, _) = torn();
    let (store, home) = (case.log(), Home::new());
    let conn = Connection::open(&store).expect("a store");
    conn.pragma_update(None, "journal_mode", "WAL")
        .expect("WAL");
    conn.pragma_update(None, "wal_autocheckpoint", 0)
        .expect("none");
    conn.execute("UPDATE sessions SET revision = 77", [])
        .expect("changed");
    let wal = store.with_file_name("sessions.db-wal");
    assert!(fs::metadata(&wal).expect("a WAL").len() > 0);
    let (code, done) = home.apply(&[], &store);
    assert_eq!((code, &done["status"]), (0, &"applied".into()), "{done}");
    let made = home.dir.path().join("repaired-sessions/sessions.db");
    assert_eq!(
        rows(&made, "SELECT revision FROM sessions"),
        [[Cell::Integer(78)]]
    );
    drop(conn);
}

#[test]
fn a_store_keeps_what_can_t_be_repaired_beside_what_can() {
    let (case, _) = torn();
    let (store, home) = (case.log(), Home::new());
    let conn = Connection::open(&store).expect("a store");
    let id = case.text("session_id").expect("an id");
    // A second session with a hole.
    conn.execute(
        "INSERT INTO sessions SELECT 'other', version, created_at, cwd, parent_session, seed_length, \
         origin, delegation_depth, agent_preset, 'i', 0 FROM sessions WHERE id = ?1",
        [id],
    )
    .expect("a session");
    conn.execute(
        "INSERT INTO events SELECT 'other', seq, type, time, data, source_event_seqs, surface_op, \
         ignorable FROM events WHERE session_id = ?1 AND seq NOT IN (5, 6)",
        [id],
    )
    .expect("events");
    drop(conn);
    let other = "SELECT * FROM events WHERE session_id = 'other' ORDER BY seq";
    let before = rows(&store, other);
    let (code, plan) = home.repair(&[], &store);
    assert_eq!((code, &plan["status"]), (0, &"planned".into()), "{plan}");
    let reasons = plan["repair_plan"]["reasons"].to_string();
    assert!(
        reasons.contains("other stays as it is: missing_middle"),
        "{reasons}"
    );
    let (code, done) = home.apply(&[], &store);
    assert_eq!((code, &done["status"]), (0, &"applied".into()), "{done}");
    let made = home.dir.path().join("repaired-sessions/sessions.db");
    assert_eq!(rows(&made, other), before);
}

#[test]
fn reading_a_store_ends_when_that_is_asked_for() {
    let case = cases::named("sqlite_clean");
    let conn = Connection::open(case.log()).expect("a store");
    let asked = std::cell::Cell::new(0);
    let stop = || {
        asked.set(asked.get() + 1);
        asked.get() > 1
    };
    let told = cass::session_log::sessions(&conn, &stop).expect("read");
    assert_eq!(told.len(), 1);
    let reason = &told[0].diagnosis.reason;
    assert!(reason.contains("an end was asked for"), "{reason}");
}
