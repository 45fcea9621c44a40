//! Rules that keep folders out, and places where nothing of ours belongs.

use std::os::unix::fs::symlink;

use crate::sandbox::{Sandbox, content};

const LINE: &[u8] = b"{\"type\":\"user\",\"uuid\":\"u1\",\"sessionId\":\"s\",\"timestamp\":\"2026-11-01T10:00:00.000Z\",\"message\":{\"role\":\"user\",\"content\":\"private words\"}}\n";

fn with_rule(rule: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.put(
        ".config/cass/config.toml",
        format!("exclude = [\"{rule}\"]\n").as_bytes(),
    );
    sandbox.put(".claude/projects/-secret/s.jsonl", LINE);
    sandbox
}

#[test]
fn an_exclude_rule_holds_whatever_name_leads_there() {
    let rule = "~/.claude/projects/-secret";
    let plain = with_rule(rule);
    let linked = with_rule(rule);
    symlink("-secret", linked.home().join(".claude/projects/alias")).unwrap();
    for (sandbox, home, config_dir) in [
        (&plain, format!("{}/", plain.home().display()), None),
        (
            &plain,
            plain.home().display().to_string(),
            Some("x/../.claude"),
        ),
        (&linked, linked.home().display().to_string(), None),
    ] {
        let mut c = sandbox.command(&["index", "--json"]);
        c.env("HOME", &home);
        if let Some(dir) = config_dir {
            c.env("CLAUDE_CONFIG_DIR", sandbox.home().join(dir));
        }
        let run = crate::sandbox::ran(c.output().unwrap()).expect(0);
        assert_eq!(
            run.number("/captured/captures"),
            0,
            "{home}: {}",
            run.stdout
        );
        assert!(
            run.number("/sources/excluded") > 0,
            "{home}: {}",
            run.stdout
        );
    }
}

#[test]
fn a_rule_that_could_never_match_is_an_error() {
    for rule in ["-secret", "projects/-secret", "$HOME/.claude"] {
        let sandbox = with_rule(rule);
        let run = sandbox.run(&["index"]).expect(2);
        assert_eq!(run.text("/err/kind"), "config-invalid", "{rule}");
    }
}

#[test]
fn nothing_is_handed_out_into_the_data_directory_or_a_harness() {
    let sandbox = Sandbox::new();
    let source = sandbox.put(".claude/projects/-a/s.jsonl", LINE);
    sandbox.run(&["index"]).expect(0);
    let before = (content(&sandbox.data()), content(&sandbox.home()));
    for folder in [
        sandbox.data().join("raw-mirror/packs"),
        sandbox.home().join(".claude/projects"),
    ] {
        let to = folder.join("00000002.pack");
        let to = to.to_str().unwrap();
        for args in [
            vec!["export", "s", "--format", "json", "-o", to],
            vec!["export", "s", "--format", "raw", "-o", to],
            vec!["mirror", "get", source.to_str().unwrap(), "-o", to],
        ] {
            let run = sandbox.run(&args).expect(2);
            assert_eq!(run.text("/err/kind"), "unsafe-target", "{args:?}");
        }
    }
    assert!((content(&sandbox.data()), content(&sandbox.home())) == before);
}

#[test]
fn a_data_directory_inside_a_harness_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.put(".claude/projects/-a/s.jsonl", LINE);
    for dir in [".claude/projects/mine", ".claude", "."] {
        let dir = sandbox.home().join(dir);
        let before = content(&sandbox.home());
        let run = sandbox
            .run(&["index", "--data-dir", dir.to_str().unwrap()])
            .expect(2);
        assert_eq!(run.text("/err/kind"), "unsafe-target", "{}", dir.display());
        assert!(content(&sandbox.home()) == before);
    }
}

#[test]
fn a_fifo_in_place_of_a_settings_file_stops_nothing() {
    let sandbox = Sandbox::new();
    sandbox.put(".claude/projects/-a/s.jsonl", LINE);
    let fifo = |path: &str| {
        let path = sandbox.home().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
    };
    fifo(".claude/settings.json");
    sandbox.run(&["index"]).expect(0);
    let check = sandbox.run(&["doctor", "check"]).expect(0);
    assert_eq!(check.at("/budget/timed_out"), false);
    fifo(".config/cass/config.toml");
    let run = sandbox.run(&["index"]).expect(2);
    assert_eq!(run.text("/err/kind"), "config-invalid");
}

#[test]
fn what_is_not_looked_at_is_not_called_gone() {
    let sandbox = Sandbox::new();
    sandbox.put(".claude/projects/-a/s.jsonl", LINE);
    sandbox.put(".claude/projects/-b/t.jsonl", LINE);
    sandbox.run(&["index"]).expect(0);
    std::fs::remove_file(sandbox.home().join(".claude/projects/-b/t.jsonl")).unwrap();
    let pruned = |sandbox: &Sandbox| {
        let check = sandbox.run(&["doctor", "check"]).expect(0);
        check.number("/source_inventory/pruned")
    };
    assert_eq!(pruned(&sandbox), 1);
    sandbox.put(
        ".config/cass/config.toml",
        b"exclude = [\"~/.claude/projects/-a\"]\n",
    );
    assert_eq!(pruned(&sandbox), 1);
    sandbox.put(
        ".config/cass/config.toml",
        b"exclude = [\"~/.claude/projects\"]\n",
    );
    assert_eq!(pruned(&sandbox), 0);
}
