//! Sessions as the two harnesses write them: real samples, and generated ones of the same shape.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::figures::Rng;

/// Words, so that text has the look and the compressibility of text.
fn prose(rng: &mut Rng, words: u64) -> String {
    const WORDS: [&str; 24] = [
        "the", "archive", "reads", "a", "page", "and", "finds", "that", "nothing", "was", "lost",
        "because", "every", "row", "holds", "its", "own", "hash", "über", "naïve", "日本", "so",
        "again", "done",
    ];
    let mut text = String::new();
    for _ in 0..words {
        text.push_str(WORDS[usize::try_from(rng.below(24)).unwrap()]);
        text.push(' ');
    }
    let _ = write!(text, "{:x}", rng.next());
    text
}

fn uuid(rng: &mut Rng) -> String {
    let (a, b) = (rng.next(), rng.next());
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        (b >> 48) & 0xfff,
        b & 0xffff_ffff_ffff
    )
}

/// One session of Claude Code: `turns` of a question, a tool call with its result, an answer.
pub fn claude(seed: u64, turns: u64) -> (String, String) {
    let mut rng = Rng(seed);
    let session = uuid(&mut rng);
    let mut out = String::new();
    let mut parent = "null".to_owned();
    let mut line = |rng: &mut Rng, n: u64, kind: &str, message: &str| {
        let id = uuid(rng);
        let _ = writeln!(
            out,
            r#"{{"parentUuid":{parent},"isSidechain":false,"userType":"external","cwd":"/src/project","sessionId":"{session}","version":"2.0.1","type":"{kind}","message":{message},"uuid":"{id}","timestamp":"2026-05-01T10:{:02}:{:02}.000Z"}}"#,
            n / 60 % 60,
            n % 60
        );
        parent = format!("\"{id}\"");
    };
    for turn in 0..turns {
        let (long, short) = (5 + rng.below(200), 3 + rng.below(20));
        let text = prose(&mut rng, short);
        line(
            &mut rng,
            turn * 4,
            "user",
            &format!(r#"{{"role":"user","content":"{text}"}}"#),
        );
        let call = format!("toolu_{:016x}", rng.next());
        let text = prose(&mut rng, short);
        line(
            &mut rng,
            turn * 4 + 1,
            "assistant",
            &format!(
                r#"{{"role":"assistant","model":"model-1","content":[{{"type":"text","text":"{text}"}},{{"type":"tool_use","id":"{call}","name":"Bash","input":{{"command":"ls -l"}}}}]}}"#
            ),
        );
        let text = prose(&mut rng, long);
        line(
            &mut rng,
            turn * 4 + 2,
            "user",
            &format!(
                r#"{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"{call}","content":"{text}"}}]}}"#
            ),
        );
        let text = prose(&mut rng, long);
        line(
            &mut rng,
            turn * 4 + 3,
            "assistant",
            &format!(
                r#"{{"role":"assistant","model":"model-1","content":[{{"type":"text","text":"{text}"}}]}}"#
            ),
        );
    }
    (format!(".claude/projects/-src-made/{session}.jsonl"), out)
}

/// One session of Codex.
pub fn codex(seed: u64, turns: u64) -> (String, String) {
    let mut rng = Rng(seed ^ 0xc0de);
    let session = uuid(&mut rng);
    let mut out = String::new();
    let mut line = |n: u64, kind: &str, payload: &str| {
        let _ = writeln!(
            out,
            r#"{{"timestamp":"2026-05-02T11:{:02}:{:02}.000Z","type":"{kind}","payload":{payload}}}"#,
            n / 60 % 60,
            n % 60
        );
    };
    line(
        0,
        "session_meta",
        &format!(
            r#"{{"id":"{session}","timestamp":"2026-05-02T11:00:00.000Z","cwd":"/src/project","originator":"codex_cli_rs","cli_version":"0.80.0","source":"cli"}}"#
        ),
    );
    for turn in 0..turns {
        let (long, short) = (5 + rng.below(150), 3 + rng.below(20));
        let text = prose(&mut rng, short);
        line(
            turn * 4 + 1,
            "response_item",
            &format!(
                r#"{{"type":"message","role":"user","content":[{{"type":"input_text","text":"{text}"}}]}}"#
            ),
        );
        let call = format!("call_{:016x}", rng.next());
        line(
            turn * 4 + 2,
            "response_item",
            &format!(
                r#"{{"type":"function_call","name":"shell","arguments":"{{\"command\":[\"ls\"]}}","call_id":"{call}"}}"#
            ),
        );
        let text = prose(&mut rng, long);
        line(
            turn * 4 + 3,
            "response_item",
            &format!(r#"{{"type":"function_call_output","call_id":"{call}","output":"{text}"}}"#),
        );
        let text = prose(&mut rng, long);
        line(
            turn * 4 + 4,
            "response_item",
            &format!(
                r#"{{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"{text}"}}]}}"#
            ),
        );
    }
    (
        format!(".codex/sessions/2026/05/02/rollout-2026-05-02T11-00-00-{session}.jsonl"),
        out,
    )
}

/// Real sessions, small ones of both harnesses, laid out as their harness does.
pub fn samples() -> Vec<(String, PathBuf)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions");
    let all = [
        (
            "claude/claude-code-log/representative_messages.jsonl",
            ".claude/projects/-src-a/representative_messages.jsonl",
        ),
        (
            "claude/claude-code-log/edge_cases.jsonl",
            ".claude/projects/-src-a/edge_cases.jsonl",
        ),
        (
            "claude/claude-code-log/todowrite_examples.jsonl",
            ".claude/projects/-src-a/todowrite_examples.jsonl",
        ),
        (
            "claude/episodic-memory/short-conversation.jsonl",
            ".claude/projects/-src-b/short-conversation.jsonl",
        ),
        (
            "claude/entireio-skills/c0503e11-7349-4087-b305-3b5ca7e80e57.jsonl",
            ".claude/projects/-src-c/c0503e11-7349-4087-b305-3b5ca7e80e57.jsonl",
        ),
        (
            "claude/agent-sessions/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f.jsonl",
            ".claude/projects/-src-d/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f.jsonl",
        ),
        (
            "claude/agent-sessions/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f/subagents/agent-a0ad4f44468bdf20d.jsonl",
            ".claude/projects/-src-d/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f/subagents/agent-a0ad4f44468bdf20d.jsonl",
        ),
        (
            "codex/agent-sessions/codex_052_raw.jsonl",
            ".codex/sessions/2025/10/30/rollout-2025-10-30T12-00-00-codex_052_raw.jsonl",
        ),
        (
            "codex/harness-0.171.0/sessions/2026/11/29/rollout-2026-11-29T16-09-03-01a22811-2cde-7e10-9e32-fe7e55d5b169.jsonl",
            ".codex/sessions/2026/11/29/rollout-2026-11-29T16-09-03-01a22811-2cde-7e10-9e32-fe7e55d5b169.jsonl",
        ),
        (
            "codex/harness-0.171.0/archived_sessions/rollout-2026-11-29T16-09-25-01a22811-80a4-77a2-a271-c9d2b3c9f78f.jsonl",
            ".codex/archived_sessions/rollout-2026-11-29T16-09-25-01a22811-80a4-77a2-a271-c9d2b3c9f78f.jsonl",
        ),
    ];
    all.iter()
        .map(|(from, to)| ((*to).to_owned(), dir.join(from)))
        .collect()
}

/// Samples of other harnesses: databases, documents and logs.
pub fn others() -> Vec<(String, PathBuf)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions");
    let all = [
        (
            "opencode/harness-1.18.33/opencode.db",
            ".local/share/opencode/opencode.db",
        ),
        ("crush/RLGymExampleBot/crush.db", "src/bot/.crush/crush.db"),
        (
            "cursor/S2thend-cursor-history/composer-global-state.vscdb",
            ".config/Cursor/User/globalStorage/state.vscdb",
        ),
        (
            "gemini/agent-sessions/jsonl_v040.jsonl",
            ".gemini/tmp/a/chats/session-2026-04-23T12-52-0ab84937.jsonl",
        ),
        (
            "gemini/agent-sessions/large.json",
            ".gemini/tmp/b/chats/session-large.json",
        ),
        (
            "copilot/agent-sessions/small.jsonl",
            ".copilot/session-state/copilot_stage0_small.jsonl",
        ),
        (
            "droid/agent-sessions/session_store_small.jsonl",
            ".factory/sessions/-tmp/droid_s1.jsonl",
        ),
        (
            "qwen/agent-sessions/019f0000-0000-7000-8000-000000000004.jsonl",
            ".qwen/projects/-p/chats/019f0000-0000-7000-8000-000000000004.jsonl",
        ),
    ];
    all.iter()
        .map(|(from, to)| ((*to).to_owned(), dir.join(from)))
        .collect()
}
