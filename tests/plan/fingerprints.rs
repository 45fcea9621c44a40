//! S11: two plans that differ in one field have two fingerprints; one plan has one, however it is
//! written down.

use std::collections::{BTreeMap, BTreeSet};

use cass::model::plan::{
    Action, ArchiveState, AuthorityClass, Body, CaptureName, Count, DerivedAsset, FileState,
    Listed, Lost, LostWhat, Missing, MissingReason, PlanKind, PromiseState, Recipe, RowAuthority,
};
use cass::plan::Fingerprint;
use serde_json::Value;

fn file(name: &str, len: u64) -> FileState {
    FileState {
        name: name.to_owned(),
        len: Count(len),
        blake3: blake3::hash(name.as_bytes()).to_hex().to_string(),
    }
}

fn text(word: &str) -> String {
    word.to_owned()
}

/// Bodies that between them use every field, variant and action.
fn bodies() -> Vec<Body> {
    let rows = vec![RowAuthority {
        class: AuthorityClass::Backup,
        name: text("b00000001"),
        files: vec![
            file("agent_search.db", 4096),
            file("agent_search.db-wal", 7),
        ],
    }];
    let captures = Listed::of(&[CaptureName {
        source: "0f".repeat(16),
        seq: Count(3),
    }]);
    let live = |verified| {
        let (archive_id, generation) = (text("0192-a"), text("g00000001"));
        let (commit, head, manifest) = (Count(9), "ab".repeat(32), "cd".repeat(32));
        if verified {
            ArchiveState::Verified {
                archive_id,
                generation,
                commit,
                head,
                manifest,
            }
        } else {
            ArchiveState::Open {
                archive_id,
                generation,
                commit,
                head,
                manifest,
            }
        }
    };
    let mut repair = Body::new(
        PlanKind::Repair,
        ArchiveState::Unverified {
            current: Some(text("g00000001")),
            files: vec![file("a.db", u64::MAX), file("a.db-wal", 1 << 53)],
        },
    );
    repair.options = BTreeMap::from([
        (text("allow-repeated-repair"), text("true")),
        (text("\u{1f600}"), text("\u{fb33}")),
        (text("\u{fb33}"), text("e\u{301}\u{0}\"\\")),
    ]);
    repair.promises = Some(PromiseState {
        archive_id: text("0192-a"),
        generation: text("g00000001"),
        commit: Count((1 << 53) + 1),
        head: "01".repeat(32),
        conversations: Count(2),
        digest: "02".repeat(32),
    });
    repair.marker = Some("03".repeat(32));
    repair.inputs = vec![file("named.db", 12)];
    repair.missing = Listed::of(&[Missing {
        conversation: text("claude:1"),
        provider: None,
        native_id: Some(text("n")),
        records: Count(5),
        reason: MissingReason::CaptureUnreadable,
    }]);
    repair.lost = Listed::of(&[Lost {
        conversation: Some(text("claude:1")),
        provider: None,
        native_id: Some(text("n")),
        what: LostWhat::Records,
        count: Some(Count(5)),
        source: Some("04".repeat(16)),
        seq: Some(Count(2)),
        lines: Some((Count(7), Count(11))),
        bytes: None,
        hash: Some("05".repeat(32)),
        reason: MissingReason::CaptureUnreadable,
    }]);
    repair.actions = vec![
        Action::FinishInterrupted {
            run_id: text("run-1"),
        },
        Action::StageCandidate {
            recipe: Recipe::Rebuild {
                rows: rows.clone(),
                unreadable: captures.clone(),
            },
        },
        Action::RenewLedger {
            file: file("coverage.jsonl", 99),
        },
        Action::AcceptLoss {
            captures: captures.clone(),
            conversations: repair.missing.clone(),
        },
        Action::PromoteCandidate,
        Action::RebuildDerived {
            asset: DerivedAsset::MirrorIndex,
        },
        Action::ReclaimOrphan {
            generation: text("g00000007"),
            files: vec![file("o.db", 3)],
        },
        Action::ClearMarker {
            marker: "03".repeat(32),
        },
    ];
    let begin = captures.clone();
    let mut restore = Body::new(PlanKind::BackupRestore, live(true));
    restore.actions = vec![
        Action::StageCandidate {
            recipe: Recipe::Restore {
                backup: text("b00000001"),
                keep_newer: true,
                rows,
                unreadable: captures,
            },
        },
        Action::PromoteCandidate,
    ];
    let mut create = Body::new(PlanKind::BackupCreate, live(false));
    create.actions = vec![
        Action::CreateBackup {
            at_this_head: Count(0),
            label: Some(text("before the move")),
        },
        Action::StageCandidate {
            recipe: Recipe::Recover {
                generation: text("g00000001"),
            },
        },
    ];
    let mut undo = Body::new(PlanKind::Undo, ArchiveState::Never);
    undo.actions = vec![
        Action::RePoint {
            generation: text("g00000001"),
            files: vec![file("a.db", 3)],
        },
        Action::WithdrawAcceptance {
            run_id: text("run-2"),
        },
        Action::PutBack {
            run_id: text("run-2"),
        },
        Action::StageCandidate {
            recipe: Recipe::Begin { unreadable: begin },
        },
    ];
    vec![repair, restore, create, undo]
}

/// Every JSON pointer into `value`.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(map) => {
            for (key, item) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(item, &format!("{at}/{key}"), all);
            }
        }
        Value::Array(list) => {
            for (i, item) in list.iter().enumerate() {
                pointers(item, &format!("{at}/{i}"), all);
            }
        }
        _ => {}
    }
}

/// Other values for one field.
fn others(value: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    match value {
        Value::Null => all.extend(["", "null", "x"].map(Value::from)),
        Value::Bool(b) => all.push((!b).into()),
        Value::Number(n) => {
            for n in [n.as_u64().unwrap() + 1, 0, (1 << 53) - 1, (1 << 53) - 2] {
                all.push(n.into());
            }
        }
        Value::String(s) => {
            all.push(Value::Null);
            // Numbers that a double can't tell apart.
            for n in [
                (1 << 53) - 1,
                1 << 53,
                (1 << 53) + 1,
                u64::MAX - 1,
                u64::MAX,
            ] {
                all.push(n.to_string().into());
            }
            for more in [
                "\u{0}",
                "\n",
                "\t",
                "1",
                "-",
                " ",
                "0",
                "e\u{301}",
                "\u{e9}",
                "\u{1f600}",
                "\"",
            ] {
                all.push(format!("{s}{more}").into());
                all.push(format!("{more}{s}").into());
            }
            let mut cut = s.clone();
            cut.pop();
            all.push(cut.into());
            all.push(s.to_uppercase().into());
            for kind in [
                "repair",
                "fix",
                "undo",
                "backup",
                "mirror",
                "named",
                "lexical-index",
                "capture-missing",
            ] {
                all.push(kind.into());
            }
        }
        Value::Array(list) => {
            if let Some(first) = list.first() {
                let mut longer = list.clone();
                longer.push(first.clone());
                all.push(longer.into());
                all.push(list[1..].to_vec().into());
                let mut turned = list.clone();
                turned.reverse();
                all.push(turned.into());
            }
        }
        Value::Object(map) => {
            let mut more = map.clone();
            more.insert("\u{10000}".to_owned(), "x".into());
            all.push(more.into());
            for key in map.keys() {
                let mut less = map.clone();
                let taken = less.remove(key).unwrap();
                all.push(less.clone().into());
                less.insert(format!("{key}\u{301}"), taken);
                all.push(less.into());
            }
        }
    }
    all
}

#[test]
fn two_thousand_bodies_that_differ_in_one_field_have_as_many_fingerprints() {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut fields = BTreeSet::new();
    let mut bodies_seen = BTreeSet::new();
    for body in bodies() {
        let value = serde_json::to_value(&body).unwrap();
        let mut variants = vec![("itself".to_owned(), body.clone())];
        let mut all = Vec::new();
        pointers(&value, "", &mut all);
        for pointer in all {
            for other in others(value.pointer(&pointer).unwrap()) {
                let mut changed = value.clone();
                *changed.pointer_mut(&pointer).unwrap() = other;
                // What is no body can't be planned.
                if let Ok(changed) = serde_json::from_value::<Body>(changed) {
                    fields.insert(pointer.clone());
                    variants.push((pointer.clone(), changed));
                }
            }
        }
        for (pointer, body) in variants {
            let canonical = serde_json::to_string(&body).unwrap();
            if !bodies_seen.insert(canonical) {
                continue;
            }
            match Fingerprint::of(&body) {
                Ok(fp) => {
                    let twin = seen.insert(fp.to_string(), pointer.clone());
                    assert_eq!(twin, None, "{pointer} is not covered: {fp}");
                }
                // Only the version of the form is a number at all.
                Err(_) => assert_eq!(pointer, "/format"),
            }
        }
    }
    println!("{} bodies, {} fields", seen.len(), fields.len());
    assert!(seen.len() >= 2000, "{}", seen.len());
    assert!(fields.len() >= 100, "{}", fields.len());
}

/// JSON with white space, keys in the opposite order, and every letter escaped that may be.
fn strangely(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            out.push_str("{ ");
            for (i, (key, item)) in map.iter().rev().enumerate() {
                if i > 0 {
                    out.push_str(" ,\n");
                }
                strangely(&Value::String(key.clone()), out);
                out.push_str("\t: ");
                strangely(item, out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push_str("[ ");
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push_str(" , ");
                }
                strangely(item, out);
            }
            out.push(']');
        }
        Value::String(s) => {
            out.push('"');
            for unit in s.encode_utf16() {
                out.push_str(&format!("\\u{unit:04X}"));
            }
            out.push('"');
        }
        other => out.push_str(&other.to_string()),
    }
}

#[test]
fn one_body_has_one_fingerprint_however_it_is_written() {
    for body in bodies() {
        let fp = Fingerprint::of(&body).unwrap();
        let value = serde_json::to_value(&body).unwrap();
        let mut text = String::new();
        strangely(&value, &mut text);
        let read: Body = serde_json::from_str(&text).unwrap();
        assert_eq!(read, body);
        assert_eq!(Fingerprint::of(&read).unwrap(), fp);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(Fingerprint::of_covered(&value).unwrap(), fp);
        for _ in 0..100 {
            assert_eq!(Fingerprint::of(&body).unwrap(), fp);
        }
    }
}

#[test]
fn text_does_not_wander_from_one_field_to_the_next() {
    let of = |name: &str, blake3: &str| {
        let mut body = Body::new(PlanKind::Repair, ArchiveState::Never);
        body.inputs.push(FileState {
            name: name.to_owned(),
            len: Count(1),
            blake3: blake3.to_owned(),
        });
        Fingerprint::of(&body).unwrap()
    };
    assert_ne!(of("ab", "c"), of("a", "bc"));
    assert_ne!(of("a\",\"len\":\"2", "c"), of("a", "c"));
    // A list by its digest: two entries, or one that holds both.
    let missing = |ids: &[&str]| {
        let all: Vec<Missing> = ids
            .iter()
            .map(|id| Missing {
                conversation: (*id).to_owned(),
                provider: None,
                native_id: None,
                records: Count(1),
                reason: MissingReason::CaptureMissing,
            })
            .collect();
        Listed::of(&all)
    };
    assert_ne!(missing(&["a", "b"]).digest, missing(&["a\nb"]).digest);
    // Beyond what is shown, everything still counts.
    let many: Vec<String> = (0..40).map(|i| format!("c{i:03}")).collect();
    let mut names: Vec<&str> = many.iter().map(String::as_str).collect();
    let all = missing(&names);
    names[39] = "c999";
    let other = missing(&names);
    assert_eq!(all.first, other.first);
    assert_ne!(all, other);
}
