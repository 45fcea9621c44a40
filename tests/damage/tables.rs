//! R22 by table: every page of one table, or of some, is overwritten, and all else is physically
//! left. Whatever lay in the other tables comes back, once, and nothing is mixed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cass::doctor::repair::RepairPlanner;
use cass::model::plan::{LostWhat, Recipe};
use cass::store::named::NamedArchive;
use rusqlite::Connection;

use crate::figures::Rng;
use crate::lab::{ARCHIVE, Lab, alarmed, errors};
use crate::repairs::{approved, planned};

/// What a message says, and how often.
type Said = BTreeMap<String, u64>;

/// The database of the one generation of a lab.
fn live(lab: &Lab) -> std::path::PathBuf {
    let id = std::fs::read_to_string(lab.file("CURRENT")).unwrap();
    lab.file(&format!("generations/{}/agent_search.db", id.trim_end()))
}

/// Messages by the name of their conversation, as plain SQLite reads the rows.
fn messages(db: &Path) -> BTreeMap<String, Said> {
    let conn = Connection::open(db).unwrap();
    let mut statement = conn
        .prepare(
            "SELECT c.native_id || ' ' || c.public_id, m.role, m.kind, m.text, m.tool_name, \
             m.call_id, m.model, m.is_error FROM messages m JOIN conversations c \
             ON c.id=m.conversation",
        )
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut all: BTreeMap<String, Said> = BTreeMap::new();
    while let Some(row) = rows.next().unwrap() {
        let said: Vec<String> = (1..8)
            .map(|i| format!("{:?}", row.get_ref(i).unwrap()))
            .collect();
        let of = all.entry(row.get(0).unwrap()).or_default();
        *of.entry(said.join("|")).or_default() += 1;
    }
    all
}

fn together(all: &BTreeMap<String, Said>) -> Said {
    let mut sum = Said::new();
    for (said, n) in all.values().flatten() {
        *sum.entry(said.clone()).or_default() += n;
    }
    sum
}

fn covers(all: &Said, some: &Said) -> bool {
    some.iter()
        .all(|(said, n)| all.get(said).is_some_and(|have| have >= n))
}

/// Hashes of the records that count, with their conversation's name.
fn records(db: &Path) -> BTreeMap<(String, i64), u64> {
    let conn = Connection::open(db).unwrap();
    let mut statement = conn
        .prepare("SELECT hex(hash), occurrence FROM records WHERE counted=1")
        .unwrap();
    let mut rows = statement.query([]).unwrap();
    let mut all = BTreeMap::new();
    while let Some(row) = rows.next().unwrap() {
        let key = (row.get(0).unwrap(), row.get(1).unwrap());
        *all.entry(key).or_default() += 1;
    }
    all
}

fn skips(db: &Path) -> i64 {
    let conn = Connection::open(db).unwrap();
    conn.query_row("SELECT count(*) FROM skips", [], |r| r.get(0))
        .unwrap()
}

/// The file with noise in every page of these tables and indexes.
fn without(db: &Path, names: &[&str]) -> Vec<u8> {
    let conn = Connection::open(db).unwrap();
    let size: usize = conn
        .query_row("PRAGMA page_size", [], |r| r.get::<_, i64>(0))
        .unwrap() as usize;
    let mut bytes = std::fs::read(db).unwrap();
    let mut rng = Rng(5);
    for name in names {
        let mut statement = conn
            .prepare("SELECT pageno FROM dbstat WHERE name=?1")
            .unwrap();
        let pages: Vec<i64> = statement
            .query_map([name], |r| r.get(0))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(!pages.is_empty(), "{name}");
        for page in pages {
            let at = (page as usize - 1) * size;
            bytes[at..at + size]
                .iter_mut()
                .for_each(|b| *b = rng.next().to_le_bytes()[0]);
        }
    }
    bytes
}

const NAMES: [&str; 2] = ["sqlite_autoindex_conversations_1", "conversations_native"];

#[test]
fn r22_what_lies_in_other_tables_comes_back() {
    let lab = Lab::mixed_pruned(1024);
    let own = lab.path().join("own.db");
    std::fs::copy(lab.db(), &own).unwrap();
    let before = messages(&own);
    let all = together(&before);
    assert!(all.len() > 300, "{}", all.len());
    let cases: [&[&str]; 15] = [
        &["meta"],
        &["commits"],
        &["commit_captures"],
        &["commit_conversations"],
        &["skips"],
        &["sources"],
        &["conversations"],
        &["conversations", NAMES[0], NAMES[1]],
        &["records"],
        &["messages"],
        &["sources", "conversations", NAMES[0], NAMES[1]],
        &["sources", "records"],
        &["conversations", NAMES[0], NAMES[1], "records"],
        &[
            "sources",
            "conversations",
            NAMES[0],
            NAMES[1],
            "commit_conversations",
        ],
        &[
            "meta",
            "sources",
            "conversations",
            NAMES[0],
            NAMES[1],
            "records",
            "skips",
            "commits",
            "commit_captures",
            "commit_conversations",
        ],
    ];
    for lost in cases {
        let db = lab.path().join("damaged.db");
        std::fs::write(&db, without(&own, lost)).unwrap();
        let empty = Lab::empty();
        std::fs::create_dir(empty.data()).unwrap();
        let planner = RepairPlanner {
            from: Some(NamedArchive { path: db }),
            allow_repeated: false,
        };
        let plan = planned(&empty, &planner).unwrap();
        approved(&empty, &planner, &plan).unwrap_or_else(|e| panic!("{lost:?}: {e}"));
        let checked = empty.check(&ARCHIVE);
        assert!(!alarmed(&checked), "{lost:?}: {:?}", errors(&checked));
        let out = live(&empty);
        let after = messages(&out);
        if lost.contains(&"messages") {
            assert_eq!(together(&after), Said::new(), "{lost:?}");
        } else {
            let here = together(&after);
            let gone: u64 = all
                .iter()
                .map(|(k, n)| n.saturating_sub(here.get(k).copied().unwrap_or(0)))
                .sum();
            let twice: u64 = here
                .iter()
                .map(|(k, n)| n.saturating_sub(all.get(k).copied().unwrap_or(0)))
                .sum();
            assert_eq!((gone, twice), (0, 0), "{lost:?}: gone and twice");
        }
        if !lost.contains(&"records") {
            assert_eq!(records(&out), records(&own), "{lost:?}");
        }
        if !lost.contains(&"skips") && !lost.contains(&"records") && !lost.contains(&"sources") {
            assert_eq!(skips(&out), skips(&own), "{lost:?}");
        }
        let mut made_up = BTreeSet::new();
        for (name, said) in &after {
            let (native, public) = name.rsplit_once(' ').unwrap();
            match before.get(name) {
                Some(of) => assert!(covers(of, said), "{lost:?}: {name}"),
                None => {
                    assert!(native.starts_with("unknown/conversation-"), "{name}");
                    made_up.insert(public.to_owned());
                    assert!(
                        before.values().any(|of| covers(of, said)),
                        "{lost:?}: {name} is mixed"
                    );
                }
            }
        }
        let listed: BTreeSet<String> = plan
            .notes()
            .lost
            .iter()
            .filter(|l| l.what == LostWhat::Place)
            .map(|l| l.conversation.clone().unwrap())
            .collect();
        assert!(made_up.is_subset(&listed), "{lost:?}: not in the plan");
        let manifest = std::fs::read_to_string(out.with_file_name("manifest.json")).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
        for id in &made_up {
            let rows = manifest.pointer(&format!("/provenance/strays/{id}"));
            assert!(rows.is_some(), "{lost:?}: {id} is not in the manifest");
        }
        let names = ["conversations", NAMES[0], NAMES[1]];
        let expected = names.iter().all(|n| lost.contains(n));
        assert_eq!(!made_up.is_empty(), expected, "{lost:?}");
        let again = planned(&empty, &RepairPlanner::default()).unwrap();
        assert!(again.is_empty(), "{lost:?}: {:?}", again.body().actions);
        assert!(matches!(
            &plan.body().actions[0],
            cass::model::plan::Action::StageCandidate {
                recipe: Recipe::Rebuild { .. }
            }
        ));
    }
}

/// Another holder knows the conversations and lacks other rows: everything goes to its own place.
#[test]
fn r22_rows_go_where_another_holder_says() {
    let lab = Lab::mixed(1024);
    let own = lab.path().join("own.db");
    std::fs::copy(lab.db(), &own).unwrap();
    let before = messages(&own);
    // Handed over: no conversation is named. Here: half of the pages of the messages are lost.
    let handed = lab.path().join("handed.db");
    let lost = ["conversations", NAMES[0], NAMES[1]];
    std::fs::write(&handed, without(&own, &lost)).unwrap();
    let mut bytes = std::fs::read(&own).unwrap();
    let all = without(&own, &["messages"]);
    for (n, at) in (0..bytes.len()).step_by(1024).enumerate() {
        if n % 2 == 0 {
            bytes[at..at + 1024].copy_from_slice(&all[at..at + 1024]);
        }
    }
    std::fs::write(lab.db(), bytes).unwrap();
    std::fs::remove_dir_all(lab.file("raw-mirror/packs")).unwrap();
    let planner = RepairPlanner {
        from: Some(NamedArchive { path: handed }),
        allow_repeated: false,
    };
    let plan = planned(&lab, &planner).unwrap();
    approved(&lab, &planner, &plan).unwrap();
    let after = messages(&live(&lab));
    for name in after.keys() {
        assert!(before.contains_key(name), "{name} is made up");
    }
    assert_eq!(after, before);
}
