//! Appending: only where the caller knows the end of the log, whole or not at all.

use std::fs;
use std::io;

use cass::session_log::{
    self, AppendError, Form, LogName, Medium, ReadAt, Refusal, Revision, Verdict,
};
use serde_json::Value;

use crate::cases::{self, Case};
use crate::table::text_of;

/// A log in memory whose writes can be made to fail.
#[derive(Clone, Default)]
struct Memory {
    bytes: Vec<u8>,
    /// Bytes that can still be written.
    room: Option<usize>,
    sync_fails: u32,
    truncate_fails: bool,
    writes: u32,
    /// What others write just before and just after.
    before: Vec<u8>,
    behind: Vec<u8>,
}

impl ReadAt for Memory {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.bytes.read_at(buf, offset)
    }
}

impl Medium for Memory {
    fn write_at_end(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writes += 1;
        self.bytes.extend_from_slice(&self.before);
        let n = self.room.unwrap_or(bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(&bytes[..n]);
        self.bytes.extend_from_slice(&self.behind);
        if n < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.sync_fails > 0 {
            self.sync_fails -= 1;
            return Err(io::Error::other("sync"));
        }
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        if self.truncate_fails {
            return Err(io::Error::other("truncate"));
        }
        self.bytes.truncate(usize::try_from(len).expect("a length"));
        Ok(())
    }
}

fn log(case: &Case) -> (Memory, Form) {
    let path = case.log();
    let name = path.file_name().expect("a name").to_string_lossy();
    let form = LogName::of(&name).expect("a log").into();
    let bytes = fs::read(&path).expect("the log");
    (
        Memory {
            bytes,
            ..Memory::default()
        },
        form,
    )
}

fn batch(case: &Case) -> Vec<u8> {
    let batch: Value = serde_json::from_slice(&case.batch().expect("a batch")).expect("JSON");
    let events = batch["events"].as_array().expect("events");
    events
        .iter()
        .flat_map(|e| format!("{e}\n").into_bytes())
        .collect()
}

fn end(log: &Memory, form: Form) -> Revision {
    session_log::revision(log, form)
        .expect("read")
        .expect("sound")
}

#[test]
fn the_cases_are_accepted_and_refused_as_they_must_be() {
    let mut seen = 0;
    for case in cases::all().iter().filter(|c| c.batch().is_some()) {
        seen += 1;
        let (mut log, form) = log(case);
        let before = log.clone();
        let expected = end(&log, form);
        let batch = batch(case);
        match session_log::append(&mut log, form, &expected, &batch) {
            Ok(after) => {
                assert_eq!(case.text("append_expect"), Some("accept"), "{}", case.name);
                assert!(log.bytes.starts_with(&before.bytes));
                let text = text_of(&log.bytes, form.packed);
                assert!(text.ends_with(&batch));
                assert_eq!(after, end(&log, form));
                assert!(after.next_seq > expected.next_seq);
            }
            Err(AppendError::Refused(why)) => {
                assert_eq!(case.text("append_expect"), Some("refuse"), "{}", case.name);
                assert_eq!((log.bytes, log.writes), (before.bytes, 0));
                let fits = match why {
                    Refusal::Stale {
                        first: 48,
                        next: 52,
                    } => case.name.contains("four_behind"),
                    Refusal::NotDense { .. } => case.name.contains("not_dense"),
                    _ => false,
                };
                assert!(fits, "{}: {why:?}", case.name);
            }
            Err(e) => panic!("{}: {e:?}", case.name),
        }
    }
    assert_eq!(seen, 6);
}

#[test]
fn one_of_two_writers_that_read_the_same_end_loses_and_reads_again() {
    for name in ["append_next__raw", "append_next__zstd"] {
        let case = cases::named(name);
        let (mut log, form) = log(&case);
        let batch = batch(&case);
        let seen = end(&log, form);
        let first = session_log::append(&mut log, form, &seen, &batch).expect("appended");
        let after = log.bytes.clone();
        let second = session_log::append(&mut log, form, &seen, &batch);
        match second {
            Err(AppendError::Refused(Refusal::Changed { expected, found })) => {
                assert_eq!((*expected, *found), (seen, first.clone()));
            }
            other => panic!("{name}: {other:?}"),
        }
        // With the new end in hand, the old batch is stale.
        let third = session_log::append(&mut log, form, &first, &batch);
        assert!(matches!(
            third,
            Err(AppendError::Refused(Refusal::Stale { .. }))
        ));
        assert_eq!(log.bytes, after);
    }
}

#[test]
fn the_same_length_with_other_bytes_is_another_log() {
    let case = cases::named("append_next__raw");
    let (mut log, form) = log(&case);
    let seen = end(&log, form);
    let at = memchr::memmem::find(&log.bytes, b"basil").expect("a word");
    log.bytes[at] = b'B';
    let refused = session_log::append(&mut log, form, &seen, &batch(&case));
    assert!(matches!(
        refused,
        Err(AppendError::Refused(Refusal::Changed { .. }))
    ));
}

#[test]
fn a_batch_that_breaks_a_rule_is_refused() {
    let case = cases::named("append_next__raw");
    let (mut log, form) = log(&case);
    let seen = end(&log, form);
    let next = seen.next_seq;
    for (batch, what) in [
        (
            format!(r#"{{"type":"turn/start","seq":{next},"time":1,"data":{{"turn":9}}}}"#),
            "a turn that is not due",
        ),
        (
            format!(r#"{{"type":"garden/switch","seq":{next},"time":1,"data":{{}}}}"#),
            "a type that is not known",
        ),
        (
            format!(r#"{{"type":"step/end","seq":{next},"time":1,"data":{{"turn":2,"step":1}}}}"#),
            "a step that is not open",
        ),
        (r#"{"type":"turn/start""#.to_owned(), "no JSON"),
        (String::new(), "nothing"),
        (
            format!(
                r#"{{"type":"turn/start","seq":{},"time":1,"data":{{"turn":3}}}}"#,
                next + 1
            ),
            "a gap",
        ),
    ] {
        let before = log.bytes.clone();
        let refused = session_log::append(&mut log, form, &seen, batch.as_bytes());
        assert!(matches!(refused, Err(AppendError::Refused(_))), "{what}");
        assert_eq!(log.bytes, before, "{what}");
    }
}

#[test]
fn a_damaged_log_is_not_appended_to() {
    let case = cases::named("torn_partial_line__raw");
    let (log, form) = log(&case);
    let found = session_log::revision(&log, form).expect("read");
    assert_eq!(found, Err(Verdict::TornTailRecoverable));
}

#[test]
fn a_write_that_fails_is_taken_back() {
    for name in ["append_next__raw", "append_next__zstd"] {
        let case = cases::named(name);
        let (whole, form) = log(&case);
        let seen = end(&whole, form);
        let batch = batch(&case);
        for (room, sync_fails) in [(Some(0), 0), (Some(7), 0), (Some(60), 0), (None, 1)] {
            let mut log = Memory {
                room,
                sync_fails,
                ..whole.clone()
            };
            let failed = session_log::append(&mut log, form, &seen, &batch);
            assert!(matches!(failed, Err(AppendError::TakenBack(_))), "{name}");
            assert_eq!(log.bytes, whole.bytes, "{name}");
        }
        let mut log = Memory {
            room: Some(7),
            truncate_fails: true,
            ..whole.clone()
        };
        let failed = session_log::append(&mut log, form, &seen, &batch);
        assert!(matches!(failed, Err(AppendError::Torn(_))), "{name}");
        // What is left is a torn end, which a reader knows and a repair takes off.
        let found = session_log::revision(&log, form).expect("read");
        assert_eq!(found, Err(Verdict::TornTailRecoverable), "{name}");
    }
}

#[test]
fn what_others_write_at_the_same_time_is_never_cut_off() {
    let case = cases::named("append_next__raw");
    let (whole, form) = log(&case);
    let seen = end(&whole, form);
    let batch = batch(&case);
    let mut log = Memory {
        before: b"theirs\n".to_vec(),
        ..whole.clone()
    };
    let overtaken = session_log::append(&mut log, form, &seen, &batch);
    assert!(matches!(overtaken, Err(AppendError::Overtaken)));
    assert_eq!(log.bytes, [&whole.bytes[..], b"theirs\n"].concat());
    let mut log = Memory {
        behind: b"theirs\n".to_vec(),
        ..whole.clone()
    };
    let torn = session_log::append(&mut log, form, &seen, &batch);
    assert!(matches!(torn, Err(AppendError::Torn(_))));
    assert_eq!(log.bytes, [&whole.bytes[..], &batch, b"theirs\n"].concat());
}
