//! `sources.parse`, `sources.log-health`: what the archive made of the bytes of each source.

use std::collections::BTreeMap;
use std::path::Path;

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
use crate::model::provider::Provider;
use crate::model::record::SkipReason as SkipWhy;
use crate::model::source::SourceKey;
use crate::model::verdict::MirrorState;
use crate::sources::config::Config;
use crate::sources::reach::Reach;
use crate::sources::roots::roots;
use crate::sources::usage::{FileUse, Usages};
use crate::store::accepted::Accepted;
use crate::store::archive::ArchiveReader;
use crate::store::mirror::{Head, MirrorReader};
use crate::store::promises::Promises;

const IDS: [CheckId; 2] = [CheckId::SourcesParse, CheckId::SourcesLogHealth];

/// What is told of a source that can't be read any more.
const KEPT: &str = "what was read before is archived";

/// What was read.
#[derive(Default)]
struct Read {
    /// By harness.
    by: BTreeMap<&'static str, Reading>,
    /// Sources whose archived capture no ledger has.
    missing: Vec<Missing>,
    /// Sources that are read in part only.
    broken: Capped,
}

/// A source whose archived capture no ledger has.
struct Missing {
    key: SourceKey,
    seq: u64,
    /// Whether an index reads it again.
    is_read_again: bool,
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
    first_damaged: String,
    places: u64,
    /// What the places are.
    reasons: BTreeMap<SkipWhy, u64>,
    unknown: u64,
    unaccounted: u64,
}

impl Read {
    fn of(&mut self, provider: &'static str) -> &mut Reading {
        self.by.entry(provider).or_default()
    }

    fn archived(&mut self, archive: Option<&ArchiveReader>, s: &ArchivedSource) -> Result<()> {
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
            if r.first_damaged.is_empty() {
                r.first_damaged = s.path.display().to_string();
            }
            if let Some(archive) = archive {
                archive.skips(s.key, &mut |skip| {
                    if skip.reason != SkipWhy::TornTail {
                        *r.reasons.entry(skip.reason).or_default() += 1;
                    }
                    Ok(())
                })?;
            }
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
        Ok(())
    }

    fn head(
        &mut self,
        look: &Look<'_>,
        mirror: &MirrorReader<'_>,
        head: &Head,
        read: Option<Done>,
    ) -> Result<()> {
        let ident = &head.ident;
        let session = look.usages.of(ident.provider, &ident.path) == Some(FileUse::Session);
        let is_lost = || look.accepted.covers(ident.key, head.seq, Some(head.hash));
        if session && read != Some((head.seq, head.hash)) && is_lost().is_none() {
            self.of(ident.provider.as_str()).pending += 1;
        }
        // The archive read a capture that the ledger no longer has.
        match read {
            Some((seq, hash)) if seq > head.seq || seq == head.seq && hash != head.hash => {
                let again = look.reads_again(&ident.source_id, ident.provider, &ident.path);
                self.unheld(mirror, ident.key, again, (seq, hash))
            }
            _ => Ok(()),
        }
    }

    /// The derived index may be what is wrong: the ledger itself has the last word.
    fn unheld(
        &mut self,
        mirror: &MirrorReader<'_>,
        key: SourceKey,
        is_read_again: bool,
        read: Done,
    ) -> Result<()> {
        let mut held = false;
        mirror.captures(key, &mut |line| {
            held |= (line.seq, line.hash) == read;
            Ok(())
        })?;
        if !held {
            self.missing.push(Missing {
                key,
                seq: read.0,
                is_read_again,
            });
        }
        Ok(())
    }

    /// What became of what no ledger has. A source that an index reads and that no commit here ever
    /// read is new to it.
    fn missing(&self, root: &Root) -> Result<CapturesMissing> {
        let mut out = CapturesMissing::default();
        if self.missing.is_empty() {
            return Ok(out);
        }
        let promises = Promises::read(root)?;
        for m in &self.missing {
            let is_promised = promises
                .as_ref()
                .is_none_or(|p| p.captures.get(&m.key).is_some_and(|c| c.contains(m.seq)));
            match (is_promised, m.is_read_again) {
                (true, true) => out.there.add(m.key),
                (true, false) => out.gone.add(m.key),
                (false, false) => out.elsewhere.add(m.key),
                (false, true) => {}
            }
        }
        Ok(out)
    }
}

/// What tells how a source stands.
struct Look<'a> {
    usages: &'a Usages,
    reach: &'a Reach,
    accepted: Accepted,
}

impl Look<'_> {
    fn reads_again(&self, source_id: &str, provider: Provider, path: &Path) -> bool {
        is_there(source_id, path) && self.reach.obstacle(provider, path).is_none()
    }
}

/// The capture of a source that the archive read: number and content.
type Done = (u64, Digest);

fn read(root: &Root, usages: &Usages, reach: &Reach) -> Result<Read> {
    let mut out = Read::default();
    let look = Look {
        usages,
        reach,
        accepted: Accepted::read(root)?,
    };
    let again = |s: &ArchivedSource| look.reads_again(&s.source_id, s.provider, &s.path);
    let archive = ArchiveReader::open(root)?;
    let mut archived = Archived::new(archive.as_ref())?;
    let Some(mirror) = MirrorReader::open(root)? else {
        // Without a mirror nothing of what was read can be given back byte for byte.
        while let Some(source) = archived.take(None)? {
            out.archived(archive.as_ref(), &source)?;
            out.missing.push(Missing {
                key: source.key,
                seq: source.parsed_seq,
                is_read_again: again(&source),
            });
        }
        return Ok(out);
    };
    mirror.for_each_head(&mut |head| {
        let mut done = None;
        while let Some(source) = archived.take(Some(head.ident.key))? {
            out.archived(archive.as_ref(), &source)?;
            let read = (source.parsed_seq, source.captured_hash);
            if source.key == head.ident.key {
                done = Some(read);
            } else {
                out.unheld(&mirror, source.key, again(&source), read)?;
            }
        }
        out.head(&look, &mirror, &head, done)
    })?;
    while let Some(source) = archived.take(None)? {
        out.archived(archive.as_ref(), &source)?;
        out.unheld(
            &mirror,
            source.key,
            again(&source),
            (source.parsed_seq, source.captured_hash),
        )?;
    }
    Ok(out)
}

/// What places that are no record are, as far as the archive says.
fn kinds(reasons: &BTreeMap<SkipWhy, u64>) -> String {
    let words = |(why, n): (&SkipWhy, &u64)| {
        let what = match why {
            SkipWhy::NulBlock => which(*n, "run of NUL bytes", "runs of NUL bytes"),
            SkipWhy::Oversized => which(*n, "record too long", "records too long"),
            SkipWhy::Fragment | SkipWhy::TornTail => which(*n, "broken line", "broken lines"),
        };
        format!("{n} {what}")
    };
    let all: Vec<String> = reasons.iter().map(words).collect();
    if all.is_empty() {
        return String::new();
    }
    format!(" ({})", all.join(", "))
}

/// What the archive made of the bytes of each source.
pub(super) fn parse(cx: &mut Context) -> Vec<CheckResult> {
    let Some(root) = cx.root.as_ref().filter(|_| cx.archive_readable) else {
        return Context::skip(&IDS, SkipReason::NoArchive, None);
    };
    let pending = |read: &Read| read.by.values().any(|r| r.pending > 0);
    let usages = Config::load(cx.env.config_dir(), cx.env.home())
        .map_or_else(|_| Usages::new([]), |c| Usages::new(&roots(&cx.env, &c)));
    let reach = Reach::of(&cx.env);
    let mut looked = read(root, &usages, &reach);
    // A writer captures first and archives then: while one is at it, this is no finding. One that
    // ended in between is found out by a second look.
    let mut writing = false;
    if looked.as_ref().is_ok_and(pending) {
        writing = !matches!(writer_owner(root), Ok(None));
        if !writing {
            looked = read(root, &usages, &reach);
            writing = !matches!(writer_owner(root), Ok(None));
        }
    }
    let looked = looked.and_then(|read| Ok((read.missing(root)?, read)));
    let (missing, read) = match looked {
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
    cx.captures_missing = missing;
    if cx.captures_missing.there.count + cx.captures_missing.gone.count > 0 {
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
        let kinds = kinds(&r.reasons);
        let first = &r.first_damaged;
        health.extend(about.found(
            (IDS[1], "damaged-places", Severity::Info),
            r.damaged,
            [
                &format!(
                    "source holds {places} no record{kinds}; its bytes are in the mirror, {first}"
                ),
                &format!(
                    "sources hold {places} no record{kinds}; their bytes are in the mirror, first \
                     {first}"
                ),
            ],
        ));
    }
    vec![
        CheckResult::ran(IDS[0], parse),
        CheckResult::ran(IDS[1], health),
    ]
}
