use super::*;

const PACK: &str = "raw-mirror/packs/00000001.pack";

/// Source, number and content of a capture.
type Version = (&'static str, u64, Vec<u8>);

/// Some sources with some versions, and what each version holds.
fn sample() -> (Data, Vec<Version>) {
    let data = Data::new();
    let mut truth = Vec::new();
    let mut a = lines(1, 3);
    for i in 0..3 {
        a.extend(lines(i + 10, 1));
        data.add("a", &a);
        truth.push(("a", i + 1, a.clone()));
    }
    let b = noise(5, 20_000);
    data.add("b", &b);
    truth.push(("b", 1, b));
    data.write(|w| w.flush().unwrap());
    let lock = data.lock();
    MirrorWriter::open(Capture::new(&lock), 0)
        .unwrap()
        .finish()
        .unwrap();
    drop(lock);
    (data, truth)
}

/// Damages one file, checks that it is named, and that capturing the sources again makes every
/// newest version whole.
fn found_and_healed(data: &Data, rel: &str, what: &str, truth: &[Version]) {
    let found = data.verify(true);
    let key = rel
        .trim_start_matches("raw-mirror/sources/")
        .trim_end_matches(".jsonl");
    let named = found.iter().any(|p| {
        !p.kind.harmless()
            && (p.file == rel || p.capture.is_some_and(|(k, _)| k.to_string() == key))
    });
    assert!(named, "{what}: {found:?}");
    let mut newest = std::collections::BTreeMap::new();
    for (name, _, bytes) in truth {
        newest.insert(*name, bytes);
    }
    for (name, bytes) in newest {
        let added = data.add(name, bytes);
        assert!(
            &data.get(name, added.seq).unwrap() == bytes,
            "{what}: {name}"
        );
    }
}

#[test]
fn every_flipped_byte_of_a_pack_is_named_and_healed_by_a_new_capture() {
    let (data, truth) = sample();
    let pack = std::fs::read(data.path(PACK)).unwrap();
    assert_eq!(data.verify(true), vec![]);
    // The long incompressible payload need not be tried at every byte.
    for at in (0..pack.len()).filter(|at| *at < 1500 || *at + 700 > pack.len() || at % 997 == 0) {
        for index in [true, false] {
            if !index && at % 3 != 0 {
                continue;
            }
            let hurt = data.copy();
            if !index {
                std::fs::remove_dir_all(hurt.path("raw-mirror/index")).unwrap();
            }
            let mut bytes = pack.clone();
            bytes[at] ^= 1 << (at % 8);
            std::fs::write(hurt.path(PACK), &bytes).unwrap();
            found_and_healed(&hurt, PACK, &format!("byte {at}, index {index}"), &truth);
            let now = std::fs::read(hurt.path(PACK)).unwrap();
            assert!(
                now.starts_with(&bytes),
                "byte {at}, index {index}: the damaged pack was changed"
            );
        }
    }
}

#[test]
fn every_flipped_byte_of_a_ledger_is_named() {
    let (data, truth) = sample();
    let rel = format!("raw-mirror/sources/{}.jsonl", ident("a").key);
    let ledger = std::fs::read(data.path(&rel)).unwrap();
    for at in 0..ledger.len() {
        let hurt = data.copy();
        if at % 2 == 0 {
            std::fs::remove_dir_all(hurt.path("raw-mirror/index")).unwrap();
        }
        let mut bytes = ledger.clone();
        bytes[at] ^= 1 << (at % 7);
        std::fs::write(hurt.path(&rel), &bytes).unwrap();
        if at + 1 == ledger.len() && at % 2 == 0 {
            // Without its newline the last line is torn, and only the index knows better.
            continue;
        }
        found_and_healed(&hurt, &rel, &format!("byte {at}"), &truth);
        let now = std::fs::read(hurt.path(&rel)).unwrap();
        if at + 1 != ledger.len() {
            assert!(now.starts_with(&bytes), "byte {at}: damage was cut");
        }
    }
}

#[test]
fn lost_lines_packs_and_ledgers_are_named() {
    let (data, truth) = sample();
    let rel = format!("raw-mirror/sources/{}.jsonl", ident("a").key);
    let ledger = std::fs::read_to_string(data.path(&rel)).unwrap();
    let all: Vec<&str> = ledger.split_inclusive('\n').collect();
    for lost in 1..all.len() {
        let hurt = data.copy();
        let kept: String = all
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != lost)
            .map(|(_, l)| *l)
            .collect();
        std::fs::write(hurt.path(&rel), kept).unwrap();
        found_and_healed(&hurt, &rel, &format!("line {lost}"), &truth);
    }
    for gone in [rel.as_str(), PACK] {
        let hurt = data.copy();
        std::fs::remove_file(hurt.path(gone)).unwrap();
        found_and_healed(&hurt, gone, gone, &truth);
    }
    let hurt = data.copy();
    std::fs::write(hurt.path("raw-mirror/FORMAT"), "something\n").unwrap();
    found_and_healed(&hurt, "raw-mirror/FORMAT", "format", &truth);
    assert_eq!(hurt.verify(true), vec![]);
}

#[test]
fn a_foreign_or_empty_pack_is_left_alone() {
    let (data, truth) = sample();
    for junk in [&b""[..], &[7u8; 3000], b"SQLite format 3\0", &[0u8; 5000]] {
        let hurt = data.copy();
        let rel = "raw-mirror/packs/00000002.pack";
        std::fs::write(hurt.path(rel), junk).unwrap();
        let foreign = junk.iter().any(|b| *b != 0);
        if foreign {
            found_and_healed(&hurt, rel, "foreign", &truth);
        }
        hurt.add("new", b"new\n");
        let now = std::fs::read(hurt.path(rel)).unwrap();
        if foreign {
            assert!(now == junk, "a foreign pack was changed");
        } else {
            // What a crash leaves of a new pack is used.
            assert_eq!(hurt.verify(true), vec![]);
        }
        for (name, seq, bytes) in &truth {
            assert!(&hurt.get(name, *seq).unwrap() == bytes);
        }
        assert_eq!(hurt.get("new", 1).unwrap(), b"new\n");
    }
}

#[test]
fn a_damaged_chunk_is_healed_from_the_same_bytes_and_the_old_promise_with_it() {
    let data = Data::new();
    let bytes = lines(1, 3000);
    data.add("a", &bytes);
    let mut pack = std::fs::read(data.path(PACK)).unwrap();
    let middle = pack.len() / 2;
    pack[middle] ^= 1;
    std::fs::write(data.path(PACK), &pack).unwrap();
    let e = data.get("a", 1).unwrap_err();
    assert!(e.message().contains("00000001.pack"), "{e}");
    let added = data.add("a", &bytes);
    assert!(added.unchanged && added.healed == 1, "{added:?}");
    assert_eq!(data.get("a", 1).unwrap(), bytes);
    // The damaged record is still there and still named.
    assert_eq!(
        data.verify(true).iter().map(|p| p.kind).collect::<Vec<_>>(),
        [ProblemKind::Object]
    );
    // An append never builds on damage either.
    let data = Data::new();
    data.add("a", &bytes);
    std::fs::write(data.path(PACK), &pack).unwrap();
    let more = [bytes.clone(), lines(2, 1)].concat();
    data.add("a", &more);
    assert_eq!(data.get("a", 2).unwrap(), more);
}

#[test]
fn time_that_is_up_ends_a_verification_honestly() {
    let (data, _) = sample();
    let root = data.root();
    let reader = MirrorReader::open(&root).unwrap().unwrap();
    let mut left = 3;
    let summary = reader
        .verify(
            true,
            &mut || {
                left -= 1;
                left < 0
            },
            &mut |p| panic!("{p:?}"),
        )
        .unwrap();
    assert!(!summary.complete);
}
