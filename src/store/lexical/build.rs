//! How the index is made and kept up to date.
//!
//! A new one is built aside, in batches that commit with the place they have come to, so that a
//! killed build goes on where it was; it is verified, and then `CURRENT` names it. What is there is
//! brought up to date in its WAL. One thread reads the archive and makes tokens, one writes.

use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender, bounded};
use rusqlite::Connection;

use super::schema::{
    FORMAT, Meta, NEWEST, Newest, Served, Table, first_from, fts_rows, kind_code, make, role_code,
};
use super::state::{Looked, Stamp, State, Survey, current, folders, look_until, verify};
use super::tokens::{self, Columns, Form, MAX_TEXT};
use crate::disk::{ArchiveExclusive, Capture, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::interrupt::{Interrupt, Until};
use crate::model::progress::Progress;
use crate::store::archive::{ArchiveReader, TextRow};
use crate::store::{layout, sqlite};

/// Bytes of text that one thread hands the other at a time, and rows.
const HAND_OVER: usize = 1 << 20;
const HAND_OVER_ROWS: usize = 4096;
/// Bytes of text between two commits.
const COMMIT: usize = 64 << 20;

/// Why an index was made anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// There was none.
    Missing,
    /// A build that was not finished went on.
    Unfinished,
    /// Another version of the program or another generation of the archive.
    Outdated,
    /// It held other messages than it should.
    Hollow,
    /// It could not be read.
    Corrupt,
    /// Nothing was wrong with it: somebody wants it made anew.
    Asked,
}

/// What a run did to the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refreshed {
    /// The index that is searched now.
    pub id: String,
    /// Why it was made anew; `None` when it was brought up to date or left alone.
    pub rebuilt: Option<Cause>,
    /// Messages added.
    pub added: u64,
    /// Messages taken out, because newer versions of them came.
    pub removed: u64,
    /// What it serves.
    pub served: Served,
}

impl Refreshed {
    /// Whether anything was written.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.rebuilt.is_some() || self.added > 0 || self.removed > 0
    }
}

/// Brings the index up to date with the archive, or makes it anew where it can't be. With `deep`
/// the whole of what is there is verified first. No connection to the archive may be open for
/// writing. `None` when there is no archive.
///
/// # Errors
/// `interrupted` and `terminated`, with what was done kept for the next run; `no-space`,
/// `permission-denied`, `io`; what the archive says. The archive is never touched.
pub fn refresh(
    cap: Capture<'_>,
    deep: bool,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Option<Refreshed>> {
    let root = cap.root();
    let until = Until::new(interrupt, None);
    let Some(Looked {
        survey: found,
        index,
        archive,
    }) = asked(interrupt, look_until(root, &until))?
    else {
        return Ok(None);
    };
    // Never a reader of it in a process that writes to it.
    drop(index);
    let messages = archive.counts()?.messages;
    let cause = match asked(interrupt, judged(root, &found, deep, &until))? {
        None => {
            let done = update(cap, archive, &found, messages, progress, interrupt);
            match done {
                Ok(done) => return Ok(Some(done)),
                // Damage that shows when it is written to.
                Err(e) if is_damage(&e) => Cause::Corrupt,
                Err(e) => return Err(e),
            }
        }
        Some(cause) => {
            drop(archive);
            cause
        }
    };
    // One that was finished, but for want of room or time never named: who builds now makes it again.
    let live = current(root)?;
    sweep(cap, &|id| {
        let named = live.as_deref() == Some(id);
        Ok(!named && root.exists(&layout::lexical_stamp(id))?)
    })?;
    let archive = ArchiveReader::open(root)?.ok_or_else(gone)?;
    rebuild(cap, archive, cause, messages, progress, interrupt).map(Some)
}

/// Makes the index anew, whatever the one is that is there. `None` when there is no archive.
///
/// # Errors
/// As [`refresh`].
pub fn renew(
    cap: Capture<'_>,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Option<Refreshed>> {
    let Some(archive) = ArchiveReader::open(cap.root())? else {
        return Ok(None);
    };
    let messages = archive.counts()?.messages;
    rebuild(cap, archive, Cause::Asked, messages, progress, interrupt).map(Some)
}

fn gone() -> Error {
    Error::new(ErrorKind::ArchiveMissing, "the archive vanished")
}

/// What was looked at, unless a signal ended the look.
fn asked<T>(interrupt: &Interrupt, looked: Result<T>) -> Result<T> {
    interrupt.check()?;
    looked
}

fn is_damage(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::ArchiveCorrupt | ErrorKind::ArchiveUnreadable | ErrorKind::ArchiveMissing
    )
}

/// Why the index has to be made anew; `None` when it has not.
fn judged(root: &Root, found: &Survey, deep: bool, until: &Until) -> Result<Option<Cause>> {
    Ok(match found.state {
        State::Missing => Some(Cause::Missing),
        State::Building { .. } => Some(Cause::Unfinished),
        State::Outdated { .. } => Some(Cause::Outdated),
        State::Hollow { .. } => Some(Cause::Hollow),
        State::Corrupt { .. } => Some(Cause::Corrupt),
        // Someone else wrote to it, or it was copied: what a few rows tell is not enough.
        State::Ready | State::Stale { .. } if deep || !found.as_left => {
            verify(root, until)?.map(|_| Cause::Corrupt)
        }
        State::Ready | State::Stale { .. } => None,
    })
}

/// Adds what is new.
fn update(
    cap: Capture<'_>,
    archive: ArchiveReader,
    found: &Survey,
    messages: u64,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Refreshed> {
    let root = cap.root();
    let id = found.id.clone().unwrap_or_default();
    let mut done = Refreshed {
        id: id.clone(),
        rebuilt: None,
        added: 0,
        removed: 0,
        served: found.served,
    };
    if found.state == State::Ready {
        drop(archive);
        if !found.as_left {
            stamp(cap, &id)?;
        }
        // What a reader had kept from being removed.
        if folders(root)?.len() > 1 {
            sweep(cap, &|other| Ok(other != id))?;
        }
        return Ok(done);
    }
    let path = root.full(&layout::lexical_db(&id));
    let conn = sqlite::open_write(&path, false)?;
    // What a power cut takes back is added again by the next run.
    conn.pragma_update(None, "synchronous", "NORMAL")
        .map_err(|e| sqlite::failed("open", &path, e))?;
    let meta = Meta::read(&conn)
        .map_err(|e| sqlite::failed("read", &path, e))?
        .ok_or_else(|| damaged(&path, "it does not say what it serves"))?;
    progress.phase("lexical", Some(messages.saturating_sub(meta.served.rows())));
    let mut index = Index::new(conn, path, meta);
    index.feed(archive, progress, interrupt)?;
    (done.added, done.removed, done.served) = (index.added, index.removed, index.meta.served);
    index.close(cap)?;
    stamp(cap, &id)?;
    Ok(done)
}

/// Makes the index anew, beside the one that is there, and puts it in its place.
fn rebuild(
    cap: Capture<'_>,
    archive: ArchiveReader,
    cause: Cause,
    messages: u64,
    progress: &dyn Progress,
    interrupt: &Interrupt,
) -> Result<Refreshed> {
    let root = cap.root();
    let live = current(root)?;
    clear_the_way(cap)?;
    let (id, index) = candidate(cap, &archive, live.as_deref())?;
    let mut index = match index {
        Some(index) => index,
        None => begin(cap, &archive, &id)?,
    };
    progress.phase(
        "lexical",
        Some(messages.saturating_sub(index.meta.served.rows())),
    );
    index.feed(archive, progress, interrupt)?;
    index.check()?;
    let (added, removed, served) = (index.added, index.removed, index.meta.served);
    let path = index.path.clone();
    drop(index);
    // Into WAL mode before anyone can read it: from then on only a checkpoint changes the file.
    drop(sqlite::open_write(&path, false)?);
    cap.sync_dir(&format!("{}/{id}", layout::LEXICAL))?;
    stamp(cap, &id)?;
    cap.replace(layout::LEXICAL_CURRENT, format!("{id}\n").as_bytes())?;
    sweep(cap, &|other| Ok(other != id))?;
    Ok(Refreshed {
        id,
        rebuilt: Some(cause),
        added,
        removed,
        served,
    })
}

/// Makes the folder of the indexes. What is in the way there is removed: it is none of ours.
fn clear_the_way(cap: Capture<'_>) -> Result<()> {
    let root = cap.root();
    cap.make_derived_folder(layout::LEXICAL)?;
    if matches!(root.list(layout::LEXICAL_CURRENT), Ok(Some(_))) {
        cap.remove_derived_folder(layout::LEXICAL_CURRENT)?;
    }
    Ok(())
}

/// An unfinished build of this archive to go on with, or the next free name. Any other unfinished one is
/// removed: nobody reads it, and builds that fail one after another would leave one each.
fn candidate(
    cap: Capture<'_>,
    archive: &ArchiveReader,
    live: Option<&str>,
) -> Result<(String, Option<Index>)> {
    let root = cap.root();
    let mut last = 0;
    for id in folders(root)?.into_iter().rev() {
        last = last.max(id.get(1..).and_then(|d| d.parse::<u32>().ok()).unwrap_or(0));
        // One with a stamp was finished, and a reader may still be in it.
        if live == Some(id.as_str()) || root.exists(&layout::lexical_stamp(&id))? {
            continue;
        }
        let path = root.full(&layout::lexical_db(&id));
        if root.exists(&layout::lexical_db(&id))?
            && let Ok(conn) = sqlite::open_aside(&path)
            && let Ok(Some(meta)) = Meta::read(&conn)
            && goes_on(&conn, &meta, archive)
        {
            return Ok((id, Some(Index::new(conn, path, meta))));
        }
        cap.remove_derived_folder(&format!("{}/{id}", layout::LEXICAL))?;
    }
    Ok((
        format!("l{:08}", last.saturating_add(1) % 100_000_000),
        None,
    ))
}

/// Whether an unfinished build is one of this archive as it is now.
fn goes_on(conn: &Connection, meta: &Meta, archive: &ArchiveReader) -> bool {
    let here = &archive.generation().manifest;
    meta.is_ours()
        && meta.archive_id == here.archive_id
        && meta.generation == here.generation.as_str()
        && fts_rows(conn, Table::Message).is_ok_and(|n| n == Some(meta.served.documents))
        && fts_rows(conn, Table::Newest).is_ok_and(|n| n == Some(meta.newest.documents))
        && archive
            .last_text()
            .is_ok_and(|last| meta.last_message <= last)
}

fn begin(cap: Capture<'_>, archive: &ArchiveReader, id: &str) -> Result<Index> {
    let here = &archive.generation().manifest;
    let meta = Meta {
        format: FORMAT,
        tokens: tokens::VERSION,
        archive_id: here.archive_id.clone(),
        generation: here.generation.to_string(),
        commit: 0,
        head: archive.head()?.head,
        last_message: 0,
        last_record: 0,
        served: Served::default(),
        complete: false,
        messages: 0,
        newest: Newest::default(),
    };
    let folder = format!("{}/{id}", layout::LEXICAL);
    // Whatever has the name was not usable.
    cap.remove_derived_folder(&folder)?;
    cap.create_dir(&folder)?;
    let path = cap.root().full(&layout::lexical_db(id));
    let conn = sqlite::open_aside(&path)?;
    make(&conn, &path, &meta)?;
    Ok(Index::new(conn, path, meta))
}

/// Removes the indexes that are to go, unless a reader may be in one.
fn sweep(cap: Capture<'_>, goes: &dyn Fn(&str) -> Result<bool>) -> Result<()> {
    let Some(_nobody) = ArchiveExclusive::try_acquire(cap.lock())? else {
        return Ok(());
    };
    for id in folders(cap.root())? {
        if goes(&id)? {
            cap.remove_derived_folder(&format!("{}/{id}", layout::LEXICAL))?;
        }
    }
    Ok(())
}

fn stamp(cap: Capture<'_>, id: &str) -> Result<()> {
    let Some(stamp) = Stamp::of(cap.root(), id) else {
        return Ok(());
    };
    let bytes = serde_json::to_vec(&stamp).map_err(|e| {
        Error::new(ErrorKind::Internal, "a stamp can't be written as JSON").with_source(e)
    })?;
    cap.replace(&layout::lexical_stamp(id), &bytes)
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::ArchiveCorrupt,
        format!("the lexical index {}: {what}", path.display()),
    )
}

/// A message as the index holds it.
struct Doc {
    id: i64,
    conversation: i64,
    role: i64,
    kind: i64,
    time_ms: Option<i64>,
    columns: Columns,
}

/// What one thread hands the other.
#[derive(Default)]
struct Batch {
    docs: Vec<Doc>,
    /// What the rows of this batch that hold no document are, and those that were cut.
    served: Served,
    last: i64,
    rows: u64,
    bytes: usize,
}

impl Batch {
    fn take(&mut self, row: TextRow) {
        self.last = row.id;
        self.rows += 1;
        let (Some(role), Some(kind), Some(text)) = (row.role, row.kind, row.text) else {
            self.served.unreadable += 1;
            return;
        };
        if row.superseded {
            self.served.superseded += 1;
            return;
        }
        let columns = Columns::of(&text, Form::of(kind, &text));
        if columns.parts.is_empty() {
            self.served.empty += 1;
            return;
        }
        self.served.cut += u64::from(text.len() > MAX_TEXT);
        self.bytes += text.len().min(MAX_TEXT);
        self.docs.push(Doc {
            id: row.id,
            conversation: row.conversation,
            role: role_code(role),
            kind: kind_code(kind),
            time_ms: row.time_ms,
            columns,
        });
    }

    fn is_full(&self) -> bool {
        self.bytes >= HAND_OVER || self.docs.len() >= HAND_OVER_ROWS || self.rows >= 65_536
    }
}

/// An index, open for writing.
struct Index {
    conn: Connection,
    path: PathBuf,
    meta: Meta,
    added: u64,
    removed: u64,
    /// The last document added and its first word, for the probe.
    probe: Option<(i64, String)>,
}

impl Index {
    fn new(conn: Connection, path: PathBuf, meta: Meta) -> Index {
        Index {
            conn,
            path,
            meta,
            added: 0,
            removed: 0,
            probe: None,
        }
    }

    fn sql<T>(&self, result: rusqlite::Result<T>) -> Result<T> {
        result.map_err(|e| sqlite::failed("write", &self.path, e))
    }

    /// Adds everything that the archive has and the index has not.
    fn feed(
        &mut self,
        archive: ArchiveReader,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let head = archive.head()?;
        let last_record = archive.last_record()?;
        let messages = archive.counts()?.messages;
        self.sql(self.conn.execute_batch("BEGIN IMMEDIATE"))?;
        archive.superseded_after(self.meta.last_record, &mut |range| self.remove(range))?;
        let mut touched = Ok(());
        archive.touched_after(self.meta.commit, &mut |c| {
            let of = &c.conversation;
            touched = self
                .conn
                .prepare_cached("INSERT OR REPLACE INTO conversation VALUES (?1,?2,?3,?4)")
                .and_then(|mut s| {
                    s.execute((c.id, of.provider.as_str(), &of.source_id, &of.workspace))
                })
                .map(drop);
            Ok(())
        })?;
        self.sql(touched)?;
        let after = self.meta.last_message;
        let archive = documents(archive, after, |batches| {
            self.write(batches, progress, interrupt)
        })?;
        self.renew(archive, interrupt)?;
        self.meta.messages = messages;
        self.meta.commit = head.commit;
        self.meta.head = head.head;
        self.meta.last_record = last_record;
        self.meta.complete = true;
        self.commit()
    }

    fn write(
        &mut self,
        receive: &Receiver<Batch>,
        progress: &dyn Progress,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let mut pending = 0;
        for batch in receive {
            self.add(&batch)?;
            pending += batch.bytes;
            progress.advance(batch.rows, batch.bytes as u64);
            if let Some(signal) = interrupt.pending() {
                self.commit()?;
                return Err(signal.error());
            }
            if pending >= COMMIT {
                pending = 0;
                self.commit()?;
                self.sql(self.conn.execute_batch("BEGIN IMMEDIATE"))?;
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.sql(self.meta.write(&self.conn))?;
        self.sql(self.conn.execute_batch("COMMIT"))
    }

    fn add(&mut self, batch: &Batch) -> Result<()> {
        let s = &batch.served;
        let mut served = self.meta.served;
        let mut refused = 0;
        // Never a number that was in use: taking a document out moves it from one to the other.
        let used = served.documents.saturating_add(served.superseded);
        let mut next = i64::try_from(used).unwrap_or(i64::MAX - 1) + 1;
        let mut last = next;
        let mut newest = self.meta.newest;
        let mut insert = || -> rusqlite::Result<u64> {
            let mut row = self
                .conn
                .prepare_cached("INSERT INTO doc VALUES (?1,?2,?3,?4,?5,?6)")?;
            let mut added = 0;
            for d in &batch.docs {
                last = next;
                match put(&self.conn, Table::Message, next, &d.columns) {
                    Ok(()) => {}
                    // A row that FTS5 itself does not take is left out, and counted.
                    Err(rusqlite::Error::SqliteFailure(e, _))
                        if matches!(
                            e.code,
                            rusqlite::ErrorCode::TooBig | rusqlite::ErrorCode::ConstraintViolation
                        ) =>
                    {
                        refused += 1;
                        continue;
                    }
                    Err(e) => return Err(e),
                }
                if newest.from > 0 {
                    put(&self.conn, Table::Newest, next, &d.columns)?;
                    newest.documents += 1;
                }
                row.execute((next, d.id, d.conversation, d.role, d.kind, d.time_ms))?;
                added += 1;
                next += 1;
            }
            Ok(added)
        };
        let added = insert();
        let added = self.sql(added)?;
        served.documents += added;
        served.superseded += s.superseded;
        served.empty += s.empty;
        served.unreadable += s.unreadable + refused;
        served.cut += s.cut;
        self.added += added;
        self.meta.newest = newest;
        self.meta.served = served;
        self.meta.last_message = batch.last;
        if let Some(d) = batch.docs.last() {
            let word = d.columns.parts.split(' ').next().unwrap_or_default();
            self.probe = (refused == 0).then(|| (last, word.to_owned()));
        }
        Ok(())
    }

    /// Makes the table of the newest documents anew when there are enough for one, and when it has
    /// grown to twice its size. It is a transaction of its own: a signal takes back no more.
    fn renew(&mut self, archive: ArchiveReader, interrupt: &Interrupt) -> Result<()> {
        let last = "SELECT coalesce(max(id),0) FROM doc";
        let last: i64 = self.sql(self.conn.query_row(last, [], |r| r.get(0)))?;
        let from = self.meta.newest.from;
        let due = match from {
            0 => last > NEWEST,
            from => last - from >= 2 * NEWEST,
        };
        if !due {
            return Ok(());
        }
        self.commit()?;
        self.sql(self.conn.execute_batch("BEGIN IMMEDIATE"))?;
        self.empty_newest()?;
        let from = last - NEWEST + 1;
        let ids = || -> rusqlite::Result<Vec<(i64, i64)>> {
            self.conn
                .prepare("SELECT archive_row, id FROM doc WHERE id>=?1 ORDER BY id")?
                .query_map([from], |r| Ok((r.get(0)?, r.get(1)?)))?
                .collect()
        };
        let ids = self.sql(ids())?;
        let Some((first, _)) = ids.first() else {
            return Ok(());
        };
        let mut found = 0;
        documents(archive, first - 1, |batches| {
            for batch in batches {
                interrupt.check()?;
                for d in &batch.docs {
                    let Ok(at) = ids.binary_search_by_key(&d.id, |(row, _)| *row) else {
                        // One that FTS5 does not take.
                        continue;
                    };
                    if let Some((_, id)) = ids.get(at) {
                        self.sql(put(&self.conn, Table::Newest, *id, &d.columns))?;
                        found += 1;
                    }
                }
            }
            Ok(())
        })?;
        self.meta.newest = Newest {
            from,
            documents: found,
        };
        if u64::try_from(ids.len()) != Ok(found) {
            // A row that could be read before: what is incomplete is no help.
            self.empty_newest()?;
        }
        Ok(())
    }

    fn empty_newest(&mut self) -> Result<()> {
        let empty = "INSERT INTO newest(newest) VALUES ('delete-all')";
        self.sql(self.conn.execute_batch(empty))?;
        self.meta.newest = Newest::default();
        Ok(())
    }

    /// Takes out the messages in a range of row numbers.
    fn remove(&mut self, (first, last): (i64, i64)) -> Result<()> {
        let newest = self.meta.newest.from;
        let delete = || -> rusqlite::Result<(u64, u64)> {
            let (mut n, mut of_newest) = (0, 0);
            let from = first_from(&self.conn, first)?;
            let behind = first_from(&self.conn, last.saturating_add(1))?;
            let mut found = self
                .conn
                .prepare_cached("SELECT id FROM doc WHERE id>=?1 AND id<?2")?;
            let ids: Vec<i64> = found
                .query_map((from, behind), |r| r.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            for id in ids {
                self.conn
                    .prepare_cached("DELETE FROM message WHERE rowid=?1")?
                    .execute([id])?;
                self.conn
                    .prepare_cached("DELETE FROM doc WHERE id=?1")?
                    .execute([id])?;
                n += 1;
                if newest > 0 && id >= newest {
                    self.conn
                        .prepare_cached("DELETE FROM newest WHERE rowid=?1")?
                        .execute([id])?;
                    of_newest += 1;
                }
            }
            Ok((n, of_newest))
        };
        let removed = delete();
        let (n, of_newest) = self.sql(removed)?;
        let left = self.meta.newest.documents.saturating_sub(of_newest);
        self.meta.newest.documents = left;
        self.removed += n;
        self.meta.served.documents = self.meta.served.documents.saturating_sub(n);
        self.meta.served.superseded += n;
        Ok(())
    }

    /// What a finished build must hold before it is searched.
    fn check(&self) -> Result<()> {
        let documents = self.meta.served.documents;
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table}");
            let n = self.conn.query_row(&sql, [], |r| r.get::<_, i64>(0));
            self.sql(n).map(|n| u64::try_from(n).unwrap_or(0))
        };
        let of_newest = self.meta.newest.documents;
        for (table, documents) in [(Table::Message, documents), (Table::Newest, of_newest)] {
            let t = table.name();
            let fts = self.sql(fts_rows(&self.conn, table))?.unwrap_or(0);
            let sizes = count(&format!("{t}_docsize"))?;
            if [fts, sizes] != [documents; 2] {
                return Err(damaged(
                    &self.path,
                    &format!("{t} holds {fts}, {sizes} documents instead of {documents}"),
                ));
            }
            let whole = format!("INSERT INTO {t}({t}, rank) VALUES ('integrity-check', 0)");
            self.sql(self.conn.execute_batch(&whole))?;
        }
        let docs = count("doc")?;
        if docs != documents {
            return Err(damaged(
                &self.path,
                &format!("it knows {docs} documents instead of {documents}"),
            ));
        }
        if let Some((id, word)) = &self.probe {
            let sql = "SELECT count(*) FROM message WHERE message MATCH ?1 AND rowid=?2";
            let n = self
                .conn
                .query_row(sql, (format!("\"{word}\""), id), |r| r.get::<_, i64>(0));
            if self.sql(n)? != 1 {
                return Err(damaged(
                    &self.path,
                    "its last document is not found by its first word",
                ));
            }
        }
        Ok(())
    }

    /// Folds the WAL in, if no reader is there.
    fn close(self, cap: Capture<'_>) -> Result<()> {
        let Some(exclusive) = ArchiveExclusive::try_acquire(cap.lock())? else {
            return Ok(());
        };
        match sqlite::checkpoint(&self.conn, &exclusive) {
            // It waits in the WAL, where it is read.
            Err(e) if !matches!(e.kind(), ErrorKind::LockBusy | ErrorKind::NoSpace) => Err(e),
            _ => Ok(()),
        }
    }
}

/// Adds a document to a table.
fn put(conn: &Connection, table: Table, id: i64, columns: &Columns) -> rusqlite::Result<()> {
    let sql = match table {
        Table::Message => "INSERT INTO message(rowid, p, w) VALUES (?1,?2,?3)",
        Table::Newest => "INSERT INTO newest(rowid, p, w) VALUES (?1,?2,?3)",
    };
    conn.prepare_cached(sql)?
        .execute((id, &columns.parts, &columns.wholes))
        .map(drop)
}

/// Gives `take` what is behind row `after` of the archive, which is read meanwhile.
fn documents(
    archive: ArchiveReader,
    after: i64,
    take: impl FnOnce(&Receiver<Batch>) -> Result<()>,
) -> Result<ArchiveReader> {
    // Few, because one message can have many megabytes.
    let (send, receive) = bounded::<Batch>(1);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let read = read(&archive, after, &send);
            (archive, read)
        });
        let taken = take(&receive);
        // The reader ends when nobody takes what it gives.
        drop(receive);
        let (archive, read) = reader
            .join()
            .map_err(|_| Error::new(ErrorKind::Internal, "a thread ended in a bug"))?;
        taken.and(read)?;
        Ok(archive)
    })
}

/// Reads texts and makes tokens until there is no more or nobody takes them.
fn read(archive: &ArchiveReader, after: i64, send: &Sender<Batch>) -> Result<()> {
    let mut batch = Batch::default();
    let mut taken = true;
    archive.texts_after(after, &mut |row| {
        batch.take(row);
        if batch.is_full() {
            taken = send.send(std::mem::take(&mut batch)).is_ok();
        }
        Ok(taken)
    })?;
    if taken && batch.rows > 0 {
        let _ = send.send(batch);
    }
    Ok(())
}
