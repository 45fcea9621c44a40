//! R5: the files of the mirror, the ledgers and the small files that name things.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use cass::disk::Root;
use cass::doctor::check::Checked;
use cass::model::finding::Severity;
use cass::store::mirror::MirrorReader;

use crate::figures::{Figures, Rng, count};
use crate::lab::{Lab, copy_tree, count_panics, findings};

/// Every capture that can be given back: source key and number, with the hash of its bytes.
fn captures(lab: &Lab) -> BTreeMap<(String, u64), blake3::Hash> {
    let mut out = BTreeMap::new();
    let Ok(Some(root)) = Root::open(&lab.data()) else {
        return out;
    };
    let Ok(Some(reader)) = MirrorReader::open(&root) else {
        return out;
    };
    // By the ledgers' names: an index or a first line that is damaged hides nothing.
    let ledgers = std::fs::read_dir(lab.file("raw-mirror/sources"))
        .into_iter()
        .flatten();
    for entry in ledgers.filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(Ok(key)) = name.strip_suffix(".jsonl").map(str::parse) else {
            continue;
        };
        let _ = reader.captures(key, &mut |line| {
            let mut bytes = Vec::new();
            let read = reader
                .open_content(line.recipe, line.len)
                .is_ok_and(|mut content| content.read_to_end(&mut bytes).is_ok());
            let hash = blake3::hash(&bytes);
            if read && hash.as_bytes() == &line.hash.0 {
                out.insert((name.clone(), line.seq), hash);
            }
            Ok(())
        });
    }
    out
}

/// The files that R5 damages, by kind.
fn targets(lab: &Lab) -> Vec<(&'static str, Vec<String>)> {
    let list = |rel: &str, ext: &str| -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(lab.file(rel))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .filter(|n| n.ends_with(ext))
            .map(|n| format!("{rel}/{n}"))
            .collect();
        names.sort();
        names
    };
    vec![
        ("pack", list("raw-mirror/packs", ".pack")),
        ("ledger", list("raw-mirror/sources", ".jsonl")),
        ("index", vec!["raw-mirror/index/mirror.db".to_owned()]),
        ("format", vec!["raw-mirror/FORMAT".to_owned()]),
        ("coverage", vec!["coverage.jsonl".to_owned()]),
        ("current", vec!["CURRENT".to_owned()]),
        (
            "manifest",
            vec!["generations/g00000001/manifest.json".to_owned()],
        ),
    ]
}

const HOWS: [&str; 9] = [
    "flip",
    "cut",
    "empty",
    "delete",
    "swap",
    "one more byte",
    "wrong name",
    "symlink",
    "folder",
];

/// Damages `rel`; returns the files that are damaged by it, or nothing when this can't be done.
fn damage(lab: &Lab, how: &str, rel: &str, same: &[String], rng: &mut Rng) -> Vec<String> {
    let path = lab.file(rel);
    let bytes = std::fs::read(&path).unwrap();
    let some = |rng: &mut Rng| usize::try_from(rng.below(bytes.len() as u64)).unwrap();
    match how {
        "flip" => {
            let mut bytes = bytes.clone();
            let at = some(rng);
            bytes[at] ^= 1 << rng.below(8);
            std::fs::write(&path, bytes).unwrap();
        }
        "cut" => std::fs::write(&path, &bytes[..some(rng)]).unwrap(),
        "empty" => std::fs::write(&path, b"").unwrap(),
        "delete" => std::fs::remove_file(&path).unwrap(),
        "swap" => {
            let others: Vec<&String> = same.iter().filter(|s| *s != rel).collect();
            if others.is_empty() {
                return Vec::new();
            }
            let other = others[usize::try_from(rng.below(others.len() as u64)).unwrap()];
            let theirs = std::fs::read(lab.file(other)).unwrap();
            std::fs::write(&path, theirs).unwrap();
            std::fs::write(lab.file(other), &bytes).unwrap();
            return vec![rel.to_owned(), other.clone()];
        }
        "one more byte" => {
            let mut bytes = bytes.clone();
            bytes.push(rng.next().to_le_bytes()[0] | 0x80);
            std::fs::write(&path, bytes).unwrap();
        }
        "wrong name" => {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let wrong = match name.as_bytes()[0] {
                b'0' if name.ends_with(".pack") => format!("9{}", &name[1..]),
                b'a' => format!("b{}", &name[1..]),
                _ => format!("a{}", &name[1..]),
            };
            std::fs::rename(&path, path.with_file_name(wrong)).unwrap();
        }
        "symlink" => {
            let away = lab.path().join("away");
            std::fs::rename(&path, &away).unwrap();
            std::os::unix::fs::symlink(&away, &path).unwrap();
        }
        "folder" => {
            std::fs::remove_file(&path).unwrap();
            std::fs::create_dir(&path).unwrap();
        }
        _ => unreachable!(),
    }
    vec![rel.to_owned()]
}

/// Whether a file is named by a finding that is more than a note, or, where a crash leaves the
/// same bytes, by a note.
fn named(checked: &Checked, rel: &str) -> Option<Severity> {
    let short = rel.rsplit('/').next().unwrap();
    findings(checked)
        .iter()
        .filter(|f| f.subject.contains(rel) || f.message.contains(rel) || f.message.contains(short))
        .map(|f| f.severity)
        .max()
}

/// Whether the bytes could be what a crash leaves: then a note is enough.
fn like_a_crash(kind: &str, how: &str) -> bool {
    match (kind, how) {
        // A torn line, a torn batch, lines that were not yet written.
        ("pack" | "ledger" | "coverage", "one more byte") | ("coverage", "cut") => true,
        // The index is derived; a missing one is made again.
        ("index", "delete" | "empty" | "wrong name") => true,
        _ => false,
    }
}

/// Puts the data directory back as it was.
fn restore(lab: &Lab, original: &Path) {
    std::fs::remove_dir_all(lab.data()).unwrap();
    copy_tree(original, &lab.data());
    let _ = std::fs::remove_file(lab.path().join("away"));
}

#[test]
fn r5_each_damaged_file_is_named() {
    let panics = count_panics();
    let lab = Lab::full();
    let original = lab.path().join("original");
    copy_tree(&lab.data(), &original);
    let mut rng = Rng(5);
    let mut figures = Figures::default();
    let rounds = count("CASS_DAMAGE_FILES", 8);
    let mut notes: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..rounds {
        for (kind, files) in targets(&lab) {
            for how in HOWS {
                // The small files have few bytes; the others are damaged at several places.
                let times = match (kind, how) {
                    ("pack" | "ledger" | "coverage" | "index", "flip" | "cut") => 3,
                    ("manifest" | "current", "flip" | "cut") => 2,
                    _ if round == 0 || kind == "ledger" && round < 4 => 1,
                    _ => 0,
                };
                for _ in 0..times {
                    let rel = &files[usize::try_from(rng.below(files.len() as u64)).unwrap()];
                    let before = content(&lab);
                    let hit = damage(&lab, how, rel, &files, &mut rng);
                    if hit.is_empty() {
                        continue;
                    }
                    let what = format!("{how} of {rel}");
                    figures.tried += 1;
                    let checked = lab.check(&[]);
                    let severity: Vec<_> = hit.iter().map(|f| named(&checked, f)).collect();
                    let enough = if like_a_crash(kind, how) {
                        Severity::Info
                    } else {
                        Severity::Warn
                    };
                    if content(&lab) == before {
                        figures.harmless += 1;
                    } else if severity.iter().any(|s| s.is_none_or(|s| s < enough)) {
                        let at = differs(&lab.file(rel), &original.join(rel));
                        figures
                            .undetected
                            .push(format!("{what} at {at:?}: {:?}", findings(&checked)));
                    } else {
                        figures.found += 1;
                        let worst = severity.iter().flatten().max().unwrap();
                        *notes.entry(format!("{kind}, {worst:?}")).or_default() += 1;
                    }
                    restore(&lab, &original);
                }
            }
        }
        figures.sound_runs += 1;
        let checked = lab.check(&[]);
        if findings(&checked)
            .iter()
            .any(|f| f.severity > Severity::Info)
        {
            figures
                .false_alarms
                .push(format!("{:?}", findings(&checked)));
        }
    }
    println!("damage severities: {notes:?}");
    figures.end("R5 packs, ledgers, index, coverage, CURRENT, manifest, FORMAT");
    assert_eq!(panics(), 0);
}

/// The first byte in which two files differ.
fn differs(a: &Path, b: &Path) -> Option<usize> {
    let (a, b) = (std::fs::read(a).ok()?, std::fs::read(b).ok()?);
    a.iter().zip(&b).position(|(a, b)| a != b)
}

/// The bytes that mean something: of the derived index its rows, of all others the bytes.
fn content(lab: &Lab) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    for entry in walkdir::WalkDir::new(lab.data())
        .into_iter()
        .filter_map(Result::ok)
    {
        let name = entry.path().to_string_lossy().into_owned();
        if name.contains("/locks/") || name.contains("agent_search.db") {
            continue;
        }
        let kind = entry.file_type();
        let bytes = if name.ends_with("mirror.db") && kind.is_file() {
            rows(entry.path())
        } else if name.contains("mirror.db-") {
            continue;
        } else if name.ends_with("manifest.json") && kind.is_file() {
            // What it says; the newline at its end says nothing.
            let bytes = std::fs::read(entry.path()).unwrap();
            serde_json::from_slice::<serde_json::Value>(&bytes)
                .map(|v| v.to_string().into_bytes())
                .unwrap_or(bytes)
        } else if kind.is_file() {
            std::fs::read(entry.path()).unwrap()
        } else {
            format!("{kind:?}").into_bytes()
        };
        out.insert(entry.path().to_path_buf(), bytes);
    }
    out
}

/// Every row of a database, read by plain SQLite on a copy.
fn rows(db: &Path) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.db");
    std::fs::copy(db, &copy).unwrap();
    let read = || -> rusqlite::Result<String> {
        let conn = rusqlite::Connection::open(&copy)?;
        // Only a copy: closing it need not reach the disk.
        conn.pragma_update(None, "synchronous", "OFF")?;
        let mut out = format!(
            "{:?}",
            conn.pragma_query_value(None, "user_version", |r| r.get::<_, i64>(0))?
        );
        let mut names =
            conn.prepare("SELECT name,sql FROM sqlite_schema WHERE type='table' ORDER BY name")?;
        let names: Vec<(String, String)> = names
            .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (name, sql) in names {
            out.push_str(&sql);
            let mut s = conn.prepare(&format!("SELECT * FROM \"{name}\" ORDER BY 1"))?;
            let n = s.column_count();
            let mut rows = s.query([])?;
            while let Some(row) = rows.next()? {
                for i in 0..n {
                    out.push_str(&format!("{:?},", row.get_ref(i)?));
                }
            }
        }
        Ok(out)
    };
    read()
        .unwrap_or_else(|e| format!("unreadable: {e}"))
        .into_bytes()
}

/// What can be captured again is whole again after `index --full`, and no capture that could be
/// given back before is lost by it.
#[test]
fn r5_a_full_index_heals_and_never_harms() {
    let panics = count_panics();
    let lab = Lab::full();
    let original = lab.path().join("original");
    copy_tree(&lab.data(), &original);
    let mut rng = Rng(55);
    let (mut tried, mut healed, mut refused, mut worse) = (0u64, 0u64, 0u64, Vec::new());
    let mut unhealed = Vec::new();
    let rounds = count("CASS_DAMAGE_HEAL", 2);
    for _ in 0..rounds {
        for (kind, files) in targets(&lab) {
            for how in HOWS {
                let rel = &files[usize::try_from(rng.below(files.len() as u64)).unwrap()];
                if damage(&lab, how, rel, &files, &mut rng).is_empty() {
                    continue;
                }
                let what = format!("{how} of {rel}");
                tried += 1;
                let before = captures(&lab);
                let ran = lab.try_index(true);
                let after = captures(&lab);
                for (capture, hash) in &before {
                    if after.get(capture) != Some(hash) {
                        worse.push(format!(
                            "{what}: capture {} of {} is lost",
                            capture.1, capture.0
                        ));
                    }
                }
                match ran {
                    Err(e) => {
                        refused += 1;
                        // Only where something lies that must not be removed by itself, or where a flip
                        // made the format's number a newer one.
                        let may = matches!((kind, how), ("format", "symlink" | "folder"))
                            || e.kind() == cass::error::ErrorKind::MirrorTooNew;
                        assert!(may, "{what}: {e:?}");
                    }
                    Ok(_) => {
                        healed += 1;
                        // Every source still exists: its newest capture must be readable now.
                        let sound = newest_readable(&lab);
                        if let Err(why) = sound {
                            unhealed.push(format!("{what}: {why}"));
                        }
                    }
                }
                // A second look must not find more than the first left.
                let _ = lab.check(&[]);
                restore(&lab, &original);
            }
        }
    }
    println!(
        "damage: index --full after {tried} damages: {healed} ran, {refused} refused, {} unhealed, {} worse",
        unhealed.len(),
        worse.len()
    );
    assert!(worse.is_empty(), "{worse:#?}");
    assert!(unhealed.is_empty(), "{unhealed:#?}");
    assert!(healed > tried / 2);
    assert_eq!(panics(), 0);
}

/// Every file of the home can be given back in its present form.
fn newest_readable(lab: &Lab) -> Result<(), String> {
    let root = Root::open(&lab.data()).unwrap().unwrap();
    let reader = MirrorReader::open(&root)
        .map_err(|e| e.message().to_owned())?
        .ok_or("no mirror")?;
    let home = std::fs::canonicalize(lab.home()).unwrap();
    for entry in walkdir::WalkDir::new(&home)
        .into_iter()
        .filter_map(Result::ok)
    {
        if !entry.file_type().is_file() {
            continue;
        }
        let path = entry.path();
        let folders = [
            (".claude", "claude"),
            (".codex", "codex"),
            (".local/share/opencode", "opencode"),
            ("src/bot/.crush", "crush"),
            (".config/Cursor", "cursor"),
            (".gemini", "gemini"),
            (".copilot", "copilot"),
            (".factory", "droid"),
            (".qwen", "qwen"),
        ];
        let whose = folders.iter().find(|(f, _)| path.starts_with(home.join(f)));
        // What says where a harness works is no session.
        let Some((_, provider)) = whose else {
            continue;
        };
        let provider = provider.parse().unwrap();
        let ident = cass::store::mirror::SourceIdent::new("local", provider, path.to_path_buf());
        let ledger = lab.file(&format!("raw-mirror/sources/{}.jsonl", ident.key));
        // A link or a folder in the ledger's place is left for the person; the run says so.
        if std::fs::symlink_metadata(&ledger).is_ok_and(|m| !m.is_file()) {
            continue;
        }
        let mut newest = None;
        reader
            .captures(ident.key, &mut |line| {
                newest = Some(line);
                Ok(())
            })
            .map_err(|e| e.message().to_owned())?;
        let line = newest.ok_or_else(|| format!("{} has no capture", path.display()))?;
        let mut bytes = Vec::new();
        reader
            .open_content(line.recipe, line.len)
            .map_err(|e| format!("{}: {}", path.display(), e.message()))?
            .read_to_end(&mut bytes)
            .map_err(|e| format!("{}: {e}", path.display()))?;
        if bytes != std::fs::read(path).unwrap() {
            return Err(format!("{}: other bytes", path.display()));
        }
    }
    Ok(())
}

/// A ledger that lost its end, with the derived index gone, is told by the archive that read it.
#[test]
fn r5_a_cut_ledger_without_an_index_is_told_by_the_archive() {
    let lab = Lab::full();
    let (_, ledgers) = targets(&lab).remove(1);
    let cut = ledgers
        .iter()
        .find(|rel| {
            std::fs::read_to_string(lab.file(rel))
                .unwrap()
                .lines()
                .count()
                == 3
        })
        .expect("a source with two captures");
    let text = std::fs::read_to_string(lab.file(cut)).unwrap();
    let end = text[..text.len() - 1].rfind('\n').unwrap() + 1;
    std::fs::write(lab.file(cut), &text[..end]).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(lab.file(&format!("raw-mirror/index/mirror.db{suffix}")));
    }
    let ran = lab.run(&["doctor", "check", "--deep"]).expect(1);
    assert!(ran.errors().contains(&"capture-missing"), "{}", ran.json);
    assert_eq!(ran.text("/raw_mirror/status"), "corrupt");
}

/// Two packs, one of them full: exchanged, lost, or something else in their place.
#[test]
fn r5_packs_that_trade_places_or_vanish_are_named() {
    let lab = Lab::own();
    // Not compressible, and no session: captured as evidence beside one.
    let mut rng = Rng(9);
    let noise: Vec<u8> = (0..(66 << 20) / 8)
        .flat_map(|_| rng.next().to_le_bytes())
        .collect();
    lab.put(
        ".claude/projects/-src-made/0b0b0b0b-0000-4000-8000-000000000000/tool-results/big.txt",
        &noise,
    );
    drop(noise);
    lab.index(false);
    let (path, text) = crate::sessions::claude(400, 20);
    lab.put(&path, text.as_bytes());
    lab.index(false);
    let packs = targets(&lab).remove(0).1;
    assert!(packs.len() >= 2, "{packs:?}");
    let (first, second) = (lab.file(&packs[0]), lab.file(&packs[1]));
    use cass::model::verdict::MirrorState;
    // As bad as what it costs: a warning where every capture can be given back all the same.
    let named = |what: &str, files: &[&String], worst: Severity, state: MirrorState| {
        let checked = lab.check(&crate::lab::MIRROR);
        for file in files {
            let told = findings(&checked)
                .iter()
                .any(|f| f.subject.contains(*file) && f.severity == worst);
            assert!(told, "{what}: {file} in {:?}", findings(&checked));
        }
        assert_eq!(checked.facts.mirror.status, state, "{what}");
    };
    let (error, corrupt) = (Severity::Error, MirrorState::Corrupt);
    let away = lab.path().join("away");
    std::fs::rename(&first, &away).unwrap();
    named("first gone", &[&packs[0]], error, corrupt);
    std::fs::rename(&second, &first).unwrap();
    std::fs::rename(&away, &second).unwrap();
    let both = [&packs[0], &packs[1]];
    named("swapped", &both, Severity::Warn, MirrorState::Degraded);
    std::fs::rename(&second, &away).unwrap();
    std::fs::rename(&first, &second).unwrap();
    std::fs::rename(&away, &first).unwrap();
    let checked = lab.check(&crate::lab::MIRROR);
    assert!(findings(&checked).is_empty(), "{:?}", findings(&checked));
    std::fs::rename(&second, &away).unwrap();
    named("second gone", &[&packs[1]], error, corrupt);
}

/// The derived index is never believed over packs and ledgers, and a row of it that was changed is
/// found all the same.
#[test]
fn r5_flips_of_the_derived_index_are_found() {
    let lab = Lab::small();
    let db = lab.file("raw-mirror/index/mirror.db");
    let original = std::fs::read(&db).unwrap();
    let sound = rows(&db);
    let before = captures(&lab);
    let mut rng = Rng(7);
    let mut figures = Figures::default();
    for n in 0..count("CASS_DAMAGE_INDEX_FLIPS", 200) {
        let at = usize::try_from(rng.below(original.len() as u64)).unwrap();
        let bit = rng.below(8);
        let mut bytes = original.clone();
        bytes[at] ^= 1 << bit;
        std::fs::write(&db, &bytes).unwrap();
        figures.tried += 1;
        let checked = lab.check(&crate::lab::MIRROR);
        if findings(&checked)
            .iter()
            .any(|f| f.subject.contains("mirror.db"))
        {
            figures.found += 1;
        } else if rows(&db) == sound {
            figures.harmless += 1;
        } else {
            figures.undetected.push(format!("bit {bit} of byte {at}"));
        }
        if n % 50 == 0 {
            assert_eq!(captures(&lab), before, "bit {bit} of byte {at}");
        }
    }
    figures.end("R5 bit flips of the derived index");
}

/// Puts something else in a place of the product.
fn obstruct(lab: &Lab, what: &str, path: &Path) {
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_dir_all(path);
    let theirs = lab.path().join("theirs");
    match what {
        "folder" => {
            std::fs::create_dir(path).unwrap();
            std::fs::write(path.join("note"), "theirs").unwrap();
        }
        "fifo" => {
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
        }
        "link to a folder" => {
            std::fs::create_dir_all(&theirs).unwrap();
            std::fs::write(theirs.join("note"), "theirs").unwrap();
            std::os::unix::fs::symlink(&theirs, path).unwrap();
        }
        "link to nothing" => std::os::unix::fs::symlink("nothing", path).unwrap(),
        "text" => std::fs::write(path, "theirs ".repeat(2000)).unwrap(),
        _ => unreachable!(),
    }
}

/// I14: the derived index is made again, and what was put in its place is kept beside it.
#[test]
fn whatever_has_the_place_of_the_index_capture_works() {
    let lab = Lab::small();
    let index = "raw-mirror/index";
    let original = lab.path().join("original");
    copy_tree(&lab.data(), &original);
    let whats = [
        "folder",
        "fifo",
        "link to a folder",
        "link to nothing",
        "text",
    ];
    for suffix in [
        "/mirror.db",
        "/mirror.db-wal",
        "/mirror.db-shm",
        "/mirror.db-journal",
        "",
    ] {
        for what in whats {
            if (suffix, what) == ("", "folder") {
                continue;
            }
            let rel = format!("{index}{suffix}");
            let case = format!("{what} as {rel}");
            let captured = captures(&lab);
            obstruct(&lab, what, &lab.file(&rel));
            // Text beside the index is what SQLite itself passes over.
            let odd = what != "text" || suffix.is_empty();
            let checked = lab.check(&[]);
            if odd || suffix == "/mirror.db" {
                assert!(named(&checked, &rel) >= Some(Severity::Warn), "{case}");
            }
            let ran = lab.run(&["index", "--full", "--skip-lexical"]);
            assert_eq!(ran.code, 0, "{case}: {}", ran.json);
            assert_eq!(captures(&lab), captured, "{case}");
            let checked = lab.check(&[]);
            let aside = format!("{rel}.set-aside-1");
            assert_eq!(lab.file(&aside).symlink_metadata().is_ok(), odd, "{case}");
            if odd {
                assert_eq!(named(&checked, &aside), Some(Severity::Warn), "{case}");
                let told = ran.json["captured"]["mirror_damage"].to_string();
                assert!(told.contains(&aside), "{case}: {told}");
            } else {
                assert!(
                    !findings(&checked)
                        .iter()
                        .any(|f| f.severity > Severity::Info)
                );
            }
            if what.ends_with("folder") {
                let note = lab.file(&aside).join("note");
                assert_eq!(std::fs::read(note).unwrap(), b"theirs", "{case}");
            }
            restore(&lab, &original);
        }
    }
}
