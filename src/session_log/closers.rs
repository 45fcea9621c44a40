//! The events that close an interrupted turn. They follow from what was open, so a reader can make
//! them again and know them when it meets them.

use super::calls::{Calls, ResultParts};
use super::event::Event;
use super::json::{self, Object};
use super::replay::State;

/// Compared byte for byte by the harness's own conversion.
const NOT_STARTED_TEXT: &str = "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed.";
const UNKNOWN_TEXT: &str = "This call was recorded as started and then cut off; nothing says how it ended. Look at the real state before doing it again.";
const ID: &[u8] = b"interrupted-tool-result-";

/// One event that closes a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closer {
    /// Its type.
    pub kind: &'static str,
    /// Its number.
    pub seq: u64,
    /// Its row, without newline.
    pub row: Vec<u8>,
}

/// What closes the turn that is open in `state`; nothing where none is.
pub(super) fn closers(state: &State) -> Vec<Closer> {
    let Some(turn) = state.turn else {
        return Vec::new();
    };
    let time = state.time;
    let mut out = Vec::new();
    let mut push = |kind: &'static str, row: Vec<u8>| {
        let seq = state.count + out.len() as u64;
        out.push(Closer { kind, seq, row });
        seq + 1
    };
    let mut next = state.count;
    if let Some(step) = state.step {
        for row in results(&state.calls, state.version, (turn, step), (next, time)) {
            next = push("tool/result", row);
        }
        let row = format!(
            r#"{{"type":"step/end","seq":{next},"time":{time},"data":{{"turn":{turn},"step":{step}}}}}"#
        );
        next = push("step/end", row.into_bytes());
    }
    let row = format!(
        r#"{{"type":"turn/end","seq":{next},"time":{time},"data":{{"turn":{turn},"reason":{{"kind":"interrupted"}}}}}}"#
    );
    push("turn/end", row.into_bytes());
    out
}

fn results(
    calls: &Calls,
    version: u64,
    (turn, step): (u64, u64),
    (first, time): (u64, i64),
) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for (seq, call) in (first..).zip(calls.pending()) {
        let id = &call.spelled;
        let (name, code, text) = match call.started {
            Some(_) => (
                "ToolOutcomeUnknownError",
                "TOOL_OUTCOME_UNKNOWN",
                UNKNOWN_TEXT,
            ),
            None => ("ToolNotStartedError", "TOOL_NOT_STARTED", NOT_STARTED_TEXT),
        };
        let text = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
        let mut row = Vec::new();
        let mut put = |bytes: &[u8]| row.extend_from_slice(bytes);
        put(format!(r#"{{"type":"tool/result","seq":{seq},"time":{time},"data":{{"turn":{turn},"step":{step},"message":{{"id":""#).as_bytes());
        put(ID);
        put(id);
        let role = if version >= 4 { "tool" } else { "user" };
        put(format!(r#"-{seq}","role":"{role}","source":{{"kind":"tool","callId":""#).as_bytes());
        put(id);
        if version >= 4 {
            put(br#""},"toolCallId":""#);
            put(id);
            put(format!(r#"","content":{text},"isError":true}}"#).as_bytes());
        } else {
            put(br#""},"content":[{"type":"tool-result","toolCallId":""#);
            put(id);
            put(format!(r#"","isError":true,"content":{text}}}]}}"#).as_bytes());
        }
        put(
            format!(r#","error":{{"name":"{name}","code":"{code}"}}}},"surfaceOp":"append""#)
                .as_bytes(),
        );
        if let Some(started) = call.started {
            put(format!(r#","sourceEventSeqs":[{started}]"#).as_bytes());
        }
        put(b"}");
        out.push(row);
    }
    out
}

/// Whether an event is what a closer says: everything but the time and the text of a result.
pub(super) fn matches(event: &Event<'_>, closer: &Closer, version: u64) -> bool {
    if event.seq != closer.seq || *event.kind != *closer.kind.as_bytes() {
        return false;
    }
    let super::event::Row::Event(own) = super::event::decode(&closer.row, version) else {
        return false;
    };
    if closer.kind != "tool/result" {
        return event.canonical() == own.canonical();
    }
    let plain = without_text(event, version);
    plain.is_some() && plain == without_text(&own, version)
}

/// What is compared of a result.
#[derive(Debug, PartialEq, Eq)]
struct Plain {
    place: (Option<u64>, Option<u64>),
    ids: [Vec<u8>; 3],
    failed: bool,
    error: (Option<Vec<u8>>, Option<Vec<u8>>),
    sources: Option<Vec<(u64, u64)>>,
    appended: bool,
}

fn without_text(event: &Event<'_>, version: u64) -> Option<Plain> {
    let data = event.object.as_ref()?;
    let parts = ResultParts::read(data, version).ok()?;
    let error = parts.error.as_ref()?;
    let owned = |key: &str| error.text(key).map(std::borrow::Cow::into_owned);
    Some(Plain {
        place: (data.count("turn"), data.count("step")),
        ids: [
            parts.message_id.into_owned(),
            parts.source_id.into_owned(),
            parts.block_id.into_owned(),
        ],
        failed: parts.failed,
        error: (owned("name"), owned("code")),
        sources: match event.sources {
            None => None,
            Some(list) => Some(super::event::runs(list)?),
        },
        appended: json::is_text(event.operation, "append"),
    })
}

/// Whether a result is the one that says that a call was never started.
pub(super) fn is_not_started(
    event: &Event<'_>,
    version: u64,
    result: &ResultParts<'_>,
    call_id: &[u8],
) -> bool {
    let coded = result
        .error
        .as_ref()
        .is_some_and(|e| json::is_text(e.get("code"), "TOOL_NOT_STARTED"));
    let numbered = result
        .message_id
        .strip_prefix(ID)
        .and_then(|rest| rest.strip_prefix(call_id))
        .and_then(|rest| rest.strip_prefix(b"-"))
        .and_then(|n| std::str::from_utf8(n).ok()?.parse::<u64>().ok())
        .is_some_and(|n| {
            if version >= 3 {
                n <= event.seq
            } else {
                n == event.seq
            }
        });
    let told = result
        .content
        .and_then(json::elements)
        .and_then(|blocks| Object::within(blocks.first()?))
        .is_some_and(|block| json::is_text(block.get("text"), NOT_STARTED_TEXT));
    // Later versions do not compare the text.
    coded && numbered && (told || version >= 2) && result.failed && event.sources.is_none()
}
