//! A session that is gone comes back: every byte, under its name, where its harness looks.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::sandbox::{Sandbox, files_below, fixtures, ran, sample, snapshot};

const ID: &str = "11111111-2222-4333-8444-555555555555";

fn said(n: u32, text: &str) -> String {
    format!(
        "{{\"type\":\"user\",\"sessionId\":\"{ID}\",\"uuid\":\"u{n}\",\"parentUuid\":null,\
         \"cwd\":\"/w\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

fn rel() -> String {
    format!(".claude/projects/-w/{ID}.jsonl")
}

/// The session with a subagent, a tool's result, a todo list and somebody else's files beside it.
fn family(sandbox: &Sandbox) -> BTreeMap<PathBuf, Vec<u8>> {
    let agent = said(9, "from the subagent").replace(
        "\"type\":\"user\"",
        "\"type\":\"user\",\"isSidechain\":true,\"agentId\":\"a1b2c3d4\"",
    );
    let mut files = BTreeMap::new();
    for (rel, text) in [
        (rel(), said(1, "one") + &said(2, "two")),
        (
            format!(".claude/projects/-w/{ID}/subagents/agent-a1b2c3d4.jsonl"),
            agent,
        ),
        (
            format!(".claude/projects/-w/{ID}/subagents/agent-a1b2c3d4.meta.json"),
            "{}".into(),
        ),
        (
            format!(".claude/projects/-w/{ID}/tool-results/toolu_1.txt"),
            "long output\n".into(),
        ),
        (format!(".claude/todos/{ID}-agent-{ID}.json"), "[]".into()),
    ] {
        files.insert(sandbox.put(&rel, text.as_bytes()), text.into_bytes());
    }
    let other = "99999999-2222-4333-8444-555555555555";
    for rel in [
        format!(".claude/projects/-w/{other}.jsonl"),
        format!(".claude/projects/-w/{other}/tool-results/toolu_2.txt"),
        format!(".claude/todos/{other}-agent-{other}.json"),
    ] {
        sandbox.put(&rel, said(1, "other").replace(ID, other).as_bytes());
    }
    sandbox.run(&["index"]).expect(0);
    files
}

fn states(run: &crate::sandbox::Ran) -> Vec<String> {
    let files = run.at("/files").as_array().unwrap();
    files
        .iter()
        .map(|f| f["state"].as_str().unwrap().to_owned())
        .collect()
}

fn no_trace(dir: &Path) {
    for file in files_below(dir) {
        assert!(
            !file.to_string_lossy().contains("cass-tmp"),
            "{}",
            file.display()
        );
    }
}

#[test]
fn a_session_comes_back_with_all_that_belongs_to_it() {
    let sandbox = Sandbox::new();
    let files = family(&sandbox);
    let claude = sandbox.home().join(".claude");
    for path in files.keys() {
        std::fs::remove_file(path).unwrap();
    }
    std::fs::remove_dir_all(claude.join("projects/-w").join(ID)).unwrap();
    let before = snapshot(&claude);

    let plan = sandbox.run(&["sessions", "restore", ID]).expect(0);
    assert_eq!(plan.text("/status"), "planned");
    assert_eq!(states(&plan), ["missing"; 5]);
    assert_eq!(snapshot(&claude), before, "a plan wrote something");
    let argv: Vec<&str> = plan
        .at("/recommended_commands/0/argv")
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_str().unwrap())
        .collect();

    // The command that it names does it.
    let mut command = sandbox.command(&["--json"]);
    let run = ran(command.args(&argv[1..]).output().unwrap()).expect(0);
    assert_eq!(run.text("/status"), "applied");
    assert_eq!(run.number("/written"), 5);
    assert_eq!(run.at("/files/0/main"), true);
    assert_eq!(
        run.at("/resume/argv"),
        &serde_json::json!(["claude", "--resume", ID])
    );
    assert_eq!(run.text("/resume/workspace"), "/w");
    for (path, bytes) in &files {
        assert_eq!(&std::fs::read(path).unwrap(), bytes, "{}", path.display());
        // The harness's sweep goes by this.
        let age = SystemTime::now()
            .duration_since(std::fs::metadata(path).unwrap().modified().unwrap())
            .unwrap_or_default();
        assert!(age < Duration::from_secs(600));
    }
    no_trace(&claude);
    let again = sandbox
        .run(&["sessions", "restore", ID, "--into-harness"])
        .expect(0);
    assert_eq!(again.text("/status"), "already-applied");
    // And what came back is no news.
    let index = sandbox.run(&["index"]).expect(0);
    assert_eq!(index.text("/status"), "no-op", "{}", index.stdout);
}

#[test]
fn every_sample_comes_back_where_its_harness_finds_it() {
    let sandbox = Sandbox::new();
    let mut files = sandbox.lay_out_samples();
    for (from, to) in [
        ("opencode/harness-1.1.65", ".local/share/opencode"),
        ("gemini/entireio-cli/chats", ".gemini/tmp/x/chats"),
    ] {
        for file in files_below(&fixtures().join(from)) {
            let rel = file.strip_prefix(fixtures()).unwrap().to_str().unwrap();
            let bytes = sample(rel);
            files.insert(
                sandbox.put(&format!("{to}{}", &rel[from.len()..]), &bytes),
                bytes,
            );
        }
    }
    sandbox.run(&["index"]);
    let sessions = sandbox.sessions();
    for area in [
        ".claude/projects",
        ".codex/sessions",
        ".codex/archived_sessions",
        ".gemini/tmp",
        ".local/share/opencode/storage",
    ] {
        std::fs::remove_dir_all(sandbox.home().join(area)).unwrap();
    }
    let mut agents = BTreeMap::new();
    for session in &sessions {
        let id = session["id"].as_str().unwrap();
        let run = sandbox.run(&["sessions", "restore", id, "--into-harness"]);
        if run.code == 2 {
            // Two samples of one session: the second finds the first one's place taken.
            assert!(run.text("/err/kind") == "target-exists", "{}", run.stdout);
            continue;
        }
        let run = run.expect(0);
        for file in run.at("/files").as_array().unwrap() {
            let path = PathBuf::from(file["path"].as_str().unwrap());
            let bytes = std::fs::read(&path).unwrap();
            if let Some(original) = files.get(&path) {
                assert!(&bytes == original, "{}", path.display());
            }
            assert_eq!(file["blake3"], blake3::hash(&bytes).to_hex().as_str());
            *agents
                .entry(session["provider"].as_str().unwrap())
                .or_insert(0) += 1;
        }
    }
    assert_eq!(agents.len(), 4, "{agents:?}");
    // What holds a session is there again.
    let missing: Vec<_> = files
        .iter()
        .filter(|(path, bytes)| !bytes.is_empty() && !path.exists())
        .map(|(path, _)| path)
        .collect();
    // What OpenCode keeps for all sessions of a project belongs to none of them.
    assert!(missing.len() <= 2, "{missing:#?}");
}

#[test]
fn any_captured_version_comes_back() {
    let sandbox = Sandbox::new();
    let texts = [
        said(1, "one"),
        said(1, "one") + &said(2, "two"),
        said(7, "rewritten"),
        String::from("{\"torn"),
    ];
    let mut path = PathBuf::new();
    for text in &texts {
        path = sandbox.put(&rel(), text.as_bytes());
        sandbox.run(&["index"]);
    }
    let shown = sandbox.run(&["sessions", "show", ID]).expect(0);
    let versions = shown.at("/sources/0/versions").as_array().unwrap();
    let listed: Vec<(u64, u64)> = versions
        .iter()
        .map(|v| (v["version"].as_u64().unwrap(), v["bytes"].as_u64().unwrap()))
        .collect();
    let want: Vec<(u64, u64)> = (1..=4u64)
        .rev()
        .map(|n| (n, texts[n as usize - 1].len() as u64))
        .collect();
    assert_eq!(listed, want);
    for (n, text) in texts.iter().enumerate() {
        let n = (n + 1).to_string();
        std::fs::remove_file(&path).unwrap();
        let run = sandbox
            .run(&["sessions", "restore", ID, "--version", &n, "--into-harness"])
            .expect(0);
        assert_eq!(run.number("/files/0/version").to_string(), n);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), *text);
        // By the path of the file, too, and into a folder.
        let to = sandbox.path().join(format!("to-{n}"));
        let run = sandbox
            .run(&[
                "sessions",
                "restore",
                path.to_str().unwrap(),
                "--version",
                &n,
                "--to",
                to.to_str().unwrap(),
            ])
            .expect(0);
        assert_eq!(run.text("/target"), "folder");
        let file = to.join(format!("projects/-w/{ID}.jsonl"));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), *text);
    }
    let none = sandbox
        .run(&["sessions", "restore", ID, "--version", "5"])
        .expect(3);
    assert_eq!(none.text("/err/kind"), "not-found");
}

#[test]
fn the_folder_is_the_one_in_force_now() {
    let sandbox = Sandbox::new();
    let files = family(&sandbox);
    // The home was moved away and the harness's variable names another folder.
    std::fs::rename(sandbox.home().join(".claude"), sandbox.path().join("old")).unwrap();
    let now = sandbox.path().join("config/claude");
    std::fs::create_dir_all(&now).unwrap();
    let mut command = sandbox.command(&["sessions", "restore", ID, "--into-harness", "--json"]);
    command.env("CLAUDE_CONFIG_DIR", &now);
    ran(command.output().unwrap()).expect(0);
    for (path, bytes) in files {
        let rel = path.strip_prefix(sandbox.home().join(".claude")).unwrap();
        assert_eq!(std::fs::read(now.join(rel)).unwrap(), bytes);
    }
    assert!(!sandbox.home().join(".claude").exists());
}

#[test]
fn what_is_there_stays_as_it_is() {
    let sandbox = Sandbox::new();
    let files = family(&sandbox);
    let claude = sandbox.home().join(".claude");
    // The session's file became another one: nothing is put over it, nor beside it.
    let main = sandbox.home().join(rel());
    let result = claude.join(format!("projects/-w/{ID}/tool-results/toolu_1.txt"));
    std::fs::write(&main, "theirs").unwrap();
    std::fs::remove_file(&result).unwrap();
    let before = snapshot(&claude);
    let run = sandbox
        .run(&["sessions", "restore", ID, "--into-harness"])
        .expect(2);
    assert_eq!(run.text("/err/kind"), "target-exists");
    assert_eq!(snapshot(&claude), before);
    let plan = sandbox.run(&["sessions", "restore", ID]).expect(0);
    assert!(states(&plan).contains(&"in-the-way".to_owned()));
    assert_eq!(
        plan.at("/recommended_commands").as_array().unwrap().len(),
        0
    );

    // A file beside it that changed is left alone, and the rest comes.
    std::fs::remove_file(&main).unwrap();
    std::fs::write(&result, "theirs too").unwrap();
    let run = sandbox
        .run(&["sessions", "restore", ID, "--into-harness"])
        .expect(0);
    assert_eq!(run.number("/written"), 1);
    assert!(states(&run).contains(&"left-alone".to_owned()));
    assert_eq!(std::fs::read(&main).unwrap(), files[&main]);
    assert_eq!(std::fs::read(&result).unwrap(), b"theirs too");

    // Into a folder nothing is put over anything, the same bytes included.
    let to = sandbox.path().join("to");
    let args = ["sessions", "restore", ID, "--to", to.to_str().unwrap()];
    sandbox.run(&args).expect(0);
    let before = snapshot(&to);
    sandbox.run(&args).expect(2);
    assert_eq!(snapshot(&to), before);
    // Nor into a harness's folder or ours by this way.
    for inside in [claude.join("projects/new"), sandbox.data().join("new")] {
        let run = sandbox.run(&["sessions", "restore", ID, "--to", inside.to_str().unwrap()]);
        assert_eq!(run.expect(2).text("/err/kind"), "unsafe-target");
        assert!(!inside.exists());
    }
}

#[test]
fn a_link_in_the_way_is_refused() {
    let sandbox = Sandbox::new();
    family(&sandbox);
    let claude = sandbox.home().join(".claude");
    let out = sandbox.path().join("out");
    for (remove, link) in [
        ("projects", "projects"),
        ("projects/-w", &*format!("projects/-w/{ID}")),
        ("projects/-w", &*format!("projects/-w/{ID}.jsonl")),
    ] {
        let _ = std::fs::remove_dir_all(claude.join("projects"));
        let _ = std::fs::remove_file(claude.join("projects"));
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir(&out).unwrap();
        let at = claude.join(link);
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(&out, &at).unwrap();
        let before = (snapshot(&claude), snapshot(&out));
        for args in [
            &["sessions", "restore", ID][..],
            &["sessions", "restore", ID, "--into-harness"],
        ] {
            let run = sandbox.run(args).expect(2);
            assert_eq!(run.text("/err/kind"), "unsafe-target", "{remove} {link}");
        }
        assert_eq!((snapshot(&claude), snapshot(&out)), before, "{link}");
    }
}

/// A project folder may be a link, as it may be when it is captured: the session goes to where the
/// harness finds it, and the link is named.
#[test]
fn a_session_comes_back_through_the_link_of_its_project() {
    let sandbox = Sandbox::new();
    let claude = sandbox.home().join(".claude");
    let shared = sandbox.path().join("shared/project");
    std::fs::create_dir_all(&shared).unwrap();
    std::fs::create_dir_all(claude.join("projects")).unwrap();
    let link = claude.join("projects/-w");
    symlink(&shared, &link).unwrap();
    let files = family(&sandbox);
    let into = ["sessions", "restore", ID, "--into-harness"];
    for path in files.keys() {
        std::fs::remove_file(path).unwrap();
    }
    std::fs::remove_dir_all(shared.join(ID)).unwrap();

    // A link further down is none that capture follows.
    let out = sandbox.path().join("out");
    std::fs::create_dir(&out).unwrap();
    symlink(&out, shared.join(ID)).unwrap();
    let before = snapshot(sandbox.path());
    let run = sandbox.run(&into).expect(2);
    assert_eq!(run.text("/err/kind"), "unsafe-target");
    assert_eq!(snapshot(sandbox.path()), before);
    std::fs::remove_file(shared.join(ID)).unwrap();

    // Nor is anything written over.
    let own = shared.join(format!("{ID}.jsonl"));
    std::fs::write(&own, "mine").unwrap();
    assert_eq!(
        sandbox.run(&into).expect(2).text("/err/kind"),
        "target-exists"
    );
    assert_eq!(std::fs::read(&own).unwrap(), b"mine");
    std::fs::remove_file(&own).unwrap();

    let plan = sandbox.run(&into[..3]).expect(0);
    assert_eq!(plan.text("/status"), "planned");
    let run = sandbox.run(&into).expect(0);
    assert_eq!(run.number("/written"), 5);
    for run in [&plan, &run] {
        let links = run.at("/links").as_array().unwrap();
        assert_eq!(links.len(), 1, "{}", run.stdout);
        assert!(
            run.text("/links/0/link/path")
                .ends_with(".claude/projects/-w")
        );
        assert!(
            run.text("/links/0/leads_to/path")
                .ends_with("shared/project")
        );
    }
    for (path, bytes) in &files {
        assert_eq!(&std::fs::read(path).unwrap(), bytes, "{}", path.display());
    }
    assert!(own.is_file(), "the link was replaced");
    no_trace(&shared);
    // The harness's copy is the captured one again.
    let run = sandbox.run(&into).expect(0);
    assert_eq!(run.text("/status"), "already-applied");
}

/// Gemini CLI goes by the times in a session, so a fresh file time does not keep it.
#[test]
fn a_session_that_its_harness_would_remove_again_is_named() {
    let sandbox = Sandbox::new();
    let id = "66666666-2222-4333-8444-555555555555";
    let text = format!(
        "{{\"sessionId\":\"{id}\",\"projectHash\":\"x\",\"startTime\":\"2020-01-01T00:00:00.000Z\",\
         \"lastUpdated\":\"2020-01-01T00:00:01.000Z\",\"messages\":[{{\"id\":\"m1\",\
         \"timestamp\":\"2020-01-01T00:00:00.000Z\",\"type\":\"user\",\"content\":\"hi\"}}]}}"
    );
    let rel = ".gemini/tmp/w/chats/session-2020-01-01T00-00-66666666.json";
    let file = sandbox.put(rel, text.as_bytes());
    sandbox.run(&["index"]).expect(0);
    std::fs::remove_file(&file).unwrap();
    let plan = sandbox.run(&["sessions", "restore", id]).expect(0);
    assert_eq!(plan.number("/pruned_again/retention_days"), 30);
    let setting = plan.text("/pruned_again/setting");
    assert!(setting.contains("sessionRetention"), "{setting}");
    let to = sandbox.path().join("to");
    let run = sandbox.run(&["sessions", "restore", id, "--to", to.to_str().unwrap()]);
    assert!(run.expect(0).json.get("pruned_again").is_none());
    sandbox.put(
        ".gemini/settings.json",
        br#"{"general":{"sessionRetention":{"enabled":false}}}"#,
    );
    let run = sandbox.run(&["sessions", "restore", id, "--into-harness"]);
    assert!(run.expect(0).json.get("pruned_again").is_none());
    assert_eq!(std::fs::read(&file).unwrap(), text.as_bytes());
}

/// A link that leads nowhere, to a file or into the data directory is no project folder.
#[test]
fn a_link_of_a_project_has_to_lead_to_a_folder_of_others() {
    let sandbox = Sandbox::new();
    family(&sandbox);
    let project = sandbox.home().join(".claude/projects/-w");
    let file = sandbox.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let places = [
        sandbox.path().join("nowhere"),
        file,
        sandbox.data(),
        sandbox.data().join("raw-mirror"),
    ];
    std::fs::remove_dir_all(&project).unwrap();
    for to in places {
        symlink(&to, &project).unwrap();
        let before = snapshot(sandbox.path());
        let run = sandbox.run(&["sessions", "restore", ID, "--into-harness"]);
        let run = run.expect(2);
        assert_eq!(run.text("/err/kind"), "unsafe-target", "{}", to.display());
        assert_eq!(snapshot(sandbox.path()), before, "{}", to.display());
        std::fs::remove_file(&project).unwrap();
    }
}

/// A capture of a file outside of any layout: its place is not guessed.
#[test]
fn a_session_in_a_database_is_not_put_over_one() {
    let sandbox = Sandbox::new();
    let dir = fixtures().join("opencode");
    let db = files_below(&dir)
        .into_iter()
        .find(|f| f.extension().is_some_and(|e| e == "db"));
    let Some(db) = db else {
        panic!("no database among the samples");
    };
    let bytes = std::fs::read(&db).unwrap();
    let path = sandbox.put(".local/share/opencode/opencode.db", &bytes);
    sandbox.run(&["index"]);
    let sessions = sandbox.sessions();
    let id = sessions[0]["id"].as_str().unwrap();
    std::fs::remove_file(&path).unwrap();
    for args in [
        &["sessions", "restore", id][..],
        &["sessions", "restore", id, "--into-harness"],
    ] {
        let run = sandbox.run(args).expect(2);
        assert!(run.text("/err/message").contains("database"));
        assert!(run.text("/err/hint").contains("--to"));
    }
    assert!(!path.exists());
    let to = sandbox.path().join("to");
    sandbox
        .run(&["sessions", "restore", id, "--to", to.to_str().unwrap()])
        .expect(0);
    assert!(std::fs::read(to.join("opencode.db")).unwrap() == bytes);
}

fn mounted(at: &Path, options: &str) -> bool {
    std::fs::create_dir_all(at).unwrap();
    let made = Command::new("mount")
        .args(["-t", "tmpfs", "-o", options, "tmpfs"])
        .arg(at)
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success());
    if !made {
        println!("passed over: a file system in memory can't be mounted here");
    }
    made
}

#[test]
fn without_room_or_right_nothing_is_left() {
    let sandbox = Sandbox::new();
    let long: String = (0..3000)
        .map(|n| said(n, &blake3::hash(&n.to_le_bytes()).to_hex()))
        .collect();
    family(&sandbox);
    sandbox.put(&rel(), long.as_bytes());
    sandbox.run(&["index"]).expect(0);
    let disk = sandbox.path().join("disk");
    for (options, code, kind) in [
        ("size=128k", 21, "no-space"),
        ("size=16m,ro", 9, "permission-denied"),
    ] {
        if !mounted(&disk, options) {
            return;
        }
        let run = |into: bool| -> Value {
            let to = disk.join("to");
            let mut args = vec!["sessions", "restore", ID, "--json"];
            if into {
                args.push("--into-harness");
            } else {
                args.extend(["--to", to.to_str().unwrap()]);
            }
            let mut command = sandbox.command(&args);
            if into {
                command.env("CLAUDE_CONFIG_DIR", &disk);
            }
            ran(command.output().unwrap()).expect(code).json
        };
        let found = [run(false), run(true)];
        let left = files_below(&disk);
        let folders = std::fs::read_dir(&disk).unwrap().count();
        assert!(
            Command::new("umount")
                .arg(&disk)
                .status()
                .unwrap()
                .success()
        );
        for value in found {
            assert_eq!(value["err"]["kind"], kind, "{value}");
        }
        assert_eq!(left, Vec::<PathBuf>::new(), "{options}");
        assert_eq!(folders, 0, "{options}");
    }
}
