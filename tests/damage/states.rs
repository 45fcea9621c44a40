//! The states that a check must tell apart, each with its code, its exit, and verdicts that claim
//! nothing that was not seen.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use cass::store::archive::SCHEMA_VERSION;
use serde_json::Value;

use crate::lab::{Lab, Ran, ran};

struct Verdict<'a> {
    exit: i32,
    status: &'a str,
    code: Option<&'a str>,
    coverage: &'a [&'a str],
    authority: &'a [&'a str],
    mirror: &'a [&'a str],
}

#[track_caller]
fn expect(what: &str, ran: &Ran, v: &Verdict<'_>) {
    let doc = &ran.json;
    assert_eq!(ran.code, v.exit, "{what}: {doc}");
    assert_eq!(ran.text("/status"), v.status, "{what}: {doc}");
    if let Some(code) = v.code {
        let codes = ran.codes(&["info", "warn", "error"]);
        assert!(codes.contains(&code), "{what}: no {code} in {codes:?}");
    }
    for (pointer, allowed) in [
        ("/coverage_risk/status", v.coverage),
        ("/source_authority/authority_level", v.authority),
        ("/raw_mirror/status", v.mirror),
    ] {
        assert!(
            allowed.contains(&ran.text(pointer)),
            "{what}: {pointer} is {}: {doc}",
            ran.text(pointer)
        );
    }
    // No check says ok about a part that another finding calls damaged.
    for f in doc["findings"].as_array().unwrap() {
        if f["severity"] == "error" {
            let entry = doc["checks"]
                .as_array()
                .unwrap()
                .iter()
                .find(|c| c["id"] == f["id"])
                .unwrap();
            assert!(
                ["error", "unknown"].contains(&entry["status"].as_str().unwrap()),
                "{what}: {entry}"
            );
        }
    }
}

const KINDS: [&[&str]; 2] = [&["doctor", "check"], &["doctor", "check", "--deep"]];

#[test]
fn never_initialised_is_calm() {
    for args in KINDS {
        let lab = Lab::empty();
        let v = Verdict {
            exit: 0,
            status: "not-initialized",
            code: None,
            coverage: &["not-initialized"],
            authority: &["none"],
            mirror: &["absent"],
        };
        expect("nothing there", &lab.run(args), &v);
        std::fs::create_dir(lab.data()).unwrap();
        expect("an empty folder", &lab.run(args), &v);
    }
}

#[test]
fn healthy_says_so() {
    let lab = Lab::small();
    for (args, mirror) in [(KINDS[0], "unverified"), (KINDS[1], "ok")] {
        expect(
            "healthy",
            &lab.run(args),
            &Verdict {
                exit: 0,
                status: "ok",
                code: None,
                coverage: &["ok"],
                authority: &["verified-archive"],
                mirror: &[mirror],
            },
        );
    }
}

#[test]
fn an_archive_that_is_gone_is_told_whatever_is_left() {
    for args in KINDS {
        let gone = |what: &str, lab: &Lab, code: &str| {
            expect(
                what,
                &lab.run(args),
                &Verdict {
                    exit: 1,
                    status: "error",
                    code: Some(code),
                    coverage: &["unknown"],
                    authority: &["verified-mirror"],
                    mirror: &["ok", "unverified"],
                },
            );
        };
        let lab = Lab::small();
        std::fs::remove_file(lab.db()).unwrap();
        gone("the database", &lab, "archive-missing");
        std::fs::remove_dir_all(lab.file("generations")).unwrap();
        gone("all generations", &lab, "archive-missing");
        std::fs::remove_file(lab.file("CURRENT")).unwrap();
        gone("CURRENT too", &lab, "archive-missing");

        let lab = Lab::small();
        std::fs::remove_file(lab.file("CURRENT")).unwrap();
        gone("CURRENT", &lab, "archive-missing");
        // The folder alone still tells that there was one.
        std::fs::remove_file(lab.file("coverage.jsonl")).unwrap();
        gone("CURRENT and the coverage ledger", &lab, "archive-missing");
        assert_ne!(
            lab.run(&["index"]).code,
            0,
            "a new archive was begun beside the old one"
        );

        let lab = Lab::small();
        std::fs::write(lab.file("CURRENT"), b"g0000001\n").unwrap();
        gone("CURRENT damaged", &lab, "current-unreadable");

        // Without the mirror nothing is left but the harnesses' own files.
        let lab = Lab::small();
        std::fs::remove_file(lab.db()).unwrap();
        std::fs::remove_dir_all(lab.file("raw-mirror")).unwrap();
        expect(
            "archive and mirror",
            &lab.run(args),
            &Verdict {
                exit: 1,
                status: "error",
                code: Some("loss-suspected"),
                coverage: &["loss-suspected"],
                authority: &["live-source"],
                mirror: &["absent"],
            },
        );
    }
}

#[test]
fn a_mirror_that_is_gone_or_damaged_leaves_the_archive() {
    for args in KINDS {
        let lab = Lab::small();
        std::fs::remove_dir_all(lab.file("raw-mirror")).unwrap();
        expect(
            "no mirror",
            &lab.run(args),
            &Verdict {
                exit: 1,
                status: "error",
                code: Some("capture-missing"),
                coverage: &["archive-only"],
                authority: &["verified-archive"],
                mirror: &["absent"],
            },
        );
        let lab = Lab::small();
        std::fs::remove_file(lab.file("raw-mirror/packs/00000001.pack")).unwrap();
        expect(
            "no pack",
            &lab.run(args),
            &Verdict {
                exit: 1,
                status: "error",
                code: Some("archive-only"),
                coverage: &["archive-only"],
                authority: &["verified-archive"],
                mirror: &["corrupt"],
            },
        );
    }
}

#[test]
fn both_damaged_leaves_a_sole_copy() {
    let lab = Lab::small();
    std::fs::remove_file(lab.file("raw-mirror/packs/00000001.pack")).unwrap();
    let mut bytes = std::fs::read(lab.db()).unwrap();
    let at = bytes.windows(5).rposition(|w| w == b"every").unwrap();
    bytes[at] = b'E';
    std::fs::write(lab.db(), bytes).unwrap();
    expect(
        "both",
        &lab.run(KINDS[1]),
        &Verdict {
            exit: 1,
            status: "error",
            code: Some("sole-copy"),
            coverage: &["sole-copy"],
            authority: &["salvage"],
            mirror: &["corrupt"],
        },
    );
}

#[test]
fn a_foreign_archive_is_refused() {
    for args in KINDS {
        let lab = Lab::empty();
        std::fs::create_dir(lab.data()).unwrap();
        std::fs::write(lab.file("agent_search.db"), b"something of another program").unwrap();
        expect(
            "foreign",
            &lab.run(args),
            &Verdict {
                exit: 6,
                status: "error",
                code: Some("foreign-archive"),
                coverage: &["unknown", "not-initialized"],
                authority: &["unknown", "none"],
                mirror: &["unknown", "absent"],
            },
        );
    }
}

#[test]
fn what_is_newer_is_refused_and_nothing_is_claimed() {
    for args in KINDS {
        let lab = Lab::small();
        let manifest = lab.file("generations/g00000001/manifest.json");
        let text = std::fs::read_to_string(&manifest).unwrap();
        let schema = |version: i64| format!("\"schema_version\": {version}");
        let newer = text.replace(&schema(SCHEMA_VERSION), &schema(SCHEMA_VERSION + 1));
        assert_ne!(newer, text);
        std::fs::write(&manifest, newer).unwrap();
        expect(
            "schema",
            &lab.run(args),
            &Verdict {
                exit: 6,
                status: "error",
                code: Some("schema-too-new"),
                coverage: &["unknown"],
                authority: &["unknown"],
                mirror: &["ok", "unverified"],
            },
        );
        let lab = Lab::small();
        std::fs::write(lab.file("raw-mirror/FORMAT"), b"cass-mirror 2\n").unwrap();
        expect(
            "mirror",
            &lab.run(args),
            &Verdict {
                exit: 6,
                status: "error",
                code: Some("mirror-too-new"),
                coverage: &["unknown"],
                authority: &["unknown", "verified-archive"],
                mirror: &["unknown"],
            },
        );
    }
}

#[test]
fn a_corrupt_archive_names_its_tables_and_rows() {
    let lab = Lab::small();
    let mut bytes = std::fs::read(lab.db()).unwrap();
    bytes[..100].fill(0);
    std::fs::write(lab.db(), &bytes).unwrap();
    for args in KINDS {
        expect(
            "no header",
            &lab.run(args),
            &Verdict {
                exit: 1,
                status: "error",
                code: Some("archive-corrupt"),
                coverage: &["unknown"],
                authority: &["verified-mirror"],
                mirror: &["ok", "unverified"],
            },
        );
    }
    std::fs::write(lab.db(), b"").unwrap();
    for args in KINDS {
        expect(
            "empty",
            &lab.run(args),
            &Verdict {
                exit: 1,
                status: "error",
                code: Some("archive-corrupt"),
                coverage: &["unknown"],
                authority: &["verified-mirror"],
                mirror: &["ok", "unverified"],
            },
        );
    }
}

#[test]
fn a_running_writer_is_a_note() {
    let lab = Lab::small();
    let root = cass::disk::Root::open(&lab.data()).unwrap().unwrap();
    let lock = cass::disk::WriterLock::acquire(root, "index", 0).unwrap();
    let v = Verdict {
        exit: 0,
        status: "ok",
        code: Some("writer-active"),
        coverage: &["ok"],
        authority: &["verified-archive"],
        mirror: &["ok", "unverified"],
    };
    for args in KINDS {
        let ran = lab.run(args);
        expect("a writer", &ran, &v);
        assert_eq!(
            ran.json["operation_state"]["writer_active"],
            Value::Bool(true)
        );
    }
    assert_eq!(lab.run(&["index"]).code, 7);
    // While the log is folded in nothing can be read: that is not known, and not damage.
    let exclusive = cass::disk::ArchiveExclusive::try_acquire(&lock)
        .unwrap()
        .unwrap();
    let ran = lab.run(KINDS[0]);
    assert_eq!(ran.code, 8, "{}", ran.json);
    assert_eq!(ran.text("/status"), "unknown");
    assert!(ran.errors().is_empty(), "{}", ran.json);
    assert_eq!(ran.text("/source_authority/authority_level"), "unknown");
    assert_eq!(ran.text("/coverage_risk/status"), "unknown");
    assert_eq!(ran.text("/raw_mirror/status"), "unknown");
    drop(exclusive);
    drop(lock);
}

/// Checks run again and again while another process indexes: nothing that a writer is in the
/// middle of may look like damage.
#[test]
fn no_alarm_while_an_index_runs() {
    let lab = Lab::own();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let rounds = crate::figures::count("CASS_DAMAGE_BUSY", 25);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut seed = 1000;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for i in 0..20 {
                    let (path, text) = crate::sessions::claude(seed + i, 3);
                    lab.put(&path, text.as_bytes());
                }
                seed += 20;
                let ran = lab.run(&["index"]);
                assert_eq!(ran.code, 0, "{}", ran.json);
            }
        });
        let mut alarms = Vec::new();
        let mut met = 0;
        for n in 0..rounds {
            let args = if n % 3 == 0 { KINDS[0] } else { KINDS[1] };
            let ran = lab.run(args);
            met += u32::from(ran.json["operation_state"]["writer_active"] == Value::Bool(true));
            let bad = ran.codes(&["warn", "error"]);
            // A checkpoint that takes long is told as "not known".
            if !bad.is_empty() || ![0, 8].contains(&ran.code) {
                alarms.push(format!("{bad:?} {}", ran.json["findings"]));
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        println!(
            "damage | R1 checks while an index runs ({met} met the writer) | 0 | 0 | 0 | 0 | {rounds} | {} |",
            alarms.len()
        );
        assert!(alarms.is_empty(), "{alarms:#?}");
        assert!(met > 0, "no check met the writer");
    });
    lab.run(KINDS[1]).expect(0);
}

/// Runs the binary as a user who owns nothing here; `None` where that can't be done.
fn as_nobody(lab: &Lab, args: &[&str]) -> Option<Ran> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    // The build folder may be closed to others.
    let exe = lab.path().join("cass");
    if !exe.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_cass"), &exe).unwrap();
    }
    mode(&exe, 0o755);
    mode(lab.path(), 0o755);
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&exe)
        .args(args)
        .arg("--json")
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", "/nonexistent")
        .env("CASS_DATA_DIR", lab.data())
        .output();
    match output {
        Ok(output) => Some(ran(output)),
        Err(e) => {
            println!("passed over: setpriv: {e}");
            None
        }
    }
}

fn mode(path: &std::path::Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn what_may_not_be_read_is_unreadable_and_not_damaged() {
    let lab = Lab::small();
    for args in KINDS {
        // The folder is closed: nothing is known.
        mode(&lab.data(), 0o700);
        let Some(ran) = as_nobody(&lab, args) else {
            println!("passed over: needs root and setpriv");
            return;
        };
        assert_eq!(ran.code, 9, "{}", ran.json);
        assert_eq!(ran.text("/status"), "unknown", "{}", ran.json);
        assert_eq!(ran.text("/risk_level"), "unknown", "{}", ran.json);
        assert_eq!(ran.text("/err/kind"), "permission-denied");
        let health = as_nobody(&lab, &["health"]).unwrap();
        assert_eq!(health.code, 9, "{}", health.json);
        assert_eq!(health.text("/status"), "unknown", "{}", health.json);
        assert_eq!(health.text("/data_dir"), "unreadable", "{}", health.json);
        for word in [
            "verified-archive",
            "verified-mirror",
            "\"ok\"",
            "not-initialized",
            "\"absent\",\"sources\"",
        ] {
            let claims = ["/coverage_risk", "/source_authority", "/raw_mirror"]
                .map(|p| {
                    ran.json
                        .pointer(p)
                        .map(Value::to_string)
                        .unwrap_or_default()
                })
                .concat();
            assert!(!claims.contains(word), "{word}: {}", ran.json);
        }

        // The folders are open, the archive is not.
        for entry in walkdir::WalkDir::new(lab.data()) {
            let entry = entry.unwrap();
            mode(
                entry.path(),
                if entry.file_type().is_dir() {
                    0o755
                } else {
                    0o644
                },
            );
        }
        mode(&lab.db(), 0o600);
        let ran = as_nobody(&lab, args).unwrap();
        expect(
            "archive closed",
            &ran,
            &Verdict {
                exit: 1,
                status: "error",
                code: Some("archive-unreadable"),
                coverage: &["unknown"],
                authority: &["unknown"],
                mirror: &["ok", "unverified"],
            },
        );

        // One pack is closed: the mirror is not known to be good.
        mode(&lab.db(), 0o644);
        mode(&lab.file("raw-mirror/packs/00000001.pack"), 0o600);
        let ran = as_nobody(&lab, args).unwrap();
        assert!(
            ["unknown", "corrupt"].contains(&ran.text("/raw_mirror/status")),
            "{}",
            ran.json
        );
        assert_ne!(ran.text("/coverage_risk/status"), "ok", "{}", ran.json);
        assert_ne!(ran.code, 0);
        mode(&lab.file("raw-mirror/packs/00000001.pack"), 0o644);
    }
}
