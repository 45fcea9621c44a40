//! `sources.parse`, `sources.log-health`: what the archive made of the bytes of each source.

use std::collections::BTreeMap;

use super::context::{CapturesMissing, Context, busy};
use super::findings::{About, Capped, which};
use crate::disk::{Root, writer_owner};
use crate::doctor::archived::Archived;
use crate::doctor::losses::is_there;
use crate::error::{ErrorKind, Result};
use crate::model::conversation::ArchivedSource;
use crate::model::digest::Digest;
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::Next;
use crate::model::source::SourceKey;
use crate::model::verdict::MirrorState;
use crate::sources::config::Config;
use crate::sources::roots::roots;
use crate::sources::usage::{FileUse, Usages};
use crate::store::archive::ArchiveReader;
use crate::store::mirror::{Head, MirrorReader};

const IDS: [CheckId; 2] = [CheckId::SourcesParse, CheckId::SourcesLogHealth];

/// What is told of a source that can't be read any more.
const KEPT: &str = "what was read before is archived";

/// What was read.
#[derive(Default)]
struct Read {
    /// By harness.
    by: BTreeMap<&'static str, Reading>,
    /// Sources whose archived capture no ledger has.
    missing: CapturesMissing,
    /// Sources that are read in part only.
    broken: Capped,
}

#[derive(Default)]
struct Reading {
    pending: u64,
    records: u64,
    /// Sources without one record.
    silent: u64,
    first_silent: String,
    /// Those that gave records in an earlier capture.
    torn: u64,
    first_torn: String,
    damaged: u64,
    places: u64,
    unknown: u64,
    unaccounted: u64,
}

impl Read {
    fn of(&mut self, provider: &'static str) -> &mut Reading {
        self.by.entry(provider).or_default()
    }

    fn archived(&mut self, s: &ArchivedSource) {
        let r = self.of(s.provider.as_str());
        let a = &s.accounting;
        let records = a.messages.records + a.known.records + a.duplicate.records;
        r.records += records;
        if a.length > 0 && records == 0 && a.skipped_bytes > 0 {
            // A source that has a session gave a record once.
            let torn = s.main_session.is_some() && a.unknown.records == 0;
            let (count, first) = if torn {
                (&mut r.torn, &mut r.first_torn)
            } else {
                (&mut r.silent, &mut r.first_silent)
            };
            *count += 1;
            if first.is_empty() {
                *first = s.path.display().to_string();
            }
        }
        r.unaccounted += u64::from(a.accounted() != a.length);
        if a.skipped_bytes > 0 {
            r.damaged += 1;
            r.places += a.skip_count;
        }
        r.unknown += a.unknown.records;
        if a.tail.is_some_and(|t| t.len == 0) {
            let readable = records + a.unknown.records;
            let message = format!(
                "the file is cut short or damaged; {readable} {} be read and archived, and its bytes \
                 are in the mirror",
                which(readable, "record could", "records could")
            );
            let (code, path) = ("container-damaged", s.path.display().to_string());
            self.broken
                .push(Finding::new(IDS[1], code, Severity::Warn, path, message));
        }
    }

    fn head(
        &mut self,
        usages: &Usages,
        mirror: &MirrorReader<'_>,
        head: &Head,
        read: Option<Done>,
    ) -> Result<()> {
        let session = usages.of(head.ident.provider, &head.ident.path) == Some(FileUse::Session);
        if session && read != Some((head.seq, head.hash)) {
            self.of(head.ident.provider.as_str()).pending += 1;
        }
        // The archive read a capture that the ledger no longer has.
        match read {
            Some((seq, hash)) if seq > head.seq || seq == head.seq && hash != head.hash => {
                let there = is_there(&head.ident.source_id, &head.ident.path);
                self.unheld(mirror, head.ident.key, there, (seq, hash))
            }
            _ => Ok(()),
        }
    }

    /// The derived index may be what is wrong: the ledger itself has the last word.
    fn unheld(
        &mut self,
        mirror: &MirrorReader<'_>,
        key: SourceKey,
        is_there: bool,
        read: Done,
    ) -> Result<()> {
        let mut held = false;
        mirror.captures(key, &mut |line| {
            held |= (line.seq, line.hash) == read;
            Ok(())
        })?;
        if !held {
            self.gone(key, is_there);
        }
        Ok(())
    }

    fn gone(&mut self, key: SourceKey, is_there: bool) {
        self.missing.count += 1;
        self.missing.there += u64::from(is_there);
        self.missing.first.get_or_insert(key);
    }
}

/// The capture of a source that the archive read: number and content.
type Done = (u64, Digest);

fn read(root: &Root, usages: &Usages) -> Result<Read> {
    let mut out = Read::default();
    let archive = ArchiveReader::open(root)?;
    let mut archived = Archived::new(archive.as_ref())?;
    let Some(mirror) = MirrorReader::open(root)? else {
        // Without a mirror nothing of what was read can be given back byte for byte.
        while let Some(source) = archived.take(None)? {
            out.archived(&source);
            out.gone(source.key, is_there(&source.source_id, &source.path));
        }
        return Ok(out);
    };
    mirror.for_each_head(&mut |head| {
        let mut done = None;
        while let Some(source) = archived.take(Some(head.ident.key))? {
            out.archived(&source);
            let read = (source.parsed_seq, source.captured_hash);
            if source.key == head.ident.key {
                done = Some(read);
            } else {
                let there = is_there(&source.source_id, &source.path);
                out.unheld(&mirror, source.key, there, read)?;
            }
        }
        out.head(usages, &mirror, &head, done)
    })?;
    while let Some(source) = archived.take(None)? {
        out.archived(&source);
        out.unheld(
            &mirror,
            source.key,
            is_there(&source.source_id, &source.path),
            (source.parsed_seq, source.captured_hash),
        )?;
    }
    Ok(out)
}

/// What the archive made of the bytes of each source.
pub(super) fn parse(cx: &mut Context) -> Vec<CheckResult> {
    let Some(root) = cx.root.as_ref().filter(|_| cx.archive_readable) else {
        return Context::skip(&IDS, SkipReason::NoArchive, None);
    };
    let pending = |read: &Read| read.by.values().any(|r| r.pending > 0);
    let usages = Config::load(cx.env.config_dir(), cx.env.home())
        .map_or_else(|_| Usages::new([]), |c| Usages::new(&roots(&cx.env, &c)));
    let mut looked = read(root, &usages);
    // A writer captures first and archives then: while one is at it, this is no finding. One that
    // ended in between is found out by a second look.
    let mut writing = false;
    if looked.as_ref().is_ok_and(pending) {
        writing = !matches!(writer_owner(root), Ok(None));
        if !writing {
            looked = read(root, &usages);
            writing = !matches!(writer_owner(root), Ok(None));
        }
    }
    let read = match looked {
        Ok(looked) => looked,
        Err(e) if e.kind() == ErrorKind::LockBusy => return busy(&IDS),
        Err(e) => {
            let f = Finding::new(IDS[0], "unreadable", Severity::Warn, "", e.message());
            return vec![
                CheckResult::unknown(IDS[0], UnknownReason::Unreadable, vec![f]),
                CheckResult::unknown(IDS[1], UnknownReason::Unreadable, Vec::new()),
            ];
        }
    };
    cx.captures_missing = read.missing;
    if cx.captures_missing.count > 0 {
        cx.mirror_damaged = true;
        cx.mirror_verified = false;
        // One that is gone as a whole is absent, not corrupt.
        if cx.mirror_present {
            cx.facts.mirror.status = MirrorState::Corrupt;
        }
    }
    let mut parse = Vec::new();
    let mut health = read.broken.into_list(IDS[1]);
    for (name, r) in read.by {
        let about = About(name);
        // One broken file is damage that its bytes in the mirror outlive; a harness of which
        // nothing can be read is a parser that no longer fits.
        let severity = if r.records == 0 {
            Severity::Error
        } else {
            Severity::Info
        };
        parse.extend(about.found(
            (IDS[0], "nothing-parsed", severity),
            r.silent,
            [
                &format!("source gave not one record, {}", r.first_silent),
                &format!("sources gave not one record, first {}", r.first_silent),
            ],
        ));
        // Nothing that was ever readable is lost: the archive holds more than the files do now.
        let severity = if r.records == 0 {
            Severity::Warn
        } else {
            Severity::Info
        };
        parse.extend(about.found(
            (IDS[0], "no-longer-readable", severity),
            r.torn,
            [
                &format!(
                    "source can't be read as it is now, {}; {KEPT}",
                    r.first_torn
                ),
                &format!(
                    "sources can't be read as they are now, first {}; {KEPT}",
                    r.first_torn
                ),
            ],
        ));
        parse.extend(about.found(
            (IDS[0], "bytes-unaccounted", Severity::Error),
            r.unaccounted,
            [
                "source holds bytes that are not accounted for",
                "sources hold bytes that are not accounted for",
            ],
        ));
        // A running writer is between the two; without one they were left behind.
        let severity = if writing {
            Severity::Info
        } else {
            Severity::Warn
        };
        parse.extend(
            about
                .found(
                    (IDS[0], "captured-not-archived", severity),
                    r.pending,
                    [
                        "source is captured and not in the archive yet",
                        "sources are captured and not in the archive yet",
                    ],
                )
                .map(|f| f.with_next(Next::Index)),
        );
        parse.extend(about.found(
            (IDS[0], "unknown-records", Severity::Info),
            r.unknown,
            [
                "record is of a type this version does not know; it is kept",
                "records are of a type this version does not know; they are kept",
            ],
        ));
        let places = which(r.places, "place that is", "places that are");
        let places = format!("{} {places}", r.places);
        health.extend(about.found(
            (IDS[1], "damaged-places", Severity::Info),
            r.damaged,
            [
                &format!("source holds {places} no record; its bytes are in the mirror"),
                &format!("sources hold {places} no record; their bytes are in the mirror"),
            ],
        ));
    }
    vec![
        CheckResult::ran(IDS[0], parse),
        CheckResult::ran(IDS[1], health),
    ]
}
