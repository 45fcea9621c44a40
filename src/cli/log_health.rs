//! `cass doctor session-log check`: session files of other harnesses than DSH.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::context::Context;
use super::page::{Page, count};
use super::session_log::context;
use crate::disk::Root;
use crate::doctor::session_log::open;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::health::{Found, Health, Held, Passed, Surroundings, examine, find, gone, held};
use crate::model::provider::Provider;
use crate::report::log_health::HealthEntry;
use crate::session_log::{self, Form, Kind, Looked};
use crate::sources::usage::FileUse;
use crate::store::archive::ArchiveReader;
use crate::store::mirror::MirrorReader;

/// Lines before and behind the first finding.
const AROUND: u64 = 2;
/// A column that a DSH store has, and no other harness's database.
const DSH_COLUMN: &[u8] = b"source_event_seqs";
/// What lines of a DSH log hold.
const DSH_KEYS: [&[u8]; 2] = [b"\"seq\":", b"\"createdAt\":"];

/// What was archived, if anything was.
pub(super) struct LogArchive {
    root: Option<Root>,
    reader: Option<ArchiveReader>,
    /// Why it can't be read.
    why: Option<Error>,
}

impl LogArchive {
    /// Opens what is there. Files can be looked at without it.
    pub(super) fn open(ctx: &Context) -> LogArchive {
        let (root, why) = kept(Root::open(ctx.env.data_dir()));
        let (reader, why_rows) = match &root {
            Some(root) => kept(ArchiveReader::open(root)),
            None => (None, None),
        };
        LogArchive {
            root,
            reader,
            why: why.or(why_rows),
        }
    }
}

/// What was opened, or why it was not.
fn kept<T>(opened: Result<Option<T>>) -> (Option<T>, Option<Error>) {
    match opened {
        Ok(opened) => (opened, None),
        Err(e) => (None, Some(e)),
    }
}

/// The files of other harnesses that were found.
pub(super) struct LogHealth<'a> {
    ctx: &'a Context,
    around: Surroundings,
    mirror: Option<MirrorReader<'a>>,
    archive: Option<&'a ArchiveReader>,
    unread: Option<String>,
    found: Vec<Found>,
    passed: Passed,
}

impl<'a> LogHealth<'a> {
    pub(super) fn new(ctx: &'a Context, archive: &'a LogArchive) -> Self {
        let (mirror, why) = match &archive.root {
            Some(root) => kept(MirrorReader::open(root)),
            None => (None, None),
        };
        LogHealth {
            ctx,
            around: Surroundings::of(&ctx.env),
            mirror,
            archive: archive.reader.as_ref(),
            unread: why
                .as_ref()
                .or(archive.why.as_ref())
                .map(|e| ctx.site.redact(e.message())),
            found: Vec::new(),
            passed: Passed::default(),
        }
    }

    /// Why the archive was not asked, where one is there.
    pub(super) fn archive_unread(&self) -> Option<String> {
        self.unread.clone()
    }

    /// Takes what at `path` is another harness's than DSH, out of what was taken for DSH's too.
    pub(super) fn take(&mut self, path: &Path, looked: &mut Looked) -> Result<()> {
        let is_folder = path.is_dir();
        looked.entries.retain(|e| match e.kind {
            Kind::Log(_) => !self.is_anothers_place(&e.path),
            Kind::Loose { .. } => !self.is_anothers(&e.path, is_folder),
            Kind::Store => self.is_dsh_store(&e.path),
        });
        if !is_folder && !looked.entries.is_empty() {
            return Ok(());
        }
        let folders: Vec<PathBuf> = looked
            .entries
            .iter()
            .filter_map(|e| e.path.parent().map(Path::to_path_buf))
            .collect();
        let of_dsh = |file: &Path| {
            let file = std::path::absolute(file).unwrap_or_default();
            file.parent()
                .is_some_and(|folder| folders.iter().any(|f| f == folder))
        };
        let stop = || self.ctx.interrupt.check();
        let (found, passed) = find(path, &self.around, &of_dsh, &stop)?;
        self.found.extend(found);
        self.passed.others += passed.others;
        if is_folder && let Some(mirror) = &self.mirror {
            self.found.extend(gone(path, &self.around, mirror)?);
        }
        Ok(())
    }

    /// Takes a file that is there no longer and was captured; false where it was not.
    pub(super) fn take_gone(&mut self, path: &Path) -> Result<bool> {
        let Some(mirror) = &self.mirror else {
            return Ok(false);
        };
        let found = gone(path, &self.around, mirror)?;
        let any = !found.is_empty();
        self.found.extend(found);
        Ok(any)
    }

    fn is_anothers_place(&self, path: &Path) -> bool {
        self.around
            .by_root(path)
            .is_some_and(|w| w.provider != Provider::Dsh)
    }

    /// Whether a log under a name that says nothing is another harness's, or, where it is named,
    /// nobody's.
    fn is_anothers(&self, path: &Path, in_folder: bool) -> bool {
        let Some(head) = head(path) else {
            return false;
        };
        match self.around.whose(path, &head) {
            Some(w) => w.provider != Provider::Dsh,
            None => !in_folder && !may_be_dsh(path, &head),
        }
    }

    fn is_dsh_store(&self, path: &Path) -> bool {
        let Some(head) = head(path) else {
            return true;
        };
        if self.is_anothers_place(path) {
            return false;
        }
        memchr::memmem::find(&head, DSH_COLUMN).is_some()
            || self
                .around
                .whose(path, &head)
                .is_none_or(|w| w.provider == Provider::Dsh)
    }

    /// Files that were passed over.
    pub(super) const fn other_files(&self) -> u64 {
        self.passed.others
    }

    /// The files, each once, in the order of their paths.
    pub(super) fn files(&mut self) -> Vec<Found> {
        let mut files = std::mem::take(&mut self.found);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        files
    }

    /// Examines one.
    pub(super) fn examine(&self, file: &Found, show_content: bool) -> Result<HealthEntry> {
        let stop = || self.ctx.interrupt.check();
        let whose = file.whose.as_ref().filter(|w| w.usage == FileUse::Session);
        let health = match whose {
            None => None,
            Some(w) => {
                let now = self.ctx.env.now_ms();
                match examine(w.provider, &w.source, &file.path, now, &stop) {
                    Ok(health) => Some(health),
                    Err(e) if e.kind() == ErrorKind::NotFound => None,
                    Err(e) => return Err(e),
                }
            }
        };
        let held = match (whose, &self.mirror) {
            (Some(w), Some(mirror)) => Some(held(
                w,
                &file.path,
                health.as_ref(),
                mirror,
                self.archive,
                &stop,
            )?),
            _ => None,
        };
        Ok(self.told(file, health.as_ref(), held.as_ref(), show_content))
    }

    fn told(
        &self,
        file: &Found,
        health: Option<&Health>,
        held: Option<&Held>,
        show_content: bool,
    ) -> HealthEntry {
        let mut told = HealthEntry::new(file, health, held, &self.ctx.site);
        let form = Form {
            packed: health.is_some_and(|h| h.packed),
            generation: None,
        };
        if let Some(line) = told.first_line()
            && let Ok(opened) = open(&file.path)
            && let Ok(lines) = session_log::around(&opened, form, line, AROUND)
        {
            told.put_context(&lines, show_content);
        }
        told
    }
}

/// Whether a log of which no harness can read a record may be a damaged one of DSH.
fn may_be_dsh(path: &Path, head: &[u8]) -> bool {
    crate::ingest::parse::is_packed(path, head)
        || DSH_KEYS
            .iter()
            .any(|key| memchr::memmem::find(head, key).is_some())
}

/// The beginning of a file.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let file: File = open(path).ok()?;
    file.take(crate::ingest::parse::MAX_HEAD as u64)
        .read_to_end(&mut head)
        .ok()?;
    Some(head)
}

/// The lines around the first finding.
pub(super) fn around(s: &HealthEntry, page: &mut Page) {
    let at = s.first_line().unwrap_or(0);
    let first = s.findings.iter().find(|f| f.line == Some(at));
    page.fact(&format!("{}, around line {at}", s.path.path));
    let due = first.map_or("", |f| f.what.as_str());
    context(&s.context, due, page);
}

/// What is told of a file that was named alone.
pub(super) fn facts(s: &HealthEntry, page: &mut Page) {
    for f in &s.findings {
        let place = match (f.offset, f.line) {
            (Some(offset), Some(line)) => format!("byte {offset}, line {line}, {} bytes", f.len),
            _ => format!("{} bytes", f.len),
        };
        page.fact(&format!("{:<24} {place}", f.class.as_str()));
    }
    if let Some(harness) = s.harness {
        page.fact(&format!(
            "harness    {}; {}, {}",
            harness.display_name(),
            count(s.records, "record", "records"),
            count(s.messages, "message", "messages")
        ));
    }
    if let Some(held) = &s.archive {
        let beyond = match held.records_beyond {
            Some(n) => count(n, "record", "records"),
            None => count(held.bytes_beyond, "byte", "bytes"),
        };
        let captures = count(held.captures, "capture", "captures");
        page.fact(&format!("archive    {captures}, {beyond} beyond the file"));
    }
    if let Some(evidence) = &s.evidence {
        page.fact(&format!("sha256     {}", evidence.sha256));
    }
}
