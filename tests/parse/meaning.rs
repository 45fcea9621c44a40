//! What records say: roles, kinds, titles, sessions, and messages that are held once.

use std::path::Path;

use cass::ingest::parse::{SourceName, decoded, open};
use cass::model::provider::Provider;
use cass::model::record::{Disposition, Facts, MessageKind, Role};

use crate::support::*;

type Said = (Role, MessageKind, String);

fn said(provider: Provider, lines: &[&str]) -> Vec<Said> {
    let text = lines.join("\n") + "\n";
    let pieces = parse_as(provider, text.as_bytes());
    messages(&pieces)
        .into_iter()
        .map(|m| (m.role, m.kind, m.text.clone()))
        .collect()
}

fn facts(pieces: &[cass::model::record::Piece]) -> Facts {
    let mut out = Facts::default();
    for r in records(pieces) {
        let f = r.facts.clone();
        out.title = f.title.or(out.title);
        out.workspace = f.workspace.or(out.workspace);
        out.parent_session = f.parent_session.or(out.parent_session);
        out.harness_version = f.harness_version.or(out.harness_version);
    }
    out
}

#[test]
fn claude_injected_text_is_not_the_person() {
    let all = said(
        Provider::Claude,
        &[
            r#"{"type":"user","message":{"content":"mine"}}"#,
            r#"{"type":"user","isMeta":true,"message":{"content":"reminder"}}"#,
            r#"{"type":"user","isCompactSummary":true,"message":{"content":"so far"}}"#,
            r#"{"type":"user","message":{"content":[{"type":"text","text":"<command-name>/x</command-name>"},{"type":"text","text":"<b>mine</b>"}]}}"#,
            r#"{"type":"queue-operation","operation":"enqueue","content":"later"}"#,
            r#"{"type":"attachment","attachment":{"type":"queued_command","prompt":"now"}}"#,
            r#"{"type":"system","subtype":"away_summary","content":"while away"}"#,
            r#"{"type":"system","subtype":"informational","content":"note"}"#,
        ],
    );
    let expected = [
        (Role::User, MessageKind::Text, "mine"),
        (Role::Meta, MessageKind::Text, "reminder"),
        (Role::Meta, MessageKind::Summary, "so far"),
        (
            Role::Meta,
            MessageKind::Text,
            "<command-name>/x</command-name>",
        ),
        (Role::User, MessageKind::Text, "<b>mine</b>"),
        (Role::Meta, MessageKind::Text, "later"),
        (Role::User, MessageKind::Text, "now"),
        (Role::System, MessageKind::Summary, "while away"),
        (Role::System, MessageKind::Text, "note"),
    ];
    let expected: Vec<Said> = expected
        .iter()
        .map(|(r, k, t)| (*r, *k, (*t).to_owned()))
        .collect();
    assert_eq!(all, expected);
}

#[test]
fn claude_calls_results_and_attachments_keep_what_pairs_them() {
    let text = r#"{"type":"assistant","uuid":"u","parentUuid":"p","timestamp":"2026-01-01T00:00:00.5Z","message":{"model":"m-1","content":[{"type":"thinking","thinking":"hm","signature":"AAAA"},{"type":"thinking","thinking":"","signature":"AAAA"},{"type":"tool_use","id":"t1","name":"Read","input":{"a": "\u00fc"}}]}}
{"type":"user","toolUseResult":{"huge":"copy"},"message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true,"content":[{"type":"text","text":"one"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGVsbG8="}},{"type":"text","text":"two"}]}]}}
"#;
    let pieces = parse_as(Provider::Claude, text.as_bytes());
    let all = messages(&pieces);
    assert_eq!(all.len(), 4);
    assert_eq!((all[0].kind, &*all[0].text), (MessageKind::Reasoning, "hm"));
    assert_eq!(all[1].tool_name.as_deref(), Some("Read"));
    assert_eq!(all[1].call_id.as_deref(), Some("t1"));
    assert_eq!(all[1].model.as_deref(), Some("m-1"));
    assert_eq!(all[1].text, r#"{"a": "\u00fc"}"#);
    assert_eq!((all[2].role, all[2].is_error), (Role::Tool, Some(true)));
    assert_eq!(all[2].text, "one\ntwo");
    assert_eq!(all[2].call_id.as_deref(), Some("t1"));
    let hash = blake3::hash(b"hello");
    assert_eq!(all[3].text, format!("[image/png, 5 bytes, blake3 {hash}]"));
    let first = records(&pieces)[0];
    assert_eq!(first.native_id.as_deref(), Some("u"));
    assert_eq!(first.native_parent.as_deref(), Some("p"));
    assert_eq!(first.time_ms, Some(1_767_225_600_500));
}

#[test]
fn no_payload_and_no_signature_reaches_a_message() {
    for s in samples() {
        for m in messages(&parse(s.provider, &s.path, &s.bytes)) {
            let longest = m
                .text
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '+' && c != '/')
                .map(str::len)
                .max();
            assert!(longest.unwrap_or(0) < 2000, "{}: {:?}", s.name, m.kind);
        }
    }
}

#[test]
fn claude_facts_and_titles() {
    let s = sample("claude/agent-sessions/small.jsonl");
    let pieces = parse(s.provider, &s.path, &s.bytes);
    let all = facts(&pieces);
    assert_eq!(all.title.as_deref(), Some("Stage0 small fixture"));
    // A title that a person chose stays; the newest of one rank counts.
    let line = |t: &str, k: &str, v: &str| format!("{{\"type\":\"{t}\",\"{k}\":\"{v}\"}}\n");
    let text = line("summary", "summary", "s1")
        + &line("ai-title", "aiTitle", "a1")
        + &line("summary", "summary", "s2")
        + &line("custom-title", "customTitle", "c1")
        + &line("ai-title", "aiTitle", "a2");
    for (lines, title) in [(1, "s1"), (2, "a1"), (3, "a1"), (4, "c1"), (5, "c1")] {
        let part: String = text.split_inclusive('\n').take(lines).collect();
        let pieces = parse_as(Provider::Claude, part.as_bytes());
        assert_eq!(facts(&pieces).title.as_deref(), Some(title));
    }
    let s = sample("e9f146fa");
    let all = facts(&parse(s.provider, &s.path, &s.bytes));
    assert_eq!(all.workspace.as_deref(), Some("/home/usr/repo/claude-code"));
    assert_eq!(all.harness_version.as_deref(), Some("1.0.95"));
}

#[test]
fn claude_subagents_are_sessions_below_their_parent() {
    let s = sample("subagents/agent-a0ad4f44468bdf20d");
    let parent = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f";
    let pieces = parse(s.provider, &s.path, &s.bytes);
    for r in records(&pieces) {
        assert_eq!(r.session, format!("{parent}/a0ad4f44468bdf20d"));
        assert_eq!(r.facts.parent_session.as_deref(), Some(parent));
    }
    let s = sample("agent-test-hash-123");
    let parent = "5c0375b4-57a5-4f26-b12d-d022ee4e51b7";
    for r in records(&parse(s.provider, &s.path, &s.bytes)) {
        assert_eq!(r.session, format!("{parent}/test-hash-123"));
    }
    // Older: side chains inside the main file stay in its session.
    let s = sample("fe5e1c67");
    let pieces = parse(s.provider, &s.path, &s.bytes);
    assert!(records(&pieces).iter().all(|r| s.name.contains(&r.session)));
}

#[test]
fn two_sessions_in_one_file_stay_two() {
    let s = sample("e9f146fa");
    let pieces = parse(s.provider, &s.path, &s.bytes);
    let of = |id: &str| {
        records(&pieces)
            .iter()
            .filter(|r| r.session.starts_with(id))
            .count()
    };
    assert_eq!((of("e9f146fa"), of("b162b1ae")), (48, 39));
}

const TURN: &str = r#"{"type":"event_msg","payload":{"type":"task_started","turn_id":"1"}}"#;
const NEXT: &str = r#"{"type":"event_msg","payload":{"type":"task_started","turn_id":"2"}}"#;
const ASK: &str = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}}"#;
const ASKED: &str = r#"{"type":"event_msg","payload":{"type":"user_message","message":"go on"}}"#;
const ITEM: &str = r#"{"type":"event_msg","payload":{"type":"item_completed","item":{"type":"UserMessage","id":"i","content":[{"type":"text","text":"go on"}]}}}"#;

fn duplicates(lines: &[&str]) -> Vec<Option<usize>> {
    let text = lines.join("\n") + "\n";
    let pieces = parse_as(Provider::Codex, text.as_bytes());
    let all = records(&pieces);
    all.iter()
        .map(|r| match r.disposition {
            Disposition::DuplicateOf { offset } => {
                all.iter().position(|held| held.span.offset == offset)
            }
            _ => None,
        })
        .collect()
}

#[test]
fn codex_says_it_thrice_and_it_is_held_once_a_turn() {
    assert_eq!(
        duplicates(&[TURN, ASK, ASKED, ITEM]),
        [None, None, Some(1), Some(1)]
    );
    assert_eq!(
        duplicates(&[TURN, ITEM, ASKED, ASK]),
        [None, None, Some(1), Some(1)]
    );
    // The same words in the next turn are new.
    assert_eq!(
        duplicates(&[TURN, ASK, ASKED, NEXT, ASK, ASKED]),
        [None, None, Some(1), None, None, Some(4)]
    );
    // Old versions name no turn: each channel says a message once.
    assert_eq!(
        duplicates(&[ASK, ASKED, ASK, ASKED]),
        [None, Some(0), None, Some(2)]
    );
    // The person and the model may use the same words.
    let answer = ASK.replace("\"user\"", "\"assistant\"");
    assert_eq!(duplicates(&[TURN, ASK, &answer]), [None, None, None]);
}

#[test]
fn codex_blocks_on_one_channel_and_one_text_on_the_other() {
    let parts = r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"go "},{"type":"input_text","text":"on"},{"type":"input_image","image_url":"data:image/png;base64,aGVsbG8="}]}}"#;
    let with_image = r#"{"type":"event_msg","payload":{"type":"user_message","message":"go on","images":["data:image/png;base64,aGVsbG8="]}}"#;
    assert_eq!(duplicates(&[parts, with_image]), [None, Some(0)]);
    assert_eq!(duplicates(&[with_image, parts]), [None, Some(0)]);
    // What only one of them has is kept.
    let all = said(Provider::Codex, &[ASKED, parts]);
    assert_eq!(all.len(), 2);
    assert_eq!(all[1].1, MessageKind::Attachment);
}

#[test]
fn codex_results_are_held_once_a_call_unless_one_says_more() {
    let call = r#"{"type":"response_item","payload":{"type":"function_call","name":"exec","arguments":"{\"cmd\":\"ls\"}","call_id":"c"}}"#;
    let ended = r#"{"type":"event_msg","payload":{"type":"exec_command_end","call_id":"c","aggregated_output":"out","exit_code":3}}"#;
    let output = r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"Output:\nout"}}"#;
    assert_eq!(duplicates(&[call, ended, output]), [None, None, Some(1)]);
    assert_eq!(duplicates(&[call, output, ended]), [None, None, Some(1)]);
    let text = [call, ended].join("\n");
    let pieces = parse_as(Provider::Codex, text.as_bytes());
    let all = messages(&pieces);
    assert_eq!(
        (&*all[0].text, all[0].tool_name.as_deref()),
        (r#"{"cmd":"ls"}"#, Some("exec"))
    );
    assert_eq!((&*all[1].text, all[1].is_error), ("out", Some(true)));
    // The command went on after the model got its first lines.
    let long = ended.replace("\"out\"", &format!("\"{}\"", "more ".repeat(1000)));
    assert_eq!(
        duplicates(&[call, output, &long, output]),
        [None, None, None, Some(2)]
    );
}

#[test]
fn codex_compaction_repeats_nothing() {
    let summary = r#"{"type":"compacted","payload":{"message":"so far","replacement_history":[{"type":"message","role":"user","content":[{"type":"input_text","text":"go on"}]}]}}"#;
    let all = said(Provider::Codex, &[ASK, summary]);
    assert_eq!(all.len(), 2);
    assert_eq!(
        all[1],
        (Role::System, MessageKind::Summary, "so far".to_owned())
    );
    let empty = summary.replace("so far", "");
    assert_eq!(said(Provider::Codex, &[ASK, &empty]).len(), 1);
}

#[test]
fn codex_bare_records_of_old_versions() {
    let lines = [
        r#"{"id":"5973b6c0-94b8-487b-a530-2aeb6098ae0e","timestamp":"2025-05-07T17:24:21.123Z","instructions":null,"git":null}"#,
        r#"{"record_type":"state"}"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}"#,
        r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"AAAA"}"#,
        r#"{"type":"function_call","id":"fc_1","name":"shell","arguments":"{}","call_id":"c1"}"#,
        r#"{"type":"function_call_output","call_id":"c1","output":"{\"output\":\"x\"}"}"#,
    ];
    let text = lines.join("\n");
    let pieces = parse_as(Provider::Codex, text.as_bytes());
    let all = records(&pieces);
    assert!(
        all.iter()
            .all(|r| r.session == "5973b6c0-94b8-487b-a530-2aeb6098ae0e")
    );
    assert_eq!(all[1].record_type, "state");
    assert_eq!(all[4].native_id.as_deref(), Some("fc_1"));
    let kinds: Vec<MessageKind> = messages(&pieces).iter().map(|m| m.kind).collect();
    use MessageKind::{Reasoning, Text, ToolCall, ToolResult};
    assert_eq!(kinds, [Text, Reasoning, ToolCall, ToolResult]);
}

#[test]
fn codex_facts() {
    let s = sample("harness-0.171.0/sessions/2026/11/29");
    let all = facts(&parse(s.provider, &s.path, &s.bytes));
    assert_eq!(all.workspace.as_deref(), Some("/tmp/gen_codex/proj"));
    assert_eq!(all.harness_version.as_deref(), Some("0.171.0"));
    assert_eq!((all.parent_session, all.title), (None, None));
    let fork = r#"{"type":"session_meta","payload":{"id":"b","forked_from_id":"a","cwd":"/b"}}
{"type":"session_meta","payload":{"id":"a","cwd":"/a"}}
{"type":"event_msg","payload":{"type":"thread_name_updated","thread_name":"a name"}}
"#;
    let pieces = parse_as(Provider::Codex, fork.as_bytes());
    assert!(records(&pieces).iter().all(|r| r.session == "b"));
    let all = facts(&pieces);
    assert_eq!(all.parent_session.as_deref(), Some("a"));
    assert_eq!(all.workspace.as_deref(), Some("/b"));
    assert_eq!(all.title.as_deref(), Some("a name"));
    let spawned = r#"{"type":"session_meta","payload":{"id":"c","source":{"subagent":{"thread_spawn":{"parent_thread_id":"p"}}}}}"#;
    let all = facts(&parse_as(Provider::Codex, spawned.as_bytes()));
    assert_eq!(all.parent_session.as_deref(), Some("p"));
}

#[test]
fn compressed_rollouts_are_read_frame_by_frame() {
    let s = sample(".jsonl.zst");
    let pieces = parse(s.provider, &s.path, &s.bytes);
    assert!(records(&pieces).len() > 20);
    assert!(s.name.contains(&records(&pieces)[0].session));
    // The same bytes in several frames, cut inside a line.
    let third = s.bytes.len() / 3;
    let frames: Vec<u8> = [
        &s.bytes[..third],
        &s.bytes[third..2 * third],
        &s.bytes[2 * third..],
    ]
    .iter()
    .flat_map(|part| zstd::encode_all(*part, 3).unwrap())
    .collect();
    let again = |bytes: &[u8]| {
        let content = decoded(&s.path, Box::new(std::io::Cursor::new(bytes.to_vec()))).unwrap();
        let name = SourceName {
            provider: s.provider,
            path: &s.path,
        };
        let mut parser = open(name, content, &s.bytes, None);
        let mut out = Vec::new();
        loop {
            match parser.next() {
                Ok(Some(piece)) => out.push(piece),
                Ok(None) => return (out, true),
                Err(_) => return (out, false),
            }
        }
    };
    assert_eq!(again(&frames), (pieces.clone(), true));
    // Cut short: what was whole is there, and the end is an error, not an end.
    let (part, ended) = again(&frames[..frames.len() - 10]);
    assert!(!ended);
    assert!(part.len() > 4);
    assert_eq!(part[..], pieces[..part.len()]);
    // A plain name is read as it is.
    let plain = decoded(
        Path::new("/s/x.jsonl"),
        Box::new(std::io::Cursor::new(b"x")),
    )
    .unwrap();
    assert_eq!(std::io::read_to_string(plain).unwrap(), "x");
}
