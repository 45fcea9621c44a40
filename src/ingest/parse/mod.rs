//! From the bytes of a source to pieces that tile it, in flat memory.
//!
//! ```text
//! bytes -> window (streaming) -> ladder (which bytes are a record) -> provider (what it says)
//! ```

use std::io::Read;
use std::path::Path;

use crate::error::Result;
use crate::model::provider::Provider;
use crate::model::record::{Piece, ResumePoint};

/// A source as its harness names it.
#[derive(Debug, Clone, Copy)]
pub struct SourceName<'a> {
    /// Who wrote it.
    pub provider: Provider,
    /// Its path; the file stem and a `subagents` folder carry meaning.
    pub path: &'a Path,
}

/// Starts to parse `content`, which begins at `from` (at byte 0 when there is none). `head` is the
/// beginning of the whole source, at most 256 KiB of it; it names the session of records that come
/// before the first that names it.
#[must_use]
pub fn open<'r>(
    _name: SourceName<'_>,
    _content: Box<dyn Read + 'r>,
    _head: &[u8],
    from: Option<ResumePoint>,
) -> SourceParser<'r> {
    SourceParser {
        from: from.unwrap_or(ResumePoint {
            offset: 0,
            line: 1,
            state: Vec::new(),
        }),
        marker: std::marker::PhantomData,
    }
}

/// The plain bytes of a source: `content` itself, or what it decompresses to when the name ends in
/// `.zst` (any number of frames). Offsets count plain bytes.
///
/// # Errors
/// `io` when the decoder can't be set up.
pub fn decoded<'r>(_path: &Path, content: Box<dyn Read + 'r>) -> Result<Box<dyn Read + 'r>> {
    Ok(content)
}

/// A source being parsed.
#[derive(Debug)]
pub struct SourceParser<'r> {
    from: ResumePoint,
    marker: std::marker::PhantomData<&'r ()>,
}

impl SourceParser<'_> {
    /// The next piece; `None` behind the last one. Pieces tile the content.
    ///
    /// # Errors
    /// `io` when the content can't be read; everything whole before that was handed out.
    #[expect(clippy::should_implement_trait, reason = "fallible, lending nothing")]
    pub fn next(&mut self) -> Result<Option<Piece>> {
        Ok(None)
    }

    /// Where to go on when the source has grown: behind the pieces handed out so far, a torn tail
    /// excepted.
    #[must_use]
    pub fn resume(&self) -> ResumePoint {
        self.from.clone()
    }

    /// Bytes seen: the end of the last piece.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.from.offset
    }
}
