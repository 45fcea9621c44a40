//! Objects on their way into the current pack, and all objects seen through the index.

use std::collections::HashMap;

use super::index::{Index, PackRow};
use super::pack::{self, Loc, PACK_HEADER, PACK_TARGET, Packs};
use super::record::{self, COMMIT, Kind, Sealed};
use super::survey::INDEX_SUFFIXES;
use crate::disk::{AppendFile, Capture};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::store::layout;

/// Bytes gathered before they are written to the pack.
const GATHER: usize = 1 << 20;
/// Stored bytes after which a batch is ended by itself.
pub(super) const BATCH_BYTES: u64 = 32 << 20;

/// What to do about an index that was removed.
pub(super) const RUN_AGAIN: &str = "The derived index was removed; run the command again.";

/// Why a store is of no use any more.
#[derive(Debug, Clone, Copy)]
enum GivenUp {
    WriteFailed,
    IndexRemoved,
}

/// The objects of a mirror, with one pack open for appending.
#[derive(Debug)]
pub(super) struct Store<'l> {
    pub cap: Capture<'l>,
    pub packs: Packs<'l>,
    pub index: Index,
    current: Option<Current>,
    reuse: Option<u32>,
    next: u32,
    /// Written behind the end of the current pack when it is long enough.
    gathered: Vec<u8>,
    /// Objects that are in the pack and not yet in the index.
    fresh: HashMap<Digest, Loc>,
    batch: Batch,
    given_up: Option<GivenUp>,
    /// Bytes ever put, records with their headers.
    pub stored: u64,
    /// Objects put although the index knew them: they were damaged.
    pub healed: u64,
}

#[derive(Debug)]
struct Current {
    n: u32,
    file: AppendFile,
    /// Its name is not durable yet.
    made: bool,
}

#[derive(Debug)]
struct Batch {
    records: u32,
    bytes: u64,
    checks: blake3::Hasher,
}

impl Batch {
    fn new() -> Self {
        Batch {
            records: 0,
            bytes: 0,
            checks: blake3::Hasher::new(),
        }
    }
}

impl<'l> Store<'l> {
    /// `reuse` is the pack to go on with; otherwise the next one is number `next`.
    pub(super) fn new(cap: Capture<'l>, index: Index, reuse: Option<u32>, next: u32) -> Self {
        Store {
            cap,
            packs: Packs::new(cap.root()),
            index,
            current: None,
            reuse,
            next,
            gathered: Vec::new(),
            fresh: HashMap::new(),
            batch: Batch::new(),
            given_up: None,
            stored: 0,
            healed: 0,
        }
    }

    /// Fails when an earlier write failed, for what the disk then holds is not known, or when the
    /// index was removed.
    pub(super) fn usable(&self) -> Result<()> {
        match self.given_up {
            None => Ok(()),
            Some(GivenUp::WriteFailed) => Err(Error::new(
                ErrorKind::Io,
                "an earlier write to the mirror failed; nothing more is written in this run",
            )),
            Some(GivenUp::IndexRemoved) => Err(Error::new(
                ErrorKind::ArchiveCorrupt,
                "the mirror's derived index was damaged and has been removed",
            )
            .with_hint(RUN_AGAIN)),
        }
    }

    /// Runs a step whose failure ends this writer.
    pub(super) fn critical<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.usable()?;
        let done = step(self);
        if done.is_err() {
            self.give_up(GivenUp::WriteFailed);
        }
        done
    }

    /// Takes a damaged index away; this store is then of no use any more.
    pub(super) fn index_failed(&mut self) -> Result<()> {
        self.give_up(GivenUp::IndexRemoved);
        remove_index(&self.cap)
    }

    /// The first reason stands: a new index makes no failed write good.
    fn give_up(&mut self, why: GivenUp) {
        self.given_up.get_or_insert(why);
    }

    /// Whether objects wait for the end of their batch.
    pub(super) fn has_batch(&self) -> bool {
        self.batch.records > 0
    }

    pub(super) fn batch_bytes(&self) -> u64 {
        self.batch.bytes
    }

    pub(super) fn find(&mut self, digest: &Digest) -> Result<Option<Loc>> {
        if let Some(loc) = self.fresh.get(digest) {
            return Ok(Some(*loc));
        }
        match self.index.object(digest) {
            Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => {
                // Gone with it: the next writer makes it again from the packs.
                self.index_failed()?;
                Err(e.with_hint(RUN_AGAIN))
            }
            other => other,
        }
    }

    /// Whether an object is there and undamaged, by looking at its record.
    pub(super) fn intact(&mut self, digest: &Digest) -> Result<bool> {
        if self.fresh.contains_key(digest) {
            return Ok(true);
        }
        match self.find(digest)? {
            Some(loc) => self.packs.intact(digest, &loc),
            None => Ok(false),
        }
    }

    /// The plain bytes of an object, flushed or not.
    pub(super) fn load(&mut self, digest: &Digest) -> Result<Vec<u8>> {
        let loc = self.find(digest)?.ok_or_else(|| pack::missing(digest))?;
        self.spill()?;
        self.packs.read(digest, &loc)
    }

    /// Stores an object unless it is there undamaged.
    pub(super) fn keep(&mut self, sealed: &Sealed) -> Result<()> {
        if self.intact(&sealed.digest)? {
            return Ok(());
        }
        self.put(sealed)
    }

    /// Stores an object, whether or not it is there.
    pub(super) fn put(&mut self, sealed: &Sealed) -> Result<()> {
        if self.find(&sealed.digest)?.is_some() {
            self.healed += 1;
        }
        self.critical(|s| s.append(sealed))
    }

    fn append(&mut self, sealed: &Sealed) -> Result<()> {
        let offset = self.end()?;
        let n = self.current.as_ref().map_or(0, |c| c.n);
        self.gathered.extend_from_slice(&sealed.bytes);
        let loc = Loc {
            pack: n,
            offset,
            stored_len: sealed.stored_len(),
            plain_len: sealed.plain_len,
            kind: sealed.kind,
        };
        self.fresh.insert(sealed.digest, loc);
        self.batch.records += 1;
        self.batch.bytes += sealed.bytes.len() as u64;
        self.batch.checks.update(&sealed.check);
        self.stored += sealed.bytes.len() as u64;
        if self.gathered.len() >= GATHER {
            self.write_gathered()?;
        }
        Ok(())
    }

    /// The offset at which the next record goes; opens a pack when none is.
    fn end(&mut self) -> Result<u64> {
        if self.current.is_none() {
            let n = match self.reuse.take() {
                Some(n) => n,
                None => {
                    let n = self.next;
                    self.next = n.checked_add(1).ok_or_else(|| {
                        Error::new(
                            ErrorKind::Unsupported,
                            "the mirror has no more pack numbers",
                        )
                    })?;
                    n
                }
            };
            let (file, made) = self.cap.append(&layout::pack(n))?;
            if file.is_empty() {
                self.gathered.extend_from_slice(&pack::header(n));
            }
            self.current = Some(Current { n, file, made });
        }
        let len = self.current.as_ref().map_or(0, |c| c.file.len());
        Ok(len + self.gathered.len() as u64)
    }

    fn write_gathered(&mut self) -> Result<()> {
        if let Some(current) = &mut self.current
            && !self.gathered.is_empty()
        {
            current.file.append(&self.gathered)?;
            self.gathered.clear();
        }
        Ok(())
    }

    /// Makes everything put so far readable, though not durable.
    pub(super) fn spill(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        self.critical(Self::write_gathered)
    }

    /// Ends the batch in the pack and syncs it. A commit record is written even for no record
    /// when `always`: the pack then shows that ledgers grew after it.
    pub(super) fn commit_pack(&mut self, always: bool) -> Result<()> {
        if !always && !self.has_batch() {
            return Ok(());
        }
        self.critical(|s| {
            s.end()?;
            let bytes = u32::try_from(s.batch.bytes).map_err(|_| {
                Error::new(
                    ErrorKind::Internal,
                    "a batch is longer than its commit record can say",
                )
            })?;
            let commit = record::commit(s.batch.records, bytes, &s.batch.checks);
            s.gathered.extend_from_slice(&commit);
            s.stored += COMMIT as u64;
            s.write_gathered()?;
            if let Some(current) = &mut s.current {
                current.file.sync()?;
                if std::mem::take(&mut current.made) {
                    s.cap.sync_dir(layout::PACKS)?;
                }
            }
            s.batch = Batch::new();
            Ok(())
        })
    }

    /// Writes the objects of ended batches to the index, inside its open transaction, and begins
    /// a new pack when this one is full.
    pub(super) fn index_pack(&mut self) -> Result<()> {
        for (digest, loc) in self.fresh.drain() {
            self.index.put_object(&digest, &loc)?;
        }
        if let Some(current) = &self.current {
            let len = current.file.len().max(PACK_HEADER);
            let closed = len >= PACK_TARGET;
            self.index.put_pack(&PackRow {
                n: current.n,
                verified_len: len,
                file_len: len,
                closed,
            })?;
            if closed {
                self.current = None;
            }
        }
        Ok(())
    }

    /// Ends the batch of a long content in between; no ledger promises anything of it yet.
    pub(super) fn settle(&mut self) -> Result<()> {
        if self.batch_bytes() < BATCH_BYTES {
            return Ok(());
        }
        self.commit_pack(false)?;
        self.critical(|s| {
            s.index.begin()?;
            s.index_pack()?;
            s.index.commit()
        })
    }
}

/// Removes the derived index with its sidecars.
pub(super) fn remove_index(cap: &Capture<'_>) -> Result<()> {
    for suffix in INDEX_SUFFIXES.iter().rev() {
        cap.remove_derived(&format!("{}{suffix}", layout::MIRROR_INDEX_DB))?;
    }
    Ok(())
}

/// Stores an object that was just made.
pub(super) fn keep_plain(store: &mut Store<'_>, kind: Kind, plain: &[u8]) -> Result<Digest> {
    let digest = Digest::of(plain);
    if !store.intact(&digest)? {
        store.put(&record::seal_as(kind, digest, plain)?)?;
    }
    Ok(digest)
}
