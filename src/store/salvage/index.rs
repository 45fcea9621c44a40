//! What indexes say: the key of a row, with the row's id.

use rusqlite::types::ValueRef;

use super::book::Book;
use super::cell::Cell;
use super::page::{Kind, Page};
use super::record::values;
use super::wal::FRAME;

/// Bytes that are held of the file.
const CHUNK: usize = 1 << 20;

/// Calls `f` with id and text of every entry of an index over one column of texts, in no order and
/// some more than once. An entry is believed by nobody who can't prove it.
pub fn text_entries(book: &Book, f: &mut dyn FnMut(i64, &str)) {
    let mut buf = Vec::new();
    let size = book.page_size();
    let parts = [
        (&book.db, 0, size, 0),
        (
            &book.log.medium,
            book.log.content(0).saturating_sub(FRAME as u64),
            book.stride(),
            FRAME,
        ),
    ];
    for (medium, begin, stride, skip) in parts {
        let step = (CHUNK / stride).max(1) * stride;
        let mut at = begin;
        while at < medium.len() {
            let left = usize::try_from(medium.len() - at).unwrap_or(usize::MAX);
            buf.resize(step.min(left.div_ceil(stride).saturating_mul(stride)), 0);
            medium.read(at, &mut buf);
            for page in buf.chunks_exact(stride) {
                if let Some(page) = page.get(skip..skip + book.usable()) {
                    entries(page, f);
                }
            }
            at += step as u64;
        }
    }
}

fn entries(bytes: &[u8], f: &mut dyn FnMut(i64, &str)) {
    let page = Page::new(bytes);
    let is_leaf = match page.kind() {
        Some(Kind::IndexLeaf) => true,
        Some(Kind::IndexInterior) => false,
        _ => return,
    };
    let mut columns = Vec::new();
    for at in page.cells().flatten() {
        let local = Cell::of_index(bytes, at, is_leaf)
            .filter(|c| c.overflow.is_none())
            .and_then(|c| bytes.get(c.local.0..c.local.1));
        if local.and_then(|l| values(l, 0, &mut columns)).is_some()
            && let [ValueRef::Text(text), ValueRef::Integer(id)] = columns[..]
            && let Ok(text) = std::str::from_utf8(text)
        {
            f(id, text);
        }
    }
}
