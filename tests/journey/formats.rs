//! Every file of ours that tells a version: what is current is read, what is newer is refused with
//! its path and left as it is, what no version writes is damage. Nothing here changes a byte.

use std::fs;
use std::path::{Path, PathBuf};

use cass::store::archive::SCHEMA_VERSION;

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

/// The ones that read come first: they leave all of it as it is.
const COMMANDS: [(&str, &[&str]); 10] = [
    ("check", &["doctor", "check", "--detail", "full"]),
    ("repair", &["doctor", "repair"]),
    ("search", &["search", "harbour"]),
    ("fix", &["doctor", "--fix"]),
    ("scan", &["doctor", "archive-scan"]),
    ("verify", VERIFY),
    ("sealed", SEALED),
    ("undo", &["doctor", "runs", "undo", "latest"]),
    ("restore", &["doctor", "backups", "restore", "b00000001"]),
    ("index", &["index"]),
];
/// Of [`COMMANDS`], the ones that write: a rehearsal its receipt, an index what it captures.
const WRITE: [&str; 2] = ["restore", "index"];
const VERIFY: &[&str] = &["doctor", "backups", "verify", "b00000001", "--deep"];
const SEALED: &[&str] = &["doctor", "backups", "verify", "g00000001", "--deep"];

/// Which commands refuse a data directory in which one file is of a newer version; the others do
/// not read it.
const REFUSED: [(Carrier, &str); 18] = [
    (
        ManifestFormat,
        "check repair search fix scan undo restore index",
    ),
    (
        ManifestSchema,
        "check repair search fix scan undo restore index",
    ),
    (Archive, "check repair search fix scan undo restore index"),
    (SealedManifest, "check repair fix scan sealed undo restore"),
    (Seal, "check repair fix scan sealed undo restore"),
    (SealedArchive, "sealed undo"),
    (BackupFormat, "check repair fix scan verify undo restore"),
    (BackupSchema, "check repair fix scan verify undo restore"),
    (
        BackupGeneration,
        "check repair fix scan verify undo restore",
    ),
    (BackupArchive, "verify restore"),
    (Mirror, "check repair fix scan undo restore index"),
    (Ledger, "check repair fix scan restore index"),
    (Intent, "check repair fix scan undo restore index"),
    (Receipt, "check repair fix scan undo restore"),
    (Accepted, "check repair fix scan undo restore"),
    (Marker, "check repair fix scan undo restore"),
    // Derived: made anew by whoever needs it.
    (MirrorIndex, ""),
    (Lexical, ""),
];

/// What tells of a version that none writes, how it ends, and what its document says.
const DAMAGE: [(Carrier, &[&str], i32, &str); 16] = [
    (ManifestFormat, CHECK, 1, "current-unreadable"),
    (ManifestSchema, CHECK, 1, "current-unreadable"),
    (Archive, CHECK, 1, "archive-corrupt"),
    (SealedManifest, SEALED, 23, "is damaged"),
    (Seal, SEALED, 23, "is damaged"),
    (SealedArchive, SEALED, 23, "user_version"),
    (BackupFormat, VERIFY, 23, "is damaged"),
    (BackupSchema, VERIFY, 23, "is damaged"),
    (BackupGeneration, VERIFY, 23, "is damaged"),
    (BackupArchive, VERIFY, 23, "user_version"),
    (Mirror, CHECK, 1, "format-damaged"),
    (Ledger, CHECK, 0, "ledger-damaged"),
    (Intent, CHECK, 0, "its intent is damaged"),
    (Receipt, &["doctor", "runs", "list"], 0, "damaged"),
    (Accepted, CHECK, 0, "accepted-damaged"),
    (Marker, CHECK, 0, "marker-corrupt"),
];
const CHECK: &[&str] = &["doctor", "check", "--detail", "full"];

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
    // Without a log beside it, so that its seal lists one file.
    header(&live(&s).join("agent_search.db"), SCHEMA_VERSION);
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
        "" => format!(
            "{}{}",
            &text[..at],
            text[end..].trim_start_matches(',').trim_start()
        ),
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

/// Says again how long the file beside a list of files is and what it holds.
fn relist(list: &Path, name: &str) {
    let bytes = fs::read(list.parent().unwrap().join(name)).unwrap();
    let text = fs::read_to_string(list).unwrap();
    let at = text.find(&format!("\"name\": \"{name}\"")).unwrap();
    let (before, entry) = text.split_at(at);
    let mut lines: Vec<String> = entry.lines().map(str::to_owned).collect();
    lines[1] = format!("      \"len\": {},", bytes.len());
    lines[2] = format!("      \"blake3\": \"{}\"", blake3::hash(&bytes).to_hex());
    fs::write(list, format!("{before}{}", lines.join("\n"))).unwrap();
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
            SealedManifest => {
                let path = json(old.join("manifest.json"), "schema_version");
                relist(&old.join("seal.json"), "manifest.json");
                path
            }
            Seal => {
                let path = json(old.join("seal.json"), "format");
                reseal(&old.join("seal.json"));
                path
            }
            SealedArchive => {
                header(&old.join("agent_search.db"), number?);
                relist(&old.join("seal.json"), "agent_search.db");
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
            BackupGeneration => {
                let path = json(backup.join("generation.json"), "schema_version");
                relist(&backup.join("manifest.json"), "generation.json");
                path
            }
            BackupArchive => {
                header(&backup.join("agent_search.db"), number?);
                relist(&backup.join("manifest.json"), "agent_search.db");
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
                conn.execute("UPDATE meta SET format=?1", [number?])
                    .unwrap();
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
fn what_is_newer_is_refused_with_its_path_and_left_as_it_is() {
    let kept = Kept::new();
    for (name, args) in COMMANDS {
        let ran = kept.s.run(args);
        assert_eq!(ran.code, 0, "{name}: {}", ran.stdout);
    }
    // Something to capture, so that an index has work to do.
    kept.s.put(SESSION, &session(6));
    for (carrier, refused) in REFUSED {
        let s = kept.back();
        let path = carrier.say(s, NEWER).unwrap();
        for (name, args) in COMMANDS {
            let what = format!("{carrier:?}, {name}");
            let before = snapshot(&s.data());
            let bytes = fs::read(&path).ok();
            let ran = s.run(args);
            let told = ran.stdout.contains(path.to_str().unwrap());
            if refused.split(' ').any(|r| r == name) {
                assert_eq!(ran.code, 6, "{what}: {}", ran.stdout);
                let kind = ran.text("/err/kind");
                let kinds = ["schema-too-new", "mirror-too-new"];
                assert!(kinds.contains(&kind) && told, "{what}: {}", ran.stdout);
                assert!(ran.stdout.contains(&format!(" {NEWER}; this one knows ")));
                let hint = ran.text("/err/hint");
                assert!(hint.contains("Run a newer cass"), "{what}: {hint}");
            } else {
                assert_ne!(ran.code, 6, "{what}: {}", ran.stdout);
                assert!(!told, "{what}: {}", ran.stdout);
            }
            let is_derived = matches!(carrier, MirrorIndex | Lexical);
            if !WRITE.contains(&name) && !is_derived {
                assert!(before == snapshot(&s.data()), "{what} changed something");
            }
            if !is_derived {
                assert!(bytes == fs::read(&path).ok(), "{what} changed it");
            }
        }
    }
}

#[test]
fn what_no_version_writes_is_damage_and_never_newer() {
    let kept = Kept::new();
    for (carrier, args, code, word) in DAMAGE {
        for value in NONSENSE {
            let s = kept.back();
            if carrier.say(s, value).is_none() {
                continue;
            }
            let what = format!("{carrier:?} {value:?}");
            let before = snapshot(&s.data());
            let ran = s.run(args);
            assert_eq!(ran.code, code, "{what}: {}", ran.stdout);
            assert!(ran.stdout.contains(word), "{what}: {}", ran.stdout);
            // Whatever it is, a repair has an answer.
            let repair = s.run(&["doctor", "repair"]);
            let codes = if carrier == Marker { [21; 2] } else { [0; 2] };
            assert!(codes.contains(&repair.code), "{what}: {}", repair.stdout);
            for said in [ran.stdout, repair.stdout] {
                assert!(!said.contains("newer cass"), "{what}: {said}");
            }
            assert!(before == snapshot(&s.data()), "{what} changed something");
        }
    }
}

/// A repair that needs rows reads none that a newer program may have written otherwise.
#[test]
fn rows_of_a_newer_archive_are_not_taken_by_a_repair() {
    let kept = Kept::new();
    let s = &kept.s;
    let named = s.path().join("recovered.db");
    fs::copy(live(s).join("agent_search.db"), &named).unwrap();
    header(&named, NEWER.parse().unwrap());
    let from = ["doctor", "repair", "--from", named.to_str().unwrap()];
    let refuses = |args: &[&str], path: &Path| {
        let before = snapshot(&s.data());
        let ran = s.run(args).expect(6);
        assert_eq!(ran.text("/err/kind"), "schema-too-new");
        assert!(
            ran.stdout.contains(path.to_str().unwrap()),
            "{}",
            ran.stdout
        );
        assert!(before == snapshot(&s.data()));
    };
    refuses(&from, &named);
    header(&named, SCHEMA_VERSION);
    s.run(&from).expect(0);
    // A folder.
    let other = s.path().join("other");
    Kept::copy(&s.data(), &other);
    let manifest = other.join("generations").join(live(s).file_name().unwrap());
    say(&manifest.join("manifest.json"), "schema_version", NEWER);
    let from = ["doctor", "repair", "--from", other.to_str().unwrap()];
    refuses(&from, &manifest.join("manifest.json"));
    // A backup whose rows would be needed.
    fs::remove_dir_all(s.data().join("raw-mirror")).unwrap();
    fs::remove_dir_all(s.data().join("generations")).unwrap();
    s.run(&["doctor", "repair"]).expect(0);
    let backup = BackupArchive.say(s, NEWER).unwrap();
    refuses(&["doctor", "repair"], &backup);
}
