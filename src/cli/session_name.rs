//! The session that an argument names, and what to say where it names none or several.

use std::ffi::OsStr;
use std::path::PathBuf;

use super::page::MAX_COLUMNS;
use super::sanitise::{columns, fit, visible};
use crate::env::Env;
use crate::error::{Candidate, Error, ErrorKind, Result};
use crate::model::conversation::Conversation;
use crate::model::path::normalise;
use crate::report::sessions::SessionRow;
use crate::sources::config::Config;
use crate::sources::roots::{real, roots};
use crate::store::archive::{ArchiveReader, Named, PREFIX_MIN};

/// Candidates that are written out for people.
const MAX_LINES: usize = 10;
/// Characters of an id in a list: enough to name it, and the line fits with the harness's own id.
const SHOWN_ID: usize = 12;
/// Columns below which a title says nothing.
const SHORTEST_TITLE: usize = 8;

/// The session that `name` names: by an id of ours or of the harness, by the beginning of one, or
/// by the path of a source file.
///
/// # Errors
/// `not-found`; `ambiguous-name` with the candidates; `archive-corrupt`, `io`.
pub fn session(env: &Env, archive: &ArchiveReader, name: &OsStr) -> Result<Conversation> {
    let shown = name.to_string_lossy();
    let error = match archive.named(name, &paths(env, name))? {
        Named::One(session) => return Ok(*session),
        Named::Several { candidates, total } => {
            return Err(Error::new(
                ErrorKind::AmbiguousName,
                format!("{shown:?} may be any of {total} sessions"),
            )
            .with_hint("Use an id of the list, or more of what you typed.")
            .with_context("candidates", total.to_string())
            .with_candidates(candidates.iter().map(candidate).collect()));
        }
        Named::TooShort => Error::new(
            ErrorKind::NotFound,
            format!(
                "no session has the id {shown:?}, and the beginning of an id needs \
                 {PREFIX_MIN} characters or more"
            ),
        ),
        Named::Nothing => Error::new(
            ErrorKind::NotFound,
            format!("no session is named {shown:?}"),
        ),
    };
    Err(error
        .with_hint(
            "A session is named by its id, the harness's own id, six or more first characters of \
             either, or the path of its file.",
        )
        .with_hint_argv(["cass", "sessions", "list"]))
}

/// The names under which the file that `name` leads to may have been captured: as it is, and as
/// its harness's folder is named where a link leads there. It need not exist any more.
pub fn paths(env: &Env, name: &OsStr) -> Vec<PathBuf> {
    let Ok(path) = std::path::absolute(name) else {
        return Vec::new();
    };
    let mut found = vec![normalise(&path)];
    let place = real(&path);
    let config = Config::load(env.config_dir(), env.home()).unwrap_or_default();
    for root in roots(env, &config) {
        if let Ok(rest) = place.strip_prefix(real(&root.path)) {
            let path = root.path.join(rest);
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

fn candidate(c: &Conversation) -> Candidate {
    let row = SessionRow::from(c);
    Candidate {
        id: row.id,
        native_id: row.native_id,
        provider: row.provider.to_string(),
        source_id: row.source_id,
        title: row.title,
        ended_at: row.ended_at,
    }
}

/// The candidates for people, one a line. A title is never given room that an id needs.
pub fn lines(candidates: &[Candidate], total: Option<&str>) -> String {
    let mut out = String::new();
    for c in candidates.iter().take(MAX_LINES) {
        let day = c.ended_at.as_deref().and_then(|t| t.get(..10));
        let mut line = format!(
            "  {}  {:<10}  {:<8}  {}",
            visible(c.id.get(..SHOWN_ID).unwrap_or(&c.id)),
            day.unwrap_or("-"),
            visible(&c.provider),
            visible(&c.native_id),
        );
        let room = MAX_COLUMNS.saturating_sub(columns(&line) + 2);
        if let Some(title) = &c.title
            && room >= SHORTEST_TITLE
        {
            line.push_str(&format!("  {}", fit(&visible(title), room)));
        }
        out.push_str(&line);
        out.push('\n');
    }
    let shown = candidates.len().min(MAX_LINES);
    let total = total.and_then(|t| t.parse::<usize>().ok()).unwrap_or(shown);
    if total > shown {
        out.push_str(&format!("  ({} more)\n", total - shown));
    }
    out
}
