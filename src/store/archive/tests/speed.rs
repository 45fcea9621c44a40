//! Measurements, run by hand:
//! `cargo test --release --lib store::archive::tests::speed -- --ignored --nocapture`

use std::time::{Duration, Instant};

use super::*;

const SOURCES: usize = 50;
const LINES: usize = 2000;

fn corpus() -> Vec<(String, Vec<Piece>, ResumePoint)> {
    (0..SOURCES)
        .map(|n| {
            let lines: Vec<Raw> = (0..LINES)
                .map(|i| {
                    let size = 100 + (i * 7919 + n * 104_729) % 1500;
                    let id = Digest::of(format!("{n} {i}").as_bytes()).to_hex();
                    msg(
                        &format!("session {n}"),
                        &id[..36],
                        &"a few words ".repeat(size / 12),
                    )
                    .at(i as i64)
                })
                .collect();
            let (pieces, resume) = pieces(&lines, 0, None);
            (format!("file {n}"), pieces, resume)
        })
        .collect()
}

/// CPU time of this process: the machine may be busy.
fn cpu() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// The same rows into the same tables, by a plain loop that knows nothing of the archive.
fn plain_insert(source: &Path, target: &Path) -> (Duration, Duration) {
    let from = raw(source);
    let to = crate::store::sqlite::open_write(target, true).unwrap();
    let tables = ["sources", "conversations", "records", "messages"];
    for sql in ["table", "index"] {
        let mut s = from
            .prepare("SELECT sql FROM sqlite_schema WHERE type=?1 AND sql IS NOT NULL")
            .unwrap();
        for sql in s.query_map([sql], |r| r.get::<_, String>(0)).unwrap() {
            to.execute_batch(&sql.unwrap()).unwrap();
        }
    }
    let mut rows: Vec<(usize, Vec<Vec<rusqlite::types::Value>>)> = Vec::new();
    for (t, name) in tables.iter().enumerate() {
        let mut s = from.prepare(&format!("SELECT * FROM {name}")).unwrap();
        let n = s.column_count();
        let all = s
            .query_map([], |r| (0..n).map(|i| r.get(i)).collect())
            .unwrap()
            .collect::<rusqlite::Result<_>>()
            .unwrap();
        rows.push((t, all));
    }
    let (begun, used) = (Instant::now(), cpu());
    for (t, name) in tables.iter().enumerate() {
        let n = rows[t].1[0].len();
        let sql = format!("INSERT INTO {name} VALUES ({})", vec!["?"; n].join(","));
        for chunk in rows[t].1.chunks(LINES) {
            let tx = to.unchecked_transaction().unwrap();
            {
                let mut s = tx.prepare_cached(&sql).unwrap();
                for row in chunk {
                    s.execute(rusqlite::params_from_iter(row)).unwrap();
                }
            }
            tx.commit().unwrap();
        }
    }
    (begun.elapsed(), cpu() - used)
}

#[test]
#[ignore = "a measurement"]
fn insert_and_verify() {
    let corpus = corpus();
    for round in 0..3 {
        let lab = Lab::new();
        lab.writing(|_| ());
        let (begun, used) = (Instant::now(), cpu());
        lab.writing(|w| {
            w.acknowledge_every(16).unwrap();
            for (name, pieces, resume) in &corpus {
                let mut append = w.begin(capture(name, 1, 1, false)).unwrap();
                for p in pieces {
                    append.piece(p).unwrap();
                }
                append.finish(resume.clone(), 0).unwrap().unwrap();
            }
        });
        let archive = (begun.elapsed(), cpu() - used);
        lab.checkpoint();
        let plain = plain_insert(&lab.db(), &lab.path().join("plain.db"));
        let size = std::fs::metadata(lab.db()).unwrap().len();
        let (begun, used) = (Instant::now(), cpu());
        let conn = crate::store::sqlite::open_read(&lab.db()).unwrap().unwrap();
        let ok: String = conn
            .query_row("PRAGMA integrity_check", [], |r| r.get(0))
            .unwrap();
        let integrity = (begun.elapsed(), cpu() - used);
        assert_eq!(ok, "ok");
        drop(conn);
        let (begun, used) = (Instant::now(), cpu());
        assert_eq!(lab.findings(), vec![]);
        let verify = (begun.elapsed(), cpu() - used);
        println!(
            "round {round}: {} rows, {} MB; wall and CPU: insert {archive:?}, plain {plain:?}, CPU ratio {:.2}; \
             integrity_check {integrity:?}, verify {verify:?}, CPU ratio {:.2}",
            SOURCES * LINES * 2,
            size >> 20,
            plain.1.as_secs_f64() / archive.1.as_secs_f64(),
            verify.1.as_secs_f64() / integrity.1.as_secs_f64(),
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn many_small_commits() {
    let lab = Lab::new();
    let begun = Instant::now();
    lab.writing(|w| {
        w.acknowledge_every(64).unwrap();
        for n in 0..1000 {
            feed(
                w,
                &format!("f{n}"),
                &[msg(&format!("s{n}"), "1", "x")],
                false,
            )
            .unwrap();
        }
    });
    println!("1000 sources of one line: {:?}", begun.elapsed());
    let mut lines: Vec<Raw> = (0..20_000).map(|i| plain("long", &i.to_string())).collect();
    lab.index("long", &lines);
    lab.writing(|w| {
        let mut used = Duration::ZERO;
        for i in 0..100 {
            lines.push(plain("long", &format!("more {i}")));
            let (pieces, resume) = pieces(&lines, lines.len() - 1, None);
            let begun = cpu();
            let mut append = w.begin(capture("long", i + 2, 1, false)).unwrap();
            for p in &pieces {
                append.piece(p).unwrap();
            }
            append.finish(resume, 0).unwrap().unwrap();
            used += cpu() - begun;
        }
        println!("100 appends of one line to 20,000: {used:?} of CPU");
    });
    lab.assert_sound();
}
