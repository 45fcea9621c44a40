//! Where contents are cut. The sizes were measured; see `docs/adr/0002-mirror-format.md`.

use fastcdc::v2020::FastCDC;

use super::types::Shape;

/// Text up to this length is one piece: cutting it would cost more than it ever saves.
pub(super) const WHOLE: usize = 256 << 10;
/// Bounds of the pieces of longer texts.
pub(super) const MIN: usize = 128 << 10;
pub(super) const AVG: usize = 512 << 10;
pub(super) const MAX: usize = 2 << 20;
/// Piece of a database; a multiple of every page size.
pub(super) const BLOCK: usize = 256 << 10;
/// New bytes up to this length are kept in the recipe itself.
pub(super) const LITERAL: usize = 16 << 10;
/// Changed pages of a database are gathered into objects of up to this length.
pub(super) const BUNDLE: usize = 256 << 10;

/// The length of the first piece of `bytes`, which are followed by more unless `last`. `None`:
/// more bytes are needed to say.
pub(super) fn cut(shape: Shape, bytes: &[u8], last: bool) -> Option<usize> {
    let longest = match shape {
        Shape::Text => MAX,
        Shape::Sqlite { .. } => BLOCK,
    };
    if bytes.is_empty() || (bytes.len() < longest && !last) {
        return None;
    }
    Some(match shape {
        Shape::Sqlite { .. } => bytes.len().min(BLOCK),
        Shape::Text => {
            let chunker = FastCDC::new(bytes, MIN, AVG, MAX);
            chunker.cut(0, bytes.len()).1.clamp(1, bytes.len())
        }
    })
}

/// The pieces of a content, or a part of it, that is in memory.
pub(super) fn cut_all(shape: Shape, mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    if shape == Shape::Text && !bytes.is_empty() && bytes.len() <= WHOLE {
        return vec![bytes];
    }
    while let Some(n) = cut(shape, bytes, true) {
        let (piece, rest) = bytes.split_at(n);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn pieces_tile_the_content_whatever_the_window(seed in any::<u64>(), len in 0usize..6_000_000, database in any::<bool>()) {
            let mut state = seed | 1;
            let bytes: Vec<u8> = std::iter::repeat_with(|| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()
            }).flatten().take(len).collect();
            let shape = if database { Shape::Sqlite { page_size: 4096 } } else { Shape::Text };
            let whole: Vec<usize> = cut_all(shape, &bytes).iter().map(|p| p.len()).collect();
            prop_assert_eq!(whole.iter().sum::<usize>(), len);
            // The same cuts when only a window is seen at a time.
            let (mut at, mut seen) = (0, Vec::new());
            while at < len {
                let end = (at + MAX + 1000).min(len);
                let n = cut(shape, &bytes[at..end], end == len).unwrap();
                seen.push(n);
                at += n;
            }
            if len > WHOLE {
                prop_assert_eq!(seen, whole);
            }
        }
    }
}
