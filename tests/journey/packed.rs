//! Compressed rollouts that are cut short or damaged.

use crate::sandbox::{Sandbox, fixtures};

#[test]
fn a_cut_or_damaged_container_costs_nothing_before_the_damage() {
    let name = "rollout-2026-11-29T16-09-25-01a22811-80a4-77a2-a271-c9d2b3c9f78f.jsonl";
    let plain = std::fs::read(
        fixtures()
            .join("codex/harness-0.171.0/archived_sessions")
            .join(name),
    )
    .unwrap();
    let records = plain.iter().filter(|b| **b == b'\n').count() as u64;
    // Two frames, as a writer that appends makes them: the second one is cut.
    let half = plain[..plain.len() / 2]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    let whole = plain[..half].iter().filter(|b| **b == b'\n').count() as u64;
    let mut packed = zstd::encode_all(&plain[..half], 3).unwrap();
    let first = packed.len();
    packed.extend(zstd::encode_all(&plain[half..], 3).unwrap());
    for (cut, sessions) in [(packed.len() - 4, 1), (first + 10, 1), (first, 1), (0, 0)] {
        let sandbox = Sandbox::new();
        let rel = format!(".codex/sessions/2026/11/29/{name}.zst");
        let path = sandbox.put(&rel, &packed[..cut]);
        let run = sandbox.run(&["index"]);
        assert!(run.code == 0 || run.code == 8, "{cut}: {}", run.stdout);
        let list = sandbox.run(&["sessions", "list"]).expect(0);
        assert_eq!(list.number("/total"), sessions, "{cut}: {}", run.stdout);
        if sessions > 0 {
            let id = list.text("/sessions/0/id").to_owned();
            let shown = sandbox.run(&["sessions", "show", &id]).expect(0);
            let read = shown.number("/records");
            assert!(
                read >= whole && read <= records,
                "{cut}: {read} of {records}"
            );
        }
        // The bytes are safe, and the next run has nothing to do.
        let out = sandbox.path().join("got");
        let args = [
            "mirror",
            "get",
            path.to_str().unwrap(),
            "-o",
            out.to_str().unwrap(),
        ];
        sandbox.run(&args).expect(0);
        assert!(std::fs::read(&out).unwrap() == packed[..cut]);
        assert_eq!(
            sandbox.run(&["index"]).expect(0).text("/status"),
            "no-op",
            "{cut}"
        );
        // The check names it for as long as it is not read whole, and not longer.
        let named = || {
            let check = sandbox.run(&["doctor", "check"]).expect(0);
            let findings = check.at("/findings").as_array().unwrap().clone();
            let mut found = findings.iter().filter(|f| f["code"] == "container-damaged");
            found.next().map(|f| {
                assert!(f["subject"].as_str().unwrap().ends_with(".jsonl.zst"));
                assert_eq!(f["severity"], "warn");
                check.text("/status").to_owned()
            })
        };
        let broken = run.code == 8;
        assert_eq!(named().as_deref(), broken.then_some("warn"), "{cut}");
        sandbox.run(&["doctor", "check", "--deep"]).expect(0);
        // Whole again, it is read to its end.
        sandbox.put(&rel, &packed);
        sandbox.run(&["index"]).expect(0);
        assert_eq!(named(), None, "{cut}");
        let list = sandbox.run(&["sessions", "list"]).expect(0);
        let id = list.text("/sessions/0/id").to_owned();
        let shown = sandbox.run(&["sessions", "show", &id]).expect(0);
        assert_eq!(shown.number("/records"), records, "{cut}");
    }
}

#[test]
fn whether_a_log_is_compressed_is_told_by_its_content() {
    let name = "rollout-2026-11-29T16-09-25-01a22811-80a4-77a2-a271-c9d2b3c9f78f.jsonl";
    let plain = std::fs::read(
        fixtures()
            .join("codex/harness-0.171.0/archived_sessions")
            .join(name),
    )
    .unwrap();
    let half = plain[..plain.len() / 2]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    let records = plain.iter().filter(|b| **b == b'\n').count() as u64;
    let pack = |bytes: &[u8]| zstd::encode_all(bytes, 3).unwrap();
    let read = |sandbox: &Sandbox| {
        let id = sandbox.sessions()[0]["id"].as_str().unwrap().to_owned();
        let shown = sandbox.run(&["sessions", "show", &id]).expect(0);
        shown.number("/records")
    };
    // Unpacked under the old name, and compressed in place.
    for (suffix, first, then) in [
        (".zst", plain[..half].to_vec(), plain.clone()),
        ("", pack(&plain[..half]), pack(&plain)),
        ("", plain[..half].to_vec(), pack(&plain)),
        (".zst", pack(&plain[..half]), plain.clone()),
    ] {
        let sandbox = Sandbox::new();
        let rel = format!(".codex/sessions/2026/11/29/{name}{suffix}");
        sandbox.put(&rel, &first);
        let run = sandbox.run(&["index"]).expect(0);
        assert_eq!(run.number("/archived/skipped"), 0);
        assert!(read(&sandbox) < records);
        sandbox.put(&rel, &then);
        let run = sandbox.run(&["index"]).expect(0);
        assert_eq!(run.number("/archived/skipped"), 0);
        assert_eq!(read(&sandbox), records);
        assert_eq!(sandbox.sessions().len(), 1);
        let check = sandbox.run(&["doctor", "check", "--deep"]).expect(0);
        assert!(!check.stdout.contains("unaccounted"), "{}", check.stdout);
        assert_eq!(sandbox.run(&["index"]).expect(0).text("/status"), "no-op");
    }
    // Neither: a container whose beginning is damaged is a failure that is said once.
    let sandbox = Sandbox::new();
    let mut broken = pack(&plain);
    broken[..4].fill(0);
    sandbox.put(&format!(".codex/sessions/2026/11/29/{name}.zst"), &broken);
    let run = sandbox.run(&["index"]).expect(8);
    assert_eq!(run.text("/failures/0/kind"), "sources-failed");
    assert_eq!(sandbox.run(&["index"]).expect(0).text("/status"), "no-op");
}
