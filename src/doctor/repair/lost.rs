//! What a repair can't bring back, by record: from what the ledger promised, from the rows that verify
//! and from the gaps between them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::evidence::Evidence;
use super::holders::{Fingerprint, Holder, fingerprint};
use super::names::{Names, give};
use crate::disk::{ArchiveShared, Root};
use crate::doctor::scan::live::{Left, left};
use crate::error::Result;
use crate::model::conversation::ArchivedSource;
use crate::model::plan::{AuthorityClass, Count, Lost, LostWhat, Missing, MissingReason};
use crate::model::source::SourceKey;
use crate::model::watch::Watch;
use crate::sources::reach::Reach;
use crate::store::accepted::Accepted;
use crate::store::archive::{Rescued, RescuedKey, conversation_id};
use crate::store::coverage::{self, Line};
use crate::store::mirror::MirrorReader;
use crate::store::named::NamedArchive;

pub(super) const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// Characters of a UUID, in which many harnesses' file names end.
const UUID: usize = 36;

/// Where to look.
pub(in crate::doctor) struct Sought<'a> {
    pub(in crate::doctor) root: &'a Root,
    pub(in crate::doctor) from: Option<&'a NamedArchive>,
    pub(in crate::doctor) evidence: &'a Evidence,
    /// Archives whose rows are taken over, in this order.
    pub(in crate::doctor) rows: &'a [&'a Holder],
    /// Whether rows of every source are taken over, not only of those that the mirror can't give.
    pub(in crate::doctor) all: bool,
    /// Which files the next index reads.
    pub(in crate::doctor) reach: &'a Reach,
    pub(in crate::doctor) watch: Watch<'a>,
}

/// Names what is missing, and lists it by record.
///
/// # Errors
/// `lock-busy`, `interrupted`, `io`.
pub(in crate::doctor) fn lost(sought: &Sought<'_>, missing: &mut [Missing]) -> Result<Vec<Lost>> {
    let damaged = sought.rows.iter().any(|h| !h.is_whole);
    if missing.is_empty() && !damaged {
        return Ok(Vec::new());
    }
    let mut brought = brought(sought.root, missing)?;
    let before = known_lost(sought.root)?;
    take_back(&before, &mut brought);
    let mut best: BTreeMap<String, usize> = BTreeMap::new();
    for m in missing.iter() {
        let has = |h: &Holder| h.coverage.get(&m.conversation).copied().unwrap_or(0);
        let most = (0..sought.rows.len())
            .filter(|i| has(sought.rows[*i]) > 0)
            .max_by_key(|i| (has(sought.rows[*i]), std::cmp::Reverse(*i)));
        if let Some(most) = most {
            best.insert(m.conversation.clone(), most);
        }
    }
    let mut names = Names::new();
    let mut found: BTreeMap<String, Held> = BTreeMap::new();
    let mut gaps: BTreeMap<usize, Vec<Gap>> = BTreeMap::new();
    let mut incomplete: Vec<Incomplete> = Vec::new();
    let mut strays: BTreeMap<String, u64> = BTreeMap::new();
    let lock = ArchiveShared::acquire(sought.root, PATIENCE)?;
    for (i, holder) in sought.rows.iter().enumerate() {
        let elsewhere = match (holder.class, sought.from) {
            (AuthorityClass::Named, Some(from)) => Some(from.locate()?.0),
            _ => None,
        };
        let root = elsewhere.as_ref().unwrap_or(sought.root);
        let Some(rescued) = Rescued::open(root, &holder.rel, &lock)? else {
            continue;
        };
        for (id, provider, native) in rescued.conversation_names() {
            names
                .entry(id.to_owned())
                .or_insert_with(|| (provider, native.to_owned()));
        }
        let wanted: BTreeSet<&str> = best
            .iter()
            .filter(|(_, at)| **at == i)
            .map(|(id, _)| id.as_str())
            .collect();
        if !wanted.is_empty() {
            let keys: BTreeSet<SourceKey> = wanted
                .iter()
                .filter_map(|id| brought.get(*id))
                .flatten()
                .map(|b| b.key)
                .collect();
            let look = look(&rescued, &wanted, &keys, sought.watch)?;
            found.extend(look.0);
            gaps.insert(i, not_known(look.1, &before));
        }
        if !holder.is_whole {
            take_incomplete(sought, &rescued, i, &mut incomplete)?;
            take_strays(sought, (holder, &rescued), missing, &mut names, &mut strays)?;
        }
    }
    drop(lock);
    by_path(sought.root, missing, &brought, &mut names)?;
    let mut all = Vec::new();
    let none = Held::default();
    for m in missing.iter() {
        let held = found.get(&m.conversation).unwrap_or(&none);
        let empty = &mut Vec::new();
        let gaps = match best.get(&m.conversation) {
            Some(at) => gaps.get_mut(at).unwrap_or(empty),
            None => empty,
        };
        let brought = brought.get(&m.conversation);
        records(m, held, brought.map_or(&[], Vec::as_slice), gaps, &mut all);
    }
    all.extend(incomplete.into_iter().map(|lost| lost.entry));
    all.extend(strays.into_iter().map(|(conversation, count)| {
        somewhere(
            conversation,
            LostWhat::Place,
            count,
            MissingReason::RowDamaged,
        )
    }));
    give(&names, missing, &mut all);
    all.sort();
    Ok(all)
}

/// Records that one commit brought to a conversation.
pub(super) struct Brought {
    key: SourceKey,
    seq: u64,
    records: u64,
}

/// What the coverage ledger says of the conversations that lack something, commit by commit.
pub(super) fn brought(root: &Root, missing: &[Missing]) -> Result<BTreeMap<String, Vec<Brought>>> {
    let mut most: BTreeMap<&str, u64> = missing
        .iter()
        .map(|m| (m.conversation.as_str(), 0))
        .collect();
    let mut all: BTreeMap<String, Vec<Brought>> = BTreeMap::new();
    if most.is_empty() {
        return Ok(all);
    }
    coverage::for_each(
        root,
        &mut |_, line| {
            let Line::Commit(commit) = line else {
                return Ok(());
            };
            // A commit reads one source.
            let Some((key, seq)) = commit.captures.first().copied() else {
                return Ok(());
            };
            for (id, count, _) in &commit.conversations {
                let Some(so_far) = most.get_mut(id.as_str()) else {
                    continue;
                };
                let records = count.saturating_sub(*so_far);
                *so_far = (*so_far).max(*count);
                if records > 0 {
                    let one = Brought { key, seq, records };
                    all.entry(id.clone()).or_default().push(one);
                }
            }
            Ok(())
        },
        &mut |_| Ok(()),
    )?;
    Ok(all)
}

/// Records that are on record as lost already.
pub(super) fn known_lost(root: &Root) -> Result<Vec<Lost>> {
    let all = Accepted::read(root)?.in_force;
    Ok(all
        .into_iter()
        .flat_map(|a| a.lost)
        .filter(|l| l.what == LostWhat::Records)
        .collect())
}

pub(super) fn take_back(before: &[Lost], brought: &mut BTreeMap<String, Vec<Brought>>) {
    for lost in before {
        let of = lost
            .conversation
            .as_ref()
            .and_then(|id| brought.get_mut(id));
        let mut rest = lost.count.map_or(0, |n| n.0);
        for b in of.into_iter().flatten() {
            let is_its = lost.source.as_deref() == Some(b.key.to_string().as_str())
                && lost.seq.is_some_and(|seq| seq.0 == b.seq);
            if is_its {
                let n = rest.min(b.records);
                b.records -= n;
                rest -= n;
            }
        }
    }
}

/// The gaps without those that are known.
fn not_known(gaps: Vec<Gap>, before: &[Lost]) -> Vec<Gap> {
    let cut = |mut gap: Gap| {
        let key = gap.key.to_string();
        for lost in before.iter().filter(|l| l.source.as_ref() == Some(&key)) {
            let Some((Count(from), Count(to))) = lost.lines else {
                continue;
            };
            if from <= gap.first && gap.first <= to {
                (gap.first, gap.bytes) = (to + 1, None);
            } else if from <= gap.last && gap.last <= to {
                (gap.last, gap.bytes) = (from - 1, None);
            }
        }
        (gap.first <= gap.last).then_some(gap)
    };
    gaps.into_iter().filter_map(cut).collect()
}

/// Verified records of a conversation, by capture.
#[derive(Default)]
pub(super) struct Held(pub(super) BTreeMap<(SourceKey, u64), u64>);

/// Lines of a source of which no row is left.
pub(super) struct Gap {
    key: SourceKey,
    /// Captures of the rows before and behind.
    seqs: (u64, u64),
    first: u64,
    last: u64,
    /// Where the row before ends and the row behind begins; unknown at a source's end.
    bytes: Option<(u64, u64)>,
}

/// Counts the records of some conversations, and finds the gaps in their sources.
fn look(
    rescued: &Rescued<'_>,
    wanted: &BTreeSet<&str>,
    keys: &BTreeSet<SourceKey>,
    watch: Watch<'_>,
) -> Result<(BTreeMap<String, Held>, Vec<Gap>)> {
    let mut skipped: BTreeSet<(SourceKey, u64, u64)> = BTreeSet::new();
    rescued.skipped(&mut |key, epoch, line| {
        if keys.contains(&key) {
            skipped.insert((key, epoch, line));
        }
        Ok(())
    })?;
    let mut held: BTreeMap<String, Held> = BTreeMap::new();
    let mut gaps: Vec<Gap> = Vec::new();
    // Of each source: epoch, capture, line and end of the row before.
    let mut last: BTreeMap<SourceKey, (u64, u64, u64, u64)> = BTreeMap::new();
    let mut seen = 0u64;
    let explained = |key, epoch, first: u64, end: u64| {
        let lines = skipped.range((key, epoch, first)..(key, epoch, end));
        lines.count() as u64 >= end - first
    };
    rescued.coverage(&mut |row| {
        seen += 1;
        if seen.is_multiple_of(4096) {
            watch.interrupt.check()?;
        }
        let Some(key) = row.source else {
            return Ok(());
        };
        if let Some(id) = row.conversation.filter(|id| wanted.contains(id))
            && row.counted
        {
            let held = held.entry(id.to_owned()).or_default();
            *held.0.entry((key, row.seq)).or_insert(0) += 1;
        }
        if !keys.contains(&key) {
            return Ok(());
        }
        let before = last.insert(key, (row.epoch, row.seq, row.line, row.span.end()));
        let (epoch, seq, line, end) = match before {
            Some(before) if before.0 == row.epoch => before,
            _ => (row.epoch, row.seq, 0, 0),
        };
        let first = line + 1;
        if first < row.line && end <= row.span.offset && !explained(key, epoch, first, row.line) {
            gaps.push(Gap {
                key,
                seqs: (seq, row.seq),
                first,
                last: row.line - 1,
                bytes: Some((end, row.span.offset - end)),
            });
        }
        Ok(())
    })?;
    for (key, (epoch, seq, line, _)) in last {
        if let Some((now, next)) = rescued.next_line(key)
            && now == epoch
            && line + 1 < next
            && !explained(key, epoch, line + 1, next)
        {
            gaps.push(Gap {
                key,
                seqs: (seq, u64::MAX),
                first: line + 1,
                last: next - 1,
                bytes: None,
            });
        }
    }
    Ok((held, gaps))
}

/// The records that one conversation lacks: by capture, and by line where a gap says so.
pub(super) fn records(
    m: &Missing,
    held: &Held,
    brought: &[Brought],
    gaps: &mut [Gap],
    all: &mut Vec<Lost>,
) {
    let mut rest = m.records.0;
    let entry = |count: u64| {
        let conversation = m.conversation.clone();
        somewhere(conversation, LostWhat::Records, count, m.reason)
    };
    for b in brought {
        let have = held.0.get(&(b.key, b.seq)).copied().unwrap_or(0);
        let mut lacks = b.records.saturating_sub(have).min(rest);
        rest -= lacks;
        let of = |count: u64| Lost {
            source: Some(b.key.to_string()),
            seq: Some(Count(b.seq)),
            ..entry(count)
        };
        let fits = |g: &&mut Gap| {
            g.key == b.key && g.first <= g.last && (g.seqs.0..=g.seqs.1).contains(&b.seq)
        };
        for gap in gaps.iter_mut().filter(fits) {
            if lacks == 0 {
                break;
            }
            let count = lacks.min(gap.last - gap.first + 1);
            all.push(Lost {
                lines: Some((Count(gap.first), Count(gap.last))),
                bytes: gap.bytes.map(|(at, len)| (Count(at), Count(len))),
                ..of(count)
            });
            // Another capture may have brought the rest of it.
            gap.first += count;
            lacks -= count;
        }
        if lacks > 0 {
            all.push(of(lacks));
        }
    }
    if rest > 0 {
        all.push(entry(rest));
    }
}

/// A record that is held without its messages.
struct Incomplete {
    key: Fingerprint,
    entry: Lost,
}

/// What is listed of one record or its messages.
pub(super) fn entry(
    conversation: &str,
    row: &RescuedKey<'_>,
    what: LostWhat,
    reason: MissingReason,
) -> Lost {
    Lost {
        conversation: Some(conversation.to_owned()),
        provider: None,
        native_id: None,
        what,
        count: Some(Count(1)),
        source: row.source.map(|key| key.to_string()),
        seq: Some(Count(row.seq)),
        lines: Some((Count(row.line), Count(row.line))),
        bytes: Some((Count(row.span.offset), Count(row.span.len))),
        hash: Some(row.hash.to_hex()),
        reason,
    }
}

/// Takes the records that an archive would give without their messages and that no other archive gives
/// with them.
fn take_incomplete(
    sought: &Sought<'_>,
    rescued: &Rescued<'_>,
    at: usize,
    all: &mut Vec<Incomplete>,
) -> Result<()> {
    let lacking: BTreeSet<SourceKey> = sought.evidence.unreadable.keys().map(|c| c.0).collect();
    let mut found: Vec<Incomplete> = Vec::new();
    rescued.incomplete(sought.watch.interrupt, &mut |row| {
        let Some(id) = row.conversation else {
            return Ok(());
        };
        if !sought.all && row.source.is_some_and(|key| !lacking.contains(&key)) {
            return Ok(());
        }
        found.push(Incomplete {
            key: fingerprint(id, &row),
            entry: entry(id, &row, LostWhat::Messages, MissingReason::RowDamaged),
        });
        Ok(())
    })?;
    if found.is_empty() {
        return Ok(());
    }
    // Whoever has a record with its messages gives them, whichever archive comes first.
    let mut keys: BTreeSet<Fingerprint> = found.iter().map(|l| l.key).collect();
    let lock = ArchiveShared::acquire(sought.root, PATIENCE)?;
    for (_, holder) in sought.rows.iter().enumerate().filter(|(i, _)| *i != at) {
        let elsewhere = match (holder.class, sought.from) {
            (AuthorityClass::Named, Some(from)) => Some(from.locate()?.0),
            _ => None,
        };
        let root = elsewhere.as_ref().unwrap_or(sought.root);
        let Some(other) = Rescued::open(root, &holder.rel, &lock)? else {
            continue;
        };
        let mut lacking = BTreeSet::new();
        other.incomplete(sought.watch.interrupt, &mut |row| {
            lacking.extend(row.conversation.map(|id| fingerprint(id, &row)));
            Ok(())
        })?;
        other.coverage(&mut |row| {
            if let Some(id) = row.conversation {
                let key = fingerprint(id, &row);
                if !lacking.contains(&key) {
                    keys.remove(&key);
                }
            }
            Ok(())
        })?;
    }
    let known: BTreeSet<Fingerprint> = all.iter().map(|l| l.key).collect();
    let new = |l: &Incomplete| keys.contains(&l.key) && !known.contains(&l.key);
    all.extend(found.into_iter().filter(new));
    Ok(())
}

/// What is lost of a conversation where neither source nor place is known.
fn somewhere(conversation: String, what: LostWhat, count: u64, reason: MissingReason) -> Lost {
    Lost {
        conversation: Some(conversation),
        provider: None,
        native_id: None,
        what,
        count: Some(Count(count)),
        source: None,
        seq: None,
        lines: None,
        bytes: None,
        hash: None,
        reason,
    }
}

/// Takes the rows that an archive would give without what says where they belong. Messages of a
/// conversation whose files are there with every byte that was read of them, and are not kept from
/// being read, are not taken: the next index reads them again and puts them in their place, and they
/// would stand there twice.
fn take_strays(
    sought: &Sought<'_>,
    (holder, rescued): (&Holder, &Rescued<'_>),
    missing: &[Missing],
    names: &mut Names,
    all: &mut BTreeMap<String, u64>,
) -> Result<()> {
    let lacking: BTreeSet<SourceKey> = sought.evidence.unreadable.keys().map(|c| c.0).collect();
    let made_up = rescued.sources().filter(|s| s.is_made_up());
    let made_up: BTreeSet<SourceKey> = made_up.map(|s| s.key).collect();
    let all_of_it = sought.all || holder.class == AuthorityClass::Named;
    let wanted = |key| all_of_it || lacking.contains(&key) || made_up.contains(&key);
    let strays = rescued.strays(&wanted, sought.watch.interrupt)?;
    let known = strays.iter().filter(|s| !s.is_made_up);
    let known = known.map(|s| s.conversation.clone()).collect();
    let sources = rescued.sources_of(&known)?;
    for stray in strays {
        let lacks = |m: &Missing| m.conversation == stray.conversation;
        if !stray.is_made_up && !all_of_it && !missing.iter().any(lacks) {
            continue;
        }
        if let Some(files) = sources.get(&stray.conversation)
            && is_read_again(files, sought)?
        {
            continue;
        }
        let name = (stray.provider, stray.native_id);
        names.entry(stray.conversation.clone()).or_insert(name);
        // Two copies of one archive have the same ones.
        let most = all.entry(stray.conversation).or_insert(0);
        *most = (*most).max(stray.records + stray.messages);
    }
    Ok(())
}

/// Whether the next index reads every file, and it still begins with what was read of it.
fn is_read_again(files: &[ArchivedSource], sought: &Sought<'_>) -> Result<bool> {
    for file in files {
        let is_read = sought
            .reach
            .reads(&file.source_id, file.provider, &file.path);
        if !is_read || left(file, None, sought.watch.interrupt)? != Left::All {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Names conversations that no row names, by the files that they were read from: the id is the hash of
/// machine, harness and native id, so a guess that gives it is right.
pub(super) fn by_path(
    root: &Root,
    missing: &[Missing],
    brought: &BTreeMap<String, Vec<Brought>>,
    names: &mut Names,
) -> Result<()> {
    let nameless = |names: &Names| missing.iter().any(|m| !names.contains_key(&m.conversation));
    if !nameless(names) {
        return Ok(());
    }
    let Some(mirror) = MirrorReader::open(root)? else {
        return Ok(());
    };
    for m in missing {
        if names.contains_key(&m.conversation) {
            continue;
        }
        for b in brought.get(&m.conversation).into_iter().flatten() {
            let Some(head) = mirror.head(b.key)? else {
                continue;
            };
            let ident = head.ident;
            let guess = guesses(&ident.path).into_iter().find(|native| {
                conversation_id(&ident.source_id, ident.provider, native) == m.conversation
            });
            if let Some(native) = guess {
                names.insert(m.conversation.clone(), (ident.provider, native));
                break;
            }
        }
    }
    Ok(())
}

fn guesses(path: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for part in [path.file_stem(), path.parent().and_then(Path::file_name)] {
        let Some(text) = part.and_then(|p| p.to_str()) else {
            continue;
        };
        all.push(text.to_owned());
        let tail = text.len().checked_sub(UUID).and_then(|at| text.get(at..));
        all.extend(tail.map(str::to_owned));
    }
    all
}
