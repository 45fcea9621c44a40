use std::io::{Seek, SeekFrom};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Change {
    Append(usize),
    AppendLine,
    Insert(u16, usize),
    Cut(u16),
    Replace(usize),
    Same,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (0usize..1500).prop_map(Change::Append),
        3 => Just(Change::AppendLine),
        1 => (0u16..1000, 1usize..50).prop_map(|(at, n)| Change::Insert(at, n)),
        1 => (0u16..1000).prop_map(Change::Cut),
        1 => (0usize..4000).prop_map(Change::Replace),
        1 => Just(Change::Same),
    ]
}

fn apply(content: &mut Vec<u8>, change: &Change, seed: u64) {
    match change {
        Change::Append(n) => content.extend(lines(seed, *n)),
        Change::AppendLine => content.extend(lines(seed, 1)),
        Change::Insert(at, n) => {
            let at = content.len() * usize::from(*at) / 1000;
            content.splice(at..at, lines(seed, *n));
        }
        Change::Cut(at) => content.truncate(content.len() * usize::from(*at) / 1000),
        Change::Replace(n) => *content = lines(seed, *n),
        Change::Same => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_version_comes_back(
        steps in proptest::collection::vec((0usize..3, change(), any::<bool>(), 0u8..4, any::<bool>()), 1..25),
    ) {
        let data = Data::new();
        let mut contents = [Vec::new(), Vec::new(), Vec::new()];
        let mut versions: [Vec<Vec<u8>>; 3] = Default::default();
        let names = ["a", "b", "c"];
        let mut steps = steps.into_iter().enumerate().peekable();
        while steps.peek().is_some() {
            data.write(|w| {
                for (i, (which, change, streamed, pause, database)) in steps.by_ref() {
                    apply(&mut contents[which], &change, i as u64 + 1);
                    let shape = if database { Shape::Sqlite { page_size: 4096 } } else { Shape::Text };
                    let added = if streamed {
                        stream(w, names[which], &contents[which], shape)
                    } else {
                        add(w, names[which], &contents[which])
                    };
                    if versions[which].last() != Some(&contents[which]) {
                        assert!(!added.unchanged);
                        versions[which].push(contents[which].clone());
                    } else {
                        assert!(added.unchanged, "{added:?}");
                    }
                    assert_eq!(added.seq, versions[which].len() as u64);
                    assert_eq!(added.healed, 0);
                    assert_eq!(&read(w.open_content(added.recipe, added.len).unwrap()).unwrap(), &contents[which]);
                    match pause {
                        0 => w.flush().unwrap(),
                        1 => { w.flush().unwrap(); break }
                        _ => {}
                    }
                }
                w.flush().unwrap();
            });
        }
        for (name, versions) in names.iter().zip(&versions) {
            for (i, version) in versions.iter().enumerate() {
                prop_assert!(&data.get(name, i as u64 + 1).unwrap() == version, "{name} {i}");
            }
        }
        prop_assert_eq!(data.verify(true), vec![]);
        prop_assert_eq!(data.verify(false), vec![]);
    }
}

#[test]
fn a_database_that_changes_anywhere_comes_back() {
    let data = Data::new();
    let mut content = noise(1, 700_000);
    let mut versions = Vec::new();
    for i in 0..90usize {
        let page = (i * 37) % 160;
        if let Some(part) = content.get_mut(page * 4096..page * 4096 + 4096) {
            part.copy_from_slice(&noise(i as u64 + 10, 4096));
        }
        if i % 5 == 0 {
            content.extend(noise(i as u64 + 1000, 4096 * 3));
        }
        if i % 40 == 39 {
            content.truncate(300_000);
        }
        data.write(|w| {
            stream(w, "db", &content, Shape::Sqlite { page_size: 4096 });
            w.flush().unwrap();
        });
        if versions.last() != Some(&content) {
            versions.push(content.clone());
        }
    }
    assert!(versions.len() > 64);
    for (i, version) in versions.iter().enumerate() {
        assert!(&data.get("db", i as u64 + 1).unwrap() == version, "{i}");
    }
    assert_eq!(data.verify(true), vec![]);
}

#[test]
fn reading_may_begin_anywhere() {
    let data = Data::new();
    let content = lines(3, 9000);
    data.write(|w| {
        stream(w, "a", &content[..content.len() / 2], Shape::Text);
        stream(w, "a", &content, Shape::Text);
        w.flush().unwrap();
    });
    let root = data.root();
    let reader = MirrorReader::open(&root).unwrap().unwrap();
    let head = reader.head(ident("a").key).unwrap().unwrap();
    assert_eq!(head.seq, 2);
    for at in [
        0,
        1,
        content.len() / 2 - 1,
        content.len() / 2,
        content.len() - 1,
        content.len(),
        content.len() + 5,
    ] {
        let mut input = reader.open_content(head.recipe, head.len).unwrap();
        input.seek(SeekFrom::Start(at as u64)).unwrap();
        assert!(
            read(input).unwrap() == content[at.min(content.len())..],
            "{at}"
        );
    }
    assert_eq!(
        reader.resolve_path(&ident("a").path).unwrap(),
        vec![ident("a")]
    );
}

#[test]
fn a_group_is_one_capture_and_a_changed_member_is_a_new_one() {
    let data = Data::new();
    let main = noise(1, 100_000);
    let shape = Shape::Sqlite { page_size: 4096 };
    let capture = |w: &mut MirrorWriter<'_>, wal: &[u8]| {
        let source = ident("db");
        let member = w
            .store_member(source.key, "-wal", &mut &wal[..], Shape::Text)
            .unwrap();
        let meta = CaptureMeta {
            group: vec![member],
            ..meta(1, main.len())
        };
        let added = w.add_stream(&source, &mut &main[..], shape, meta).unwrap();
        w.flush().unwrap();
        added
    };
    let (wal1, wal2) = (
        noise(5, 50_000),
        [noise(5, 50_000), noise(6, 8_000)].concat(),
    );
    data.write(|w| assert_eq!(capture(w, &wal1).seq, 1));
    data.write(|w| assert!(capture(w, &wal1).unchanged));
    let added = data.write(|w| capture(w, &wal2));
    assert_eq!((added.seq, added.unchanged), (2, false));
    assert!(
        added.stored < 10_000,
        "a grown WAL was stored again: {added:?}"
    );
    let root = data.root();
    let reader = MirrorReader::open(&root).unwrap().unwrap();
    let line = reader.capture(ident("db").key, 2).unwrap().unwrap();
    let wal = &line.group[0];
    assert_eq!(wal.name, "-wal");
    assert_eq!(
        read(reader.open_content(wal.recipe, wal.len).unwrap()).unwrap(),
        wal2
    );
    assert_eq!(data.verify(true), vec![]);
}

#[test]
fn a_source_that_fails_while_it_is_read_adds_nothing_and_the_writer_goes_on() {
    struct Failing(usize);
    impl Read for Failing {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::Error::from_raw_os_error(5));
            }
            let n = buf.len().min(self.0);
            self.0 -= n;
            buf[..n].fill(7);
            Ok(n)
        }
    }
    let data = Data::new();
    data.write(|w| {
        let e = w
            .add_stream(
                &ident("bad"),
                &mut Failing(20 << 20),
                Shape::Text,
                meta(1, 1),
            )
            .unwrap_err();
        assert_eq!(e.kind(), crate::error::ErrorKind::Io);
        add(w, "good", b"one line\n");
        w.flush().unwrap();
        assert!(w.head(ident("bad").key).unwrap().is_none());
    });
    assert_eq!(data.get("good", 1).unwrap(), b"one line\n");
    assert_eq!(data.verify(true), vec![]);
}

#[test]
fn an_empty_mirror_is_none_and_an_empty_source_is_a_capture() {
    let data = Data::new();
    let root = Root::open_or_create(data.dir.path()).unwrap();
    assert!(MirrorReader::open(&root).unwrap().is_none());
    assert_eq!(data.add("empty", b"").seq, 1);
    assert_eq!(data.get("empty", 1).unwrap(), b"");
    assert_eq!(data.add("empty", b"x").seq, 2);
    assert_eq!(data.add("empty", b"").seq, 3);
    assert_eq!(data.verify(true), vec![]);
}

#[test]
fn a_newer_format_is_refused_and_nothing_is_written() {
    let data = Data::new();
    data.add("a", b"x");
    std::fs::write(data.path("raw-mirror/FORMAT"), "cass-mirror 2\n").unwrap();
    let before = data.size();
    let lock = data.lock();
    let kind = MirrorWriter::open(Capture::new(&lock), 0)
        .unwrap_err()
        .kind();
    assert_eq!(kind, crate::error::ErrorKind::MirrorTooNew);
    let root = data.root();
    assert_eq!(
        MirrorReader::open(&root).unwrap_err().kind(),
        crate::error::ErrorKind::MirrorTooNew
    );
    assert_eq!(data.size(), before);
}
