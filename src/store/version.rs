//! The versions that our files say they have, by one rule: what this program knows is read, what is
//! higher was made by a newer one and is refused untouched, and anything else is damage.

use serde::Deserialize;
use serde_json::Value;

use super::accepted::Accepted;
use super::generation;
use super::{backup, run, seal};
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};

/// What claims a higher version than this is damaged: versions are counted, one a release at most.
const HIGHEST: i64 = 9_999;

/// The members that tell a version, read before anything else of a document: the rest of a newer
/// one may be anything.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Said {
    /// Layout version of the document.
    #[serde(default)]
    pub format: Option<Value>,
    /// Schema version of the database that it is about.
    #[serde(default)]
    pub schema_version: Option<Value>,
}

/// Whether `found` is a version above `known` that a newer program may have written.
pub(super) fn is_newer(found: i64, known: i64) -> bool {
    found > known && found <= HIGHEST
}

/// The refusal of what a newer program made.
pub(super) fn too_new(kind: ErrorKind, path: &str, what: &str, found: i64, known: i64) -> Error {
    Error::new(
        kind,
        format!("{path} was made by a newer cass: {what} {found}; this one knows {known}"),
    )
    .with_hint("Run a newer cass; this one changes nothing here.")
    .with_context("path", path)
    .with_context("found", found.to_string())
    .with_context("known", known.to_string())
}

/// Compares the version that a document tells under `what` with the highest that is `known`.
/// Damaged is an error of the kind `damage`.
///
/// # Errors
/// `schema-too-new`; `damage` for what no version writes: no number, zero, or one below it.
pub(super) fn require(
    root: &Root,
    rel: &str,
    what: &str,
    found: Option<&Value>,
    known: i64,
    damage: ErrorKind,
) -> Result<()> {
    let path = root.full(rel).display().to_string();
    let said = match found {
        Some(value) => match value.as_i64() {
            Some(n) if (1..=known).contains(&n) => return Ok(()),
            Some(n) if is_newer(n, known) => {
                return Err(too_new(ErrorKind::SchemaTooNew, &path, what, n, known));
            }
            _ => {
                let mut text = value.to_string();
                if text.chars().count() > 40 {
                    text = text.chars().take(40).chain(['…']).collect();
                }
                format!("its {what} is {text}, which no version writes")
            }
        },
        None => format!("it does not say its {what}"),
    };
    Err(Error::new(damage, format!("{path} is damaged: {said}")).with_context("path", &path))
}

/// Refuses a data directory in which a newer program left anything that matters to a plan: mirror,
/// generations and their seals, backups, runs that were killed, receipts, accepted losses, the
/// marker of a failure. Makes and takes nothing, so a writer asks before it takes its lock. What is
/// damaged is left to those who read it.
///
/// # Errors
/// `schema-too-new`, `mirror-too-new`; `io`, `permission-denied`.
pub fn refuse_newer(root: &Root) -> Result<()> {
    super::mirror::refuse_newer(root)?;
    only_newer(generation::locate(root))?;
    for id in generation::folders(root)? {
        only_newer(generation::manifest(root, &id))?;
        only_newer(seal::read(root, &id))?;
    }
    for (_, made) in backup::list(root)? {
        only_newer(made.and_then(|b| backup::generation_manifest(root, &b)))?;
    }
    only_newer(run::open_intents(root))?;
    only_newer(run::marker(root))?;
    only_newer(run::receipts(root))?;
    only_newer(Accepted::read(root))
}

fn only_newer<T>(looked: Result<T>) -> Result<()> {
    match looked {
        Err(e) if e.kind() == ErrorKind::SchemaTooNew => Err(e),
        _ => Ok(()),
    }
}
