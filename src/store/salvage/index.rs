//! What indexes say: the key of a row, with the row's id.

use rusqlite::types::ValueRef;

use super::book::Book;
use super::cell::Cell;
use super::found::Place;
use super::page::{Kind, Page};
use super::record::{COLUMNS_MAX, Header, Look};

/// Calls `f` with id and text of every entry of an index over one column of texts on these pages,
/// in no order and some more than once. An entry is believed by nobody who can't prove it.
pub fn text_entries(book: &Book, pages: &[Place], f: &mut dyn FnMut(i64, &str)) {
    let mut buf = vec![0; book.page_size()];
    let mut header = Header::default();
    for place in pages {
        book.read_page(*place, &mut buf);
        let Some(bytes) = buf.get(..book.usable()) else {
            return;
        };
        entries(bytes, &mut header, f);
    }
}

fn is_leaf(page: Page<'_>) -> Option<bool> {
    match page.kind()? {
        Kind::IndexLeaf => Some(true),
        Kind::IndexInterior => Some(false),
        Kind::TableLeaf | Kind::TableInterior => None,
    }
}

/// Calls `f` with every entry of a page that has a text and a number, until it says false.
fn texts<'a>(page: Page<'a>, header: &mut Header, f: &mut dyn FnMut(&Header, &'a [u8]) -> bool) {
    let Some(is_leaf) = is_leaf(page) else {
        return;
    };
    for at in page.cells().flatten() {
        let local = Cell::of_index(page.bytes, at, is_leaf)
            .filter(|c| c.overflow.is_none())
            .and_then(|c| page.bytes.get(c.local.0..c.local.1));
        if let Some(local) = local
            && header.read(local, local.len()) == Look::Fits
            && header.is_text_and_number()
            && !f(header, local)
        {
            return;
        }
    }
}

/// Whether an entry of an index over one column of texts lies on a page.
pub(super) fn has_texts(page: Page<'_>, header: &mut Header) -> bool {
    let mut found = false;
    texts(page, header, &mut |_, _| {
        found = true;
        false
    });
    found
}

fn entries(bytes: &[u8], header: &mut Header, f: &mut dyn FnMut(i64, &str)) {
    texts(Page::new(bytes), header, &mut |header, local| {
        let mut values = [ValueRef::Null; COLUMNS_MAX];
        if let Some([ValueRef::Text(text), ValueRef::Integer(id)]) =
            header.values(local, 0, &mut values)
            && let Ok(text) = std::str::from_utf8(text)
        {
            f(*id, text);
        }
        true
    });
}
