//! R19, S5: databases that cass did not write, made to do harm. Nothing crashes, hangs, fills the
//! memory or the disk, or is executed; the other sources are indexed all the same.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;

use crate::figures::{Rng, count, spread};
use crate::lab::Lab;
use crate::sessions;

/// A run that takes this long hangs. What one takes on an idle machine is far below 5 s.
const HANGS: Duration = Duration::from_secs(60);
/// Processor time that no run takes, however busy the machine is.
const BUSY: Duration = Duration::from_secs(5);
/// A run that works for longer is looked at database by database.
const SLOW: Duration = Duration::from_secs(2);
const MEMORY_KIB: u64 = 300 << 10;

/// What a run came to.
struct Came {
    code: Option<i32>,
    json: Option<Value>,
    took: Duration,
    /// Processor time, as far as it was seen.
    worked: Duration,
    peak_kib: u64,
    stderr: String,
}

fn watched(lab: &Lab, args: &[&str]) -> Came {
    let begun = Instant::now();
    let mut child = lab
        .command(args)
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let said = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = err.read_to_string(&mut text);
        text
    });
    let stat = format!("/proc/{}/stat", child.id());
    let (mut peak_kib, mut worked) = (0, Duration::ZERO);
    let code = loop {
        worked = processor_time(&stat).unwrap_or(worked);
        if let Some(peak) = std::fs::read_to_string(&status).ok().and_then(|s| {
            let line = s.lines().find(|l| l.starts_with("VmHWM:"))?.to_owned();
            line.split_whitespace().nth(1)?.parse().ok()
        }) {
            peak_kib = peak;
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status.code();
        }
        if begun.elapsed() > HANGS {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(4));
    };
    Came {
        code,
        json: read
            .join()
            .unwrap()
            .ok()
            .and_then(|t| serde_json::from_str(&t).ok()),
        took: begun.elapsed(),
        worked,
        peak_kib,
        stderr: said.join().unwrap(),
    }
}

/// Of a process and its threads, in user and kernel mode; in steps of 10 ms.
fn processor_time(stat: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(stat).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|n| n.parse::<u64>().unwrap_or(0)).sum();
    Some(Duration::from_millis(ticks * 10))
}

/// Whatever the file is: one document, an exit of ours, no panic, no hang, memory in bounds.
fn holds(what: &str, came: &Came) -> Result<(), String> {
    let fail = |why: String| Err(format!("{what}: {why}"));
    let Some(code) = came.code else {
        return fail(format!(
            "ended by a signal after {:?}: {}",
            came.took, came.stderr
        ));
    };
    let Some(json) = &came.json else {
        return fail(format!("exit {code} and no document: {}", came.stderr));
    };
    if code == 9 || came.stderr.contains("a bug at") || came.stderr.contains("panicked") {
        return fail(format!("exit {code}: {} {}", json["err"], came.stderr));
    }
    if came.worked > BUSY {
        return fail(format!("{} ms of processor time", came.worked.as_millis()));
    }
    if came.peak_kib > MEMORY_KIB {
        return fail(format!("{} KiB of memory", came.peak_kib));
    }
    Ok(())
}

/// Bytes below a folder.
fn bytes_below(folder: &Path) -> u64 {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .filter_map(Result::ok)
        .filter_map(|e| e.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|m| m.len())
        .sum()
}

const SOUND: &str = ".claude/projects/-src-made/";

/// Indexes a home that has a sound session beside what is there, which must be archived.
fn indexes(lab: &Lab, what: &str) -> Result<Came, String> {
    let (path, text) = sessions::claude(9, 3);
    assert!(path.starts_with(SOUND));
    lab.put(&path, text.as_bytes());
    let came = watched(lab, &["index", "--skip-lexical"]);
    holds(what, &came)?;
    if ![Some(0), Some(8)].contains(&came.code) {
        return Err(format!("{what}: exit {:?}: {:?}", came.code, came.json));
    }
    let list = lab.run(&["sessions", "list", "--provider", "claude"]);
    let messages = list.json["sessions"][0]["messages"].as_u64().unwrap_or(0);
    if messages != 15 && messages != 12 {
        return Err(format!("{what}: the sound session has {messages} messages"));
    }
    Ok(came)
}

/// Where harnesses keep databases, and a sound one of each.
fn databases() -> Vec<(&'static str, Vec<u8>)> {
    let sample = |rel: &str| {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions");
        std::fs::read(dir.join(rel)).unwrap()
    };
    vec![
        (
            ".local/share/opencode/opencode.db",
            sample("opencode/harness-1.18.33/opencode.db"),
        ),
        (
            "src/bot/.crush/crush.db",
            sample("crush/RLGymExampleBot/crush.db"),
        ),
        (
            ".config/Cursor/User/globalStorage/state.vscdb",
            sample("cursor/S2thend-cursor-history/composer-global-state.vscdb"),
        ),
        (
            ".config/Cursor/User/workspaceStorage/0a1b/state.vscdb",
            sample("cursor/slevin48-cursor-history/workspaceStorage/state.vscdb"),
        ),
        (
            ".cursor/chats/0f/1a/store.db",
            sample("cursor/agent-sessions/test-store.db"),
        ),
        (".local/share/goose/sessions/sessions.db", goose()),
        (
            ".codex/state_5.sqlite",
            sample("codex/harness-0.171.0/state_5.sqlite"),
        ),
    ]
}

fn goose() -> Vec<u8> {
    made(|conn| {
        conn.execute_batch(
            "CREATE TABLE sessions(id TEXT PRIMARY KEY, name TEXT, working_dir TEXT, created_at TIMESTAMP);
             CREATE TABLE messages(id INTEGER PRIMARY KEY, message_id TEXT, session_id TEXT, role TEXT,
               content_json TEXT, created_timestamp INTEGER, metadata_json TEXT);
             INSERT INTO sessions VALUES('s1','n','/w','2026-09-20 10:00:00');
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<200)
             INSERT INTO messages SELECT i,'m'||i,'s1','user',
               '[{\"type\":\"text\",\"text\":\"message '||i||'\"}]',1789898400+i,NULL FROM n;",
        )
        .unwrap();
    })
}

/// The bytes of a database that `f` makes.
fn made(f: impl FnOnce(&Connection)) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA synchronous=OFF").unwrap();
    conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)
        .unwrap();
    f(&conn);
    drop(conn);
    std::fs::read(path).unwrap()
}

fn page_size(bytes: &[u8]) -> usize {
    match u16::from_be_bytes([bytes[16], bytes[17]]) {
        1 => 65536,
        n => usize::from(n),
    }
}

/// A few changes of the kind that damages trees most: pointers, counts, lengths, whole pages.
fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let size = page_size(bytes);
    let pages = bytes.len() / size;
    let some = |rng: &mut Rng, n: usize| usize::try_from(rng.below(n as u64)).unwrap();
    for _ in 0..=rng.below(6) {
        let page = some(rng, pages);
        let begin = page * size + if page == 0 { 100 } else { 0 };
        match rng.below(8) {
            // Any byte.
            0 => {
                let at = some(rng, bytes.len());
                bytes[at] = rng.next().to_le_bytes()[0];
            }
            // The page's header: kind, number of cells, where they begin, right child.
            1 | 2 => bytes[begin + some(rng, 12)] = rng.next().to_le_bytes()[0],
            // A cell's pointer.
            3 => bytes[begin + 8 + some(rng, 40)] = rng.next().to_le_bytes()[0],
            // The page becomes a copy of another: trees share branches.
            4 => {
                let other = some(rng, pages);
                let copy = bytes[other * size..(other + 1) * size].to_vec();
                if page > 0 {
                    bytes[page * size..(page + 1) * size].copy_from_slice(&copy);
                }
            }
            // A loop: an interior page whose children are itself and others.
            5 if page > 0 => {
                let child = u32::try_from(1 + some(rng, pages)).unwrap();
                let this = u32::try_from(page + 1).unwrap();
                let kids = 2 + rng.below(200);
                let of = |n: u64| if n.is_multiple_of(2) { this } else { child };
                let page = &mut bytes[page * size..(page + 1) * size];
                interior(page, &(0..kids).map(of).collect::<Vec<_>>());
            }
            // A cell that says it is very long.
            6 => {
                let at = begin + size / 2 + some(rng, size / 2 - 104);
                bytes[at..at + 4].copy_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
            }
            // A page that is free, or the end.
            _ => {
                let (from, to) = (page * size, (page + 1) * size);
                if rng.below(4) == 0 && page > 1 {
                    bytes.truncate(from);
                    return;
                }
                bytes[from.max(100)..to].fill(0);
            }
        }
    }
}

/// Makes an interior page of a table with these children.
fn interior(page: &mut [u8], children: &[u32]) {
    let size = page.len();
    page.fill(0);
    let mut at = size;
    for (n, child) in children.iter().enumerate() {
        at -= 5;
        page[at..at + 4].copy_from_slice(&child.to_be_bytes());
        page[at + 4] = 0x7f;
        let pointer = 12 + 2 * n;
        page[pointer..pointer + 2].copy_from_slice(&u16::try_from(at).unwrap().to_be_bytes());
    }
    page[0] = 5;
    page[3..5].copy_from_slice(&u16::try_from(children.len()).unwrap().to_be_bytes());
    page[5..7].copy_from_slice(&u16::try_from(at).unwrap().to_be_bytes());
    let last = children.last().copied().unwrap_or(0);
    page[8..12].copy_from_slice(&last.to_be_bytes());
}

/// Gives the table a tree in which every page is named three hundred times: more rows than any disk.
fn endless(bytes: &mut Vec<u8>, table: &str) {
    let size = page_size(bytes);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.db");
    std::fs::write(&path, &*bytes).unwrap();
    let root: usize = Connection::open(&path)
        .unwrap()
        .query_row(
            "SELECT rootpage FROM sqlite_schema WHERE name=?1",
            [table],
            |r| r.get::<_, u32>(0),
        )
        .unwrap() as usize;
    let leaf = bytes[(root - 1) * size..root * size].to_vec();
    bytes.extend(leaf);
    for _ in 0..16 {
        let child = u32::try_from(bytes.len() / size).unwrap();
        let mut page = vec![0; size];
        interior(&mut page, &vec![child; 300]);
        bytes.extend(page);
    }
    let child = u32::try_from(bytes.len() / size).unwrap();
    interior(
        &mut bytes[(root - 1) * size..root * size],
        &vec![child; 300],
    );
    resized(bytes);
}

/// A schema of the same row over and over, without end.
fn endless_schema() -> Vec<u8> {
    let mut bytes = made(|conn| {
        conn.execute_batch("CREATE TABLE session(id TEXT PRIMARY KEY, time_created INTEGER);")
            .unwrap();
    });
    let size = page_size(&bytes);
    let first = bytes[..size].to_vec();
    let leaf_of = |cell: usize| {
        let mut leaf = first.clone();
        let pointer = first[108 + 2 * cell..110 + 2 * cell].to_vec();
        leaf[..8].copy_from_slice(&first[100..108]);
        leaf[3..5].copy_from_slice(&[0, 1]);
        leaf[8..10].copy_from_slice(&pointer);
        leaf
    };
    let (table, index) = (leaf_of(0), leaf_of(1));
    let table_at = u32::try_from(bytes.len() / size + 1).unwrap();
    bytes.extend(table);
    bytes.extend(index);
    for _ in 0..15 {
        let child = u32::try_from(bytes.len() / size).unwrap();
        let mut page = vec![0; size];
        interior(&mut page, &vec![child; 300]);
        bytes.extend(page);
    }
    let child = u32::try_from(bytes.len() / size).unwrap();
    let mut root = vec![0; size];
    interior(&mut root, &[table_at]);
    root.copy_within(0..14, 100);
    root[108..112].copy_from_slice(&child.to_be_bytes());
    root[..100].copy_from_slice(&first[..100]);
    bytes[..size].copy_from_slice(&root);
    resized(&mut bytes);
    bytes
}

fn resized(bytes: &mut [u8]) {
    let pages = u32::try_from(bytes.len() / page_size(bytes)).unwrap();
    bytes[28..32].copy_from_slice(&pages.to_be_bytes());
    bytes.copy_within(24..28, 92);
}

#[test]
fn r19_mutated_databases_of_harnesses() {
    let rounds = count("CASS_DAMAGE_HOSTILE", 8);
    let all = databases();
    let (done, slowest, most) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let busiest: Vec<AtomicU64> = all.iter().map(|_| AtomicU64::new(0)).collect();
    let wrong: Vec<String> = spread(usize::try_from(rounds).unwrap(), |round| {
        let round = round as u64;
        let mut rng = Rng(1900 + round);
        let lab = Lab::empty();
        let home = std::fs::canonicalize(lab.home()).unwrap();
        let list = format!(
            r#"{{"projects":[{{"path":"{0}/src/bot","data_dir":"{0}/src/bot/.crush"}}]}}"#,
            home.display()
        );
        lab.put(".local/share/crush/projects.json", list.as_bytes());
        let mut made = Vec::new();
        for (path, sound) in &all {
            let mut bytes = sound.clone();
            mutate(&mut bytes, &mut rng);
            lab.put(path, &bytes);
            made.push(bytes);
            done.fetch_add(1, Ordering::Relaxed);
        }
        let came = match indexes(&lab, &format!("round {round}")) {
            Ok(came) => came,
            Err(why) => return Some(why),
        };
        slowest.fetch_max(came.took.as_millis() as u64, Ordering::Relaxed);
        most.fetch_max(came.peak_kib, Ordering::Relaxed);
        // Which of them it was: each alone.
        if came.worked > SLOW {
            for (((path, _), bytes), busiest) in all.iter().zip(&made).zip(&busiest) {
                let lab = Lab::empty();
                lab.put(".local/share/crush/projects.json", list.as_bytes());
                lab.put(path, bytes);
                let alone = watched(&lab, &["index", "--skip-lexical"]);
                let worked = alone.worked.as_millis() as u64;
                if busiest.fetch_max(worked, Ordering::Relaxed) < worked && alone.worked > SLOW {
                    println!("hostile: {path} of round {round}: {worked} ms of processor time");
                }
            }
        }
        let check = watched(&lab, &["doctor", "check", "--deep"]);
        if let Err(why) = holds(&format!("round {round}: check"), &check) {
            return Some(why);
        }
        let own = check.json.as_ref().is_some_and(|json| {
            let found = json["findings"].as_array();
            found.is_some_and(|f| {
                f.iter()
                    .any(|f| f["code"] == "row-damaged" || f["code"] == "archive-corrupt")
            })
        });
        own.then(|| format!("round {round}: the archive was damaged by it"))
    })
    .into_iter()
    .flatten()
    .collect();
    for ((path, _), busiest) in all.iter().zip(&busiest) {
        let worked = busiest.load(Ordering::Relaxed);
        if worked > 0 {
            println!("hostile: {path}: {worked} ms of processor time at most, alone");
        }
    }
    println!(
        "hostile | mutated databases of {} kinds: {} in {rounds} runs; slowest run {} ms, most memory {} MiB, {} wrong |",
        all.len(),
        done.into_inner(),
        slowest.into_inner(),
        most.into_inner() >> 10,
        wrong.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

const OPENCODE: &str = ".local/share/opencode/opencode.db";
const TABLES: &str = "CREATE TABLE session(id TEXT PRIMARY KEY, title TEXT, time_created INTEGER);
    CREATE TABLE message(id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
    CREATE TABLE part(id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);";
const ROWS: &str = r#"INSERT INTO session VALUES('s','t',1);
    INSERT INTO message VALUES('m','s',1,'{"role":"user"}');
    INSERT INTO part VALUES('p','m','s','{"type":"text","text":"of a hostile file"}');"#;

/// Databases made by hand, by what is wrong with them; whether something of them must be refused.
fn by_hand() -> Vec<(&'static str, bool, Vec<u8>)> {
    let sql = |text: &str| made(|conn| conn.execute_batch(text).unwrap());
    let mut all = vec![
        (
            "views in the place of tables",
            false,
            sql("CREATE VIEW session AS SELECT writefile('/dev/shm/cass-hostile-canary','x') AS id, 1 AS time_created;
                 CREATE VIEW message AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i AS id, 's' AS session_id FROM n;"),
        ),
        (
            "a view that never ends",
            false,
            sql("CREATE VIEW session AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i AS id, i AS time_created FROM n;"),
        ),
        (
            "virtual tables in the place of tables",
            false,
            sql("CREATE VIRTUAL TABLE session USING fts5(id, time_created); CREATE VIRTUAL TABLE message USING rtree(id, a, b);"),
        ),
        (
            "tables without row ids",
            false,
            sql("CREATE TABLE session(id TEXT PRIMARY KEY, time_created INTEGER) WITHOUT ROWID; INSERT INTO session VALUES('s',1);"),
        ),
        (
            "triggers that write",
            false,
            sql(&format!(
                "{TABLES}{ROWS} CREATE TRIGGER t AFTER INSERT ON session BEGIN INSERT INTO part SELECT randomblob(9),'m','s','{{}}' FROM part; END;"
            )),
        ),
        (
            "values of wrong types",
            false,
            sql(&format!(
                "{TABLES}{ROWS} INSERT INTO session VALUES(x'00ff', 1.5e308, x'ff'); INSERT INTO session VALUES(NULL,NULL,'x');
                 INSERT INTO message VALUES(-9223372036854775808, x'80', 'soon', x'c328'); INSERT INTO part VALUES(1e999, 'm', 's', 17);"
            )),
        ),
        (
            "a computed column of 40 MB",
            true,
            sql("CREATE TABLE session(n INTEGER PRIMARY KEY, id TEXT GENERATED ALWAYS AS (n||hex(zeroblob(n*20000000))), time_created INTEGER);
                 INSERT INTO session(n) VALUES(0),(-1),(-2); UPDATE session SET n=-n;"),
        ),
        (
            "a default of a megabyte in every row",
            true,
            made(|conn| {
                conn.execute_batch(
                    "CREATE TABLE session(n INTEGER PRIMARY KEY);
                     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<5000) INSERT INTO session SELECT i FROM n;",
                )
                .unwrap();
                conn.execute_batch(&format!(
                    "ALTER TABLE session ADD COLUMN id TEXT DEFAULT '{}'; ALTER TABLE session ADD COLUMN time_created;",
                    "d".repeat(900_000)
                ))
                .unwrap();
            }),
        ),
        (
            "a check that takes for ever",
            false,
            made(|conn| {
                conn.execute_batch("PRAGMA ignore_check_constraints=ON").unwrap();
                conn.execute_batch(&format!(
                    "CREATE TABLE session(id TEXT PRIMARY KEY CHECK(length(hex(zeroblob(60000000)))>0), title TEXT, time_created INTEGER);
                     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<3000) INSERT INTO session SELECT 's'||i,'t',i FROM n;
                     {}",
                    TABLES.split_once(';').unwrap().1
                ))
                .unwrap();
            }),
        ),
        (
            "long texts",
            false,
            made(|conn| {
                conn.execute_batch(TABLES).unwrap();
                conn.execute_batch(ROWS).unwrap();
                let text = format!(r#"{{"type":"text","text":"{}"}}"#, "x".repeat(9_000_000));
                for i in 0..6 {
                    conn.execute("INSERT INTO part VALUES(?1,'m','s',?2)", (format!("q{i}"), &text)).unwrap();
                }
            }),
        ),
        ("a schema without end", true, endless_schema()),
        // Of which no name can be asked: the driver panics at it.
        ("a column whose name is no text", false, {
            let mut bytes = sql(&format!("{TABLES}{ROWS}").replace("title TEXT", "tqtle TEXT"));
            let at = bytes.windows(5).position(|w| w == b"tqtle").unwrap();
            bytes[at + 1] = 0xff;
            bytes
        }),
        ("no database", true, vec![7; 9000]),
        ("an empty file", false, Vec::new()),
        ("nothing but a header", true, sql(TABLES)[..100].to_vec()),
    ];
    for table in ["session", "message", "part"] {
        let mut bytes = sql(&format!("{TABLES}{ROWS}"));
        endless(&mut bytes, table);
        all.push(("a table without end", true, bytes));
    }
    // Ids of 100 kB, sorted, without end.
    let mut bytes = made(|conn| {
        conn.execute_batch(TABLES).unwrap();
        conn.execute(
            "INSERT INTO session VALUES(?1,'t',1)",
            ["s".repeat(100_000)],
        )
        .unwrap();
    });
    endless(&mut bytes, "session");
    all.push(("a table of long ids without end", true, bytes));
    // A row whose pages go round in a circle.
    let mut bytes = made(|conn| {
        conn.execute_batch(TABLES).unwrap();
        conn.execute_batch(ROWS).unwrap();
        conn.execute(
            "INSERT INTO part VALUES('q','m','s',?1)",
            ["y".repeat(200_000)],
        )
        .unwrap();
    });
    let size = page_size(&bytes);
    for page in 1..bytes.len() / size {
        let at = page * size;
        if bytes[at + 100..at + size].iter().all(|b| *b == b'y') {
            bytes[at..at + 4].copy_from_slice(&u32::try_from(page + 1).unwrap().to_be_bytes());
        }
    }
    all.push(("a row that goes round in a circle", false, bytes));
    all
}

#[test]
fn r19_databases_made_by_hand() {
    let canary = Path::new("/dev/shm/cass-hostile-canary");
    let _ = std::fs::remove_file(canary);
    let (slowest, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let all = by_hand();
    let wrong: Vec<String> = spread(all.len(), |n| {
        let (what, refused, bytes) = &all[n];
        let lab = Lab::empty();
        lab.put(OPENCODE, bytes);
        let came = match indexes(&lab, what) {
            Ok(came) => came,
            Err(why) => return Some(why),
        };
        slowest.fetch_max(came.took.as_millis() as u64, Ordering::Relaxed);
        most.fetch_max(came.peak_kib, Ordering::Relaxed);
        // What is stored is in proportion to what is there.
        let stored = bytes_below(&lab.data());
        if stored > (16 << 20) + 8 * bytes.len() as u64 {
            return Some(format!(
                "{what}: {stored} bytes are stored of {}",
                bytes.len()
            ));
        }
        let told = came.json.as_ref().is_some_and(|json| {
            ["failures", "notes"]
                .iter()
                .any(|list| json[list].to_string().contains("opencode.db"))
        });
        (*refused && !told).then(|| format!("{what}: nothing was said of it: {:?}", came.json))
    })
    .into_iter()
    .flatten()
    .collect();
    println!(
        "hostile | databases made by hand: {}; slowest run {} ms, most memory {} MiB, {} wrong |",
        all.len(),
        slowest.into_inner(),
        most.into_inner() >> 10,
        wrong.len()
    );
    assert!(!canary.exists(), "a function of a view was run");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A journal that names a file elsewhere, as one of a change of several databases does: the file
/// stays, and what is read does not depend on whether it is there.
#[test]
fn a_journal_that_names_a_file_elsewhere() {
    let bytes = made(|conn| conn.execute_batch(&format!("{TABLES}{ROWS}")).unwrap());
    let size = page_size(&bytes);
    let mut messages = Vec::new();
    for there in [true, false] {
        let lab = Lab::empty();
        let named = lab.path().join("x.db-mj0123456789");
        if there {
            std::fs::write(&named, b"precious").unwrap();
        }
        // The journal takes the schema's page back to what it is, and the last page to zeros.
        let mut journal = vec![0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
        let pages = u32::try_from(bytes.len() / size).unwrap();
        for n in [1, 7, pages, 512, u32::try_from(size).unwrap()] {
            journal.extend(n.to_be_bytes());
        }
        journal.resize(512, 0);
        let page = &bytes[..size];
        let mut sum = 7u32;
        let mut at = size - 200;
        while at > 0 {
            sum = sum.wrapping_add(u32::from(page[at]));
            at = at.saturating_sub(200);
        }
        journal.extend(1u32.to_be_bytes());
        journal.extend(page);
        journal.extend(sum.to_be_bytes());
        let name = named.to_string_lossy().into_owned().into_bytes();
        let lock_page = u32::try_from(0x4000_0000 / size + 1).unwrap();
        journal.extend(lock_page.to_be_bytes());
        journal.extend(&name);
        journal.extend(u32::try_from(name.len()).unwrap().to_be_bytes());
        journal.extend(
            name.iter()
                .map(|b| u32::from(*b))
                .sum::<u32>()
                .to_be_bytes(),
        );
        journal.extend([0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
        // The file itself has another title in the meantime.
        let mut changed = bytes.clone();
        changed[24..28].copy_from_slice(&99u32.to_be_bytes());
        changed[60..64].copy_from_slice(&4242u32.to_be_bytes());
        lab.put(OPENCODE, &changed);
        lab.put(&format!("{OPENCODE}-journal"), &journal);
        indexes(&lab, "a journal").unwrap();
        assert_eq!(named.exists(), there);
        let list = lab.run(&["sessions", "list", "--provider", "opencode"]);
        messages.push(list.json["sessions"].to_string());
    }
    assert_eq!(messages[0], messages[1]);
}

/// Where what a handed archive names must not be written.
const HANDED: &str = "/dev/shm/cass-hostile-handed-canary";

/// A sound archive that somebody changed by SQL, by what was done to it.
fn changed_by_hand(sound: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n)";
    let touch = format!("writefile('{HANDED}','x')");
    let columns = "conversation, role, kind, tool_name, call_id, model, is_error, row_hash";
    let cases = [
        (
            "a view that never ends in the place of the messages",
            format!(
                "DROP TABLE messages; CREATE VIEW messages AS {endless} SELECT i AS id, \
                 1 AS conversation, 'user' AS role, 'text' AS kind, {touch} AS text, NULL AS tool_name, \
                 NULL AS call_id, NULL AS model, NULL AS is_error, x'00' AS row_hash FROM n;"
            ),
        ),
        (
            "a view in the place of the first table that is read",
            format!(
                "DROP TABLE meta; CREATE VIEW meta AS {endless} SELECT i AS id, {touch} AS name, \
                 'x' AS value, x'00' AS row_hash FROM n;"
            ),
        ),
        (
            "triggers on every table",
            ["records", "messages", "commits", "sources", "conversations"]
                .map(|table| {
                    format!(
                        "CREATE TRIGGER t_{table} BEFORE INSERT ON {table} BEGIN \
                         SELECT {touch}; DELETE FROM messages; END;"
                    )
                })
                .concat(),
        ),
        (
            "virtual tables in the place of tables",
            "DROP TABLE messages; CREATE VIRTUAL TABLE messages USING fts5(conversation, role, kind, \
             text, tool_name, call_id, model, is_error, row_hash); DROP TABLE skips; \
             CREATE VIRTUAL TABLE skips USING rtree(id, a, b);"
                .to_owned(),
        ),
        (
            "a computed column of 40 MB a row",
            format!(
                "ALTER TABLE messages RENAME TO was; CREATE TABLE messages(id INTEGER PRIMARY KEY, \
                 conversation INTEGER NOT NULL, role TEXT NOT NULL, kind TEXT NOT NULL, \
                 text TEXT AS (hex(zeroblob(20000000))), tool_name TEXT, call_id TEXT, model TEXT, \
                 is_error INTEGER, row_hash BLOB NOT NULL) STRICT; \
                 INSERT INTO messages(id, {columns}) SELECT id, {columns} FROM was; DROP TABLE was;"
            ),
        ),
        (
            "values of wrong types",
            "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql=replace(sql,'STRICT','') \
             WHERE type='table'; PRAGMA writable_schema=RESET; \
             UPDATE messages SET role=x'80ff', kind=17, text=1.5e308 WHERE id%3=0; \
             UPDATE records SET hash='no hash', occurrence='many' WHERE id%3=1; \
             UPDATE conversations SET native_id=x'c328';"
                .to_owned(),
        ),
        (
            "fields of 30 MB",
            "INSERT INTO messages SELECT id+(1<<40), conversation, role, kind, \
             CAST(zeroblob(30000000) AS TEXT), tool_name, call_id, model, is_error, row_hash \
             FROM messages LIMIT 2;"
                .to_owned(),
        ),
        (
            "a check that calls a function",
            "CREATE TABLE more(x TEXT CHECK(length(hex(zeroblob(60000000)))>0) DEFAULT 'x'); \
             INSERT INTO more DEFAULT VALUES;"
                .to_owned(),
        ),
        (
            "an index over a function",
            "CREATE INDEX odd ON messages(length(hex(zeroblob(100000))));".to_owned(),
        ),
    ];
    cases
        .into_iter()
        .map(|(what, sql)| {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x.db");
            std::fs::write(&path, sound).unwrap();
            let conn = Connection::open(&path).unwrap();
            conn.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_DEFENSIVE, false)
                .unwrap();
            conn.execute_batch(&format!(
                "PRAGMA journal_mode=DELETE; PRAGMA foreign_keys=OFF; PRAGMA synchronous=OFF; {sql}"
            ))
            .unwrap_or_else(|e| panic!("{what}: {e}"));
            drop(conn);
            (what, std::fs::read(path).unwrap())
        })
        .collect()
}

/// A file given to `repair --from`, and a backup that somebody changed.
#[test]
fn r19_archives_that_others_hand_over() {
    let rounds = count("CASS_DAMAGE_HANDED", 10);
    let lab = Lab::mixed(4096);
    let sound = std::fs::read(lab.db()).unwrap();
    let _ = std::fs::remove_file(HANDED);
    let mut files: Vec<(String, Vec<u8>)> = (0..rounds)
        .map(|n| {
            let mut bytes = sound.clone();
            mutate(&mut bytes, &mut Rng(5000 + n));
            (format!("mutation {n}"), bytes)
        })
        .collect();
    for table in ["messages", "records", "conversations"] {
        let mut bytes = sound.clone();
        endless(&mut bytes, table);
        files.push((format!("{table} without end"), bytes));
    }
    files.push(("a schema without end".to_owned(), endless_schema()));
    let by_hand = changed_by_hand(&sound).into_iter();
    files.extend(by_hand.map(|(what, bytes)| (what.to_owned(), bytes)));
    files.push((
        "views with our names".to_owned(),
        made(|conn| {
            conn.execute_batch(
                "PRAGMA application_id=1; CREATE VIEW messages AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i AS id FROM n;",
            )
            .unwrap();
        }),
    ));
    let (slowest, most) = (AtomicU64::new(0), AtomicU64::new(0));
    let wrong: Vec<String> = spread(files.len(), |n| {
        let (what, bytes) = &files[n];
        let empty = Lab::empty();
        std::fs::create_dir(empty.data()).unwrap();
        let file: PathBuf = empty.path().join("handed.db");
        std::fs::write(&file, bytes).unwrap();
        let from = format!("--from={}", file.display());
        let planned = watched(&empty, &["doctor", "repair", &from]);
        slowest.fetch_max(planned.took.as_millis() as u64, Ordering::Relaxed);
        most.fetch_max(planned.peak_kib, Ordering::Relaxed);
        if let Err(why) = holds(what, &planned) {
            return Some(why);
        }
        let argv: Vec<String> = planned.json.as_ref()?["repair_plan"]["apply_argv"]
            .as_array()?
            .iter()
            .skip(1)
            .map(|w| w.as_str().unwrap().to_owned())
            .collect();
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let applied = watched(&empty, &argv);
        if let Err(why) = holds(&format!("{what}: apply"), &applied) {
            return Some(why);
        }
        let check = empty.run(&["doctor", "check", "--deep", "--only", "archive.rows"]);
        (applied.code == Some(0) && check.code != 0)
            .then(|| format!("{what}: the archive that was made does not verify"))
    })
    .into_iter()
    .flatten()
    .collect();
    println!(
        "hostile | archives handed to `repair --from`: {}; slowest plan {} ms, most memory {} MiB, {} wrong |",
        files.len(),
        slowest.into_inner(),
        most.into_inner() >> 10,
        wrong.len()
    );
    assert!(
        !Path::new(HANDED).exists(),
        "a function of a handed archive was run"
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}
