//! Every sample: tiled, and counted by other means.

use std::collections::BTreeSet;

use cass::model::provider::Provider;
use cass::model::record::{Disposition, MessageKind, Piece, Recovery};
use serde_json::Value;

use crate::support::*;

/// The JSON values of a file, read the plain way: line by line, several on a broken line.
fn values(bytes: &[u8]) -> Vec<Value> {
    let mut out = Vec::new();
    for line in bytes.split(|b| *b == b'\n') {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        for value in serde_json::Deserializer::from_slice(line).into_iter::<Value>() {
            out.push(value.unwrap());
        }
    }
    out
}

/// The samples but the one that holds a line which is no JSON on purpose.
fn sound() -> Vec<Sample> {
    let mut all = samples();
    all.retain(|s| s.name != "pi/agentsview/session.jsonl");
    all
}

#[test]
fn every_sample_is_tiled_and_no_record_is_missing_or_invented() {
    let mut glued = 0;
    for s in sound() {
        let pieces = parse(s.provider, &s.path, &s.bytes);
        let records = records(&pieces);
        let expected = values(&s.bytes);
        assert_eq!(records.len(), expected.len(), "{}", s.name);
        for (record, value) in records.iter().zip(&expected) {
            let raw = slice(&s.bytes, &record.span);
            assert_eq!(
                serde_json::from_slice::<Value>(raw).unwrap(),
                *value,
                "{}",
                s.name
            );
            let uuid = value.get("uuid").and_then(Value::as_str);
            if s.provider == Provider::Claude {
                assert_eq!(record.native_id.as_deref(), uuid, "{}", s.name);
            }
            let kind = value
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default();
            // Others name a kind by more than one field; tests/providers knows them.
            let two = matches!(s.provider, Provider::Claude | Provider::Codex);
            assert!(
                !two || record.record_type.starts_with(kind),
                "{}: {}",
                s.name,
                record.record_type
            );
        }
        assert!(
            pieces.iter().all(|p| !matches!(p, Piece::Skipped { .. })),
            "{}",
            s.name
        );
        glued += records
            .iter()
            .filter(|r| r.recovery == Recovery::Glued)
            .count();
    }
    // Both halves of the two torn-together lines are there; the second half is the glued one.
    assert_eq!(glued, 2);
}

#[test]
fn types_and_times_and_sessions_are_read_in_real_files() {
    for s in sound() {
        let pieces = parse(s.provider, &s.path, &s.bytes);
        for (record, value) in records(&pieces).iter().zip(values(&s.bytes)) {
            let stamp = value.get("timestamp").and_then(Value::as_str);
            if stamp.is_none() && !matches!(s.provider, Provider::Claude | Provider::Codex) {
                // Others have other fields for it; tests/providers knows them.
                continue;
            }
            let expected = stamp.and_then(|t| t.parse::<jiff::Timestamp>().ok());
            let expected = expected.map(jiff::Timestamp::as_millisecond);
            assert_eq!(record.time_ms, expected, "{} {stamp:?}", s.name);
            if s.provider == Provider::Claude && !s.name.contains("agent-") {
                let own = value.get("sessionId").and_then(Value::as_str);
                if let Some(own) = own {
                    assert!(record.session.starts_with(own), "{}", s.name);
                }
            }
        }
    }
}

/// Blocks of a Claude record by plain walking: text, reasoning, call, result, attachment.
fn claude_blocks(value: &Value, n: &mut [usize; 5]) {
    let kind = value["type"].as_str().unwrap_or_default();
    let content = match kind {
        "user" | "assistant" => &value["message"]["content"],
        "system" | "queue-operation" => &value["content"],
        "attachment" if value["attachment"]["type"] == "queued_command" => {
            &value["attachment"]["prompt"]
        }
        _ => return,
    };
    let some = |v: &Value| v.as_str().is_some_and(|t| !t.is_empty());
    if some(content) {
        n[0] += 1;
    }
    for block in content.as_array().into_iter().flatten() {
        match block["type"].as_str() {
            None => n[0] += usize::from(some(block)),
            Some("text") => n[0] += usize::from(some(&block["text"])),
            Some("thinking") => n[1] += usize::from(some(&block["thinking"])),
            Some("tool_use") => n[2] += 1,
            Some("tool_result") => {
                n[3] += 1;
                for inner in block["content"].as_array().into_iter().flatten() {
                    n[4] += usize::from(inner["type"] == "image");
                }
            }
            Some("image" | "document") => n[4] += 1,
            _ => {}
        }
    }
}

fn kinds(pieces: &[Piece]) -> [usize; 5] {
    [
        count(pieces, MessageKind::Text) + count(pieces, MessageKind::Summary),
        count(pieces, MessageKind::Reasoning),
        count(pieces, MessageKind::ToolCall),
        count(pieces, MessageKind::ToolResult),
        count(pieces, MessageKind::Attachment),
    ]
}

#[test]
fn claude_messages_are_the_blocks_that_are_there() {
    let mut total = [0; 5];
    for s in samples().iter().filter(|s| s.provider == Provider::Claude) {
        let pieces = parse(s.provider, &s.path, &s.bytes);
        let mut expected = [0; 5];
        values(&s.bytes)
            .iter()
            .for_each(|v| claude_blocks(v, &mut expected));
        assert_eq!(kinds(&pieces), expected, "{}", s.name);
        let doubles = records(&pieces)
            .iter()
            .any(|r| matches!(r.disposition, Disposition::DuplicateOf { .. }));
        assert!(!doubles, "{}", s.name);
        total.iter_mut().zip(expected).for_each(|(t, e)| *t += e);
    }
    // The samples are no accident: thousands of blocks of every kind.
    assert!(
        total[2] >= 730 && total[3] >= 728 && total[1] > 100 && total[4] >= 2,
        "{total:?}"
    );
}

#[test]
fn codex_messages_are_held_once() {
    for s in samples().iter().filter(|s| s.provider == Provider::Codex) {
        if s.name.contains("agent-sessions/small") {
            continue; // Its texts and ids are all the same placeholder.
        }
        let pieces = parse(s.provider, &s.path, &s.bytes);
        let mut n = [0; 5];
        let (mut calls, mut results) = (BTreeSet::new(), BTreeSet::new());
        for v in values(&s.bytes) {
            let p = &v["payload"];
            let kind = p["type"].as_str().unwrap_or_default();
            let some = |v: &Value| v.as_str().is_some_and(|t| !t.is_empty());
            match (v["type"].as_str().unwrap(), kind) {
                ("response_item", "message" | "") => {
                    for part in p["content"].as_array().unwrap() {
                        n[0] += usize::from(some(&part["text"]));
                        n[4] += usize::from(part["type"] == "input_image");
                    }
                }
                ("response_item", "reasoning") => {
                    n[1] += p["summary"].as_array().unwrap().len();
                }
                ("response_item", "function_call" | "custom_tool_call") => {
                    calls.insert(p["call_id"].as_str().unwrap().to_owned());
                }
                ("response_item", "web_search_call") => n[2] += 1,
                (_, k)
                    if k != "web_search_end"
                        && (k.ends_with("_call_output") || k.ends_with("_end")) =>
                {
                    results.insert(p["call_id"].as_str().unwrap().to_owned());
                }
                ("event_msg", "item_completed") if p["item"]["type"] == "CommandExecution" => {
                    results.insert(p["item"]["id"].as_str().unwrap().to_owned());
                }
                ("event_msg", "error") => n[0] += usize::from(some(&p["message"])),
                _ => {}
            }
        }
        n[2] += calls.len();
        n[3] += results.len();
        assert_eq!(kinds(&pieces), n, "{}", s.name);
    }
}

#[test]
fn nothing_in_real_files_is_of_an_unknown_type() {
    let mut unknown = BTreeSet::new();
    for s in samples() {
        for r in records(&parse(s.provider, &s.path, &s.bytes)) {
            if r.disposition == Disposition::Unknown {
                unknown.insert(r.record_type.clone());
            }
        }
    }
    // Made-up shapes of two fixtures (no type, no object, `message` that is a text, a type of the
    // future), and one type nobody has described.
    let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
    assert_eq!(
        unknown,
        ["", "atis-latch", "unknown_future_entry_type", "user"]
    );
}

#[test]
fn older_parts_of_a_session_are_prefixes_of_newer_ones() {
    for (old, new) in [
        ("cc432c40/t1", "cc432c40/t3"),
        ("cc432c40/t3", "cc432c40/t5"),
    ] {
        let (old, new) = (sample(old), sample(new));
        let a = parse(old.provider, &old.path, &old.bytes);
        let b = parse(new.provider, &new.path, &new.bytes);
        assert!(a.len() > 10);
        assert_eq!(a[..], b[..a.len()]);
    }
}
