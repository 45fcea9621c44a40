//! Something else in the place of one of our folders: every command ends in a document that names
//! it and says what to do, writes nothing through it, and what only reads goes on.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::lab::{apply, back_up, exported, indexed, plan, tamper};
use super::sandbox::{Ran, content};

/// Every folder that is made below the data directory, and whether all in it can be made again.
const FOLDERS: [(&str, bool); 17] = [
    ("doctor", false),
    ("doctor/intents", false),
    ("doctor/receipts", false),
    ("doctor/events", false),
    ("doctor/failures", false),
    ("doctor/quarantine", false),
    ("doctor/attestations", false),
    ("generations", false),
    ("backups", false),
    ("locks", false),
    ("raw-mirror", false),
    ("raw-mirror/packs", false),
    ("raw-mirror/sources", false),
    ("raw-mirror/index", true),
    ("derived", true),
    ("derived/lexical", true),
    ("derived/scratch", true),
];

const COMMANDS: [&[&str]; 5] = [
    &["doctor", "check"],
    &["doctor", "repair"],
    &["doctor", "backups", "create"],
    &["doctor", "runs", "list"],
    &["index"],
];

/// Puts something in the place of a folder.
type Obstacle = fn(&Path, &Path);

const OBSTACLES: [(&str, Obstacle); 4] = [
    ("a file", |at, _| fs::write(at, "mine").unwrap()),
    ("a FIFO", |at, _| {
        assert!(Command::new("mkfifo").arg(at).status().unwrap().success());
    }),
    ("a link to a folder", |at, elsewhere| {
        symlink(elsewhere, at).unwrap();
    }),
    ("a link to nothing", |at, _| {
        symlink("/nonexistent", at).unwrap();
    }),
];

/// What a document says about `at` or a folder above it: that it is in the way, and what to do.
#[track_caller]
fn explained(ran: &Ran, at: &Path, above: &Path, what: &str) {
    assert_eq!(ran.text("/err/kind"), "unsafe-target", "{what}");
    let named = Path::new(ran.text("/err/context/path"));
    let is_it = at.starts_with(named) && named != above;
    assert!(is_it, "{what}: {} is named", named.display());
    assert!(
        ran.text("/err/message").contains("keeps a folder there"),
        "{what}"
    );
    assert!(ran.text("/err/hint").len() > 20, "{what}");
}

#[test]
fn what_has_the_place_of_a_folder_is_named_and_nothing_is_done_to_it() {
    let s = indexed();
    back_up(&s, "first");
    tamper(&s);
    super::lab::repair(&s);
    s.run(&["index"]).expect(0);
    s.run(&["doctor", "check", "--deep", "--record"]).expect(0);
    let mut turns = 60;
    for (n, (folder, derived)) in FOLDERS.into_iter().enumerate() {
        let at = s.data().join(folder);
        let aside = s.path().join("aside");
        let elsewhere = s.path().join("elsewhere");
        // A FIFO is met like a file, and a link like one to nothing: by turns.
        let kinds = OBSTACLES.into_iter().enumerate();
        for (_, (kind, obstacle)) in kinds.filter(|(i, _)| i % 2 == n % 2) {
            let was = at.exists();
            if was {
                fs::rename(&at, &aside).unwrap();
                copy(&aside, &elsewhere);
            } else {
                fs::create_dir_all(at.parent().unwrap()).unwrap();
                fs::create_dir(&elsewhere).unwrap();
            }
            obstacle(&at, &elsewhere);
            let before = (content(&elsewhere), fs::symlink_metadata(&at).unwrap());
            turns += 1;
            let source = ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl";
            s.put(source, &super::lab::claude(turns));
            for words in COMMANDS {
                let ran = s.run(words);
                let what = format!("{kind} at {folder}: {}: {}", words.join(" "), ran.stdout);
                assert!([0, 1, 2].contains(&ran.code), "{what}");
                if derived {
                    // Made again: nothing of ours is in it.
                    assert!(
                        ran.json.pointer("/err/kind").is_none_or(|e| e.is_null()),
                        "{what}"
                    );
                    continue;
                }
                match words {
                    ["doctor", "check"] => {
                        assert_eq!(ran.code, 1, "{what}");
                        let finding = ran
                            .at("/findings")
                            .as_array()
                            .unwrap()
                            .iter()
                            .find(|f| f["subject"] == folder && f["code"] == "in-the-way");
                        let message =
                            finding.unwrap_or_else(|| panic!("{what}"))["message"].as_str();
                        assert!(message.unwrap().contains("by hand"), "{what}");
                    }
                    ["doctor", "runs", ..] if ran.code == 0 => {}
                    ["index"] => {
                        let needed = ["raw-mirror", "locks"]
                            .iter()
                            .any(|f| folder.starts_with(f));
                        if ran.code != 0 {
                            explained(&ran, &at, &s.data(), &what);
                        }
                        // Evidence comes first, wherever there is a place for it.
                        assert_eq!(
                            needed,
                            ran.json.pointer("/captured/captures").is_none(),
                            "{what}"
                        );
                        if !needed {
                            assert_eq!(ran.number("/captured/captures"), 1, "{what}");
                        }
                    }
                    _ => {
                        assert_eq!(ran.code, 2, "{what}");
                        explained(&ran, &at, &s.data(), &what);
                    }
                }
            }
            if !derived {
                let after = fs::symlink_metadata(&at).unwrap();
                assert_eq!(
                    before.1.file_type(),
                    after.file_type(),
                    "{kind} at {folder}"
                );
                assert_eq!(before.1.len(), after.len(), "{kind} at {folder}");
            }
            assert_eq!(
                before.0,
                content(&elsewhere),
                "{kind} at {folder}: written through it"
            );
            if folder.starts_with("doctor") || folder == "backups" {
                s.run(&["sessions", "list"]).expect(0);
                s.run(&["search", "harbour"]).expect(0);
            }
            if fs::symlink_metadata(&at).unwrap().is_dir() {
                fs::remove_dir_all(&at).unwrap();
            } else {
                fs::remove_file(&at).unwrap();
            }
            if was {
                fs::rename(&aside, &at).unwrap();
            }
            fs::remove_dir_all(&elsewhere).unwrap();
        }
    }
    // Once nothing is in the way any more, all is well.
    s.run(&["index"]).expect(0);
    s.run(&["doctor", "check", "--deep"]).expect(0);
    assert!(exported(&s).values().any(|m| m.len() == turns));
    apply(&s, &plan(&s, &["doctor", "backups", "create"]).expect(0)).expect(0);
}

#[test]
fn what_is_not_permitted_names_who_has_to_change_what() {
    let s = indexed();
    back_up(&s, "first");
    s.run(&["doctor", "check", "--deep", "--record"]).expect(0);
    let source = ".claude/projects/-src-a/00000000-0000-4000-8000-000000000001.jsonl";
    for (n, folder) in [
        "",
        "generations",
        "raw-mirror",
        "raw-mirror/packs",
        "raw-mirror/sources",
        "backups",
        "doctor",
        "doctor/intents",
        "doctor/receipts",
        "locks",
    ]
    .into_iter()
    .enumerate()
    {
        s.put(source, &super::lab::claude(70 + n));
        // Everything belongs to nobody, who runs the program.
        let Some(_) = s.run_as_nobody(&["doctor", "check"]) else {
            println!("passed over: nobody else can be made to run it");
            return;
        };
        let at = s.data().join(folder);
        fs::set_permissions(&at, fs::Permissions::from_mode(0o0)).unwrap();
        for words in COMMANDS {
            let ran = s.run_as_nobody(words).unwrap();
            let what = format!("{folder}: {}: {}", words.join(" "), ran.stdout);
            let Some(kind) = ran.json.pointer("/err/kind").and_then(|k| k.as_str()) else {
                // What does not need the folder goes on; a check tells of it.
                let told = ran.code != 0 || ran.stdout.contains("chmod u+rwx");
                assert!(
                    told || words != ["doctor", "check"] || folder == "doctor/receipts",
                    "{what}"
                );
                continue;
            };
            assert_eq!(kind, "permission-denied", "{what}");
            let hint = ran.text("/err/hint");
            let at = at.canonicalize().unwrap();
            let asked = format!("chmod u+rwx '{}'", at.display());
            assert!(hint.contains(&asked), "{what}");
        }
        fs::set_permissions(&at, fs::Permissions::from_mode(0o700)).unwrap();
    }
    // What belongs to somebody else is theirs to give.
    if rustix::process::geteuid().is_root() {
        let root = rustix::fs::Uid::from_raw(0);
        rustix::fs::chown(s.data(), Some(root), None).unwrap();
        let Some(ran) = s.run_as_nobody(&["index"]) else {
            return;
        };
        assert_eq!(ran.text("/err/kind"), "permission-denied");
        let hint = ran.text("/err/hint");
        assert!(
            hint.contains("belongs to user 0") && hint.contains("chown 65534"),
            "{hint}"
        );
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success());
}
