//! Lines made of a harness's own names and of values that it would never write: nothing panics,
//! every byte belongs to one piece, and a log that grows gives what the whole gives.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::Path;

use cass::ingest::parse::{self, Beginning, Container, SourceName};
use cass::model::provider::Provider;
use cass::model::record::Piece;
use proptest::prelude::*;
use serde_json::{Value, json};

// The checks that the fuzz targets run.
#[path = "../../fuzz/checks.rs"]
mod checks;

/// Names of members, of all harnesses whose logs are tried.
const NAMES: &[&str] = &[
    "agentId",
    "agent_id",
    "agents",
    "args",
    "arguments",
    "attachments",
    "callId",
    "compressedHistory",
    "content",
    "context",
    "copilotVersion",
    "customTitle",
    "cwd",
    "data",
    "detailedContent",
    "error",
    "event",
    "finalText",
    "function",
    "functionCall",
    "functionResponse",
    "id",
    "inlineData",
    "input",
    "isError",
    "isSidechain",
    "is_error",
    "kind",
    "message",
    "mimeType",
    "model",
    "name",
    "origin",
    "output",
    "outputHistoryItems",
    "parentId",
    "parentUuid",
    "part",
    "parts",
    "path",
    "payload",
    "rawCommand",
    "reasoningText",
    "response",
    "responseParts",
    "result",
    "resultDisplay",
    "return_value",
    "role",
    "sessionId",
    "sessionTitle",
    "session_id",
    "source",
    "stepUuid",
    "subtype",
    "success",
    "summary",
    "summaryContent",
    "summaryText",
    "systemPayload",
    "text",
    "think",
    "thinking",
    "thought",
    "time",
    "timestamp",
    "title",
    "toolCallId",
    "toolCallResult",
    "toolCalls",
    "toolName",
    "toolRequests",
    "toolUseResult",
    "tool_call_id",
    "tool_calls",
    "tool_use_id",
    "transformedContent",
    "type",
    "url",
    "user_input",
    "uuid",
    "value",
    "version",
];

/// Values of `type`, `role` and the like.
const KINDS: &[&str] = &[
    "ContentPart",
    "SubagentEvent",
    "ToolCall",
    "ToolResult",
    "TurnBegin",
    "abort",
    "assistant",
    "assistant.message",
    "assistant.reasoning",
    "chat_compression",
    "compaction_state",
    "completion",
    "content.part",
    "context.append_loop_event",
    "context.append_message",
    "context.apply_compaction",
    "custom_title",
    "image",
    "llm.request",
    "message",
    "metadata",
    "profile.bind",
    "session.compaction_complete",
    "session.error",
    "session.resume",
    "session.start",
    "session_start",
    "slash_command",
    "step.begin",
    "system",
    "text",
    "think",
    "tool",
    "tool.call",
    "tool.execution_complete",
    "tool.execution_start",
    "tool.result",
    "tool_call",
    "tool_result",
    "tool_use",
    "turn.prompt",
    "turn.steer",
    "user",
    "user.message",
];

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(|n| json!(n)),
        4 => prop::sample::select(KINDS).prop_map(Value::from),
        2 => prop::sample::select(vec![
            "", "a", "b", "../../x", "2026-01-01T00:00:00Z", "9999-99-99T99:99:99Z", "user", "main",
            "{\"a\":", "data:image/png;base64,AAAA", "<system-reminder>x</system-reminder>", "\u{2028}",
            "\u{0}\\\"\n", "ü\u{1f600}",
        ]).prop_map(Value::from),
        1 => ".{0,12}".prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            3 => object(inner),
        ]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    prop::collection::vec((prop::sample::select(NAMES), inner), 0..6)
        .prop_map(|members| {
            members
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<serde_json::Map<_, _>>()
        })
        .prop_map(Value::Object)
}

/// A line that is a record by its outside.
fn record() -> impl Strategy<Value = String> {
    (
        prop::sample::select(KINDS),
        value(),
        value(),
        value(),
        value(),
        value(),
    )
        .prop_map(|(kind, data, message, payload, rest, id)| {
            let mut line = json!({"type": kind, "data": data, "message": message, "event": payload,
                "systemPayload": payload, "uuid": id, "id": id, "sessionId": "s",
                "timestamp": "2026-01-01T00:00:00Z", "input": data, "content": message});
            if let (Some(line), Some(rest)) = (line.as_object_mut(), rest.as_object()) {
                line.extend(rest.clone());
            }
            line.to_string()
        })
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => record(),
        1 => value().prop_map(|v| v.to_string()),
        1 => record().prop_map(|l| l.chars().take(l.chars().count() / 2).collect()),
        1 => Just("\0\0\0".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn lines_of_own_names(lines in prop::collection::vec(line(), 1..8), ends in "\n|\r\n|") {
        let bytes = lines.join("\n") + &ends;
        for provider in [
            Provider::Copilot,
            Provider::Droid,
            Provider::Iflow,
            Provider::Kimi,
            Provider::Qwen,
        ] {
            checks::provider(provider, bytes.as_bytes());
        }
    }
}

/// Reads a source with what lies beside it; its pieces must tile it.
fn read(provider: Provider, path: &str, bytes: &[u8], beside: &[(&str, &[u8])]) {
    let name = SourceName {
        provider,
        path: Path::new(path),
    };
    let siblings: BTreeMap<_, _> = parse::siblings(name, bytes)
        .into_iter()
        .filter_map(|p| {
            let (_, bytes) = beside.iter().find(|(end, _)| p.ends_with(end))?;
            Some((p, bytes.to_vec()))
        })
        .collect();
    let method = parse::method(
        &Beginning {
            name,
            head: bytes,
            siblings: &siblings,
        },
        None,
    );
    let mut end = 0;
    let mut each = |piece: Piece| {
        let span = match piece {
            Piece::Record(r) => r.span,
            Piece::Separator(span) | Piece::Skipped { span, .. } => span,
        };
        assert_eq!(span.offset, end, "gap or overlap");
        end = span.end();
        Ok(())
    };
    let (result, _) = match method.container() {
        Container::Document => {
            parse::document(name, method, &mut Cursor::new(bytes.to_vec()), &mut each)
        }
        _ => parse::log(name, method, Box::new(bytes), None, &mut each),
    };
    result.unwrap();
    assert_eq!(end, bytes.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn documents_and_files_beside(
        rows in prop::collection::vec(value(), 0..5),
        other in value(),
        cut in 0.0..1.0f64,
    ) {
        for member in ["chatMessages", "messages"] {
            let whole = json!({"sessionId": other, "startTime": other, member: rows, "x": other});
            let whole = whole.to_string();
            let mut at = (whole.len() as f64 * cut) as usize;
            while !whole.is_char_boundary(at) {
                at -= 1;
            }
            for bytes in [&whole[..], &whole[..at]] {
                let bytes = bytes.as_bytes();
                read(Provider::Copilot, "/h/session_x_1.json", bytes, &[]);
                read(Provider::Qwen, "/tmp/a/chats/session-1.json", bytes, &[]);
            }
        }
        let state = json!({"title": other, "workDir": other, "agents": {"a": other}, "x": rows});
        let (state, log) = (state.to_string(), format!("{other}\n"));
        let lines: String = rows.iter().map(|r| format!("{r}\n")).collect();
        let beside: &[(&str, &[u8])] = &[
            ("state.json", state.as_bytes()),
            ("wire.jsonl", log.as_bytes()),
            ("workspace.yaml", state.as_bytes()),
        ];
        for path in ["/k/s/agents/a/wire.jsonl", "/k/s/context.jsonl", "/wire.jsonl", "context_.jsonl"] {
            read(Provider::Kimi, path, lines.as_bytes(), beside);
        }
        read(Provider::Copilot, "/c/x/events.jsonl", lines.as_bytes(), beside);
    }
}

#[test]
fn samples_that_end_anywhere() {
    let mut seen = 0;
    for provider in [
        Provider::Copilot,
        Provider::Droid,
        Provider::Iflow,
        Provider::Kimi,
        Provider::Qwen,
    ] {
        let folder = crate::sandbox::fixtures().join(provider.as_str());
        for file in crate::sandbox::files_below(&folder) {
            let bytes = std::fs::read(&file).unwrap();
            if file.extension().is_none_or(|e| e != "jsonl") || bytes.len() > 100_000 {
                continue;
            }
            seen += 1;
            for end in (0..bytes.len()).step_by(1 + bytes.len() / 60) {
                checks::provider(provider, &bytes[..end]);
            }
        }
    }
    assert!(seen >= 15, "{seen}");
}

#[test]
fn deep_and_huge_values() {
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let huge = "x".repeat(512 << 10);
    let many = format!(
        "[{}]",
        vec!["{\"type\":\"text\",\"text\":\"a\"}"; 4_000].join(",")
    );
    for value in [
        deep,
        format!("\"{huge}\""),
        many,
        "1e999".to_owned(),
        "123456789012345678901234567890".to_owned(),
    ] {
        for kind in KINDS {
            let line = format!(
                "{{\"type\":\"{kind}\",\"uuid\":\"u\",\"id\":\"i\",\"timestamp\":{value},\
                 \"data\":{{\"content\":{value},\"toolRequests\":{value}}},\
                 \"message\":{{\"role\":\"user\",\"content\":{value},\"parts\":{value}}}}}\n"
            );
            // The long ones only where their texts are read.
            if line.len() > 1 << 16 && !matches!(*kind, "user" | "assistant.message" | "message") {
                continue;
            }
            for provider in [
                Provider::Copilot,
                Provider::Droid,
                Provider::Iflow,
                Provider::Kimi,
                Provider::Qwen,
            ] {
                checks::provider(provider, line.as_bytes());
            }
        }
    }
}
