//! The one writer of the mirror.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use super::build::{self, Base, Built};
use super::chunk::{self, LITERAL};
use super::content::{ContentReader, Placed};
use super::index::SourceRow;
use super::ledger::{self, LineHash};
use super::pack;
use super::recipe::{self, Op, Segment};
use super::record::{self, Kind, Sealed};
use super::store::{BATCH_BYTES, RUN_AGAIN, Store};
use super::types::{
    Added, CaptureLine, CaptureMeta, GroupMember, Head, MirrorProblem, Shape, SourceIdent, StatGate,
};
use super::{recover, survey};
use crate::disk::{ArchiveExclusive, Capture};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::source::SourceKey;
use crate::store::{layout, sqlite};

/// Contents up to this many bytes may be prepared in memory; longer ones are streamed.
pub const PREPARE_LIMIT: u64 = 8 << 20;

/// Sources after which a batch is ended by itself.
const BATCH_SOURCES: usize = 256;
/// Ledgers synced at once: a file system answers many syncs with one write of its journal.
const SYNCS: usize = 16;

/// A small content, hashed and compressed, ready to be added.
#[derive(Debug)]
pub struct Prepared {
    bytes: Vec<u8>,
    shape: Shape,
    hash: Digest,
    /// The newest capture it was compared with, when that is a prefix of the content or all of it.
    follows: Option<(Digest, u64)>,
    /// What was cut from the bytes behind that prefix.
    sealed: Vec<Sealed>,
}

impl Prepared {
    /// BLAKE3 of the content.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// Bytes of the content.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether the content is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The content itself.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// What waits for the end of the batch, for one source.
#[derive(Debug)]
struct Pending {
    row: SourceRow,
    /// Whole lines with their newlines, to go behind `ledger_len` of the file now.
    lines: Vec<u8>,
    /// The ledger's length before them.
    old_len: u64,
}

/// What is known about a source before it is added to.
struct State {
    head: Option<Head>,
    grouped: Digest,
    seq: u64,
    line_hash: LineHash,
    ledger_len: u64,
}

/// Adds captures. One exists at a time: it borrows the writer lock. Contents go to the open pack
/// at once, promises at the end of a batch. After a failed write the writer is of no use any
/// more; everything flushed before stands.
#[derive(Debug)]
pub struct MirrorWriter<'l> {
    store: Store<'l>,
    pending: BTreeMap<SourceKey, Pending>,
    problems: Vec<MirrorProblem>,
}

impl<'l> MirrorWriter<'l> {
    /// Opens the mirror, makes it when missing, and clears up after a writer that was killed.
    ///
    /// # Errors
    /// `mirror-too-new`: nothing was written. `no-space`, `permission-denied`, `io`.
    pub fn open(cap: Capture<'l>, _now_ms: i64) -> Result<Self> {
        let (store, problems) = recover::open(cap)?;
        Ok(MirrorWriter {
            store,
            pending: BTreeMap::new(),
            problems,
        })
    }

    /// Makes the derived index again from packs and ledgers.
    ///
    /// # Errors
    /// As [`MirrorWriter::open`].
    pub fn renew_index(cap: Capture<'l>, now_ms: i64) -> Result<()> {
        super::store::remove_index(&cap)?;
        Self::open(cap, now_ms)?.finish()
    }

    /// What opening found damaged, torn tails included.
    #[must_use]
    pub fn problems(&self) -> &[MirrorProblem] {
        &self.problems
    }

    /// Every source's newest capture, by key, as of the last flush; reads nothing but the derived
    /// index.
    ///
    /// # Errors
    /// `io`, or what `each` returns.
    pub fn for_each_head(&mut self, each: &mut dyn FnMut(Head) -> Result<()>) -> Result<()> {
        self.flush()?;
        let mut after = None;
        let mut repaired = false;
        loop {
            let mut stopped = false;
            let read = self
                .store
                .index
                .for_sources_after(after, u32::MAX, &mut |row| {
                    after = Some(row.head.ident.key);
                    each(row.head).inspect_err(|_| stopped = true)
                });
            match read {
                Err(e) if e.kind() == ErrorKind::ArchiveCorrupt && !stopped && !repaired => {
                    // Nothing is pending, so it goes on behind the last one.
                    repaired = true;
                    self.index_again(e)?;
                }
                other => return other,
            }
        }
    }

    /// The newest capture of a source, flushed or not.
    ///
    /// # Errors
    /// `io`.
    pub fn head(&mut self, key: SourceKey) -> Result<Option<Head>> {
        if let Some(pending) = self.pending.get(&key) {
            return Ok(Some(pending.row.head.clone()));
        }
        let row = match self.store.index.source(key) {
            Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => {
                self.store.usable()?;
                self.index_again(e)?;
                self.store.index.source(key)?
            }
            row => row?,
        };
        Ok(row.map(|row| row.head))
    }

    /// A damaged index is made again from packs and ledgers, at once when nothing is pending;
    /// otherwise by the next writer.
    fn index_again(&mut self, why: Error) -> Result<()> {
        let pending = !self.pending.is_empty() || self.store.has_batch();
        self.store.index_failed()?;
        if pending {
            return Err(why.with_hint(RUN_AGAIN));
        }
        let (store, mut problems) = recover::open(self.store.cap)?;
        self.store = store;
        self.problems.append(&mut problems);
        Ok(())
    }

    /// The captures of a source, oldest first. Flushes.
    ///
    /// # Errors
    /// `io`, `mirror-damaged`, or what `each` returns.
    pub fn captures(
        &mut self,
        key: SourceKey,
        each: &mut dyn FnMut(CaptureLine) -> Result<()>,
    ) -> Result<()> {
        self.flush()?;
        survey::ledger(self.store.cap.root(), key, &mut |line| each(line.clone())).map(drop)
    }

    /// One capture of a source. Flushes.
    ///
    /// # Errors
    /// `io`, `mirror-damaged`.
    pub fn capture(&mut self, key: SourceKey, seq: u64) -> Result<Option<CaptureLine>> {
        let mut found = None;
        self.captures(key, &mut |line| {
            if line.seq == seq {
                found = Some(line);
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Hashes, cuts and compresses a content of at most [`PREPARE_LIMIT`] bytes. Pure work, for
    /// any thread. `head` is the newest capture of the same source, as [`MirrorWriter::head`]
    /// gives it.
    ///
    /// # Errors
    /// `internal` when the content is too long.
    pub fn prepare(bytes: Vec<u8>, shape: Shape, head: Option<&Head>) -> Result<Prepared> {
        if bytes.len() as u64 > PREPARE_LIMIT {
            return Err(Error::new(
                ErrorKind::Internal,
                "a content is too long to be prepared in memory",
            ));
        }
        let mut hasher = blake3::Hasher::new();
        let mut follows = None;
        let mut from = 0;
        if let Some(head) = head
            && let Ok(len) = usize::try_from(head.len)
            && let Some(prefix) = bytes.get(..len)
        {
            hasher.update(prefix);
            from = len;
            if Digest::from(hasher.finalize()) == head.hash {
                follows = Some((head.recipe, head.len));
            }
        }
        hasher.update(&bytes[from..]);
        let hash = hasher.finalize().into();
        let new = if follows.is_some() {
            &bytes[from..]
        } else {
            &bytes[..]
        };
        // A database that has a base is compared with it page by page, which needs the mirror.
        let compared = head.is_some() && shape != Shape::Text;
        let sealed = if new.len() <= LITERAL || compared {
            Vec::new()
        } else {
            chunk::cut_all(shape, new)
                .into_iter()
                .map(|piece| record::seal(Kind::Chunk, piece))
                .collect::<Result<_>>()?
        };
        Ok(Prepared {
            shape,
            hash,
            follows,
            sealed,
            bytes,
        })
    }

    /// Adds a prepared content as the next capture of `ident`. A content equal to the newest
    /// capture's adds no capture; only its gate is kept.
    ///
    /// # Errors
    /// `no-space`, `io`; the writer is then of no use any more.
    pub fn add(
        &mut self,
        ident: &SourceIdent,
        prepared: Prepared,
        meta: CaptureMeta,
    ) -> Result<Added> {
        self.store.usable()?;
        self.head(ident.key)?;
        let state = self.state(ident.key)?;
        let before = (self.store.stored, self.store.healed);
        let (len, hash) = (prepared.len(), prepared.hash);
        let recipe = match state.head.clone() {
            Some(head) if prepared.shape != Shape::Text && (head.hash, head.len) != (hash, len) => {
                let base = Base::load(&mut self.store, head.recipe, head.len)?;
                let mut bytes = &prepared.bytes[..];
                let built =
                    build::build(&mut self.store, prepared.shape, base.as_ref(), &mut bytes)?;
                build::write_recipe(&mut self.store, base.as_ref(), built.ops)?
            }
            head => self.place(&prepared, head.as_ref())?,
        };
        self.promise(ident, state, (recipe, len, hash), meta, before)
    }

    /// The recipe of a prepared content: of the newest capture, behind it, or of its own.
    fn place(&mut self, prepared: &Prepared, head: Option<&Head>) -> Result<Digest> {
        let follows = head.filter(|h| prepared.follows == Some((h.recipe, h.len)));
        let base = match follows {
            Some(head) => self.sound_base(head, &prepared.bytes)?,
            None => None,
        };
        let all = &prepared.bytes[..];
        if let Some(base) = base {
            if base.len == prepared.len() {
                return Ok(base.recipe);
            }
            let from = usize::try_from(base.len).unwrap_or(usize::MAX);
            let mut ops = Vec::new();
            recipe::push(
                &mut ops,
                Op::Copy {
                    from: 0,
                    len: base.len,
                },
            );
            self.new_ops(
                all.get(from..).unwrap_or(&[]),
                prepared.shape,
                Some(&prepared.sealed),
                &mut ops,
            )?;
            return build::write_recipe(&mut self.store, Some(&base), ops);
        }
        let mut ops = Vec::new();
        let sealed = prepared.follows.is_none().then_some(&prepared.sealed[..]);
        self.new_ops(all, prepared.shape, sealed, &mut ops)?;
        build::write_recipe(&mut self.store, None, ops)
    }

    fn new_ops(
        &mut self,
        bytes: &[u8],
        shape: Shape,
        sealed: Option<&[Sealed]>,
        ops: &mut Vec<Op>,
    ) -> Result<()> {
        if bytes.len() <= LITERAL {
            recipe::push(ops, Op::Literal(bytes.to_vec()));
            return Ok(());
        }
        let made;
        let sealed = match sealed {
            Some(sealed) if !sealed.is_empty() => sealed,
            _ => {
                made = chunk::cut_all(shape, bytes)
                    .into_iter()
                    .map(|piece| record::seal(Kind::Chunk, piece))
                    .collect::<Result<Vec<_>>>()?;
                &made
            }
        };
        for piece in sealed {
            self.store.keep(piece)?;
            let segment = Segment {
                object: piece.digest,
                offset: 0,
                len: piece.plain_len,
                whole: true,
            };
            recipe::push(ops, Op::Object(segment));
        }
        Ok(())
    }

    /// The newest capture as a base, if all its objects are undamaged or could be stored again
    /// from `bytes`, which begin with its content. New captures never build on damage.
    fn sound_base(&mut self, head: &Head, bytes: &[u8]) -> Result<Option<Base>> {
        let Some(base) = Base::load(&mut self.store, head.recipe, head.len)? else {
            return Ok(None);
        };
        let mut at = 0usize;
        let mut last = None;
        for piece in &base.pieces {
            let end = at + usize::try_from(piece.len).unwrap_or(0);
            if last != Some(piece.object) && !self.store.intact(&piece.object)? {
                match bytes.get(at..end) {
                    Some(plain) if piece.whole && Digest::of(plain) == piece.object => {
                        self.store
                            .put(&record::seal_as(Kind::Chunk, piece.object, plain)?)?;
                    }
                    _ => return Ok(None),
                }
            }
            last = Some(piece.object);
            at = end;
        }
        Ok(Some(base))
    }

    /// Adds a content of any length, read once, in flat memory.
    ///
    /// # Errors
    /// What `content` fails with, as `io`; the writer goes on. Else as [`MirrorWriter::add`].
    pub fn add_stream(
        &mut self,
        ident: &SourceIdent,
        content: &mut dyn Read,
        shape: Shape,
        meta: CaptureMeta,
    ) -> Result<Added> {
        self.store.usable()?;
        self.head(ident.key)?;
        let state = self.state(ident.key)?;
        let before = (self.store.stored, self.store.healed);
        let base = state.head.as_ref().map(|h| (h.recipe, h.len, h.hash));
        let (recipe, built) = self.store_content(base, content, shape)?;
        self.promise(ident, state, (recipe, built.len, built.hash), meta, before)
    }

    fn store_content(
        &mut self,
        base: Option<(Digest, u64, Digest)>,
        content: &mut dyn Read,
        shape: Shape,
    ) -> Result<(Digest, Built)> {
        let loaded = match base {
            Some((recipe, len, _)) => Base::load(&mut self.store, recipe, len)?,
            None => None,
        };
        let mut built = build::build(&mut self.store, shape, loaded.as_ref(), content)?;
        if let (Some((recipe, len, hash)), Some(_)) = (base, &loaded)
            && (built.len, built.hash) == (len, hash)
            && matches!(built.ops[..], [] | [Op::Copy { .. }])
        {
            return Ok((recipe, built));
        }
        let ops = std::mem::take(&mut built.ops);
        Ok((
            build::write_recipe(&mut self.store, loaded.as_ref(), ops)?,
            built,
        ))
    }

    /// Stores another file of the capture that is added next (`-wal`, `-journal`); goes into
    /// [`CaptureMeta::group`].
    ///
    /// # Errors
    /// As [`MirrorWriter::add_stream`].
    pub fn store_member(
        &mut self,
        key: SourceKey,
        name: &str,
        content: &mut dyn Read,
        shape: Shape,
    ) -> Result<GroupMember> {
        self.store.usable()?;
        let mut base = None;
        if !self.pending.contains_key(&key) {
            survey::ledger(self.store.cap.root(), key, &mut |line| {
                base = line
                    .group
                    .iter()
                    .find(|m| m.name == name)
                    .map(|m| (m.recipe, m.len, m.hash));
                Ok(())
            })?;
        }
        let (recipe, built) = self.store_content(base, content, shape)?;
        Ok(GroupMember {
            name: name.to_owned(),
            recipe,
            len: built.len,
            hash: built.hash,
        })
    }

    /// What the ledger of a source ends with. The index is not believed when the file has
    /// another length or another last line.
    fn state(&mut self, key: SourceKey) -> Result<State> {
        if let Some(p) = self.pending.get(&key) {
            return Ok(State::of(&p.row));
        }
        let cap = self.store.cap;
        let on_disk = cap.root().file_len(&layout::ledger(key))?;
        let row = self.store.index.source(key)?;
        match (&row, on_disk) {
            (Some(row), Some(len))
                if row.ledger_len == len
                    && survey::last_line(cap.root(), key, len)? == row.line_hash =>
            {
                return Ok(State::of(row));
            }
            (None, None) => return Ok(State::none()),
            _ => {}
        }
        if row.is_some() && on_disk.is_none() {
            self.problems.push(survey::problem(
                super::ProblemKind::Ledger,
                layout::ledger(key),
                None,
                "the ledger is gone",
            ));
        }
        let mut found = Vec::new();
        recover::catch_up_ledger(&cap, &self.store.index, key, &BTreeSet::new(), &mut found)?;
        self.problems.append(&mut found);
        if let Some(row) = self.store.index.source(key)? {
            return Ok(State::of(&row));
        }
        // A ledger whose first line is damaged: it goes on behind what is there.
        let ledger = survey::ledger(cap.root(), key, &mut |_| Ok(()))?.unwrap_or_default();
        Ok(State {
            head: None,
            grouped: Digest::default(),
            seq: ledger.end.seq,
            line_hash: ledger.end.last,
            ledger_len: ledger.end.whole_len,
        })
    }

    /// Takes the ledger line of a content into the batch.
    fn promise(
        &mut self,
        ident: &SourceIdent,
        state: State,
        (recipe, len, hash): (Digest, u64, Digest),
        meta: CaptureMeta,
        (stored, healed): (u64, u64),
    ) -> Result<Added> {
        let grouped = ledger::group_digest(&meta.group);
        let unchanged = state.head.as_ref().is_some_and(|h| {
            (h.recipe, h.len, h.hash) == (recipe, len, hash)
                && state.grouped == grouped
                // That it holds still now is news, and worth a line.
                && (meta.moving || !h.moving)
        });
        let seq = if unchanged { state.seq } else { state.seq + 1 };
        let mut pending = self.pending.remove(&ident.key).unwrap_or_else(|| Pending {
            row: SourceRow {
                head: Head {
                    ident: ident.clone(),
                    seq,
                    recipe,
                    len,
                    hash,
                    gate: StatGate::default(),
                    at_ms: state.head.as_ref().map_or(meta.at_ms, |h| h.at_ms),
                    moving: false,
                },
                grouped,
                line_hash: state.line_hash,
                ledger_len: state.ledger_len,
            },
            lines: Vec::new(),
            old_len: state.ledger_len,
        });
        if !unchanged {
            let mut prev = state.line_hash;
            if state.ledger_len == 0 {
                let (line, hash) = ledger::first_line(ident)?;
                pending.lines.extend_from_slice(&line);
                pending.lines.push(b'\n');
                prev = hash;
            }
            let line = CaptureLine {
                seq,
                recipe,
                len,
                hash,
                id: ledger::id_text(meta.gate.dev, meta.gate.ino),
                mtime_ns: meta.gate.mtime_ns,
                at_ms: meta.at_ms,
                moving: meta.moving,
                group: meta.group,
            };
            let (line, line_hash) = ledger::capture_line(&line, prev)?;
            pending.lines.extend_from_slice(&line);
            pending.lines.push(b'\n');
            pending.row.line_hash = line_hash;
            pending.row.ledger_len = pending.old_len + pending.lines.len() as u64;
            pending.row.head.at_ms = meta.at_ms;
            (pending.row.head.seq, pending.row.head.recipe) = (seq, recipe);
            (pending.row.head.len, pending.row.head.hash) = (len, hash);
            pending.row.grouped = grouped;
        }
        pending.row.head.gate = meta.gate;
        pending.row.head.moving = meta.moving;
        self.pending.insert(ident.key, pending);
        let added = Added {
            seq,
            unchanged,
            recipe,
            len,
            hash,
            stored: self.store.stored - stored,
            healed: self.store.healed - healed,
        };
        if self.store.batch_bytes() >= BATCH_BYTES || self.pending.len() >= BATCH_SOURCES {
            self.flush()?;
        }
        Ok(added)
    }

    /// The content of a recipe, from what was added so far, flushed or not.
    ///
    /// # Errors
    /// `verify-failed` names object, pack and offset; `io`.
    pub fn open_content(&mut self, recipe: Digest, len: u64) -> Result<ContentReader<'l>> {
        let pieces = recipe::resolve(&recipe, len, &mut |digest| self.store.load(digest))?;
        let mut placed: Vec<Placed> = Vec::with_capacity(pieces.len());
        for segment in pieces {
            let loc = match placed.last() {
                Some(last) if last.segment.object == segment.object => last.loc,
                _ => self
                    .store
                    .find(&segment.object)?
                    .ok_or_else(|| pack::missing(&segment.object))?,
            };
            placed.push(Placed { segment, loc });
        }
        self.store.spill()?;
        Ok(ContentReader::new(self.store.cap.root(), placed))
    }

    /// Ends the batch: when this returns, everything added is durable and promised. Called by
    /// itself every 32 MiB stored or 256 sources.
    ///
    /// # Errors
    /// `no-space`, `io`; the writer is then of no use any more.
    pub fn flush(&mut self) -> Result<()> {
        self.store.usable()?;
        if self.pending.is_empty() && !self.store.has_batch() {
            return Ok(());
        }
        let promises = self.pending.values().any(|p| !p.lines.is_empty());
        self.store.commit_pack(promises)?;
        let pending = &self.pending;
        if promises {
            self.store
                .critical(|store| append_ledgers(&store.cap, pending))?;
        }
        let indexed = self.store.critical(|store| {
            store.index.begin()?;
            store.index_pack()?;
            for source in pending.values() {
                store.index.put_source(&source.row)?;
            }
            store.index.commit()
        });
        match indexed {
            Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => {
                // All of the batch is durable; only the index has to be made again.
                self.pending.clear();
                self.index_again(e)
            }
            done => {
                done?;
                self.pending.clear();
                Ok(())
            }
        }
    }

    /// Flushes and folds the derived index's log into it, if no reader is in it.
    ///
    /// # Errors
    /// As [`MirrorWriter::flush`].
    pub fn finish(mut self) -> Result<()> {
        self.flush()?;
        if let Some(lock) = ArchiveExclusive::try_acquire(self.store.cap.lock())? {
            sqlite::checkpoint(self.store.index.connection(), &lock)?;
        }
        Ok(())
    }
}

/// Appends to every ledger of the batch and syncs them; then the names of the new ones.
fn append_ledgers(cap: &Capture<'_>, pending: &BTreeMap<SourceKey, Pending>) -> Result<()> {
    let grown: Vec<_> = pending
        .iter()
        .filter(|(_, p)| !p.lines.is_empty())
        .collect();
    let one = |(key, p): &(&SourceKey, &Pending)| -> Result<bool> {
        let (mut file, made) = cap.append(&layout::ledger(**key))?;
        if file.len() != p.old_len {
            return Err(Error::new(
                ErrorKind::MirrorDamaged,
                format!("the ledger of source {key} changed while the writer lock was held"),
            ));
        }
        file.append(&p.lines)?;
        file.sync()?;
        Ok(made)
    };
    let share = grown.len().div_ceil(SYNCS).max(1);
    let made = std::thread::scope(|scope| -> Result<bool> {
        let threads: Vec<_> = grown
            .chunks(share)
            .map(|some| {
                scope.spawn(|| {
                    some.iter()
                        .try_fold(false, |made, p| one(p).map(|m| made | m))
                })
            })
            .collect();
        let mut made = false;
        for thread in threads {
            made |= thread.join().map_err(|_| {
                Error::new(ErrorKind::Internal, "a thread that syncs ledgers died")
            })??;
        }
        Ok(made)
    })?;
    if made {
        cap.sync_dir(layout::LEDGERS)?;
    }
    Ok(())
}

impl State {
    fn none() -> Self {
        State {
            head: None,
            grouped: Digest::default(),
            seq: 0,
            line_hash: LineHash::default(),
            ledger_len: 0,
        }
    }

    fn of(row: &SourceRow) -> Self {
        State {
            head: Some(row.head.clone()),
            grouped: row.grouped,
            seq: row.head.seq,
            line_hash: row.line_hash,
            ledger_len: row.ledger_len,
        }
    }
}
