//! Archives of real sessions in several page sizes, and where SQLite says their rows lie.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rusqlite::Connection;

use crate::sandbox::Sandbox;

pub type Counts = BTreeMap<String, u64>;

/// A session of `n` turns; now and then a text longer than any page.
fn session(id: u32, n: usize) -> Vec<u8> {
    let mut text = String::new();
    let mut parent = "null".to_owned();
    for i in 0..n {
        let uuid = format!("{id:08}-0000-4000-8000-{i:012x}");
        let kind = if i % 2 == 0 { "user" } else { "assistant" };
        let times = match i % 100 {
            50 => 900,
            51 => 9000,
            _ => i % 13,
        };
        let said = format!("turn {i} {}", "of the tide ".repeat(times));
        let content = if kind == "user" {
            format!("\"{said}\"")
        } else {
            format!("[{{\"type\":\"text\",\"text\":\"{said}\"}}]")
        };
        text.push_str(&format!(
            "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\"cwd\":\"/src/a\",\"sessionId\":\"{id:08}-0000-4000-8000-000000000001\",\"version\":\"2.1.0\",\"type\":\"{kind}\",\"message\":{{\"role\":\"{kind}\",\"content\":{content}}},\"uuid\":\"{uuid}\",\"timestamp\":\"2026-06-01T{:02}:{:02}:{:02}.000Z\"}}\n",
            i / 3600 % 24,
            i / 60 % 60,
            i % 60
        ));
        parent = format!("\"{uuid}\"");
    }
    text.into_bytes()
}

fn put(s: &Sandbox, id: u32, n: usize) {
    let name = format!(".claude/projects/-src-a/{id:08}-0000-4000-8000-000000000001.jsonl");
    s.put(&name, &session(id, n));
}

/// The file of the live archive, without a WAL.
pub fn live(s: &Sandbox) -> PathBuf {
    let id = std::fs::read_to_string(s.data().join("CURRENT")).unwrap();
    let path = s.data().join("generations").join(id.trim_end());
    let db = path.join("agent_search.db");
    let conn = Connection::open(&db).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(conn);
    db
}

/// An archive of a hundred turns, whose rows of sources and conversations were updated twice.
pub fn small() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let s = Sandbox::in_memory();
        for n in [30, 60, 110] {
            put(&s, 1, n);
            put(&s, 2, n / 10);
            s.run(&["index"]).expect(0);
        }
        std::fs::read(live(&s)).unwrap()
    })
}

/// An archive, and what became of it: its rows of sources and conversations are newer.
pub fn grown() -> (Vec<u8>, Vec<u8>) {
    let s = Sandbox::in_memory();
    let at = |n| {
        put(&s, 1, n);
        s.run(&["index"]).expect(0);
        std::fs::read(live(&s)).unwrap()
    };
    (at(60), at(110))
}

/// A WAL that holds these pages, its header with one salt and its frames with another, or with the same.
pub fn frames_of(bytes: &[u8], salts: (u8, u8)) -> Vec<u8> {
    let mut wal = Vec::new();
    for word in [0x377f_0682u32, 3_007_000, 4096, 1] {
        wal.extend(word.to_be_bytes());
    }
    wal.extend([salts.0; 8]);
    let (mut a, mut b) = (0u32, 0u32);
    for two in wal.chunks(8) {
        let word = |at: usize| u32::from_le_bytes(two[at..at + 4].try_into().unwrap());
        a = a.wrapping_add(word(0)).wrapping_add(b);
        b = b.wrapping_add(word(4)).wrapping_add(a);
    }
    wal.extend(a.to_be_bytes());
    wal.extend(b.to_be_bytes());
    let count = bytes.len() / 4096;
    for (i, page) in bytes.chunks(4096).enumerate() {
        wal.extend((i as u32 + 1).to_be_bytes());
        let commit = if i + 1 == count { count as u32 } else { 0 };
        wal.extend(commit.to_be_bytes());
        wal.extend([salts.1; 8]);
        // No checksum agrees.
        wal.extend([9; 8]);
        wal.extend(page);
    }
    wal
}

/// The samples of every harness and a long session.
pub fn large() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let s = Sandbox::in_memory();
        s.lay_out_samples();
        put(&s, 1, 1500);
        s.run(&["index"]);
        let bytes = std::fs::read(live(&s)).unwrap();
        let counts = Truth::of(&bytes).total();
        assert!(counts["messages"] >= 2000, "{counts:?}");
        bytes
    })
}

/// Runs `f` on a copy in a file.
pub fn in_file<T>(bytes: &[u8], f: impl FnOnce(&Path, &Connection) -> T) -> T {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap());
    let path = dir.path().join("x.db");
    std::fs::write(&path, bytes).unwrap();
    let conn = Connection::open(&path).unwrap();
    f(&path, &conn)
}

/// The same rows in pages of another size.
pub fn sized(bytes: &[u8], size: usize) -> Vec<u8> {
    in_file(bytes, |path, conn| {
        conn.execute_batch(&format!(
            "PRAGMA journal_mode=DELETE; PRAGMA page_size={size}; VACUUM;"
        ))
        .unwrap();
        std::fs::read(path).unwrap()
    })
}

/// Where SQLite says that every row lies.
pub struct Truth {
    pub pages: u32,
    /// Table, leaf and overflow pages of each row.
    pub rows: Vec<(String, u32, BTreeSet<u32>)>,
}

impl Truth {
    pub fn of(bytes: &[u8]) -> Truth {
        in_file(bytes, |_, conn| {
            let mut leaves: BTreeMap<(String, String), (u32, u64)> = BTreeMap::new();
            let mut chains: BTreeMap<(String, String, u64), BTreeSet<u32>> = BTreeMap::new();
            let mut statement = conn
                .prepare(
                    "SELECT d.name, d.path, d.pageno, d.pagetype, d.ncell FROM dbstat d JOIN \
                     sqlite_schema s ON s.name=d.name WHERE s.type='table'",
                )
                .unwrap();
            let mut rows = statement.query([]).unwrap();
            while let Some(r) = rows.next().unwrap() {
                let (name, path): (String, String) = (r.get(0).unwrap(), r.get(1).unwrap());
                let (page, kind): (u32, String) = (r.get(2).unwrap(), r.get(3).unwrap());
                match kind.as_str() {
                    "leaf" => {
                        let cells: u32 = r.get(4).unwrap();
                        leaves.insert((name, path), (page, u64::from(cells)));
                    }
                    "overflow" => {
                        let (cell, _) = path.split_once('+').unwrap();
                        let (leaf, cell) = cell.rsplit_once('/').unwrap();
                        let cell = u64::from_str_radix(cell, 16).unwrap();
                        let key = (name, format!("{leaf}/"), cell);
                        chains.entry(key).or_default().insert(page);
                    }
                    _ => {}
                }
            }
            let mut all = Vec::new();
            for ((name, path), (leaf, cells)) in leaves {
                for cell in 0..cells {
                    let key = (name.clone(), path.clone(), cell);
                    let chain = chains.remove(&key).unwrap_or_default();
                    all.push((name.clone(), leaf, chain));
                }
            }
            assert!(chains.is_empty(), "{:?}", chains.keys().next());
            let pages = conn
                .query_row("PRAGMA page_count", [], |r| r.get(0))
                .unwrap();
            let truth = Truth { pages, rows: all };
            // SQLite counts as many.
            for (table, n) in truth.total() {
                let sql = format!("SELECT count(*) FROM {table}");
                let counted: u32 = conn.query_row(&sql, [], |r| r.get(0)).unwrap();
                assert_eq!(n, u64::from(counted), "{table}");
            }
            truth
        })
    }

    pub fn total(&self) -> Counts {
        self.without(&BTreeSet::new())
    }

    /// The rows of which no byte lies in these pages.
    pub fn without(&self, lost: &BTreeSet<u32>) -> Counts {
        self.left(|leaf, chain| !lost.contains(&leaf) && chain.is_disjoint(lost))
    }

    pub fn left(&self, is_left: impl Fn(u32, &BTreeSet<u32>) -> bool) -> Counts {
        let mut counts = none();
        for (table, leaf, chain) in &self.rows {
            if is_left(*leaf, chain) {
                *counts.entry(table.clone()).or_insert(0) += 1;
            }
        }
        counts
    }
}

pub fn none() -> Counts {
    salvaged(Vec::new(), Vec::new())
}

/// What is found page by page.
pub fn salvaged(db: Vec<u8>, wal: Vec<u8>) -> Counts {
    cass::store::archive::salvaged_counts(db, wal)
        .into_iter()
        .map(|(table, n)| (table.to_owned(), n))
        .collect()
}

/// Numbers that look random and are the same in every run.
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|b| *b = self.next() as u8);
    }
}
