use super::*;

const PACK: &str = "raw-mirror/packs/00000001.pack";

/// Two batches: what was on disk after the first, and the second's pack and ledger.
struct Batches {
    first: Data,
    second: Data,
    pack: (usize, Vec<u8>),
    ledger: (usize, Vec<u8>),
    one: Vec<u8>,
    two: Vec<u8>,
}

fn ledger_of(name: &str) -> String {
    format!("raw-mirror/sources/{}.jsonl", ident(name).key)
}

fn batches() -> Batches {
    let data = Data::new();
    let one = lines(1, 4);
    let two = [one.clone(), lines(2, 1)].concat();
    data.write(|w| {
        add(w, "a", &one);
        add(w, "other", &lines(9, 3));
        w.flush().unwrap();
    });
    let first = data.copy();
    data.add("a", &two);
    let read = |d: &Data, rel: &str| std::fs::read(d.path(rel)).unwrap();
    Batches {
        pack: (read(&first, PACK).len(), read(&data, PACK)),
        ledger: (
            read(&first, &ledger_of("a")).len(),
            read(&data, &ledger_of("a")),
        ),
        first,
        second: data,
        one,
        two,
    }
}

fn bad(data: &Data) -> Vec<MirrorProblem> {
    data.verify(true)
        .into_iter()
        .filter(|p| !p.kind.harmless())
        .collect()
}

#[test]
fn a_pack_torn_at_any_byte_of_an_unpromised_batch_is_cut_and_nothing_is_lost() {
    let b = batches();
    for cut in b.pack.0..=b.pack.1.len() {
        let data = b.first.copy();
        std::fs::write(data.path(PACK), &b.pack.1[..cut]).unwrap();
        assert_eq!(bad(&data), vec![], "cut at {cut}");
        data.write(|w| {
            let torn = w.problems().iter().any(|p| p.kind == ProblemKind::TornPack);
            assert_eq!(
                torn,
                cut != b.pack.0 && cut != b.pack.1.len(),
                "cut at {cut}"
            );
            assert!(
                w.problems().iter().all(|p| p.kind.harmless()),
                "{:?}",
                w.problems()
            );
        });
        let len = std::fs::metadata(data.path(PACK)).unwrap().len() as usize;
        assert_eq!(
            len,
            if cut == b.pack.1.len() { cut } else { b.pack.0 },
            "cut at {cut}"
        );
        assert_eq!(data.get("a", 1).unwrap(), b.one);
        assert_eq!(data.add("a", &b.two).seq, 2);
        assert_eq!(data.get("a", 2).unwrap(), b.two);
        assert_eq!(data.verify(true), vec![], "cut at {cut}");
    }
}

/// Zeros or noise where the pages of a batch were not written before the power went.
#[test]
fn a_batch_whose_pages_are_missing_is_cut_too() {
    let b = batches();
    for junk in [0u8, 0xA5] {
        let data = b.first.copy();
        let mut pack = b.pack.1.clone();
        pack[b.pack.0..].fill(junk);
        std::fs::write(data.path(PACK), &pack).unwrap();
        assert_eq!(data.add("a", &b.two).seq, 2);
        assert_eq!(data.get("a", 1).unwrap(), b.one);
        assert_eq!(data.get("a", 2).unwrap(), b.two);
        assert_eq!(data.verify(true), vec![]);
    }
}

#[test]
fn a_pack_torn_in_a_promised_batch_is_never_cut_and_capture_goes_on() {
    let b = batches();
    for stale in [true, false] {
        // With an index as old as the cut pack, nothing but the ledger's length is amiss; that is
        // for `verify` and for the next capture of that source to find.
        for cut in b.pack.0 + usize::from(stale)..b.pack.1.len() {
            let data = if stale {
                b.first.copy()
            } else {
                b.second.copy()
            };
            std::fs::write(data.path(&ledger_of("a")), &b.ledger.1).unwrap();
            std::fs::write(data.path(PACK), &b.pack.1[..cut]).unwrap();
            // Only the commit record is gone from here on: the objects can still be read.
            let whole = cut + 24 >= b.pack.1.len();
            assert!(!bad(&data).is_empty(), "cut at {cut} goes unseen");
            let added = data.write(|w| {
                assert!(
                    w.problems().iter().any(|p| !p.kind.harmless()),
                    "cut at {cut}"
                );
                let head = w.head(ident("a").key).unwrap().unwrap();
                assert_eq!(
                    (head.seq, head.gate),
                    (2, StatGate::default()),
                    "cut at {cut}"
                );
                let added = add(w, "a", &b.two);
                w.flush().unwrap();
                added
            });
            assert_eq!(added.unchanged, whole, "cut at {cut}");
            let pack = std::fs::read(data.path(PACK)).unwrap();
            assert!(
                pack.starts_with(&b.pack.1[..cut]),
                "cut at {cut}: a promised batch was touched"
            );
            assert_eq!(data.get("a", 1).unwrap(), b.one);
            assert_eq!(data.get("a", added.seq).unwrap(), b.two);
            // The next writer finds everything as it was left.
            data.write(|w| assert_eq!(w.problems(), &[], "cut at {cut}"));
        }
    }
}

#[test]
fn a_ledger_torn_at_any_byte_of_its_last_line_is_cut_there() {
    let b = batches();
    for cut in b.ledger.0..=b.ledger.1.len() {
        let data = b.first.copy();
        std::fs::write(data.path(PACK), &b.pack.1).unwrap();
        std::fs::write(data.path(&ledger_of("a")), &b.ledger.1[..cut]).unwrap();
        assert_eq!(bad(&data), vec![], "cut at {cut}");
        data.write(|w| {
            let torn = w
                .problems()
                .iter()
                .any(|p| p.kind == ProblemKind::TornLedger);
            assert_eq!(
                torn,
                cut != b.ledger.0 && cut != b.ledger.1.len(),
                "cut at {cut}"
            );
        });
        let whole = cut == b.ledger.1.len();
        assert_eq!(
            data.captures("a"),
            if whole { 2 } else { 1 },
            "cut at {cut}"
        );
        let added = data.add("a", &b.two);
        assert_eq!((added.seq, added.unchanged), (2, whole), "cut at {cut}");
        assert_eq!(data.get("a", 1).unwrap(), b.one);
        assert_eq!(data.get("a", 2).unwrap(), b.two);
        assert_eq!(data.verify(true), vec![], "cut at {cut}");
    }
}

#[test]
fn a_new_ledger_torn_at_any_byte_starts_again() {
    let data = Data::new();
    data.add("first", b"x");
    let before = data.copy();
    data.add("a", b"one line\n");
    let ledger = std::fs::read(data.path(&ledger_of("a"))).unwrap();
    let pack = std::fs::read(data.path(PACK)).unwrap();
    for cut in 0..ledger.len() {
        let data = before.copy();
        std::fs::write(data.path(PACK), &pack).unwrap();
        std::fs::write(data.path(&ledger_of("a")), &ledger[..cut]).unwrap();
        let added = data.add("a", b"one line\n");
        assert_eq!((added.seq, added.unchanged), (1, false), "cut at {cut}");
        assert_eq!(data.get("a", 1).unwrap(), b"one line\n");
        assert_eq!(data.verify(true), vec![], "cut at {cut}");
    }
}

#[test]
fn a_first_pack_torn_at_any_byte_starts_again() {
    let data = Data::new();
    data.write(|_| {});
    let before = data.copy();
    data.add("a", b"one line\n");
    let pack = std::fs::read(data.path(PACK)).unwrap();
    for cut in 0..pack.len() {
        let data = before.copy();
        std::fs::write(data.path(PACK), &pack[..cut]).unwrap();
        assert_eq!(bad(&data), vec![], "cut at {cut}");
        assert_eq!(data.add("a", b"one line\n").seq, 1);
        assert_eq!(data.get("a", 1).unwrap(), b"one line\n");
        assert_eq!(data.verify(true), vec![], "cut at {cut}");
    }
}

#[test]
fn what_was_added_and_not_flushed_is_dropped_and_can_be_added_again() {
    let data = Data::new();
    data.add("a", b"one\n");
    let long = noise(1, 3 << 20);
    data.write(|w| {
        stream(w, "b", &long, Shape::Text);
        add(w, "a", b"one\ntwo\n");
    });
    assert_eq!(bad(&data), vec![]);
    assert_eq!(data.captures("a"), 1);
    data.write(|w| {
        assert_eq!(stream(w, "b", &long, Shape::Text).seq, 1);
        w.flush().unwrap();
    });
    assert_eq!(data.get("b", 1).unwrap(), long);
    assert_eq!(data.verify(true), vec![]);
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged() {
    let data = Data::new();
    data.add("a", b"one\n");
    data.write(|w| {
        add(w, "a", b"one\ntwo\n");
        // The ledger's name is taken by a folder: the batch can't be promised.
        let ledger = data.path(&ledger_of("a"));
        let kept = std::fs::read(&ledger).unwrap();
        std::fs::remove_file(&ledger).unwrap();
        std::fs::create_dir(&ledger).unwrap();
        w.flush().unwrap_err();
        std::fs::remove_dir(&ledger).unwrap();
        std::fs::write(&ledger, kept).unwrap();
        // Although nothing stands in the way any more.
        w.flush().unwrap_err();
        let prepared = MirrorWriter::prepare(b"x".to_vec(), Shape::Text, None).unwrap();
        w.add(&ident("b"), prepared, meta(1, 1)).unwrap_err();
    });
    assert_eq!(data.captures("a"), 1);
    assert_eq!(data.add("a", b"one\ntwo\n").seq, 2);
    assert_eq!(data.verify(true), vec![]);
}

/// A sync that fails is not tried again, and nothing of its batch is promised.
#[test]
fn a_failed_sync_ends_the_writer() {
    const AGAIN: &str = "CASS_TEST_FAILED_SYNC";
    if let Some(path) = std::env::var_os(AGAIN) {
        let root = Root::open_or_create(Path::new(&path)).unwrap();
        let lock = WriterLock::acquire(root, "test", 0).unwrap();
        let mut w = MirrorWriter::open(Capture::new(&lock), 0).unwrap();
        add(&mut w, "a", b"one\ntwo\n");
        w.flush().unwrap_err();
        w.flush().unwrap_err();
        w.finish().unwrap_err();
        return;
    }
    let data = Data::new();
    data.add("a", b"one\n");
    let trace = data.path("trace");
    let ran = std::process::Command::new("strace")
        .args([
            "-f",
            "-e",
            "trace=fdatasync",
            "-e",
            "inject=fdatasync:error=EIO:when=1",
            "-o",
        ])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "store::mirror::tests::crash::a_failed_sync_ends_the_writer",
        ])
        .env(AGAIN, data.dir.path())
        .output();
    let Ok(ran) = ran else {
        println!("no strace here: not tested");
        return;
    };
    assert!(
        ran.status.success(),
        "{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    let syncs = std::fs::read_to_string(&trace).unwrap();
    assert_eq!(syncs.matches("fdatasync(").count(), 1, "{syncs}");
    assert_eq!(data.captures("a"), 1);
    assert_eq!(data.add("a", b"one\ntwo\n").seq, 2);
    assert_eq!(bad(&data), vec![]);
}

#[test]
fn a_second_writer_is_refused() {
    let data = Data::new();
    let _lock = data.lock();
    let root = Root::open_or_create(data.dir.path()).unwrap();
    let e = WriterLock::acquire(root, "test", 0).unwrap_err();
    assert_eq!(e.kind(), crate::error::ErrorKind::LockBusy);
}
