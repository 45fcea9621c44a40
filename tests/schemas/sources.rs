//! The sessions that a frozen data directory is made of. Every text of the written ones begins with a
//! word of its own, `tok9x` and a number, by which it is found again.

use super::sandbox::sample;

pub const CLAUDE: &str = ".claude/projects/-src-harbour/99999999-0000-4000-8000-000000000001.jsonl";
pub const FORK: &str = ".claude/projects/-src-harbour/99999999-0000-4000-8000-00000000000f.jsonl";
pub const LATE: &str = ".claude/projects/-src-harbour/99999999-0000-4000-8000-000000000002.jsonl";
pub const CODEX: &str = ".codex/sessions/2026/06/01/rollout-2026-06-01T10-00-00-99999999-0000-4000-8000-000000000003.jsonl";
pub const CURSOR: &str = ".config/Cursor/User/globalStorage/state.vscdb";
pub const GEMINI: &str = ".gemini/tmp/b/chats/session-large.json";

/// A session that comes later.
pub const NEW: &str = ".claude/projects/-src-harbour/99999999-0000-4000-8000-000000000004.jsonl";

/// How far a session of Claude Code has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Six records and a line that is none.
    Begun,
    /// Eleven records: several parts, a text of several pages.
    Grown,
    /// The second record says something else.
    Rewritten,
}

fn record(session: u32, n: u32, parent: u32, kind: &str, content: &str) -> String {
    let uuid = |n: u32| format!("00000000-0000-4000-9{session:03x}-{n:012x}");
    let parent = match parent {
        0 => "null".to_owned(),
        n => format!("\"{}\"", uuid(n)),
    };
    format!(
        "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\"cwd\":\"/src/harbour\",\"sessionId\":\"99999999-0000-4000-8000-{session:012}\",\"version\":\"2.1.0\",\"type\":\"{kind}\",\"message\":{{\"role\":\"{kind}\",\"model\":\"model-1\",\"content\":{content}}},\"uuid\":\"{}\",\"timestamp\":\"2026-06-01T10:00:{:02}.000Z\"}}\n",
        uuid(n),
        n % 60
    )
}

fn said(session: u32, n: u32) -> String {
    let (kind, words) = match n % 2 {
        1 => ("user", "when does the ferry leave the harbour?"),
        _ => ("assistant", "at ten, when the tide is high enough"),
    };
    let text = format!("\"tok9x{:05} {words}\"", session * 100 + n);
    record(session, n, n - 1, kind, &text)
}

/// Session 1 of Claude Code.
pub fn claude(stage: Stage) -> Vec<u8> {
    let mut text: String = (1..=6).map(|n| said(1, n)).collect();
    if stage >= Stage::Rewritten {
        let other = record(1, 2, 1, "assistant", "\"tok9x00190 at eleven, rather\"");
        text = text.replace(&said(1, 2), &other);
    }
    text.push_str("the disk was full here\n");
    if stage >= Stage::Grown {
        let long = "and the mast, ".repeat(700);
        text.push_str(&record(
            1,
            7,
            6,
            "assistant",
            "[{\"type\":\"thinking\",\"thinking\":\"tok9x00170 let me look\"},\
             {\"type\":\"text\",\"text\":\"tok9x00171 I look at the table\"},\
             {\"type\":\"tool_use\",\"id\":\"call-1\",\"name\":\"Bash\",\"input\":{\"command\":\"cat tides\"}}]",
        ));
        text.push_str(&record(
            1,
            8,
            7,
            "user",
            &format!(
                "[{{\"type\":\"tool_result\",\"tool_use_id\":\"call-1\",\"content\":\"tok9x00180 {long}\"}}]"
            ),
        ));
        text.extend((9..=11).map(|n| said(1, n)));
    }
    text.into_bytes()
}

/// What is appended to it later.
pub fn two_more() -> Vec<u8> {
    (12..=13).map(|n| said(1, n)).collect::<String>().into()
}

/// Session 4, of which no frozen data directory knows.
pub fn new() -> Vec<u8> {
    (1..=3).map(|n| said(4, n)).collect::<String>().into()
}

/// The same session in another file, which went another way behind its fourth record.
pub fn fork() -> Vec<u8> {
    let mut text: String = (1..=4).map(|n| said(1, n)).collect();
    text.push_str(&record(1, 54, 4, "user", "\"tok9x00154 or by train?\""));
    text.push_str(&record(1, 55, 54, "assistant", "\"tok9x00155 at nine\""));
    text.into_bytes()
}

/// Session 2 of Claude Code.
pub fn late(records: u32) -> Vec<u8> {
    let said = (1..=records).map(|n| said(2, n));
    said.collect::<String>().into()
}

/// Session 3, of Codex.
pub fn codex(turns: u32) -> Vec<u8> {
    let line = |n: u32, kind: &str, payload: &str| {
        format!(
            "{{\"timestamp\":\"2026-06-01T10:00:{n:02}.000Z\",\"type\":\"{kind}\",\"payload\":{payload}}}\n"
        )
    };
    let mut text = line(
        0,
        "session_meta",
        "{\"id\":\"99999999-0000-4000-8000-000000000003\",\"timestamp\":\"2026-06-01T10:00:00.000Z\",\"cwd\":\"/src/harbour\",\"originator\":\"codex_cli_rs\",\"cli_version\":\"0.80.0\",\"source\":\"cli\"}",
    );
    for turn in 0..turns {
        let n = 300 + turn * 2;
        for (n, role, part) in [
            (n, "user", "input_text"),
            (n + 1, "assistant", "output_text"),
        ] {
            let payload = format!(
                "{{\"type\":\"message\",\"role\":\"{role}\",\"content\":[{{\"type\":\"{part}\",\"text\":\"tok9x{n:05} about the lighthouse\"}}]}}"
            );
            text.push_str(&line(1 + n - 300, "response_item", &payload));
        }
    }
    text.into_bytes()
}

/// A database of Cursor and a document of Gemini CLI, from the shipped sessions.
pub fn shipped() -> [(&'static str, Vec<u8>); 2] {
    [
        (
            CURSOR,
            sample("cursor/S2thend-cursor-history/composer-global-state.vscdb"),
        ),
        (GEMINI, sample("gemini/agent-sessions/large.json")),
    ]
}
