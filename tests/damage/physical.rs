//! Which rows physically lie in which pages, as SQLite says of the undamaged file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::Connection;

/// A message as people see it: id of its conversation, id of the message.
pub type Key = (String, String);

/// Where the rows lie that one message needs.
pub struct Physical {
    pub page_size: usize,
    /// The pages of the message's own row, of its record's and of its conversation's.
    messages: BTreeMap<Key, BTreeSet<u32>>,
    /// The pages of the message's own row.
    alone: BTreeMap<Key, BTreeSet<u32>>,
}

impl Physical {
    /// Of a database without a WAL.
    pub fn of(db: &Path) -> Physical {
        let conn = Connection::open(db).unwrap();
        let number = |sql: &str| -> u32 { conn.query_row(sql, [], |r| r.get(0)).unwrap() };
        let (messages, records, conversations) = (
            rows(&conn, "messages"),
            rows(&conn, "records"),
            rows(&conn, "conversations"),
        );
        let (mut out, mut alone) = (BTreeMap::new(), BTreeMap::new());
        let mut statement = conn
            .prepare(
                "SELECT m.id, r.id, c.id, c.public_id, lower(hex(r.hash)), r.occurrence, \
                 m.id & 16777215 FROM messages m JOIN records r ON r.id=m.id>>24 \
                 JOIN conversations c ON c.id=r.conversation WHERE r.duplicate_of IS NULL",
            )
            .unwrap();
        let mut found = statement.query([]).unwrap();
        while let Some(r) = found.next().unwrap() {
            let id = |i| r.get::<_, i64>(i).unwrap();
            let hash: String = r.get(4).unwrap();
            let name = format!("{}.{}.{}", &hash[..24], id(5), id(6));
            let key: Key = (r.get(3).unwrap(), name);
            let mut pages = messages[&id(0)].clone();
            alone.insert(key.clone(), pages.clone());
            pages.extend(&records[&id(1)]);
            pages.extend(&conversations[&id(2)]);
            out.insert(key, pages);
        }
        Physical {
            page_size: number("PRAGMA page_size") as usize,
            messages: out,
            alone,
        }
    }

    /// The messages of whose own row nothing lay in these pages, whatever became of the rows that
    /// say where it belongs.
    pub fn rows_without(&self, lost: &BTreeSet<u32>) -> BTreeSet<Key> {
        left(&self.alone, lost)
    }

    /// The messages of which nothing lay in these pages.
    pub fn without(&self, lost: &BTreeSet<u32>) -> BTreeSet<Key> {
        left(&self.messages, lost)
    }
}

fn left(all: &BTreeMap<Key, BTreeSet<u32>>, lost: &BTreeSet<u32>) -> BTreeSet<Key> {
    all.iter()
        .filter(|(_, pages)| pages.is_disjoint(lost))
        .map(|(key, _)| key.clone())
        .collect()
}

/// Row id → leaf and overflow pages.
fn rows(conn: &Connection, table: &str) -> BTreeMap<i64, BTreeSet<u32>> {
    let mut leaves: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    let mut chains: BTreeMap<(String, u32), BTreeSet<u32>> = BTreeMap::new();
    let mut statement = conn
        .prepare("SELECT path, pageno, pagetype, ncell FROM dbstat WHERE name=?1")
        .unwrap();
    let mut pages = statement.query([table]).unwrap();
    while let Some(r) = pages.next().unwrap() {
        let (path, page, kind): (String, u32, String) =
            (r.get(0).unwrap(), r.get(1).unwrap(), r.get(2).unwrap());
        if kind == "leaf" {
            leaves.insert(path, (page, r.get(3).unwrap()));
        } else if kind == "overflow" {
            let (cell, _) = path.split_once('+').unwrap();
            let (leaf, cell) = cell.rsplit_once('/').unwrap();
            let key = (format!("{leaf}/"), u32::from_str_radix(cell, 16).unwrap());
            chains.entry(key).or_default().insert(page);
        }
    }
    let mut statement = conn
        .prepare(&format!("SELECT id FROM {table} ORDER BY id"))
        .unwrap();
    let mut ids = statement.query([]).unwrap();
    let mut out = BTreeMap::new();
    // Paths sort as the tree does.
    for (path, (page, cells)) in leaves {
        for cell in 0..cells {
            let id: i64 = ids.next().unwrap().unwrap().get(0).unwrap();
            let mut all = chains.remove(&(path.clone(), cell)).unwrap_or_default();
            all.insert(page);
            out.insert(id, all);
        }
    }
    assert!(ids.next().unwrap().is_none(), "{table}");
    out
}
