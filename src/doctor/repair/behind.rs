//! What an archive holds and the one that is put in its place can't show, by record.

use std::collections::{BTreeMap, HashSet};

use super::holders::{Fingerprint, Holder, fingerprint};
use super::lost::{Held, PATIENCE, brought, by_path, entry, known_lost, records, take_back};
use super::names::{Names, give};
use crate::disk::{ArchiveShared, Root};
use crate::error::Result;
use crate::model::plan::{Count, Lost, LostWhat, Missing, MissingReason};
use crate::model::watch::Watch;
use crate::store::archive::{Rescued, RescuedKey};

/// One archive in the place of another.
pub(in crate::doctor) struct Behind<'a> {
    pub(in crate::doctor) root: &'a Root,
    /// The database that goes, relative to the data directory, as far as it can be read.
    pub(in crate::doctor) outgoing: Option<&'a str>,
    /// What comes in its place.
    pub(in crate::doctor) incoming: Option<&'a Holder>,
    pub(in crate::doctor) reason: MissingReason,
    pub(in crate::doctor) watch: Watch<'a>,
}

impl Behind<'_> {
    /// Names what is missing, and lists it by record: each row that the outgoing archive has and the
    /// other lacks; what neither has, by the capture that brought it; and each record whose text is
    /// damaged in the other alone.
    ///
    /// # Errors
    /// `lock-busy`, `interrupted`, `io`.
    pub(in crate::doctor) fn list(&self, missing: &mut [Missing]) -> Result<Vec<Lost>> {
        let is_whole = self.incoming.is_none_or(|h| h.is_whole);
        if missing.is_empty() && is_whole {
            return Ok(Vec::new());
        }
        let lock = ArchiveShared::acquire(self.root, PATIENCE)?;
        let open = |rel: Option<&str>| match rel {
            Some(rel) => Rescued::open(self.root, rel, &lock),
            None => Ok(None),
        };
        let incoming = open(self.incoming.map(|h| h.rel.as_str()))?;
        let outgoing = open(self.outgoing)?;
        let mut names = Names::new();
        for archive in [&incoming, &outgoing].into_iter().flatten() {
            let all = archive.conversation_names();
            names.extend(
                all.map(|(id, provider, native)| (id.to_owned(), (provider, native.to_owned()))),
            );
        }
        let mut there = There {
            held: missing
                .iter()
                .map(|m| (m.conversation.clone(), Held::default()))
                .collect(),
            keys: HashSet::new(),
        };
        if let Some(incoming) = &incoming {
            self.each(incoming, &mut |row| {
                there.add(row);
            })?;
        }
        let mut all: Vec<Lost> = Vec::new();
        let mut run: Option<Run> = None;
        let mut listed: BTreeMap<String, u64> = BTreeMap::new();
        if let Some(outgoing) = &outgoing {
            self.each(outgoing, &mut |row| {
                let Some(conversation) = there.add(row) else {
                    return;
                };
                *listed.entry(conversation.to_owned()).or_insert(0) += 1;
                if run.as_mut().is_none_or(|run| !run.goes_on(row)) {
                    let next = Run::begin(conversation, row, self.reason);
                    all.extend(run.replace(next).map(|run| run.entry));
                }
            })?;
        }
        all.extend(run.map(|run| run.entry));
        if let (false, Some(incoming), Some(outgoing)) = (is_whole, &incoming, &outgoing) {
            all.extend(self.without_text(incoming, outgoing)?);
        }
        drop((incoming, outgoing));
        drop(lock);
        let rest: Vec<Missing> = missing
            .iter()
            .filter_map(|m| {
                let listed = listed.get(&m.conversation).copied().unwrap_or(0);
                let records = m.records.0.saturating_sub(listed);
                (records > 0).then(|| Missing {
                    records: Count(records),
                    ..m.clone()
                })
            })
            .collect();
        if !rest.is_empty() {
            let mut brought = brought(self.root, &rest)?;
            take_back(&known_lost(self.root)?, &mut brought);
            by_path(self.root, &rest, &brought, &mut names)?;
            for m in &rest {
                let held = there.held.remove(&m.conversation).unwrap_or_default();
                let brought = brought.get(&m.conversation);
                records(
                    m,
                    &held,
                    brought.map_or(&[], Vec::as_slice),
                    &mut [],
                    &mut all,
                );
            }
        }
        give(&names, missing, &mut all);
        all.sort();
        Ok(all)
    }

    fn each(&self, of: &Rescued<'_>, f: &mut dyn FnMut(&RescuedKey<'_>)) -> Result<()> {
        let mut seen = 0u64;
        of.coverage(&mut |row| {
            seen += 1;
            if seen.is_multiple_of(4096) {
                self.watch.interrupt.check()?;
            }
            f(&row);
            Ok(())
        })
    }

    /// Records of which one archive lost messages and the other did not.
    fn without_text(&self, incoming: &Rescued<'_>, outgoing: &Rescued<'_>) -> Result<Vec<Lost>> {
        let mut found: BTreeMap<Fingerprint, Lost> = BTreeMap::new();
        incoming.incomplete(self.watch.interrupt, &mut |row| {
            if let Some(id) = row.conversation {
                let entry = entry(id, &row, LostWhat::Messages, self.reason);
                found.insert(fingerprint(id, &row), entry);
            }
            Ok(())
        })?;
        if found.is_empty() {
            return Ok(Vec::new());
        }
        outgoing.incomplete(self.watch.interrupt, &mut |row| {
            if let Some(id) = row.conversation {
                found.remove(&fingerprint(id, &row));
            }
            Ok(())
        })?;
        let mut all = Vec::new();
        self.each(outgoing, &mut |row| {
            let key = row.conversation.map(|id| fingerprint(id, row));
            all.extend(key.and_then(|key| found.remove(&key)));
        })?;
        Ok(all)
    }
}

/// What was seen of the conversations that lack something.
struct There {
    held: BTreeMap<String, Held>,
    keys: HashSet<Fingerprint>,
}

impl There {
    /// The conversation, where the record is one of them and was not seen before.
    fn add<'r>(&mut self, row: &RescuedKey<'r>) -> Option<&'r str> {
        let id = row.conversation?;
        let held = self.held.get_mut(id)?;
        if !self.keys.insert(fingerprint(id, row)) {
            return None;
        }
        if let Some(key) = row.source {
            *held.0.entry((key, row.seq)).or_insert(0) += 1;
        }
        Some(id)
    }
}

/// Records that lie side by side.
struct Run {
    entry: Lost,
    epoch: u64,
    last: u64,
    begin: u64,
    count: u64,
}

impl Run {
    fn begin(conversation: &str, row: &RescuedKey<'_>, reason: MissingReason) -> Run {
        Run {
            entry: entry(conversation, row, LostWhat::Records, reason),
            epoch: row.epoch,
            last: row.line,
            begin: row.span.offset,
            count: 1,
        }
    }

    /// Takes the record in, if it comes right behind the last one.
    fn goes_on(&mut self, row: &RescuedKey<'_>) -> bool {
        let e = &mut self.entry;
        let same = e.conversation.as_deref() == row.conversation
            && e.source == row.source.map(|key| key.to_string())
            && e.seq == Some(Count(row.seq))
            && self.epoch == row.epoch
            && self.last + 1 == row.line
            && self.begin <= row.span.offset;
        if same {
            self.last = row.line;
            self.count += 1;
            e.count = Some(Count(self.count));
            e.lines = e.lines.map(|(first, _)| (first, Count(row.line)));
            e.bytes = Some((Count(self.begin), Count(row.span.end() - self.begin)));
            e.hash = None;
        }
        same
    }
}
