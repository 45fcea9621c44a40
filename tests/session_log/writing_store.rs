//! Two writers of one session in an SQLite store.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use cass::error::ErrorKind;
use cass::session_writer::{Refusal, StoreRevision, WriteError, append_to_store, store_revision};
use rusqlite::Connection;

use crate::cases;
use crate::writing::{PATIENCE, turn};

fn store() -> (tempfile::TempDir, PathBuf) {
    let case = cases::named("sqlite_clean");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sessions.db");
    fs::copy(case.log(), &path).expect("a copy");
    (folder, path)
}

fn open(path: &Path) -> Connection {
    let conn = Connection::open(path).expect("open");
    conn.busy_timeout(PATIENCE).expect("patience");
    conn
}

fn only_id(conn: &Connection) -> String {
    conn.query_row("SELECT id FROM sessions", [], |row| row.get(0))
        .expect("a session")
}

/// The next turn of a store's session: the turn is told by what is there.
fn next_in_store(conn: &Connection, at: &StoreRevision) -> Vec<u8> {
    let turns: i64 = conn
        .query_row(
            "SELECT count(*) FROM events WHERE type = 'turn/start'",
            [],
            |row| row.get(0),
        )
        .expect("a count");
    turn(at.log.next_seq, turns.unsigned_abs() + 1)
}

#[test]
fn of_many_connections_from_one_revision_one_commits() {
    let (_folder, path) = store();
    let mut conn = open(&path);
    let id = only_id(&conn);
    let start = store_revision(&mut conn, &id).expect("read");
    let batch = next_in_store(&conn, &start);
    let barrier = Barrier::new(6);
    let won: usize = std::thread::scope(|s| {
        let threads: Vec<_> = (0..6)
            .map(|_| {
                s.spawn(|| {
                    let mut conn = open(&path);
                    barrier.wait();
                    match append_to_store(&mut conn, &id, &start, &batch) {
                        Ok(now) => {
                            assert_eq!(now.revision, start.revision + 1);
                            1
                        }
                        Err(WriteError::Refused(Refusal::Changed { .. })) => 0,
                        Err(e) => panic!("{e}"),
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("it ends"))
            .sum()
    });
    assert_eq!(won, 1);
    let now = store_revision(&mut conn, &id).expect("read");
    assert_eq!(now.log.next_seq, start.log.next_seq + 2);
    assert_eq!(now.incarnation, start.incarnation);
    let again = next_in_store(&conn, &now);
    let later = append_to_store(&mut conn, &id, &now, &again).expect("it goes on");
    assert_eq!(later.revision, start.revision + 2);
}

#[test]
fn a_batch_that_a_store_refuses_changes_nothing() {
    let (_folder, path) = store();
    let mut conn = open(&path);
    let id = only_id(&conn);
    let start = store_revision(&mut conn, &id).expect("read");
    let sound = next_in_store(&conn, &start);
    let rows = |conn: &Connection| -> (i64, i64) {
        let count = |sql: &str| conn.query_row(sql, [], |row| row.get(0)).expect("a count");
        (
            count("SELECT count(*) FROM events"),
            count("SELECT revision FROM sessions"),
        )
    };
    let before = rows(&conn);
    let odd = String::from_utf8(sound.clone())
        .expect("text")
        .replace("\"time\":1,", "\"time\":1,\"x\":1,");
    let stale = turn(start.log.next_seq - 2, 1);
    for batch in [&b""[..], b"{", odd.as_bytes(), &stale] {
        let refused = append_to_store(&mut conn, &id, &start, batch);
        assert!(matches!(refused, Err(WriteError::Refused(_))));
        assert_eq!(rows(&conn), before);
    }
    // What a trigger keeps out is told, and nothing is changed.
    conn.execute_batch(
        "CREATE TRIGGER t AFTER INSERT ON events BEGIN DELETE FROM events WHERE seq = new.seq; END",
    )
    .expect("a trigger");
    assert!(append_to_store(&mut conn, &id, &start, &sound).is_err());
    assert_eq!(rows(&conn), before);
    conn.execute_batch("DROP TRIGGER t").expect("dropped");
    // Another schema is not written.
    conn.pragma_update(None, "user_version", 18).expect("set");
    assert!(matches!(
        append_to_store(&mut conn, &id, &start, &sound),
        Err(WriteError::Unreached(_))
    ));
    conn.pragma_update(None, "user_version", 17).expect("set");
    append_to_store(&mut conn, &id, &start, &sound).expect("appended");
    let other = append_to_store(&mut conn, "no such session", &start, &sound);
    assert!(matches!(other, Err(WriteError::Unreached(e)) if e.kind() == ErrorKind::NotFound));
}
