//! Opening for writing: brings the derived index up to packs and ledgers, and clears up after a
//! writer that was killed. Only bytes that nothing promises are ever cut.

use std::collections::BTreeSet;

use super::index::{Index, PackRow};
use super::pack::{PACK_HEADER, PACK_TARGET};
use super::store::{Store, remove_index};
use super::survey::{self, FORMAT_TEXT, Format, HeaderState, PackScan, problem};
use super::types::{MirrorProblem, ProblemKind, StatGate};
use crate::disk::Capture;
use crate::error::{ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::source::SourceKey;
use crate::store::layout;

/// A store over a mirror that is in order, and what was found on the way.
pub(super) fn open<'l>(cap: Capture<'l>) -> Result<(Store<'l>, Vec<MirrorProblem>)> {
    let mut problems = Vec::new();
    let format = survey::format(cap.root())?;
    for rel in survey::in_the_way(cap.root())? {
        let aside = cap.set_aside(&rel)?;
        problems.push(problem(
            ProblemKind::Stray,
            &*rel,
            None,
            format!("something else had the place of the derived index; it is now {aside}"),
        ));
    }
    for dir in [layout::PACKS, layout::LEDGERS, layout::MIRROR_INDEX] {
        cap.create_dir(dir)?;
    }
    let packs = survey::packs(cap.root(), &mut |_| {})?;
    match format {
        Format::Ours => {}
        // Killed between the folders and this file, or lost: the packs' own headers have the
        // version too.
        Format::Absent if packs.is_empty() => cap.create_new(layout::MIRROR_FORMAT, FORMAT_TEXT)?,
        Format::Absent | Format::Damaged => {
            problems.push(problem(
                ProblemKind::Format,
                layout::MIRROR_FORMAT,
                None,
                "the format file was missing or damaged; it was written again",
            ));
            cap.replace(layout::MIRROR_FORMAT, FORMAT_TEXT)?;
        }
    }
    let index = match refresh(&cap, &packs, false, &mut problems) {
        Ok(Some(index)) => index,
        Ok(None) => again(&cap, &packs, &mut problems)?,
        Err(e) if unusable(e.kind()) => again(&cap, &packs, &mut problems)?,
        Err(e) => return Err(e),
    };
    // A ledger that was lost leaves the index speaking of captures that nothing promises.
    let there = u64::try_from(survey::ledgers(cap.root(), &mut |_| {})?.len()).unwrap_or(0);
    let known = match index.source_count() {
        Err(e) if unusable(e.kind()) => u64::MAX,
        other => other?,
    };
    let index = if known == u64::MAX {
        drop(index);
        again(&cap, &packs, &mut problems)?
    } else if there < known {
        problems.push(problem(
            ProblemKind::Ledger,
            layout::LEDGERS,
            None,
            format!(
                "{} of {known} ledgers are gone; what their sources still hold is captured again",
                known - there
            ),
        ));
        drop(index);
        again(&cap, &packs, &mut problems)?
    } else {
        index
    };
    let newest = survey::newest_sound(cap.root(), &packs)?;
    let mut next = newest.saturating_add(1);
    // A link, a folder or a pack with a wrong name may have it.
    while cap.root().exists(&layout::pack(next))? {
        next = next.saturating_add(1);
    }
    let reuse = index
        .packs()?
        .iter()
        .find(|row| !row.closed && row.n == newest && next == newest.saturating_add(1))
        .map(|row| row.n);
    Ok((Store::new(cap, index, reuse, next), problems))
}

/// Whether an error says that the index itself is no good, rather than the disk.
fn unusable(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::NoSpace
            | ErrorKind::PermissionDenied
            | ErrorKind::LockBusy
            | ErrorKind::MirrorTooNew
            | ErrorKind::Io
    )
}

fn again(
    cap: &Capture<'_>,
    packs: &[(u32, u64)],
    problems: &mut Vec<MirrorProblem>,
) -> Result<Index> {
    problems.push(problem(
        ProblemKind::IndexStale,
        layout::MIRROR_INDEX_DB,
        None,
        "the derived index was made again from packs and ledgers",
    ));
    remove_index(cap)?;
    refresh(cap, packs, true, problems)?.ok_or_else(|| {
        crate::error::Error::new(ErrorKind::Internal, "a new index is older than the packs")
    })
}

/// The index, brought up to date; `None` when it says more than there is and must be made again.
fn refresh(
    cap: &Capture<'_>,
    packs: &[(u32, u64)],
    new: bool,
    problems: &mut Vec<MirrorProblem>,
) -> Result<Option<Index>> {
    let root = cap.root();
    let missing = !root.exists(layout::MIRROR_INDEX_DB)?;
    let index = Index::open_write(&root.full(layout::MIRROR_INDEX_DB))?;
    if missing {
        cap.sync_dir(layout::MIRROR_INDEX)?;
    }
    let rows = index.packs()?;
    let mut stale = Vec::new();
    for (n, len) in packs {
        match rows.iter().find(|r| r.n == *n) {
            Some(row) if *len < row.file_len => return Ok(None),
            Some(row) if *len == row.file_len => {}
            Some(row) => stale.push((*n, *len, row.verified_len, row.closed)),
            None => stale.push((*n, *len, 0, false)),
        }
    }
    if rows.iter().any(|r| !packs.iter().any(|(n, _)| *n == r.n)) {
        return Ok(None);
    }
    // Every batch that writes a ledger makes a pack longer, so without a longer pack no ledger
    // needs a look.
    if stale.is_empty() && !rows.is_empty() {
        return Ok(Some(index));
    }
    let mut found = Vec::new();
    index.begin()?;
    let mut catch_up = || -> Result<()> {
        let mut scans = Vec::new();
        for (n, len, from, closed) in &stale {
            // What a killed writer left may not be on the disk yet.
            cap.append(&layout::pack(*n))?.0.sync()?;
            let scan = survey::scan_pack(root, *n, *from, *len, &mut |d, loc| {
                index.put_object(d, &loc)
            })?;
            scans.push((*n, *len, *closed, scan));
        }
        if !stale.is_empty() {
            cap.sync_dir(layout::PACKS)?;
        }
        let leftover: BTreeSet<Digest> = scans
            .iter()
            .flat_map(|s| s.3.leftover.iter().map(|(d, _)| *d))
            .collect();
        let promised = ledgers(cap, &index, &leftover, &mut found)?;
        let newest = packs.last().map_or(0, |p| p.0);
        for (n, len, closed, scan) in &scans {
            tail(
                cap,
                &index,
                *n,
                *len,
                *closed || *n != newest,
                promised,
                scan,
                &mut found,
            )?;
        }
        gaps(packs, &mut found);
        if found.iter().any(|p: &MirrorProblem| !p.kind.harmless()) {
            forget_gates(&index)?;
        }
        Ok(())
    };
    catch_up()?;
    index.commit()?;
    if !new && missing && !packs.is_empty() {
        found.push(problem(
            ProblemKind::IndexStale,
            layout::MIRROR_INDEX_DB,
            None,
            "the derived index was missing and was made again",
        ));
    }
    problems.append(&mut found);
    Ok(Some(index))
}

fn gaps(packs: &[(u32, u64)], found: &mut Vec<MirrorProblem>) {
    let mut expected = 1;
    for (n, _) in packs {
        survey::gap(expected, *n, &mut |p| found.push(p));
        expected = n.saturating_add(1);
    }
}

/// Decides what becomes of the end of a pack, and writes its row.
#[allow(clippy::too_many_arguments)] // one decision, all its grounds
fn tail(
    cap: &Capture<'_>,
    index: &Index,
    n: u32,
    len: u64,
    closed: bool,
    promised: bool,
    scan: &PackScan,
    found: &mut Vec<MirrorProblem>,
) -> Result<()> {
    let rel = layout::pack(n);
    let sound = !scan.damage_inside && scan.header != HeaderState::Foreign;
    let whole = sound && scan.committed == len && scan.header == HeaderState::Whole;
    if whole {
        return index.put_pack(&PackRow {
            n,
            verified_len: len,
            file_len: len,
            closed: closed || len >= PACK_TARGET,
        });
    }
    // With a torn header nothing of the pack was ever synced, unless a batch in it was ended.
    let begun = scan.committed > PACK_HEADER;
    let torn_header = scan.header == HeaderState::Torn;
    let cuttable = sound && !(torn_header && begun);
    if cuttable && !closed && !promised {
        let keep = if torn_header { 0 } else { scan.committed };
        cap.drop_torn_tail(&rel, keep)?;
        found.push(problem(
            ProblemKind::TornPack,
            &*rel,
            Some(keep),
            format!(
                "{} bytes that nothing promises were dropped after a crash",
                len - keep
            ),
        ));
        return index.put_pack(&PackRow {
            n,
            verified_len: keep,
            file_len: keep,
            closed: keep >= PACK_TARGET,
        });
    }
    for (digest, loc) in &scan.leftover {
        index.put_object(digest, loc)?;
    }
    if scan.header != HeaderState::Whole {
        found.push(problem(
            ProblemKind::Pack,
            &*rel,
            Some(0),
            "the pack's header is damaged",
        ));
    }
    for (from, to) in &scan.damage {
        found.push(problem(
            ProblemKind::Object,
            &*rel,
            Some(*from),
            format!("{} bytes are damaged; they are kept as they are", to - from),
        ));
    }
    if scan.damage.is_empty() && scan.committed < len {
        found.push(problem(
            ProblemKind::Pack,
            &*rel,
            Some(scan.committed),
            "the last batch has no commit record, and a ledger may promise it; it is kept",
        ));
    }
    index.put_pack(&PackRow {
        n,
        verified_len: len,
        file_len: len,
        closed: true,
    })
}

/// Brings the heads up to the ledgers. Returns whether a promise stands that is not met by an
/// ended batch, so that no tail may be cut.
fn ledgers(
    cap: &Capture<'_>,
    index: &Index,
    leftover: &BTreeSet<Digest>,
    found: &mut Vec<MirrorProblem>,
) -> Result<bool> {
    let root = cap.root();
    let mut promised = false;
    let keys = survey::ledgers(root, &mut |_| {})?;
    for key in &keys {
        let rel = layout::ledger(*key);
        let known = index.source(*key)?;
        if known
            .as_ref()
            .is_some_and(|row| root.file_len(&rel).is_ok_and(|l| l == Some(row.ledger_len)))
        {
            continue;
        }
        promised |= catch_up_ledger(cap, index, *key, leftover, found)?;
    }
    let mut gone = Vec::new();
    index.for_each_source(&mut |row| {
        if keys.binary_search(&row.head.ident.key).is_err() {
            gone.push(row.head.ident.key);
        }
        Ok(())
    })?;
    for key in gone {
        index.remove_source(key)?;
        found.push(problem(
            ProblemKind::Ledger,
            layout::ledger(key),
            None,
            "the ledger is gone",
        ));
    }
    Ok(promised)
}

/// Reads one ledger again and writes its row; drops a last line without its end.
pub(super) fn catch_up_ledger(
    cap: &Capture<'_>,
    index: &Index,
    key: SourceKey,
    leftover: &BTreeSet<Digest>,
    found: &mut Vec<MirrorProblem>,
) -> Result<bool> {
    let rel = layout::ledger(key);
    let known = index.source(key)?;
    let known_seq = known.as_ref().map_or(0, |row| row.head.seq);
    let mut promised = false;
    let mut newest_missing = false;
    let state = survey::ledger(cap.root(), key, &mut |line| {
        newest_missing = false;
        if line.seq > known_seq || known.is_none() {
            for recipe in std::iter::once(&line.recipe).chain(line.group.iter().map(|m| &m.recipe))
            {
                if index.object(recipe)?.is_none() {
                    promised = true;
                    newest_missing = !leftover.contains(recipe);
                    if newest_missing {
                        let mut p = problem(
                            ProblemKind::Promise,
                            &*rel,
                            None,
                            "a promised recipe is in no pack",
                        );
                        p.capture = Some((key, line.seq));
                        p.object = Some(*recipe);
                        found.push(p);
                    }
                }
            }
        }
        Ok(())
    })?;
    let Some(state) = state else {
        index.remove_source(key)?;
        return Ok(promised);
    };
    cap.append(&rel)?.0.sync()?;
    if state.end.torn > 0 {
        cap.drop_torn_tail(&rel, state.end.whole_len)?;
        found.push(problem(
            ProblemKind::TornLedger,
            &*rel,
            Some(state.end.whole_len),
            "a line without its end was dropped after a crash",
        ));
    }
    for (offset, why) in &state.damage {
        let mut p = problem(ProblemKind::Ledger, &*rel, Some(*offset), *why);
        p.capture = Some((key, 0));
        found.push(p);
    }
    match state.row() {
        Some(mut row) => {
            if newest_missing {
                row.head.gate = StatGate::default();
            } else if let Some(known) = known
                && known.head.seq == row.head.seq
                && known.head.hash == row.head.hash
            {
                row.head.gate = known.head.gate;
            }
            index.put_source(&row)?;
        }
        None => index.remove_source(key)?,
    }
    Ok(promised)
}

/// Makes every source be read again by the next index run: what is damaged may be healed by it.
fn forget_gates(index: &Index) -> Result<()> {
    let mut after = None;
    loop {
        let mut some = Vec::new();
        index.for_sources_after(after, 1000, &mut |row| {
            some.push(row);
            Ok(())
        })?;
        let Some(last) = some.last() else {
            return Ok(());
        };
        after = Some(last.head.ident.key);
        for mut row in some {
            row.head.gate = StatGate::default();
            index.put_source(&row)?;
        }
    }
}
