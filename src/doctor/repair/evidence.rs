//! What there is to build from: which promised captures the mirror can give, and which archives hold
//! verified rows for the rest.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::Root;
use crate::doctor::losses::{Capture, is_there};
use crate::error::Result;
use crate::model::digest::Digest;
use crate::model::plan::{CaptureName, Count, Missing, MissingReason};
use crate::model::source::SourceKey;
use crate::model::watch::Watch;
use crate::store::accepted::Accepted;
use crate::store::coverage::{self, Line};
use crate::store::mirror::MirrorReader;
use crate::store::promises::Promises;

/// What the mirror can give of what was promised.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Captures that can't be read, sorted: those that were promised, and what the mirror's ledgers
    /// name beyond them. A repair reads such ones too, and then the archive alone holds them.
    pub unreadable: BTreeMap<Capture, MissingReason>,
    /// Those of them that no commit promises.
    pub beyond: BTreeSet<Capture>,
    /// Promised captures.
    pub promised: u64,
    /// Those of them that can be read.
    pub given: u64,
    /// Captures that the mirror has and can give, promised or not.
    pub captures: u64,
    /// Bytes that the mirror holds.
    pub mirror_bytes: u64,
    /// Whether there is a mirror.
    pub mirror: bool,
    /// Whether the mirror's derived index has to be made again.
    pub index_damaged: bool,
    /// Conversations that an unreadable capture was part of, with the records promised of each.
    pub touched: BTreeMap<String, (u64, MissingReason)>,
    /// The same by capture.
    pub touched_by: BTreeMap<Capture, BTreeSet<String>>,
    /// What the unreadable captures held, where their ledger lines are there, and captures beyond the
    /// promised ones that can't be read and whose sources are gone.
    pub hashes: BTreeMap<Capture, Digest>,
}

impl Evidence {
    /// Reads and verifies everything that was promised.
    ///
    /// # Errors
    /// `lock-busy`, `interrupted`, `io`.
    pub fn gather(root: &Root, promises: Option<&Promises>, watch: Watch<'_>) -> Result<Evidence> {
        let mut out = Evidence {
            promised: promises.map_or(0, |p| p.captures.values().map(|c| c.count()).sum()),
            ..Evidence::default()
        };
        let is_promised = |key: &SourceKey, seq: u64| {
            promises.is_some_and(|p| p.captures.get(key).is_some_and(|c| c.contains(seq)))
        };
        let mut bad: BTreeMap<Capture, MissingReason> = BTreeMap::new();
        let mut known: BTreeMap<SourceKey, BTreeSet<u64>> = BTreeMap::new();
        if let Some(mirror) = MirrorReader::open(root)? {
            out.mirror = true;
            out.mirror_bytes = mirror.stored_bytes();
            watch.progress.phase("verify mirror", None);
            let mut lost: BTreeSet<(SourceKey, u64)> = BTreeSet::new();
            let summary = mirror.verify(
                true,
                &mut || watch.interrupt.pending().is_some(),
                &mut |problem| {
                    out.index_damaged |= problem.kind == crate::store::mirror::ProblemKind::Index;
                    if !problem.kind.loses_capture() {
                        return;
                    }
                    // A damaged pack or object shows in the captures that need it, a damaged ledger
                    // line in its number being gone.
                    if let Some(capture) = problem.capture.filter(|(_, seq)| *seq > 0) {
                        bad.insert(capture, MissingReason::CaptureUnreadable);
                        lost.insert(capture);
                    }
                },
            )?;
            watch.interrupt.check()?;
            out.captures = summary.captures.saturating_sub(lost.len() as u64);
            let accepted = Accepted::read(root)?;
            let with_lost = lost.iter().map(|c| c.0);
            let promised = promises.iter().flat_map(|p| p.captures.keys()).copied();
            for key in with_lost.chain(promised).collect::<BTreeSet<_>>() {
                let has_lost = lost.range((key, 0)..=(key, u64::MAX)).next().is_some();
                let head = if has_lost { mirror.head(key)? } else { None };
                let gone = head.is_some_and(|h| !is_there(&h.ident.source_id, &h.ident.path));
                let seqs = known.entry(key).or_default();
                mirror.captures(key, &mut |line| {
                    seqs.insert(line.seq);
                    let is_accepted = accepted.covers(key, line.seq, Some(line.hash)).is_some();
                    if lost.contains(&(key, line.seq))
                        && (is_promised(&key, line.seq) || (gone && !is_accepted))
                    {
                        out.hashes.insert((key, line.seq), line.hash);
                    }
                    Ok(())
                })?;
            }
        }
        for (key, captured) in promises.iter().flat_map(|p| p.captures.iter()) {
            for seq in captured.seqs.iter().flat_map(|(from, to)| *from..=*to) {
                let is_known = known.get(key).is_some_and(|s| s.contains(&seq));
                if !is_known {
                    bad.insert((*key, seq), MissingReason::CaptureMissing);
                }
            }
        }
        let lost = bad.keys().filter(|(key, seq)| is_promised(key, *seq));
        out.given = out.promised.saturating_sub(lost.count() as u64);
        if promises.is_some() {
            let beyond = bad.keys().filter(|(key, seq)| !is_promised(key, *seq));
            out.beyond = beyond.copied().collect();
            out.unreadable = bad;
        }
        if let Some(promises) = promises.filter(|_| !out.unreadable.is_empty()) {
            (out.touched, out.touched_by) = touched(root, promises, &out.unreadable)?;
        }
        Ok(out)
    }

    /// The captures whose loss can only be accepted: those that brought what `missing` lists, and those
    /// beyond what was promised, of which no row was ever made.
    #[must_use]
    pub fn lost_for_good(&self, missing: &[Missing]) -> Vec<(CaptureName, Option<String>)> {
        let ids: BTreeSet<&str> = missing.iter().map(|m| m.conversation.as_str()).collect();
        let mut all: BTreeSet<Capture> = self
            .touched_by
            .iter()
            .filter(|(_, of)| of.iter().any(|id| ids.contains(id.as_str())))
            .map(|(capture, _)| *capture)
            .collect();
        let beyond = |c: &&Capture| self.beyond.contains(*c) || !self.unreadable.contains_key(*c);
        all.extend(self.hashes.keys().filter(beyond));
        all.into_iter()
            .map(|(key, seq)| {
                let name = CaptureName {
                    source: key.to_string(),
                    seq: Count(seq),
                };
                let hash = self.hashes.get(&(key, seq)).map(|h| h.to_hex());
                (name, hash)
            })
            .collect()
    }

    /// The captures that can't be read, as a plan names them.
    #[must_use]
    pub fn names(&self) -> Vec<CaptureName> {
        self.unreadable
            .keys()
            .map(|(key, seq)| CaptureName {
                source: key.to_string(),
                seq: Count(*seq),
            })
            .collect()
    }

    /// What may be missing when `held` gives, for a conversation, how many of its records verified
    /// rows hold.
    #[must_use]
    pub fn missing(&self, held: &BTreeMap<String, u64>) -> Vec<Missing> {
        self.touched
            .iter()
            .filter_map(|(conversation, (promised, reason))| {
                let have = held.get(conversation).copied().unwrap_or(0);
                let records = promised.saturating_sub(have);
                (records > 0).then(|| Missing {
                    conversation: conversation.clone(),
                    provider: None,
                    native_id: None,
                    records: Count(records),
                    reason: *reason,
                })
            })
            .collect()
    }
}

type Touched = BTreeMap<String, (u64, MissingReason)>;
type TouchedBy = BTreeMap<Capture, BTreeSet<String>>;

/// The conversations that commits of unreadable captures touched.
fn touched(
    root: &Root,
    promises: &Promises,
    unreadable: &BTreeMap<Capture, MissingReason>,
) -> Result<(Touched, TouchedBy)> {
    let (mut found, mut by) = (Touched::new(), TouchedBy::new());
    coverage::for_each(
        root,
        &mut |_, line| {
            let Line::Commit(commit) = line else {
                return Ok(());
            };
            let bad = commit
                .captures
                .iter()
                .find_map(|c| unreadable.get_key_value(c));
            let Some((capture, reason)) = bad else {
                return Ok(());
            };
            for (id, ..) in commit.conversations {
                let promised = promises.conversations.get(&id).map_or(0, |p| p.count);
                by.entry(*capture).or_default().insert(id.clone());
                found.insert(id, (promised, *reason));
            }
            Ok(())
        },
        &mut |_| Ok(()),
    )?;
    Ok((found, by))
}
