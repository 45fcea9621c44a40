//! One question to the index: a walk over what matches, the newest first, and scores for it.
//!
//! The newest message is the one that was archived last: an index numbers its documents in the
//! order of the archive, and FTS5 can walk in that order alone.
//!
//! What FTS5 reads for a score it reads of a whole table: every place of every word of the query;
//! for the beginning of a word even to find one message. What that costs is bounded in three ways,
//! none of which changes anything in an index that was given up to [`SMALL`] messages. Of more than
//! [`RANKED`] matches the newest ones are ranked; the older ones follow them, [`RANKED`] at a time.
//! Where the newest part of the index, a table of its own, has so many, only it is asked. And words
//! that very many messages hold are not weighed. [`Ranking`] says so.

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::time::Duration;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::query::{Clause, Query, all_of};
use super::schema::{Table, first_from, role_code};
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
/// Matches that are ranked together and counted, the newest ones.
pub const RANKED: usize = 2000;
/// Documents of an index in which all matches are ranked together, and every word is weighed.
pub const SMALL: usize = 10_000;
/// The newest documents, which tell how common a word is.
const SAMPLE: i64 = 4096;
/// Documents that hold a word that is weighed: FTS5 counts them, at 0.1 µs each.
const WEIGHED: i64 = 131_072;

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

/// What the order of hits goes by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rule {
    /// BM25, of everything that matches.
    #[default]
    Best,
    /// BM25, of the newest [`RANKED`] matches.
    BestOfNewest,
    /// The newest first: no clause has a weight.
    Newest,
}

/// How matches were ranked and counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranking {
    /// The order.
    pub rule: Rule,
    /// Matches that have a place in it.
    pub ranked: u64,
    /// Row number in the archive of the oldest of them, when there are older matches, which are not
    /// ranked.
    pub older_than: Option<i64>,
    /// How many there are in all: as many as in the newest part of the index everywhere. The very
    /// number when there are no more.
    pub estimate: u64,
    /// Clauses that had no part in the scores, as the index is asked them.
    pub unweighed: Vec<String>,
}

/// The best matches.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The best first; of equals the newest.
    pub hits: Vec<Scored>,
    /// Whether more of the ranked matches are still to come.
    pub rest: bool,
    /// How they were ranked.
    pub ranking: Ranking,
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

    /// The best `limit` matches with a row number of at most `bound` that are not in `seen`, of the
    /// newest [`RANKED`] ones up to there.
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
                seen.len().saturating_add(limit).saturating_add(1),
                interrupt,
            )
            .map_err(|e| self.failed(e))?;
        let Some((best, ranking)) = found else {
            interrupt.check()?;
            return Ok(Page::default());
        };
        let (mut hits, mut rest) = (Vec::new(), false);
        let mut message = self
            .conn
            .prepare_cached("SELECT archive_row FROM doc WHERE id=?1")
            .map_err(|e| self.failed(e))?;
        for doc in best {
            let id = message
                .query_row([doc.id], |r| r.get(0))
                .map_err(|e| self.failed(e))?;
            if seen.contains(&id) {
                continue;
            }
            if hits.len() == limit {
                rest = true;
                break;
            }
            hits.push(Scored { id, ..doc });
        }
        Ok(Page {
            hits,
            rest,
            ranking,
        })
    }

    /// The best `keep` documents and how they were ranked; `None` when a signal came.
    fn walk(
        &self,
        query: &Query,
        filter: &Filter,
        bound: i64,
        keep: usize,
        interrupt: &Interrupt,
    ) -> rusqlite::Result<Option<(Vec<Scored>, Ranking)>> {
        let last = first_from(&self.conn, bound.saturating_add(1))? - 1;
        let Some((part, matches)) = self.newest_matches(query, filter, last, interrupt)? else {
            return Ok(None);
        };
        let more = matches.len() > part.ranked;
        let ranked = matches.get(..part.ranked).unwrap_or(&matches);
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let mut ranking = Ranking {
            ranked: count(ranked.len()),
            estimate: count(ranked.len()),
            ..Ranking::default()
        };
        let Some(oldest) = ranked.last().copied() else {
            return Ok(Some((Vec::new(), ranking)));
        };
        let span = last - oldest + 1;
        if more {
            let share = ranked.len() as f64 / span as f64;
            // At least those that are known of.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let all = (share * last as f64).round() as u64;
            ranking.estimate = all.max(count(matches.len()));
            let row = "SELECT archive_row FROM doc WHERE id=?1";
            ranking.older_than = Some(self.conn.query_row(row, [oldest], |r| r.get(0))?);
        }
        let everywhere = more && span < 2 * i64::try_from(part.ranked).unwrap_or(i64::MAX);
        let weighed = if everywhere {
            Vec::new()
        } else {
            self.weighed(query, &part)?
        };
        ranking.unweighed = query
            .clauses()
            .iter()
            .filter(|c| !weighed.contains(c))
            .map(Clause::expression)
            .collect();
        ranking.rule = match (weighed.is_empty(), more) {
            (true, _) => Rule::Newest,
            (false, true) => Rule::BestOfNewest,
            (false, false) => Rule::Best,
        };
        if weighed.is_empty() {
            let newest = ranked.iter().take(keep);
            let best = newest
                .map(|id| Scored {
                    id: *id,
                    score: 0.0,
                })
                .collect();
            return Ok(Some((best, ranking)));
        }
        let expression = all_of(weighed.iter().copied());
        let mut best: BinaryHeap<Scored> = BinaryHeap::new();
        let done = self.each(
            &statement(
                part.table,
                "f.rowid, f.rank",
                expression,
                filter,
                (oldest, last),
            ),
            interrupt,
            &mut |row| {
                let hit = Scored {
                    id: row.get(0)?,
                    score: row.get(1)?,
                };
                // The newest comes first there.
                if ranked.binary_search_by(|id| hit.id.cmp(id)).is_err() {
                    return Ok(true);
                }
                if best.len() < keep {
                    best.push(hit);
                } else if best.peek().is_some_and(|worst| hit < *worst) {
                    best.pop();
                    best.push(hit);
                }
                Ok(true)
            },
        )?;
        Ok(done.then(|| (best.into_sorted_vec(), ranking)))
    }

    /// The newest matches up to document `last`, the newest first: those that are ranked together,
    /// and one more if there is one. `None` when a signal came.
    fn newest_matches(
        &self,
        query: &Query,
        filter: &Filter,
        last: i64,
        interrupt: &Interrupt,
    ) -> rusqlite::Result<Option<(Part, Vec<i64>)>> {
        let sizes = "SELECT coalesce(max(id),0), (SELECT newest_from FROM meta) FROM doc";
        let (documents, newest): (i64, i64) = self
            .conn
            .query_row(sizes, [], |r| Ok((r.get(0)?, r.get(1)?)))?;
        let small = usize::try_from(documents).is_ok_and(|n| n <= SMALL);
        let mut part = Part {
            table: Table::Newest,
            ranked: if small { SMALL } else { RANKED },
            documents: documents - newest + 1,
            last: documents,
            small,
        };
        if newest > 0 && last >= newest {
            match self.gather(&part, query, filter, (newest, last), interrupt)? {
                Some(matches) if matches.len() <= part.ranked => {}
                enough => return Ok(enough.map(|matches| (part, matches))),
            }
        }
        part.table = Table::Message;
        part.documents = documents;
        let matches = self.gather(&part, query, filter, (1, last), interrupt)?;
        Ok(matches.map(|matches| (part, matches)))
    }

    fn gather(
        &self,
        part: &Part,
        query: &Query,
        filter: &Filter,
        range: (i64, i64),
        interrupt: &Interrupt,
    ) -> rusqlite::Result<Option<Vec<i64>>> {
        let expression = all_of(query.clauses());
        let (sql, params) = statement(part.table, "f.rowid", expression, filter, range);
        let mut matches = Vec::new();
        let done = self.each(
            &(sql + " ORDER BY f.rowid DESC", params),
            interrupt,
            &mut |row| {
                matches.push(row.get(0)?);
                Ok(matches.len() <= part.ranked)
            },
        )?;
        Ok(done.then_some(matches))
    }

    /// Gives rows until `f` says `false`. Whether no signal came.
    fn each(
        &self,
        (sql, params): &(String, Vec<Value>),
        interrupt: &Interrupt,
        f: &mut dyn FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<bool> {
        let mut statement = self.conn.prepare(sql)?;
        let mut rows = statement.query(rusqlite::params_from_iter(params))?;
        let mut n = 0u64;
        while let Some(row) = rows.next()? {
            n += 1;
            if n.is_multiple_of(LOOK) && interrupt.pending().is_some() {
                return Ok(false);
            }
            if !f(row)? {
                break;
            }
        }
        Ok(true)
    }

    /// The clauses that scores are made of. In a small index all of them. In a large one those of
    /// which a word is not common; beginnings of words, whose every use gathers all words that
    /// begin so, only where there is nothing else.
    ///
    /// It goes by the whole index, so that every page of what is ranked together goes by the same.
    fn weighed<'q>(&self, query: &'q Query, part: &Part) -> rusqlite::Result<Vec<&'q Clause>> {
        let clauses = query.clauses().iter();
        if part.small {
            return Ok(clauses.collect());
        }
        let mut known = BTreeMap::new();
        let mut words = Vec::new();
        for clause in clauses.clone().filter(|c| !c.prefix) {
            for token in &clause.tokens {
                let common = match known.get(token) {
                    Some(common) => *common,
                    None => self.is_common(token, part)?,
                };
                known.insert(token, common);
                if !common {
                    words.push(clause);
                    break;
                }
            }
        }
        if words.is_empty() {
            words.extend(clauses.filter(|c| c.prefix));
        }
        Ok(words)
    }

    /// Whether more than half of the newest documents hold `token`, or so many that all that hold it
    /// may be more than [`WEIGHED`]. BM25 as FTS5 has it gives a word next to no weight that more
    /// than half of all documents hold.
    fn is_common(&self, token: &str, part: &Part) -> rusqlite::Result<bool> {
        let sql = format!(
            "SELECT count(*) FROM {0} WHERE {0} MATCH ?1 AND rowid>?2 AND rowid<=?3",
            part.table.name()
        );
        let n: i64 = self.conn.prepare_cached(&sql)?.query_row(
            (format!("\"{token}\""), part.last - SAMPLE, part.last),
            |r| r.get(0),
        )?;
        Ok(n > SAMPLE / 2 || n.saturating_mul(part.documents) > WEIGHED * SAMPLE)
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

/// What a question is answered from.
struct Part {
    table: Table,
    /// Matches that are ranked together.
    ranked: usize,
    /// Documents of the table, those that were taken out counted.
    documents: i64,
    /// The last document of the index.
    last: i64,
    /// Whether everything is weighed.
    small: bool,
}

/// Columns of the documents `first` to `last` that match and that the filter lets through.
fn statement(
    table: Table,
    columns: &str,
    expression: String,
    filter: &Filter,
    (first, last): (i64, i64),
) -> (String, Vec<Value>) {
    let table = table.name();
    // The hidden column of the table's name takes the expression.
    let matches = format!("f.{table} MATCH ?1 AND f.rowid>=?2 AND f.rowid<=?3");
    let mut params = vec![
        Value::Text(expression),
        Value::Integer(first),
        Value::Integer(last),
    ];
    if filter.is_any() {
        let sql = format!("SELECT {columns} FROM {table} f WHERE {matches}");
        return (sql, params);
    }
    // The index leads, each match is looked up; its score is made only when it stays.
    let mut sql = format!("SELECT {columns} FROM {table} f CROSS JOIN doc d");
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
    sql.push_str(&format!(
        " WHERE {matches} AND d.id=f.rowid AND {}",
        rules.join(" AND ")
    ));
    (sql, params)
}
