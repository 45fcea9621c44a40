//! Files that are no ordinary session: what is taken, what is reported, what is never opened.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, age, content, files_below, ledgers, mode, sample, snapshot};

const LINE: &[u8] = b"{\"type\":\"user\",\"uuid\":\"u1\",\"sessionId\":\"s1\",\"message\":{\"role\":\"user\",\"content\":\"hello\"}}\n";

fn failures(ran: &Ran) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    ran.at("/failures")
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (text(&f["path"]), text(&f["kind"])))
        .collect()
}

#[test]
fn what_is_no_regular_file_is_never_opened_and_stops_nothing() {
    let sandbox = Sandbox::new();
    let good = sandbox.put(".claude/projects/-p/good.jsonl", LINE);
    let dir = good.parent().unwrap().to_path_buf();
    // A reader that opened the FIFO would wait here for ever.
    mknodat(
        CWD,
        dir.join("fifo.jsonl"),
        FileType::Fifo,
        Mode::RUSR | Mode::WUSR,
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.join("socket.jsonl")).unwrap();
    // Only root may make a device; elsewhere the others have to do.
    let device = rustix::fs::makedev(1, 3);
    let _ = mknodat(
        CWD,
        dir.join("device.jsonl"),
        FileType::CharacterDevice,
        Mode::RUSR,
        device,
    );
    symlink("loop-b.jsonl", dir.join("loop-a.jsonl")).unwrap();
    symlink("loop-a.jsonl", dir.join("loop-b.jsonl")).unwrap();
    symlink(&good, dir.join("link.jsonl")).unwrap();
    symlink("nowhere", dir.join("dangling.jsonl")).unwrap();
    symlink("..", dir.join("folder-loop")).unwrap();
    std::fs::create_dir(dir.join("folder.jsonl")).unwrap();

    let first = sandbox.run(&["index"]).expect(0);
    assert_eq!(first.number("/sources/captured"), 1);
    assert_eq!(failures(&first), []);
    assert_eq!(ledgers(&sandbox), [good]);
    assert_eq!(sandbox.run(&["index"]).expect(0).text("/status"), "no-op");
}

#[test]
fn a_linked_root_and_a_linked_project_are_followed_once() {
    let sandbox = Sandbox::new();
    let elsewhere = sandbox.path().join("elsewhere");
    std::fs::create_dir_all(elsewhere.join("root/projects/-own")).unwrap();
    std::fs::create_dir_all(elsewhere.join("project")).unwrap();
    std::fs::write(elsewhere.join("root/projects/-own/a.jsonl"), LINE).unwrap();
    std::fs::write(
        elsewhere.join("project/b.jsonl"),
        sample("claude/episodic-memory/tiny-conversation.jsonl"),
    )
    .unwrap();
    symlink(elsewhere.join("root"), sandbox.home().join(".claude")).unwrap();
    let projects = sandbox.home().join(".claude/projects");
    symlink(elsewhere.join("project"), projects.join("linked")).unwrap();
    symlink(elsewhere.join("project"), projects.join("linked-too")).unwrap();
    symlink(&projects, projects.join("loop")).unwrap();
    // Below a project nothing is followed, wherever it leads.
    symlink(elsewhere.join("project"), projects.join("-own/deep")).unwrap();

    let first = sandbox.run(&["index"]).expect(0);
    assert_eq!(first.number("/sources/captured"), 2);
    // Named as the harness names them, not by where the links lead.
    assert_eq!(
        ledgers(&sandbox),
        [
            projects.join("-own/a.jsonl"),
            projects.join("linked/b.jsonl")
        ]
    );
    assert_eq!(sandbox.run(&["index"]).expect(0).text("/status"), "no-op");
}

#[test]
fn what_may_not_be_read_is_a_failure_that_names_it_and_the_others_are_safe() {
    let sandbox = Sandbox::new();
    let good = sandbox.put(".claude/projects/-p/good.jsonl", LINE);
    let shut = sandbox.put(
        ".claude/projects/-p/shut.jsonl",
        b"{\"type\":\"user\",\"uuid\":\"u2\"}\n",
    );
    let inside = sandbox.put(".claude/projects/-shut/inside.jsonl", b"{}\n");
    let folder = inside.parent().unwrap().to_path_buf();
    mode(&shut, 0);
    mode(&folder, 0);
    mode(sandbox.path(), 0o755);
    let Some(first) = sandbox.run_as_nobody(&["index"]) else {
        println!("passed over: setpriv is missing");
        return;
    };
    let first = first.expect(8);
    assert_eq!(first.text("/status"), "partial");
    assert_eq!(first.text("/err/kind"), "sources-failed");
    let names: Vec<String> = failures(&first).into_iter().map(|(path, _)| path).collect();
    assert_eq!(names, [shut.to_str().unwrap(), folder.to_str().unwrap()]);
    assert_eq!(first.number("/sources/captured"), 1);
    assert_eq!(ledgers(&sandbox), [good]);

    // It goes on as soon as it may.
    mode(&shut, 0o600);
    mode(&folder, 0o700);
    let second = sandbox.run_as_nobody(&["index"]).unwrap().expect(0);
    assert_eq!(second.number("/sources/captured"), 2);
}

#[test]
fn a_name_that_is_not_utf8_is_a_name_like_any_other() {
    let sandbox = Sandbox::new();
    let dir = sandbox.home().join(".claude/projects/-p");
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join(OsStr::from_bytes(b"caf\xe9-\xff.jsonl"));
    std::fs::write(&path, LINE).unwrap();
    age(&path, 3600);
    sandbox.run(&["index"]).expect(0);
    assert_eq!(&ledgers(&sandbox)[..], std::slice::from_ref(&path));
    assert!(sandbox.get(&path, 1) == LINE);
    let id = sandbox.named("s1")[0]["id"].as_str().unwrap().to_owned();
    let shown = sandbox.run(&["sessions", "show", &id]).expect(0);
    assert!(
        shown
            .text("/sources/0/path_hex")
            .ends_with("636166e92dff2e6a736f6e6c")
    );
    let out = sandbox.path().join("raw");
    sandbox
        .run(&[
            "export",
            &id,
            "--format",
            "raw",
            "-o",
            out.to_str().unwrap(),
        ])
        .expect(0);
    let files = files_below(&out);
    assert_eq!(files.len(), 1);
    assert!(std::fs::read(&files[0]).unwrap() == LINE);
}

#[test]
fn a_path_of_four_thousand_bytes_and_a_longer_one() {
    let sandbox = Sandbox::new();
    let top = sandbox.home().join(".claude/projects");
    std::fs::create_dir_all(&top).unwrap();
    // The longest path that a system call takes has 4,095 bytes.
    let name = "s.jsonl";
    let mut path = top.clone();
    while path.as_os_str().len() + 1 + name.len() < 4000 {
        let left = 4000 - path.as_os_str().len() - 1 - name.len() - 1;
        path.push("d".repeat(left.min(200)));
    }
    std::fs::create_dir_all(&path).unwrap();
    path.push(name);
    assert!(
        (3990..=4095).contains(&path.as_os_str().len()),
        "{}",
        path.as_os_str().len()
    );
    std::fs::write(&path, LINE).unwrap();
    age(&path, 3600);

    // One that no system call takes whole: made step by step.
    let long = top.join("e");
    std::fs::create_dir(&long).unwrap();
    let mut at = rustix::fs::open(&long, OFlags::DIRECTORY, Mode::empty()).unwrap();
    let step = "e".repeat(200);
    for _ in 0..22 {
        rustix::fs::mkdirat(&at, &step, Mode::RWXU).unwrap();
        at = rustix::fs::openat(&at, &step, OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let flags = OFlags::CREATE | OFlags::WRONLY;
    let deep = rustix::fs::openat(&at, name, flags, Mode::RUSR | Mode::WUSR).unwrap();
    rustix::io::write(&deep, LINE).unwrap();

    let ran = sandbox.run(&["index"]);
    assert_eq!(sandbox.captures(&path).len(), 1, "{}", ran.stdout);
    assert!(sandbox.get(&path, 1) == LINE);
    // The longer one is either captured or named; it is never passed over in silence.
    if ran.code == 0 {
        assert_eq!(ran.number("/sources/captured"), 2);
    } else {
        assert_eq!(ran.code, 8, "{}", ran.stdout);
        assert!(
            failures(&ran).iter().any(|(p, _)| p.contains(&step)),
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn empty_binary_and_foreign_contents() {
    let sandbox = Sandbox::new();
    let real = sample("claude/episodic-memory/tiny-conversation.jsonl");
    let crlf: Vec<u8> = [
        b"\xef\xbb\xbf".to_vec(),
        String::from_utf8(real.clone())
            .unwrap()
            .replace('\n', "\r\n")
            .into_bytes(),
    ]
    .concat();
    let noise: Vec<u8> = blake3::Hasher::new().finalize_xof().bytes_of(100_000);
    let cases: [(&str, Vec<u8>); 5] = [
        ("empty", Vec::new()),
        ("nul", vec![0; 8192]),
        ("binary", noise),
        ("crlf", crlf),
        ("plain", real),
    ];
    for (name, bytes) in &cases {
        let one = Sandbox::new();
        let path = one.put(&format!(".claude/projects/-p/{name}.jsonl"), bytes);
        let ran = one.run(&["index"]);
        let session = |of: &Sandbox| {
            let all = of.sessions();
            (
                all.len(),
                all.iter()
                    .map(|s| s["messages"].as_u64().unwrap())
                    .sum::<u64>(),
            )
        };
        assert_eq!(one.captures(&path).len(), 1, "{name}");
        assert!(one.get(&path, 1) == *bytes, "{name}");
        match *name {
            // Nothing was there to be read.
            "empty" => assert_eq!((ran.code, session(&one)), (0, (0, 0))),
            // Bytes and not one record: safe all the same. That nothing at all could be read of a
            // harness is for the check to say.
            "nul" | "binary" => {
                assert_eq!((ran.code, session(&one).1), (0, 0), "{name}");
                let check = one.run(&["doctor", "check"]).expect(1);
                let findings = check.at("/findings").as_array().unwrap();
                let parse = findings
                    .iter()
                    .find(|f| f["id"] == "sources.parse")
                    .unwrap_or_else(|| panic!("{}", check.stdout));
                assert_eq!(parse["severity"], "error", "{parse}");
            }
            _ => {
                assert_eq!(ran.code, 0, "{name}");
                sandbox.put(&format!(".claude/projects/-{name}/s.jsonl"), bytes);
                let (sessions, messages) = session(&one);
                assert!(sessions == 1 && messages > 4);
                let shown = one.run(&[
                    "sessions",
                    "show",
                    one.sessions()[0]["id"].as_str().unwrap(),
                ]);
                assert_eq!(shown.number("/skips_total"), 0);
            }
        }
    }
    // A byte-order mark and other line ends change no record: the second one says nothing new.
    let both = sandbox.run(&["index"]).expect(0);
    assert_eq!(both.number("/sources/captured"), 2);
    let sessions = sandbox.sessions();
    assert_eq!(sessions.len(), 1);
    let alone = Sandbox::new();
    alone.put(".claude/projects/-p/plain.jsonl", &cases[4].1);
    alone.run(&["index"]).expect(0);
    assert_eq!(sessions[0]["messages"], alone.sessions()[0]["messages"]);
}

trait BytesOf {
    fn bytes_of(self, len: usize) -> Vec<u8>;
}

impl BytesOf for blake3::OutputReader {
    fn bytes_of(mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.fill(&mut bytes);
        bytes
    }
}

fn config(sandbox: &Sandbox, text: &str) {
    let path = sandbox.home().join(".config/cass/config.toml");
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Whether any file below `dir` holds `needle`, plain or in any pack's plain content.
fn holds(dir: &Path, needle: &str) -> bool {
    files_below(dir).iter().any(|file| {
        let bytes = std::fs::read(file).unwrap();
        file.to_string_lossy().contains(needle)
            || memchr::memmem::find(&bytes, needle.as_bytes()).is_some()
    })
}

#[test]
fn excluded_files_leave_nothing_at_all() {
    let sandbox = Sandbox::new();
    // Too short and too random to be compressed: it would stand in a pack as it is.
    let secret = blake3::hash(b"secret").to_hex().to_string();
    let secret = secret.as_str();
    let body = format!("{{\"type\":\"user\",\"uuid\":\"{secret}\",\"sessionId\":\"{secret}\"}}\n");
    sandbox.put(
        ".claude/projects/-private-secretname/a.jsonl",
        body.as_bytes(),
    );
    sandbox.put(".claude/projects/-p/secretname.jsonl", body.as_bytes());
    sandbox.put(".claude/todos/secretname.json", body.as_bytes());
    let good = sandbox.put(".claude/projects/-p/good.jsonl", LINE);
    config(
        &sandbox,
        "exclude = [\"~/.claude/projects/-private-secretname\", \"**/secretname.jsonl\", \"**/todos/**\"]",
    );
    let first = sandbox.run(&["index"]).expect(0);
    assert_eq!(ledgers(&sandbox), [good]);
    assert!(first.number("/sources/excluded") >= 3, "{}", first.stdout);
    for word in [secret, "secretname"] {
        assert!(!holds(&sandbox.data(), word), "{word}");
        assert!(!first.stdout.contains(word) && !first.stderr.contains(word));
    }
    // The search finds what was not excluded, so that it proves something.
    config(&sandbox, "exclude = []");
    sandbox.run(&["index"]).expect(0);
    assert!(holds(&sandbox.data(), secret) && holds(&sandbox.data(), "secretname"));
}

#[test]
fn settings_that_are_not_understood_capture_nothing() {
    for text in [
        "exclude = [",
        "exclud = [\"a\"]",
        "exclude = [\"a[\"]",
        "[[roots]]\nprovider = \"x\"\npath = \"/a\"",
    ] {
        let sandbox = Sandbox::new();
        sandbox.put(".claude/projects/-p/good.jsonl", LINE);
        config(&sandbox, text);
        let refused = sandbox.run(&["index"]).expect(2);
        assert_eq!(refused.text("/err/kind"), "config-invalid");
        assert!(!sandbox.data().exists(), "{text}");
    }
    // The same where there is a mirror already.
    let sandbox = Sandbox::new();
    sandbox.put(".claude/projects/-p/good.jsonl", LINE);
    sandbox.run(&["index"]).expect(0);
    let before = (content(&sandbox.data()), snapshot(&sandbox.home()));
    sandbox.put(".claude/projects/-p/new.jsonl", LINE);
    config(&sandbox, "exclude = [");
    sandbox.run(&["index"]).expect(2);
    assert_eq!(content(&sandbox.data()), before.0);
}

#[test]
fn a_database_is_captured_alone_when_a_file_beside_it_is_no_file() {
    let cases = [
        ("-wal", "link"),
        ("-wal", "fifo"),
        ("-wal", "folder"),
        ("-journal", "link"),
    ];
    for (suffix, what) in cases {
        let sandbox = Sandbox::new();
        let path = sandbox.home().join(".codex/state_5.sqlite");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let conn = rusqlite::Connection::open(&path).unwrap();
        conn.execute_batch("CREATE TABLE t(x); INSERT INTO t VALUES (1);")
            .unwrap();
        drop(conn);
        age(&path, 3600);
        let beside = path.with_extension(format!("sqlite{suffix}"));
        let theirs = sandbox.path().join("theirs");
        std::fs::write(&theirs, "not to be followed").unwrap();
        match what {
            "link" => symlink(&theirs, &beside).unwrap(),
            "fifo" => mknodat(CWD, &beside, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
            _ => std::fs::create_dir(&beside).unwrap(),
        }
        let case = format!("{what} as {suffix}");
        // It is said whenever it is met, not only when something was captured.
        for (status, captured) in [("applied", 1), ("no-op", 0)] {
            let run = sandbox.run(&["index"]);
            assert_eq!(
                (run.code, run.text("/status")),
                (0, status),
                "{case}: {}",
                run.stdout
            );
            assert_eq!(run.number("/sources/captured"), captured, "{case}");
            let notes = run.at("/notes").as_array().unwrap();
            let told = notes
                .iter()
                .any(|n| n["severity"] == "warn" && n["path"].as_str() == beside.to_str());
            assert!(told, "{case}: {}", run.stdout);
        }
        assert!(
            sandbox.get(&path, 1) == std::fs::read(&path).unwrap(),
            "{case}"
        );
        let captures = sandbox.captures(&path);
        assert_eq!(captures[0]["moving"], true, "{case}: {captures:?}");
        assert!(
            captures[0]["members"].as_array().is_none_or(Vec::is_empty),
            "{case}"
        );
        let check = sandbox.run(&["doctor", "check"]).expect(0);
        assert_eq!(check.text("/status"), "warn", "{case}");
        let findings = check.at("/findings").as_array().unwrap();
        let subject = format!("~/.codex/state_5.sqlite{suffix}");
        let named = findings.iter().any(|f| f["subject"] == subject.as_str());
        assert!(named, "{case}: {}", check.stdout);

        // A file there again belongs to the next capture.
        if what == "folder" {
            std::fs::remove_dir(&beside).unwrap();
        } else {
            std::fs::remove_file(&beside).unwrap();
        }
        std::fs::write(&beside, "a log").unwrap();
        age(&beside, 3600);
        sandbox.run(&["index"]).expect(0);
        let captures = sandbox.captures(&path);
        let last = captures.last().unwrap();
        assert_eq!(
            (captures.len(), &last["moving"]),
            (2, &Value::Bool(false)),
            "{case}"
        );
        assert_eq!(last["members"][0]["name"], suffix, "{case}");
    }
}

/// What an agent branches on: is anything lost, or is it only not as it was.
#[test]
fn a_torn_document_whose_older_version_is_archived_is_no_error() {
    for (harness, rel, text) in [
        (
            "gemini",
            ".gemini/tmp/h/chats/session-2026-01-02T03-04-aaaaaaaa.json",
            r#"{"sessionId":"one","projectHash":"h","startTime":"2026-01-02T03:04:05.000Z","lastUpdated":"2026-01-02T03:04:05.000Z","messages":[{"id":"m1","timestamp":"2026-01-02T03:04:05.000Z","type":"user","content":"hello"}]}"#,
        ),
        (
            "cline",
            ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1767225600000/api_conversation_history.json",
            r#"[{"role":"user","content":[{"type":"text","text":"hello"}],"ts":1767225600000}]"#,
        ),
    ] {
        let parse = |check: &Ran| {
            let findings = check.at("/findings").as_array().unwrap();
            let found = findings.iter().find(|f| f["id"] == "sources.parse");
            found.map(|f| f["severity"].as_str().unwrap().to_owned())
        };
        // Cut so early that no record of it is left.
        let torn = &text.as_bytes()[..12];
        let sandbox = Sandbox::new();
        sandbox.put(rel, text.as_bytes());
        sandbox.run(&["index"]).expect(0);
        let messages = sandbox.sessions()[0]["messages"].clone();
        assert_eq!(messages, 1, "{harness}");
        sandbox.put(rel, torn);
        sandbox.run(&["index"]).expect(0);
        assert_eq!(sandbox.sessions()[0]["messages"], messages, "{harness}");
        let check = sandbox.run(&["doctor", "check", "--deep"]);
        assert_eq!(
            (check.code, check.text("/status")),
            (0, "warn"),
            "{harness}: {}",
            check.stdout
        );
        assert_eq!(
            parse(&check).as_deref(),
            Some("warn"),
            "{harness}: {}",
            check.stdout
        );
        assert!(!check.stdout.contains(" 1 sources"), "{}", check.stdout);

        // One of which nothing was ever read is an error still.
        let sandbox = Sandbox::new();
        sandbox.put(rel, torn);
        sandbox.run(&["index"]).expect(0);
        let check = sandbox.run(&["doctor", "check"]).expect(1);
        assert_eq!(
            parse(&check).as_deref(),
            Some("error"),
            "{harness}: {}",
            check.stdout
        );
    }
}
