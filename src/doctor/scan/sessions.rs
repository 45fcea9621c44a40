//! Who holds each session: the archive's conversations and the ledger's promises met by id, and
//! what of them can be read in captures and in live sources.

use std::collections::BTreeMap;

use super::captures::Captures;
use super::kept::KeptArchives;
use super::live::{Left, left};
use super::page::Page;
use super::promises::{Promise, Promises};
use super::view::View;
use crate::error::Result;
use crate::model::conversation::{ArchivedSource, Conversation};
use crate::model::digest::Digest;
use crate::model::finding::Severity;
use crate::model::interrupt::Interrupt;
use crate::model::next::NextId;
use crate::model::provider::Provider;
use crate::model::scan::{Holder, HolderCode, HolderWarning, RecordCounts, SessionItem};
use crate::model::source::SourceKey;
use crate::store::archive::{ArchiveReader, HeldRecord};
use crate::store::mirror::MirrorReader;

/// Conversations of the archive that are read at once.
const PAGE: u32 = 256;
/// A session that is not captured and falls due within this many days is worth a warning.
const SOON_DAYS: i64 = 3;

/// Totals over all sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Conversations that archive or ledger know.
    pub conversations: u64,
    /// Of these, the ones in the archive.
    pub in_archive: u64,
    /// Conversations whose promise the archive keeps.
    pub archive_complete: u64,
    /// Conversations whose records are all in readable captures.
    pub mirror_complete: u64,
    /// Conversations whose records are all in live sources.
    pub live_complete: u64,
    /// Conversations whose records may all be in live sources: the number is a bound.
    pub live_possible: u64,
    /// Records in the archive.
    pub archived: u64,
    /// Records promised.
    pub promised: u64,
    /// Records in readable captures.
    pub mirror: u64,
    /// Records in live sources.
    pub live: u64,
    /// Messages in the archive.
    pub messages: u64,
    /// Sessions that are held by archive and mirror of this data directory alone, or by less.
    pub sole_copies: u64,
    /// Time of the first and last record.
    pub earliest_ms: Option<i64>,
    /// Likewise.
    pub latest_ms: Option<i64>,
}

/// The sessions found so far.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) all: Page<SessionItem>,
    pub(super) warnings: Page<HolderWarning>,
    pub(super) codes: BTreeMap<(HolderCode, Severity), u64>,
    pub(super) totals: Totals,
}

/// What the holders of one session have.
#[derive(Debug, Clone, Copy)]
struct Holding {
    counts: RecordCounts,
    need: u64,
    /// Whether the archive's records are those that were promised, not merely as many.
    agrees: bool,
    /// Whether a source of it is there, whatever it holds.
    there: bool,
    /// Whether a backup or sealed generation has exactly what is needed.
    backup: bool,
}

impl Holding {
    fn all(&self, count: Option<u64>) -> Option<bool> {
        count.map(|n| n >= self.need)
    }

    /// A number that is a bound tells only that some are missing.
    fn live(&self) -> Option<bool> {
        let all = self.all(self.counts.live);
        all.filter(|all| !(*all && self.counts.live_is_upper_bound))
    }

    fn archive(&self) -> Option<bool> {
        self.all(self.counts.archived).map(|all| all && self.agrees)
    }

    /// Graded by the evidence that is left.
    fn code(&self) -> Option<(HolderCode, Severity, Option<NextId>)> {
        use HolderCode as C;
        use Severity::{Error, Info, Warn};
        if self.need == 0 {
            return None;
        }
        let (mirror, live) = (self.all(self.counts.mirror), self.live());
        let deep = Some(NextId::MirrorVerifyDeep);
        match (self.archive(), mirror, live) {
            (Some(false), Some(true), _) => Some((C::HeldByMirror, Warn, deep)),
            (Some(false), _, Some(true)) => {
                Some((C::HeldByLiveSource, Warn, Some(NextId::IndexFull)))
            }
            (Some(false), ..) if self.backup => Some((C::HeldByBackup, Warn, Some(NextId::Repair))),
            (Some(true), Some(false), Some(false) | None) if self.backup => {
                Some((C::HeldByBackup, Info, None))
            }
            (Some(false), None, _) | (Some(false), _, None) => {
                Some((C::HolderUnknown, Warn, Some(NextId::Check)))
            }
            (Some(false), Some(false), Some(false)) => Some((C::PromiseWithoutHolder, Error, deep)),
            (Some(true), Some(true), Some(false)) if self.there => {
                Some((C::RewrittenUpstream, Info, None))
            }
            (Some(true), Some(true), Some(false)) => Some((C::PrunedUpstream, Info, None)),
            (Some(true), Some(false), Some(true)) => {
                Some((C::NotInMirror, Warn, Some(NextId::IndexFull)))
            }
            (Some(true), Some(false), _) if self.counts.mirror > Some(0) => {
                Some((C::MirrorPartial, Warn, deep))
            }
            (Some(true), Some(false), _) => Some((C::ArchiveOnly, Warn, deep)),
            (Some(true), Some(true), Some(true) | None) | (Some(true), None, _) | (None, ..) => {
                None
            }
        }
    }

    fn holders(&self) -> Vec<Holder> {
        let has = [
            (self.live(), Holder::LiveSource),
            (self.all(self.counts.mirror), Holder::Mirror),
            (Some(self.backup), Holder::Backup),
            (self.archive(), Holder::Archive),
        ];
        has.into_iter()
            .filter(|(all, _)| *all == Some(true))
            .map(|(_, holder)| holder)
            .collect()
    }
}

impl Sessions {
    pub(super) fn new(all: Page<SessionItem>, warnings: Page<HolderWarning>) -> Self {
        Sessions {
            all,
            warnings,
            codes: BTreeMap::new(),
            totals: Totals::default(),
        }
    }

    fn add(&mut self, session: SessionItem, code: Option<(HolderCode, Severity, Option<NextId>)>) {
        let name = session.id.as_ref().or(session.source.as_ref());
        let name = name.cloned().unwrap_or_default();
        if let Some((code, severity, next)) = code {
            *self.codes.entry((code, severity)).or_default() += 1;
            let rank = match severity {
                Severity::Error => 0,
                Severity::Warn => 1,
                Severity::Info => 2,
            };
            let key = format!("{rank}{:02}{name}", code as u8);
            self.warnings.offer(key, || HolderWarning {
                code,
                severity,
                session: session.clone(),
                next,
            });
        }
        self.all.offer(name, || session);
    }

    /// A session file that was never captured.
    pub(super) fn live_only(&mut self, provider: Provider, key: SourceKey, left: Option<i64>) {
        let soon = left.is_some_and(|left| left <= SOON_DAYS);
        let severity = if soon { Severity::Warn } else { Severity::Info };
        self.add(
            by_source(provider, key, vec![Holder::LiveSource]),
            Some((HolderCode::LiveOnly, severity, Some(NextId::Index))),
        );
    }

    /// A session file that was captured and never read. `live`: whether the file is there as it was
    /// captured; `None` when it can't be told.
    pub(super) fn not_archived(
        &mut self,
        provider: Provider,
        key: SourceKey,
        live: Option<bool>,
        readable: bool,
    ) {
        let (code, severity) = match (readable, live) {
            (_, Some(true)) => (HolderCode::CapturedNotArchived, Severity::Info),
            (true, None) => (HolderCode::CapturedNotArchived, Severity::Info),
            (true, Some(false)) => (HolderCode::MirrorOnly, Severity::Warn),
            (false, Some(false)) => (HolderCode::PromiseWithoutHolder, Severity::Error),
            (false, None) => (HolderCode::HolderUnknown, Severity::Warn),
        };
        let mut holders = Vec::new();
        if live == Some(true) {
            holders.push(Holder::LiveSource);
        }
        if readable {
            holders.push(Holder::Mirror);
        }
        self.totals.sole_copies += u64::from(code == HolderCode::MirrorOnly);
        self.add(
            by_source(provider, key, holders),
            Some((code, severity, Some(NextId::Index))),
        );
    }
}

fn by_source(provider: Provider, key: SourceKey, holders: Vec<Holder>) -> SessionItem {
    SessionItem {
        id: None,
        native_id: None,
        provider: Some(provider),
        source: Some(key.to_string()),
        sources: 1,
        holders,
        records: RecordCounts::default(),
    }
}

/// What the scan of sessions works on.
pub(super) struct Meeting<'a, 'b> {
    pub(super) view: &'b View,
    pub(super) archive: Option<&'a ArchiveReader>,
    /// Whether an archive that is not read is gone or damaged, so that it holds nothing.
    pub(super) archive_lost: bool,
    /// Backups and sealed generations.
    pub(super) kept: KeptArchives,
    pub(super) mirror: Option<&'a MirrorReader<'a>>,
    /// Whether a mirror that is not read could not be looked at.
    pub(super) mirror_unknown: bool,
    pub(super) captures: Option<&'b mut Captures<'a>>,
    pub(super) sessions: &'b mut Sessions,
    pub(super) interrupt: &'a Interrupt,
}

impl<'a> Meeting<'a, '_> {
    /// Every conversation of the archive or of the ledger, by id.
    pub(super) fn run(&mut self, promises: &mut Promises<'_>) -> Result<()> {
        let mut after: Option<String> = None;
        loop {
            let page = match self.archive {
                Some(archive) => archive.conversations_after(after.as_deref(), PAGE)?,
                None => Vec::new(),
            };
            let last = page.last().map(|c| c.id.clone());
            for conversation in page {
                self.interrupt.check()?;
                while promises
                    .peek()
                    .is_some_and(|id| id < conversation.id.as_str())
                {
                    if let Some((id, promise)) = promises.take()? {
                        self.promised_only(&id, &promise)?;
                    }
                }
                let promise = match promises.peek() {
                    Some(id) if id == conversation.id => promises.take()?.map(|(_, p)| p),
                    _ => None,
                };
                self.conversation(&conversation, promise.as_ref())?;
            }
            match last {
                Some(id) => after = Some(id),
                None => break,
            }
        }
        while let Some((id, promise)) = promises.take()? {
            self.interrupt.check()?;
            self.promised_only(&id, &promise)?;
        }
        Ok(())
    }

    fn conversation(&mut self, c: &Conversation, promise: Option<&Promise>) -> Result<()> {
        let Some(archive) = self.archive.filter(|_| self.view.wants(c.provider)) else {
            return Ok(());
        };
        let sources = archive.sources_of(&c.id)?;
        let mut looked = Vec::with_capacity(sources.len());
        for source in &sources {
            looked.push(self.look(source)?);
        }
        let (mirror, live, bound) = match (sources.as_slice(), looked.as_slice()) {
            // One source that only ever grew holds all of it or nothing.
            ([source], [one]) if source.epoch == 1 => (
                one.mirror.map(|held| if held { c.record_count } else { 0 }),
                match one.left {
                    Left::All => Some(c.record_count),
                    Left::Other | Left::Gone => Some(0),
                    Left::Unknown => None,
                },
                false,
            ),
            _ => self.count(archive, &c.id, &sources, &looked)?,
        };
        let counts = RecordCounts {
            archived: Some(c.record_count),
            promised: promise.map(|p| p.records),
            mirror,
            live,
            live_is_upper_bound: bound && live.is_some(),
        };
        let holding = Holding {
            counts,
            need: c.record_count.max(promise.map_or(0, |p| p.records)),
            agrees: promise.is_none_or(|p| p.records < c.record_count || p.sum == c.coverage_sum),
            there: looked.iter().any(|l| l.left != Left::Gone),
            backup: match promise {
                Some(p) if p.records > c.record_count => self.kept.hold(&c.id, p.records, &p.sum),
                _ => self.kept.hold(&c.id, c.record_count, &c.coverage_sum),
            },
        };
        let totals = &mut self.sessions.totals;
        totals.in_archive += 1;
        totals.messages += c.message_count;
        totals.earliest_ms = match (totals.earliest_ms, c.started_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        totals.latest_ms = totals.latest_ms.max(c.ended_ms);
        let item = SessionItem {
            id: Some(c.id.clone()),
            native_id: Some(c.native_id.clone()),
            provider: Some(c.provider),
            source: sources.first().map(|s| s.key.to_string()),
            sources: u64::try_from(sources.len()).unwrap_or(u64::MAX),
            holders: holding.holders(),
            records: counts,
        };
        self.add(item, &holding);
        Ok(())
    }

    /// A conversation that the ledger names and the archive, if there is one, does not have.
    fn promised_only(&mut self, id: &str, promise: &Promise) -> Result<()> {
        let (mut mirror, mut live) = (0, Some(0));
        let (mut provider, mut there) = (None, false);
        for (key, seq, added) in &promise.brought {
            let head = match self.mirror {
                Some(mirror) => mirror.indexed_head(*key)?,
                None => None,
            };
            if let Some(captures) = &mut self.captures
                && captures.readable(*key, *seq, None, head.as_ref())?
            {
                mirror += added;
            }
            let Some(head) = head else { continue };
            let ident = &head.ident;
            provider = provider.or(Some(ident.provider));
            let hidden = self
                .view
                .out_of_sight(&ident.source_id, ident.provider, &ident.path);
            let now = super::live::stat(&ident.path);
            match now {
                _ if hidden.is_some() => live = None,
                Ok(Some(now)) => {
                    there = true;
                    // Without the archive's rows only an unchanged file is known to hold them.
                    if head.seq == *seq && super::live::same(&head, &now) {
                        live = live.map(|n| n + added);
                    }
                }
                Ok(None) => {}
                Err(()) => live = None,
            }
        }
        if provider.is_some_and(|p| !self.view.wants(p)) {
            return Ok(());
        }
        let looked = !promise.brought.is_empty();
        let counts = RecordCounts {
            archived: (self.archive.is_some() || self.archive_lost).then_some(0),
            promised: Some(promise.records),
            mirror: (!self.mirror_unknown && (looked || self.mirror.is_none())).then_some(mirror),
            live: live.filter(|_| looked),
            live_is_upper_bound: false,
        };
        let holding = Holding {
            counts,
            need: promise.records,
            agrees: true,
            there,
            backup: self.kept.hold(id, promise.records, &promise.sum),
        };
        let item = SessionItem {
            id: Some(id.to_owned()),
            native_id: None,
            provider,
            source: promise.brought.first().map(|(key, ..)| key.to_string()),
            sources: u64::try_from(promise.brought.len()).unwrap_or(u64::MAX),
            holders: holding.holders(),
            records: counts,
        };
        self.add(item, &holding);
        Ok(())
    }

    fn add(&mut self, item: SessionItem, holding: &Holding) {
        let t = &mut self.sessions.totals;
        let code = holding.code();
        let counts = holding.counts;
        t.conversations += 1;
        t.archived += counts.archived.unwrap_or(0);
        t.promised += counts.promised.unwrap_or(0);
        t.mirror += counts.mirror.unwrap_or(0);
        t.live += counts.live.unwrap_or(0);
        t.archive_complete += u64::from(holding.archive() == Some(true));
        t.mirror_complete += u64::from(holding.all(counts.mirror) == Some(true));
        t.live_complete += u64::from(holding.live() == Some(true));
        t.live_possible +=
            u64::from(holding.live().is_none() && holding.all(counts.live) == Some(true));
        t.sole_copies += u64::from(holding.need > 0 && holding.live() == Some(false));
        self.sessions.add(item, code);
    }

    fn look(&mut self, source: &ArchivedSource) -> Result<Looked> {
        let head = match self.mirror {
            Some(mirror) => mirror.indexed_head(source.key)?,
            None => None,
        };
        let mirror = match &mut self.captures {
            Some(captures) => Some(captures.readable(
                source.key,
                source.parsed_seq,
                Some(source.captured_hash),
                head.as_ref(),
            )?),
            None => (!self.mirror_unknown).then_some(false),
        };
        let hidden = self
            .view
            .out_of_sight(&source.source_id, source.provider, &source.path);
        let left = match hidden {
            Some(_) => Left::Unknown,
            None => left(source, head.as_ref(), self.interrupt)?,
        };
        Ok(Looked { mirror, left })
    }

    /// Counts the coverage keys that some readable capture has, and those that some live source
    /// has, by the rows of all sources; and whether the latter is a bound.
    fn count(
        &mut self,
        archive: &ArchiveReader,
        id: &str,
        sources: &[ArchivedSource],
        looked: &[Looked],
    ) -> Result<(Option<u64>, Option<u64>, bool)> {
        let by_key: BTreeMap<SourceKey, (&ArchivedSource, &Looked)> = sources
            .iter()
            .map(|s| s.key)
            .zip(sources.iter().zip(looked))
            .collect();
        let mut counted = Counted::default();
        let (captures, interrupt) = (&mut self.captures, self.interrupt);
        archive.held_records(id, &mut |row| {
            interrupt.check()?;
            let Some((source, looked)) = by_key.get(&row.source) else {
                return Ok(());
            };
            let newest = row.epoch == source.epoch && looked.mirror == Some(true);
            let mirror = newest
                || match captures {
                    Some(captures) => captures.readable(row.source, row.seq, None, None)?,
                    None => false,
                };
            // A log that was rewritten holds the rows of its last epoch alone. In a store those of
            // earlier captures are still there, unless a newer version took their place or they
            // were deleted; where the last capture had nothing of an earlier one, none is.
            let brought = row.epoch == source.epoch;
            let store = source.main_session.as_deref() == Some("");
            let kept = store && !row.superseded && source.accounting.duplicate.records > 0;
            let there = looked.left == Left::All;
            counted.row(&row, mirror, there && brought, there && kept);
            Ok(())
        })?;
        counted.end();
        let unsure = looked.iter().any(|l| l.left == Left::Unknown);
        let total = counted.keys;
        Ok((
            (self.captures.is_some() || !self.mirror_unknown).then_some(counted.mirror),
            (!unsure || counted.live >= total).then_some(counted.live),
            counted.kept > 0,
        ))
    }
}

/// One source of a session.
#[derive(Debug, Clone, Copy)]
struct Looked {
    /// Whether the capture that the archive read can be read; `None` when no mirror could be
    /// looked at.
    mirror: Option<bool>,
    left: Left,
}

/// Coverage keys, by holder. The rows of a hash come together.
#[derive(Default)]
struct Counted {
    hash: Option<Digest>,
    /// By occurrence.
    open: BTreeMap<u64, Key>,
    keys: u64,
    mirror: u64,
    /// Those that are live or may be.
    live: u64,
    /// Of these, the ones that an earlier capture held and that may have been deleted since.
    kept: u64,
}

/// What is known of one coverage key.
#[derive(Debug, Clone, Copy, Default)]
struct Key {
    counted: bool,
    mirror: bool,
    live: bool,
    kept: bool,
}

impl Counted {
    fn row(&mut self, row: &HeldRecord, mirror: bool, live: bool, kept: bool) {
        if self.hash != Some(row.hash) {
            self.end();
            self.hash = Some(row.hash);
        }
        let key = self.open.entry(row.occurrence).or_default();
        key.counted |= row.counted;
        key.mirror |= mirror;
        key.live |= live;
        key.kept |= kept;
    }

    fn end(&mut self) {
        for key in std::mem::take(&mut self.open).into_values() {
            if !key.counted {
                continue;
            }
            self.keys += 1;
            self.mirror += u64::from(key.mirror);
            self.live += u64::from(key.live || key.kept);
            self.kept += u64::from(key.kept && !key.live);
        }
    }
}
