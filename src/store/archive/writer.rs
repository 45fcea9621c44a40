//! The archive as the holder of the writer lock sees it.

use std::marker::PhantomData;

use std::collections::{HashMap, HashSet};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::append::{CaptureRef, Cursor, SourceAppend};
use super::failed;
use super::row_hash::RowHash;
use super::rows::{get_digest, get_u64, put, text};
use super::schema::{self, APPLICATION_ID, META, SCHEMA_VERSION};
use super::state::SourceRow;
use super::verify;
use crate::disk::{ArchiveExclusive, Capture, Root, WriterLock};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::source::SourceKey;
use crate::store::coverage::{CommitLine, CoverageWriter, Line, PromoteLine, Tail};
use crate::store::generation::{self, Generation, GenerationId, Live, Manifest};
use crate::store::{backup, layout, sqlite, version};

/// The error where generations lie that neither `CURRENT` nor the coverage ledger names.
fn unnamed(root: &Root, id: &GenerationId) -> Error {
    Error::new(
        ErrorKind::ArchiveMissing,
        format!(
            "{} holds an archive, and neither CURRENT nor the coverage ledger is there to name it",
            root.full(&format!("{}/{id}", layout::GENERATIONS))
                .display()
        ),
    )
    .with_hint("Nothing was written to it; captures go on. Look at what is left.")
    .with_hint_argv(["cass", "doctor", "check"])
}

/// The error where backups are all that is left of an archive.
fn only_backups(root: &Root) -> Error {
    Error::new(
        ErrorKind::ArchiveMissing,
        format!(
            "the archive in {} is gone, and there are backups of it",
            root.path().display()
        ),
    )
    .with_hint("Captures go on. This plans the restore of a backup, with what was captured since:")
    .with_hint_argv(["cass", "doctor", "repair"])
}

/// Names of the rows of `meta`.
pub(super) const META_NAMES: [&str; 4] = ["archive_id", "generation", "created_ms", "cass_version"];

/// The end of a commit chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Number of the last commit; 0 when there is none.
    pub commit: u64,
    /// Its head.
    pub head: Digest,
}

/// What opening a writer found to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriterState {
    /// Commits whose coverage line a crash had kept from being written; they have one now.
    pub backfilled: u64,
    /// Bytes of a torn coverage line that was dropped.
    pub torn_bytes: u64,
    /// Whether the whole coverage ledger was gone and was written anew from the archive.
    pub ledger_rebuilt: bool,
    /// Whether the generation was made now.
    pub created: bool,
}

/// The archive, open for appending.
#[derive(Debug)]
pub struct ArchiveWriter<'l> {
    pub(super) conn: Connection,
    pub(super) shared: Shared<'l>,
}

/// What an append needs beside the connection.
#[derive(Debug)]
pub(super) struct Shared<'l> {
    /// Nothing is written once the writer lock is gone.
    pub lock: PhantomData<Capture<'l>>,
    pub generation: Generation,
    /// `None` while staging: nothing promises what a candidate holds.
    pub coverage: Option<CoverageWriter>,
    pub head: Head,
    pub next: NextIds,
    pub found: WriterState,
    /// Rows of a candidate that were put without some of their messages, which no better holder
    /// has given since.
    pub incomplete: HashSet<i64>,
    /// Commits between two acknowledgements.
    pub batch: usize,
    /// Commits whose coverage line is still to be written.
    pub unacknowledged: Vec<CommitLine>,
}

impl Shared<'_> {
    /// Writes and syncs the coverage lines of commits that are durable.
    pub fn write_lines(&mut self) -> Result<()> {
        let lines = std::mem::take(&mut self.unacknowledged);
        let Some(coverage) = &mut self.coverage else {
            return Ok(());
        };
        for line in lines {
            coverage.append(&mut Line::Commit(line))?;
        }
        coverage.sync()
    }

    /// Takes note of a commit, and promises it when its batch is full.
    pub fn committed(&mut self, line: &CommitLine, head: Head, next: NextIds) -> Result<()> {
        self.next = next;
        self.head = head;
        if self.coverage.is_none() {
            return Ok(());
        }
        self.unacknowledged.push(line.clone());
        if self.unacknowledged.len() >= self.batch {
            self.write_lines()?;
        }
        Ok(())
    }
}

/// The next free row ids.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextIds {
    pub source: i64,
    pub conversation: i64,
    pub record: i64,
    pub skip: i64,
    pub capture: i64,
    pub touched: i64,
}

impl NextIds {
    pub(super) fn read(conn: &Connection) -> Result<NextIds> {
        let next = |table: &str| -> Result<i64> {
            conn.query_row(&format!("SELECT max(id) FROM {table}"), [], |r| {
                r.get::<_, Option<i64>>(0)
            })
            .map(|max| max.unwrap_or(0).saturating_add(1))
            .map_err(|e| failed(conn, "read", e))
        };
        Ok(NextIds {
            source: next("sources")?,
            conversation: next("conversations")?,
            record: next("records")?,
            skip: next("skips")?,
            capture: next("commit_captures")?,
            touched: next("commit_conversations")?,
        })
    }
}

impl<'l> ArchiveWriter<'l> {
    /// Opens the live archive, or makes the first generation where none ever was.
    ///
    /// # Errors
    /// As [`ArchiveWriter::open`] and [`ArchiveWriter::create_generation`], and what
    /// [`generation::locate`] says about a data directory that is not in order.
    pub fn open_or_create(cap: Capture<'l>, now_ms: i64) -> Result<Self> {
        match generation::locate(cap.root())? {
            Live::Present(live) => Self::open(cap, live),
            Live::Never { .. } => Self::create_generation(cap, now_ms),
        }
    }

    /// Opens the archive of `generation`, the live one. Coverage lines that a crash kept from
    /// being written are written now.
    ///
    /// # Errors
    /// `lost-commits` when the coverage ledger promises a commit that the archive does not hold:
    /// nothing may be committed on top. `archive-corrupt`, `schema-too-new`, `no-space`, `io`.
    pub fn open(cap: Capture<'l>, generation: Generation) -> Result<Self> {
        let path = cap.root().full(&layout::archive_db(generation.id.as_str()));
        let conn = sqlite::open_write(&path, false)?;
        check_header(&conn, &generation.manifest)?;
        if generation.manifest.origin.is_some() {
            check_origin(&conn, &generation.manifest)?;
        }
        let head = read_head(&conn)?;
        let (mut coverage, tail) = CoverageWriter::open(cap)?;
        let found = WriterState {
            torn_bytes: tail.as_ref().map_or(0, |t| t.torn_len),
            ..WriterState::default()
        };
        let next = NextIds::read(&conn)?;
        let mut writer = ArchiveWriter {
            conn,
            shared: Shared {
                lock: PhantomData,
                generation,
                coverage: None,
                head,
                next,
                found,
                incomplete: HashSet::new(),
                batch: 1,
                unacknowledged: Vec::new(),
            },
        };
        writer.reconcile(&mut coverage, tail)?;
        writer.shared.coverage = Some(coverage);
        Ok(writer)
    }

    /// Makes the first generation: staged in its folder, verified, then named by `CURRENT`, then
    /// promoted in the coverage ledger. What an interrupted creation left is used again if
    /// nothing was ever committed to it.
    ///
    /// # Errors
    /// `archive-corrupt` when the new generation does not verify; `no-space`, `io`.
    pub fn create_generation(cap: Capture<'l>, now_ms: i64) -> Result<Self> {
        let root = cap.root();
        let id = match generation::folders(root)?.pop() {
            Some(last) if is_unfinished(root, &last)? => {
                if is_of_older_schema(root, &last) {
                    last.next()
                } else {
                    last
                }
            }
            // Nothing names it, and it may be all there is: a new archive beside it would hide it.
            Some(last) => return Err(unnamed(root, &last)),
            // A new archive beside backups of another one would hide that this one is gone.
            None if !backup::list(root)?.is_empty() => return Err(only_backups(root)),
            None => generation::next_id(root)?,
        };
        let folder = format!("{}/{id}", layout::GENERATIONS);
        cap.create_dir(&folder)?;
        let db = layout::archive_db(id.as_str());
        let mut conn = sqlite::open_write(&root.full(&db), true)?;
        let manifest = match read_meta(&conn) {
            Ok(Some(manifest)) => manifest,
            _ => {
                let manifest = Manifest::made(&id, &uuid::Uuid::now_v7().to_string(), now_ms);
                write_schema(&mut conn, &manifest)?;
                manifest
            }
        };
        cap.sync_dir(&folder)?;
        generation::write_manifest(cap, &manifest)?;
        if let Some(exclusive) = ArchiveExclusive::try_acquire(cap.lock())? {
            sqlite::checkpoint(&conn, &exclusive)?;
        }
        // The verifier opens the files without locks; no other connection may be open then.
        drop(conn);
        let mut bad = None;
        let generation = Generation { id, manifest };
        verify::verify_generation(root, &generation, &|| false, &mut |finding| {
            bad.get_or_insert(finding);
        })?;
        if let Some(finding) = bad {
            return Err(Error::new(
                ErrorKind::ArchiveCorrupt,
                format!(
                    "the new archive does not verify: {}: {}",
                    finding.table, finding.what
                ),
            ));
        }
        generation::set_current(cap, &generation.id)?;
        let mut writer = Self::open(cap, generation)?;
        writer.shared.found.created = true;
        Ok(writer)
    }

    /// How many conversations there are, branches included: row ids are dense.
    #[must_use]
    pub fn conversation_count(&self) -> u64 {
        u64::try_from(self.shared.next.conversation.saturating_sub(1)).unwrap_or(0)
    }

    /// What opening found and put right.
    #[must_use]
    pub fn found(&self) -> WriterState {
        self.shared.found
    }

    /// The generation it writes to.
    #[must_use]
    pub fn generation(&self) -> &Generation {
        &self.shared.generation
    }

    /// The end of the commit chain.
    #[must_use]
    pub fn head(&self) -> Head {
        self.shared.head
    }

    /// How far a source was read; `None` when it never was.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn cursor(&self, key: SourceKey) -> Result<Option<Cursor>> {
        let row = SourceRow::find(&self.conn, key).map_err(|e| failed(&self.conn, "read", e))?;
        Ok(row.map(Cursor::from_row))
    }

    /// The newest capture read of every source, by number and content: one pass over the sources
    /// alone.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn parsed(&self) -> Result<HashMap<SourceKey, (u64, Digest)>> {
        let read = || -> rusqlite::Result<HashMap<SourceKey, (u64, Digest)>> {
            let mut statement = self
                .conn
                .prepare("SELECT source_key, parsed_seq, captured_hash FROM sources")?;
            let rows = statement.query_map([], |r| {
                Ok((SourceKey(r.get(0)?), (get_u64(r, 1)?, get_digest(r, 2)?)))
            })?;
            rows.collect()
        };
        read().map_err(|e| failed(&self.conn, "read", e))
    }

    /// Begins to append what a capture holds: from the cursor, or, with `restart`, from the first
    /// byte because the file was rewritten. Nothing is kept unless
    /// [`SourceAppend::finish`] is called.
    ///
    /// # Errors
    /// `lost-commits` when the archive is not where this writer left it; `lock-busy`, `io`; `internal`
    /// for an archive of an older schema, to which nothing is ever added.
    pub fn begin<'w>(&'w mut self, capture: CaptureRef<'_>) -> Result<SourceAppend<'w, 'l>> {
        let manifest = &self.shared.generation.manifest;
        if manifest.is_older() {
            let schema = manifest.schema_version;
            return Err(Error::new(
                ErrorKind::Internal,
                format!("an archive of schema {schema} is to be written to"),
            ));
        }
        if self.shared.coverage.is_some() {
            let last = self.shared.unacknowledged.len() + 1 >= self.shared.batch;
            sync_level(&self.conn, last).map_err(|e| failed(&self.conn, "write to", e))?;
        }
        self.conn
            .execute_batch("BEGIN IMMEDIATE")
            .map_err(|e| failed(&self.conn, "begin a commit in", e))?;
        let begun = read_head(&self.conn).and_then(|now| {
            if now == self.shared.head {
                Ok(())
            } else {
                Err(Error::new(
                    ErrorKind::LostCommits,
                    format!(
                        "the archive is at commit {}, but this writer left it at {}",
                        now.commit, self.shared.head.commit
                    ),
                ))
            }
        });
        if let Err(e) = begun {
            let _ = self.conn.execute_batch("ROLLBACK");
            return Err(e);
        }
        SourceAppend::new(&self.conn, &mut self.shared, capture)
    }

    /// Acknowledges only every `commits` commits, which saves most syncs of a first index. In
    /// between a commit survives the end of the process but not a power cut, and its coverage line
    /// is not written: the next writer writes it, or reads the capture again.
    ///
    /// # Errors
    /// `io`.
    pub fn acknowledge_every(&mut self, commits: usize) -> Result<()> {
        self.acknowledge()?;
        self.shared.batch = commits.max(1);
        Ok(())
    }

    /// Makes every commit durable and writes and syncs its coverage line.
    ///
    /// # Errors
    /// `no-space` or `io`.
    pub fn acknowledge(&mut self) -> Result<()> {
        if self.shared.unacknowledged.is_empty() {
            return Ok(());
        }
        // A commit under FULL syncs the WAL, and with it all frames before. The row stays as it is.
        sync_level(&self.conn, true)
            .and_then(|()| {
                self.conn
                    .execute_batch("UPDATE meta SET value=value WHERE id=1")
            })
            .map_err(|e| failed(&self.conn, "sync", e))?;
        self.shared.write_lines()
    }

    /// Moves the WAL into the database file if no reader is in it. Returns whether it did.
    ///
    /// # Errors
    /// `no-space` or `io`.
    pub fn checkpoint_if_free(&mut self, lock: &WriterLock) -> Result<bool> {
        if self.shared.coverage.is_none() {
            // A candidate has no WAL.
            return Ok(true);
        }
        self.acknowledge()?;
        let Some(exclusive) = ArchiveExclusive::try_acquire(lock)? else {
            return Ok(false);
        };
        sqlite::checkpoint(&self.conn, &exclusive)?;
        Ok(true)
    }

    /// Bytes in the WAL: when to think of [`ArchiveWriter::checkpoint_if_free`].
    #[must_use]
    pub fn wal_bytes(&self) -> u64 {
        // A stat opens no descriptor, so SQLite's locks are safe.
        let mut path = self.conn.path().unwrap_or_default().to_owned();
        path.push_str("-wal");
        std::fs::symlink_metadata(path).map_or(0, |m| m.len())
    }

    /// Compares the coverage ledger's end with the archive and writes the lines that are missing.
    fn reconcile(&mut self, coverage: &mut CoverageWriter, tail: Option<Tail>) -> Result<()> {
        let from = match &tail {
            None => {
                // The promotion of a new generation, or a ledger that was lost.
                self.shared.found.ledger_rebuilt = self.shared.head.commit > 0;
                let reason = if self.shared.found.ledger_rebuilt {
                    "ledger-lost"
                } else {
                    "created"
                };
                let genesis = genesis(&self.conn)?;
                let head = Head {
                    commit: 0,
                    head: genesis,
                };
                coverage.append(&mut promotion(&self.shared.generation, head, reason, None))?;
                1
            }
            Some(tail) => {
                let (generation, commit, head) = tail.line.promise();
                if generation != &self.shared.generation.id
                    || tail.line.archive() != self.shared.generation.manifest.archive_id
                {
                    return Err(lost(
                        &self.shared,
                        &format!("the coverage ledger ends in generation {generation}"),
                    ));
                }
                if !holds_commit(&self.conn, commit, head)? {
                    return Err(lost(
                        &self.shared,
                        &format!("the coverage ledger promises commit {commit}"),
                    ));
                }
                commit.saturating_add(1)
            }
        };
        for number in from..=self.shared.head.commit {
            let line = commit_line(&self.conn, &self.shared.generation, number)?;
            coverage.append(&mut Line::Commit(line))?;
            self.shared.found.backfilled += 1;
        }
        coverage.sync()
    }
}

fn promotion(generation: &Generation, head: Head, reason: &str, receipt: Option<String>) -> Line {
    Line::Promote(PromoteLine {
        generation: generation.id.clone(),
        archive: generation.manifest.archive_id.clone(),
        commit: head.commit,
        head: head.head,
        reason: reason.to_owned(),
        receipt,
        prev: String::new(),
    })
}

/// Writes and syncs the coverage ledger's `promote` line of a generation that `CURRENT` names
/// now. Nothing is written when the ledger ends in exactly this line, so it may be done again
/// after a crash.
///
/// # Errors
/// `archive-corrupt` when the ledger's last line is damaged; `no-space`, `io`.
pub fn promote_line(
    cap: Capture<'_>,
    generation: &Generation,
    head: Head,
    reason: &str,
    receipt: Option<String>,
) -> Result<()> {
    let mut line = promotion(generation, head, reason, receipt);
    // Opening syncs what is there, and drops a torn line.
    let (mut coverage, tail) = CoverageWriter::open(cap)?;
    if tail.is_some_and(|t| t.line.says_the_same(&line)) {
        return Ok(());
    }
    coverage.append(&mut line)?;
    coverage.sync()
}

/// Whether the next commit syncs the WAL.
fn sync_level(conn: &Connection, full: bool) -> rusqlite::Result<()> {
    conn.execute_batch(if full {
        "PRAGMA synchronous=FULL"
    } else {
        "PRAGMA synchronous=NORMAL"
    })
}

impl Drop for ArchiveWriter<'_> {
    fn drop(&mut self) {
        // What fails here is made up for by the next writer.
        let _ = self.acknowledge();
    }
}

fn lost(shared: &Shared<'_>, promise: &str) -> Error {
    Error::new(
        ErrorKind::LostCommits,
        format!(
            "the archive is at commit {} of {}, but {promise}; nothing is committed on top",
            shared.head.commit, shared.generation.id
        ),
    )
    .with_hint("Captures go on; the archive must be repaired first.")
    .with_hint_argv(["cass", "doctor", "check", "--json"])
}

/// Whether the archive holds commit `number` with chain head `head`. One row is read.
pub(super) fn holds_commit(conn: &Connection, number: u64, head: Digest) -> Result<bool> {
    if number == 0 {
        return Ok(genesis(conn)? == head);
    }
    let number = i64::try_from(number).unwrap_or(i64::MAX);
    let found = conn
        .prepare_cached("SELECT head FROM commits WHERE id=?1")
        .and_then(|mut s| s.query_row([number], |r| get_digest(r, 0)).optional())
        .map_err(|e| failed(conn, "read", e))?;
    Ok(found == Some(head))
}

/// The end of the chain. One row is read.
pub(super) fn read_head(conn: &Connection) -> Result<Head> {
    let last = conn
        .prepare_cached("SELECT id, head FROM commits ORDER BY id DESC LIMIT 1")
        .and_then(|mut s| {
            s.query_row([], |r| {
                Ok(Head {
                    commit: get_u64(r, 0)?,
                    head: get_digest(r, 1)?,
                })
            })
            .optional()
        })
        .map_err(|e| failed(conn, "read", e))?;
    match last {
        Some(head) => Ok(head),
        None => Ok(Head {
            commit: 0,
            head: genesis(conn)?,
        }),
    }
}

/// The head before the first commit: the digest of the facts that never change.
pub(super) fn genesis(conn: &Connection) -> Result<Digest> {
    let read = || -> rusqlite::Result<Digest> {
        let mut hasher = blake3::Hasher::new();
        let mut statement = conn.prepare_cached("SELECT row_hash FROM meta ORDER BY id")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            hasher.update(row.get::<_, RowHash>(0)?.bytes());
        }
        Ok(hasher.finalize().into())
    };
    read().map_err(|e| failed(conn, "read", e))
}

/// The head that follows `prev`.
pub(super) fn chain(prev: &Digest, number: u64, body: &Digest) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&prev.0);
    hasher.update(&number.to_le_bytes());
    hasher.update(&body.0);
    hasher.finalize().into()
}

/// The coverage line of commit `number`, from its rows.
pub(super) fn commit_line(
    conn: &Connection,
    generation: &Generation,
    number: u64,
) -> Result<CommitLine> {
    let n = i64::try_from(number).unwrap_or(i64::MAX);
    let read = || -> rusqlite::Result<CommitLine> {
        let head = conn
            .prepare_cached("SELECT head FROM commits WHERE id=?1")?
            .query_row([n], |r| get_digest(r, 0))?;
        let captures = conn
            .prepare_cached(
                "SELECT s.source_key, c.seq FROM commit_captures c JOIN sources s ON s.id=c.source \
                 WHERE c.commit_number=?1 ORDER BY c.id",
            )?
            .query_map([n], |r| Ok((SourceKey(r.get(0)?), get_u64(r, 1)?)))?
            .collect::<rusqlite::Result<_>>()?;
        let conversations = conn
            .prepare_cached(
                "SELECT v.public_id, c.record_count, c.coverage_sum FROM commit_conversations c \
                 JOIN conversations v ON v.id=c.conversation WHERE c.commit_number=?1 ORDER BY c.id",
            )?
            .query_map([n], |r| Ok((r.get(0)?, get_u64(r, 1)?, get_digest(r, 2)?)))?
            .collect::<rusqlite::Result<_>>()?;
        Ok(CommitLine {
            generation: generation.id.clone(),
            archive: generation.manifest.archive_id.clone(),
            commit: number,
            head,
            captures,
            conversations,
            prev: String::new(),
        })
    };
    read().map_err(|e| failed(conn, "read", e))
}

/// Schema, meta rows and header in one transaction: a database is empty or complete.
pub(super) fn write_schema(conn: &mut Connection, manifest: &Manifest) -> Result<()> {
    let path = conn
        .path()
        .map(std::path::PathBuf::from)
        .unwrap_or_default();
    let fail = |e| sqlite::failed("create", &path, e);
    let tx = conn
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(fail)?;
    schema::create(&tx)?;
    let values = [
        manifest.archive_id.clone(),
        manifest.generation.to_string(),
        manifest.created_ms.to_string(),
        manifest.cass_version.clone(),
    ];
    {
        let mut insert = tx.prepare(&META.insert_sql()).map_err(fail)?;
        for (id, (name, value)) in (1i64..).zip(META_NAMES.iter().zip(&values)) {
            put(
                &mut insert,
                &META,
                &[ValueRef::Integer(id), text(name), text(value)],
            )
            .map_err(fail)?;
        }
    }
    tx.commit().map_err(fail)
}

/// The manifest that the rows of `meta` spell; `None` when the database has no tables.
pub(super) fn read_meta(conn: &Connection) -> Result<Option<Manifest>> {
    let read = || -> rusqlite::Result<Option<Manifest>> {
        let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
        if tables == 0 {
            return Ok(None);
        }
        let get = |name: &str| -> rusqlite::Result<String> {
            conn.query_row("SELECT value FROM meta WHERE name=?1", [name], |r| r.get(0))
        };
        let generation = GenerationId::parse(&get("generation")?);
        let created_ms = get("created_ms").ok().and_then(|t| t.parse().ok());
        Ok(generation.map(|generation| Manifest {
            cass_version: get("cass_version").unwrap_or_default(),
            ..Manifest::made(
                &generation,
                &get("archive_id").unwrap_or_default(),
                created_ms.unwrap_or(0),
            )
        }))
    };
    read().map_err(|e| failed(conn, "read", e))
}

/// A generation that holds commits. Asked for where neither `CURRENT` nor the coverage ledger
/// names one: then it is what is left of an archive, not what an interrupted creation leaves.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn unnamed_generation(root: &Root) -> Result<Option<GenerationId>> {
    for id in generation::folders(root)?.into_iter().rev() {
        if !is_unfinished(root, &id)? {
            return Ok(Some(id));
        }
    }
    Ok(None)
}

/// Whether a generation that `CURRENT` never named is one whose creation was interrupted: no
/// database yet, an empty one, or one without a commit.
fn is_unfinished(root: &Root, id: &GenerationId) -> Result<bool> {
    let path = root.full(&layout::archive_db(id.as_str()));
    match sqlite::open_read(&path) {
        Ok(None) => Ok(true),
        Ok(Some(conn)) => match read_meta(&conn) {
            Ok(None) => Ok(true),
            Ok(Some(meta)) => {
                Ok(meta.generation == *id && read_head(&conn).is_ok_and(|h| h.commit == 0))
            }
            Err(_) => Ok(false),
        },
        // Something unreadable lies there: it may be all there is.
        Err(_) => Ok(false),
    }
}

/// Whether an older program began the database of a generation.
fn is_of_older_schema(root: &Root, id: &GenerationId) -> bool {
    let conn = sqlite::open_read(&root.full(&layout::archive_db(id.as_str())));
    let version = conn.ok().flatten().and_then(|conn| header(&conn).ok());
    version.is_some_and(|(version, _)| (1..SCHEMA_VERSION).contains(&version))
}

/// Compares the database's header with the manifest.
pub(super) fn check_header(conn: &Connection, manifest: &Manifest) -> Result<()> {
    let (version, app) = header(conn).map_err(|e| failed(conn, "read", e))?;
    refuse_newer(conn, version, app)?;
    if version != manifest.schema_version || app != APPLICATION_ID {
        return Err(Error::new(
            ErrorKind::ArchiveCorrupt,
            format!(
                "the header of {} is damaged: user_version {version} where the manifest says {}, application_id {app:#x}",
                conn.path().unwrap_or_default(),
                manifest.schema_version,
            ),
        ));
    }
    Ok(())
}

/// `user_version` and `application_id`.
fn header(conn: &Connection) -> rusqlite::Result<(i64, i64)> {
    let number = |name| conn.pragma_query_value(None, name, |r| r.get(0));
    Ok((number("user_version")?, number("application_id")?))
}

/// Refuses an archive whose header says that a newer program wrote it. One that can't be read says
/// nothing.
pub(super) fn refuse_newer_header(conn: &Connection) -> Result<()> {
    header(conn).map_or(Ok(()), |(version, app)| refuse_newer(conn, version, app))
}

fn refuse_newer(conn: &Connection, found: i64, app: i64) -> Result<()> {
    if app != APPLICATION_ID || !version::is_newer(found, SCHEMA_VERSION) {
        return Ok(());
    }
    let path = conn.path().unwrap_or_default();
    let known = SCHEMA_VERSION;
    let error = version::too_new(ErrorKind::SchemaTooNew, path, "user_version", found, known);
    // Nothing else covers these four bytes, so that they alone may be damaged.
    Err(error.with_hint(format!(
        "Run a newer cass; this one changes nothing here. Where no newer one ever ran, the number is \
         damaged: PRAGMA user_version={known} in sqlite3 puts it right."
    )))
}

/// Compares the rows of `meta` with the manifest: a copy holds the database it says it does.
pub(super) fn check_origin(conn: &Connection, manifest: &Manifest) -> Result<()> {
    let named = read_meta(conn)?;
    if named.as_ref().is_some_and(|m| {
        m.archive_id == manifest.archive_id && m.generation == *manifest.named_by_meta()
    }) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::ArchiveCorrupt,
        format!(
            "{} is not the database of generation {} that its manifest says it is",
            conn.path().unwrap_or_default(),
            manifest.named_by_meta(),
        ),
    ))
}

/// Inserts a row through a cached statement.
pub(super) fn insert(
    conn: &Connection,
    table: &schema::Table,
    values: &[ValueRef<'_>],
) -> rusqlite::Result<RowHash> {
    put(
        &mut *conn.prepare_cached(&table.insert_sql())?,
        table,
        values,
    )
}
