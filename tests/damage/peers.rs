//! R22 beside others: the same damaged files given to `repair --from`, to `VACUUM INTO` and to the
//! `.recover` of SQLite's shell, if one that has it is there (`CASS_SQLITE3`, else `sqlite3`).

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cass::doctor::repair::RepairPlanner;
use cass::store::named::NamedArchive;
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::figures::{Rng, count};
use crate::lab::Lab;
use crate::physical::Physical;
use crate::repairs::{approved, changed, exported, judged, planned};

/// What one way got back of some files.
#[derive(Default)]
struct Got {
    messages: u64,
    /// Files of which nothing came back.
    nothing: u64,
    time: Duration,
}

/// Row id of a message → its text.
type Texts = BTreeMap<i64, String>;

fn texts(db: &Path) -> Texts {
    let conn = Connection::open(db).unwrap();
    let mut statement = conn
        .prepare(
            "SELECT m.id, m.text FROM messages m JOIN records r ON r.id=m.id>>24 \
             WHERE r.duplicate_of IS NULL",
        )
        .unwrap();
    let rows = statement
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))
        .unwrap();
    rows.map(Result::unwrap).collect()
}

/// The messages in a database that others made, by key and text; in whatever table they lie.
fn same(db: &Path, truth: &Texts) -> u64 {
    let Ok(conn) = Connection::open(db) else {
        return 0;
    };
    let mut found = BTreeSet::new();
    for table in ["messages", "lost_and_found"] {
        let Ok(mut statement) = conn.prepare(&format!("SELECT * FROM {table}")) else {
            continue;
        };
        let n = statement.column_count();
        let Ok(mut rows) = statement.query([]) else {
            continue;
        };
        while let Ok(Some(row)) = rows.next() {
            let values: Vec<Value> = (0..n).filter_map(|i| row.get(i).ok()).collect();
            let ids = values.iter().filter_map(|v| match v {
                Value::Integer(n) => Some(*n),
                _ => None,
            });
            for id in ids {
                if let Some(text) = truth.get(&id)
                    && values
                        .iter()
                        .any(|v| matches!(v, Value::Text(t) if t == text))
                {
                    found.insert(id);
                }
            }
        }
    }
    found.len() as u64
}

/// A shell whose `.recover` works.
fn shell() -> Option<(PathBuf, String)> {
    let named = std::env::var_os("CASS_SQLITE3").map(PathBuf::from);
    let shell = named.unwrap_or_else(|| PathBuf::from("sqlite3"));
    let dir = tempfile::tempdir().ok()?;
    let db = dir.path().join("x.db");
    Connection::open(&db)
        .ok()?
        .execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES('here')")
        .ok()?;
    let out = Command::new(&shell)
        .arg(&db)
        .arg(".recover")
        .output()
        .ok()?;
    let version = Command::new(&shell).arg("-version").output().ok()?;
    let version = String::from_utf8_lossy(&version.stdout);
    String::from_utf8_lossy(&out.stdout)
        .contains("here")
        .then(|| {
            (
                shell,
                version.split(' ').next().unwrap_or_default().to_owned(),
            )
        })
}

fn recover(shell: &Path, db: &Path, out: &Path) {
    let said = Command::new(shell)
        .arg(db)
        .arg(".recover")
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let mut child = Command::new(shell)
        .arg(out)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _ = child.stdin.take().unwrap().write_all(&said.stdout);
    child.wait().unwrap();
}

fn vacuum(db: &Path, out: &Path) {
    if let Ok(conn) = Connection::open(db) {
        let _ = conn.execute("VACUUM INTO ?1", [out.to_str().unwrap()]);
    }
}

/// The files of one row of the table.
fn files(what: &str, whole: &[u8], size: usize, singles: u64) -> Vec<Vec<u8>> {
    let pages = whole.len() / size;
    let mut rng = Rng(22);
    let spoil = |bytes: &mut [u8], page: usize, rng: &mut Rng| {
        let range = page * size..(page + 1) * size;
        bytes[range]
            .iter_mut()
            .for_each(|b| *b = rng.next().to_le_bytes()[0]);
    };
    match what {
        "one page overwritten" => {
            let step = (pages as u64).div_ceil(singles).max(1) as usize;
            (1..pages)
                .step_by(step)
                .map(|page| {
                    let mut bytes = whole.to_vec();
                    spoil(&mut bytes, page, &mut rng);
                    bytes
                })
                .collect()
        }
        "page 1 overwritten" => {
            let mut bytes = whole.to_vec();
            spoil(&mut bytes, 0, &mut rng);
            vec![bytes]
        }
        "cut at three quarters" => vec![whole[..pages * 3 / 4 * size].to_vec()],
        percent => {
            let percent: u64 = percent.split(' ').next().unwrap().parse().unwrap();
            let mut bytes = whole.to_vec();
            for page in 1..pages {
                if rng.below(100) < percent {
                    spoil(&mut bytes, page, &mut rng);
                }
            }
            vec![bytes]
        }
    }
}

#[test]
fn r22_beside_others() {
    let singles = count("CASS_DAMAGE_SINGLES", 4);
    let shell = shell();
    let version = shell.as_ref().map_or_else(
        || "`.recover`: not measured, no shell that has it".to_owned(),
        |(_, v)| format!("`.recover` {v}"),
    );
    println!(
        "peers | damage | files | messages, all | message row left | placed | cass | {version} | `VACUUM INTO` | seconds a file: cass | `.recover` | `VACUUM INTO` |"
    );
    let sizes: &[u32] = if singles > 10 { &[4096, 1024] } else { &[4096] };
    for page_size in sizes {
        let lab = if singles > 10 {
            let lab = Lab::full_pruned();
            lab.with_pages_of(*page_size);
            lab
        } else {
            Lab::mixed_pruned(*page_size)
        };
        let before = exported(&lab).unwrap();
        let whole = std::fs::read(lab.db()).unwrap();
        let size = *page_size as usize;
        let own = lab.path().join("own.db");
        std::fs::write(&own, &whole).unwrap();
        let physical = Physical::of(&own);
        assert_eq!(physical.page_size, size);
        let truth = texts(&own);
        for (n, what) in [
            "one page overwritten",
            "page 1 overwritten",
            "1 % of the pages",
            "5 % of the pages",
            "10 % of the pages",
            "25 % of the pages",
            "50 % of the pages",
            "cut at three quarters",
        ]
        .iter()
        .enumerate()
        {
            let files = files(what, &whole, size, singles);
            let (mut rows, mut left, mut ours, mut theirs, mut vacuumed) =
                (0, 0, Got::default(), Got::default(), Got::default());
            for bytes in &files {
                let lost = changed(&whole, bytes, size);
                let expected = physical.without(&lost);
                let alone = physical.rows_without(&lost);
                rows += alone.len() as u64;
                left += expected.len() as u64;
                let db = lab.path().join("damaged.db");
                let out = lab.path().join("out.db");
                let fresh = || {
                    std::fs::write(&db, bytes).unwrap();
                    for suffix in ["-wal", "-shm", "-journal"] {
                        let _ =
                            std::fs::remove_file(lab.path().join(format!("damaged.db{suffix}")));
                    }
                    let _ = std::fs::remove_file(&out);
                };
                // Ours: into an empty data directory, plan and apply, verified.
                fresh();
                let empty = Lab::empty();
                std::fs::create_dir(empty.data()).unwrap();
                let planner = RepairPlanner {
                    from: Some(NamedArchive { path: db.clone() }),
                    allow_repeated: false,
                };
                let begun = Instant::now();
                let plan = planned(&empty, &planner).unwrap();
                approved(&empty, &planner, &plan).unwrap_or_else(|e| panic!("{what}: {e}"));
                ours.time += begun.elapsed();
                let after = exported(&empty).unwrap();
                let wrong = judged(&before, &after, &expected, &alone);
                assert!(wrong.is_none(), "{what}: {wrong:?}");
                let equal = after.len() as u64;
                ours.messages += equal;
                ours.nothing += u64::from(equal == 0);
                if let Some((shell, _)) = &shell {
                    fresh();
                    let begun = Instant::now();
                    recover(shell, &db, &out);
                    theirs.time += begun.elapsed();
                    let n = same(&out, &truth);
                    theirs.messages += n;
                    theirs.nothing += u64::from(n == 0);
                }
                fresh();
                let begun = Instant::now();
                vacuum(&db, &out);
                vacuumed.time += begun.elapsed();
                let n = same(&out, &truth);
                vacuumed.messages += n;
                vacuumed.nothing += u64::from(n == 0);
            }
            let count = files.len() as u64;
            let all = truth.len() as u64 * count;
            let share = |n: u64| format!("{:.2} %", n as f64 * 100.0 / all as f64);
            let each = |t: Duration| format!("{:.2}", t.as_secs_f64() / count as f64);
            let (there, time) = if shell.is_some() {
                (share(theirs.messages), each(theirs.time))
            } else {
                ("not measured".to_owned(), "not measured".to_owned())
            };
            println!(
                "peers | {page_size}.{n} {what} | {count} | {all} | {} | {} | {} | {there} | {} | {} | {time} | {} |",
                share(rows),
                share(left),
                share(ours.messages),
                share(vacuumed.messages),
                each(ours.time),
                each(vacuumed.time)
            );
        }
    }
}
