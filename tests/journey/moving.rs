//! Sources that change while they are read. A capture is a state that the source really had, or
//! it says that the source was moving.
//!
//! The contents describe themselves: each line names its version, its place and the number of
//! lines, so that a capture made of two states is seen in the capture alone. How a reader and a
//! writer meet is chance; what must hold is not.

use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::sandbox::{Ran, Sandbox, ran, snapshot};

/// Longer lines make longer sources; nobody reads it.
const FILLER: &str = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz\
                      abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";

fn line(version: u64, n: u64, of: u64) -> String {
    format!(
        "{{\"type\":\"user\",\"version\":{version},\"n\":{n},\"of\":{of},\"x\":\"{FILLER}\"}}\n"
    )
}

fn whole(version: u64, of: u64) -> Vec<u8> {
    (0..of)
        .flat_map(|n| line(version, n, of).into_bytes())
        .collect()
}

/// Lines of a version; each version is longer or shorter than the one before.
fn lines_of(version: u64, most: u64) -> u64 {
    most / 4 + (version * 7919) % (most * 3 / 4)
}

/// `cass index`, which waits after each read of a source, so that the writer gets in between. It
/// runs as fast as it can where strace is missing: then a tear is a matter of luck.
fn slowed(sandbox: &Sandbox, paths: &[PathBuf]) -> Ran {
    static TRACED: LazyLock<bool> = LazyLock::new(|| {
        Command::new("strace")
            .args(["-qq", "-o", "/dev/null", "true"])
            .status()
            .is_ok_and(|s| s.success())
    });
    let index = sandbox.command(&["index", "--json"]);
    if !*TRACED {
        return sandbox.run(&["index"]);
    }
    let mut slow = Command::new("strace");
    slow.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=read"])
        .args(["-e", "inject=read:delay_exit=4000"]);
    for path in paths {
        slow.arg("-P").arg(path);
    }
    slow.env_clear()
        .envs(index.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .arg(index.get_program())
        .args(index.get_args())
        .stdin(Stdio::null());
    ran(slow.output().unwrap())
}

struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `writer` on each of `paths` again and again while `index` runs so often, and hands every capture
/// that is not marked to `check`. Returns how many there were, and how many were marked.
fn beside(
    sandbox: &Sandbox,
    runs: usize,
    paths: &[PathBuf],
    writer: impl Fn(&Path, u64) + Sync,
    check: impl Fn(&[u8]) -> Result<(), String>,
) -> (usize, usize) {
    for path in paths {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        writer(path, 0);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // However this ends, the writer must.
        let _ends = SetAtEnd(&stop);
        scope.spawn(|| {
            for version in 1.. {
                for path in paths {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    writer(path, version);
                }
            }
        });
        for _ in 0..runs {
            slowed(sandbox, paths).expect(0);
        }
    });
    // Now that it holds still: its last state is captured, and as a stable one.
    sandbox.run(&["index"]).expect(0);
    let (mut stable, mut marked) = (0, 0);
    for path in paths {
        let captures = sandbox.captures(path);
        let newest = captures.last().unwrap();
        assert_eq!(newest["moving"], false);
        assert!(sandbox.get_with(path, &[]) == std::fs::read(path).unwrap());
        for capture in &captures {
            if capture["moving"] == true {
                marked += 1;
                continue;
            }
            let seq = capture["seq"].as_u64().unwrap();
            let bytes = sandbox.get(path, seq);
            if let Err(what) = check(&bytes) {
                panic!(
                    "capture {seq} of {} is no state it had: {what}",
                    path.display()
                );
            }
            stable += 1;
        }
    }
    assert!(stable >= paths.len());
    assert!(
        stable + marked > paths.len(),
        "no two states of one source were met"
    );
    println!("{stable} captures, {marked} marked as moving");
    (stable, marked)
}

/// Version and number of every line; the last line may be cut.
fn read(bytes: &[u8]) -> Result<Vec<(u64, u64, u64)>, String> {
    let mut lines = Vec::new();
    for piece in bytes
        .split_inclusive(|b| *b == b'\n')
        .filter(|l| l.ends_with(b"\n"))
    {
        let value: serde_json::Value =
            serde_json::from_slice(piece).map_err(|e| format!("line {}: {e}", lines.len()))?;
        let field = |name: &str| value[name].as_u64().unwrap();
        lines.push((field("version"), field("n"), field("of")));
    }
    Ok(lines)
}

fn paths(sandbox: &Sandbox, count: usize) -> Vec<PathBuf> {
    (0..count)
        .map(|n| {
            sandbox
                .home()
                .join(format!(".claude/projects/-p/{n:02}.jsonl"))
        })
        .collect()
}

/// One version and no other, from its first line on.
fn one_version(bytes: &[u8]) -> Result<Vec<(u64, u64, u64)>, String> {
    let lines = read(bytes)?;
    for (at, (version, n, _)) in lines.iter().enumerate() {
        if *version != lines[0].0 || *n != at as u64 {
            return Err(format!("line {at} is line {n} of version {version}"));
        }
    }
    // What is behind the last line end belongs to that version as well.
    if let Some((version, _, of)) = lines.first() {
        let expected = whole(*version, *of);
        if !expected.starts_with(bytes) {
            return Err("its end is of another version".to_owned());
        }
    }
    Ok(lines)
}

#[test]
fn emptied_and_written_anew() {
    let sandbox = Sandbox::new();
    let paths = paths(&sandbox, 12);
    let writer = |path: &Path, version| {
        std::fs::write(path, whole(version, lines_of(version, 400))).unwrap();
    };
    beside(&sandbox, 6, &paths, writer, |bytes| {
        one_version(bytes).map(|_| ())
    });
}

#[test]
fn a_long_one_emptied_and_written_anew() {
    let sandbox = Sandbox::new();
    let paths = paths(&sandbox, 1);
    let writer = |path: &Path, version: u64| {
        // Above the size up to which a source is read into memory, and now shorter, now longer.
        let of = 38_000 + (version * 7919) % 8_000;
        std::fs::write(path, whole(version, of)).unwrap();
    };
    beside(&sandbox, 3, &paths, writer, |bytes| {
        one_version(bytes).map(|_| ())
    });
}

#[test]
fn replaced_by_a_rename() {
    let sandbox = Sandbox::new();
    let paths = paths(&sandbox, 12);
    let writer = |path: &Path, version| {
        let new = path.with_extension("new");
        std::fs::write(&new, whole(version, lines_of(version, 400))).unwrap();
        std::fs::rename(&new, path).unwrap();
    };
    beside(&sandbox, 6, &paths, writer, |bytes| {
        let lines = one_version(bytes)?;
        match lines.first() {
            Some((_, _, of)) if *of == lines.len() as u64 => Ok(()),
            other => Err(format!("{} lines of {other:?}", lines.len())),
        }
    });
}

#[test]
fn growing_line_by_line() {
    let sandbox = Sandbox::new();
    let paths = paths(&sandbox, 6);
    let writer = |path: &Path, version: u64| {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        // Slow enough not to fill the disk, whatever the machine does meanwhile.
        std::thread::sleep(std::time::Duration::from_micros(100));
        if version > 20_000 {
            return;
        }
        // Half a line at a time, as a writer does whose buffer ends anywhere.
        let text = line(7, version, u64::MAX);
        file.write_all(&text.as_bytes()[..50]).unwrap();
        file.write_all(&text.as_bytes()[50..]).unwrap();
    };
    let check = |bytes: &[u8]| -> Result<(), String> {
        for (at, (_, n, _)) in read(bytes)?.iter().enumerate() {
            if *n != at as u64 {
                return Err(format!("line {at} is line {n}"));
            }
        }
        Ok(())
    };
    let (_, marked) = beside(&sandbox, 6, &paths, writer, check);
    assert_eq!(
        marked, 0,
        "a source that only grows has a state to capture at any time"
    );
}

#[test]
fn overwritten_in_place_from_front_to_back() {
    let sandbox = Sandbox::new();
    let paths = paths(&sandbox, 8);
    let writer = |path: &Path, version: u64| {
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        // As long as before: only the time can tell, and its clock is coarse.
        for n in 0..300 {
            file.write_all(line(1_000_000 + version, n, 300).as_bytes())
                .unwrap();
        }
    };
    beside(&sandbox, 6, &paths, writer, |bytes| {
        let lines = read(bytes)?;
        let newest = lines.first().map_or(0, |l| l.0);
        // The writer overwrites line by line: new lines up to somewhere, old ones from there on.
        let new = lines.iter().take_while(|l| l.0 == newest).count();
        if lines[new..].iter().all(|l| l.0 + 1 == newest) {
            return Ok(());
        }
        let versions: Vec<u64> = lines.iter().map(|l| l.0).collect();
        Err(format!("versions {versions:?}"))
    });
}

/// The process that commits to a database while it is captured: this test binary, run again with
/// the path in its environment, and nothing without. It ends with its standard input.
#[test]
fn writer_process() {
    let Some(path) = std::env::var_os("JOURNEY_DATABASE") else {
        return;
    };
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.pragma_update(None, "journal_mode", "wal").unwrap();
    conn.pragma_update(None, "synchronous", "off").unwrap();
    // Checkpoints in the middle of it, so that frames move into the database all the time.
    conn.pragma_update(None, "wal_autocheckpoint", 20).unwrap();
    conn.execute_batch(
        "CREATE TABLE rows(batch INTEGER, n INTEGER, body BLOB);
         CREATE TABLE total(rows INTEGER); INSERT INTO total VALUES(0);",
    )
    .unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|n| n > 0) {
            send.send(()).unwrap();
        }
    });
    for batch in 0i64.. {
        conn.execute_batch("BEGIN").unwrap();
        for n in 0..10i64 {
            let body = vec![u8::try_from(batch % 251).unwrap(); 500];
            conn.execute("INSERT INTO rows VALUES(?1, ?2, ?3)", (batch, n, body))
                .unwrap();
        }
        conn.execute("UPDATE total SET rows = rows + 10", [])
            .unwrap();
        // Old pages change as well, so that one of another commit is noticed.
        conn.execute(
            "UPDATE rows SET n = n + 10 WHERE batch = ?1",
            [batch * 7919 % (batch + 1)],
        )
        .unwrap();
        conn.execute_batch("COMMIT").unwrap();
        if batch == 3 {
            println!("READY");
        }
        // A line means rest, the next one means go on; the end of the lines is the end.
        match receive.try_recv() {
            Err(std::sync::mpsc::TryRecvError::Empty) => continue,
            Ok(()) => {
                println!("RESTS");
                if receive.recv().is_ok() {
                    continue;
                }
            }
            Err(std::sync::mpsc::TryRecvError::Disconnected) => {}
        }
        // Its WAL stays: the process ends without closing.
        std::mem::forget(conn);
        return;
    }
}

#[test]
fn live_databases_are_captured_as_a_group() {
    let sandbox = Sandbox::new();
    let path = sandbox.home().join(".codex/state_5.sqlite");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "moving::writer_process", "--nocapture"])
        .env("JOURNEY_DATABASE", &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(writer.stdout.take().unwrap());
    let mut wait_for = |word: &str| {
        let mut said = String::new();
        while !said.contains(word) {
            said.clear();
            assert!(
                std::io::BufRead::read_line(&mut out, &mut said).unwrap() > 0,
                "no writer"
            );
        }
    };
    wait_for("READY");
    let files = [path.clone(), path.with_extension("sqlite-wal")];
    let mut orders = writer.stdin.take().unwrap();
    for _ in 0..3 {
        // Beside a writer that never rests, as fast as it goes and slowed down; then while it
        // rests with its WAL full, which is the state that must be captured.
        sandbox.run(&["index"]).expect(0);
        slowed(&sandbox, &files).expect(0);
        orders.write_all(b"rest\n").unwrap();
        wait_for("RESTS");
        sandbox.run(&["index"]).expect(0);
        assert_eq!(sandbox.captures(&path).last().unwrap()["moving"], false);
        orders.write_all(b"go on\n").unwrap();
    }
    drop(orders);
    assert!(writer.wait().unwrap().success());

    // What its writer left is not touched: neither the database, nor its WAL, nor its index.
    let home = snapshot(&sandbox.home());
    assert!(
        home.keys().any(|p| p.to_string_lossy().ends_with("-wal")),
        "the writer left no WAL"
    );
    sandbox.run(&["index", "--full"]).expect(0);
    assert_eq!(snapshot(&sandbox.home()), home);

    let captures = sandbox.captures(&path);
    assert_eq!(captures.last().unwrap()["moving"], false);
    let (mut stable, mut with_wal) = (0, 0);
    let mut totals = std::collections::BTreeSet::new();
    for capture in captures.iter().filter(|c| c["moving"] == false) {
        let seq = capture["seq"].as_u64().unwrap();
        let dir = sandbox.path().join(format!("group-{seq}"));
        std::fs::create_dir(&dir).unwrap();
        let copy = dir.join("state_5.sqlite");
        std::fs::write(&copy, sandbox.get(&path, seq)).unwrap();
        for member in capture["members"].as_array().unwrap_or(&Vec::new()) {
            let name = member["name"].as_str().unwrap();
            assert!(["-wal", "-journal"].contains(&name));
            let seq = seq.to_string();
            let bytes = sandbox.get_with(&path, &["--seq", &seq, "--member", name]);
            std::fs::write(dir.join(format!("state_5.sqlite{name}")), bytes).unwrap();
            with_wal += 1;
        }
        let conn = rusqlite::Connection::open(&copy).unwrap();
        let sound: String = conn
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .unwrap();
        assert_eq!(sound, "ok", "capture {seq}");
        let (total, rows, batches, last): (i64, i64, i64, i64) = conn
            .query_row(
                "SELECT (SELECT rows FROM total), count(*), count(DISTINCT batch), max(batch)
                 FROM rows",
                [],
                |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?)),
            )
            .unwrap();
        assert_eq!(
            (total, rows, batches),
            (rows, batches * 10, last + 1),
            "capture {seq}"
        );
        totals.insert(total);
        stable += 1;
    }
    println!(
        "{stable} of {} captures stable, {with_wal} members",
        captures.len()
    );
    assert!(stable >= 2 && with_wal > 0 && totals.len() >= 2);
}
