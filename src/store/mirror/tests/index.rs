use super::*;

const DB: &str = "raw-mirror/index/mirror.db";

fn sample() -> (Data, Vec<Head>) {
    let data = Data::new();
    for i in 0..40 {
        let name = format!("s{i}");
        data.write(|w| {
            for n in 1..3 {
                add(w, &name, &lines(i + 1, 60 * n));
            }
            w.flush().unwrap();
        });
    }
    let lock = data.lock();
    MirrorWriter::open(Capture::new(&lock), 0)
        .unwrap()
        .finish()
        .unwrap();
    drop(lock);
    let heads = heads(&data);
    assert_eq!(heads.len(), 40);
    (data, heads)
}

fn heads(data: &Data) -> Vec<Head> {
    let root = data.root();
    let reader = MirrorReader::open(&root).unwrap().unwrap();
    let mut all = Vec::new();
    reader
        .for_each_head(&mut |h| {
            all.push(h);
            Ok(())
        })
        .unwrap();
    all
}

fn writer_heads(data: &Data) -> Vec<Head> {
    data.write(|w| {
        let mut all = Vec::new();
        w.for_each_head(&mut |h| {
            all.push(h);
            Ok(())
        })
        .unwrap();
        all
    })
}

#[test]
fn without_an_index_or_with_garbage_answers_come_from_the_evidence() {
    let (data, truth) = sample();
    for what in [
        "gone",
        "empty",
        "garbage",
        "another database",
        "folder gone",
    ] {
        let hurt = data.copy();
        let db = hurt.path(DB);
        match what {
            "gone" => std::fs::remove_file(&db).unwrap(),
            "empty" => std::fs::write(&db, b"").unwrap(),
            "garbage" => std::fs::write(&db, noise(1, 50_000)).unwrap(),
            "folder gone" => std::fs::remove_dir_all(hurt.path("raw-mirror/index")).unwrap(),
            _ => {
                std::fs::remove_file(&db).unwrap();
                let conn = crate::store::sqlite::open_write(&db, true).unwrap();
                conn.execute_batch("CREATE TABLE object(x INTEGER) STRICT; PRAGMA user_version=9")
                    .unwrap();
            }
        }
        assert_eq!(heads(&hurt), truth, "{what}");
        // One that is there and can't be read is more than one that is to be made.
        let kind = match what {
            "garbage" => ProblemKind::Index,
            _ => ProblemKind::IndexStale,
        };
        let found = hurt.verify(true);
        assert!(
            !found.is_empty() && found.iter().all(|p| p.kind == kind),
            "{what}: {found:?}"
        );
        assert_eq!(hurt.get("s7", 2).unwrap(), lines(8, 120));
        assert_eq!(writer_heads(&hurt), truth, "{what}");
        assert_eq!(hurt.verify(true), vec![], "{what}");
    }
}

#[test]
fn an_older_index_is_brought_up_to_date() {
    let (data, _) = sample();
    let old = data.copy();
    data.add("s3", &lines(4, 300));
    data.add("new", b"x\n");
    let truth = heads(&data);
    let index = data.path("raw-mirror/index");
    std::fs::remove_dir_all(&index).unwrap();
    std::fs::create_dir(&index).unwrap();
    for e in std::fs::read_dir(old.path("raw-mirror/index")).unwrap() {
        let e = e.unwrap();
        std::fs::copy(e.path(), index.join(e.file_name())).unwrap();
    }
    assert_eq!(heads(&data), truth);
    assert_eq!(data.get("s3", 3).unwrap(), lines(4, 300));
    assert!(data.verify(true).iter().all(|p| p.kind.harmless()));
    assert_eq!(writer_heads(&data), truth);
    assert_eq!(data.verify(true), vec![]);
}

#[test]
fn a_flipped_bit_of_the_index_is_found_or_changes_nothing() {
    let (data, truth) = sample();
    let db = std::fs::read(data.path(DB)).unwrap();
    let mut unseen = 0;
    for i in 0..250usize {
        let at = i * 7919 % db.len();
        let hurt = data.copy();
        let mut bytes = db.clone();
        bytes[at] ^= 1 << (i % 8);
        std::fs::write(hurt.path(DB), &bytes).unwrap();
        let found = hurt.verify(true);
        assert!(
            found
                .iter()
                .all(|p| matches!(p.kind, ProblemKind::Index | ProblemKind::IndexStale)),
            "byte {at}: {found:?}"
        );
        if found.is_empty() {
            unseen += 1;
        }
        assert_eq!(heads(&hurt), truth, "byte {at}");
        assert_eq!(hurt.get("s5", 2).unwrap(), lines(6, 120), "byte {at}");
        // A writer may have to be run twice: the first takes the index away.
        let more = lines(6, 121);
        let done = (0..2).any(|_| {
            let lock = hurt.lock();
            MirrorWriter::open(Capture::new(&lock), 0).is_ok_and(|mut w| {
                let source = ident("s5");
                w.head(source.key)
                    .and_then(|head| {
                        MirrorWriter::prepare(more.clone(), Shape::Text, head.as_ref())
                    })
                    .and_then(|p| w.add(&source, p, meta(3, more.len())))
                    .and_then(|_| w.flush())
                    .is_ok()
            })
        });
        assert!(done, "byte {at}");
        let root = hurt.root();
        let seq = MirrorReader::open(&root)
            .unwrap()
            .unwrap()
            .head(ident("s5").key)
            .unwrap()
            .unwrap()
            .seq;
        assert_eq!(seq, 3, "byte {at}, {:?}", hurt.verify(false));
        assert_eq!(hurt.get("s5", seq).unwrap(), more, "byte {at}");
    }
    println!("{unseen} of 250 flips changed nothing that is read");
    assert!(unseen < 200);
}

#[test]
fn an_unchanged_source_only_refreshes_its_gate() {
    let (data, _) = sample();
    let before = data.size();
    data.write(|w| {
        let source = ident("s1");
        let head = w.head(source.key).unwrap().unwrap();
        let bytes = lines(2, 120);
        let prepared = MirrorWriter::prepare(bytes.clone(), Shape::Text, Some(&head)).unwrap();
        let mut touched = meta(99, bytes.len());
        touched.gate.extra = "salt".to_owned();
        assert!(w.add(&source, prepared, touched.clone()).unwrap().unchanged);
        w.flush().unwrap();
        let now = w.head(source.key).unwrap().unwrap();
        assert_eq!(
            (now.gate, now.seq, now.at_ms),
            (touched.gate, head.seq, head.at_ms)
        );
    });
    assert_eq!(data.size(), before, "nothing but the index may grow");
    assert_eq!(data.verify(true), vec![]);
}

#[test]
fn a_reader_leaves_no_trace() {
    let (data, _) = sample();
    data.add("late", b"in the log of the index\n");
    let tree = || {
        let mut all = Vec::new();
        for e in walkdir::WalkDir::new(data.dir.path()).sort_by_file_name() {
            let e = e.unwrap();
            let m = e.metadata().unwrap();
            let bytes = if m.is_file() {
                std::fs::read(e.path()).unwrap()
            } else {
                Vec::new()
            };
            all.push((e.path().to_path_buf(), m.modified().unwrap(), bytes));
        }
        all
    };
    let before = tree();
    assert_eq!(heads(&data).len(), 41);
    assert_eq!(data.get("late", 1).unwrap(), b"in the log of the index\n");
    assert_eq!(data.verify(true), vec![]);
    assert!(tree() == before);
}

#[test]
fn a_run_that_finds_nothing_to_do_reads_only_the_index() {
    let (data, truth) = sample();
    // Whoever looked into ledgers or packs would find neither.
    for ledger in std::fs::read_dir(data.path("raw-mirror/sources")).unwrap() {
        std::fs::write(ledger.unwrap().path(), b"no ledger").unwrap();
    }
    let pack = data.path("raw-mirror/packs/00000001.pack");
    let len = std::fs::metadata(&pack).unwrap().len();
    std::fs::write(&pack, vec![7u8; usize::try_from(len).unwrap()]).unwrap();
    assert_eq!(writer_heads(&data), truth);
}
