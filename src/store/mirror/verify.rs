//! Looking for damage: promises first, then every byte.

use std::collections::{HashMap, HashSet};

use rayon::prelude::*;

use super::content::Placed;
use super::index::{PackRow, SourceRow};
use super::pack::{self, Event, Loc, PACK_HEADER, PACK_TARGET, Walk};
use super::reader::MirrorReader;
use super::recipe::Segment;
use super::record;
use super::survey::{self, Format, HeaderState, problem};
use super::types::{CaptureLine, MirrorProblem, ProblemKind, VerifySummary};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::source::SourceKey;
use crate::store::layout;

/// Plain bytes of objects that are read and checked at once.
const AT_ONCE: u64 = 8 << 20;
/// Objects whose place is remembered as checked; beyond that some are checked twice.
const REMEMBERED: usize = 4 << 20;

struct Run<'v, 'r> {
    reader: &'v MirrorReader<'r>,
    deadline: &'v mut dyn FnMut() -> bool,
    on_problem: &'v mut dyn FnMut(MirrorProblem),
    summary: VerifySummary,
    /// Pack and offset of objects that were read, decompressed and compared with their name.
    checked: HashSet<(u32, u64)>,
    /// A promise is not met, so no tail can be called torn.
    unmet: bool,
    /// The end of the last object of the newest pack that a promise needs.
    needed: u64,
}

pub(super) fn run(
    reader: &MirrorReader<'_>,
    deep: bool,
    deadline: &mut dyn FnMut() -> bool,
    on_problem: &mut dyn FnMut(MirrorProblem),
) -> Result<VerifySummary> {
    let mut run = Run {
        reader,
        deadline,
        on_problem,
        summary: VerifySummary::default(),
        checked: HashSet::new(),
        unmet: false,
        needed: 0,
    };
    run.summary.complete = run.structure(deep)? && (!deep || run.packs()?);
    Ok(run.summary)
}

impl Run<'_, '_> {
    fn report(&mut self, found: MirrorProblem) {
        self.summary.problems += 1;
        (self.on_problem)(found);
    }

    /// `false` when time is up.
    fn structure(&mut self, deep: bool) -> Result<bool> {
        let root = self.reader.root();
        if self.reader.format != Format::Ours {
            let say = "the format file is missing or damaged";
            self.report(problem(
                ProblemKind::Format,
                layout::MIRROR_FORMAT,
                None,
                say,
            ));
        }
        let mut strays = Vec::new();
        survey::packs(root, &mut |s| strays.push(s))?;
        let keys = survey::ledgers(root, &mut |s| strays.push(s))?;
        survey::beside(root, &mut |s| strays.push(s))?;
        for file in strays {
            self.report(problem(
                ProblemKind::Stray,
                file,
                None,
                "this does not belong to the mirror",
            ));
        }
        self.pack_files()?;
        for key in &keys {
            if (self.deadline)() {
                return Ok(false);
            }
            if !self.ledger(*key, deep)? {
                return Ok(false);
            }
        }
        self.heads(&keys)?;
        // Harmless only if every promise was met without what lies there.
        for (n, scan) in &self.reader.tails {
            let behind = self
                .reader
                .lens
                .iter()
                .find(|l| l.0 == *n)
                .map_or(0, |l| l.1);
            if !deep && (scan.committed < behind || !scan.damage.is_empty()) {
                self.tail(*n, scan.committed, behind, scan.damage_inside);
            }
        }
        if let Some((kind, why)) = self.reader.index_fault() {
            self.report(problem(kind, layout::MIRROR_INDEX_DB, None, why));
        }
        Ok(true)
    }

    fn need(&mut self, loc: &Loc) {
        if self.reader.lens.last().is_some_and(|l| l.0 == loc.pack) {
            let end = loc.offset + record::HEADER as u64 + u64::from(loc.stored_len);
            self.needed = self.needed.max(end);
        }
    }

    fn tail(&mut self, n: u32, from: u64, to: u64, inside: bool) {
        let newest = self.reader.lens.last().is_some_and(|l| l.0 == n);
        let rel = layout::pack(n);
        let found = if newest && !inside && !self.unmet && self.needed <= from {
            problem(
                ProblemKind::TornPack,
                rel,
                Some(from),
                format!(
                    "{} bytes that nothing promises, left by a crash or a running writer",
                    to.saturating_sub(from)
                ),
            )
        } else {
            problem(
                ProblemKind::Pack,
                rel,
                Some(from),
                "bytes that belong to no ended batch",
            )
        };
        self.report(found);
    }

    fn pack_files(&mut self) -> Result<()> {
        let reader = self.reader;
        let mut expected = 1;
        for (n, len) in &reader.lens {
            self.summary.packs += 1;
            survey::gap(expected, *n, &mut |p| self.report(p));
            expected = n.saturating_add(1);
            let newest = reader.lens.last().is_some_and(|l| l.0 == *n);
            let rel = layout::pack(*n);
            let scan = survey::scan_pack(
                reader.root(),
                *n,
                0,
                (*len).min(PACK_HEADER),
                &mut |_, _| Ok(()),
            )?;
            match scan.header {
                HeaderState::Whole => {}
                HeaderState::Torn if newest && *len <= PACK_HEADER => {
                    self.report(problem(
                        ProblemKind::TornPack,
                        rel,
                        Some(0),
                        "a pack that was just begun",
                    ));
                }
                _ => self.report(problem(
                    ProblemKind::Pack,
                    rel,
                    Some(0),
                    "the pack's header is damaged",
                )),
            }
        }
        for (n, why) in &reader.lost {
            // A gap in the numbers was reported above.
            if *n >= expected || reader.lens.iter().any(|l| l.0 == *n) {
                self.report(problem(ProblemKind::Pack, layout::pack(*n), None, *why));
            }
        }
        Ok(())
    }

    fn ledger(&mut self, key: SourceKey, deep: bool) -> Result<bool> {
        let reader = self.reader;
        let rel = layout::ledger(key);
        self.summary.sources += 1;
        let mut chain = Chain::default();
        let mut in_time = true;
        let state = survey::ledger(reader.root(), key, &mut |line| {
            self.summary.captures += 1;
            if in_time {
                in_time = self.promise(key, line, deep, &mut chain)?;
            }
            Ok(())
        })?;
        let Some(state) = state else {
            return Ok(true);
        };
        self.summary.bytes += state.end.whole_len;
        for (offset, why) in &state.damage {
            let mut p = problem(ProblemKind::Ledger, &*rel, Some(*offset), *why);
            p.capture = Some((key, 0));
            self.report(p);
        }
        if state.end.torn > 0 {
            let say = "a line without its end, left by a crash or a running writer";
            self.report(problem(
                ProblemKind::TornLedger,
                &*rel,
                Some(state.end.whole_len),
                say,
            ));
        }
        self.compare_head(key, &rel, &state);
        Ok(in_time)
    }

    fn compare_head(&mut self, key: SourceKey, rel: &str, state: &survey::LedgerState) {
        let Some(index) = &self.reader.index else {
            return;
        };
        let row = match index.source(key) {
            Ok(row) => row,
            Err(e) => {
                self.report(problem(
                    ProblemKind::Index,
                    layout::MIRROR_INDEX_DB,
                    None,
                    e.message(),
                ));
                return;
            }
        };
        let known_len = row.as_ref().map_or(0, |r| r.ledger_len);
        if state.end.whole_len < known_len {
            let mut p = problem(
                ProblemKind::Ledger,
                rel,
                Some(state.end.whole_len),
                "lines at its end are gone",
            );
            p.capture = Some((key, 0));
            self.report(p);
        } else if !self.reader.behind && state.damage.is_empty() {
            let agrees = |a: &SourceRow, b: &SourceRow| {
                let fixed = |r: &SourceRow| {
                    let h = &r.head;
                    (
                        h.seq,
                        h.recipe,
                        h.len,
                        h.hash,
                        h.ident.clone(),
                        r.grouped,
                        r.line_hash,
                        r.ledger_len,
                    )
                };
                fixed(a) == fixed(b)
            };
            let same = match (&row, state.row()) {
                (Some(a), Some(b)) => agrees(a, &b),
                (None, None) => true,
                _ => false,
            };
            let newer = state.end.whole_len > known_len && self.moved_on().unwrap_or(false);
            if !same && !newer {
                let mut p = problem(
                    ProblemKind::Index,
                    layout::MIRROR_INDEX_DB,
                    None,
                    "the derived index and a ledger disagree about its newest capture",
                );
                p.capture = Some((key, 0));
                self.report(p);
            }
        }
    }

    /// Sources that the index knows and that have no ledger.
    fn heads(&mut self, keys: &[SourceKey]) -> Result<()> {
        let Some(index) = &self.reader.index else {
            return Ok(());
        };
        let mut gone = Vec::new();
        let read = index.for_each_source(&mut |row| {
            let key = row.head.ident.key;
            if keys.binary_search(&key).is_err() {
                gone.push(key);
            }
            Ok(())
        });
        if let Err(e) = read {
            self.report(problem(
                ProblemKind::Index,
                layout::MIRROR_INDEX_DB,
                None,
                e.message(),
            ));
        }
        for key in gone {
            let mut p = problem(
                ProblemKind::Ledger,
                layout::ledger(key),
                None,
                "the ledger is gone",
            );
            p.capture = Some((key, 0));
            self.report(p);
        }
        Ok(())
    }

    /// One promise; `false` when time is up.
    fn promise(
        &mut self,
        key: SourceKey,
        line: &CaptureLine,
        deep: bool,
        chain: &mut Chain,
    ) -> Result<bool> {
        let group = line.group.iter().map(|m| (m.recipe, m.len, m.hash));
        for (i, (recipe, len, hash)) in std::iter::once((line.recipe, line.len, line.hash))
            .chain(group)
            .enumerate()
        {
            let outcome = if deep {
                if (self.deadline)() {
                    return Ok(false);
                }
                let mut own = Chain::default();
                // The other files of a group are chains of their own; they are small.
                let chain = if i == 0 { &mut *chain } else { &mut own };
                match self.content(recipe, len, chain) {
                    Ok(found) if found == hash => Ok(()),
                    Ok(_) => Err(Error::new(
                        ErrorKind::VerifyFailed,
                        "the content is not what was promised",
                    )),
                    Err(e) => Err(e),
                }
            } else {
                match self.reader.find_known(&recipe)? {
                    Some(loc) => {
                        self.need(&loc);
                        Ok(())
                    }
                    None => Err(pack::missing(&recipe)),
                }
            };
            if let Err(e) = outcome {
                if e.kind() != ErrorKind::VerifyFailed {
                    return Err(e);
                }
                if self.moved_on()? && self.kept_since(recipe, len, hash)? {
                    continue;
                }
                self.unmet = true;
                let mut p = problem(
                    ProblemKind::Promise,
                    layout::ledger(key),
                    None,
                    format!("capture {} can't be given back: {}", line.seq, e.message()),
                );
                p.capture = Some((key, line.seq));
                p.object = e.context().get("object").and_then(|d| d.parse().ok());
                self.report(p);
            }
        }
        Ok(true)
    }

    /// Whether a writer has added to the packs since they were measured: what a ledger promises now
    /// may lie behind what is read here, and the index is older than both.
    fn moved_on(&self) -> Result<bool> {
        let now = survey::packs(self.reader.root(), &mut |_| {})?;
        Ok(now != self.reader.lens)
    }

    /// Whether a promise is kept as of now.
    fn kept_since(&self, recipe: Digest, len: u64, hash: Digest) -> Result<bool> {
        let Some(fresh) = MirrorReader::open(self.reader.root())? else {
            return Ok(false);
        };
        let Ok(mut content) = fresh.open_content(recipe, len) else {
            return Ok(false);
        };
        let mut hasher = blake3::Hasher::new();
        Ok(hasher.update_reader(&mut content).is_ok() && Digest::from(hasher.finalize()) == hash)
    }

    /// The hash of a content. Goes on from the previous version where that is its beginning.
    fn content(&mut self, recipe: Digest, len: u64, chain: &mut Chain) -> Result<Digest> {
        let pieces = self.reader.pieces(recipe, len)?;
        let from = match chain {
            Chain {
                pieces: before,
                hasher: Some(_),
            } if pieces.starts_with(before) => before.len(),
            _ => 0,
        };
        let mut hasher = match (&chain.hasher, from) {
            (Some(hasher), 1..) => hasher.clone(),
            _ => blake3::Hasher::new(),
        };
        chain.hasher = None;
        let placed = self.reader.place(&pieces[from..])?;
        let recipe = self.reader.find(&recipe)?;
        for loc in placed.iter().map(|p| &p.loc).chain(&recipe) {
            self.need(loc);
        }
        let mut rest = &placed[..];
        while !rest.is_empty() {
            let n = some_objects(rest);
            let (some, more) = rest.split_at(n);
            self.hash_some(some, &mut hasher)?;
            rest = more;
        }
        let hash = hasher.finalize().into();
        chain.hasher = Some(hasher);
        chain.pieces = pieces;
        Ok(hash)
    }

    fn hash_some(&mut self, some: &[Placed], hasher: &mut blake3::Hasher) -> Result<()> {
        let mut wanted: Vec<&Placed> = Vec::new();
        let mut places: HashMap<Digest, usize> = HashMap::new();
        for placed in some {
            places.entry(placed.segment.object).or_insert_with(|| {
                wanted.push(placed);
                wanted.len() - 1
            });
        }
        let packs = &self.reader.packs;
        let plains: Vec<Vec<u8>> = wanted
            .par_iter()
            .map(|placed| packs.read(&placed.segment.object, &placed.loc))
            .collect::<Result<_>>()?;
        for placed in &wanted {
            self.summary.bytes += u64::from(placed.loc.stored_len);
            if self.checked.len() < REMEMBERED {
                self.checked.insert((placed.loc.pack, placed.loc.offset));
            }
        }
        for placed in some {
            let segment = placed.segment;
            let plain = places.get(&segment.object).and_then(|i| plains.get(*i));
            let from = usize::try_from(segment.offset).unwrap_or(usize::MAX);
            let to = from.saturating_add(usize::try_from(segment.len).unwrap_or(usize::MAX));
            let part = plain.and_then(|p| p.get(from..to)).ok_or_else(|| {
                Error::new(
                    ErrorKind::VerifyFailed,
                    "an object is shorter than a recipe says",
                )
                .with_context("object", segment.object.to_hex())
            })?;
            hasher.update(part);
        }
        Ok(())
    }

    /// Every record of every pack, and the index against them; `false` when time is up.
    fn packs(&mut self) -> Result<bool> {
        let mut index = Compare::default();
        for (n, len) in self.reader.lens.clone() {
            if !self.pack(n, len, &mut index)? {
                return Ok(false);
            }
        }
        if let Some(open) = &self.reader.index {
            let sound = open
                .connection()
                .query_row("PRAGMA integrity_check(1)", [], |r| r.get::<_, String>(0))
                .is_ok_and(|answer| answer == "ok")
                && open.schema_is_ours().unwrap_or(false);
            let count = open.object_count();
            if !sound {
                index.wrong = Some("the derived index is damaged".to_owned());
            } else if index.wrong.is_none() && count.is_ok_and(|n| n != index.hits) {
                index.wrong =
                    Some("the derived index knows objects that are in no pack".to_owned());
            }
        }
        if let Some(why) = index.wrong {
            self.report(problem(
                ProblemKind::Index,
                layout::MIRROR_INDEX_DB,
                None,
                why,
            ));
        }
        Ok(true)
    }

    fn pack(&mut self, n: u32, len: u64, index: &mut Compare) -> Result<bool> {
        let reader = self.reader;
        let rel = layout::pack(n);
        let failed = |e| Error::io("read", &reader.root().full(&rel), e);
        let Some(file) = reader.root().open_file(&rel)? else {
            return Ok(true);
        };
        let mut walk = Walk::new(&file, PACK_HEADER.min(len), len);
        let mut committed = PACK_HEADER.min(len);
        let mut waiting = 0u64;
        let mut damage: Vec<(u64, u64)> = Vec::new();
        while let Some(event) = walk.next().map_err(failed)? {
            match event {
                Event::Record(header, offset) => {
                    self.summary.objects += 1;
                    self.summary.bytes += header.record_len();
                    waiting += 1;
                    if !self.checked.contains(&(n, offset))
                        && let Err(why) = record::open(&header, walk.record())
                    {
                        let mut p = problem(
                            ProblemKind::Object,
                            &*rel,
                            Some(offset),
                            format!("an object is damaged: {why}"),
                        );
                        p.object = Some(header.digest);
                        self.report(p);
                    }
                    let loc = Loc {
                        pack: n,
                        offset,
                        stored_len: header.stored_len,
                        plain_len: header.plain_len,
                        kind: header.kind,
                    };
                    index.object(reader, &header.digest, &loc);
                    if self.summary.objects.is_multiple_of(256) && (self.deadline)() {
                        return Ok(false);
                    }
                }
                Event::Commit { end, whole } => {
                    let inside = !damage.is_empty();
                    for (from, to) in damage.drain(..) {
                        self.damaged(n, &rel, from, to);
                    }
                    if !whole && !inside {
                        let say = "a commit record does not agree with its batch";
                        self.report(problem(
                            ProblemKind::Object,
                            &*rel,
                            Some(end.saturating_sub(record::COMMIT as u64)),
                            say,
                        ));
                    }
                    committed = end;
                    waiting = 0;
                }
                Event::Damage { from, to } => damage.push((from, to)),
            }
        }
        if damage.is_empty() && waiting == 0 {
            index.pack(reader, n, len);
            return Ok(true);
        }
        let newest = reader.lens.last().is_some_and(|l| l.0 == n);
        // What the index had seen committed was synced; it can't be torn.
        let seen = reader
            .index
            .as_ref()
            .and_then(|i| i.packs().ok())
            .is_some_and(|rows| rows.iter().any(|r| r.n == n && r.verified_len > committed));
        if newest && !self.unmet && !seen && self.needed <= committed {
            self.tail(n, committed, len, false);
        } else if damage.is_empty() {
            self.tail(n, committed, len, true);
        } else {
            for (from, to) in damage {
                self.damaged(n, &rel, from, to);
            }
        }
        Ok(true)
    }

    fn damaged(&mut self, n: u32, rel: &str, from: u64, to: u64) {
        let mut p = problem(
            ProblemKind::Object,
            rel,
            Some(from),
            format!("{} bytes are damaged", to - from),
        );
        p.object = self.reader.packs.name_at(n, from);
        self.report(p);
    }
}

/// The version before, as far as it was hashed.
#[derive(Default)]
struct Chain {
    pieces: Vec<Segment>,
    hasher: Option<blake3::Hasher>,
}

/// How many of the pieces to read at once.
fn some_objects(rest: &[Placed]) -> usize {
    let mut plain = 0u64;
    let mut last = None;
    for (i, placed) in rest.iter().enumerate() {
        if last != Some(placed.segment.object) {
            plain += u64::from(placed.loc.plain_len);
            last = Some(placed.segment.object);
        }
        if plain >= AT_ONCE && i > 0 {
            return i;
        }
    }
    rest.len()
}

/// The derived index against what the packs hold.
#[derive(Default)]
struct Compare {
    hits: u64,
    wrong: Option<String>,
}

impl Compare {
    /// The row of a pack that is whole up to its length.
    fn pack(&mut self, reader: &MirrorReader<'_>, n: u32, len: u64) {
        let Some(index) = &reader.index else {
            return;
        };
        let expected = PackRow {
            n,
            verified_len: len,
            file_len: len,
            closed: len >= PACK_TARGET,
        };
        match index.packs() {
            Ok(rows) => match rows.iter().find(|r| r.n == n) {
                // What a writer added since is read again.
                Some(row) if row.file_len < len && row.verified_len <= row.file_len => {}
                Some(row) if *row == expected => {}
                None if reader.behind => {}
                _ => self.wrong = Some(format!("the derived index has other lengths for pack {n}")),
            },
            Err(e) => self.wrong = Some(e.message().to_owned()),
        }
    }

    fn object(&mut self, reader: &MirrorReader<'_>, digest: &Digest, at: &Loc) {
        let Some(index) = &reader.index else {
            return;
        };
        match index.object(digest) {
            Ok(Some(loc)) if loc == *at => self.hits += 1,
            Ok(Some(loc)) if (loc.pack, loc.offset) == (at.pack, at.offset) => {
                self.hits += 1;
                self.wrong = Some(format!(
                    "the derived index has other lengths for object {digest}"
                ));
            }
            // Stored twice: the other record counts.
            Ok(Some(_)) => {}
            Ok(None) if reader.behind => {}
            Ok(None) => {
                self.wrong = Some(format!("the derived index does not know object {digest}"))
            }
            Err(e) => self.wrong = Some(e.message().to_owned()),
        }
    }
}
