//! Every file of ours that tells a version: what is current is read, what is newer is refused with
//! its path and left as it is, what no version writes is damage. Nothing here changes a byte.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::sandbox::{Ran, Sandbox, files_below, ran, snapshot};

const SESSION: &str = ".claude/projects/-src/aaaaaaaa-0000-4000-8000-000000000001.jsonl";
const RUN: &str = "run-01900000-0000-7000-8000-000000000001";

/// Whose version is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carrier {
    ManifestFormat,
    ManifestSchema,
    Archive,
    SealedManifest,
    Seal,
    SealedArchive,
    BackupFormat,
    BackupSchema,
    BackupGeneration,
    BackupArchive,
    Mirror,
    Ledger,
    Intent,
    Receipt,
    Accepted,
    Marker,
    MirrorIndex,
    Lexical,
}

use Carrier::{
    Accepted, Archive, BackupArchive, BackupFormat, BackupGeneration, BackupSchema, Intent, Ledger,
    Lexical, ManifestFormat, ManifestSchema, Marker, Mirror, MirrorIndex, Receipt, Seal,
    SealedArchive, SealedManifest,
};

/// What it says instead: a newer version, or one that none writes.
const NEWER: &str = "3";
const NONSENSE: [&str; 4] = ["0", "-1", "\"one\"", ""];

const COMMANDS: [(&str, &[&str]); 11] = [
    ("check", &["doctor", "check", "--detail", "full"]),
    ("deep", &["doctor", "check", "--deep", "--detail", "full"]),
    ("index", &["index"]),
    ("search", &["search", "harbour"]),
    ("repair", &["doctor", "repair"]),
    ("fix", &["doctor", "--fix"]),
    ("scan", &["doctor", "archive-scan"]),
    ("verify", &["doctor", "backups", "verify", "b00000001", "--deep"]),
    ("sealed", &["doctor", "backups", "verify", "g00000001", "--deep"]),
    ("restore", &["doctor", "backups", "restore", "b00000001"]),
    ("undo", &["doctor", "runs", "undo", "latest"]),
];

/// How each command ends where a file is of a newer version, in the order of [`COMMANDS`].
const REFUSED: &[(Carrier, &str)] = &[
];

fn session(turns: usize) -> Vec<u8> {
    let mut text = String::new();
    let mut parent = "null".to_owned();
    for i in 0..turns {
        let uuid = format!("00000000-0000-4000-8000-{i:012}");
        text.push_str(&format!(
            "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\
             \"sessionId\":\"aaaaaaaa-0000-4000-8000-000000000001\",\"cwd\":\"/src\",\
             \"timestamp\":\"2026-11-01T10:00:{i:02}.000Z\",\"version\":\"2.1.0\",\
             \"message\":{{\"role\":\"user\",\"content\":\"the harbour at {i}\"}}}}\n"
        ));
        parent = format!("\"{uuid}\"");
    }
    text.into_bytes()
}

fn applied(s: &Sandbox, args: &[&str]) -> Ran {
    let planned = s.run(args).expect(0);
    let argv = planned
        .json
        .as_object()
        .unwrap()
        .values()
        .find_map(|v| v.get("apply_argv"))
        .unwrap_or_else(|| panic!("no plan in {}", planned.stdout));
    let words: Vec<String> = serde_json::from_value(argv.clone()).unwrap();
    let mut c = s.command(&["--json"]);
    ran(c.args(words.iter().skip(1)).output().unwrap()).expect(0)
}

fn live(s: &Sandbox) -> PathBuf {
    let id = fs::read_to_string(s.data().join("CURRENT")).unwrap();
    s.data().join("generations").join(id.trim_end())
}

/// A data directory with one of everything: a sealed generation and a live one, a backup, receipts,
/// an accepted loss.
fn one_of_everything() -> Sandbox {
    let s = Sandbox::in_memory();
    s.put(SESSION, &session(4));
    s.put(
        ".claude/history.jsonl",
        b"{\"display\":\"a\",\"timestamp\":1780000000000,\"project\":\"/src\"}\n",
    );
    s.run(&["index"]).expect(0);
    applied(&s, &["doctor", "backups", "create"]);
    // What the archive has no rows of is lost, accepted, and comes back.
    let (home, away) = (s.home().join(".claude"), s.path().join("away"));
    let pack = s.data().join("raw-mirror/packs/00000001.pack");
    let kept = s.path().join("kept.pack");
    fs::rename(&home, &away).unwrap();
    fs::rename(&pack, &kept).unwrap();
    applied(&s, &["doctor", "repair"]);
    fs::rename(&kept, &pack).unwrap();
    fs::rename(&away, &home).unwrap();
    // A rehearsal, then the restore itself.
    applied(&s, &["doctor", "backups", "restore", "b00000001"]);
    s.run(&["index"]).expect(0);
    s
}

/// Puts `value` in the place of the number that stands behind `"key": ` or `"key":`; nothing is left of
/// the member where it is empty.
fn say(path: &Path, key: &str, value: &str) {
    let text = fs::read_to_string(path).unwrap();
    let at = text.find(&format!("\"{key}\":")).unwrap();
    let from = at + key.len() + 3;
    let end = from + text[from..].find([',', '\n', '}']).unwrap();
    let new = match value {
        "" => format!("{}{}", &text[..at], text[end..].trim_start_matches(',').trim_start()),
        _ => format!("{}{value}{}", &text[..from], &text[end..]),
    };
    fs::write(path, new).unwrap();
}

/// A list of files is covered by the digest of its own compact text.
fn reseal(path: &Path) {
    let text = fs::read_to_string(path).unwrap();
    let body = &text[..text.rfind(",\n  \"digest\"").unwrap()];
    let (mut compact, mut quoted, mut escaped) = (String::new(), false, false);
    for c in body.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        if quoted || !c.is_whitespace() {
            compact.push(c);
        }
    }
    compact.push('}');
    let digest = blake3::hash(compact.as_bytes()).to_hex();
    fs::write(path, format!("{body},\n  \"digest\": \"{digest}\"\n}}\n")).unwrap();
}

/// The one file below `folder` whose text holds `word`.
fn holding(folder: &Path, word: &str) -> PathBuf {
    files_below(folder)
        .into_iter()
        .find(|p| fs::read_to_string(p).is_ok_and(|t| t.contains(word)))
        .unwrap()
}

fn header(path: &Path, version: i64) {
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.pragma_update(None, "user_version", version).unwrap();
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    conn.close().unwrap();
}

/// Says again how long the database beside a list of files is and what it holds.
fn relist(list: &Path) {
    let db = list.parent().unwrap().join("agent_search.db");
    let bytes = fs::read(&db).unwrap();
    let mut text: Value = serde_json::from_str(&fs::read_to_string(list).unwrap()).unwrap();
    let old = text["files"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .find(|f| f["name"] == "agent_search.db")
        .unwrap()["blake3"]
        .take();
    let new = blake3::hash(&bytes).to_hex();
    let text = fs::read_to_string(list).unwrap();
    fs::write(list, text.replace(old.as_str().unwrap(), &new)).unwrap();
    reseal(list);
}

impl Carrier {
    /// Makes it say `value`; the path that is to be named, or `None` where it can't say that.
    fn say(self, s: &Sandbox, value: &str) -> Option<PathBuf> {
        let data = s.data();
        let old = data.join("generations/g00000001");
        let backup = data.join("backups/b00000001");
        let number: Option<i64> = value.parse().ok();
        let json = |path: PathBuf, key: &str| {
            say(&path, key, value);
            Some(path)
        };
        match self {
            ManifestFormat => json(live(s).join("manifest.json"), "format"),
            ManifestSchema => json(live(s).join("manifest.json"), "schema_version"),
            Archive => {
                let path = live(s).join("agent_search.db");
                header(&path, number?);
                Some(path)
            }
            SealedManifest => json(old.join("manifest.json"), "schema_version"),
            Seal => {
                let path = json(old.join("seal.json"), "format");
                reseal(&old.join("seal.json"));
                path
            }
            SealedArchive => {
                header(&old.join("agent_search.db"), number?);
                relist(&old.join("seal.json"));
                Some(old.join("agent_search.db"))
            }
            BackupFormat | BackupSchema => {
                let key = match self {
                    BackupFormat => "format",
                    _ => "schema_version",
                };
                let path = json(backup.join("manifest.json"), key);
                reseal(&backup.join("manifest.json"));
                path
            }
            BackupGeneration => json(backup.join("generation.json"), "schema_version"),
            BackupArchive => {
                header(&backup.join("agent_search.db"), number?);
                relist(&backup.join("manifest.json"));
                Some(backup.join("agent_search.db"))
            }
            Mirror => {
                let path = data.join("raw-mirror/FORMAT");
                fs::write(&path, format!("cass-mirror {value}\n")).unwrap();
                Some(path)
            }
            Ledger => {
                let path = holding(&data.join("raw-mirror/sources"), "aaaaaaaa-0000");
                let text = fs::read_to_string(&path).unwrap();
                let (first, rest) = text.split_once('\n').unwrap();
                let body = first.rsplit_once(",\"sum\"").unwrap().0;
                let body = match value {
                    "" => body.replace("\"ledger\":1,", ""),
                    _ => body.replace("\"ledger\":1", &format!("\"ledger\":{value},\"new\":1")),
                };
                let sum = blake3::hash(body.as_bytes()).to_hex();
                fs::write(&path, format!("{body},\"sum\":\"{}\"}}\n{rest}", &sum[..8])).unwrap();
                Some(path)
            }
            Intent => {
                let from = files_below(&data.join("doctor/intents")).pop().unwrap();
                let id = from.file_stem().unwrap().to_str().unwrap().to_owned();
                let path = data.join(format!("doctor/intents/{RUN}.json"));
                let text = fs::read_to_string(&from).unwrap();
                fs::write(&path, text.replace(&id, RUN)).unwrap();
                json(path, "format")
            }
            Receipt => json(
                files_below(&data.join("doctor/receipts")).remove(0),
                "format",
            ),
            Accepted => json(
                files_below(&data.join("doctor/accepted")).remove(0),
                "format",
            ),
            Marker => {
                let path = data.join("doctor/failures/marker.json");
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let text = format!(
                    "{{\"format\":1,\"run_id\":\"{RUN}\",\"kind\":\"repair\",\
                     \"fingerprint\":\"x\",\"at_ms\":1,\"error_kind\":\"io\"}}"
                );
                fs::write(&path, text).unwrap();
                json(path, "format")
            }
            MirrorIndex => {
                let path = data.join("raw-mirror/index/mirror.db");
                header(&path, number?);
                Some(path)
            }
            Lexical => {
                let folder = data.join("derived/lexical");
                let id = fs::read_to_string(folder.join("CURRENT")).unwrap();
                let path = folder.join(id.trim_end()).join("index.db");
                let conn = rusqlite::Connection::open(&path).unwrap();
                conn.execute("UPDATE meta SET format=?1", [number?]).unwrap();
                conn.close().unwrap();
                Some(path)
            }
        }
    }
}

/// A way back to a data directory as it was.
struct Kept {
    s: Sandbox,
    copy: PathBuf,
}

impl Kept {
    fn new() -> Kept {
        let s = one_of_everything();
        let copy = s.path().join("copy");
        Kept::copy(&s.data(), &copy);
        Kept { s, copy }
    }

    fn copy(from: &Path, to: &Path) {
        let _ = fs::remove_dir_all(to);
        let done = std::process::Command::new("cp")
            .arg("-a")
            .args([from, to])
            .status();
        assert!(done.unwrap().success());
    }

    fn back(&self) -> &Sandbox {
        Kept::copy(&self.copy, &self.s.data());
        &self.s
    }
}

#[test]
fn observed() {
    let kept = Kept::new();
    kept.s.put(SESSION, &session(6));
    for (name, args) in COMMANDS {
        let ran = kept.back().run(args);
        println!("base {name} {} {}", ran.code, ran.json["status"]);
    }
    for carrier in [
        ManifestFormat, ManifestSchema, Archive, SealedManifest, Seal, SealedArchive, BackupFormat,
        BackupSchema, BackupGeneration, BackupArchive, Mirror, Ledger, Intent, Receipt, Accepted,
        Marker, MirrorIndex, Lexical,
    ] {
        for value in [NEWER].iter().chain(&NONSENSE) {
            let s = kept.back();
            let Some(path) = carrier.say(s, value) else {
                continue;
            };
            let mut line = format!("{carrier:?} {value:>6}:");
            for (name, args) in COMMANDS {
                kept.back();
                carrier.say(s, value);
                let before = snapshot(&s.data());
                let ran = s.run(args);
                let same = before == snapshot(&s.data());
                let err = ran.json.pointer("/err/kind").and_then(Value::as_str).unwrap_or("");
                let named = ran.stdout.contains(path.to_str().unwrap());
                line += &format!(" {name}={}{}{}{}", ran.code, err, if same {""} else {"*"}, if named {""} else {"-"});
            }
            println!("{line}");
            kept.back();
            carrier.say(s, value);
            let ran = s.run(&["doctor","check","--detail","full"]);
            for f in ran.at("/findings").as_array().unwrap() { if !["sources.retention"].contains(&f["id"].as_str().unwrap_or("")) {
              println!("       {} {} {} {}", f["severity"], f["code"], f["subject"], f["message"]); } }
        }
    }
    let _ = REFUSED;
}
