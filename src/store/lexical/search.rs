//! One question to the index: a walk over everything that matches, of which the best are kept.

use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::query::Query;
use super::schema::{first_from, role_code};
use super::state::current;
use crate::disk::{ArchiveShared, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::interrupt::Interrupt;
use crate::model::interrupt::Until;
use crate::model::provider::Provider;
use crate::model::record::Role;
use crate::store::{layout, sqlite};

/// How long a reader waits for a checkpoint to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Rows between two looks for a signal.
const LOOK: u64 = 4096;

/// Which messages to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only of this harness.
    pub provider: Option<Provider>,
    /// Only of sessions in this folder or below it.
    pub workspace: Option<String>,
    /// Only of this machine.
    pub source_id: Option<String>,
    /// Only by this speaker.
    pub role: Option<Role>,
    /// Not before, milliseconds since the Unix epoch.
    pub since_ms: Option<i64>,
    /// Before, likewise.
    pub until_ms: Option<i64>,
}

impl Filter {
    fn is_any(&self) -> bool {
        *self == Filter::default()
    }
}

/// A message that matches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// Row number of the message in the archive.
    pub id: i64,
    /// BM25 as FTS5 has it: the smaller, the better.
    pub score: f64,
}

/// The best matches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The best first; of equals the newest.
    pub hits: Vec<Scored>,
    /// Everything that matches, those seen before included.
    pub total: u64,
}

impl Eq for Scored {}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.score
            .total_cmp(&other.score)
            .then(other.id.cmp(&self.id))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The index, open for reading.
#[derive(Debug)]
pub struct LexicalReader {
    // Closed before the lock goes.
    conn: Connection,
    id: String,
    path: std::path::PathBuf,
    _lock: ArchiveShared,
}

impl LexicalReader {
    /// Opens the index that is searched; `None` when there is none.
    ///
    /// # Errors
    /// `archive-corrupt` when it can't be read; `lock-busy`, `permission-denied`, `io`.
    pub fn open(root: &Root) -> Result<Option<LexicalReader>> {
        let lock = ArchiveShared::acquire(root, PATIENCE)?;
        let Some(id) = current(root)? else {
            return Ok(None);
        };
        let path = root.full(&layout::lexical_db(&id));
        let Some(conn) = sqlite::open_read(&path)? else {
            return Ok(None);
        };
        // One state of it, whatever is added meanwhile.
        conn.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema;")
            .map_err(|e| sqlite::failed("read", &path, e))?;
        Ok(Some(LexicalReader {
            conn,
            id,
            path,
            _lock: lock,
        }))
    }

    /// Long reading ends soon after `until` is reached.
    pub(super) fn stop_at(&mut self, until: &Until) -> Result<()> {
        sqlite::stop_at(&mut self.conn, until)
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.conn
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Row number of the newest message in the index.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn newest(&self) -> Result<i64> {
        self.conn
            .query_row(
                "SELECT archive_row FROM doc ORDER BY id DESC LIMIT 1",
                [],
                |r| r.get(0),
            )
            .optional()
            .map(|id| id.unwrap_or(0))
            .map_err(|e| self.failed(e))
    }

    /// The best `limit` matches with a row number of at most `bound` that are not in `seen`.
    ///
    /// # Errors
    /// `archive-corrupt` when the index is damaged; `interrupted`, `terminated`, `io`.
    pub fn search(
        &self,
        query: &Query,
        filter: &Filter,
        bound: i64,
        seen: &BTreeSet<i64>,
        limit: usize,
        interrupt: &Interrupt,
    ) -> Result<Page> {
        let found = self
            .walk(
                query,
                filter,
                bound,
                seen.len().saturating_add(limit),
                interrupt,
            )
            .map_err(|e| self.failed(e))?;
        let Some((best, total)) = found else {
            interrupt.check()?;
            return Ok(Page::default());
        };
        let mut hits = Vec::new();
        let mut message = self
            .conn
            .prepare_cached("SELECT archive_row FROM doc WHERE id=?1")
            .map_err(|e| self.failed(e))?;
        for doc in best {
            if hits.len() == limit {
                break;
            }
            let id = message
                .query_row([doc.id], |r| r.get(0))
                .map_err(|e| self.failed(e))?;
            if !seen.contains(&id) {
                hits.push(Scored { id, ..doc });
            }
        }
        Ok(Page { hits, total })
    }

    /// The best `keep` documents and the number of all; `None` when a signal came.
    fn walk(
        &self,
        query: &Query,
        filter: &Filter,
        bound: i64,
        keep: usize,
        interrupt: &Interrupt,
    ) -> rusqlite::Result<Option<(Vec<Scored>, u64)>> {
        let last = first_from(&self.conn, bound.saturating_add(1))? - 1;
        let (sql, params) = statement(query, filter, last);
        let mut best: BinaryHeap<Scored> = BinaryHeap::new();
        let mut total = 0u64;
        let mut statement = self.conn.prepare(&sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(params))?;
        while let Some(row) = rows.next()? {
            total += 1;
            if total.is_multiple_of(LOOK) && interrupt.pending().is_some() {
                return Ok(None);
            }
            let hit = Scored {
                id: row.get(0)?,
                score: row.get(1)?,
            };
            if best.len() < keep {
                best.push(hit);
            } else if best.peek().is_some_and(|worst| hit < *worst) {
                best.pop();
                best.push(hit);
            }
        }
        Ok(Some((best.into_sorted_vec(), total)))
    }

    fn failed(&self, e: rusqlite::Error) -> Error {
        let error = sqlite::failed("read", &self.path, e);
        match error.kind() {
            // An index whose tables are not ours asks for what is not there.
            ErrorKind::Internal => {
                Error::new(ErrorKind::ArchiveCorrupt, error.message().to_owned()).with_source(error)
            }
            _ => error,
        }
    }
}

fn statement(query: &Query, filter: &Filter, bound: i64) -> (String, Vec<Value>) {
    let mut params = vec![Value::Text(query.expression()), Value::Integer(bound)];
    if filter.is_any() {
        let sql = "SELECT rowid, rank FROM message WHERE message MATCH ?1 AND rowid<=?2";
        return (sql.to_owned(), params);
    }
    // The index leads, each match is looked up; its score is made only when it stays.
    let mut sql = "SELECT f.rowid, f.rank FROM message f CROSS JOIN doc d".to_owned();
    let mut rules = Vec::new();
    let mut rule = |text: &str, value: Value| {
        params.push(value);
        rules.push(text.replace('?', &format!("?{}", params.len())));
    };
    if let Some(provider) = filter.provider {
        rule("c.provider=?", Value::Text(provider.as_str().to_owned()));
    }
    if let Some(source_id) = &filter.source_id {
        rule("c.source_id=?", Value::Text(source_id.clone()));
    }
    if let Some(workspace) = &filter.workspace {
        rule(
            "(c.workspace=? OR substr(c.workspace, 1, length(?)+1)=?||'/')",
            Value::Text(workspace.clone()),
        );
    }
    if let Some(role) = filter.role {
        rule("d.role=?", Value::Integer(role_code(role)));
    }
    if let Some(ms) = filter.since_ms {
        rule("d.time_ms>=?", Value::Integer(ms));
    }
    if let Some(ms) = filter.until_ms {
        rule("d.time_ms<?", Value::Integer(ms));
    }
    if filter.provider.is_some() || filter.source_id.is_some() || filter.workspace.is_some() {
        sql.push_str(" CROSS JOIN conversation c ON c.id=d.conversation");
    }
    sql.push_str(" WHERE message MATCH ?1 AND f.rowid<=?2 AND d.id=f.rowid AND ");
    sql.push_str(&rules.join(" AND "));
    (sql, params)
}
