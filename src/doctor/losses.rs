//! Captures that can't be given back, and who else holds what they held. One rule for the check and for
//! the planner, so that what is an error has a plan and what has none is no error.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::disk::Root;
use crate::error::Result;
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::source::{LOCAL, SourceKey};
use crate::sources::reach::{Obstacle, Reach};
use crate::store::accepted::Accepted;
use crate::store::archive::ArchiveReader;
use crate::store::coverage::{self, Line};
use crate::store::mirror::{MirrorProblem, MirrorReader, ProblemKind};
use crate::store::promises::Promises;
use crate::store::run::RunId;

/// Captures of one source that are looked for by their number alone.
const GAPS: u64 = 1 << 20;

/// A source and the number of a capture.
pub(super) type Capture = (SourceKey, u64);

/// Whether a captured file is no longer there. What can't be looked at is not gone.
pub(super) fn is_gone(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(meta) => !meta.is_file(),
        Err(e) => matches!(
            e.kind(),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
        ),
    }
}

/// Whether a source of this machine is still where it was captured.
pub(super) fn is_there(source_id: &str, path: &Path) -> bool {
    source_id == LOCAL && !is_gone(path)
}

/// What a verification of the mirror says of captures.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Captures whose content can't be given back.
    pub(super) unreadable: BTreeSet<Capture>,
    /// Sources whose ledger lost lines.
    pub(super) ledgers: BTreeSet<SourceKey>,
}

impl Seen {
    pub(super) fn add(&mut self, problem: &MirrorProblem) {
        match (problem.kind, problem.capture) {
            (kind, Some((key, seq @ 1..))) if kind.loses_capture() => {
                self.unreadable.insert((key, seq));
            }
            (ProblemKind::Ledger, Some((key, _))) => {
                self.ledgers.insert(key);
            }
            _ => {}
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unreadable.is_empty() && self.ledgers.is_empty()
    }
}

/// Who else holds what a lost capture held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holding {
    /// Its source is still there, and a full index reads it.
    Source,
    /// Verified rows of the live archive, every record of it.
    Archive,
    /// This run put it on record as lost.
    Accepted(RunId),
    /// Nobody.
    Nothing,
}

/// A capture that can't be given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Loss {
    /// BLAKE3 of its content; `None` where its ledger line is lost as well.
    pub(super) hash: Option<Digest>,
    /// Bytes of its content.
    pub(super) len: Option<u64>,
    /// Who holds what it held.
    pub(super) holding: Holding,
    /// Conversations that it was part of and of which the live archive lacks records: how many.
    pub(super) lacking: Vec<(String, u64)>,
    /// Why an index does not read its source, where that is still there.
    pub(super) obstacle: Option<Obstacle>,
}

/// Where to look.
pub(super) struct Ground<'a> {
    pub(super) root: &'a Root,
    pub(super) mirror: Option<&'a MirrorReader<'a>>,
    /// The live archive, where it may be believed.
    pub(super) archive: Option<&'a ArchiveReader>,
    pub(super) reach: &'a Reach,
    /// Whether every promised capture is looked for, not only those of ledgers that lost lines.
    pub(super) all_promised: bool,
}

/// Finds out about every capture that is lost.
pub(super) fn losses(ground: &Ground<'_>, seen: &Seen) -> Result<BTreeMap<Capture, Loss>> {
    let mut lost: BTreeMap<Capture, Loss> = BTreeMap::new();
    if seen.is_empty() && !ground.all_promised {
        return Ok(lost);
    }
    let promises = Promises::read(ground.root)?;
    let keys: BTreeSet<SourceKey> = seen.unreadable.iter().map(|c| c.0).collect();
    let mut keys: BTreeSet<SourceKey> = keys.union(&seen.ledgers).copied().collect();
    if ground.all_promised {
        keys.extend(promises.iter().flat_map(|p| p.captures.keys()));
    }
    let mut sources: BTreeMap<SourceKey, Source> = BTreeMap::new();
    for key in keys {
        let mut known: BTreeMap<u64, (Digest, u64)> = BTreeMap::new();
        if let Some(mirror) = ground.mirror {
            mirror.captures(key, &mut |line| {
                known.insert(line.seq, (line.hash, line.len));
                Ok(())
            })?;
        }
        let source = Source::of(ground, key, &known, promises.as_ref(), seen)?;
        for seq in &source.lost {
            let at = known.get(seq);
            let loss = Loss {
                hash: at.map(|k| k.0),
                len: at.map(|k| k.1),
                holding: Holding::Nothing,
                lacking: Vec::new(),
                obstacle: source.obstacle.clone(),
            };
            lost.insert((key, *seq), loss);
        }
        sources.insert(key, source);
    }
    if lost.is_empty() {
        return Ok(lost);
    }
    let accepted = Accepted::read(ground.root)?;
    let touched = touched(ground.root, &lost)?;
    for ((key, seq), loss) in &mut lost {
        let Some(source) = sources.get(key) else {
            continue;
        };
        let conversations = touched.get(&(*key, *seq));
        if let (Some(archive), Some(promises)) = (ground.archive, &promises) {
            for id in conversations.into_iter().flatten() {
                let promised = promises.conversations.get(id).map_or(0, |p| p.count);
                let held = archive.held_coverage(id)?.map_or(0, |h| h.0);
                if held < promised {
                    loss.lacking.push((id.clone(), promised - held));
                }
            }
        }
        // Rows speak of it where a commit did, or where one went past it.
        let is_parsed = conversations.is_some() || source.parsed.is_some_and(|p| p >= *seq);
        loss.holding = if let Some(run) = accepted.covers(*key, *seq, loss.hash) {
            Holding::Accepted(run.clone())
        } else if source.can_heal(*seq) {
            Holding::Source
        } else if ground.archive.is_some() && is_parsed && loss.lacking.is_empty() {
            Holding::Archive
        } else {
            Holding::Nothing
        };
    }
    Ok(lost)
}

/// What is known of a source with lost captures.
struct Source {
    lost: BTreeSet<u64>,
    /// The newest capture that its ledger has.
    newest: Option<u64>,
    /// The newest one that the archive read.
    parsed: Option<u64>,
    is_there: bool,
    obstacle: Option<Obstacle>,
}

impl Source {
    fn of(
        ground: &Ground<'_>,
        key: SourceKey,
        known: &BTreeMap<u64, (Digest, u64)>,
        promises: Option<&Promises>,
        seen: &Seen,
    ) -> Result<Source> {
        let row = match ground.archive {
            Some(archive) => archive.source(key)?,
            None => None,
        };
        let newest = known.keys().next_back().copied();
        let parsed = row.as_ref().map(|r| r.parsed_seq);
        let mut lost: BTreeSet<u64> = seen
            .unreadable
            .range((key, 0)..=(key, u64::MAX))
            .map(|(_, seq)| *seq)
            .collect();
        let promised = promises.and_then(|p| p.captures.get(&key));
        if ground.all_promised || seen.ledgers.contains(&key) {
            let named = promised.iter().flat_map(|c| c.seqs.iter());
            lost.extend(named.flat_map(|(from, to)| *from..=*to));
        }
        if seen.ledgers.contains(&key) {
            lost.extend(parsed);
            // A number that no ledger reaches says nothing about how many lines are gone.
            lost.extend(1..newest.filter(|n| *n < GAPS).unwrap_or(0));
        }
        lost.retain(|seq| seen.unreadable.contains(&(key, *seq)) || !known.contains_key(seq));
        let named: Option<(String, Provider, PathBuf)> = match &row {
            Some(row) => Some((row.source_id.clone(), row.provider, row.path.clone())),
            None => match ground.mirror {
                Some(mirror) => mirror
                    .head(key)?
                    .map(|h| (h.ident.source_id, h.ident.provider, h.ident.path)),
                None => None,
            },
        };
        let there = named.filter(|(id, _, path)| is_there(id, path));
        Ok(Source {
            lost,
            newest,
            parsed,
            is_there: there.is_some(),
            obstacle: there.and_then(|(_, provider, path)| ground.reach.obstacle(provider, &path)),
        })
    }

    /// Whether reading the source again may bring it back: not where a newer version of the same source
    /// can be given back.
    fn can_heal(&self, seq: u64) -> bool {
        let behind = self
            .newest
            .is_none_or(|newest| seq > newest || self.lost.contains(&newest));
        self.is_there && self.obstacle.is_none() && behind
    }
}

/// The conversations that the commits of lost captures touched.
fn touched(
    root: &Root,
    lost: &BTreeMap<Capture, Loss>,
) -> Result<BTreeMap<Capture, BTreeSet<String>>> {
    let mut found: BTreeMap<Capture, BTreeSet<String>> = BTreeMap::new();
    coverage::for_each(
        root,
        &mut |_, line| {
            let Line::Commit(commit) = line else {
                return Ok(());
            };
            for capture in commit.captures.iter().filter(|c| lost.contains_key(*c)) {
                let ids = commit.conversations.iter().map(|c| c.0.clone());
                found.entry(*capture).or_default().extend(ids);
            }
            Ok(())
        },
        &mut |_| Ok(()),
    )?;
    Ok(found)
}
