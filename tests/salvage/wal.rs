use rusqlite::Connection;

use crate::lab::{Counts, Dice, in_file, none, salvaged, small};

const FRAME: usize = 4096 + 24;

/// The rows of the small archive, brought in by many commits that are all in the WAL.
fn in_wal() -> (Vec<u8>, Vec<u8>) {
    in_file(small(), |path, from| {
        let to = path.with_file_name("y.db");
        let conn = Connection::open(&to).unwrap();
        conn.execute_batch("PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0;")
            .unwrap();
        let mut made = from
            .prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid")
            .unwrap();
        let sql: Vec<String> = made
            .query_map([], |r| r.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        conn.execute_batch(&sql.join(";")).unwrap();
        conn.execute("ATTACH ?1 AS old", [path.to_str().unwrap()])
            .unwrap();
        conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA foreign_keys=OFF;")
            .unwrap();
        for part in 0..10 {
            conn.execute_batch("BEGIN").unwrap();
            for table in none().keys() {
                conn.execute_batch(&format!(
                    "INSERT INTO {table} SELECT * FROM old.{table} WHERE id*10/(SELECT 1+max(id) FROM old.{table})={part}"
                ))
                .unwrap();
            }
            conn.execute_batch("COMMIT").unwrap();
        }
        let read = |name: &str| std::fs::read(path.with_file_name(name)).unwrap();
        (read("y.db"), read("y.db-wal"))
    })
}

/// What SQLite itself reads.
fn by_sqlite(db: &[u8], wal: &[u8]) -> Counts {
    in_file(b"", |path, _| {
        let path = path.with_file_name("z.db");
        std::fs::write(&path, db).unwrap();
        std::fs::write(path.with_file_name("z.db-wal"), wal).unwrap();
        let conn = Connection::open(&path).unwrap();
        let mut counts = none();
        for (table, n) in &mut counts {
            let sql = format!("SELECT count(*) FROM {table}");
            let counted: u32 = conn.query_row(&sql, [], |r| r.get(0)).unwrap_or(0);
            *n = u64::from(counted);
        }
        counts
    })
}

#[test]
fn rows_that_are_in_the_wal_alone_are_found() {
    let (db, wal) = in_wal();
    let all = by_sqlite(&db, &wal);
    assert!(all["messages"] > 100 && by_sqlite(&db, &[])["messages"] == 0);
    assert_eq!(salvaged(db.clone(), wal.clone()), all);
    // Even where the database itself is lost.
    assert_eq!(salvaged(Vec::new(), wal.clone()), all);
    assert_eq!(salvaged(vec![7; db.len()], wal), all);
    assert_eq!(salvaged(db, Vec::new()), none());
}

#[test]
fn damage_in_the_wal_costs_at_most_what_lies_in_one_frame() {
    let (db, wal) = in_wal();
    let all = by_sqlite(&db, &wal);
    let frames = (wal.len() - 32) / FRAME;
    let mut dice = Dice(3);
    let mut more = 0;
    for n in 0..60 {
        let mut changed = wal.clone();
        let at = match n % 3 {
            0 => dice.below(32),
            1 => 32 + dice.below(frames) * FRAME + dice.below(24),
            _ => dice.below(wal.len()),
        };
        changed[at] ^= 1 << dice.below(8);
        let found = salvaged(db.clone(), changed.clone());
        let read = by_sqlite(&db, &changed);
        more += u32::from(found["messages"] > read["messages"]);
        for (table, n) in &found {
            assert!(*n <= all[table] && n >= &read[table], "{table}, byte {at}");
            // A row of two lines or more shares its page with few others.
            assert!(
                n + 70 >= all[table],
                "{table}, byte {at}: {n} of {}",
                all[table]
            );
        }
    }
    assert!(more > 40, "{more}");
}

#[test]
fn a_cut_wal_gives_the_rows_of_every_frame_that_is_left() {
    let (db, wal) = in_wal();
    let frames = (wal.len() - 32) / FRAME;
    let mut last = none();
    for n in (0..=frames).step_by(19) {
        for cut in [0, 1, 23, 25, 2000] {
            let end = (32 + n * FRAME + cut).min(wal.len());
            let found = salvaged(db.clone(), wal[..end].to_vec());
            for (table, n) in &by_sqlite(&db, &wal[..end]) {
                assert!(found[table] >= *n, "{table}, cut at {end}");
                assert!(found[table] >= last[table], "{table}, cut at {end}");
            }
            last = found;
        }
    }
    assert!(last["messages"] > 50);
}
