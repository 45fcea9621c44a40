//! The numbers, against the same counted in other ways: from the archive's rows, from the ledger's
//! text, from the files themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::made::scan;
use crate::sandbox::Sandbox;

#[test]
fn the_samples_are_counted_as_rows_lines_and_files_say() {
    let sandbox = Sandbox::new();
    sandbox.lay_out_samples();
    sandbox.run(&["index"]);
    let ran = scan(&sandbox, &["--limit", "10000"]);
    let current = std::fs::read_to_string(sandbox.data().join("CURRENT")).unwrap();
    let db = sandbox
        .data()
        .join("generations")
        .join(current.trim())
        .join("agent_search.db");
    let conn = rusqlite::Connection::open(db).unwrap();
    let mut by_rows = BTreeMap::new();
    let mut statement = conn
        .prepare(
            "SELECT c.public_id, count(*) FROM (SELECT DISTINCT conversation, hash, occurrence \
             FROM records WHERE counted=1) r JOIN conversations c ON c.id=r.conversation GROUP BY 1",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        by_rows.insert(
            row.get::<_, String>(0).unwrap(),
            u64::from(row.get::<_, u32>(1).unwrap()),
        );
    }
    let mut promised: BTreeMap<String, u64> = BTreeMap::new();
    for line in std::fs::read_to_string(sandbox.data().join("coverage.jsonl"))
        .unwrap()
        .lines()
    {
        let line: Value = serde_json::from_str(line).unwrap();
        for c in line["conversations"].as_array().into_iter().flatten() {
            promised.insert(c[0].as_str().unwrap().to_owned(), c[1].as_u64().unwrap());
        }
    }
    let sessions = ran.at("/sessions").as_array().unwrap();
    let with_id: Vec<_> = sessions.iter().filter(|s| s["id"].is_string()).collect();
    assert!(with_id.len() > 25);
    for s in &with_id {
        let id = s["id"].as_str().unwrap();
        let records = &s["records"];
        let rows = by_rows.get(id).copied().unwrap_or(0);
        assert_eq!(records["archived"], rows, "{s}");
        assert_eq!(records["promised"], promised[id], "{s}");
        // Nothing was touched since: every holder has all of it.
        assert_eq!(records["mirror"], rows, "{s}");
        assert_eq!(records["live"], rows, "{s}");
    }
    let total: u64 = by_rows.values().sum();
    for holder in ["archived", "promised", "mirror", "live"] {
        assert_eq!(
            ran.number(&format!("/coverage_summary/records/{holder}")),
            total,
            "{holder}"
        );
    }
    let count = |sql: &str| {
        conn.query_row(sql, [], |r| r.get::<_, u32>(0).map(u64::from))
            .unwrap()
    };
    assert_eq!(
        ran.number("/coverage_summary/archive_conversation_count"),
        count("SELECT count(*) FROM conversations")
    );
    assert_eq!(
        ran.number("/coverage_summary/archived_message_count"),
        count("SELECT count(*) FROM messages")
    );
    let ledgers = crate::sandbox::files_below(&sandbox.data().join("raw-mirror/sources"));
    assert_eq!(
        ran.number("/coverage_summary/mirror_source_count"),
        ledgers.len() as u64
    );
    let keys: BTreeSet<String> = ledgers
        .iter()
        .map(|l| l.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let sources = ran.at("/source_inventory/sources").as_array().unwrap();
    let listed: BTreeSet<String> = sources
        .iter()
        .map(|s| s["key"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, keys);
    assert_eq!(listed.len(), sources.len());
    let archived = sources
        .iter()
        .filter(|s| s["holders"].as_array().unwrap().contains(&"archive".into()));
    assert_eq!(
        archived.count() as u64,
        count("SELECT count(*) FROM sources")
    );
    // The check agrees.
    let check = sandbox.run(&["doctor", "check"]);
    assert_eq!(check.number("/archive/conversations"), with_id.len() as u64);
    assert_eq!(check.number("/archive/records"), total);
    let inventory = check.number("/source_inventory/sources");
    assert_eq!(
        ran.number("/coverage_summary/visible_current_source_count"),
        inventory
    );
}

#[test]
fn rows_of_all_sources_of_a_session_are_counted_when_a_file_goes() {
    let sandbox = Sandbox::new();
    let laid = sandbox.lay_out_samples();
    sandbox.run(&["index"]);
    let removed: BTreeSet<String> = laid
        .keys()
        .step_by(3)
        .map(|path| {
            std::fs::remove_file(path).unwrap();
            let rel = path.strip_prefix(sandbox.home()).unwrap();
            format!("~/{}", rel.display())
        })
        .collect();
    let ran = scan(&sandbox, &["--limit", "10000"]);
    let current = std::fs::read_to_string(sandbox.data().join("CURRENT")).unwrap();
    let db = sandbox
        .data()
        .join("generations")
        .join(current.trim())
        .join("agent_search.db");
    let conn = rusqlite::Connection::open(db).unwrap();
    // Every key that some row of a source that is left has.
    let home = format!("{}/", sandbox.home().display());
    let mut live: BTreeMap<String, BTreeSet<(Vec<u8>, u32)>> = BTreeMap::new();
    let mut statement = conn
        .prepare(
            "SELECT c.public_id, r.hash, r.occurrence, s.path FROM records r \
             JOIN conversations c ON c.id=r.conversation JOIN sources s ON s.id=r.source \
             WHERE EXISTS (SELECT 1 FROM records k WHERE k.conversation=r.conversation \
             AND k.hash=r.hash AND k.occurrence=r.occurrence AND k.counted=1)",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        let path = String::from_utf8(row.get::<_, Vec<u8>>(3).unwrap()).unwrap();
        let path = format!("~/{}", path.strip_prefix(&home).unwrap());
        let keys = live.entry(row.get(0).unwrap()).or_default();
        if !removed.contains(&path) {
            keys.insert((row.get(1).unwrap(), row.get(2).unwrap()));
        }
    }
    let mut partly = 0;
    for s in ran.at("/sessions").as_array().unwrap() {
        let Some(id) = s["id"].as_str() else { continue };
        let records = &s["records"];
        let left = live.get(id).map_or(0, BTreeSet::len) as u64;
        assert_eq!(records["live"], left, "{s}");
        assert_eq!(records["mirror"], records["archived"], "{s}");
        partly += u64::from(left < records["archived"].as_u64().unwrap());
    }
    assert!(partly > 5, "{partly}");
    let pruned = ran.number("/source_inventory/by_state/pruned");
    assert_eq!(pruned, removed.len() as u64);
}

/// What an earlier capture of a document held and the newest does not bring again may have been
/// deleted since: the number is a bound, and no holder is named by it.
#[test]
fn live_records_of_a_rewritten_document_are_counted_or_a_bound() {
    let sandbox = Sandbox::new();
    let id = "66666666-2222-4333-8444-555555555555";
    let document = |messages: &[u32]| {
        let list: Vec<String> = messages
            .iter()
            .map(|n| {
                format!(
                    "{{\"id\":\"m{n}\",\"timestamp\":\"2026-11-01T10:00:0{n}.000Z\",\
                     \"type\":\"user\",\"content\":\"secret words {n}\"}}"
                )
            })
            .collect();
        format!(
            "{{\"sessionId\":\"{id}\",\"projectHash\":\"x\",\
             \"startTime\":\"2026-11-01T10:00:00.000Z\",\"lastUpdated\":\"2026-11-01T10:00:00.000Z\",\
             \"messages\":[{}]}}",
            list.join(",")
        )
    };
    let indexed = |text: String, age: u64| {
        let file = sandbox.put(
            ".gemini/tmp/w/chats/session-2026-11-01T10-00-66666666.json",
            text.as_bytes(),
        );
        crate::sandbox::age(&file, age);
        sandbox.run(&["index"]).expect(0);
        let ran = scan(&sandbox, &["--fail-on", "never"]).expect(0);
        let found = crate::made::rows(ran.at("/sessions"), "native_id", id);
        let session = found[0].clone();
        let held = session["holders"]
            .as_array()
            .unwrap()
            .contains(&serde_json::json!("live-source"));
        let bound = session["records"]["live_is_upper_bound"] == true;
        let possible = ran.number("/coverage_summary/live_possible");
        let complete = ran.number("/coverage_summary/live_complete");
        assert_eq!(complete, u64::from(held), "{}", ran.stdout);
        (held, bound, possible)
    };
    // Read once: it is what was read.
    assert_eq!(indexed(document(&[1, 2, 3]), 9000), (true, false, 0));
    // One is gone, and nothing in the archive says which.
    assert_eq!(indexed(document(&[1, 3]), 8000), (false, true, 1));
}
