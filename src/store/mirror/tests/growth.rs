use super::*;

fn cost_alone(bytes: &[u8]) -> u64 {
    let data = Data::new();
    data.write(|w| {
        stream(w, "one", bytes, Shape::Text);
        w.flush().unwrap();
    });
    data.size()
}

#[test]
fn forty_appends_cost_little_more_than_one_capture_of_the_end() {
    let data = Data::new();
    let mut content = lines(1, 24_000);
    assert!(content.len() >= 10 << 20, "{}", content.len());
    data.write(|w| {
        stream(w, "a", &content, Shape::Text);
        w.flush().unwrap();
    });
    for i in 0..40 {
        content.extend(lines(100 + i, 60));
        data.write(|w| {
            stream(w, "a", &content, Shape::Text);
            w.flush().unwrap();
        });
    }
    let (all, once) = (data.size(), cost_alone(&content));
    println!(
        "40 appends: {all} bytes, one capture {once}: {:.3}",
        all as f64 / once as f64
    );
    assert!(
        all * 100 <= once * 115,
        "{all} bytes for 41 versions, {once} for the last alone"
    );
    assert_eq!(data.captures("a"), 41);
    assert_eq!(data.get("a", 41).unwrap(), content);
}

#[test]
fn a_line_more_costs_its_own_size_and_512_bytes() {
    for big in [false, true] {
        let data = Data::new();
        let mut content = lines(1, if big { 24_000 } else { 200 });
        let put = |content: &[u8]| {
            data.write(|w| {
                if big {
                    stream(w, "a", content, Shape::Text);
                } else {
                    add(w, "a", content);
                }
                w.flush().unwrap();
            });
            data.size()
        };
        let mut before = put(&content);
        let (mut worst, mut sum, mut full) = (0, 0, 0);
        let appends = if big { 70 } else { 200 };
        for i in 0..appends {
            let line = lines(1000 + i, 1);
            content.extend_from_slice(&line);
            let own = zstd::bulk::compress(&line, 3).unwrap().len() as u64;
            let after = put(&content);
            let over = (after - before).saturating_sub(own);
            before = after;
            sum += over;
            // Every 64th is written in full again.
            if over > 512 {
                full += 1;
            } else {
                worst = worst.max(over);
            }
        }
        println!(
            "big {big}: {} bytes on average, at most {worst}, {full} in full",
            sum / appends
        );
        assert!(sum / appends <= 512, "{} bytes on average", sum / appends);
        assert!(full <= appends / 63 + 1, "{full} of {appends} cost more");
    }
}

/// A database as an agent keeps one: rows appended, some updated.
fn database(path: &Path, rows: std::ops::Range<u64>) {
    let conn = crate::store::sqlite::open_write(path, true).unwrap();
    conn.execute_batch("CREATE TABLE IF NOT EXISTS m(id INTEGER PRIMARY KEY, session TEXT, at INTEGER, body TEXT) STRICT; CREATE INDEX IF NOT EXISTS s ON m(session)").unwrap();
    conn.execute_batch("BEGIN").unwrap();
    for i in rows.clone() {
        let body = String::from_utf8(lines(i, 3)).unwrap();
        conn.execute(
            "INSERT INTO m VALUES (?1, ?2, ?3, ?4)",
            rusqlite::params![i as i64, format!("s{}", i % 40), i as i64, body],
        )
        .unwrap();
    }
    conn.execute(
        "UPDATE m SET at = at + 1 WHERE id % 977 = ?1",
        [(rows.start % 977) as i64],
    )
    .unwrap();
    conn.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
}

#[test]
fn a_growing_database_costs_one_capture_and_its_changed_pages() {
    let data = Data::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.db");
    let shape = Shape::Sqlite { page_size: 4096 };
    let (mut old, mut changed) = (Vec::<u8>::new(), 0u64);
    for i in 0..25 {
        database(&path, i * 400..(i + 1) * 400);
        let content = std::fs::read(&path).unwrap();
        let mut pages = Vec::new();
        for (n, page) in content.chunks(4096).enumerate() {
            if i > 0 && old.get(n * 4096..(n + 1) * 4096).is_some_and(|o| o != page) {
                pages.extend_from_slice(page);
            }
        }
        changed += zstd::bulk::compress(&pages, 3).unwrap().len() as u64;
        data.write(|w| {
            stream(w, "db", &content, shape);
            w.flush().unwrap();
        });
        old = content;
    }
    let alone = Data::new();
    alone.write(|w| {
        stream(w, "db", &old, shape);
        w.flush().unwrap();
    });
    let (all, once) = (data.size(), alone.size());
    println!(
        "database of {}: {all} bytes for 25 versions, {once} for the last, changed pages {changed}: {:.3}",
        old.len(),
        all as f64 / (once + changed) as f64
    );
    assert!(
        all * 10 <= (once + changed) * 13,
        "{all} bytes for 25 versions, {once} for the last, changed {changed}"
    );
    assert_eq!(data.get("db", 25).unwrap(), old);
}

#[test]
fn a_changed_line_in_the_middle_costs_a_few_pieces() {
    let data = Data::new();
    let mut content = lines(1, 60_000);
    data.write(|w| {
        stream(w, "a", &content, Shape::Text);
        w.flush().unwrap();
    });
    let once = data.size();
    let at = content.len() / 2;
    content.splice(at..at, lines(7, 1));
    data.write(|w| {
        stream(w, "a", &content, Shape::Text);
        w.flush().unwrap();
    });
    let grown = data.size() - once;
    println!("insert in {}: {grown} of {once}", content.len());
    assert!(
        grown * 8 < once,
        "an insert stored {grown} bytes of {once} again"
    );
    assert_eq!(data.get("a", 2).unwrap(), content);
    assert_eq!(data.verify(true), vec![]);
}

/// Runs itself again, alone in a process, so that the peak is this capture's.
#[test]
fn memory_stays_flat_for_500_megabytes() {
    const AGAIN: &str = "CASS_TEST_FLAT";
    struct Long {
        block: Vec<u8>,
        at: usize,
        left: usize,
    }
    impl Read for Long {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            let n = buf.len().min(self.block.len() - self.at).min(self.left);
            buf[..n].copy_from_slice(&self.block[self.at..self.at + n]);
            self.at = (self.at + n) % self.block.len();
            self.left -= n;
            // The next round differs.
            if self.at == 0 {
                for b in self.block.iter_mut().step_by(997) {
                    *b = b.wrapping_add(1);
                }
            }
            Ok(n)
        }
    }
    if std::env::var_os(AGAIN).is_none() {
        let out = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "store::mirror::tests::growth::memory_stays_flat_for_500_megabytes",
                "--nocapture",
            ])
            .env(AGAIN, "1")
            .output()
            .unwrap();
        print!("{}", String::from_utf8_lossy(&out.stdout));
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        return;
    }
    let data = Data::new();
    let peak = || -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find(|l| l.starts_with("VmHWM:"));
        line.and_then(|l| l.split_whitespace().nth(1))
            .and_then(|n| n.parse().ok())
            .unwrap_or(0)
            / 1024
    };
    let capture = |left: usize| {
        let mut long = Long {
            block: lines(1, 20_000),
            at: 0,
            left,
        };
        data.write(|w| {
            let added = w
                .add_stream(&ident("long"), &mut long, Shape::Text, meta(1, left))
                .unwrap();
            w.flush().unwrap();
            let mut content = w.open_content(added.recipe, added.len).unwrap();
            let mut sink = std::io::sink();
            assert_eq!(std::io::copy(&mut content, &mut sink).unwrap(), left as u64);
        });
    };
    capture(500 << 20);
    println!("500 MB: peak {} MiB", peak());
    assert!(peak() < 128, "peak {} MiB", peak());
}
