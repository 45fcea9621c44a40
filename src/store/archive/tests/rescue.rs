//! What is rescued from damaged files, and what comes out when it is put into another archive.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::*;
use crate::disk::ArchiveShared;
use crate::model::interrupt::Interrupt;
use crate::store::archive::row_hash::{RowHash, row_hash};
use crate::store::archive::schema::{TABLES, Table};
use crate::store::promises::Promises;

/// Tables whose rows must come out as they were; the others count commits.
const CONTENT: [&str; 5] = ["sources", "conversations", "records", "messages", "skips"];

fn read_store(w: &mut ArchiveWriter<'_>, seq: u64, lines: &[Raw], restart: bool) {
    read_as(w, ("store", SourceKind::Store), seq, lines, restart);
}

fn read_as(
    w: &mut ArchiveWriter<'_>,
    (path, kind): (&str, SourceKind),
    seq: u64,
    lines: &[Raw],
    restart: bool,
) {
    let (pieces, resume) = pieces(lines, 0, None);
    let len = resume.offset;
    let mut append = w
        .begin(CaptureRef {
            kind,
            ..capture(path, seq, len, restart)
        })
        .unwrap();
    for piece in &pieces {
        append.piece(piece).unwrap();
    }
    append.finish(resume, 1000).unwrap();
}

/// Every way in which a record can lie in an archive.
fn mixed() -> Lab {
    let lab = Lab::new();
    let text = |i: usize| format!("message {i} {}", "lorem ipsum ".repeat(i % 23));
    let long: Vec<Raw> = (0..120)
        .map(|i| msg("long", &format!("u{i}"), &text(i)).at(i as i64))
        .collect();
    lab.writing(|w| {
        feed(w, "first", &long[..50], false).unwrap();
        // A copy that goes another way: a branch.
        let mut other = long[..30].to_vec();
        other.extend((0..20).map(|i| msg("long", &format!("other {i}"), &text(i))));
        feed(w, "second", &other, false).unwrap();
        feed(w, "first", &long, false).unwrap();
        // Said twice, with and without an id; a title; a newer version.
        let mut odd = vec![
            fact("odd", "its title"),
            plain("odd", "ok"),
            plain("odd", "ok"),
        ];
        odd.push(msg("odd", "a", "one"));
        odd.push(msg("odd", "a", "one"));
        odd.push(msg("odd", "a", "two"));
        feed(w, "odd", &odd, false).unwrap();
        odd.push(plain("odd", "ok"));
        feed(w, "odd", &odd, true).unwrap();
        // A store whose records mostly stay as they are, twice over.
        let mut store: Vec<Raw> = (0..40)
            .map(|i| msg(&format!("s{}", i % 3), &format!("n{i}"), &text(i)))
            .collect();
        read_store(w, 1, &store, false);
        store[7] = msg("s1", "n7", "changed");
        store.insert(20, plain("s0", "new, and said twice"));
        store.insert(25, plain("s0", "new, and said twice"));
        read_store(w, 2, &store, true);
        store.push(plain("s0", "new, and said twice"));
        read_store(w, 3, &store, true);
        // A document one of whose entries was taken out, and another changed.
        let task = |texts: &[&str]| -> Vec<Raw> {
            let id = |n: usize| crate::model::record::id_by_place(Path::new("task"), n as u64);
            let texts = texts.iter().enumerate();
            texts.map(|(n, text)| msg("task", &id(n), text)).collect()
        };
        let kind = ("task", SourceKind::Document);
        read_as(w, kind, 1, &task(&["a", "b", "c"]), false);
        read_as(w, kind, 2, &task(&["a", "c"]), true);
        read_as(w, kind, 3, &task(&["a", "d"]), true);
        // Skipped bytes, an unfinished tail, and a record that repeats another.
        let (mut p, mut resume) = pieces(&[msg("torn", "x", "said")], 0, None);
        let Piece::Record(said) = p[0].clone() else {
            panic!()
        };
        let mut again = said.clone();
        again.span.offset = resume.offset;
        again.hash = Digest::of(b"again");
        again.native_id = Some("y".into());
        again.disposition = Disposition::DuplicateOf { offset: 0 };
        let at = again.span.end();
        p.push(Piece::Record(again));
        p.push(Piece::Skipped {
            span: Span { offset: at, len: 9 },
            line: 2,
            reason: SkipReason::Fragment,
        });
        p.push(Piece::Skipped {
            span: Span {
                offset: at + 9,
                len: 5,
            },
            line: 3,
            reason: SkipReason::TornTail,
        });
        resume.offset = at + 9;
        let mut append = w.begin(capture("torn", 1, at + 14, false)).unwrap();
        for piece in &p {
            append.piece(piece).unwrap();
        }
        append.finish(resume, 1000).unwrap();
    });
    lab.checkpoint();
    lab
}

fn table_rows(conn: &rusqlite::Connection, table: &Table) -> BTreeMap<i64, String> {
    let sql = format!("SELECT * FROM {} ORDER BY id", table.name);
    let mut statement = conn.prepare(&sql).unwrap();
    let n = statement.column_count();
    let mut rows = statement.query([]).unwrap();
    let mut all = BTreeMap::new();
    while let Some(row) = rows.next().unwrap() {
        let values: Vec<String> = (0..n)
            .map(|i| format!("{:?}", row.get_ref(i).unwrap()))
            .collect();
        all.insert(row.get(0).unwrap(), values.join("|"));
    }
    all
}

fn rescue<T>(lab: &Lab, f: impl FnOnce(&Rescued<'_>) -> T) -> T {
    let root = lab.root();
    let lock = ArchiveShared::acquire(&root, Duration::ZERO).unwrap();
    let id = std::fs::read_to_string(lab.path().join("CURRENT")).unwrap();
    let db = crate::store::layout::archive_db(id.trim_end());
    f(&Rescued::open(&root, &db, &lock).unwrap().unwrap())
}

fn replayed(rescued: &Rescued<'_>) -> (Lab, RowsReplayed) {
    let to = Lab::new();
    let out = to.writing(|w| {
        let out = replay_rows(w, rescued, &|_| true, 9, &Interrupt::new()).unwrap();
        let missing = missing(Candidate::from(&*w), rescued, &mut |_| Ok(())).unwrap();
        assert_eq!((missing.records, missing.conversations), (0, 0));
        out
    });
    to.checkpoint();
    (to, out)
}

fn flip(lab: &Lab, at: usize, mut f: impl FnMut(&mut [u8])) {
    let mut bytes = std::fs::read(lab.db()).unwrap();
    f(&mut bytes[at..]);
    std::fs::write(lab.db(), bytes).unwrap();
}

#[test]
fn every_row_of_a_sound_archive_comes_out_as_it_was() {
    let lab = mixed();
    assert_eq!(lab.findings(), vec![]);
    let runs: i64 = raw(&lab.db())
        .query_row(
            "SELECT count(*) FROM records WHERE record_type='unchanged'",
            [],
            |r| r.get(0),
        )
        .unwrap();
    assert!(runs > 2);
    rescue(&lab, |rescued| {
        assert!(rescued.tally(&Interrupt::new()).unwrap().is_sound());
        let (to, out) = replayed(rescued);
        assert_eq!(to.findings(), vec![]);
        for table in TABLES.iter().filter(|t| CONTENT.contains(&t.name)) {
            let (here, there) = (
                table_rows(&raw(&lab.db()), table),
                table_rows(&raw(&to.db()), table),
            );
            assert_eq!(here, there, "{}", table.name);
        }
        assert_eq!((out.unplaced, out.incomplete, out.with_gaps), (0, 0, 0));
        // What was promised is held, too.
        let promises = Promises::read(&lab.root()).unwrap().unwrap();
        to.writing(|w| {
            standing(
                Candidate::from(&*w),
                &promises,
                &BTreeSet::new(),
                &mut |s| {
                    assert_eq!(s.standing, Standing::Equal);
                    Ok(())
                },
            )
            .unwrap();
        });
    });
}

/// Ids of the rows of each table that can be read one by one and agree with their hash.
fn good_rows(
    path: &Path,
    ids: &BTreeMap<&'static str, BTreeSet<i64>>,
) -> BTreeMap<&'static str, BTreeSet<i64>> {
    let conn = raw(path);
    let mut good = BTreeMap::new();
    for table in TABLES {
        let sql = format!("SELECT * FROM {} WHERE id=?1", table.name);
        let mut found = BTreeSet::new();
        for id in &ids[table.name] {
            let Ok(mut statement) = conn.prepare_cached(&sql) else {
                continue;
            };
            let n = table.columns.len();
            let agrees = statement.query_row([id], |row| {
                let values: Vec<_> = (0..n)
                    .map(|i| row.get_ref(i))
                    .collect::<rusqlite::Result<_>>()?;
                Ok(row.get::<_, RowHash>(n)? == row_hash(table, &values)
                    && row.get::<_, i64>(0)? == *id)
            });
            if agrees.unwrap_or(false) {
                found.insert(*id);
            }
        }
        good.insert(table.name, found);
    }
    good
}

/// Two pages of each kind, if there are so many: inner pages, leaves and overflow of each table, and
/// those of indexes; all of the schema, and those that nothing uses.
fn of_each_kind(db: &Path, pages: usize) -> Vec<usize> {
    let conn = raw(db);
    let mut statement = conn
        .prepare("SELECT pageno, name, pagetype FROM dbstat ORDER BY pageno")
        .unwrap();
    let kinds: BTreeMap<i64, (String, String)> = statement
        .query_map([], |r| Ok((r.get(0)?, (r.get(1)?, r.get(2)?))))
        .unwrap()
        .collect::<rusqlite::Result<_>>()
        .unwrap();
    let mut seen: BTreeMap<(String, String), usize> = BTreeMap::new();
    (1..=pages)
        .filter(|page| {
            let page = i64::try_from(*page).unwrap();
            let (name, kind) = kinds.get(&page).cloned().unwrap_or_default();
            let is_table = TABLES.iter().any(|t| t.name == name);
            let is_schema = name == "sqlite_schema";
            let of = if is_table || is_schema {
                name
            } else {
                "index".into()
            };
            let n = seen.entry((of, kind)).or_default();
            *n += 1;
            is_schema || *n <= 2
        })
        .collect()
}

#[test]
fn a_page_of_noise_costs_the_rows_that_lie_in_it_and_no_others() {
    let lab = mixed();
    let sound = std::fs::read(lab.db()).unwrap();
    let ids: BTreeMap<&'static str, BTreeSet<i64>> = {
        let conn = raw(&lab.db());
        TABLES
            .iter()
            .map(|t| (t.name, table_rows(&conn, t).into_keys().collect()))
            .collect()
    };
    let all = lab.list();
    let keys: BTreeSet<(String, Digest, u64)> = rescue(&lab, keys);
    let pages = sound.len() / 4096;
    assert!(pages > 30);
    let chosen: Vec<usize> = if std::env::var("CASS_FAULTS").as_deref() == Ok("long") {
        (1..=pages).collect()
    } else {
        of_each_kind(&lab.db(), pages)
    };
    let mut lost_something = 0;
    for page in chosen {
        let mut seed = page as u64;
        flip(&lab, (page - 1) * 4096, |bytes| {
            for b in &mut bytes[..4096] {
                seed = seed
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                *b = (seed >> 56) as u8;
            }
        });
        let plain = good_rows(&lab.db(), &ids);
        rescue(&lab, |rescued| {
            let tally = rescued.tally(&Interrupt::new()).unwrap();
            assert!(tally.by_pages, "page {page}");
            if page == 1 {
                for (n, t) in &tally.tables {
                    eprintln!("{n} {} of {}", t.verified, ids[n].len());
                }
            }
            for table in TABLES {
                // Where an interior page is lost, plain SQL sees nothing of what lies below.
                let (found, read) = (&tally.tables[table.name], plain[table.name].len() as u64);
                assert!(found.verified >= read, "page {page}, {}", table.name);
                let all = ids[table.name].len() as u64;
                assert!(
                    // No row lies in the first page.
                    page > 1 || found.verified == all,
                    "page {page}, {}",
                    table.name
                );
            }
            let left = self::keys(rescued);
            let gone: BTreeSet<&String> = keys.difference(&left).map(|k| &k.0).collect();
            lost_something += usize::from(!gone.is_empty());
            // Rows go into another archive without complaint, and what they hold is what is left.
            let (to, _) = replayed(rescued);
            assert_eq!(to.findings(), vec![], "page {page}");
            assert_eq!(rescue(&to, self::keys), left, "page {page}");
            // Compared with the sound archive, exactly the conversations that lost records lack some.
            std::fs::write(lab.db(), &sound).unwrap();
            rescue(&lab, |whole| {
                to.writing(|w| {
                    let mut named = BTreeSet::new();
                    let totals = missing(Candidate::from(&*w), whole, &mut |m| {
                        assert!(!m.hashes.is_empty() && m.records > 0);
                        named.insert(m.conversation);
                        Ok(())
                    })
                    .unwrap();
                    assert_eq!(named.iter().collect::<BTreeSet<_>>(), gone, "page {page}");
                    assert_eq!(totals.records as usize, keys.difference(&left).count());
                    let promises = Promises::read(&lab.root()).unwrap().unwrap();
                    standing(
                        Candidate::from(&*w),
                        &promises,
                        &proven(
                            Candidate::from(&*w),
                            &promises,
                            whole,
                            &promises.last.generation,
                        )
                        .unwrap(),
                        &mut |s| {
                            let lost = gone.contains(&s.conversation);
                            assert_eq!(s.standing == Standing::Equal, !lost, "page {page}: {s:?}");
                            assert_eq!(s.standing == Standing::Less, lost, "page {page}: {s:?}");
                            Ok(())
                        },
                    )
                    .unwrap();
                });
            });
        });
        std::fs::write(lab.db(), &sound).unwrap();
    }
    assert!(lost_something > 0);
    assert_eq!(lab.list(), all);
}

fn keys(rescued: &Rescued<'_>) -> BTreeSet<(String, Digest, u64)> {
    let mut all = BTreeSet::new();
    rescued
        .coverage(&mut |k| {
            if let Some(id) = k.conversation {
                all.insert((id.to_owned(), k.hash, k.occurrence));
            }
            Ok(())
        })
        .unwrap();
    all
}

#[test]
fn a_flipped_bit_in_a_text_costs_that_message_alone() {
    let lab = mixed();
    let bytes = std::fs::read(lab.db()).unwrap();
    let at = memchr::memmem::find(&bytes, b"message 77 lorem").unwrap();
    flip(&lab, at, |b| b[3] ^= 4);
    let id: i64 = raw(&lab.db())
        .query_row(
            "SELECT id FROM messages WHERE text LIKE 'mesw%' OR text LIKE 'mes_age 77 lorem%'",
            [],
            |r| r.get(0),
        )
        .unwrap();
    rescue(&lab, |rescued| {
        let tally = rescued.tally(&Interrupt::new()).unwrap();
        for (name, t) in &tally.tables {
            let refused: &[i64] = if *name == "messages" { &[id] } else { &[] };
            assert_eq!(t.refused_ids, refused, "{name}");
            assert!(t.unreadable.is_empty());
        }
        let (to, out) = replayed(rescued);
        // Whoever has the source reads it again, for that text.
        assert_eq!((out.incomplete, out.with_gaps), (1, 1));
        assert_eq!(to.findings(), vec![]);
        let count = |lab: &Lab| lab.list().iter().map(|c| c.message_count).sum::<u64>();
        assert_eq!(count(&to) + 1, count(&lab));
    });
}

#[test]
fn a_copy_brings_back_the_record_whose_own_row_is_lost() {
    let lab = mixed();
    let texts = |lab: &Lab| -> BTreeSet<String> {
        let all = lab.list();
        all.iter().flat_map(|c| lab.texts(&c.id)).collect()
    };
    let before = texts(&lab);
    // The first row of a record of which `second` has a copy.
    let id: i64 = raw(&lab.db())
        .query_row(
            "SELECT min(duplicate_of) FROM records WHERE counted=0 AND record_type='user'",
            [],
            |r| r.get(0),
        )
        .unwrap();
    let conn = raw(&lab.db());
    conn.execute("UPDATE records SET line=line+1 WHERE id=?1", [id])
        .unwrap();
    conn.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    drop(conn);
    rescue(&lab, |rescued| {
        assert_eq!(
            rescued.tally(&Interrupt::new()).unwrap().tables["records"].refused,
            1
        );
        let (to, out) = replayed(rescued);
        assert_eq!(to.findings(), vec![]);
        // The file in which the row lay is read again from its first byte.
        assert_eq!(out.with_gaps, 1);
        assert_eq!(texts(&to), before);
        assert_eq!(rescue(&to, keys), keys(rescued));
    });
}
