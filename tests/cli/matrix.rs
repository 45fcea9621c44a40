//! Every command in every state of its surroundings: one document, a truthful exit, no hang.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::sandbox::{Run, Sandbox, every_command, finish};

/// What every run must keep to, whatever it did.
fn one_document(run: &Run, what: &str) -> serde_json::Value {
    let value = run.document();
    let failed = value.get("err").is_some();
    assert!(
        !(run.code == 0 && failed),
        "{what}: exit 0 with err: {value}"
    );
    assert!(!run.stderr.contains("a bug"), "{what}: {}", run.stderr);
    value
}

fn json(mut words: Vec<std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    words.push("--json".into());
    words
}

#[test]
fn where_nothing_was_ever_done() {
    for words in every_command() {
        let sandbox = Sandbox::new();
        let run = sandbox.run(json(words.clone()));
        one_document(&run, &format!("{words:?}"));
        if words[0] != "index" {
            assert!(
                !sandbox.data().exists(),
                "{words:?} made the data directory"
            );
        }
    }
    for words in [
        &["sessions", "list"][..],
        &["sessions", "show", "x"],
        &["search", "x"],
        &["export", "x", "--format", "json"],
        &["mirror", "verify"],
        &["mirror", "get", "/x", "-o", "f"],
    ] {
        let run = Sandbox::new().run(words.iter().chain(&["--json"]));
        assert_eq!(run.code, 3, "{words:?}");
        let value = run.document();
        assert_eq!(value["err"]["kind"], "not-initialized");
        assert_eq!(
            value["recommended_commands"][0]["argv"],
            serde_json::json!(["cass", "index"])
        );
    }
}

#[test]
fn where_sessions_are_indexed() {
    let sandbox = Sandbox::new();
    let project = sandbox.home().join(".claude/projects/-p");
    std::fs::create_dir_all(&project).unwrap();
    let id = "0b7a7a3e-1111-4222-8333-444455556666";
    // A title that a terminal would act on.
    let line = format!(
        "{{\"type\":\"user\",\"sessionId\":\"{id}\",\"uuid\":\"u1\",\"parentUuid\":null,\
         \"cwd\":\"/w\\u001b[31m\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\
         \"message\":{{\"role\":\"user\",\"content\":\"a \\u001b]0;t\\u0007\\u202e b\"}}}}\n"
    );
    let source = project.join(format!("{id}.jsonl"));
    std::fs::write(&source, line).unwrap();
    let run = sandbox.run(["index", "--json"]);
    let value = one_document(&run, "index");
    assert_eq!(
        (run.code, &value["status"]),
        (0, &"applied".into()),
        "{value}"
    );
    let run = sandbox.run(["index", "--json"]);
    let value = one_document(&run, "index again");
    assert_eq!(
        (run.code, &value["status"]),
        (0, &"no-op".into()),
        "{value}"
    );

    sandbox.back_up_and_restore();
    for mut words in every_command() {
        for word in &mut words {
            match word.to_str() {
                Some("0011") => *word = id.into(),
                Some("/no/such") => *word = source.clone().into(),
                Some("/no/such@1") => *word = format!("{}@1", source.display()).into(),
                _ => {}
            }
        }
        let run = sandbox.run(json(words.clone()));
        let value = one_document(&run, &format!("{words:?}"));
        assert_eq!(run.code, 0, "{words:?}: {value}");
        for name in [
            "out-restored",
            "out-raw",
            "out.json",
            "out.md",
            "out.html",
            "got",
        ] {
            let made = sandbox.cwd().join(name);
            let _ = std::fs::remove_dir_all(&made).or_else(|_| std::fs::remove_file(&made));
        }
        let run = sandbox.run(&words);
        assert_eq!(run.code, 0, "{words:?}: {}", run.stderr);
        let is_json = words.contains(&"json".into()) && !words.contains(&"-o".into());
        if !is_json {
            super::hostile::nothing_raw(&run);
        }
        if !is_json && !words.contains(&"--help".into()) {
            let text = String::from_utf8_lossy(&run.stdout);
            assert!(text.lines().count() <= 40, "{words:?}: {text}");
        }
    }
}

/// The signal comes when the mirror was begun, so the handlers are in place and sources remain.
#[test]
fn a_signal_leaves_a_partial_document_and_the_next_run_goes_on() {
    for (signal, code) in [
        (rustix::process::Signal::INT, 130),
        (rustix::process::Signal::TERM, 143),
    ] {
        let sandbox = Sandbox::new();
        let project = sandbox.home().join(".claude/projects/-p");
        std::fs::create_dir_all(&project).unwrap();
        for n in 0..200 {
            let line = format!(
                "{{\"type\":\"user\",\"sessionId\":\"s{n}\",\"uuid\":\"u{n}\",\
                 \"message\":{{\"role\":\"user\",\"content\":\"hello\"}}}}\n"
            );
            std::fs::write(project.join(format!("s{n}.jsonl")), line).unwrap();
        }
        let mut command = sandbox.command(["index", "--json"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !sandbox.data().join("raw-mirror/FORMAT").exists() {
            assert!(
                child.try_wait().unwrap().is_none(),
                "it ended before it began"
            );
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        let run = finish(child.wait_with_output().unwrap());
        let value = one_document(&run, "index, interrupted");
        assert_eq!(run.code, code, "{value}");
        assert_eq!(value["status"], "partial");
        assert_eq!(value["operation_outcome"]["kind"], "interrupted");
        assert_eq!(value["recommended_action"], "retry");

        let run = sandbox.run(["index", "--json"]);
        let value = one_document(&run, "index, again");
        assert_eq!(run.code, 0, "{value}");
        let value = sandbox
            .run(["sessions", "list", "--limit", "1", "--json"])
            .document();
        assert_eq!(value["total"], 200);
    }
}

#[test]
fn where_an_archive_was_and_is_gone() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.data()).unwrap();
    std::fs::write(sandbox.data().join("coverage.jsonl"), "").unwrap();
    for words in [
        &["sessions", "list"][..],
        &["health"],
        &["export", "x", "--format", "raw"],
    ] {
        let run = sandbox.run(words.iter().chain(&["--json"]));
        let value = one_document(&run, &format!("{words:?}"));
        assert_eq!(run.code, 1, "{value}");
        let mutating = words[0] == "export";
        assert_eq!(value["status"], if mutating { "failed" } else { "error" });
    }
}

#[test]
fn where_another_program_keeps_its_archive() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.data()).unwrap();
    std::fs::write(sandbox.data().join("agent_search.db"), "theirs").unwrap();
    for words in [
        &["sessions", "list"][..],
        &["sessions", "show", "x"],
        &["health"],
    ] {
        let run = sandbox.run(words.iter().chain(&["--json"]));
        one_document(&run, &format!("{words:?}"));
        assert_eq!(run.code, 6, "{words:?}");
    }
    assert_eq!(
        std::fs::read(sandbox.data().join("agent_search.db")).unwrap(),
        b"theirs"
    );
}

#[test]
fn where_another_process_writes() {
    let sandbox = Sandbox::new();
    let root = cass::disk::Root::open_or_create(&sandbox.data()).unwrap();
    let lock = cass::disk::WriterLock::acquire(root, "index", 1).unwrap();
    let before = sandbox.names();
    let run = sandbox.run(["health", "--json"]);
    let value = one_document(&run, "health");
    assert_eq!(value["writer_active"], true);
    assert_eq!(value["owner"]["pid"], std::process::id());
    assert_eq!(value["owner"]["command"], "index");
    let run = sandbox.run(["index", "--json"]);
    let value = one_document(&run, "index");
    assert_eq!(run.code, 7, "{value}");
    assert_eq!(value["status"], "blocked");
    assert_eq!(value["err"]["kind"], "lock-busy");
    assert_eq!(value["err"]["retryable"], true);
    assert_eq!(
        value["err"]["context"]["owner_pid"],
        std::process::id().to_string()
    );
    assert!(value["operation_outcome"]["retry_after_ms"].is_u64());
    drop(lock);
    // A process that another test is just starting may hold our descriptor until it has begun.
    let begun = Instant::now();
    loop {
        let value = sandbox.run(["health", "--json"]).document();
        if value["writer_active"] == false {
            assert_eq!(value["owner"], serde_json::Value::Null);
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{value}");
    }
    assert_eq!(sandbox.names(), before, "looking left a trace");
}

#[test]
fn where_the_data_directory_is_a_file() {
    let sandbox = Sandbox::new();
    std::fs::write(sandbox.data(), "no folder").unwrap();
    for words in every_command() {
        let run = sandbox.run(json(words.clone()));
        let value = one_document(&run, &format!("{words:?}"));
        if words[0] == "sessions" {
            assert_ne!(run.code, 0, "{value}");
        }
    }
    assert_eq!(std::fs::read(sandbox.data()).unwrap(), b"no folder");
}

#[test]
fn without_a_home() {
    let sandbox = Sandbox::new();
    for words in every_command() {
        let mut command = sandbox.command(json(words.clone()));
        command.env_remove("HOME").env_remove("CASS_DATA_DIR");
        let run = finish(command.output().unwrap());
        one_document(&run, &format!("{words:?}"));
    }
}

#[test]
fn a_reader_that_went_away_is_no_reason_to_complain() {
    let sandbox = Sandbox::new();
    for words in every_command() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = sandbox.command(json(words.clone()));
        command.stdout(OwnedFd::from(writer)).stderr(Stdio::piped());
        let run = finish(command.spawn().unwrap().wait_with_output().unwrap());
        assert_eq!(run.stderr, "", "{words:?}");
        assert!(run.code >= 0, "{words:?} was killed");
    }
}

#[test]
fn a_closed_stdout_does_not_hang_or_crash() {
    let sandbox = Sandbox::new();
    for words in every_command() {
        let mut command = std::process::Command::new("/bin/sh");
        command
            .args([
                "-c",
                "exec \"$0\" \"$@\" >&- 2>/dev/null",
                env!("CARGO_BIN_EXE_cass"),
            ])
            .args(json(words.clone()))
            .env_clear()
            .env("HOME", sandbox.home())
            .env("CASS_DATA_DIR", sandbox.data())
            .current_dir(sandbox.cwd())
            .stdin(Stdio::null());
        let run = finish(command.output().unwrap());
        assert!(run.code >= 0, "{words:?} was killed");
    }
}

#[test]
fn nobody_waits_for_stdin() {
    let sandbox = Sandbox::new();
    let begun = Instant::now();
    for words in every_command() {
        // Open and silent for as long as the command runs.
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = sandbox.command(json(words.clone()));
        command
            .stdin(OwnedFd::from(reader))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let run = finish(command.spawn().unwrap().wait_with_output().unwrap());
        drop(writer);
        one_document(&run, &format!("{words:?}"));
    }
    // Far above what they need, far below what a wait would take.
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_stdout_is_told() {
    let sandbox = Sandbox::new();
    for words in every_command() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.command(json(words.clone()));
        command.stdout(full).stderr(Stdio::piped());
        let run = finish(command.spawn().unwrap().wait_with_output().unwrap());
        assert_eq!(run.code, 9, "{words:?}");
        assert!(
            run.stderr.contains("stdout could not be written"),
            "{words:?}: {}",
            run.stderr
        );
    }
}

#[test]
fn a_large_document_comes_whole_through_a_slow_pipe() {
    let sandbox = Sandbox::new();
    let whole = sandbox.run(["introspect", "--json"]).stdout;
    assert!(
        whole.len() > 1 << 16,
        "not larger than a pipe: {}",
        whole.len()
    );
    for non_blocking in [false, true] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        if non_blocking {
            // As some parents leave it: the flag is shared by both processes' ends.
            let flags = rustix::fs::fcntl_getfl(&writer).unwrap();
            rustix::fs::fcntl_setfl(&writer, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        }
        let mut command = sandbox.command(["introspect", "--json"]);
        let mut child = command.stdout(OwnedFd::from(writer)).spawn().unwrap();
        drop(command);
        let mut got = Vec::new();
        let mut part = [0u8; 1000];
        loop {
            match reader.read(&mut part).unwrap() {
                0 => break,
                n => got.extend_from_slice(&part[..n]),
            }
        }
        assert!(child.wait().unwrap().success());
        assert!(got == whole, "{} of {} bytes", got.len(), whole.len());
    }
}

/// Also a document that is written as it is made: nothing of it may keep the process.
#[test]
fn a_signal_ends_a_command_whose_reader_does_not_read() {
    let sandbox = Sandbox::new();
    let project = sandbox.home().join(".claude/projects/-p");
    std::fs::create_dir_all(&project).unwrap();
    let id = "0b7a7a3e-1111-4222-8333-444455556666";
    let text = "x".repeat(1000);
    let lines: String = (0..400)
        .map(|n| {
            format!(
                "{{\"type\":\"user\",\"sessionId\":\"{id}\",\"uuid\":\"u{n}\",\
                 \"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
            )
        })
        .collect();
    std::fs::write(project.join(format!("{id}.jsonl")), lines).unwrap();
    assert_eq!(sandbox.run(["index"]).code, 0);
    let mut children = Vec::new();
    let introspect = ["introspect", "--json"];
    let export = ["export", id, "--format", "json"];
    let (int, term) = (rustix::process::Signal::INT, rustix::process::Signal::TERM);
    for (words, signal, code) in [
        (&introspect[..], int, 130),
        (&introspect, term, 143),
        (&export, int, 130),
        (&export, term, 143),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = sandbox.command(words);
        let child = command.stdout(OwnedFd::from(writer)).spawn().unwrap();
        drop(command);
        let mut first = [0u8; 1];
        (&reader).read_exact(&mut first).unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        // It has begun to write and the pipe is smaller than the document.
        rustix::process::kill_process(pid, signal).unwrap();
        // The reader stays: this is not the end of the pipe.
        children.push((words, code, child, reader));
    }
    let begun = Instant::now();
    for (words, code, mut child, _reader) in children {
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it still runs");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(code), "{words:?}");
    }
}

/// Who does not read at first and then does gets the whole document, signal or not.
#[test]
fn a_signal_does_not_cut_a_document_that_is_read() {
    let sandbox = Sandbox::new();
    let whole = sandbox.run(["introspect", "--json"]).stdout;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = sandbox.command(["introspect", "--json"]);
    let mut child = command.stdout(OwnedFd::from(writer)).spawn().unwrap();
    drop(command);
    let mut got = vec![0u8; 1];
    reader.read_exact(&mut got).unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    reader.read_to_end(&mut got).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(got == whole, "{} of {} bytes", got.len(), whole.len());
}

#[test]
fn quiet_says_nothing_and_json_is_compact_where_no_terminal_is() {
    let sandbox = Sandbox::new();
    let run = sandbox.run(["health", "--quiet"]);
    assert_eq!(
        (run.code, run.stdout.len(), run.stderr.as_str()),
        (0, 0, "")
    );
    let run = sandbox.run(["health", "--json"]);
    assert_eq!(run.stdout.iter().filter(|b| **b == b'\n').count(), 1);
}

#[test]
fn two_hundred_runs_give_the_same_bytes() {
    let sandbox = Sandbox::new();
    let first = sandbox.run(["introspect", "--commands", "--json"]).stdout;
    for _ in 0..20 {
        let runs: Vec<_> = (0..10)
            .map(|_| {
                sandbox
                    .command(["introspect", "--commands", "--json"])
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for run in runs {
            assert_eq!(finish(run.wait_with_output().unwrap()).stdout, first);
        }
    }
}

#[test]
fn a_named_data_dir_is_in_every_recommended_command() {
    let sandbox = Sandbox::new();
    let dir = sandbox.cwd().join("-a dir; with 'traps'\n");
    let mut arg = std::ffi::OsString::from("--data-dir=");
    arg.push(&dir);
    let run = sandbox.run([arg, "health".into(), "--json".into()]);
    let value = run.document();
    let argv = value["recommended_commands"][0]["argv"].as_array().unwrap();
    assert_eq!(argv[1], format!("--data-dir={}", dir.display()));
    // A relative one is made absolute: the command may be run elsewhere.
    let run = sandbox.run(["--data-dir", "rel", "health", "--json"]);
    let expected = std::fs::canonicalize(sandbox.cwd()).unwrap().join("rel");
    let value = run.document();
    let word = value["recommended_commands"][0]["argv"][1]
        .as_str()
        .unwrap();
    assert_eq!(word, format!("--data-dir={}", expected.display()));
}

#[test]
fn no_document_shows_the_home_folder() {
    let sandbox = Sandbox::new();
    for words in every_command() {
        let mut command = sandbox.command(json(words.clone()));
        command.env_remove("CASS_DATA_DIR");
        let run = finish(command.output().unwrap());
        let home = sandbox.home();
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(!text.contains(home.to_str().unwrap()), "{words:?}: {text}");
        assert!(!run.stderr.contains(home.to_str().unwrap()), "{words:?}");
    }
}
