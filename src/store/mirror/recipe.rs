//! Recipes: from which pieces of which objects a content is made.
//!
//! ```text
//! leaf   1 | body                                  the content
//! delta  2 | base 32 | base length | depth | body  the content, by what differs from the base's
//! node   3 | n | n x (digest 32 | length)          the contents of other recipes, one after another
//! body   = total length | k | k x object 32 | n | n ops | literal bytes
//! op     = number, its lowest two bits say what the rest is:
//!          0 copy: length; then the offset in the base     1 whole object: its place in the list; then its length
//!          2 slice: its place in the list; then offset, length    3 literal: length
//! ```
//!
//! Numbers are LEB128. Literal bytes are kept in the recipe itself: a short line costs no object
//! of its own. A long content is a tree of nodes over leaves that are filled from the left, so an
//! append changes only the right edge.

use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;

/// Deltas in a row before a recipe is written in full again.
pub(super) const MAX_DEPTH: u64 = 64;
/// Ops of a leaf, and children of a node.
const FANOUT: usize = 64;
/// A delta with more ops than this is written in full: reading it would cost as much.
const MAX_DELTA_OPS: usize = 2048;
/// No content has more pieces: a recipe that says so is hostile.
const MAX_SEGMENTS: usize = 1 << 22;

const LEAF: u8 = 1;
const DELTA: u8 = 2;
const NODE: u8 = 3;

/// A piece of a content: a range of the plain bytes of one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub object: Digest,
    pub offset: u32,
    pub len: u32,
    /// The range is the whole object.
    pub whole: bool,
}

/// A piece of a content that is being described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    /// A range of the base content.
    Copy { from: u64, len: u64 },
    /// A range of an object.
    Object(Segment),
    /// Bytes that are kept in the recipe.
    Literal(Vec<u8>),
}

impl Op {
    fn len(&self) -> u64 {
        match self {
            Op::Copy { len, .. } => *len,
            Op::Object(s) => u64::from(s.len),
            Op::Literal(bytes) => bytes.len() as u64,
        }
    }
}

/// Adds `op`, joined with the one before it where both are one range.
pub(super) fn push(ops: &mut Vec<Op>, op: Op) {
    if op.len() == 0 {
        return;
    }
    match (ops.last_mut(), &op) {
        (
            Some(Op::Copy { from, len }),
            Op::Copy {
                from: next,
                len: more,
            },
        ) if *from + *len == *next => {
            *len += more;
        }
        (Some(Op::Object(a)), Op::Object(b))
            if !a.whole && !b.whole && a.object == b.object && a.offset + a.len == b.offset =>
        {
            a.len += b.len;
        }
        _ => ops.push(op),
    }
}

/// A recipe, as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Recipe {
    Leaf {
        total: u64,
        ops: Vec<Op>,
    },
    Delta {
        base: Digest,
        base_len: u64,
        depth: u64,
        total: u64,
        ops: Vec<Op>,
    },
    Node {
        total: u64,
        children: Vec<(Digest, u64)>,
    },
}

fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(u8::try_from(n & 0x7f).unwrap_or(0) | 0x80);
        n >>= 7;
    }
    out.push(u8::try_from(n).unwrap_or(0));
}

fn encode_body(ops: &[Op], out: &mut Vec<u8>) {
    let mut objects: Vec<Digest> = Vec::new();
    let mut body = Vec::new();
    let mut literals = Vec::new();
    // Equal objects mostly follow each other; a full search would be quadratic.
    let place = |objects: &mut Vec<Digest>, d: &Digest| -> u64 {
        let recent = objects.len().saturating_sub(FANOUT);
        let found = objects[recent..]
            .iter()
            .position(|o| o == d)
            .map(|i| recent + i);
        found.unwrap_or_else(|| {
            objects.push(*d);
            objects.len() - 1
        }) as u64
    };
    for op in ops {
        match op {
            Op::Copy { from, len } => {
                put(&mut body, len << 2);
                put(&mut body, *from);
            }
            Op::Object(s) => {
                let at = place(&mut objects, &s.object);
                put(&mut body, at << 2 | if s.whole { 1 } else { 2 });
                if !s.whole {
                    put(&mut body, u64::from(s.offset));
                }
                put(&mut body, u64::from(s.len));
            }
            Op::Literal(bytes) => {
                put(&mut body, (bytes.len() as u64) << 2 | 3);
                literals.extend_from_slice(bytes);
            }
        }
    }
    put(out, ops.iter().map(Op::len).sum());
    put(out, objects.len() as u64);
    for object in &objects {
        out.extend_from_slice(&object.0);
    }
    put(out, ops.len() as u64);
    out.extend_from_slice(&body);
    out.extend_from_slice(&literals);
}

/// The plain bytes of a delta; `None` when it would be too long to be one.
pub(super) fn encode_delta(
    base: &Digest,
    base_len: u64,
    depth: u64,
    ops: &[Op],
) -> Option<Vec<u8>> {
    if ops.len() > MAX_DELTA_OPS || depth >= MAX_DEPTH {
        return None;
    }
    let mut out = vec![DELTA];
    out.extend_from_slice(&base.0);
    put(&mut out, base_len);
    put(&mut out, depth);
    encode_body(ops, &mut out);
    Some(out)
}

/// The objects of a recipe in full; each is given to `store`, which says its digest. Returns the
/// topmost one's. `ops` hold no copies.
pub(super) fn encode_full(
    ops: &[Op],
    store: &mut dyn FnMut(Vec<u8>) -> Result<Digest>,
) -> Result<Digest> {
    let mut level: Vec<(Digest, u64)> = Vec::new();
    let empty: [&[Op]; 1] = [&[]];
    let leaves: Box<dyn Iterator<Item = &[Op]>> = if ops.is_empty() {
        Box::new(empty.into_iter())
    } else {
        Box::new(ops.chunks(FANOUT))
    };
    for leaf in leaves {
        let mut out = vec![LEAF];
        encode_body(leaf, &mut out);
        level.push((store(out)?, leaf.iter().map(Op::len).sum()));
    }
    while level.len() > 1 {
        let mut above = Vec::with_capacity(level.len() / FANOUT + 1);
        for children in level.chunks(FANOUT) {
            let mut out = vec![NODE];
            put(&mut out, children.len() as u64);
            for (digest, len) in children {
                out.extend_from_slice(&digest.0);
                put(&mut out, *len);
            }
            above.push((store(out)?, children.iter().map(|c| c.1).sum()));
        }
        level = above;
    }
    level
        .first()
        .map(|top| top.0)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "a recipe without a top"))
}

/// Bytes read from the front; every read is bounded by what is there.
struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl Cursor<'_> {
    fn number(&mut self) -> Option<u64> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            let part = u64::from(byte & 0x7f);
            if shift == 63 && part > 1 {
                return None;
            }
            n |= part << shift;
            if byte & 0x80 == 0 {
                return Some(n);
            }
        }
        None
    }

    /// A count of things of at least `size` bytes each that follow.
    fn count(&mut self, size: usize) -> Option<usize> {
        let n = usize::try_from(self.number()?).ok()?;
        (n <= (self.bytes.len() - self.at) / size).then_some(n)
    }

    fn digest(&mut self) -> Option<Digest> {
        let mut digest = Digest::default();
        digest
            .0
            .copy_from_slice(self.bytes.get(self.at..self.at + 32)?);
        self.at += 32;
        Some(digest)
    }
}

/// Reads the recipe `name` from its plain bytes. Literals become pieces of the recipe itself.
pub(super) fn decode(name: &Digest, plain: &[u8]) -> Result<Recipe> {
    decode_bounded(name, plain).ok_or_else(|| bad(name, "it is not well formed"))
}

fn bad(name: &Digest, why: &str) -> Error {
    Error::new(
        ErrorKind::VerifyFailed,
        format!("recipe {name} can't be used: {why}"),
    )
    .with_context("object", name.to_hex())
}

fn decode_bounded(name: &Digest, plain: &[u8]) -> Option<Recipe> {
    let (tag, rest) = plain.split_first()?;
    let mut cursor = Cursor { bytes: rest, at: 0 };
    match *tag {
        LEAF => {
            let (total, ops) = decode_body(name, &mut cursor, None)?;
            Some(Recipe::Leaf { total, ops })
        }
        DELTA => {
            let base = cursor.digest()?;
            let base_len = cursor.number()?;
            let depth = cursor.number()?;
            let (total, ops) = decode_body(name, &mut cursor, Some(base_len))?;
            Some(Recipe::Delta {
                base,
                base_len,
                depth,
                total,
                ops,
            })
        }
        NODE => {
            let n = cursor.count(33)?;
            let mut children = Vec::with_capacity(n);
            let mut total = 0u64;
            for _ in 0..n {
                let child = (cursor.digest()?, cursor.number()?);
                total = total.checked_add(child.1)?;
                children.push(child);
            }
            (cursor.at == rest.len()).then_some(Recipe::Node { total, children })
        }
        _ => None,
    }
}

fn decode_body(
    name: &Digest,
    cursor: &mut Cursor<'_>,
    base_len: Option<u64>,
) -> Option<(u64, Vec<Op>)> {
    let total = cursor.number()?;
    let k = cursor.count(32)?;
    let mut objects = Vec::with_capacity(k);
    for _ in 0..k {
        objects.push(cursor.digest()?);
    }
    let n = cursor.count(1)?;
    let mut ops = Vec::with_capacity(n);
    let mut literal_lens = 0u64;
    let mut sum = 0u64;
    for _ in 0..n {
        let head = cursor.number()?;
        let rest = head >> 2;
        let op = match head & 3 {
            0 => {
                let from = cursor.number()?;
                if from.checked_add(rest)? > base_len? {
                    return None;
                }
                Op::Copy { from, len: rest }
            }
            3 => {
                // Its place is known once all ops are read.
                let at = literal_lens;
                literal_lens = literal_lens.checked_add(rest)?;
                Op::Object(Segment {
                    object: *name,
                    offset: u32::try_from(at).ok()?,
                    len: u32::try_from(rest).ok()?,
                    whole: false,
                })
            }
            kind => {
                let object = *objects.get(usize::try_from(rest).ok()?)?;
                let offset = if kind == 2 {
                    u32::try_from(cursor.number()?).ok()?
                } else {
                    0
                };
                let len = u32::try_from(cursor.number()?).ok()?;
                offset.checked_add(len)?;
                Op::Object(Segment {
                    object,
                    offset,
                    len,
                    whole: kind == 1,
                })
            }
        };
        if op.len() == 0 {
            return None;
        }
        sum = sum.checked_add(op.len())?;
        ops.push(op);
    }
    // One byte for the tag that the cursor does not see.
    let literals_at = u32::try_from(cursor.at + 1).ok()?;
    let literals = (cursor.bytes.len() - cursor.at) as u64;
    if sum != total || literals != literal_lens {
        return None;
    }
    for op in &mut ops {
        if let Op::Object(s) = op
            && s.object == *name
        {
            s.offset = s.offset.checked_add(literals_at)?;
        }
    }
    Some((total, ops))
}

/// The pieces of a content of `len` bytes, in order. `load` gives the plain bytes of an object.
/// Memory grows with the number of pieces, not with the content.
pub(super) fn resolve(
    recipe: &Digest,
    len: u64,
    load: &mut dyn FnMut(&Digest) -> Result<Vec<u8>>,
) -> Result<Vec<Segment>> {
    let mut deltas = Vec::new();
    let mut name = *recipe;
    let mut want = len;
    let mut pieces = loop {
        match decode(&name, &load(&name)?)? {
            Recipe::Delta {
                base,
                base_len,
                depth,
                total,
                ops,
            } => {
                if total != want {
                    return Err(bad(&name, "it makes another length than promised"));
                }
                // Depth falls by one with each base, so a chain ends.
                if depth == 0 || depth > MAX_DEPTH || deltas.len() as u64 > MAX_DEPTH {
                    return Err(bad(&name, "its chain of bases is too long"));
                }
                deltas.push((name, ops));
                (name, want) = (base, base_len);
            }
            full => {
                let mut pieces = Vec::new();
                expand(&name, full, want, 0, load, &mut pieces)?;
                break pieces;
            }
        }
    };
    while let Some((name, ops)) = deltas.pop() {
        pieces = apply(&name, pieces, &ops)?;
    }
    Ok(pieces)
}

fn expand(
    name: &Digest,
    recipe: Recipe,
    want: u64,
    level: u32,
    load: &mut dyn FnMut(&Digest) -> Result<Vec<u8>>,
    out: &mut Vec<Segment>,
) -> Result<()> {
    match recipe {
        Recipe::Leaf { total, ops } if total == want => {
            for op in ops {
                if let Op::Object(s) = op {
                    out.push(s);
                }
            }
        }
        Recipe::Node { total, children } if total == want && level < 8 => {
            for (child, len) in children {
                let below = decode(&child, &load(&child)?)?;
                expand(&child, below, len, level + 1, load, out)?;
            }
        }
        _ => return Err(bad(name, "it makes another length than promised")),
    }
    if out.len() > MAX_SEGMENTS {
        return Err(bad(name, "it has too many pieces"));
    }
    Ok(())
}

fn apply(name: &Digest, base: Vec<Segment>, ops: &[Op]) -> Result<Vec<Segment>> {
    let ends: Vec<u64> = base
        .iter()
        .scan(0u64, |end, s| {
            *end += u64::from(s.len);
            Some(*end)
        })
        .collect();
    let base_len = ends.last().copied().unwrap_or(0);
    // The common append copies all of the base and nothing more: keep it as it is.
    let appends = matches!(ops.first(), Some(Op::Copy { from: 0, len }) if *len == base_len)
        && !ops[1..].iter().any(|op| matches!(op, Op::Copy { .. }));
    let (mut out, base, rest) = if appends {
        (base, Vec::new(), &ops[1..])
    } else {
        (Vec::with_capacity(base.len()), base, ops)
    };
    for op in rest {
        match op {
            Op::Object(s) => out.push(*s),
            Op::Literal(_) => return Err(bad(name, "it holds loose bytes")),
            Op::Copy { from, len } => {
                copy_range(&base, &ends, *from, *len, &mut out)
                    .ok_or_else(|| bad(name, "it copies what its base does not have"))?;
            }
        }
        if out.len() > MAX_SEGMENTS {
            return Err(bad(name, "it has too many pieces"));
        }
    }
    Ok(out)
}

/// Appends the pieces that make the range; `None` when `base` is shorter.
fn copy_range(
    base: &[Segment],
    ends: &[u64],
    from: u64,
    len: u64,
    out: &mut Vec<Segment>,
) -> Option<()> {
    let to = from.checked_add(len)?;
    let mut at = from;
    let mut i = ends.partition_point(|end| *end <= from);
    while at < to {
        let (segment, end) = (base.get(i)?, *ends.get(i)?);
        let start = end - u64::from(segment.len);
        let stop = end.min(to);
        let part = Segment {
            object: segment.object,
            offset: segment.offset + u32::try_from(at - start).ok()?,
            len: u32::try_from(stop - at).ok()?,
            whole: segment.whole && at == start && stop == end,
        };
        out.push(part);
        at = stop;
        i += 1;
    }
    Some(())
}

/// The pieces of the range of a content of `pieces`, for a recipe that is written in full.
pub(super) fn flatten(pieces: &[Segment], ops: Vec<Op>) -> Option<Vec<Op>> {
    let ends: Vec<u64> = pieces
        .iter()
        .scan(0u64, |end, s| {
            *end += u64::from(s.len);
            Some(*end)
        })
        .collect();
    let mut out = Vec::with_capacity(ops.len());
    for op in ops {
        match op {
            Op::Copy { from, len } => {
                let mut parts = Vec::new();
                copy_range(pieces, &ends, from, len, &mut parts)?;
                out.extend(parts.into_iter().map(Op::Object));
            }
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Default)]
    struct Objects(BTreeMap<Digest, Vec<u8>>);

    impl Objects {
        fn add(&mut self, bytes: Vec<u8>) -> Digest {
            let digest = Digest::of(&bytes);
            self.0.insert(digest, bytes);
            digest
        }

        fn content(&self, recipe: &Digest, len: u64) -> Result<Vec<u8>> {
            let mut load = |d: &Digest| self.0.get(d).cloned().ok_or_else(|| bad(d, "missing"));
            let pieces = resolve(recipe, len, &mut load)?;
            let mut out = Vec::new();
            for p in pieces {
                let from = p.offset as usize;
                let object = &self.0[&p.object];
                assert!(!p.whole || (from == 0 && object.len() == p.len as usize));
                out.extend_from_slice(&object[from..from + p.len as usize]);
            }
            Ok(out)
        }
    }

    /// One edit: where (per mille of the length), bytes removed, bytes put in, as literal or object.
    type Edit = (u16, u16, Vec<u8>, bool);

    proptest! {
        #[test]
        fn a_chain_of_edits_comes_back(
            first in proptest::collection::vec(any::<u8>(), 0..2000),
            edits in proptest::collection::vec((0u16..=1000, 0u16..300, proptest::collection::vec(any::<u8>(), 0..200), any::<bool>()), 0..12),
        ) {
            let mut objects = Objects::default();
            let mut ops = Vec::new();
            for piece in first.chunks(7) {
                let object = objects.add(piece.to_vec());
                push(&mut ops, Op::Object(Segment { object, offset: 0, len: piece.len() as u32, whole: true }));
            }
            let mut recipe = encode_full(&ops, &mut |b| Ok(objects.add(b))).unwrap();
            let mut content = first;
            prop_assert_eq!(&objects.content(&recipe, content.len() as u64).unwrap(), &content);
            for (i, (at, cut, new, literal)) in (edits as Vec<Edit>).into_iter().enumerate() {
                let at = content.len() * usize::from(at) / 1000;
                let to = (at + usize::from(cut)).min(content.len());
                let mut ops = Vec::new();
                push(&mut ops, Op::Copy { from: 0, len: at as u64 });
                if literal {
                    push(&mut ops, Op::Literal(new.clone()));
                } else if !new.is_empty() {
                    let object = objects.add(new.clone());
                    push(&mut ops, Op::Object(Segment { object, offset: 0, len: new.len() as u32, whole: true }));
                }
                push(&mut ops, Op::Copy { from: to as u64, len: (content.len() - to) as u64 });
                let delta = encode_delta(&recipe, content.len() as u64, i as u64 + 1, &ops).unwrap();
                let mut load = |d: &Digest| Ok(objects.0[d].clone());
                let pieces = resolve(&recipe, content.len() as u64, &mut load).unwrap();
                content.splice(at..to, new);
                let full = encode_full(&flatten(&pieces, ops).unwrap(), &mut |b| Ok(objects.add(b))).unwrap();
                recipe = objects.add(delta);
                prop_assert_eq!(&objects.content(&full, content.len() as u64).unwrap(), &content);
                prop_assert_eq!(&objects.content(&recipe, content.len() as u64).unwrap(), &content);
                prop_assert!(objects.content(&recipe, content.len() as u64 + 1).is_err());
            }
        }

        #[test]
        fn noise_is_refused_without_a_panic(tag in 0u8..5, noise in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut plain = vec![tag];
            plain.extend(noise);
            let mut objects = Objects::default();
            let name = objects.add(plain.clone());
            let _ = decode(&name, &plain);
            let _ = objects.content(&name, 100);
        }
    }

    #[test]
    fn a_recipe_that_doubles_its_base_is_stopped() {
        let mut objects = Objects::default();
        let object = objects.add(vec![7]);
        let one = Op::Object(Segment {
            object,
            offset: 0,
            len: 1,
            whole: true,
        });
        let mut recipe = encode_full(&[one], &mut |b| Ok(objects.add(b))).unwrap();
        let mut len = 1u64;
        for depth in 1..40 {
            let twice = [Op::Copy { from: 0, len }, Op::Copy { from: 0, len }];
            recipe = objects.add(encode_delta(&recipe, len, depth, &twice).unwrap());
            len *= 2;
        }
        assert!(objects.content(&recipe, len).is_err());
    }

    #[test]
    fn an_append_changes_only_the_right_edge_of_the_tree() {
        let op = |i: u32| {
            let object = Digest::of(&i.to_le_bytes());
            Op::Object(Segment {
                object,
                offset: 0,
                len: 1000,
                whole: true,
            })
        };
        let mut stored: BTreeMap<Digest, usize> = BTreeMap::new();
        let mut ops: Vec<Op> = (0..10_000).map(op).collect();
        let store = |stored: &mut BTreeMap<Digest, usize>, ops: &[Op]| {
            encode_full(ops, &mut |b| {
                let d = Digest::of(&b);
                stored.insert(d, b.len());
                Ok(d)
            })
            .unwrap()
        };
        store(&mut stored, &ops);
        let before: usize = stored.values().sum();
        ops.push(op(10_000));
        store(&mut stored, &ops);
        let grown = stored.values().sum::<usize>() - before;
        assert!(grown < 8000, "an append rewrote {grown} bytes of {before}");
    }
}
