//! Each state that a source can be in.

use crate::made::{claude, id, indexed, rows, scan, source, text};
use crate::sandbox::{Sandbox, age};

#[test]
fn every_state_of_a_source_is_told_and_counted() {
    let (sandbox, files) = indexed(4);
    let home = sandbox.home();
    // 1 stays, 2 grows, 3 is pruned, 4 is emptied, 5 was never indexed.
    let mut grown = std::fs::read(&files[1]).unwrap();
    grown.extend(b"{\"type\":\"mode\"}\n");
    std::fs::write(&files[1], grown).unwrap();
    std::fs::remove_file(&files[2]).unwrap();
    std::fs::write(&files[3], b"").unwrap();
    claude(&sandbox, 5, 3);
    let history = sandbox.put(".claude/history.jsonl", b"{}\n");
    let ran = scan(&sandbox, &[]);
    for (n, state, usage) in [
        (1, "ok", "session"),
        (2, "newer-than-archive", "session"),
        (3, "pruned", "session"),
        (4, "empty", "session"),
        (5, "newer-than-archive", "session"),
    ] {
        let row = source(&ran, &format!("{}.jsonl", id(n)));
        assert_eq!(row["state"], state, "{n}: {row}");
        assert_eq!(row["usage"], usage);
        assert_eq!(row["provider"], "claude");
        assert_eq!(row["captures"], u64::from(n != 5), "{n}: {row}");
        assert!(row["path"].as_str().unwrap().starts_with("~/"), "{row}");
    }
    let row = source(&ran, "history.jsonl");
    assert_eq!(
        (&row["usage"], &row["state"]),
        (&"evidence".into(), &"newer-than-archive".into())
    );
    let by = ran.at("/source_inventory/by_state");
    assert_eq!(
        *by,
        serde_json::json!({"ok": 1, "newer_than_archive": 3, "pruned": 1, "empty": 1})
    );
    assert_eq!(ran.number("/source_inventory/total"), 6);
    assert_eq!(
        ran.number("/coverage_summary/missing_current_source_count"),
        1
    );
    assert_eq!(
        ran.number("/coverage_summary/visible_current_source_count"),
        5
    );
    let bytes: u64 = files[..2]
        .iter()
        .chain([
            &files[3],
            &history,
            &home.join(format!(".claude/projects/-src/{}.jsonl", id(5))),
        ])
        .map(|f| std::fs::metadata(f).unwrap().len())
        .sum();
    assert_eq!(
        ran.number("/coverage_summary/visible_current_source_bytes"),
        bytes
    );
    // A filter shows some rows and changes no total.
    let only = scan(&sandbox, &["--state", "pruned"]);
    let list = only.at("/source_inventory/sources").as_array().unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0]["state"], "pruned");
    assert_eq!(only.at("/source_inventory/by_state"), by);
    assert_eq!(only.number("/source_inventory/sources_page/total"), 1);
    let other = scan(&sandbox, &["--agent", "codex"]);
    assert_eq!(other.number("/source_inventory/total"), 0);
    assert_eq!(other.number("/sessions_page/total"), 0);
    // What is worse comes first.
    let states: Vec<_> = ran
        .at("/source_inventory/sources")
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["state"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(states.last().unwrap(), "ok");
    assert_eq!(states[0], "newer-than-archive");
}

#[test]
fn a_harness_that_is_not_there_is_told_from_one_without_sessions() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.home().join(".codex")).unwrap();
    let ran = scan(&sandbox, &[]).expect(0);
    assert_eq!(ran.text("/status"), "not-initialized");
    let codex = rows(ran.at("/source_inventory/providers"), "provider", "codex");
    assert_eq!(codex[0]["state"], "no-local-data");
    let absent = ran
        .at("/source_inventory/not_installed")
        .as_array()
        .unwrap();
    assert!(absent.contains(&"claude".into()) && !absent.contains(&"codex".into()));
    assert_eq!(ran.text("/source_authority/authority_level"), "none");
    assert_eq!(ran.text("/remote_source_sync/status"), "not-configured");
    assert!(!sandbox.data().exists());
}

#[test]
fn what_is_excluded_is_out_of_sight_and_not_gone() {
    let (sandbox, files) = indexed(2);
    let private = sandbox.put(
        &format!(".claude/projects/-private/{}.jsonl", id(7)),
        &crate::made::text(7, 2),
    );
    let rule = "~/.claude/projects/-private";
    let config = format!(
        "exclude = [\"~/.claude/projects/-src/{}.jsonl\", \"{rule}\"]\n",
        id(1)
    );
    sandbox.put(".config/cass/config.toml", config.as_bytes());
    std::fs::remove_file(&files[0]).unwrap();
    let ran = scan(&sandbox, &[]).expect(0);
    let row = source(&ran, &format!("{}.jsonl", id(1)));
    assert!(row["state"].is_null(), "{row}");
    assert_eq!(row["out_of_sight"], "excluded");
    assert_eq!(row["holders"], serde_json::json!(["mirror", "archive"]));
    assert_eq!(ran.number("/source_inventory/by_state/out_of_sight"), 1);
    let risks = ran.at("/config_exclusion_risks");
    let captured = rows(risks, "risk_kind", "cass-config-exclude-hides-captured");
    assert_eq!((captured.len(), &captured[0]["sources"]), (1, &1.into()));
    let live = rows(risks, "risk_kind", "cass-config-exclude-hides-live");
    assert_eq!((live.len(), &live[0]["sources"]), (1, &1.into()));
    assert_eq!(live[0]["subject"], rule);
    // What the rule keeps out is in no list.
    let name = private.file_name().unwrap().to_str().unwrap();
    assert!(!ran.stdout.contains(name), "{}", ran.stdout);
    assert_eq!(ran.text("/status"), "warn");
    sandbox
        .run(&["doctor", "archive-scan", "--fail-on", "warn"])
        .expect(1);
}

#[test]
fn a_root_that_is_missing_and_roots_in_one_another_are_risks() {
    let (sandbox, _) = indexed(1);
    let nested = sandbox.home().join(".claude/projects/-src/deep");
    std::fs::create_dir_all(nested.join("projects/-q")).unwrap();
    let config = format!(
        "[[roots]]\nprovider = \"claude\"\npath = \"~/no/such\"\n\
         [[roots]]\nprovider = \"claude\"\npath = \"{}\"\n",
        nested.display()
    );
    sandbox.put(".config/cass/config.toml", config.as_bytes());
    let file = nested.join(format!("projects/-q/{}.jsonl", id(3)));
    std::fs::write(&file, crate::made::text(3, 1)).unwrap();
    age(&file, 3600);
    let ran = scan(&sandbox, &[]).expect(0);
    let risks = ran.at("/config_exclusion_risks");
    let missing = rows(risks, "risk_kind", "named-root-missing");
    assert_eq!(missing[0]["subject"], "~/no/such");
    assert_eq!(rows(risks, "risk_kind", "roots-nested").len(), 1, "{risks}");
    // Both roots lead to it, and it is one source.
    source(&ran, &format!("{}.jsonl", id(3)));
    assert_eq!(ran.number("/source_inventory/total"), 2);
}

#[test]
fn settings_that_can_not_be_used_leave_the_harnesses_alone() {
    let (sandbox, _) = indexed(2);
    sandbox.put(".config/cass/config.toml", b"exclude = 3\n");
    let ran = scan(&sandbox, &[]).expect(1);
    assert_eq!(ran.at("/problems/0/code"), "config-invalid");
    assert_eq!(ran.at("/scan_scope/complete"), false);
    assert_eq!(ran.number("/source_inventory/by_state/out_of_sight"), 2);
    // What archive and mirror have is told all the same.
    assert_eq!(ran.number("/coverage_summary/mirror_complete"), 2);
    assert_eq!(ran.number("/coverage_summary/archive_complete"), 2);
}

#[test]
fn the_days_to_the_first_loss_are_those_of_what_is_not_captured() {
    let (sandbox, files) = indexed(1);
    age(&files[0], 29 * 86_400);
    let ran = scan(&sandbox, &[]);
    // Another time is another gate: not captured as it is now.
    let claude = |ran: &crate::sandbox::Ran| {
        rows(ran.at("/source_inventory/providers"), "provider", "claude")[0].clone()
    };
    assert_eq!(claude(&ran)["days_until_first_loss"], 1);
    sandbox.run(&["index"]).expect(0);
    let now = claude(&scan(&sandbox, &[]));
    assert_eq!(
        (&now["days_until_next_prune"], &now["uncaptured_sessions"]),
        (&1.into(), &0.into())
    );
    assert!(now["days_until_first_loss"].is_null(), "{now}");
    let late = claude_file(&sandbox, 9);
    age(&late, 40 * 86_400);
    let ran = scan(&sandbox, &[]);
    let now = claude(&ran);
    assert_eq!(
        (&now["days_until_first_loss"], &now["overdue_sessions"]),
        (&0.into(), &1.into())
    );
    assert_eq!(
        crate::made::codes(&ran),
        [crate::made::code("live-only", "warn", 1)]
    );
    // The harness's own setting counts.
    sandbox.put(".claude/settings.json", b"{\"cleanupPeriodDays\": 100}");
    let now = claude(&scan(&sandbox, &[]));
    assert_eq!(
        (&now["days_until_first_loss"], &now["retention_days"]),
        (&60.into(), &100.into())
    );
    assert_eq!(now["retention_configured"], true);
}

fn claude_file(sandbox: &Sandbox, n: u32) -> std::path::PathBuf {
    claude(sandbox, n, 2)
}

#[test]
fn a_source_with_places_that_hold_no_record_says_so() {
    let (sandbox, files) = indexed(2);
    // A record that was cut off and ended, and zeros: two places, of which the bytes are known here.
    let (cut, zeros) = (&b"{\"type\":\"user\",\"uu\n"[..], &[0_u8; 700][..]);
    let mut bytes = std::fs::read(&files[0]).unwrap();
    bytes.extend_from_slice(cut);
    bytes.extend(text(1, 1));
    bytes.extend_from_slice(zeros);
    bytes.extend_from_slice(b"\n");
    std::fs::write(&files[0], bytes).unwrap();
    sandbox.run(&["index"]).expect(0);
    let ran = scan(&sandbox, &[]);
    let row = source(&ran, &format!("{}.jsonl", id(1)));
    assert_eq!(row["log_health"]["damaged_places"], 2, "{row}");
    let lost = row["log_health"]["damaged_bytes"].as_u64().unwrap();
    let all = (cut.len() + zeros.len()) as u64;
    // The ends of the lines are no part of a place.
    assert!((all - 1..=all).contains(&lost), "{row}");
    let sound = source(&ran, &format!("{}.jsonl", id(2)));
    assert_eq!(sound.get("log_health"), None, "{sound}");
    let providers = ran.at("/source_inventory/providers").as_array().unwrap();
    let claude = providers.iter().find(|p| p["provider"] == "claude");
    assert_eq!(claude.unwrap()["damaged_sources"], 1);
}
