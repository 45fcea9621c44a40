//! What a session, a folder or a file is called, and what was said in it, never acts on the
//! terminal that it is shown on.

use crate::sandbox::Sandbox;

const ID: &str = "aaaaaaaa-2222-4333-8444-555555555555";

/// Clears the screen, sets the title, turns the line around, begins lines of its own.
const HOSTILE: &str =
    "a\u{1b}[2J\u{1b}]0;owned\u{7}b\u{202e}c\u{2066}d\rAll is lost\ne\u{9b}31m\u{200b}\u{7f}";

fn json(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

/// A session whose every text is hostile, in a folder of such a name.
fn laid_out() -> Sandbox {
    let sandbox = Sandbox::new();
    let line = |n: u32, role: &str, content: &str| {
        format!(
            "{{\"type\":\"{role}\",\"sessionId\":\"{ID}\",\"uuid\":\"u{n}\",\"parentUuid\":null,\
             \"cwd\":{0},\"gitBranch\":{0},\"version\":{0},\"timestamp\":\"2026-01-02T03:04:05.000Z\",\
             \"message\":{{\"role\":\"{role}\",\"model\":{0},\"content\":{content}}}}}\n",
            json(&format!("/w/{HOSTILE}"))
        )
    };
    let tool = format!(
        "[{{\"type\":\"tool_use\",\"id\":{0},\"name\":{0},\"input\":{{{0}:{0}}}}},\
          {{\"type\":\"text\",\"text\":{0}}}]",
        json(HOSTILE)
    );
    let text = format!(
        "{{\"type\":\"summary\",\"summary\":{},\"leafUuid\":\"u1\"}}\n",
        json(HOSTILE)
    ) + &line(1, "user", &json(HOSTILE))
        + &line(2, "assistant", &tool);
    // A file system takes all but the slash.
    let folder = format!(".claude/projects/-w{HOSTILE}");
    sandbox.put(&format!("{folder}/{ID}.jsonl"), text.as_bytes());
    sandbox.put(&format!("{folder}/{ID}/tool-results/{HOSTILE}.txt"), b"x");
    sandbox.run(&["index"]).expect(0);
    sandbox
}

#[track_caller]
fn harmless(words: &[&str], output: &[u8]) {
    let text = String::from_utf8(output.to_vec()).unwrap();
    for c in text.chars() {
        let fine = c == '\n' || !(c.is_control() || cass::cli::sanitise::acts_or_hides(c));
        assert!(fine, "{words:?} shows U+{:04X}: {text:?}", c as u32);
    }
    // What stands at the begin of a line is the program's word.
    for line in text.lines() {
        assert!(
            !line.starts_with("All is lost") && !line.starts_with("e\\"),
            "{words:?}: {text}"
        );
    }
}

#[test]
fn no_output_for_people_lets_a_session_act_on_their_terminal() {
    let sandbox = laid_out();
    let to = sandbox.path().join("to");
    let to = to.to_str().unwrap();
    let escaped: String = HOSTILE
        .chars()
        .map(|c| format!("\\u{:04x}", c as u32))
        .collect();
    let exclude = format!("exclude = [\"/x/{escaped}/**\"]\n");
    let table: &[&[&str]] = &[
        &["sessions", "list"],
        &["sessions", "list", "--workspace", HOSTILE],
        &["sessions", "show", ID],
        &["sessions", "show", HOSTILE],
        &["sessions", "restore", ID],
        &["sessions", "restore", ID, "--to", to],
        &["sessions", "restore", ID, "--to", to],
        &["sessions", "restore", ID, "--version", "9"],
        &["sessions", "restore", HOSTILE],
        &["view", ID, "--all"],
        &["view", HOSTILE],
        &["stats"],
        &["stats", "--session", ID],
        &["stats", "--workspace", HOSTILE],
        &["mirror", "list"],
        &["doctor", "archive-scan", "--detail", "full"],
        &["doctor", "archive-scan", "--cursor", HOSTILE],
        &["doctor", "check"],
    ];
    let gone = || {
        for file in crate::sandbox::files_below(&sandbox.home().join(".claude")) {
            std::fs::remove_file(file).unwrap();
        }
    };
    for round in 0..2 {
        for words in table {
            let output = sandbox.command(words).output().unwrap();
            harmless(words, &output.stdout);
            harmless(words, &output.stderr);
            assert!(output.stdout.len() + output.stderr.len() > 0, "{words:?}");
        }
        if round == 0 {
            gone();
            sandbox.put(".config/cass/config.toml", exclude.as_bytes());
        }
    }
    let words = ["sessions", "restore", ID, "--into-harness"];
    let output = sandbox.command(&words).output().unwrap();
    assert!(output.status.success());
    harmless(&words, &output.stdout);
}
