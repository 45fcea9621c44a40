//! Rows that were found, read again.

use std::ops::ControlFlow;

use rusqlite::types::ValueRef;

use super::Tables;
use super::book::{Book, View};
use super::cell::Cell;
use super::found::{Place, Run};
use super::overflow::{Budget, Near, follow};
use super::page::Page;
use super::record::{COLUMNS_MAX, Header, Look};

/// Reads rows that were found; keeps the page of the last one.
#[derive(Debug, Default)]
pub struct Reader {
    page: Vec<u8>,
    at: Option<(bool, u64)>,
    rest: Rest,
}

/// What a row is put together with.
#[derive(Debug, Default)]
struct Rest {
    header: Header,
    payload: Vec<u8>,
}

/// Which rows are read: those of one table, by the tables' hashes where that is in doubt.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'t, T> {
    /// Every table.
    pub tables: &'t T,
    /// Which of them.
    pub table: usize,
    /// Lowest and highest row id.
    pub ids: (i64, i64),
}

impl Reader {
    /// Calls `f` with the columns of each row of a run that is wanted, ids ascending, until it
    /// breaks. Rows that can't be read because the file has changed since are left out.
    pub fn rows<T: Tables, B>(
        &mut self,
        book: &Book,
        wanted: &Wanted<'_, T>,
        run: Run,
        f: &mut dyn FnMut(&[ValueRef<'_>]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let (begin, cell) = book.within(run.place);
        let at = (run.place.in_log(), begin);
        if self.at != Some(at) {
            book.read_page(run.place, &mut self.page);
            self.at = Some(at);
        }
        let Some(page) = self.page.get(..book.usable()) else {
            return ControlFlow::Continue(());
        };
        if cell > 0 {
            return self.rest.row(book, wanted, run.place, (page, cell), f);
        }
        for at in Page::new(page).cells().flatten() {
            self.rest.row(book, wanted, run.place, (page, at), f)?;
        }
        ControlFlow::Continue(())
    }
}

impl Rest {
    fn row<T: Tables, B>(
        &mut self,
        book: &Book,
        wanted: &Wanted<'_, T>,
        place: Place,
        (page, at): (&[u8], usize),
        f: &mut dyn FnMut(&[ValueRef<'_>]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let none = ControlFlow::Continue(());
        let Some(cell) = Cell::of_table(page, at) else {
            return none;
        };
        let (from, to) = wanted.ids;
        let Some(local) = page.get(cell.local.0..cell.local.1) else {
            return none;
        };
        if cell.rowid < from || cell.rowid > to {
            return none;
        }
        let mut values = [ValueRef::Null; COLUMNS_MAX];
        let Some(first) = cell.overflow else {
            if self.header.read(local, cell.payload) == Look::Fits
                && let Some(columns) = self.header.values(local, cell.rowid, &mut values)
            {
                return f(columns);
            }
            return none;
        };
        let frame = place.in_log().then(|| book.log.frame_at(place.offset()));
        let views = views(book, frame);
        let budget = Budget::of(book);
        for view in views.iter().flatten() {
            self.payload.clear();
            self.payload.extend_from_slice(local);
            let want = cell.payload - local.len();
            let near = Near::default();
            if !follow(book, *view, near, first, want, &budget, &mut self.payload)
                || self.header.read(&self.payload, cell.payload) != Look::Fits
            {
                continue;
            }
            let mut values = [ValueRef::Null; COLUMNS_MAX];
            let Some(columns) = self.header.values(&self.payload, cell.rowid, &mut values) else {
                continue;
            };
            let is_sure = views[1].is_none();
            let table = Some(wanted.table);
            if is_sure || wanted.tables.table_of(columns, &mut T::Scratch::default()) == table {
                return f(columns);
            }
        }
        none
    }
}

/// The states of the pages behind a row that its rest may lie in: those of its own commit, the
/// newest, those of the database. Without a WAL there is one.
pub(super) fn views(book: &Book, frame: Option<usize>) -> [Option<View>; 3] {
    let newest = View::UpTo(usize::MAX);
    match frame {
        _ if book.log.frames.is_empty() => [Some(View::Database), None, None],
        Some(frame) => {
            let own = View::UpTo(book.log.commit_of(frame));
            [Some(own), Some(newest), Some(View::Database)]
        }
        None => [Some(View::Database), Some(newest), None],
    }
}
