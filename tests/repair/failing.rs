//! A repair that really fails, on a write that the system refuses: what it leaves says so, stands in
//! the way of a repeat, and goes with the repeat that was asked for.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::lab::{
    apply, apply_argv, bytes, current, db, exported, fingerprint, indexed, plan, tamper,
};
use super::sandbox::{Ran, Sandbox, ran};

/// Runs words while no file may grow beyond this.
fn limited(s: &Sandbox, words: &[String], kib: u64) -> Ran {
    let of = s.command(&["--json"]);
    let mut c = Command::new("sh");
    c.args([
        "-c",
        r#"trap '' XFSZ; n=$1; shift; ulimit -f $((2 * n)); exec "$@""#,
        "sh",
    ])
    .arg(kib.to_string())
    .arg(of.get_program())
    .args(of.get_args())
    .args(words)
    .env_clear()
    .envs(of.get_envs().filter_map(|(k, v)| Some((k, v?))))
    .stdin(std::process::Stdio::null());
    ran(c.output().unwrap())
}

fn gate(ran: &Ran, name: &str) -> Option<String> {
    let gates = ran.at("/safety_gates").as_array().unwrap();
    let found = gates.iter().find(|g| g["gate"] == name)?;
    Some(found["verdict"].as_str().unwrap().to_owned())
}

#[test]
fn what_really_failed_leaves_context_and_marker_and_is_repeated_only_when_told() {
    let s = indexed();
    let truth = exported(&s);
    tamper(&s);
    let damaged = fs::read(db(&s)).unwrap();
    let old = current(&s);
    let first = plan(&s, &["doctor", "repair"]).expect(0);
    let at_first = bytes(&s);

    let failed = limited(&s, &apply_argv(&first), 48).expect(5);
    assert_eq!(failed.text("/status"), "failed", "{}", failed.stdout);
    assert_eq!(
        failed.text("/operation_outcome/exit_code_kind"),
        "repair-failure"
    );
    // The archive is as it was, and no candidate is left of it.
    assert_eq!(
        (current(&s), fs::read(db(&s)).unwrap()),
        (old.clone(), damaged.clone())
    );
    assert_eq!(
        fs::read_dir(s.data().join("generations")).unwrap().count(),
        1
    );
    let after = bytes(&s);
    let kept = |(path, _): &(&std::path::PathBuf, &String)| !path.starts_with("doctor");
    assert!(
        at_first
            .iter()
            .filter(kept)
            .all(|(path, b)| after.get(path) == Some(b)),
        "a failed repair changed more than its records"
    );
    // Its context says what failed, of which run; the receipt says the same.
    let path = s.data().join(failed.text("/failure_context_path"));
    let context: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let text = context.to_string();
    let runs = s.run(&["doctor", "runs", "list"]).expect(0);
    assert_eq!(runs.text("/runs/0/status"), "failed");
    let run = runs.text("/runs/0/run_id");
    assert!(
        text.contains(run) && text.contains(&fingerprint(&first)),
        "{text}"
    );
    assert!(!text.contains(s.home().to_str().unwrap()), "{text}");

    // The marker blocks: a plan without leave is shut, the words that failed are refused.
    let check = s.run(&["doctor", "check"]);
    assert_eq!(
        check.text("/repair_failure_marker/status"),
        "previous-failure"
    );
    let blocked = plan(&s, &["doctor", "repair"]).expect(21);
    assert_eq!(blocked.text("/err/context/gate"), "repair-marker");
    assert_eq!(gate(&blocked, "repair-marker").as_deref(), Some("block"));
    apply(&s, &first).expect(20);
    let told: Vec<&str> = blocked
        .at("/err/hint_argv")
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(told.contains(&"--allow-repeated-repair"), "{told:?}");
    // An automatic run keeps away from it.
    assert_eq!(
        s.run(&["doctor", "--fix"]).text("/operation_outcome/kind"),
        "auto-run-skipped"
    );

    // The leave is part of the plan, and so is which failure it is for.
    let words = ["doctor", "repair", "--allow-repeated-repair"];
    let allowed = plan(&s, &words).expect(0);
    assert_ne!(fingerprint(&allowed), fingerprint(&first));
    limited(&s, &apply_argv(&allowed), 48).expect(5);
    let again = plan(&s, &words).expect(0);
    assert_ne!(fingerprint(&again), fingerprint(&allowed));
    apply(&s, &allowed).expect(20);
    let applied = apply(&s, &again).expect(0);
    assert_eq!(applied.text("/status"), "applied");
    assert_eq!(exported(&s), truth);
    let check = s.run(&["doctor", "check", "--deep"]).expect(0);
    assert_eq!(check.text("/repair_failure_marker/status"), "absent");
    let runs = s.run(&["doctor", "runs", "list"]).expect(0);
    let failed = runs.at("/runs").as_array().unwrap();
    assert_eq!(failed.iter().filter(|r| r["status"] == "failed").count(), 2);
}
