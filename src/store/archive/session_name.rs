//! Which session a name means: the one place that decides it, for every command.
//!
//! A name is, in this order: an id of ours; an id of the harness; the path of a source file; the
//! beginning of an id. The first of these that fits anything decides, and where it fits several
//! sessions they are all candidates: none is picked.
//!
//! Ids and their beginnings are found as ranges of the indexes over `public_id` and `native_id`, a
//! path by the key that is derived from it. Only the path of a file of another machine is looked
//! for in every row of `sources`, and what a document or a database holds in the commits.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rusqlite::OptionalExtension;

use super::reader::ArchiveReader;
use super::rows::get_u64;
use super::schema::{CONVERSATIONS, SOURCES};
use super::state::{ConversationRow, SourceRow};
use crate::error::Result;
use crate::model::conversation::{ArchivedSource, Conversation};
use crate::model::provider::Provider;
use crate::model::source::{LOCAL, SourceKey};

/// Characters that the beginning of an id needs.
pub const PREFIX_MIN: usize = 6;
/// How many candidates are named.
pub const MAX_CANDIDATES: usize = 20;

/// Row ids by a whole id of the harness. The conversation itself comes before its branches, so a
/// native id names it.
const EXACT: &str = "SELECT id FROM conversations WHERE native_id=?1 AND branch_of IS NULL";

/// Row ids by the beginning of an id. A subagent's id is its parent's, a slash, and its own: what
/// begins with a part of the parent's id means the parent, where that is known.
const BEGINNING: &str = "SELECT id FROM conversations WHERE public_id>=?1 AND public_id<?2 \
     UNION SELECT id FROM conversations c WHERE native_id>=?1 AND native_id<?2 \
     AND branch_of IS NULL AND NOT (instr(native_id,'/')>0 AND instr(?1,'/')=0 \
     AND EXISTS (SELECT 1 FROM conversations p \
     WHERE p.native_id=substr(c.native_id,1,instr(c.native_id,'/')-1) \
     AND p.provider=c.provider AND p.source_id=c.source_id AND p.branch_of IS NULL))";

/// Row ids of the sessions in a store.
const IN_STORE: &str =
    "SELECT DISTINCT conversation AS id FROM commit_conversations WHERE source=CAST(?1 AS INTEGER)";

/// What a name means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// This session.
    One(Box<Conversation>),
    /// One of these, the newest first; `total` counts those left out as well.
    Several {
        /// At most [`MAX_CANDIDATES`].
        candidates: Vec<Conversation>,
        /// How many there are.
        total: u64,
    },
    /// Nothing; no beginning of an id was looked for, because it is shorter than [`PREFIX_MIN`].
    TooShort,
    /// Nothing.
    Nothing,
}

impl ArchiveReader {
    /// What `name` means. `paths` are the names that it may have as a file: absolute, as a source
    /// would be captured.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`.
    pub fn named(&self, name: &OsStr, paths: &[PathBuf]) -> Result<Named> {
        if let Some(text) = name.to_str() {
            if let Some(row) =
                ConversationRow::by_public(&self.conn, text).map_err(|e| self.failed(e))?
            {
                return Ok(Named::One(Box::new(self.public(row)?)));
            }
            if let Some(found) = self.among(EXACT, &[text])? {
                return Ok(found);
            }
        }
        if let Some(found) = self.by_file(name, paths)? {
            return Ok(found);
        }
        let Some(text) = name.to_str() else {
            return Ok(Named::Nothing);
        };
        if text.chars().count() < PREFIX_MIN {
            return Ok(Named::TooShort);
        }
        // Every text that begins with `text` sorts between it and `end`.
        let end = format!("{text}\u{10FFFF}");
        Ok(self
            .among(BEGINNING, &[text, &end])?
            .unwrap_or(Named::Nothing))
    }

    /// What `ids`, a query for row ids, finds; `None` when it is nothing.
    fn among(&self, ids: &str, params: &[&str]) -> Result<Option<Named>> {
        let sql = newest(ids);
        let mut candidates = Vec::new();
        let given = rusqlite::params_from_iter(params.iter());
        self.each(&sql, given, ConversationRow::read, &mut |row| {
            candidates.push(self.public(row)?);
            Ok(())
        })?;
        if candidates.len() < MAX_CANDIDATES {
            return Ok(among_these(candidates));
        }
        let total = self
            .conn
            .query_row(
                &format!("SELECT count(*) FROM ({ids})"),
                rusqlite::params_from_iter(params.iter()),
                |r| get_u64(r, 0),
            )
            .map_err(|e| self.failed(e))?;
        Ok(Some(Named::Several { candidates, total }))
    }

    /// The sessions whose file has one of these names; `None` when no session has.
    fn by_file(&self, name: &OsStr, paths: &[PathBuf]) -> Result<Option<Named>> {
        let mut candidates: Vec<Conversation> = Vec::new();
        let mut store = None;
        let mut add = |source: &SourceRow| -> Result<()> {
            match self.session_of(source)? {
                Some(found) if !candidates.contains(&found) => candidates.push(found),
                Some(_) => {}
                None => store = store.or(Some(source.id)),
            }
            Ok(())
        };
        let mut known = false;
        for path in paths {
            for provider in Provider::ALL {
                let key = SourceKey::derive(LOCAL, provider, path);
                let source = SourceRow::find(&self.conn, key).map_err(|e| self.failed(e))?;
                if let Some(source) = source {
                    known = true;
                    add(&source)?;
                }
            }
        }
        if !known && name.as_bytes().contains(&b'/') {
            let sql = format!(
                "SELECT {} FROM sources WHERE path=?1",
                SOURCES.columns_sql()
            );
            for path in paths {
                let bytes = path.as_os_str().as_bytes();
                self.each(&sql, [bytes], SourceRow::read, &mut |row| add(&row))?;
            }
        }
        match store {
            // A document or a database is about no session in particular: it is all that it holds.
            Some(store) if candidates.is_empty() => self.among(IN_STORE, &[&store.to_string()]),
            _ => Ok(among_these(candidates)),
        }
    }

    /// The session that a file is about. It may hold records of others: those that it was
    /// continued from, or that a harness wrote to the wrong file. The session that the file is
    /// named after is the one that its harness means by it; else it is that of its first record.
    /// Of a session and its branches it is the last that the file's records went to.
    fn session_of(&self, source: &SourceRow) -> Result<Option<Conversation>> {
        let ArchivedSource {
            path, main_session, ..
        } = &source.source;
        for native in namesakes(path).chain(main_session.as_deref()) {
            let sql = format!(
                "SELECT {} FROM conversations v WHERE native_id=?1 AND source_id=?2 \
                 AND provider=?3 AND EXISTS (SELECT 1 FROM commit_conversations t \
                 WHERE t.conversation=v.id AND t.source=?4) ORDER BY id DESC LIMIT 1",
                CONVERSATIONS.columns_sql()
            );
            let of = &source.source;
            let params = (native, &of.source_id, of.provider.as_str(), source.id);
            let found = self
                .conn
                .prepare_cached(&sql)
                .and_then(|mut s| s.query_row(params, ConversationRow::read).optional())
                .map_err(|e| self.failed(e))?;
            if let Some(row) = found {
                return self.public(row).map(Some);
            }
        }
        Ok(None)
    }
}

fn newest(ids: &str) -> String {
    format!(
        "SELECT {} FROM conversations WHERE id IN ({ids}) \
         ORDER BY ended_ms DESC, public_id LIMIT {MAX_CANDIDATES}",
        CONVERSATIONS.columns_sql()
    )
}

fn among_these(mut candidates: Vec<Conversation>) -> Option<Named> {
    match (candidates.pop(), candidates.is_empty()) {
        (None, _) => None,
        (Some(one), true) => Some(Named::One(Box::new(one))),
        (Some(last), false) => {
            candidates.push(last);
            let total = u64::try_from(candidates.len()).unwrap_or(u64::MAX);
            Some(Named::Several { candidates, total })
        }
    }
}

/// The native ids that a file's name may hold: the name without its endings, or the UUID that
/// this ends with.
fn namesakes(path: &Path) -> impl Iterator<Item = &str> {
    const UUID: usize = 36;
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let name = name.strip_suffix(".zst").unwrap_or(name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let uuid = stem
        .len()
        .checked_sub(UUID)
        .filter(|from| *from > 0)
        .and_then(|from| stem.get(from..));
    std::iter::once(stem).chain(uuid)
}

/// The queries by id, for a test of how they are answered.
#[cfg(test)]
pub(super) fn lookups() -> [String; 2] {
    [newest(EXACT), newest(BEGINNING)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_after_the_session_that_its_name_ends_with() {
        let id = "019ed836-b1da-78f1-8a0c-e598363d10f4";
        let stem = format!("rollout-2026-06-18-{id}");
        for (name, natives) in [
            ("S.jsonl".to_owned(), vec!["S"]),
            (format!("{id}.jsonl"), vec![id]),
            (format!("{stem}.jsonl.zst"), vec![stem.as_str(), id]),
            // The 36th byte from the end lies inside a letter.
            (
                "ééééééééééééééééééé1.jsonl".to_owned(),
                vec!["ééééééééééééééééééé1"],
            ),
        ] {
            let path = Path::new("/a").join(name);
            assert_eq!(namesakes(&path).collect::<Vec<_>>(), natives);
        }
    }
}
