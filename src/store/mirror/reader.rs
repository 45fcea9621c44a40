//! Reading the mirror without a trace.

use std::path::Path;

use super::types::{CaptureLine, Head, MirrorProblem, SourceIdent, VerifySummary};
use super::ContentReader;
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::source::SourceKey;

fn later() -> Error {
    Error::new(ErrorKind::Unsupported, "not written yet")
}

/// Reads a mirror. Holds the archive lock shared while it lives.
#[derive(Debug)]
pub struct MirrorReader<'r> {
    _root: &'r Root,
}

impl<'r> MirrorReader<'r> {
    /// Opens the mirror below `root`; `None` when none was ever made.
    ///
    /// # Errors
    /// `mirror-too-new`, `lock-busy`, `io`.
    pub fn open(_root: &'r Root) -> Result<Option<Self>> {
        Err(later())
    }

    /// Why the derived index is not used, if it isn't: answers then come from packs and ledgers.
    #[must_use]
    pub fn index_problem(&self) -> Option<&str> {
        None
    }

    /// Every source's newest capture, by key.
    ///
    /// # Errors
    /// `io`, or what `each` returns.
    pub fn for_each_head(&self, _each: &mut dyn FnMut(Head) -> Result<()>) -> Result<()> {
        Err(later())
    }

    /// The newest capture of a source.
    ///
    /// # Errors
    /// `io`.
    pub fn head(&self, _key: SourceKey) -> Result<Option<Head>> {
        Err(later())
    }

    /// The sources captured from `path`.
    ///
    /// # Errors
    /// `io`.
    pub fn resolve_path(&self, _path: &Path) -> Result<Vec<SourceIdent>> {
        Err(later())
    }

    /// The captures of a source, oldest first.
    ///
    /// # Errors
    /// `io`, `mirror-damaged`, or what `each` returns.
    pub fn captures(
        &self,
        _key: SourceKey,
        _each: &mut dyn FnMut(CaptureLine) -> Result<()>,
    ) -> Result<()> {
        Err(later())
    }

    /// One capture of a source.
    ///
    /// # Errors
    /// `io`, `mirror-damaged`.
    pub fn capture(&self, _key: SourceKey, _seq: u64) -> Result<Option<CaptureLine>> {
        Err(later())
    }

    /// The content of a recipe; every object is checked as it is read.
    ///
    /// # Errors
    /// `verify-failed` names object, pack and offset; `io`.
    pub fn open_content(&self, _recipe: Digest, _len: u64) -> Result<ContentReader<'r>> {
        Err(later())
    }

    /// Looks for damage. Without `deep`: names and lengths of packs, chains of ledgers, and
    /// whether every promised recipe is there. With `deep`: every record of every pack, every
    /// promised content, and the derived index against both. `deadline` says when time is up.
    ///
    /// # Errors
    /// `io` only when the mirror can't be read at all; damage goes to `on_problem`.
    pub fn verify(
        &self,
        _deep: bool,
        _deadline: &mut dyn FnMut() -> bool,
        _on_problem: &mut dyn FnMut(MirrorProblem),
    ) -> Result<VerifySummary> {
        Err(later())
    }
}

