//! The one writer of the mirror.

use std::io::Read;

use super::ContentReader;
use super::types::{
    Added, CaptureLine, CaptureMeta, GroupMember, Head, MirrorProblem, Shape, SourceIdent,
};
use crate::disk::Capture;
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::source::SourceKey;

/// Contents up to this many bytes may be prepared in memory; longer ones are streamed.
pub const PREPARE_LIMIT: u64 = 8 << 20;

fn later() -> Error {
    Error::new(ErrorKind::Unsupported, "not written yet")
}

/// A small content, hashed and compressed, ready to be added.
#[derive(Debug)]
pub struct Prepared {}

/// Adds captures. One exists at a time: it borrows the writer lock.
#[derive(Debug)]
pub struct MirrorWriter<'l> {
    cap: Capture<'l>,
}

impl<'l> MirrorWriter<'l> {
    /// Opens the mirror, makes it when missing, and clears up after a writer that was killed.
    ///
    /// # Errors
    /// `mirror-too-new`: nothing was written. `no-space`, `permission-denied`, `io`.
    pub fn open(cap: Capture<'l>, _now_ms: i64) -> Result<Self> {
        let _ = cap;
        Err(later())
    }

    /// What opening found damaged, torn tails included.
    #[must_use]
    pub fn problems(&self) -> &[MirrorProblem] {
        &[]
    }

    /// Every source's newest capture, by key; reads nothing but the derived index.
    ///
    /// # Errors
    /// `io`, or what `each` returns.
    pub fn for_each_head(&mut self, _each: &mut dyn FnMut(Head) -> Result<()>) -> Result<()> {
        let _ = self.cap;
        Err(later())
    }

    /// The newest capture of a source.
    ///
    /// # Errors
    /// `io`.
    pub fn head(&mut self, _key: SourceKey) -> Result<Option<Head>> {
        Err(later())
    }

    /// The captures of a source, oldest first.
    ///
    /// # Errors
    /// `io`, `mirror-damaged`, or what `each` returns.
    pub fn captures(
        &mut self,
        _key: SourceKey,
        _each: &mut dyn FnMut(CaptureLine) -> Result<()>,
    ) -> Result<()> {
        Err(later())
    }

    /// One capture of a source.
    ///
    /// # Errors
    /// `io`, `mirror-damaged`.
    pub fn capture(&mut self, _key: SourceKey, _seq: u64) -> Result<Option<CaptureLine>> {
        Err(later())
    }

    /// Hashes, cuts and compresses a content of at most [`PREPARE_LIMIT`] bytes. Pure work, for
    /// any thread. `head` is the newest capture of the same source, as [`MirrorWriter::head`]
    /// gives it.
    ///
    /// # Errors
    /// `internal` when the content is too long.
    pub fn prepare(_bytes: Vec<u8>, _shape: Shape, _head: Option<&Head>) -> Result<Prepared> {
        Err(later())
    }

    /// Adds a prepared content as the next capture of `ident`. A content equal to the newest
    /// capture's adds no capture; only its gate is kept.
    ///
    /// # Errors
    /// `no-space`, `io`; the writer is then of no use any more.
    pub fn add(
        &mut self,
        _ident: &SourceIdent,
        _prepared: Prepared,
        _meta: CaptureMeta,
    ) -> Result<Added> {
        Err(later())
    }

    /// Adds a content of any length, read once, in flat memory.
    ///
    /// # Errors
    /// What `content` fails with, as `io`; the writer goes on. Else as [`MirrorWriter::add`].
    pub fn add_stream(
        &mut self,
        _ident: &SourceIdent,
        _content: &mut dyn Read,
        _shape: Shape,
        _meta: CaptureMeta,
    ) -> Result<Added> {
        Err(later())
    }

    /// Stores another file of the capture that is added next (`-wal`, `-journal`); goes into
    /// [`CaptureMeta::group`].
    ///
    /// # Errors
    /// As [`MirrorWriter::add_stream`].
    pub fn store_member(
        &mut self,
        _key: SourceKey,
        _name: &str,
        _content: &mut dyn Read,
        _shape: Shape,
    ) -> Result<GroupMember> {
        Err(later())
    }

    /// The content of a recipe, from what was added so far, flushed or not.
    ///
    /// # Errors
    /// `verify-failed` names object, pack and offset; `io`.
    pub fn open_content(&mut self, _recipe: Digest, _len: u64) -> Result<ContentReader<'l>> {
        Err(later())
    }

    /// Ends the batch: when this returns, everything added is durable and promised. Called by
    /// itself every 32 MiB stored or 256 sources.
    ///
    /// # Errors
    /// `no-space`, `io`; the writer is then of no use any more.
    pub fn flush(&mut self) -> Result<()> {
        Err(later())
    }

    /// Flushes and folds the derived index's log into it, if no reader is in it.
    ///
    /// # Errors
    /// As [`MirrorWriter::flush`].
    pub fn finish(mut self) -> Result<()> {
        self.flush()
    }
}
