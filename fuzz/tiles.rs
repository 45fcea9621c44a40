//! What holds for the pieces of any bytes.

use cass::model::digest::Digest;
use cass::model::record::{Disposition, Piece, SkipReason, Span};

pub fn span(piece: &Piece) -> Span {
    match piece {
        Piece::Record(r) => r.span,
        Piece::Separator(span) | Piece::Skipped { span, .. } => *span,
    }
}

pub fn slice<'b>(bytes: &'b [u8], span: &Span) -> &'b [u8] {
    &bytes[usize::try_from(span.offset).unwrap()..usize::try_from(span.end()).unwrap()]
}

/// Pieces are not empty, follow each other, end where the content ends; lines, hashes and what lies
/// in each piece are right; a torn tail is the last piece.
pub fn check_tiles(pieces: &[Piece], from: u64, bytes: &[u8], from_line: u64) {
    let mut at = from;
    let mut line = from_line;
    for (n, piece) in pieces.iter().enumerate() {
        let s = span(piece);
        assert_eq!(s.offset, at, "gap or overlap before piece {n}");
        assert!(s.len > 0, "empty piece {n}");
        at = s.end();
        let raw = slice(bytes, &s);
        match piece {
            Piece::Record(r) => {
                assert_eq!(r.hash, Digest::of(raw));
                assert_eq!(r.line, line, "line of {s:?}");
                assert!(!r.session.is_empty());
                assert!(!raw.contains(&0));
                if let Disposition::Messages(m) = &r.disposition {
                    assert!(!m.is_empty());
                }
                if let Disposition::DuplicateOf { offset } = r.disposition {
                    assert!(offset < s.offset, "{offset} {s:?}");
                }
            }
            Piece::Separator(_) => {
                let raw = if s.offset == 0 {
                    raw.strip_prefix(b"\xef\xbb\xbf").unwrap_or(raw)
                } else {
                    raw
                };
                assert!(raw.iter().all(|b| b" \t\r\n".contains(b)), "{raw:?}");
            }
            Piece::Skipped {
                line: l, reason, ..
            } => {
                assert_eq!(*l, line);
                assert_eq!(*reason == SkipReason::NulBlock, raw.iter().all(|b| *b == 0));
                if *reason == SkipReason::TornTail {
                    assert_eq!(n + 1, pieces.len(), "torn tail before the end");
                }
            }
        }
        line += raw.iter().filter(|b| **b == b'\n').count() as u64;
    }
    assert_eq!(
        at,
        u64::try_from(bytes.len()).unwrap(),
        "pieces end before the content"
    );
}

/// Pieces with separators and NUL blocks that touch put together: where a source ended when it was
/// read, such a run may be cut in two.
pub fn merged(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut out: Vec<Piece> = Vec::new();
    for piece in pieces {
        match (out.last_mut(), &piece) {
            (Some(Piece::Separator(last)), Piece::Separator(span)) => last.len += span.len,
            (
                Some(Piece::Skipped {
                    span: last,
                    reason: SkipReason::NulBlock,
                    ..
                }),
                Piece::Skipped {
                    span,
                    reason: SkipReason::NulBlock,
                    ..
                },
            ) => last.len += span.len,
            _ => out.push(piece),
        }
    }
    out
}
