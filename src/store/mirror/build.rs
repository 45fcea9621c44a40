//! From a stream of bytes to the pieces it is made of, in flat memory.

use std::collections::HashMap;
use std::io::Read;

use super::chunk::{self, BLOCK, BUNDLE, LITERAL, WHOLE};
use super::recipe::{self, MAX_DEPTH, Op, Recipe, Segment};
use super::record::{self, Kind, Sealed};
use super::store::{Store, keep_plain};
use super::types::Shape;
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;

/// Bytes of a content that are cut and compressed at once.
const WINDOW: usize = 8 << 20;

/// An earlier content that the new one may share pieces with.
#[derive(Debug)]
pub(super) struct Base {
    pub recipe: Digest,
    pub len: u64,
    pub depth: u64,
    pub pieces: Vec<Segment>,
}

impl Base {
    /// The base behind a recipe; `None` when the recipe itself can't be read any more.
    pub(super) fn load(store: &mut Store<'_>, name: Digest, len: u64) -> Result<Option<Base>> {
        let mut depth = 0;
        let mut first = true;
        let pieces = recipe::resolve(&name, len, &mut |digest| {
            let plain = store.load(digest)?;
            if std::mem::take(&mut first)
                && let Recipe::Delta { depth: d, .. } = recipe::decode(digest, &plain)?
            {
                depth = d;
            }
            Ok(plain)
        });
        match pieces {
            Ok(pieces) => Ok(Some(Base {
                recipe: name,
                len,
                depth,
                pieces,
            })),
            Err(e) if e.kind() == ErrorKind::VerifyFailed => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Writes the recipe of a content made by `ops`, as a delta where that is shorter and allowed.
pub(super) fn write_recipe(
    store: &mut Store<'_>,
    base: Option<&Base>,
    ops: Vec<Op>,
) -> Result<Digest> {
    let copies = ops.iter().any(|op| matches!(op, Op::Copy { .. }));
    if let Some(base) = base
        && copies
    {
        if base.depth + 1 < MAX_DEPTH
            && let Some(delta) = recipe::encode_delta(&base.recipe, base.len, base.depth + 1, &ops)
            && delta.len() <= record::MAX_PLAIN
        {
            return keep_plain(store, Kind::Recipe, &delta);
        }
        let flat = recipe::flatten(&base.pieces, ops).ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                "a recipe copies what its base does not have",
            )
        })?;
        return recipe::encode_full(&flat, &mut |plain| keep_plain(store, Kind::Recipe, &plain));
    }
    recipe::encode_full(&ops, &mut |plain| keep_plain(store, Kind::Recipe, &plain))
}

/// What a stream turned out to be.
#[derive(Debug)]
pub(super) struct Built {
    pub len: u64,
    pub hash: Digest,
    pub ops: Vec<Op>,
}

/// Bytes from the source, hashed as they pass.
struct Input<'i> {
    from: &'i mut dyn Read,
    hasher: blake3::Hasher,
    len: u64,
    ended: bool,
}

impl Input<'_> {
    /// Reads until `buf` holds `n` bytes or the source ends.
    fn fill(&mut self, buf: &mut Vec<u8>, n: usize) -> Result<()> {
        while buf.len() < n && !self.ended {
            let old = buf.len();
            buf.resize(n, 0);
            let read = match self.from.read(&mut buf[old..]) {
                Ok(read) => read,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {
                    buf.truncate(old);
                    continue;
                }
                Err(e) => {
                    return Err(Error::new(
                        ErrorKind::Io,
                        format!("the source can't be read: {e}"),
                    )
                    .with_source(e));
                }
            };
            buf.truncate(old + read);
            self.hasher.update(&buf[old..]);
            self.len += read as u64;
            self.ended = read == 0;
        }
        Ok(())
    }
}

/// Reads a content to its end and stores what is new in it.
pub(super) fn build(
    store: &mut Store<'_>,
    shape: Shape,
    base: Option<&Base>,
    content: &mut dyn Read,
) -> Result<Built> {
    let mut input = Input {
        from: content,
        hasher: blake3::Hasher::new(),
        len: 0,
        ended: false,
    };
    let ops = match shape {
        Shape::Text => text(store, base, &mut input)?,
        Shape::Sqlite { page_size } => {
            let page = usize::try_from(page_size).unwrap_or(0);
            if !page.is_power_of_two() || !(512..=65536).contains(&page) {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("{page_size} is no page size"),
                ));
            }
            database(store, base, &mut input, page)?
        }
    };
    Ok(Built {
        len: input.len,
        hash: input.hasher.finalize().into(),
        ops,
    })
}

/// The most recent object that was read whole.
#[derive(Default)]
struct Recent {
    kept: Vec<(Digest, Vec<u8>)>,
}

impl Recent {
    /// The bytes of a piece; `None` when its object is damaged or missing.
    fn piece(&mut self, store: &mut Store<'_>, piece: &Segment) -> Result<Option<&[u8]>> {
        let at = match self.kept.iter().position(|(d, _)| *d == piece.object) {
            Some(at) => at,
            None => {
                let plain = match store.load(&piece.object) {
                    Ok(plain) => plain,
                    Err(e) if e.kind() == ErrorKind::VerifyFailed => return Ok(None),
                    Err(e) => return Err(e),
                };
                if self.kept.len() >= 4 {
                    self.kept.remove(0);
                }
                self.kept.push((piece.object, plain));
                self.kept.len() - 1
            }
        };
        let from = usize::try_from(piece.offset).unwrap_or(usize::MAX);
        let len = usize::try_from(piece.len).unwrap_or(usize::MAX);
        Ok(self.kept[at].1.get(from..from.saturating_add(len)))
    }
}

/// Whether `bytes` are what `piece` holds. A whole object that turns out damaged is stored again.
fn matches(
    store: &mut Store<'_>,
    recent: &mut Recent,
    piece: &Segment,
    bytes: &[u8],
) -> Result<bool> {
    if bytes.len() != usize::try_from(piece.len).unwrap_or(usize::MAX) {
        return Ok(false);
    }
    if !piece.whole {
        return Ok(recent.piece(store, piece)? == Some(bytes));
    }
    if Digest::of(bytes) != piece.object {
        return Ok(false);
    }
    if !store.intact(&piece.object)? {
        store.put(&record::seal_as(Kind::Chunk, piece.object, bytes)?)?;
    }
    Ok(true)
}

fn whole(object: Digest, len: usize) -> Segment {
    Segment {
        object,
        offset: 0,
        len: u32::try_from(len).unwrap_or(u32::MAX),
        whole: true,
    }
}

/// Follows the base as long as the bytes are the same, then cuts by content.
fn text(store: &mut Store<'_>, base: Option<&Base>, input: &mut Input<'_>) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    let mut window = Vec::new();
    let mut known = HashMap::new();
    let mut recent = Recent::default();
    let mut at = 0u64;
    let mut following = true;
    for piece in base.map_or(&[][..], |b| &b.pieces) {
        if following {
            window.clear();
            input.fill(&mut window, usize::try_from(piece.len).unwrap_or(0))?;
            if matches(store, &mut recent, piece, &window)? {
                recipe::push(
                    &mut ops,
                    Op::Copy {
                        from: at,
                        len: u64::from(piece.len),
                    },
                );
                window.clear();
            } else {
                following = false;
            }
        }
        if !following && piece.whole {
            known.entry(piece.object).or_insert(at);
        }
        at += u64::from(piece.len);
    }
    drop(recent);
    input.fill(&mut window, WINDOW)?;
    if input.ended && window.len() <= LITERAL {
        recipe::push(&mut ops, Op::Literal(window));
        return Ok(ops);
    }
    let mut only = input.ended && window.len() <= WHOLE;
    while !window.is_empty() {
        let (last, mut end, mut pieces) = (input.ended, 0, Vec::new());
        if std::mem::take(&mut only) {
            pieces.push(0..window.len());
            end = window.len();
        }
        while let Some(n) = chunk::cut(Shape::Text, &window[end..], last) {
            pieces.push(end..end + n);
            end += n;
        }
        let mut next = window[end..].to_vec();
        let mut sealed: Vec<Option<Result<Piece>>> = pieces.iter().map(|_| None).collect();
        let (bytes, seen) = (&window, &known);
        // The next bytes are read while these are compressed.
        let filled = rayon::in_place_scope(|scope| {
            for (slot, range) in sealed.iter_mut().zip(&pieces) {
                scope.spawn(move |_| *slot = Some(Piece::new(&bytes[range.clone()], seen)));
            }
            input.fill(&mut next, WINDOW)
        });
        for (piece, range) in sealed.into_iter().zip(pieces) {
            let piece = piece.unwrap_or_else(|| {
                Err(Error::new(
                    ErrorKind::Internal,
                    "a piece was not compressed",
                ))
            })?;
            let len = range.len() as u64;
            let op = match piece {
                Piece::Known(digest, from) => {
                    if !store.intact(&digest)? {
                        store.put(&record::seal_as(Kind::Chunk, digest, &window[range])?)?;
                    }
                    Op::Copy { from, len }
                }
                Piece::New(sealed) => {
                    store.keep(&sealed)?;
                    Op::Object(whole(sealed.digest, range.len()))
                }
            };
            recipe::push(&mut ops, op);
        }
        filled?;
        store.settle()?;
        window = next;
    }
    Ok(ops)
}

enum Piece {
    /// The base has it, at this offset.
    Known(Digest, u64),
    New(Sealed),
}

impl Piece {
    fn new(bytes: &[u8], known: &HashMap<Digest, u64>) -> Result<Piece> {
        let digest = Digest::of(bytes);
        match known.get(&digest) {
            Some(from) => Ok(Piece::Known(digest, *from)),
            None => Ok(Piece::New(record::seal_as(Kind::Chunk, digest, bytes)?)),
        }
    }
}

/// Changed pages on their way into objects of their own.
#[derive(Default)]
struct Bundle {
    bytes: Vec<u8>,
    /// Ops that are to name the object once its digest is known: place, offset, length.
    waiting: Vec<(usize, usize, usize)>,
}

impl Bundle {
    fn add(&mut self, ops: &mut Vec<Op>, bytes: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if let Some((_, start, len)) = self.waiting.last_mut()
            && *start + *len == from
            && matches!(ops.last(), Some(Op::Literal(_)))
        {
            *len += bytes.len();
            return;
        }
        self.waiting.push((ops.len(), from, bytes.len()));
        ops.push(Op::Literal(Vec::new()));
    }

    fn store(&mut self, store: &mut Store<'_>, ops: &mut [Op]) -> Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let object = keep_plain(store, Kind::Chunk, &self.bytes)?;
        let all = self.bytes.len();
        for (place, from, len) in self.waiting.drain(..) {
            let segment = Segment {
                object,
                offset: u32::try_from(from).unwrap_or(u32::MAX),
                len: u32::try_from(len).unwrap_or(u32::MAX),
                whole: from == 0 && len == all,
            };
            if let Some(op) = ops.get_mut(place) {
                *op = Op::Object(segment);
            }
        }
        self.bytes.clear();
        Ok(())
    }
}

/// Compares block by block with the base, and inside a block that differs page by page.
fn database(
    store: &mut Store<'_>,
    base: Option<&Base>,
    input: &mut Input<'_>,
    page: usize,
) -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    let mut bundle = Bundle::default();
    let mut recent = Recent::default();
    let pieces = base.map_or(&[][..], |b| &b.pieces);
    let base_len = base.map_or(0, |b| b.len);
    let (mut next_piece, mut piece_at, mut at) = (0usize, 0u64, 0u64);
    let mut block = Vec::with_capacity(BLOCK);
    while at < base_len {
        block.clear();
        input.fill(&mut block, BLOCK)?;
        if block.is_empty() {
            break;
        }
        let end = at + block.len() as u64;
        // The pieces of the base that lie under this block.
        let first = next_piece;
        let first_at = piece_at;
        while next_piece < pieces.len() && piece_at + u64::from(pieces[next_piece].len) <= end {
            piece_at += u64::from(pieces[next_piece].len);
            next_piece += 1;
        }
        let same = first_at == at
            && next_piece == first + 1
            && piece_at == end
            && pieces[first].whole
            && matches(store, &mut recent, &pieces[first], &block)?;
        if same {
            recipe::push(
                &mut ops,
                Op::Copy {
                    from: at,
                    len: block.len() as u64,
                },
            );
        } else {
            let old = under(
                store,
                &mut recent,
                &pieces[first..],
                first_at,
                at,
                block.len(),
            )?;
            for (i, new) in block.chunks(page).enumerate() {
                let from = i * page;
                let equal = old.get(from..from + new.len()) == Some(new);
                if equal {
                    recipe::push(
                        &mut ops,
                        Op::Copy {
                            from: at + from as u64,
                            len: new.len() as u64,
                        },
                    );
                } else {
                    bundle.add(&mut ops, new);
                }
            }
            if bundle.bytes.len() >= BUNDLE {
                bundle.store(store, &mut ops)?;
            }
        }
        at = end;
        store.settle()?;
    }
    bundle.store(store, &mut ops)?;
    fresh_blocks(store, input, &mut ops)?;
    Ok(ops)
}

/// What the base has from `at` on.
struct Under {
    bytes: Vec<u8>,
    /// Ranges of `bytes` whose object is damaged: they are equal to nothing.
    lost: Vec<std::ops::Range<usize>>,
}

impl Under {
    fn get(&self, range: std::ops::Range<usize>) -> Option<&[u8]> {
        let lost = self
            .lost
            .iter()
            .any(|l| l.start < range.end && range.start < l.end);
        if lost { None } else { self.bytes.get(range) }
    }
}

fn under(
    store: &mut Store<'_>,
    recent: &mut Recent,
    pieces: &[Segment],
    mut piece_at: u64,
    at: u64,
    len: usize,
) -> Result<Under> {
    let mut out = Under {
        bytes: Vec::with_capacity(len),
        lost: Vec::new(),
    };
    for piece in pieces {
        let from = out.bytes.len();
        if from >= len {
            break;
        }
        let skip = usize::try_from(at.saturating_sub(piece_at)).unwrap_or(0);
        let size = usize::try_from(piece.len).unwrap_or(0);
        if skip < size {
            match recent.piece(store, piece)? {
                Some(bytes) => out.bytes.extend_from_slice(&bytes[skip..]),
                None => {
                    out.bytes.resize(from + size - skip, 0);
                    out.lost.push(from..from + size - skip);
                }
            }
        }
        piece_at += u64::from(piece.len);
    }
    Ok(out)
}

fn fresh_blocks(store: &mut Store<'_>, input: &mut Input<'_>, ops: &mut Vec<Op>) -> Result<()> {
    use rayon::prelude::*;
    let mut window = Vec::new();
    loop {
        window.clear();
        input.fill(&mut window, WINDOW)?;
        if window.is_empty() {
            return Ok(());
        }
        let sealed: Vec<Sealed> = window
            .par_chunks(BLOCK)
            .map(|b| record::seal(Kind::Chunk, b))
            .collect::<Result<_>>()?;
        for (sealed, block) in sealed.iter().zip(window.chunks(BLOCK)) {
            store.keep(sealed)?;
            recipe::push(ops, Op::Object(whole(sealed.digest, block.len())));
        }
        store.settle()?;
    }
}
