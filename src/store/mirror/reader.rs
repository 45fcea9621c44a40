//! Reading the mirror without a trace.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::content::{ContentReader, Placed};
use super::index::{Index, SourceRow};
use super::pack::{self, Loc, Packs};
use super::recipe::{self, Segment};
use super::survey::{self, Format, PackScan};
use super::types::{CaptureLine, Head, MirrorProblem, ProblemKind, SourceIdent, VerifySummary};
use super::verify;
use crate::disk::{ArchiveShared, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::source::SourceKey;
use crate::store::layout;

const STALE: ProblemKind = ProblemKind::IndexStale;
const WRONG: ProblemKind = ProblemKind::Index;

/// How long a reader waits for a checkpoint to end.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads a mirror. Holds the archive lock shared while it lives. The derived index makes it fast;
/// where that is missing, behind or damaged, packs and ledgers are read instead.
#[derive(Debug)]
pub struct MirrorReader<'r> {
    root: &'r Root,
    _lock: ArchiveShared,
    pub(super) format: Format,
    pub(super) packs: Packs<'r>,
    /// Number and length of each pack.
    pub(super) lens: Vec<(u32, u64)>,
    pub(super) index: Option<Index>,
    /// Why the index is not used, or not alone: it is missing or behind, or it is damaged.
    index_problem: RefCell<Option<(ProblemKind, String)>>,
    /// Objects behind what the index knows.
    newer: HashMap<Digest, Loc>,
    /// What the walks over the packs' unknown ends found.
    pub(super) tails: Vec<(u32, PackScan)>,
    /// The index is behind the packs, so heads come from the ledgers.
    pub(super) behind: bool,
    /// Packs of which the index knew more than there is.
    pub(super) lost: Vec<(u32, &'static str)>,
    /// All objects, found by walking all packs; made when the index fails.
    walked: OnceCell<HashMap<Digest, Loc>>,
}

impl<'r> MirrorReader<'r> {
    /// Opens the mirror below `root`; `None` when none was ever made.
    ///
    /// # Errors
    /// `mirror-too-new`, `lock-busy`, `io`.
    pub fn open(root: &'r Root) -> Result<Option<Self>> {
        let format = survey::format(root)?;
        let lock = ArchiveShared::acquire(root, PATIENCE)?;
        // Before the packs: what a running writer adds in between makes them longer than the index
        // says, never shorter.
        let blocked = survey::in_the_way(root)?;
        let index = match blocked.first() {
            None => Index::open_read(&root.full(layout::MIRROR_INDEX_DB)),
            Some(rel) => Err(Error::new(
                ErrorKind::UnsafeTarget,
                format!("{rel} is something else than the derived index"),
            )),
        };
        let lens = survey::packs(root, &mut |_| {})?;
        if format == Format::Absent
            && lens.is_empty()
            && root.list(layout::LEDGERS)?.is_none_or(|l| l.is_empty())
        {
            return Ok(None);
        }
        let mut reader = MirrorReader {
            root,
            _lock: lock,
            format,
            packs: Packs::new(root),
            lens,
            index: None,
            index_problem: RefCell::new(None),
            newer: HashMap::new(),
            tails: Vec::new(),
            behind: false,
            lost: Vec::new(),
            walked: OnceCell::new(),
        };
        match index {
            Ok(Some(index)) => reader.adopt(index)?,
            Ok(None) => reader.without_index(STALE, "the derived index is missing"),
            // One of another version is made again like one that is missing.
            Err(e) if e.kind() == ErrorKind::Unsupported => {
                reader.without_index(STALE, e.message())
            }
            Err(e) => reader.without_index(WRONG, e.message()),
        }
        Ok(Some(reader))
    }

    fn without_index(&mut self, kind: ProblemKind, why: &str) {
        self.index = None;
        self.behind = true;
        *self.index_problem.borrow_mut() = Some((kind, why.to_owned()));
    }

    /// Takes an index if it does not contradict the packs, and reads what it does not know yet.
    fn adopt(&mut self, index: Index) -> Result<()> {
        let rows = match index.packs() {
            Ok(rows) => rows,
            Err(e) => {
                self.without_index(WRONG, e.message());
                return Ok(());
            }
        };
        for row in &rows {
            match self.lens.iter().find(|(n, _)| *n == row.n) {
                None => self.lost.push((row.n, "the pack is missing")),
                Some((_, len)) if *len < row.file_len => {
                    self.lost.push((row.n, "the pack is shorter than it was"));
                }
                Some(_) => {}
            }
        }
        if !self.lost.is_empty() {
            self.without_index(
                STALE,
                "the derived index knows packs that are missing or were longer",
            );
            return Ok(());
        }
        for (n, len) in &self.lens {
            let row = rows.iter().find(|r| r.n == *n);
            if row.is_some_and(|r| r.file_len == *len) {
                continue;
            }
            let from = row.map_or(0, |r| r.verified_len);
            let newer = &mut self.newer;
            let scan = survey::scan_pack(self.root, *n, from, *len, &mut |digest, loc| {
                newer.insert(*digest, loc);
                Ok(())
            })?;
            self.behind = true;
            self.tails.push((*n, scan));
        }
        if self.behind {
            *self.index_problem.borrow_mut() =
                Some((STALE, "the derived index is behind the packs".to_owned()));
        } else if rows.is_empty() && !survey::ledgers(self.root, &mut |_| {})?.is_empty() {
            self.without_index(STALE, "the derived index is empty");
            return Ok(());
        }
        self.index = Some(index);
        Ok(())
    }

    /// Why the derived index is not used, or not alone: answers then come from packs and ledgers.
    #[must_use]
    pub fn index_problem(&self) -> Option<String> {
        self.index_fault().map(|(_, why)| why)
    }

    /// Why the derived index says something that packs and ledgers don't; `None` when it is sound,
    /// missing or merely behind, which the next writer mends by itself.
    #[must_use]
    pub fn index_damage(&self) -> Option<String> {
        self.index_fault()
            .filter(|(kind, _)| *kind == WRONG)
            .map(|(_, why)| why)
    }

    pub(super) fn index_fault(&self) -> Option<(ProblemKind, String)> {
        self.index_problem.borrow().clone()
    }

    pub(super) fn root(&self) -> &'r Root {
        self.root
    }

    /// Every object of every pack, by walking them.
    fn walk(&self) -> Result<&HashMap<Digest, Loc>> {
        if let Some(all) = self.walked.get() {
            return Ok(all);
        }
        let mut all = HashMap::new();
        for (n, len) in &self.lens {
            let scan = survey::scan_pack(self.root, *n, 0, *len, &mut |digest, loc| {
                all.insert(*digest, loc);
                Ok(())
            })?;
            // Behind the last commit record only what a ledger promises is asked for.
            all.extend(scan.leftover);
        }
        Ok(self.walked.get_or_init(|| all))
    }

    /// Where the index says an object lies, if that is so.
    pub(super) fn find_known(&self, digest: &Digest) -> Result<Option<Loc>> {
        match &self.index {
            Some(index) if self.walked.get().is_none() => match self.newer.get(digest) {
                Some(loc) => Ok(Some(*loc)),
                None => index.object(digest).or_else(|_| self.find(digest)),
            },
            _ => self.find(digest),
        }
    }

    /// Where an object lies. Only a walk over all packs can say that it is nowhere.
    pub(super) fn find(&self, digest: &Digest) -> Result<Option<Loc>> {
        if let Some(loc) = self.newer.get(digest) {
            return Ok(Some(*loc));
        }
        if let Some(index) = &self.index {
            match index.object(digest) {
                Ok(Some(loc)) if self.packs.names(digest, &loc)? => return Ok(Some(loc)),
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => {
                    *self.index_problem.borrow_mut() = Some((WRONG, e.message().to_owned()));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(self.walk()?.get(digest).copied())
    }

    fn load(&self, digest: &Digest) -> Result<Vec<u8>> {
        let loc = self.find(digest)?.ok_or_else(|| pack::missing(digest))?;
        self.packs.read(digest, &loc)
    }

    pub(super) fn pieces(&self, recipe: Digest, len: u64) -> Result<Vec<Segment>> {
        recipe::resolve(&recipe, len, &mut |digest| self.load(digest))
    }

    /// The rows of the index, or what follows from the ledgers.
    fn rows(&self, each: &mut dyn FnMut(SourceRow) -> Result<()>) -> Result<()> {
        let mut after = None;
        if let Some(index) = &self.index
            && !self.behind
        {
            let mut stopped = false;
            let read = index.for_each_source(&mut |row| {
                after = Some(row.head.ident.key);
                each(row).inspect_err(|_| stopped = true)
            });
            match read {
                Err(e) if e.kind() == ErrorKind::ArchiveCorrupt && !stopped => {
                    *self.index_problem.borrow_mut() = Some((WRONG, e.message().to_owned()));
                }
                other => return other,
            }
        }
        for key in survey::ledgers(self.root, &mut |_| {})? {
            if after.is_some_and(|a| key <= a) {
                continue;
            }
            if let Some(row) = self.ledger_row(key)? {
                each(row)?;
            }
        }
        Ok(())
    }

    fn ledger_row(&self, key: SourceKey) -> Result<Option<SourceRow>> {
        Ok(survey::ledger(self.root, key, &mut |_| Ok(()))?.and_then(|state| state.row()))
    }

    /// Bytes that the packs take on disk: all versions of everything.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.lens.iter().map(|(_, len)| len).sum()
    }

    /// Every source's newest capture, by key.
    ///
    /// # Errors
    /// `io`, or what `each` returns.
    pub fn for_each_head(&self, each: &mut dyn FnMut(Head) -> Result<()>) -> Result<()> {
        self.rows(&mut |row| each(row.head))
    }

    /// The newest capture of a source.
    ///
    /// # Errors
    /// `io`.
    pub fn head(&self, key: SourceKey) -> Result<Option<Head>> {
        let len = self.root.file_len(&layout::ledger(key))?;
        if let Some(index) = &self.index
            && let Ok(Some(row)) = index.source(key)
            && len == Some(row.ledger_len)
        {
            return Ok(Some(row.head));
        }
        Ok(self.ledger_row(key)?.map(|row| row.head))
    }

    /// As [`MirrorReader::head`], by the word of the derived index where that is complete, as
    /// [`MirrorReader::for_each_head`] takes it: no ledger is looked at, so many can be asked for.
    ///
    /// # Errors
    /// `io`.
    pub fn indexed_head(&self, key: SourceKey) -> Result<Option<Head>> {
        if let Some(index) = &self.index
            && !self.behind
            && let Ok(row) = index.source(key)
        {
            return Ok(row.map(|row| row.head));
        }
        Ok(self.ledger_row(key)?.map(|row| row.head))
    }

    /// A reader of what was written since this one was opened; `None` when the packs are as they
    /// were. Ledgers are read as they are now, so beside a writer one may promise what only a newer
    /// reader finds.
    ///
    /// # Errors
    /// As [`MirrorReader::open`].
    pub fn newer(&self) -> Result<Option<Self>> {
        if survey::packs(self.root, &mut |_| {})? == self.lens {
            return Ok(None);
        }
        MirrorReader::open(self.root)
    }

    /// The sources captured from `path`.
    ///
    /// # Errors
    /// `io`.
    pub fn resolve_path(&self, path: &Path) -> Result<Vec<SourceIdent>> {
        let mut found = Vec::new();
        self.for_each_head(&mut |head| {
            if head.ident.path == path {
                found.push(head.ident);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The captures of a source, oldest first; damaged lines of its ledger are left out.
    ///
    /// # Errors
    /// `io`, or what `each` returns.
    pub fn captures(
        &self,
        key: SourceKey,
        each: &mut dyn FnMut(CaptureLine) -> Result<()>,
    ) -> Result<()> {
        survey::ledger(self.root, key, &mut |line| each(line.clone())).map(drop)
    }

    /// One capture of a source.
    ///
    /// # Errors
    /// `io`.
    pub fn capture(&self, key: SourceKey, seq: u64) -> Result<Option<CaptureLine>> {
        let mut found = None;
        self.captures(key, &mut |line| {
            if line.seq == seq {
                found = Some(line);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// The content of a recipe; every object is checked as it is read.
    ///
    /// # Errors
    /// `verify-failed` names object, pack and offset; `io`.
    pub fn open_content(&self, recipe: Digest, len: u64) -> Result<ContentReader<'r>> {
        let pieces = self.pieces(recipe, len)?;
        Ok(ContentReader::new(self.root, self.place(&pieces)?))
    }

    pub(super) fn place(&self, pieces: &[Segment]) -> Result<Vec<Placed>> {
        let mut placed: Vec<Placed> = Vec::with_capacity(pieces.len());
        for segment in pieces {
            let loc = match placed.last() {
                Some(last) if last.segment.object == segment.object => last.loc,
                _ => self
                    .find(&segment.object)?
                    .ok_or_else(|| pack::missing(&segment.object))?,
            };
            placed.push(Placed {
                segment: *segment,
                loc,
            });
        }
        Ok(placed)
    }

    /// Looks for damage. Without `deep`: names and lengths of packs, chains of ledgers, and
    /// whether every promised recipe is there. With `deep`: every record of every pack, every
    /// promised content, and the derived index against both. `deadline` says when time is up.
    ///
    /// # Errors
    /// `io` only when the mirror can't be read at all; damage goes to `on_problem`.
    pub fn verify(
        &self,
        deep: bool,
        deadline: &mut dyn FnMut() -> bool,
        on_problem: &mut dyn FnMut(MirrorProblem),
    ) -> Result<VerifySummary> {
        verify::run(self, deep, deadline, on_problem)
    }
}
