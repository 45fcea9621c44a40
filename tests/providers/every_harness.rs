//! The samples of every harness in one home, laid out as the harnesses do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::home::{index, lay, settled, show};
use crate::sandbox::{Ran, Sandbox, heads, ledgers, mode};

/// A sample, and where its harness would keep it.
const LAYOUT: &[(&str, &str)] = &[
    (
        "aider/aider/chat-history-prefix.md",
        "repo/.aider.chat.history.md",
    ),
    (
        "cline/deja-vu/legacy",
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev",
    ),
    ("cline/harness-3.0.65/data", ".cline/data"),
    ("codex/harness-0.171.0", ".codex"),
    ("copilot/agentv", ".copilot/session-state"),
    ("copilot/VibeCodingTracker", ".copilot/session-state"),
    (
        "copilot/agent-sessions/small.jsonl",
        ".copilot/session-state/copilot_stage0_small.jsonl",
    ),
    ("crush/RLGymExampleBot", "src/bot/.crush"),
    (
        "cursor/S2thend-cursor-history/composer-global-state.vscdb",
        ".config/Cursor/User/globalStorage/state.vscdb",
    ),
    (
        "cursor/slevin48-cursor-history/workspaceStorage/state.vscdb",
        ".config/Cursor/User/workspaceStorage/0a1b/state.vscdb",
    ),
    (
        "droid/agent-sessions/session_store_small.jsonl",
        ".factory/sessions/-tmp/droid_s1.jsonl",
    ),
    ("gemini/VibeCodingTracker/chats", ".gemini/tmp/a/chats"),
    ("gemini/entireio-cli/chats", ".gemini/tmp/b/chats"),
    ("gemini/agent-sessions", ".gemini/tmp/c/chats"),
    (
        "goose/deja-vu/20250724_1.jsonl",
        ".local/share/goose/sessions/20250724_1.jsonl",
    ),
    (
        "iflow/agentsview/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl",
        ".iflow/projects/-c-exp/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl",
    ),
    (
        "kimi/agent-sessions",
        ".kimi-code/sessions/wd_project_ac3bb318f98e",
    ),
    (
        "kimi/openclaw-session-viewer",
        ".kimi-code/sessions/wd_bpm_ab308ba3bc10",
    ),
    ("openclaw/agent-sessions", ".openclaw/agents/main/sessions"),
    ("opencode/harness-1.18.33", ".local/share/opencode"),
    (
        "opencode/harness-1.1.65/storage",
        ".local/share/opencode/storage",
    ),
    ("pi/harness-1.6.0/sessions", ".pi/agent/sessions"),
    (
        "pi/pi-mono/before-compaction.jsonl",
        ".pi/agent/sessions/--p--/before-compaction.jsonl",
    ),
    ("qwen/harness-0.24.4/dot-qwen", ".qwen"),
    (
        "roo/deja-vu",
        ".config/VSCodium/User/globalStorage/rooveterinaryinc.roo-cline",
    ),
];

/// A home with every harness in it.
pub fn everyone() -> Sandbox {
    let s = Sandbox::new();
    // Claude's samples lie in folders of their publishers: each is a project.
    for (name, project) in [
        ("claude/VibeCodingTracker", "-p-1"),
        ("claude/agent-sessions", "-p-2"),
        ("claude/entireio-skills", "-p-3"),
    ] {
        lay(&s, name, &format!(".claude/projects/{project}"));
    }
    for (from, to) in LAYOUT {
        lay(&s, from, to);
    }
    let bot = s.home().join("src/bot");
    let list = format!(
        r#"{{"projects":[{{"path":"{0}","data_dir":"{0}/.crush"}}]}}"#,
        bot.display()
    );
    s.put(".local/share/crush/projects.json", list.as_bytes());
    let roots = "[[roots]]\nprovider = \"aider\"\npath = \"~/repo\"\n";
    s.put(".config/cass/config.toml", roots.as_bytes());
    s
}

#[test]
fn a_home_with_every_harness_is_indexed_and_accounted_for() {
    let s = everyone();
    index(&s);
    settled(&s);
    let sessions = s.sessions();
    let harnesses: BTreeSet<&str> = sessions
        .iter()
        .map(|x| x["provider"].as_str().unwrap())
        .collect();
    // Amp keeps its sessions on a server, and DSH has no sample of its own here.
    let expected = [
        "aider", "claude", "cline", "codex", "copilot", "crush", "cursor", "droid", "gemini",
        "goose", "iflow", "kimi", "openclaw", "opencode", "pi", "qwen", "roo",
    ];
    assert_eq!(harnesses.into_iter().collect::<Vec<_>>(), expected);
    for provider in expected {
        let messages: u64 = sessions
            .iter()
            .filter(|x| x["provider"] == provider)
            .map(|x| x["messages"].as_u64().unwrap())
            .sum();
        assert!(messages > 0, "{provider} says nothing");
    }
    // What one source of each session holds adds up to its length, whatever kind it is of.
    let mut seen = BTreeSet::new();
    for session in &sessions {
        let shown = show(&s, session["id"].as_str().unwrap());
        for source in shown["sources"].as_array().unwrap() {
            let a = &source["accounting"];
            let parts: u64 = [
                "message_bytes",
                "known_bytes",
                "unknown_bytes",
                "duplicate_bytes",
                "skipped_bytes",
                "separator_bytes",
                "tail_bytes",
            ]
            .iter()
            .map(|p| a[p].as_u64().unwrap())
            .sum();
            assert_eq!(parts, a["length"].as_u64().unwrap(), "{source}");
            seen.insert(source["path"].as_str().unwrap().to_owned());
        }
    }
    assert!(seen.len() > 85, "{}", seen.len());
    let page = s.command(&["doctor", "check"]).output().unwrap().stdout;
    let page = String::from_utf8(page).unwrap();
    assert!(page.lines().count() <= 40, "{page}");
    let document = s.run(&["doctor", "check", "--json"]).expect(0).stdout;
    assert!(document.len() <= 6 * 1024, "{} bytes", document.len());
}

/// The first words of the first long enough text of a session, as a phrase, and the session's id.
fn phrase(s: &Sandbox, sessions: &[&serde_json::Value]) -> Option<(String, String)> {
    for session in sessions {
        let id = session["id"].as_str().unwrap();
        for message in s.messages(id) {
            let text = message["text"].as_str().unwrap();
            let words: Vec<&str> = text
                .split(|c: char| !c.is_ascii_alphanumeric())
                .filter(|w| !w.is_empty())
                .take(5)
                .collect();
            // Where nothing but spaces stands between them, the words are a phrase as they are.
            if words.len() == 5 && text.trim_start().starts_with(&words.join(" ")) {
                return Some((words.join(" "), id.to_owned()));
            }
        }
    }
    None
}

#[test]
fn what_was_said_to_every_harness_is_found() {
    let s = everyone();
    index(&s);
    let all = s.sessions();
    let providers: BTreeSet<&str> = all
        .iter()
        .map(|x| x["provider"].as_str().unwrap())
        .collect();
    let mut found = 0;
    for provider in providers {
        let of: Vec<&serde_json::Value> =
            all.iter().filter(|x| x["provider"] == provider).collect();
        let Some((phrase, id)) = phrase(&s, &of) else {
            continue;
        };
        let query = format!("\"{phrase}\"");
        let ran = s
            .run(&[
                "search", &query, "--agent", provider, "--limit", "1000", "--json",
            ])
            .expect(0);
        let hits = ran.at("/hits").as_array().unwrap();
        assert!(
            hits.iter().any(|h| h["session_id"] == id.as_str()),
            "{provider}: {phrase}"
        );
        found += 1;
    }
    assert!(found >= 14, "{found}");
}

/// Indexes as nobody with `denied` shut; what can still be read must be captured, and what can't be
/// is named by the run and by the check.
fn shut(s: &Sandbox, denied: &BTreeSet<PathBuf>, all: &[PathBuf]) {
    let _ = std::fs::remove_dir_all(s.data());
    let modes: Vec<(&PathBuf, u32)> = denied.iter().map(|p| (p, bits(p))).collect();
    denied.iter().for_each(|p| mode(p, 0));
    let run = s.run_as_nobody(&["index", "--skip-lexical"]).unwrap();
    let check = s
        .run_as_nobody(&["doctor", "check", "--detail", "full"])
        .unwrap();
    for (path, bits) in modes {
        mode(path, bits);
    }
    assert_eq!(run.code, 8, "{}", run.stdout);
    let paths = |list: &str, key: &str, of: &Ran| -> BTreeSet<PathBuf> {
        let list = of.at(list).as_array().unwrap();
        list.iter()
            .filter(|f| key == "path" || f["code"] == "source-unreadable")
            .map(|f| f[key].as_str().unwrap())
            .map(|p| {
                p.strip_prefix("~/")
                    .map_or(p.into(), |rel| s.home().join(rel))
            })
            .collect()
    };
    // A root below another one that is shut can't be looked at either, and is named as well.
    let named = paths("/findings", "subject", &check);
    assert!(denied.is_subset(&named), "{named:?}");
    let below = |path: &PathBuf| denied.iter().any(|d| path.starts_with(d));
    assert!(named.iter().all(below), "{named:?}");
    let (told, total) = (paths("/failures", "path", &run), named.len());
    assert_eq!(run.number("/failures_total"), total as u64, "{named:?}");
    assert!(
        told.len() == total.min(20) && told.is_subset(&named),
        "{told:?}"
    );
    let rest: Vec<PathBuf> = all.iter().filter(|p| !below(p)).cloned().collect();
    assert_eq!(ledgers(s), rest);
}

fn bits(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode()
}

#[test]
fn what_may_not_be_read_of_any_harness_is_named_and_the_rest_is_captured() {
    let s = everyone();
    mode(s.path(), 0o755);
    let Some(first) = s.run_as_nobody(&["index", "--skip-lexical"]) else {
        println!("passed over: setpriv is missing");
        return;
    };
    first.expect(0);
    let all = ledgers(&s);
    let mut of: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (provider, path) in heads(&s) {
        of.entry(provider).or_default().push(path);
    }
    assert_eq!(of.len(), 17);
    // The list of projects says where others are: without it they are out of sight.
    let list = s.home().join(".local/share/crush/projects.json");

    // One file of each.
    let files: BTreeSet<PathBuf> = of
        .values()
        .map(|paths| paths.iter().filter(|p| **p != list).min().unwrap().clone())
        .collect();
    shut(&s, &files, &all);
    // One folder of each, that which holds most.
    let folders: BTreeSet<PathBuf> = of
        .values()
        .map(|paths| paths.iter().max().unwrap().parent().unwrap().to_path_buf())
        .collect();
    shut(&s, &folders, &all);
    // Every root that is there.
    let vars = [("HOME", s.home()), ("CASS_DATA_DIR", s.data())];
    let vars = vars.map(|(name, path)| (name.into(), path.into_os_string()));
    let env = cass::env::Env::new(cass::env::Clock::System, BTreeMap::from(vars), None).unwrap();
    let config = cass::sources::config::Config::load(env.config_dir(), env.home()).unwrap();
    let roots: BTreeSet<PathBuf> = cass::sources::roots::roots(&env, &config)
        .into_iter()
        .map(|root| root.path)
        .filter(|path| path.exists() && *path != list.parent().unwrap())
        .collect();
    assert!(roots.len() >= 17, "{roots:?}");
    shut(&s, &roots, &all);

    // The list itself: what it would have led to is not known, so it is named.
    let _ = std::fs::remove_dir_all(s.data());
    mode(&list, 0);
    let run = s.run_as_nobody(&["index", "--skip-lexical"]).unwrap();
    let check = s
        .run_as_nobody(&["doctor", "check", "--detail", "full"])
        .unwrap();
    mode(&list, 0o600);
    assert_eq!(run.code, 8, "{}", run.stdout);
    assert!(run.stdout.contains("projects.json") && check.stdout.contains("projects.json"));

    // All of it, as soon as it may.
    s.run_as_nobody(&["index", "--skip-lexical"])
        .unwrap()
        .expect(0);
    assert_eq!(ledgers(&s), all);
}
