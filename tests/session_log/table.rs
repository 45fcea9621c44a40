//! Every case, from a copy of its tree alone: verdict, counts, repair.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use cass::session_log::{self, Checked, Diagnosis, Entry, Form, Kind};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::cases::{self, Case};

/// Checks everything at a path, as the command does.
pub fn check_all(path: &Path) -> Vec<(Entry, Checked)> {
    let mut out = Vec::new();
    for entry in session_log::look(path).expect("a path").entries {
        let file = File::open(&entry.path).expect("a file");
        if entry.kind == Kind::Store {
            let conn = Connection::open(&entry.path).expect("a copy of a store");
            let (all, _) = session_log::check_store(&file, &conn, &|| false).expect("a store");
            out.extend(all.into_iter().map(|c| (entry.clone(), c)));
        } else {
            let (checked, _) = session_log::check(&entry, &file, &|| false).expect("a log");
            out.push((entry, checked));
        }
    }
    out
}

fn number(n: Option<u64>) -> Value {
    n.map_or(Value::Null, Value::from)
}

/// What a case expects, of what was found.
fn told(case: &Case, checked: &Checked) -> Value {
    let d = &checked.diagnosis;
    let first = d.first_bad.as_ref();
    let repair = d.repair.as_ref();
    let clean = d.verdict.name() == "clean";
    let sound = |n: Option<u64>| if clean { Some(d.rows_total) } else { n };
    let zero = |n: Option<u64>| if clean { Some(0) } else { n };
    let mut out = json!({
        "verdict": d.verdict.name(),
        "first_bad_line": number(first.map(|f| f.row)),
        "first_bad_physical_line": number(first.map(|f| {
            if checked.in_store { f.row } else { f.spot.line }
        })),
        "expected_seq": number(first.and_then(|f| f.expected)),
        "got_seq": number(first.and_then(|f| f.got)),
        "valid_prefix_events": number(d.valid_prefix_events),
        "lines_kept": number(sound(repair.map(|r| r.rows_kept))),
        "lines_dropped": number(zero(repair.map(|r| r.rows_dropped))),
        "dropped_rows": if clean { json!([]) } else {
            repair.map_or(Value::Null, |r| json!(r.dropped))
        },
        "rows_rewritten": number(zero(repair.map(|r| r.rows_rewritten))),
        "closers": if clean { json!([]) } else {
            repair.map_or(Value::Null, |r| {
                json!(r.closers.iter().map(|c| c.kind).collect::<Vec<_>>())
            })
        },
        "repaired_event_count": number(if clean {
            d.valid_prefix_events
        } else {
            repair.map(|r| r.events)
        }),
        "must_refuse": d.must_refuse,
        "repair_optional": d.repair_optional,
    });
    // Where rows were destroyed, only who destroyed them knows how many there were.
    let gone = ["frame_corrupt", "nul_padding"].contains(&d.verdict.name());
    if !gone {
        out["rows_total"] = json!(d.rows_total);
    }
    if let Some(at) = case.expected.get("truncate_to") {
        let cut = repair.and_then(|r| match r.cut {
            Some((at, _)) => Some(at),
            None => r.edits.last().map(|e| e.from),
        });
        assert_eq!(number(cut), *at, "{}", case.name);
    }
    out
}

/// Name, and what differs.
type Difference = (String, String);

fn compare(case: &Case, differences: &mut Vec<Difference>) {
    let log = case.log();
    let checked = check_all(&case.root());
    let Some((entry, checked)) = checked.iter().find(|(e, _)| e.path == log) else {
        differences.push((case.name.clone(), "the log is not found".to_owned()));
        return;
    };
    if let Some(id) = &checked.session_id
        && case.text("session_id") != Some(id)
    {
        differences.push((case.name.clone(), format!("the session is {id}")));
    }
    let found = told(case, checked);
    for (key, value) in found.as_object().expect("an object") {
        if case.expected[key] != *value {
            let wanted = &case.expected[key];
            let what = format!(
                "{key}: {value}, not {wanted} ({})",
                checked.diagnosis.reason
            );
            differences.push((case.name.clone(), what));
        }
    }
    if let Some(wanted) = case.repaired() {
        let source = fs::read(&log).expect("the log");
        match mended(&source, entry.form().expect("a log"), &checked.diagnosis) {
            Some(got) => {
                if let Some(what) = unlike(&got, &wanted, entry.form().expect("a log")) {
                    differences.push((case.name.clone(), what));
                }
            }
            None => differences.push((case.name.clone(), "no repair".to_owned())),
        }
    }
}

/// The log after its repair.
pub fn mended(source: &Vec<u8>, form: Form, diagnosis: &Diagnosis) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    session_log::mend(source, form, diagnosis.repair.as_ref()?, &mut out).expect("written");
    Some(out)
}

pub fn text_of(bytes: &[u8], packed: bool) -> Vec<u8> {
    if !packed {
        return bytes.to_vec();
    }
    let mut out = Vec::new();
    zstd::stream::read::Decoder::new(bytes)
        .expect("a decoder")
        .read_to_end(&mut out)
        .expect("frames");
    out
}

fn unlike(got: &[u8], wanted: &[u8], form: Form) -> Option<String> {
    let (a, b) = (text_of(got, form.packed), text_of(wanted, form.packed));
    if a != b {
        let at = a.iter().zip(&b).position(|(x, y)| x != y);
        let at = at.unwrap_or(a.len().min(b.len()));
        let line = a
            .get(..at)
            .unwrap_or_default()
            .split(|c| *c == b'\n')
            .count();
        return Some(format!("the repaired text differs in line {line}"));
    }
    None
}

#[test]
fn every_case_is_told_and_repaired_as_it_must_be() {
    let mut differences = Vec::new();
    for case in cases::all() {
        compare(&case, &mut differences);
    }
    let list: Vec<String> = differences
        .iter()
        .map(|(n, w)| format!("{n}: {w}"))
        .collect();
    assert!(list.is_empty(), "{}", list.join("\n"));
}
