//! Roots: what counts below them, and what it means when one is not there.

use std::path::Path;
use std::process::Command;

use crate::sandbox::{Ran, Sandbox, age, ran};

fn line(session: &str, text: &str) -> Vec<u8> {
    format!(
        r#"{{"type":"user","sessionId":"{session}","uuid":"u-{session}","timestamp":"2026-11-01T10:00:00Z","message":{{"role":"user","content":"{text}"}}}}{}"#,
        "\n"
    )
    .into_bytes()
}

fn put(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
    age(path, 3600);
}

/// `cass ... --json` with Claude's folder moved.
fn with_claude(sandbox: &Sandbox, root: &Path, args: &[&str]) -> Ran {
    let mut c: Command = sandbox.command(args);
    ran(c
        .env("CLAUDE_CONFIG_DIR", root)
        .arg("--json")
        .output()
        .unwrap())
}

#[test]
fn what_a_project_remembers_is_evidence() {
    let sandbox = Sandbox::new();
    let memory = sandbox.put(".claude/projects/-p/memory/MEMORY.md", b"# Index\n");
    let topic = sandbox.put(".claude/projects/-p/memory/deep/topic.md", b"a topic\n");
    sandbox.put(".claude/projects/-p/memory/.topic.md.swp", b"x");
    sandbox.put(".claude/projects/-p/notes.md", b"no part of the harness\n");
    sandbox.put(".claude/projects/-p/a.jsonl", &line("a", "hello"));
    let run = sandbox.run(&["index"]).expect(0);
    assert_eq!(run.number("/sources/seen"), 3);
    assert_eq!(run.number("/captured/captures"), 3);
    assert_eq!(run.number("/archived/messages"), 1);
    assert_eq!(sandbox.get(&memory, 1), b"# Index\n");
    // Every version is kept, and one that is gone upstream comes back.
    sandbox.put(".claude/projects/-p/memory/MEMORY.md", b"# Other\n");
    std::fs::remove_file(&topic).unwrap();
    let run = sandbox.run(&["index"]).expect(0);
    assert_eq!(run.number("/sources/gone"), 1);
    assert_eq!(sandbox.get(&memory, 1), b"# Index\n");
    assert_eq!(sandbox.get(&memory, 2), b"# Other\n");
    assert_eq!(sandbox.get(&topic, 1), b"a topic\n");
    assert_eq!(sandbox.sessions().len(), 1);
    assert_eq!(sandbox.run(&["index"]).expect(0).text("/status"), "no-op");
}

#[test]
fn names_of_projects_and_of_folders_above_the_root_mean_nothing() {
    let sandbox = Sandbox::new();
    // The root itself, and what is above it, are named like its parts.
    let root = sandbox.path().join("todos/projects/tasks");
    for (rel, session) in [
        ("projects/tasks/a.jsonl", "a"),
        ("projects/todos/b.jsonl", "b"),
        ("projects/plans/u/subagents/agent-c.jsonl", "c"),
        ("projects/memory/d.jsonl", "d"),
        ("projects/projects/e.jsonl", "e"),
    ] {
        put(&root.join(rel), &line(session, "said"));
    }
    put(&root.join("tasks/list/1.json"), b"{}");
    put(&root.join("todos/x.jsonl"), &line("never", "no session"));
    let run = with_claude(&sandbox, &root, &["index"]).expect(0);
    assert_eq!(run.number("/captured/captures"), 7);
    assert_eq!(run.number("/archived/messages"), 5);
    assert!(sandbox.named("never").is_empty());
    let check = with_claude(&sandbox, &root, &["doctor", "check"]).expect(0);
    assert!(
        !check.stdout.contains("captured-not-archived"),
        "{}",
        check.stdout
    );
    let again = with_claude(&sandbox, &root, &["index"]).expect(0);
    assert_eq!(again.text("/status"), "no-op");
}

#[test]
fn a_root_that_a_setting_names_and_that_is_missing_is_said_and_nothing_is_called_gone() {
    let sandbox = Sandbox::new();
    let root = sandbox.path().join("disk/claude");
    let session = root.join("projects/-p/a.jsonl");
    put(&session, &line("a", "hello"));
    let run = with_claude(&sandbox, &root, &["index"]).expect(0);
    assert_eq!(run.number("/notes_total"), 0);
    let away = sandbox.path().join("unmounted");
    std::fs::rename(sandbox.path().join("disk"), &away).unwrap();

    let run = with_claude(&sandbox, &root, &["index"]).expect(0);
    assert_eq!(run.text("/status"), "no-op");
    assert_eq!(run.number("/notes_total"), 1);
    assert_eq!(run.text("/notes/0/code"), "root-absent");
    assert_eq!(run.text("/notes/0/severity"), "warn");
    assert_eq!(run.text("/notes/0/path"), root.to_str().unwrap());
    assert_eq!(run.number("/sources/gone"), 0);
    assert_eq!(run.number("/sources/out_of_sight"), 1);
    let text = sandbox
        .command(&["index"])
        .env("CLAUDE_CONFIG_DIR", &root)
        .output()
        .unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("a setting names this folder"), "{text}");
    assert!(
        text.contains("1 captured before and not looked at"),
        "{text}"
    );

    let check = with_claude(&sandbox, &root, &["doctor", "check"]).expect(0);
    assert!(check.stdout.contains("root-absent"), "{}", check.stdout);
    assert!(!check.stdout.contains("source-pruned"), "{}", check.stdout);

    // A root that no setting names any more is out of sight as well.
    let run = sandbox.run(&["index"]).expect(0);
    assert_eq!(run.number("/notes_total"), 0);
    assert_eq!(run.number("/sources/out_of_sight"), 1);

    // An empty folder in its place was looked into.
    std::fs::create_dir_all(&root).unwrap();
    let run = with_claude(&sandbox, &root, &["index"]).expect(0);
    assert_eq!(run.number("/sources/gone"), 1);
    assert_eq!(run.number("/sources/out_of_sight"), 0);
    assert_eq!(sandbox.sessions().len(), 1);
}

#[test]
fn a_missing_extra_root_of_the_settings_is_said() {
    let sandbox = Sandbox::new();
    sandbox.put(
        ".config/cass/config.toml",
        b"[[roots]]\nprovider = \"codex\"\npath = \"~/elsewhere\"\n",
    );
    sandbox.put(".claude/projects/-p/a.jsonl", &line("a", "hello"));
    let run = sandbox.run(&["index"]).expect(0);
    assert_eq!(run.text("/notes/0/code"), "root-absent");
    assert_eq!(run.text("/notes/0/provider"), "codex");
    assert_eq!(run.number("/notes_total"), 1);
}

#[test]
fn links_and_special_files_are_notes() {
    let sandbox = Sandbox::new();
    let real = sandbox.put("work/a.jsonl", &line("a", "hello"));
    let project = sandbox.home().join(".claude/projects/-p");
    std::fs::create_dir_all(&project).unwrap();
    let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at);
    link(real.parent().unwrap(), &project.with_file_name("-linked")).unwrap();
    link(real.parent().unwrap(), &project.with_file_name("-twice")).unwrap();
    link(&real, &project.join("b.jsonl")).unwrap();
    let run = sandbox.run(&["index"]).expect(0);
    let notes: Vec<(String, String)> = run
        .at("/notes")
        .as_array()
        .unwrap()
        .iter()
        .map(|n| {
            let name = Path::new(n["path"].as_str().unwrap()).file_name().unwrap();
            let code = n["code"].as_str().unwrap();
            (name.to_str().unwrap().to_owned(), code.to_owned())
        })
        .collect();
    let want = [
        ("-linked", "link-followed"),
        ("b.jsonl", "link-skipped"),
        ("-twice", "link-seen"),
    ];
    assert_eq!(notes, want.map(|(n, c)| (n.to_owned(), c.to_owned())));
}
