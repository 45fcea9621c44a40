//! The rows of every harness's sessions, put into another archive without the mirror.

use std::path::Path;
use std::time::Duration;

use cass::disk::{ArchiveShared, Capture, Root, WriterLock};
use cass::model::conversation::ArchivedSource;
use cass::model::interrupt::Interrupt;
use cass::store::archive::{
    ArchiveReader, ArchiveWriter, Candidate, Listing, Rescued, missing, replay_rows,
    verify_generation,
};
use cass::store::generation::{self, Live};
use cass::store::layout;

use crate::every_harness::everyone;
use crate::home::index;

fn db(root: &Root) -> (String, generation::Generation) {
    let Live::Present(live) = generation::locate(root).unwrap() else {
        panic!("no archive")
    };
    (layout::archive_db(live.id.as_str()), live)
}

fn sources(reader: &ArchiveReader) -> Vec<ArchivedSource> {
    let mut all = Vec::new();
    reader
        .for_each_source(&mut |s| {
            all.push(s);
            Ok(())
        })
        .unwrap();
    all.sort_by_key(|s| s.key);
    all
}

/// Everything that is said about conversations, messages and records, in one order.
fn told(reader: &ArchiveReader) -> Vec<String> {
    let mut conversations = Vec::new();
    reader
        .conversations(&Listing::default(), &mut |c| {
            conversations.push(c);
            Ok(())
        })
        .unwrap();
    let mut all = Vec::new();
    for c in &conversations {
        all.push(format!("{c:?}"));
        reader
            .messages(&c.id, &mut |m| {
                all.push(format!("{m:?}"));
                Ok(())
            })
            .unwrap();
        reader
            .records(&c.id, &mut |r| {
                all.push(format!("{r:?}"));
                Ok(())
            })
            .unwrap();
    }
    all
}

fn root(path: &Path) -> Root {
    Root::open_or_create(path).unwrap()
}

#[test]
fn the_rows_of_every_harness_make_the_same_archive_again() {
    let s = everyone();
    index(&s);
    // Stores that changed in part, a log that grew, and one that lost its beginning.
    let chats = s.home().join(".gemini/tmp/c/chats/large.json");
    let text = std::fs::read_to_string(&chats).unwrap();
    let mut chat: serde_json::Value = serde_json::from_str(&text).unwrap();
    let messages = chat["messages"].as_array_mut().unwrap();
    let mut more = messages.last().unwrap().clone();
    more["id"] = "said-later".into();
    messages.push(more);
    s.put(
        ".gemini/tmp/c/chats/large.json",
        serde_json::to_string_pretty(&chat).unwrap().as_bytes(),
    );
    let log = s.home().join(".claude/projects/-p-2/small.jsonl");
    let bytes = std::fs::read(&log).unwrap();
    let first = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    s.put(".claude/projects/-p-2/small.jsonl", &bytes[first..]);
    s.put(".claude/projects/-p-9/small.jsonl", &bytes);
    index(&s);

    let from = root(&s.data());
    let other = s.path().join("other");
    let lock = ArchiveShared::acquire(&from, Duration::ZERO).unwrap();
    let rescued = Rescued::open(&from, &db(&from).0, &lock).unwrap().unwrap();
    assert!(rescued.tally(&Interrupt::new()).unwrap().is_sound());
    {
        let lock = WriterLock::acquire(root(&other), "test", 0).unwrap();
        let mut writer = ArchiveWriter::open_or_create(Capture::new(&lock), 7).unwrap();
        writer.acknowledge_every(100).unwrap();
        let out = replay_rows(&mut writer, &rescued, &|_| true, 9, &Interrupt::new()).unwrap();
        assert_eq!((out.unplaced, out.with_gaps, out.unnamed), (0, 0, 0));
        let lacks = missing(Candidate::from(&writer), &rescued, &mut |_| Ok(())).unwrap();
        assert_eq!((lacks.records, lacks.by_key), (0, 0));
        writer.acknowledge().unwrap();
    }
    let to = root(&other);
    let (to_db, live) = db(&to);
    let mut findings = Vec::new();
    verify_generation(&to, &live, &|| false, &mut |f| findings.push(f)).unwrap();
    assert_eq!(findings, vec![]);

    let (here, there) = (
        ArchiveReader::open(&from).unwrap().unwrap(),
        ArchiveReader::open(&to).unwrap().unwrap(),
    );
    let (a, b) = (told(&here), told(&there));
    assert!(a.len() > 1000);
    assert_eq!(a.len(), b.len());
    assert_eq!(a.iter().zip(&b).find(|(x, y)| x != y), None);
    assert_eq!(sources(&here), sources(&there));
    // The other way round: nothing is in the new archive that was not in the old one.
    let lock = ArchiveShared::acquire(&to, Duration::ZERO).unwrap();
    let again = Rescued::open(&to, &to_db, &lock).unwrap().unwrap();
    let lacks = missing(Candidate::from(&here), &again, &mut |_| Ok(())).unwrap();
    assert_eq!((lacks.records, lacks.by_key), (0, 0));
}
