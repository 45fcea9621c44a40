//! Sound logs with edits made at random: nothing panics, and nothing that is written is other than
//! what was there.

use std::fs;
use std::sync::LazyLock;

use cass::session_log::{self, Diagnosis, Form, LogName, Verdict};
use proptest::prelude::*;

use crate::cases;
use crate::table::{mended, text_of};

const SOUND: [&str; 10] = [
    "clean_two_turns",
    "clean_packed_chunks",
    "clean_resumed",
    "clean_forked_child",
    "clean_v1",
    "clean_v1_source_ranges",
    "clean_v2",
    "clean_v3",
    "clean_v4",
    "interrupted_calls_not_started",
];

/// A sound log.
struct Log {
    bytes: Vec<u8>,
    form: Form,
    /// Its lines without newline, the header first.
    lines: Vec<Vec<u8>>,
}

fn load(variant: &str) -> Vec<Log> {
    SOUND
        .iter()
        .map(|name| {
            let case = cases::named(&format!("{name}__{variant}"));
            let path = case.log();
            let name = path
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let form: Form = LogName::of(&name).expect("a log").into();
            let bytes = fs::read(&path).expect("the log");
            let text = text_of(&bytes, form.packed);
            let lines = text
                .strip_suffix(b"\n")
                .expect("a newline")
                .split(|b| *b == b'\n')
                .map(<[u8]>::to_vec)
                .collect();
            Log { bytes, form, lines }
        })
        .collect()
}

static RAW: LazyLock<Vec<Log>> = LazyLock::new(|| load("raw"));
static PACKED: LazyLock<Vec<Log>> = LazyLock::new(|| load("zstd"));

/// What can happen to the rows of a log.
#[derive(Debug, Clone)]
enum Edit {
    Delete(usize, usize),
    Repeat(usize, usize, usize),
    Swap(usize),
    CutRow(usize, usize),
    Weld(usize, usize),
    Zeros(usize, usize),
    End(usize),
    Garbage(usize, Vec<u8>),
}

fn edit() -> impl Strategy<Value = Edit> {
    let n = 0..60_usize;
    prop_oneof![
        (n.clone(), 1..5_usize).prop_map(|(a, n)| Edit::Delete(a, n)),
        (n.clone(), 1..12_usize, 0..8_usize).prop_map(|(a, n, back)| Edit::Repeat(a, n, back)),
        n.clone().prop_map(Edit::Swap),
        (n.clone(), 0..200_usize).prop_map(|(a, at)| Edit::CutRow(a, at)),
        (n.clone(), 1..200_usize).prop_map(|(a, at)| Edit::Weld(a, at)),
        (n.clone(), 1..40_usize).prop_map(|(a, n)| Edit::Zeros(a, n)),
        (0..4000_usize).prop_map(Edit::End),
        (n, prop::collection::vec(any::<u8>(), 0..30)).prop_map(|(a, b)| Edit::Garbage(a, b)),
    ]
}

/// Makes an edit in rows; the header stays.
fn apply(rows: &mut Vec<Vec<u8>>, edit: &Edit) {
    let at = |a: usize, rows: &[Vec<u8>]| 1 + a % (rows.len() - 1).max(1);
    if rows.len() < 3 {
        return;
    }
    match edit {
        Edit::Delete(a, n) => {
            let a = at(*a, rows);
            rows.drain(a..(a + n).min(rows.len()));
        }
        Edit::Repeat(a, n, later) => {
            let a = at(*a, rows);
            let again = rows[a..(a + n).min(rows.len())].to_vec();
            let to = (a + again.len() + later).min(rows.len());
            rows.splice(to..to, again);
        }
        Edit::Swap(a) => {
            let a = at(*a, rows);
            if a + 1 < rows.len() {
                rows.swap(a, a + 1);
            }
        }
        Edit::CutRow(a, to) => {
            let a = at(*a, rows);
            rows[a].truncate(*to);
        }
        Edit::Weld(a, to) => {
            let a = at(*a, rows);
            let mut torn = rows[a].clone();
            torn.truncate((*to).min(torn.len() - 1));
            torn.extend_from_slice(&rows[a]);
            rows[a] = torn;
        }
        Edit::Zeros(a, n) => {
            let a = at(*a, rows);
            let mut row = vec![0; *n];
            row.extend_from_slice(&rows[a]);
            rows[a] = row;
        }
        Edit::End(_) => {}
        Edit::Garbage(a, bytes) => {
            let a = at(*a, rows);
            rows.insert(a, bytes.iter().copied().filter(|b| *b != b'\n').collect());
        }
    }
}

fn examined(bytes: &Vec<u8>, form: Form) -> Diagnosis {
    session_log::examine(bytes, form).expect("read")
}

/// The events of a text, each with its number, without times, as the reader of the test has them.
fn events(lines: &[Vec<u8>]) -> Vec<serde_json::Value> {
    let mut out = Vec::new();
    for line in lines.iter().skip(1) {
        let mut row: serde_json::Value = serde_json::from_slice(line).expect("a row");
        let packed = row.get("seq0").is_some();
        let object = row.as_object_mut().expect("an object");
        object.remove("time");
        object.remove("time0");
        if !packed {
            out.push(row);
            continue;
        }
        let data = &row["data"];
        let list = if data.get("args").is_some() {
            "args"
        } else {
            "texts"
        };
        for (k, text) in data[list].as_array().expect("texts").iter().enumerate() {
            out.push(serde_json::json!({
                "kind": row["type"], "seq": row["seq0"].as_u64().expect("a number") + k as u64,
                "turn": data["turn"], "step": data["step"], "index": data["index"],
                "id": data["id"], "name": data["name"], "text": text,
            }));
        }
    }
    out
}

fn lines_of(text: &[u8]) -> Vec<Vec<u8>> {
    let text = text.strip_suffix(b"\n").expect("a newline at the end");
    text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect()
}

/// What a repair wrote is the log as it was, up to some event, and closers behind that.
fn is_what_was(log: &Log, bytes: &Vec<u8>, d: &Diagnosis) {
    let Some(after) = mended(bytes, log.form, d) else {
        return;
    };
    let lines = lines_of(&text_of(&after, log.form.packed));
    assert_eq!(lines[0], log.lines[0], "the header");
    let repair = d.repair.as_ref().expect("a repair");
    let (was, is) = (events(&log.lines), events(&lines));
    assert_eq!(is.len() as u64, repair.events, "{}", d.reason);
    let kept = is.len() - repair.closers.len();
    assert!(kept <= was.len(), "{}: events that never were", d.reason);
    assert_eq!(is[..kept], was[..kept], "{}", d.reason);
    // A repaired log needs no repair.
    let again = examined(&after, log.form);
    match again.verdict {
        Verdict::Clean => assert_eq!(again.repair, None),
        Verdict::InterruptedTurnRecoverable => {
            assert_eq!(again.wanted(false), None, "nothing that is done unasked");
            let repair = again.repair.expect("closers");
            assert_eq!((repair.edits.len(), repair.rows_dropped), (0, 0));
        }
        other => panic!("{}: repaired it is {other:?}: {}", d.reason, again.reason),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_that_move_never_become_another_session(
        n in 0..SOUND.len(),
        edits in prop::collection::vec(edit(), 1..4),
    ) {
        let log = &RAW[n];
        let mut rows = log.lines.clone();
        edits.iter().for_each(|e| apply(&mut rows, e));
        let mut bytes = rows.join(&b'\n');
        bytes.push(b'\n');
        for edit in &edits {
            if let Edit::End(cut) = edit {
                bytes.truncate(bytes.len().saturating_sub(*cut).max(log.lines[0].len() + 1));
            }
        }
        let d = examined(&bytes, log.form);
        if d.verdict == Verdict::Clean {
            let is = events(&lines_of(&bytes));
            prop_assert_eq!(&is[..], &events(&log.lines)[..is.len()]);
        }
        is_what_was(log, &bytes, &d);
    }

    #[test]
    fn frames_that_are_damaged_never_become_another_session(
        n in 0..SOUND.len(),
        cut in prop::option::of(0..4000_usize),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 0..3),
        insert in prop::option::of((any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..20))),
    ) {
        let log = &PACKED[n];
        let mut bytes = log.bytes.clone();
        for (at, bit) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        if let Some((at, more)) = insert {
            let at = at.index(bytes.len());
            bytes.splice(at..at, more);
        }
        if let Some(cut) = cut {
            bytes.truncate(bytes.len().saturating_sub(cut));
        }
        let d = examined(&bytes, log.form);
        is_what_was(log, &bytes, &d);
    }

    #[test]
    fn any_bytes_are_told_without_a_panic(
        n in 0..SOUND.len(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let log = &RAW[n];
        let mut bytes = log.bytes.clone();
        for (at, byte) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        let d = examined(&bytes, log.form);
        if let Some(after) = mended(&bytes, log.form, &d) {
            let again = examined(&after, log.form);
            prop_assert!(
                matches!(again.verdict, Verdict::Clean | Verdict::InterruptedTurnRecoverable),
                "{:?} after {:?}", again.verdict, d.verdict
            );
        }
    }

    #[test]
    fn what_a_captured_version_gives_back_is_what_was_there(
        n in 0..SOUND.len(),
        kept in any::<prop::sample::Index>(),
        edits in prop::collection::vec(edit(), 1..4),
    ) {
        let log = &RAW[n];
        let mut rows = log.lines.clone();
        edits.iter().for_each(|e| apply(&mut rows, e));
        let join = |rows: &[Vec<u8>]| {
            let mut bytes = rows.join(&b'\n');
            bytes.push(b'\n');
            bytes
        };
        let (mut bytes, whole) = (join(&rows), join(&log.lines));
        for edit in &edits {
            if let Edit::End(cut) = edit {
                bytes.truncate(bytes.len().saturating_sub(*cut));
            }
        }
        let older = join(&log.lines[..=kept.index(log.lines.len())]);
        if let Some(how) = session_log::rebuild(&bytes, &older, log.form).expect("read") {
            let at = |n: u64| usize::try_from(n).expect("a place");
            let made = [&older[..at(how.taken)], &bytes[at(how.from)..]].concat();
            if examined(&made, log.form).is_sound() {
                prop_assert!(whole.starts_with(&made), "another log was made");
            }
        }
    }

    #[test]
    fn a_captured_version_gives_back_the_frames_that_were_there(
        n in 0..SOUND.len(),
        kept in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 0..3),
        gone in prop::option::of((any::<prop::sample::Index>(), 1..400_usize)),
    ) {
        let log = &PACKED[n];
        let mut bytes = log.bytes.clone();
        for (at, bit) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        if let Some((at, len)) = gone {
            let at = at.index(bytes.len());
            bytes.drain(at..(at + len).min(log.bytes.len()));
        }
        let older = log.bytes[..=kept.index(log.bytes.len())].to_vec();
        if let Some(how) = session_log::rebuild(&bytes, &older, log.form).expect("read") {
            let at = |n: u64| usize::try_from(n).expect("a place");
            let made = [&older[..at(how.taken)], &bytes[at(how.from)..]].concat();
            if examined(&made, log.form).is_sound() {
                prop_assert!(log.bytes.starts_with(&made), "another log was made");
            }
        }
    }
}
