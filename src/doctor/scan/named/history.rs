//! The files in which a harness names its sessions: as captured, and as they are now where they
//! changed since. Text of them is passed over; only ids are kept.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{DeserializeSeed, SeqAccess, Visitor};

use super::{Named, Place};
use crate::doctor::scan::captures::content;
use crate::doctor::scan::live::{same, stat};
use crate::doctor::scan::view::View;
use crate::error::{ErrorKind, Result};
use crate::model::interrupt::Interrupt;
use crate::model::provider::Provider;
use crate::model::scan::HistoryKind;
use crate::model::source::{LOCAL, SourceKey};
use crate::sources::file::{Base, Stat};
use crate::store::archive::ArchiveReader;
use crate::store::foreign::ForeignDb;
use crate::store::mirror::{Head, MirrorReader};
use crate::store::wal::fold;

/// Bytes of one line that are looked at.
const MAX_LINE: u64 = 64 << 20;
/// A database is read in memory, since nothing may be written; a longer one is not read.
const MAX_DATABASE: u64 = 64 << 20;

/// What was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct History {
    /// Captured history files.
    pub captured: u64,
    /// Live history files that changed since they were captured, or never were.
    pub live: u64,
    /// Files that could not be read, or not to their end.
    pub unreadable: u64,
}

/// How a history file is written.
#[derive(Debug, Clone, Copy)]
enum Form {
    /// A line an entry, with the id in this field.
    Lines(&'static str, HistoryKind),
    /// An array of entries with the id in `sessionId`.
    Array,
    /// A database with a table of threads.
    Threads,
}

fn form(provider: Provider, path: &Path) -> Option<(Form, HistoryKind)> {
    let name = path.file_name()?.to_str()?;
    let form = match (provider, name) {
        (Provider::Claude, "history.jsonl") => Form::Lines("sessionId", HistoryKind::Prompts),
        (Provider::Codex, "history.jsonl") => Form::Lines("session_id", HistoryKind::Prompts),
        (Provider::Codex, "session_index.jsonl") => Form::Lines("id", HistoryKind::SessionIndex),
        (Provider::Codex, name) if name.starts_with("state_") && name.ends_with(".sqlite") => {
            Form::Threads
        }
        (Provider::Gemini, "logs.json") => Form::Array,
        _ => return None,
    };
    let kind = match form {
        Form::Lines(_, kind) => kind,
        Form::Array => HistoryKind::Prompts,
        Form::Threads => HistoryKind::SessionTable,
    };
    Some((form, kind))
}

struct Reading<'a> {
    archive: Option<&'a ArchiveReader>,
    named: &'a mut Named,
    interrupt: &'a Interrupt,
    seen: History,
}

/// Reads every history file that was captured or that is there now.
pub(in crate::doctor::scan) fn read_all(
    view: &View,
    mirror: Option<&MirrorReader<'_>>,
    archive: Option<&ArchiveReader>,
    named: &mut Named,
    interrupt: &Interrupt,
) -> Result<History> {
    let mut reading = Reading {
        archive,
        named,
        interrupt,
        seen: History::default(),
    };
    if let Some(mirror) = mirror {
        mirror.for_each_head(&mut |head| {
            interrupt.check()?;
            let ident = &head.ident;
            if view.wants(ident.provider)
                && let Some((form, kind)) = form(ident.provider, &ident.path)
            {
                let place = Place {
                    provider: ident.provider,
                    kind,
                    key: ident.key,
                    captured: true,
                };
                reading.captured(mirror, &head, form, place)?;
            }
            Ok(())
        })?;
    }
    for (root, ..) in &view.roots {
        for path in candidates(root.provider, &root.path) {
            interrupt.check()?;
            let Some((form, kind)) = form(root.provider, &path) else {
                continue;
            };
            let key = SourceKey::derive(LOCAL, root.provider, &path);
            let head = match mirror {
                Some(mirror) => mirror.indexed_head(key)?,
                None => None,
            };
            let Ok(Some(now)) = stat(&path) else { continue };
            if view.config.excludes(&path) || head.is_some_and(|h| unchanged(&h, &path, &now)) {
                continue;
            }
            let place = Place {
                provider: root.provider,
                kind,
                key,
                captured: false,
            };
            reading.live(&path, form, place)?;
        }
    }
    Ok(reading.seen)
}

/// A database's last rows may be in its WAL alone.
fn unchanged(head: &Head, path: &Path, now: &Stat) -> bool {
    let wal = with(path, "-wal");
    same(head, now)
        && match stat(&wal) {
            Ok(Some(wal)) => head
                .gate
                .extra
                .contains(&format!("-wal {} {}", wal.size, wal.mtime_ns)),
            _ => true,
        }
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Where history files may lie below a root.
fn candidates(provider: Provider, root: &Path) -> Vec<PathBuf> {
    let names = |dir: &Path| -> Vec<PathBuf> {
        let mut all: Vec<_> = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .filter_map(|e| e.ok().map(|e| e.path()))
            .collect();
        all.sort();
        all
    };
    match provider {
        Provider::Claude => vec![root.join("history.jsonl")],
        Provider::Codex => names(root),
        Provider::Gemini => names(&root.join("tmp"))
            .into_iter()
            .map(|project| project.join("logs.json"))
            .collect(),
        _ => Vec::new(),
    }
}

impl Reading<'_> {
    fn captured(
        &mut self,
        mirror: &MirrorReader<'_>,
        head: &Head,
        form: Form,
        place: Place,
    ) -> Result<()> {
        self.seen.captured += 1;
        let done = match form {
            Form::Threads => {
                let line = mirror.capture(place.key, head.seq)?;
                let image = line.as_ref().and_then(|line| {
                    let db = content(mirror, line, "", MAX_DATABASE)?;
                    let wal = content(mirror, line, "-wal", MAX_DATABASE).unwrap_or_default();
                    Some((db, wal))
                });
                match image {
                    Some((db, wal)) => self.threads(place, db, &wal),
                    None => Ok(false),
                }
            }
            _ => match mirror.open_content(head.recipe, head.len) {
                Ok(bytes) => self.text(place, form, bytes),
                Err(e) if e.kind() == ErrorKind::Io => Err(e),
                Err(_) => Ok(false),
            },
        }?;
        self.seen.unreadable += u64::from(!done);
        Ok(())
    }

    fn live(&mut self, path: &Path, form: Form, place: Place) -> Result<()> {
        self.seen.live += 1;
        let done = match (open(path), form) {
            (Some(file), Form::Threads) => match whole(path, file) {
                Some((db, wal)) => self.threads(place, db, &wal)?,
                None => false,
            },
            (Some(file), _) => self.text(place, form, file)?,
            (None, _) => false,
        };
        self.seen.unreadable += u64::from(!done);
        Ok(())
    }

    /// Whether it could be read to its end.
    fn text(&mut self, place: Place, form: Form, bytes: impl Read) -> Result<bool> {
        match form {
            Form::Lines(field, _) => self.lines(place, field, bytes),
            _ => self.array(place, bytes),
        }
    }

    fn lines(&mut self, place: Place, field: &str, bytes: impl Read) -> Result<bool> {
        let mut reader = BufReader::with_capacity(256 << 10, bytes);
        let mut line = Vec::new();
        loop {
            self.interrupt.check()?;
            line.clear();
            match (&mut reader).take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(_) => return Ok(false),
            }
            // A line that is none is passed over: the harness may be writing it.
            if let Ok(entry) = serde_json::from_slice::<Entry>(&line)
                && let Some(id) = entry.id(field)
            {
                self.named.name(self.archive, place, id, None)?;
            }
        }
    }

    fn array(&mut self, place: Place, bytes: impl Read) -> Result<bool> {
        let mut failed = None;
        let mut each = |id: &str| {
            if failed.is_none() {
                failed = self
                    .interrupt
                    .check()
                    .and_then(|()| self.named.name(self.archive, place, id, None))
                    .err();
            }
        };
        let mut parser = serde_json::Deserializer::from_reader(BufReader::new(bytes));
        let read = Entries(&mut each).deserialize(&mut parser).is_ok();
        match failed {
            Some(e) => Err(e),
            None => Ok(read),
        }
    }

    fn threads(&mut self, place: Place, mut db: Vec<u8>, wal: &[u8]) -> Result<bool> {
        fold(&mut db, wal);
        let Ok(db) = ForeignDb::from_image(&db, Path::new("state.sqlite")) else {
            return Ok(false);
        };
        if !db.has("threads") || !db.has_column("threads", "rollout_path") {
            return Ok(false);
        }
        let (mut ids, mut files) = (Vec::new(), Vec::new());
        let order = "FROM threads WHERE id IS NOT NULL ORDER BY rowid";
        let done = db
            .keys(&format!("SELECT id {order}"), &[], &mut ids)
            .and_then(|()| {
                let sql = format!("SELECT coalesce(rollout_path,'') {order}");
                db.keys(&sql, &[], &mut files)
            });
        for (id, file) in ids.iter().zip(&files) {
            let file = (!file.is_empty()).then_some(file.as_str());
            self.named.name(self.archive, place, id, file)?;
        }
        Ok(done.is_ok())
    }
}

fn open(path: &Path) -> Option<File> {
    let base = Base::open(path.parent()?).ok()?;
    base.open_regular(Path::new(path.file_name()?)).ok()
}

/// Database and WAL as they were at one moment; `None` when they go on changing.
fn whole(path: &Path, mut file: File) -> Option<(Vec<u8>, Vec<u8>)> {
    let wal_path = with(path, "-wal");
    for _ in 0..5 {
        let before = (stat(path).ok()??, stat(&wal_path).ok()?);
        if before.0.size > MAX_DATABASE || before.1.is_some_and(|w| w.size > MAX_DATABASE) {
            return None;
        }
        // A rollback journal means a change that may have to be taken back.
        if matches!(stat(&with(path, "-journal")), Ok(Some(j)) if j.size > 0) {
            return None;
        }
        let (mut db, mut wal) = (Vec::new(), Vec::new());
        file.read_to_end(&mut db).ok()?;
        if before.1.is_some() {
            open(&wal_path)?.read_to_end(&mut wal).ok()?;
        }
        if (stat(path).ok()??, stat(&wal_path).ok()?) == before {
            return Some((db, wal));
        }
        file = open(path)?;
    }
    None
}

/// The ids of one entry; its text is passed over.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "sessionId")]
    claude: Option<String>,
    session_id: Option<String>,
    id: Option<String>,
}

impl Entry {
    fn id(&self, field: &str) -> Option<&str> {
        match field {
            "sessionId" => self.claude.as_deref(),
            "session_id" => self.session_id.as_deref(),
            _ => self.id.as_deref(),
        }
    }
}

/// The `sessionId` of one entry of an array, whatever else it is.
#[derive(Deserialize)]
struct Logged {
    #[serde(rename = "sessionId")]
    session: Option<String>,
}

/// An array whose entries are handed on one by one.
struct Entries<'a>(&'a mut dyn FnMut(&str));

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> std::result::Result<(), D::Error> {
        d.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<(), A::Error> {
        while let Some(entry) = seq.next_element::<Logged>()? {
            if let Some(id) = entry.session {
                (self.0)(&id);
            }
        }
        Ok(())
    }
}
