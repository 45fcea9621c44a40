//! Generations: each archive lives in a folder of its own, and `CURRENT` names the live one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::disk::{Capture, EntryKind, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::store::archive::SCHEMA_VERSION;
use crate::store::layout;
use crate::store::version::{self, Said};

/// Layout version of the manifest of a generation whose database was made in it.
pub const FORMAT: u32 = 1;
/// Layout version of a manifest that names an origin: who does not know origins would take the
/// database for one of another generation.
pub const FORMAT_COPIED: u32 = 2;

/// Names one generation: `g` and eight digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GenerationId(String);

impl GenerationId {
    /// The id with number `n`.
    #[must_use]
    pub fn numbered(n: u32) -> Self {
        GenerationId(format!("g{n:08}"))
    }

    /// The id, if `text` is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('g')?;
        (digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_digit()))
            .then(|| GenerationId(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The id behind this one.
    #[must_use]
    pub fn next(&self) -> Self {
        GenerationId::numbered(self.number().saturating_add(1))
    }

    fn number(&self) -> u32 {
        self.0[1..].parse().unwrap_or(0)
    }
}

impl std::fmt::Display for GenerationId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for GenerationId {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        GenerationId::parse(&text).ok_or_else(|| format!("{text:?} is no generation id"))
    }
}

impl From<GenerationId> for String {
    fn from(id: GenerationId) -> String {
        id.0
    }
}

/// What a generation says about itself, in `manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Layout version.
    pub format: u32,
    /// The archive that all its generations belong to.
    pub archive_id: String,
    /// This generation.
    pub generation: GenerationId,
    /// Schema version of its database.
    pub schema_version: i64,
    /// When it was made, milliseconds since the Unix epoch.
    pub created_ms: i64,
    /// Version of the program that made it.
    pub cass_version: String,
    /// The generation that the rows of `meta` name, where the database was copied from another
    /// one: its commit chain, which begins with the digest of `meta`, goes on unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<GenerationId>,
    /// Where the rows of a repaired archive come from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// Where the rows of a repaired archive come from. `conversations` and `captures` are keyed by authority
/// class: `archive`, `mirror`, `backup`, `named`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// How it was made: `rebuilt`, `copied`, …
    pub kind: String,
    /// Conversations of which each class gave records that no class before it gave; one that several gave
    /// a part of counts for each of them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conversations: BTreeMap<String, u64>,
    /// Captures read from each class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub captures: BTreeMap<String, u64>,
    /// Records and messages whose own conversation or record is lost, by the public id of the
    /// conversation that they are under now.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub strays: BTreeMap<String, u64>,
}

impl Manifest {
    /// The manifest of a generation whose database is made in it.
    #[must_use]
    pub fn made(id: &GenerationId, archive_id: &str, now_ms: i64) -> Manifest {
        Manifest {
            format: FORMAT,
            archive_id: archive_id.to_owned(),
            generation: id.clone(),
            schema_version: SCHEMA_VERSION,
            created_ms: now_ms,
            cass_version: env!("CARGO_PKG_VERSION").to_owned(),
            origin: None,
            provenance: None,
        }
    }

    /// The manifest of a generation whose database is a copy of `of`'s.
    #[must_use]
    pub fn copied(id: &GenerationId, of: &Manifest, now_ms: i64) -> Manifest {
        Manifest {
            format: FORMAT_COPIED,
            schema_version: of.schema_version,
            origin: Some(of.named_by_meta().clone()),
            ..Manifest::made(id, &of.archive_id, now_ms)
        }
    }

    /// Whether its database is of an older schema than this program writes: it is read, and nothing is
    /// added to it.
    #[must_use]
    pub fn is_older(&self) -> bool {
        self.schema_version < SCHEMA_VERSION
    }

    /// The generation that the rows of `meta` name.
    #[must_use]
    pub fn named_by_meta(&self) -> &GenerationId {
        self.origin.as_ref().unwrap_or(&self.generation)
    }
}

/// The live generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generation {
    /// Its id, from `CURRENT`.
    pub id: GenerationId,
    /// Its manifest.
    pub manifest: Manifest,
}

/// What a data directory holds, as far as one look at `CURRENT` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // one is made a command, and it is never stored
pub enum Live {
    /// No archive was ever made here. `mirror` tells whether captures were.
    Never {
        /// Whether a mirror is there.
        mirror: bool,
    },
    /// `CURRENT` names this generation and its database file is there.
    Present(Generation),
}

/// Finds the live generation. Writes nothing.
///
/// # Errors
/// `foreign-archive` when another program's archive lies at the root; `archive-missing` when one
/// existed and is gone; `archive-unreadable` when `CURRENT` or the manifest is damaged;
/// `unsafe-target` when something else has the place of the generations or of one of these files;
/// `schema-too-new` when a newer version of this program made it; `io`.
pub fn locate(root: &Root) -> Result<Live> {
    let Some(id) = current(root)? else {
        if root.exists(layout::ARCHIVE_DB)? {
            return Err(Error::new(
                ErrorKind::ForeignArchive,
                format!(
                    "{} belongs to another program",
                    root.full(layout::ARCHIVE_DB).display()
                ),
            )
            .with_hint("Name another data directory with --data-dir; nothing was written here."));
        }
        root.require_folder(layout::GENERATIONS)?;
        if root.file_len(layout::COVERAGE)?.is_some_and(|len| len > 0) {
            return Err(missing(
                root,
                "CURRENT is gone, but the coverage ledger names an archive",
            ));
        }
        return Ok(Live::Never {
            mirror: root.exists(layout::MIRROR)?,
        });
    };
    root.require_folder(layout::GENERATIONS)?;
    let manifest = match manifest(root, &id) {
        Ok(Some(manifest)) => manifest,
        Ok(None) if root.exists(&layout::archive_db(id.as_str()))? => {
            return Err(unreadable(
                root,
                &layout::manifest(id.as_str()),
                "is not there",
            ));
        }
        Ok(None) => {
            return Err(missing(
                root,
                &format!("{id}, which CURRENT names, is gone"),
            ));
        }
        Err(e) => return Err(e),
    };
    if !root.exists(&layout::archive_db(id.as_str()))? {
        return Err(missing(
            root,
            &format!("the database of {id}, which CURRENT names, is gone"),
        ));
    }
    Ok(Live::Present(Generation { id, manifest }))
}

/// The id that `CURRENT` holds, whether or not its generation is there; `None` without `CURRENT`.
///
/// # Errors
/// `archive-unreadable` when it names no generation; `io`.
pub fn current(root: &Root) -> Result<Option<GenerationId>> {
    let Some(bytes) = root.read(layout::CURRENT, 4096)? else {
        return Ok(None);
    };
    std::str::from_utf8(&bytes)
        .ok()
        .and_then(|t| t.strip_suffix('\n'))
        .and_then(GenerationId::parse)
        .map(Some)
        .ok_or_else(|| unreadable(root, layout::CURRENT, "names no generation"))
}

/// The id that `CURRENT` holds; `None` where it is missing, damaged or no file at all.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn current_or_none(root: &Root) -> Result<Option<GenerationId>> {
    match current(root) {
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::ArchiveUnreadable | ErrorKind::UnsafeTarget
            ) =>
        {
            Ok(None)
        }
        other => other,
    }
}

/// The manifest of a generation; `None` when there is none.
///
/// # Errors
/// `archive-unreadable` when it is damaged or names another generation; `schema-too-new`; `io`.
pub fn manifest(root: &Root, id: &GenerationId) -> Result<Option<Manifest>> {
    let rel = layout::manifest(id.as_str());
    let Some(bytes) = root.read(&rel, 1 << 20)? else {
        return Ok(None);
    };
    let said: Said = serde_json::from_slice(&bytes)
        .map_err(|e| unreadable(root, &rel, "is damaged").with_source(e))?;
    require_versions(root, &rel, &said, ErrorKind::ArchiveUnreadable)?;
    let manifest: Manifest = serde_json::from_slice(&bytes)
        .map_err(|e| unreadable(root, &rel, "is damaged").with_source(e))?;
    if &manifest.generation != id {
        return Err(unreadable(root, &rel, "names another generation"));
    }
    Ok(Some(manifest))
}

/// Compares both versions that a manifest tells with those that are known.
pub(super) fn require_versions(
    root: &Root,
    rel: &str,
    said: &Said,
    damage: ErrorKind,
) -> Result<()> {
    let format = said.format.as_ref();
    version::require(root, rel, "format", format, FORMAT_COPIED.into(), damage)?;
    let schema = said.schema_version.as_ref();
    version::require(root, rel, "schema", schema, SCHEMA_VERSION, damage)
}

/// Every generation folder, oldest first.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn folders(root: &Root) -> Result<Vec<GenerationId>> {
    let entries = root.list(layout::GENERATIONS)?.unwrap_or_default();
    Ok(entries
        .iter()
        .filter(|e| e.kind == EntryKind::Dir)
        .filter_map(|e| GenerationId::parse(&e.name))
        .collect())
}

/// The id behind the last one in use.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn next_id(root: &Root) -> Result<GenerationId> {
    let last = folders(root)?.last().map_or(0, GenerationId::number);
    Ok(GenerationId::numbered(last.saturating_add(1)))
}

/// Writes the manifest of a generation that is being staged.
///
/// # Errors
/// `no-space`, `permission-denied`, `io`.
pub fn write_manifest(cap: Capture<'_>, manifest: &Manifest) -> Result<()> {
    let mut bytes = serde_json::to_vec_pretty(manifest).map_err(|e| {
        Error::new(ErrorKind::Internal, "a manifest can't be written as JSON").with_source(e)
    })?;
    bytes.push(b'\n');
    cap.replace(&layout::manifest(manifest.generation.as_str()), &bytes)
}

/// Makes a verified generation the live one: the only promotion step.
///
/// # Errors
/// `no-space`, `permission-denied`, `io`; the old one is then still live.
pub fn set_current(cap: Capture<'_>, id: &GenerationId) -> Result<()> {
    cap.replace(layout::CURRENT, format!("{id}\n").as_bytes())
}

fn missing(root: &Root, what: &str) -> Error {
    Error::new(
        ErrorKind::ArchiveMissing,
        format!(
            "the archive in {} is missing: {what}",
            root.path().display()
        ),
    )
    .with_hint("The raw mirror is not touched; captures go on. Rebuild or restore the archive.")
}

fn unreadable(root: &Root, rel: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::ArchiveUnreadable,
        format!("{} {what}", root.full(rel).display()),
    )
    .with_context("path", rel)
}
