//! Handing out: all of it or nothing, never over what is there, and a refusal that says why.

use std::os::unix::fs::symlink;

use crate::sandbox::{Sandbox, snapshot};

fn record(session: &str, id: &str, text: &str) -> String {
    format!(
        "{{\"parentUuid\":null,\"sessionId\":\"{session}\",\"type\":\"user\",\"uuid\":\"{id}\",\
         \"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n"
    )
}

/// A session whose file was rewritten twice: an export is three files.
fn rewritten() -> Sandbox {
    let sandbox = Sandbox::new();
    for text in ["first", "another", "the last"] {
        sandbox.put(
            ".claude/projects/-p/S.jsonl",
            record("S", text, text).as_bytes(),
        );
        sandbox.run(&["index"]).expect(0);
    }
    sandbox
}

const FILES: [&str; 3] = ["S.jsonl", "S.jsonl.capture-1", "S.jsonl.capture-2"];

#[test]
fn an_export_with_any_name_taken_writes_nothing() {
    for taken in FILES {
        let sandbox = rewritten();
        let out = sandbox.path().join("out");
        std::fs::create_dir(&out).unwrap();
        std::fs::write(out.join(taken), "mine").unwrap();
        std::fs::write(out.join("beside"), "mine").unwrap();
        let before = snapshot(&out);
        let id = sandbox.named("S")[0]["id"].as_str().unwrap().to_owned();
        let run = sandbox
            .run(&[
                "export",
                &id,
                "--format",
                "raw",
                "-o",
                out.to_str().unwrap(),
            ])
            .expect(2);
        assert_eq!(run.text("/err/kind"), "target-exists");
        assert!(run.text("/err/message").contains(taken), "{}", run.stdout);
        assert_eq!(snapshot(&out), before, "{taken}");

        // Without it, everything comes, and what was beside it stays.
        std::fs::remove_file(out.join(taken)).unwrap();
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
        for file in FILES {
            assert!(out.join(file).is_file(), "{file}");
        }
        assert_eq!(std::fs::read(out.join("beside")).unwrap(), b"mine");
    }
}

#[test]
fn an_export_that_fails_in_the_middle_leaves_nothing() {
    let sandbox = rewritten();
    // The newest capture can't be read any more: its object's bytes in the pack are changed.
    let pack = sandbox.data().join("raw-mirror/packs");
    let pack = std::fs::read_dir(pack)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = std::fs::read(&pack).unwrap();
    let id = sandbox.named("S")[0]["id"].as_str().unwrap().to_owned();
    let out = sandbox.path().join("out");
    let arguments = [
        "export",
        &id,
        "--format",
        "raw",
        "-o",
        out.to_str().unwrap(),
    ];
    let mut failed = 0;
    let whole = bytes.clone();
    for at in (0..whole.len()).step_by(7) {
        bytes[at] ^= 0x55;
        std::fs::write(&pack, &bytes).unwrap();
        let run = sandbox.run(&arguments);
        if run.code == 0 {
            assert_eq!(std::fs::read_dir(&out).unwrap().count(), 3);
            std::fs::remove_dir_all(&out).unwrap();
        } else {
            failed += 1;
            assert_eq!(run.code, 23, "{}", run.stdout);
            assert!(!out.exists(), "{at}: {}", run.stdout);
        }
        bytes[at] ^= 0x55;
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn a_target_that_can_be_typed_right_is_a_usage_error_and_says_what_is_wrong() {
    let sandbox = rewritten();
    let id = sandbox.named("S")[0]["id"].as_str().unwrap().to_owned();
    let source = sandbox.home().join(".claude/projects/-p/S.jsonl");
    let at = |name: &str| sandbox.path().join(name);
    std::fs::write(at("file"), "mine").unwrap();
    symlink("nothing", at("dangling")).unwrap();
    let before = snapshot(sandbox.path());
    for (name, words) in [
        ("file", "exists already"),
        ("dangling", "exists already"),
        ("nodir/x", "is not there"),
        ("file/x", "is not a folder"),
        ("dangling/x", "is not there"),
    ] {
        let target = at(name);
        let target = target.to_str().unwrap();
        for args in [
            vec!["export", &id, "--format", "raw", "-o", target],
            vec!["export", &id, "--format", "json", "-o", target],
            vec!["mirror", "get", source.to_str().unwrap(), "-o", target],
        ] {
            let run = sandbox.run(&args).expect(2);
            let message = run.text("/err/message");
            assert!(message.contains(words), "{args:?}: {message}");
            assert_eq!(message.matches(name.split('/').next().unwrap()).count(), 1);
        }
    }
    assert_eq!(snapshot(sandbox.path()), before);
}

#[test]
fn a_data_directory_that_is_no_folder_is_a_usage_error() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.path().join(name);
    std::fs::write(at("file"), "mine").unwrap();
    symlink("nothing", at("dangling")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let before = snapshot(sandbox.path());
    for name in ["file", "dangling", "loop", "file/x", "loop/x"] {
        let dir = at(name);
        for words in [&["index"][..], &["sessions", "list"], &["mirror", "verify"]] {
            let run = sandbox
                .run(&[words, &["--data-dir", dir.to_str().unwrap()]].concat())
                .expect(2);
            assert_eq!(run.text("/err/kind"), "unsafe-target", "{name} {words:?}");
        }
    }
    let below = at("dangling/x");
    let run = sandbox
        .run(&["index", "--data-dir", below.to_str().unwrap()])
        .expect(2);
    assert_eq!(run.text("/err/kind"), "unsafe-target");
    assert_eq!(snapshot(sandbox.path()), before);
}

/// I11: what people read names no home folder, whichever of its names a message holds.
#[test]
fn a_failure_shows_the_home_folder_as_a_tilde() {
    let sandbox = Sandbox::new();
    sandbox.put(
        ".claude/projects/-p/S.jsonl",
        record("S", "u", "one").as_bytes(),
    );
    let link = sandbox.path().join("link");
    symlink("home", &link).unwrap();
    let run = |args: &[&str]| {
        let mut c = sandbox.command(args);
        c.env_remove("CASS_DATA_DIR").env("HOME", &link);
        let out = c.output().unwrap();
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    assert_eq!(run(&["index"]).0, Some(0));
    let data = sandbox.home().join(".local/share/cass");
    std::fs::remove_file(data.join("generations/g00000001/agent_search.db")).unwrap();
    let missing = run(&["sessions", "list"]);
    let typed = format!("--nothing={}/x", link.display());
    for (code, (got, text), words) in [
        (1, missing, "~/.local/share/cass"),
        (2, run(&["index", link.join("x").to_str().unwrap()]), "~/x"),
        (2, run(&["index", &typed]), "error"),
    ] {
        assert_eq!(got, Some(code), "{text}");
        assert!(text.contains(words), "{text}");
        assert!(!text.contains(sandbox.path().to_str().unwrap()), "{text}");
    }
}
