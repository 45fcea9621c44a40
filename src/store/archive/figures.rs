//! Counting what the archive holds. SQLite groups; what comes back is as long as there are groups.

use std::collections::BTreeMap;

use rusqlite::params_from_iter;

use super::listing::{Listing, WHERE};
use super::names;
use super::reader::{ArchiveReader, word};
use super::rows::get_u64;
use crate::error::Result;
use crate::model::record::{MessageKind, Role};

/// A group with its sessions and messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// What its members share; `None` for those that have no such thing.
    pub name: Option<String>,
    /// Sessions, branches included.
    pub sessions: u64,
    /// Messages, superseded versions included.
    pub messages: u64,
}

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// Sessions, branches included.
    pub sessions: u64,
    /// Of them branches.
    pub branches: u64,
    /// Distinct raw records.
    pub records: u64,
    /// Messages, superseded versions included.
    pub messages: u64,
    /// Time of the first record, milliseconds since the Unix epoch.
    pub oldest_ms: Option<i64>,
    /// Time of the last record.
    pub newest_ms: Option<i64>,
    /// Files that hold the sessions.
    pub sources: u64,
    /// Bytes of the newest captured version of each.
    pub source_bytes: u64,
    /// Workspaces in all.
    pub workspaces: u64,
}

/// Messages of one kind from one speaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spoken {
    /// Who speaks.
    pub role: Role,
    /// What it is.
    pub kind: MessageKind,
    /// How many.
    pub messages: u64,
}

impl ArchiveReader {
    /// Totals over the conversations that `of` means.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn figures(&self, of: &Listing) -> Result<Figures> {
        let totals = format!(
            "SELECT count(*), count(branch_of), coalesce(sum(record_count),0), \
             coalesce(sum(message_count),0), min(started_ms), max(ended_ms), \
             count(DISTINCT workspace) FROM conversations {WHERE}"
        );
        let files = format!(
            "SELECT count(*), coalesce(sum(captured_len),0) FROM sources WHERE id IN \
             (SELECT source FROM commit_conversations WHERE conversation IN \
             (SELECT id FROM conversations {WHERE}))"
        );
        let read = || -> rusqlite::Result<Figures> {
            let (sources, source_bytes) =
                self.conn
                    .query_row(&files, params_from_iter(of.params()), |r| {
                        Ok((get_u64(r, 0)?, get_u64(r, 1)?))
                    })?;
            self.conn
                .query_row(&totals, params_from_iter(of.params()), |r| {
                    Ok(Figures {
                        sessions: get_u64(r, 0)?,
                        branches: get_u64(r, 1)?,
                        records: get_u64(r, 2)?,
                        messages: get_u64(r, 3)?,
                        oldest_ms: r.get(4)?,
                        newest_ms: r.get(5)?,
                        workspaces: get_u64(r, 6)?,
                        sources,
                        source_bytes,
                    })
                })
        };
        read().map_err(|e| self.failed(e))
    }

    /// Sessions by harness, the most first.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn by_provider(&self, of: &Listing) -> Result<Vec<Group>> {
        self.groups("provider", "2 DESC, 1", u64::MAX, of)
    }

    /// The workspaces with the most sessions.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn by_workspace(&self, of: &Listing, limit: u64) -> Result<Vec<Group>> {
        self.groups("workspace", "2 DESC, 3 DESC, 1", limit, of)
    }

    /// Sessions by the day (UTC) on which they began, or by the month; the newest first.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn by_time(&self, of: &Listing, by_day: bool, limit: u64) -> Result<Vec<Group>> {
        let by = if by_day {
            "strftime('%Y-%m-%d',started_ms/1000,'unixepoch')"
        } else {
            "strftime('%Y-%m',started_ms/1000,'unixepoch')"
        };
        self.groups(by, "1 DESC", limit, of)
    }

    fn groups(&self, by: &str, order: &str, limit: u64, of: &Listing) -> Result<Vec<Group>> {
        let sql = format!(
            "SELECT {by}, count(*), coalesce(sum(message_count),0) FROM conversations {WHERE} \
             GROUP BY 1 ORDER BY {order} LIMIT {}",
            i64::try_from(limit).unwrap_or(-1)
        );
        let mut groups = Vec::new();
        self.each(
            &sql,
            params_from_iter(of.params()),
            |r| {
                Ok(Group {
                    name: r.get(0)?,
                    sessions: get_u64(r, 1)?,
                    messages: get_u64(r, 2)?,
                })
            },
            &mut |group| {
                groups.push(group);
                Ok(())
            },
        )?;
        Ok(groups)
    }

    /// Messages by speaker and kind, and how often each tool was called. Every message's row is
    /// looked at, no text is read.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn spoken(&self, of: &Listing) -> Result<(Vec<Spoken>, BTreeMap<String, u64>)> {
        let sql = format!(
            "SELECT role, kind, CASE WHEN kind='tool-call' THEN tool_name END, count(*) \
             FROM messages WHERE conversation IN (SELECT id FROM conversations {WHERE}) \
             GROUP BY 1, 2, 3"
        );
        let (mut spoken, mut tools) = (Vec::<Spoken>::new(), BTreeMap::<String, u64>::new());
        self.each(
            &sql,
            params_from_iter(of.params()),
            |r| {
                let tool: Option<String> = r.get(2)?;
                Ok((
                    Spoken {
                        role: word(r, 0, names::to_role)?,
                        kind: word(r, 1, names::to_kind)?,
                        messages: get_u64(r, 3)?,
                    },
                    tool,
                ))
            },
            &mut |(row, tool): (Spoken, Option<String>)| {
                if let Some(tool) = tool {
                    *tools.entry(tool).or_default() += row.messages;
                }
                match spoken.last_mut() {
                    Some(last) if (last.role, last.kind) == (row.role, row.kind) => {
                        last.messages += row.messages;
                    }
                    _ => spoken.push(row),
                }
                Ok(())
            },
        )?;
        Ok((spoken, tools))
    }
}
