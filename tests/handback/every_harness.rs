//! Every harness that keeps its sessions in files: a session that is gone comes back with what it
//! needs, under its names, and says nothing twice.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, sample};

/// What is in a file.
#[derive(Clone, Copy)]
enum Bytes {
    Sample(&'static str),
    Text(&'static str),
}

use Bytes::{Sample, Text};

impl Bytes {
    fn get(self) -> Vec<u8> {
        match self {
            Sample(rel) => sample(rel),
            Text(text) => text.as_bytes().to_vec(),
        }
    }
}

/// A session of one harness.
struct Case {
    /// The harness, and the session's id there.
    of: (&'static str, &'static str),
    /// Its files below the home folder, the one that holds it first; all are to come back.
    files: &'static [(&'static str, Bytes)],
    /// Files that are none of it.
    others: &'static [(&'static str, Bytes)],
    /// How the harness goes on with it.
    resume: &'static [&'static str],
}

const AMP: &str = r#"{"v":7,"id":"T-5f2b7a10-1c1e-4b52-9d11-0a2b3c4d5e6f","created":1760000000000,
"messages":[{"role":"user","messageId":0,"content":[{"type":"text","text":"fix it"}]}]}"#;
const PI_AGENT: &str = concat!(
    r#"{"type":"session","version":3,"id":"agent-of-it","timestamp":"2026-11-29T16:10:42.000Z","cwd":"/w"}"#,
    "\n",
    r#"{"type":"message","id":"0000000a","parentId":null,"timestamp":"2026-11-29T16:10:43.000Z","message":{"role":"user","content":"look"}}"#,
    "\n"
);
const CLAW: &str = concat!(
    r#"{"type":"session","version":3,"id":"claw-1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/w"}"#,
    "\n",
    r#"{"type":"message","id":"0000000a","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"hello"}}"#,
    "\n"
);
const CLAW_OLD: &str = concat!(
    r#"{"type":"session","version":3,"id":"claw-1","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/w"}"#,
    "\n",
    r#"{"type":"message","id":"0000000b","parentId":null,"timestamp":"2025-01-01T00:00:01.000Z","message":{"role":"user","content":"what was reset"}}"#,
    "\n"
);
const CLAW_LIST: &str =
    r#"{"main":{"sessionId":"claw-1","label":"Mine"},"b":{"sessionId":"claw-2"}}"#;
const DSH: &str = concat!(
    r#"{"type":"session","version":1,"id":"s-1","createdAt":1700000000000,"cwd":"/w","delegationDepth":0}"#,
    "\n",
    r#"{"type":"turn/start","seq":0,"time":1700000000007,"data":{"turn":1}}"#,
    "\n",
    r#"{"type":"user/message","seq":1,"time":1700000000014,"data":{"id":"u-1","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"What grows?"}]}}"#,
    "\n"
);
const DSH_OLD: &str = concat!(
    r#"{"type":"session","version":0,"id":"s-1","createdAt":1700000000000,"cwd":"/w","delegationDepth":0}"#,
    "\n",
    r#"{"type":"turn/start","seq":0,"time":1700000000007,"data":{"turn":1}}"#,
    "\n"
);
const UI: &str = r#"[{"ts":1767225600000,"type":"say","say":"text","text":"shown"}]"#;
const KIMI_CONTEXT: &str = "{\"role\":\"user\",\"content\":\"hi there\"}\n{\"role\":\"assistant\",\"content\":\"hello\"}\n";
const KIMI_WIRE: &str = concat!(
    r#"{"type":"metadata","protocol_version":"1.1"}"#,
    "\n",
    r#"{"timestamp":1767225600.5,"message":{"type":"TurnBegin","payload":{"user_input":"hi there"}}}"#,
    "\n"
);

/// Where the task folder of an extension lies.
macro_rules! editor {
    ($editor:literal, $extension:literal, $rest:literal) => {
        concat!(
            ".config/",
            $editor,
            "/User/globalStorage/",
            $extension,
            "/",
            $rest
        )
    };
}

macro_rules! cline {
    ($rest:literal) => {
        editor!("Code", "saoudrizwan.claude-dev", $rest)
    };
}

macro_rules! roo {
    ($rest:literal) => {
        editor!("VSCodium", "rooveterinaryinc.roo-cline", $rest)
    };
}

macro_rules! claw {
    ($rest:literal) => {
        concat!(".openclaw/agents/main/sessions/", $rest)
    };
}

macro_rules! cursor {
    ($rest:literal) => {
        concat!(".cursor/projects/home-u-repo/agent-transcripts/", $rest)
    };
}

macro_rules! kimi {
    ($rest:literal) => {
        concat!(".kimi-code/sessions/wd_project_ac3bb318f98e/", $rest)
    };
}

macro_rules! copilot {
    ($rest:literal) => {
        concat!(
            ".copilot/session-state/8e081e35-999d-4d47-a3a7-3303b75eb299",
            $rest
        )
    };
}

macro_rules! qwen {
    ($rest:literal) => {
        concat!(".qwen/projects/-p/", $rest)
    };
}

macro_rules! pi {
    ($rest:literal) => {
        concat!(".pi/agent/sessions/--p--/2026-11-29T16-10-41-373Z_01a22812-a95d-7169-9c70-16edf0099120", $rest)
    };
}

const QWEN: &str = "qwen/harness-0.24.4/dot-qwen/projects/-tmp-gen-proj-qwen/chats/103bae00-f52e-4ea8-a15b-deff2f8e2b4d.jsonl";
const PI: &str = "pi/harness-1.6.0/sessions/--tmp-gen_pi-proj--/2026-11-29T16-10-41-373Z_01a22812-a95d-7169-9c70-16edf0099120.jsonl";
const CLINE: &str = "cline/deja-vu/legacy/tasks/1767225600000/api_conversation_history.json";
const COPILOT: &str = "copilot/agentv/8e081e35-999d-4d47-a3a7-3303b75eb299/events.jsonl";

const CASES: &[Case] = &[
    Case {
        of: ("cline", "1767225600000"),
        files: &[
            (
                cline!("tasks/1767225600000/api_conversation_history.json"),
                Sample(CLINE),
            ),
            (cline!("tasks/1767225600000/ui_messages.json"), Text(UI)),
            (
                cline!("tasks/1767225600000/task_metadata.json"),
                Text("{\"files_in_context\":[]}"),
            ),
            (
                cline!("state/taskHistory.json"),
                Sample("cline/deja-vu/legacy/state/taskHistory.json"),
            ),
        ],
        others: &[(cline!("tasks/1767225600001/ui_messages.json"), Text(UI))],
        resume: &[],
    },
    Case {
        of: ("cline", "1767225600000/ui"),
        files: &[
            (cline!("tasks/1767225600000/ui_messages.json"), Text(UI)),
            (
                cline!("tasks/1767225600000/api_conversation_history.json"),
                Sample(CLINE),
            ),
        ],
        others: &[(cline!("tasks/1767225600001/ui_messages.json"), Text(UI))],
        resume: &[],
    },
    Case {
        of: ("cline", "1795968955656_9jmwy"),
        files: &[
            (
                ".cline/data/sessions/1795968955656_9jmwy/1795968955656_9jmwy.messages.json",
                Sample(
                    "cline/harness-3.0.65/data/sessions/1795968955656_9jmwy/1795968955656_9jmwy.messages.json",
                ),
            ),
            (
                ".cline/data/sessions/1795968955656_9jmwy/1795968955656_9jmwy.json",
                Sample(
                    "cline/harness-3.0.65/data/sessions/1795968955656_9jmwy/1795968955656_9jmwy.json",
                ),
            ),
        ],
        // The list of its command line is a database, and is not put over another.
        others: &[(
            ".cline/data/db/sessions.db",
            Sample("cline/harness-3.0.65/data/db/sessions.db"),
        )],
        resume: &[],
    },
    Case {
        of: ("roo", "1767225700000"),
        files: &[
            (
                roo!("tasks/1767225700000/api_conversation_history.json"),
                Sample("roo/deja-vu/tasks/1767225700000/api_conversation_history.json"),
            ),
            (
                roo!("tasks/1767225700000/history_item.json"),
                Sample("roo/deja-vu/tasks/1767225700000/history_item.json"),
            ),
            (
                roo!("tasks/_index.json"),
                Text("{\"version\":1,\"entries\":[]}"),
            ),
        ],
        others: &[(roo!("tasks/1767225700001/history_item.json"), Text("{}"))],
        resume: &[],
    },
    Case {
        of: ("copilot", "8e081e35-999d-4d47-a3a7-3303b75eb299"),
        files: &[
            (copilot!("/events.jsonl"), Sample(COPILOT)),
            (copilot!("/workspace.yaml"), Text("cwd: /w\nname: Mine\n")),
            (copilot!("/plan.md"), Text("1. do it\n")),
            (copilot!("/checkpoints/index.md"), Text("none\n")),
            (
                copilot!("/session.db"),
                Sample("opencode/harness-1.18.33/opencode.db"),
            ),
        ],
        others: &[
            (
                ".copilot/session-state/1afc31c8-d97f-4331-bae9-b6417f1b79a9/plan.md",
                Text("other\n"),
            ),
            (".copilot/command-history-state/x.json", Text("{}")),
        ],
        resume: &["copilot", "--resume=8e081e35-999d-4d47-a3a7-3303b75eb299"],
    },
    Case {
        of: ("copilot", "copilot_stage0_small"),
        files: &[(
            ".copilot/session-state/copilot_stage0_small.jsonl",
            Sample("copilot/agent-sessions/small.jsonl"),
        )],
        others: &[],
        resume: &["copilot", "--resume=copilot_stage0_small"],
    },
    Case {
        of: ("droid", "droid_s1"),
        files: &[
            (
                ".factory/sessions/-tmp/droid_s1.jsonl",
                Sample("droid/agent-sessions/session_store_small.jsonl"),
            ),
            (
                ".factory/sessions/-tmp/droid_s1.settings.json",
                Text("{\"model\":\"m\"}"),
            ),
        ],
        others: &[
            (".factory/sessions/-tmp/droid_s2.settings.json", Text("{}")),
            (".factory/history.json", Text("[]")),
        ],
        resume: &["droid", "--resume", "droid_s1"],
    },
    Case {
        of: ("iflow", "session-5de701fc-7454-4858-a249-95cac4fd3b51"),
        files: &[(
            ".iflow/projects/-c-exp/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl",
            Sample("iflow/agentsview/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl"),
        )],
        others: &[(".iflow/history.jsonl", Text("{}\n"))],
        resume: &[],
    },
    Case {
        of: ("kimi", "session-a"),
        files: &[
            (
                kimi!("session-a/agents/main/wire.jsonl"),
                Sample("kimi/agent-sessions/session-a/agents/main/wire.jsonl"),
            ),
            (
                kimi!("session-a/agents/agent-0/wire.jsonl"),
                Sample("kimi/agent-sessions/session-a/agents/agent-0/wire.jsonl"),
            ),
            (
                kimi!("session-a/state.json"),
                Sample("kimi/agent-sessions/session-a/state.json"),
            ),
            (
                ".kimi-code/session_index.jsonl",
                Text("{\"id\":\"session-a\"}\n"),
            ),
        ],
        others: &[(
            kimi!("session-b/state.json"),
            Sample("kimi/agent-sessions/session-b/state.json"),
        )],
        resume: &["kimi", "--session", "session-a"],
    },
    Case {
        of: ("kimi", "session-a/agent-0"),
        files: &[
            (
                kimi!("session-a/agents/agent-0/wire.jsonl"),
                Sample("kimi/agent-sessions/session-a/agents/agent-0/wire.jsonl"),
            ),
            (
                kimi!("session-a/state.json"),
                Sample("kimi/agent-sessions/session-a/state.json"),
            ),
        ],
        others: &[
            (
                kimi!("session-b/agents/agent-0/notes.md"),
                Text("of another session\n"),
            ),
            (
                kimi!("session-a/agents/main/notes.md"),
                Text("of another agent\n"),
            ),
        ],
        resume: &[],
    },
    Case {
        of: ("kimi", "s-cli-0001"),
        files: &[
            (".kimi/sessions/0a1b/s-cli-0001/wire.jsonl", Text(KIMI_WIRE)),
            (
                ".kimi/sessions/0a1b/s-cli-0001/context.jsonl",
                Text(KIMI_CONTEXT),
            ),
            (
                ".kimi/sessions/0a1b/s-cli-0001/state.json",
                Text("{\"custom_title\":\"Mine\"}"),
            ),
            (".kimi/kimi.json", Text("{\"work_dirs\":[]}")),
        ],
        others: &[(".kimi/sessions/0a1b/s-cli-0002/state.json", Text("{}"))],
        resume: &["kimi", "--session", "s-cli-0001"],
    },
    Case {
        of: ("openclaw", "claw-1"),
        files: &[
            (claw!("claw-1.jsonl"), Text(CLAW)),
            (
                claw!("claw-1.jsonl.reset.2026-01-01T00-00-00.000Z"),
                Text(CLAW_OLD),
            ),
            (
                claw!("claw-1.trajectory.jsonl"),
                Text("{\"type\":\"trace\"}\n"),
            ),
            (claw!("sessions.json"), Text(CLAW_LIST)),
        ],
        others: &[(
            claw!("claw-10.trajectory.jsonl"),
            Text("{\"type\":\"trace\"}\n"),
        )],
        resume: &[],
    },
    Case {
        of: ("pi", "01a22812-a95d-7169-9c70-16edf0099120"),
        files: &[
            (pi!(".jsonl"), Sample(PI)),
            (pi!("/Review.jsonl"), Text(PI_AGENT)),
            (pi!("/1.bash.log"), Text("out\n")),
        ],
        others: &[(
            ".pi/agent/sessions/--p--/2026-11-29T16-10-41-373Z_other/1.bash.log",
            Text("other\n"),
        )],
        resume: &["pi", "--session", "01a22812-a95d-7169-9c70-16edf0099120"],
    },
    Case {
        of: ("qwen", "103bae00-f52e-4ea8-a15b-deff2f8e2b4d"),
        files: &[
            (
                qwen!("chats/103bae00-f52e-4ea8-a15b-deff2f8e2b4d.jsonl"),
                Sample(QWEN),
            ),
            (
                qwen!("chats/103bae00-f52e-4ea8-a15b-deff2f8e2b4d.meta.json"),
                Text("{}"),
            ),
            (
                qwen!("subagents/103bae00-f52e-4ea8-a15b-deff2f8e2b4d/agent-1.meta.json"),
                Text("{}"),
            ),
        ],
        others: &[
            (
                qwen!("subagents/203bae00-f52e-4ea8-a15b-deff2f8e2b4d/agent-1.meta.json"),
                Text("{}"),
            ),
            (".qwen/usage_record.jsonl", Text("{}\n")),
        ],
        resume: &["qwen", "--resume", "103bae00-f52e-4ea8-a15b-deff2f8e2b4d"],
    },
    Case {
        of: ("amp", "T-5f2b7a10-1c1e-4b52-9d11-0a2b3c4d5e6f"),
        files: &[(
            ".local/share/amp/threads/T-5f2b7a10-1c1e-4b52-9d11-0a2b3c4d5e6f.json",
            Text(AMP),
        )],
        others: &[],
        resume: &[],
    },
    Case {
        of: ("dsh", "s-1"),
        files: &[
            (".dsh/sessions/--w--/s-1/session.v1.jsonl", Text(DSH)),
            (".dsh/sessions/--w--/s-1/session.jsonl", Text(DSH_OLD)),
        ],
        others: &[],
        resume: &[],
    },
    Case {
        of: ("cursor", "test-session/transcript"),
        files: &[
            (
                cursor!("test-session/test-session.jsonl"),
                Sample("cursor/agent-sessions/test-session.jsonl"),
            ),
            (
                cursor!("test-session/subagents/subagent-session.jsonl"),
                Sample("cursor/agent-sessions/subagent-session.jsonl"),
            ),
        ],
        others: &[],
        resume: &[],
    },
    Case {
        of: ("goose", "20250724_1"),
        files: &[
            (
                ".local/share/goose/sessions/20250724_1.jsonl",
                Sample("goose/deja-vu/20250724_1.jsonl"),
            ),
            (
                ".local/share/goose/sessions/20250724_1.jsonl.backup",
                Text("{}\n"),
            ),
        ],
        others: &[(
            ".local/share/goose/sessions/20250724_10.jsonl.backup",
            Text("{}\n"),
        )],
        resume: &[],
    },
];

impl Case {
    fn lay(&self, s: &Sandbox) -> BTreeMap<PathBuf, Vec<u8>> {
        for (rel, bytes) in self.others {
            s.put(rel, &bytes.get());
        }
        let mut files = BTreeMap::new();
        for (rel, bytes) in self.files {
            files.insert(s.put(rel, &bytes.get()), bytes.get());
        }
        files
    }
}

fn states(run: &crate::sandbox::Ran) -> BTreeMap<PathBuf, &str> {
    let files = run.at("/files").as_array().unwrap();
    files
        .iter()
        .map(|f| {
            let path = PathBuf::from(f["path"].as_str().unwrap());
            (path, f["state"].as_str().unwrap())
        })
        .collect()
}

fn id_of(s: &Sandbox, provider: &str, native: &str) -> String {
    let all = s.named(native);
    let session = all.iter().find(|x| x["provider"] == provider);
    let known = || {
        s.sessions()
            .iter()
            .map(|x| x["native_id"].to_string())
            .collect::<Vec<_>>()
    };
    let session = session.unwrap_or_else(|| panic!("no {provider} {native}: {:?}", known()));
    session["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_of_every_harness_comes_back() {
    for case in CASES {
        let (provider, native) = case.of;
        let s = Sandbox::new();
        let files = case.lay(&s);
        s.run(&["index"]).expect(0);
        let id = &id_of(&s, provider, native);
        let before = (s.sessions().len(), s.messages(id));
        for path in files.keys() {
            std::fs::remove_file(path).unwrap();
        }

        let plan = s.run(&["sessions", "restore", id]).expect(0);
        let want: BTreeMap<PathBuf, &str> =
            files.keys().map(|path| (path.clone(), "missing")).collect();
        assert_eq!(states(&plan), want, "{provider} {native}");
        let first = s.home().join(case.files[0].0);
        assert_eq!(plan.text("/files/0/path"), first.to_str().unwrap());
        assert_eq!(plan.at("/files/0/main"), true);
        let run = s
            .run(&["sessions", "restore", id, "--into-harness"])
            .expect(0);
        assert_eq!(run.text("/status"), "applied");
        for (path, bytes) in &files {
            assert!(&std::fs::read(path).unwrap() == bytes, "{}", path.display());
        }
        let resume = match case.resume {
            [] => Value::Null,
            argv => json!(argv),
        };
        let said = run.json.pointer("/resume/argv").unwrap_or(&Value::Null);
        assert_eq!(said, &resume, "{provider} {native}");

        // What came back is no news.
        let index = s.run(&["index"]).expect(0);
        assert_eq!(
            index.text("/status"),
            "no-op",
            "{provider}: {}",
            index.stdout
        );
        let after = (s.sessions().len(), s.messages(id));
        assert!(after == before, "{provider} {native} says something twice");

        // It is all there, and then it is another one's.
        let again = s
            .run(&["sessions", "restore", id, "--into-harness"])
            .expect(0);
        assert_eq!(again.text("/status"), "already-applied");
        std::fs::write(&first, "theirs").unwrap();
        let run = s
            .run(&["sessions", "restore", id, "--into-harness"])
            .expect(2);
        assert_eq!(run.text("/err/kind"), "target-exists");
        assert_eq!(std::fs::read(&first).unwrap(), b"theirs", "{provider}");
    }
}

#[test]
fn a_history_of_aider_comes_back_with_all_its_runs() {
    let s = Sandbox::new();
    let roots = "[[roots]]\nprovider = \"aider\"\npath = \"~/repo\"\n";
    s.put(".config/cass/config.toml", roots.as_bytes());
    let text = "\n# aider chat started at 2026-01-02 03:04:05\n\n#### one\n\nan answer\n\n\
                # aider chat started at 2026-01-03 03:04:05\n\n#### two\n\nanother\n";
    let history = s.put("repo/.aider.chat.history.md", text.as_bytes());
    let typed = s.put("repo/.aider.input.history", b"+one\n");
    s.put("repo/.aider.llm.history", b"of no use\n");
    s.run(&["index"]).expect(0);
    let sessions = s.sessions();
    assert_eq!(sessions.len(), 2);
    for session in &sessions {
        std::fs::remove_file(&history).unwrap();
        std::fs::write(&typed, "typed since").unwrap();
        let id = session["id"].as_str().unwrap();
        let run = s
            .run(&["sessions", "restore", id, "--into-harness"])
            .expect(0);
        assert_eq!(std::fs::read_to_string(&history).unwrap(), text);
        assert_eq!(run.at("/resume"), &Value::Null);
        assert_eq!(states(&run)[&typed], "left-alone");
        assert_eq!(std::fs::read(&typed).unwrap(), b"typed since");
    }
    std::fs::remove_file(&typed).unwrap();
    let run = s.run(&[
        "sessions",
        "restore",
        history.to_str().unwrap(),
        "--into-harness",
    ]);
    // A file of several sessions names none of them, and all are listed.
    assert_eq!(run.code, 2, "{}", run.stdout);
    assert_eq!(run.text("/err/kind"), "ambiguous-name");
    assert_eq!(run.at("/err/candidates").as_array().unwrap().len(), 2);
}

/// What serves many sessions is never written over, and what was left out is listed.
#[test]
fn lists_of_several_sessions_are_left_alone() {
    for (native, list) in [
        ("claw-1", claw!("sessions.json")),
        ("1767225600000", cline!("state/taskHistory.json")),
        ("1767225700000", roo!("tasks/_index.json")),
        ("session-a", ".kimi-code/session_index.jsonl"),
    ] {
        let case = CASES.iter().find(|c| c.of.1 == native).unwrap();
        let s = Sandbox::new();
        let files = case.lay(&s);
        s.run(&["index"]).expect(0);
        let id = &id_of(&s, case.of.0, native);
        for path in files.keys() {
            std::fs::remove_file(path).unwrap();
        }
        let list = s.put(list, b"{\"since\":\"then\"}");
        let run = s
            .run(&["sessions", "restore", id, "--into-harness"])
            .expect(0);
        assert_eq!(states(&run)[&list], "left-alone");
        let shared: Vec<&Value> = run
            .at("/files")
            .as_array()
            .unwrap()
            .iter()
            .filter(|f| f["shared"] == true)
            .collect();
        assert_eq!(shared.len(), 1, "{}", run.stdout);
        assert_eq!(shared[0]["path"], list.to_str().unwrap());
        assert_eq!(std::fs::read(&list).unwrap(), b"{\"since\":\"then\"}");
        for (path, bytes) in files.iter().filter(|(path, _)| **path != list) {
            assert!(&std::fs::read(path).unwrap() == bytes, "{}", path.display());
        }
    }
}

#[test]
fn sessions_in_databases_are_refused_with_the_reason() {
    for (at, db) in [
        (
            ".config/Cursor/User/globalStorage/state.vscdb",
            "cursor/S2thend-cursor-history/composer-global-state.vscdb",
        ),
        (
            ".local/share/crush/crush.db",
            "crush/RLGymExampleBot/crush.db",
        ),
    ] {
        let s = Sandbox::new();
        let path = s.put(at, &sample(db));
        s.run(&["index"]).expect(0);
        let sessions = s.sessions();
        std::fs::remove_file(&path).unwrap();
        let id = sessions[0]["id"].as_str().unwrap();
        let run = s
            .run(&["sessions", "restore", id, "--into-harness"])
            .expect(2);
        assert_eq!(run.text("/err/kind"), "unsafe-target");
        assert!(run.text("/err/message").contains("database"));
        assert!(run.text("/err/hint").contains("--to"));
        assert!(!path.exists());
    }
}

/// One file of the other kind makes DSH refuse every session it has.
#[test]
fn a_session_that_would_spoil_the_others_stays_out() {
    let case = CASES.iter().find(|c| c.of.0 == "dsh").unwrap();
    let s = Sandbox::new();
    let files = case.lay(&s);
    s.run(&["index"]).expect(0);
    let id = &id_of(&s, "dsh", "s-1");
    for path in files.keys() {
        std::fs::remove_file(path).unwrap();
    }
    s.put(".dsh/sessions/--w--/s-2/session.v1.jsonl.zstd", b"packed");
    let run = s
        .run(&["sessions", "restore", id, "--into-harness"])
        .expect(2);
    assert_eq!(run.text("/err/kind"), "unsafe-target");
    assert!(files.keys().all(|path| !path.exists()));
    let to = s.path().join("to");
    s.run(&["sessions", "restore", id, "--to", to.to_str().unwrap()])
        .expect(0);
}

/// SQLite plays a log into whatever database lies beside it.
#[test]
fn a_database_beside_a_session_comes_back_whole_or_not_at_all() {
    let case = CASES.iter().find(|c| c.of.0 == "copilot").unwrap();
    let s = Sandbox::new();
    let files = case.lay(&s);
    s.run(&["index"]).expect(0);
    let id = &id_of(&s, "copilot", case.of.1);
    let db = s.home().join(copilot!("/session.db"));
    for path in files.keys() {
        std::fs::remove_file(path).unwrap();
    }
    let log = s.put(copilot!("/session.db-wal"), b"somebody's log");
    let run = s
        .run(&["sessions", "restore", id, "--into-harness"])
        .expect(0);
    assert_eq!(states(&run)[&db], "left-alone");
    assert!(!db.exists());
    std::fs::remove_file(log).unwrap();
    s.run(&["sessions", "restore", id, "--into-harness"])
        .expect(0);
    assert!(std::fs::read(&db).unwrap() == files[&db]);
}

/// Older versions, of a document that is written anew and of a log, with what lay beside then.
#[test]
fn an_older_version_comes_back_with_what_lay_beside_it_then() {
    let thread = |texts: &[&str]| {
        let said: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(n, text)| json!({"role":"user","ts":1_767_225_600_000_u64 + n as u64,"content":text}))
            .collect();
        json!(said).to_string()
    };
    let log = |n: usize| {
        (0..n)
            .map(|n| format!("{{\"type\":\"message\",\"id\":\"m{n}\",\"timestamp\":\"2026-01-02T03:04:0{n}.000Z\",\"message\":{{\"role\":\"user\",\"content\":[{{\"type\":\"text\",\"text\":\"said {n}\"}}]}}}}\n"))
            .collect::<String>()
    };
    for (provider, native, own, texts, beside) in [
        (
            "cline",
            "1767225600000",
            cline!("tasks/1767225600000/api_conversation_history.json"),
            [
                thread(&["one"]),
                thread(&["one", "two"]),
                thread(&["one", "2", "three"]),
            ],
            cline!("tasks/1767225600000/task_metadata.json"),
        ),
        (
            "droid",
            "droid_v1",
            ".factory/sessions/-tmp/droid_v1.jsonl",
            [log(1), log(2), log(4)],
            ".factory/sessions/-tmp/droid_v1.settings.json",
        ),
    ] {
        let s = Sandbox::new();
        let (mut path, mut meta) = (PathBuf::new(), PathBuf::new());
        for (n, text) in texts.iter().enumerate() {
            path = s.put(own, text.as_bytes());
            meta = s.put(beside, format!("{{\"n\":{n}}}").as_bytes());
            s.run(&["index"]).expect(0);
        }
        // What lies beside changed once more on its own.
        std::fs::write(&meta, "{\"n\":9}").unwrap();
        s.run(&["index"]).expect(0);
        let id = &id_of(&s, provider, native);
        for (n, text) in texts.iter().enumerate() {
            std::fs::remove_file(&path).unwrap();
            std::fs::remove_file(&meta).unwrap();
            let version = (n + 1).to_string();
            // By the path of the file, too.
            let id = if n == 1 { path.to_str().unwrap() } else { id };
            s.run(&[
                "sessions",
                "restore",
                id,
                "--version",
                &version,
                "--into-harness",
            ])
            .expect(0);
            assert_eq!(&std::fs::read_to_string(&path).unwrap(), text, "{provider}");
            let last = if n == 2 { 9 } else { n };
            let want = format!("{{\"n\":{last}}}");
            assert_eq!(
                std::fs::read_to_string(&meta).unwrap(),
                want,
                "{provider} {version}"
            );
        }
    }
}
