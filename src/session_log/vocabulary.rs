//! The types of events that each version of the format knows.

/// The newest version that is known.
pub(super) const NEWEST: u64 = 4;

/// Since the first version.
const ALWAYS: &[&str] = &[
    "agent-preset/selected",
    "agent/inbox/spliced",
    "approval/asked",
    "approval/decided",
    "approval/policy",
    "assistant/message",
    "command/done",
    "command/run",
    "compaction/end",
    "compaction/prune",
    "compaction/start",
    "compaction/summary",
    "feedback/record",
    "goal/change",
    "hook/invoked",
    "hook/result",
    "llm/retry",
    "llm/retry-started",
    "model/selection",
    "permission/preset",
    "plan/mode",
    "request/context",
    "request/header",
    "sandbox/mode",
    "schedule/change",
    "session-log-deepseek/delivery-accepted",
    "session/end-seed",
    "session/title",
    "session/title-llm-request",
    "step/end",
    "step/start",
    "subagent/descriptor",
    "subagent/model-selection-policy",
    "team/member",
    "team/message/delivered",
    "team/message/queued",
    "team/task",
    "todo/write",
    "tool-workflow/agent-end",
    "tool-workflow/agent-start",
    "tool-workflow/run-end",
    "tool-workflow/run-start",
    "tool/call",
    "tool/result",
    "turn/end",
    "turn/start",
    "user/message",
    "web/deepseek-search-llm-request",
];

/// Types with the first version that has them, and the last.
const SOMETIMES: &[(&str, u64, u64)] = &[
    ("assistant/chunk", 0, 1),
    ("assistant/attempt", 2, NEWEST),
    ("steering/message", 0, 0),
    ("tool/code-dispatch", 0, 2),
    ("tool/code-dispatch-start", 0, 2),
    ("system/message", 3, NEWEST),
    ("feedback/message-put", 3, NEWEST),
    ("feedback/message-delete", 3, NEWEST),
    ("tool/ptc-dispatch", 3, NEWEST),
    ("tool/ptc-dispatch-start", 3, NEWEST),
    ("developer/message", 4, NEWEST),
    ("deliverables/presented", 4, NEWEST),
    ("image/offload", 4, NEWEST),
    ("slots/dispatch", 4, NEWEST),
    ("subagent/catalog", 4, NEWEST),
    ("workspace/changes", 4, NEWEST),
];

/// The first writers' compactions.
const EARLY: &str = "compact/";

/// Rows that hold several pieces of an answer: up to version 1.
pub(super) const PACKED: [&str; 3] = ["reasoning-chunks", "text-chunks", "tool-call-chunks"];

/// Whether any version knows a type of events or packed rows.
#[must_use]
pub fn is_type(kind: &str) -> bool {
    let sometimes = SOMETIMES.iter().map(|(k, _, _)| k);
    ALWAYS
        .iter()
        .chain(sometimes)
        .chain(&PACKED)
        .any(|k| *k == kind)
        || kind.starts_with(EARLY)
}

/// Whether a version knows a type.
pub(super) fn knows(version: u64, kind: &[u8]) -> bool {
    ALWAYS.iter().any(|k| k.as_bytes() == kind)
        || SOMETIMES
            .iter()
            .any(|(k, first, last)| k.as_bytes() == kind && (*first..=*last).contains(&version))
        || version == 0 && kind.starts_with(EARLY.as_bytes())
}

/// The keys that the data of an event may have; `None` where nothing is said of them. The first
/// version passes over others.
pub(super) fn data_keys(version: u64, kind: &[u8]) -> Option<&'static [&'static str]> {
    if version == 0 {
        return None;
    }
    Some(match kind {
        b"turn/start" => &["turn"],
        b"turn/end" => &["turn", "reason"],
        b"step/start" | b"step/end" => &["turn", "step"],
        b"assistant/chunk" => &["turn", "step", "chunk"],
        b"assistant/attempt" => &["turn", "step", "stream"],
        b"assistant/message" if version == 1 => {
            &["turn", "step", "message", "usage", "interrupted"]
        }
        b"assistant/message" => &["turn", "step", "message", "usage", "interrupted", "stream"],
        b"tool/call" => &["turn", "step", "callId", "name", "arguments"],
        b"tool/result" => &["turn", "step", "message", "error", "meta"],
        b"session/end-seed" if version == 1 => &[],
        b"session/end-seed" => &["inherited"],
        _ => return None,
    })
}

/// Whether events of a type are what the model sees.
pub(super) fn is_surface(version: u64, kind: &[u8]) -> bool {
    match kind {
        b"user/message" | b"assistant/message" | b"tool/result" => true,
        b"system/message" => version >= 3,
        b"developer/message" => version >= 4,
        _ => false,
    }
}
