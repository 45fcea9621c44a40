//! The coverage ledger: what was committed, kept outside the archive so that it survives it.
//!
//! Each line holds the hash of the line before. A line is acknowledged once it is synced; a last
//! line without newline was never acknowledged and is dropped by the next writer.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

use serde::{Deserialize, Serialize};

use crate::disk::{AppendFile, Capture, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::source::SourceKey;
use crate::store::generation::GenerationId;
use crate::store::layout;

/// Hash of the line before, in the first line.
const NO_PREV: &str = "00000000000000000000000000000000";
/// Longest line that is read: beyond any commit of one source.
const MAX_LINE: u64 = 256 << 20;
const FIRST_LOOK: u64 = 64 << 10;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Line {
    /// Rows were committed.
    Commit(CommitLine),
    /// A generation became the live one.
    Promote(PromoteLine),
}

/// What one commit did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitLine {
    /// The generation it is in.
    pub generation: GenerationId,
    /// The archive.
    pub archive: String,
    /// Number of the commit, counted from 1 in each generation.
    pub commit: u64,
    /// Head of the commit chain after it.
    pub head: Digest,
    /// Captures that were read: source key and seq.
    pub captures: Vec<(SourceKey, u64)>,
    /// Conversations that were touched: id, coverage keys after it, coverage sum after it.
    pub conversations: Vec<(String, u64, Digest)>,
    /// First 32 hex digits of the BLAKE3 of the line before, without its newline.
    pub prev: String,
}

/// One promotion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromoteLine {
    /// The generation that is live from here on.
    pub generation: GenerationId,
    /// The archive.
    pub archive: String,
    /// Number of its last commit.
    pub commit: u64,
    /// Head of its commit chain.
    pub head: Digest,
    /// Why.
    pub reason: String,
    /// Receipt of the plan that did it.
    pub receipt: Option<String>,
    /// First 32 hex digits of the BLAKE3 of the line before, without its newline.
    pub prev: String,
}

impl Line {
    /// Generation, commit number and chain head: what the archive must hold.
    #[must_use]
    pub fn promise(&self) -> (&GenerationId, u64, Digest) {
        match self {
            Line::Commit(c) => (&c.generation, c.commit, c.head),
            Line::Promote(p) => (&p.generation, p.commit, p.head),
        }
    }

    /// The generation that a run made live, or live again: `receipt` is where the run's receipt lies.
    #[must_use]
    pub fn promotion_of(&self, receipt: &str) -> Option<&GenerationId> {
        match self {
            Line::Promote(p) if p.receipt.as_deref() == Some(receipt) => Some(&p.generation),
            _ => None,
        }
    }

    /// The archive id.
    #[must_use]
    pub fn archive(&self) -> &str {
        match self {
            Line::Commit(c) => &c.archive,
            Line::Promote(p) => &p.archive,
        }
    }

    /// Whether it says what `other` does; their links to the lines before are left out.
    #[must_use]
    pub fn says_the_same(&self, other: &Line) -> bool {
        let unlinked = |line: &Line| {
            let mut line = line.clone();
            match &mut line {
                Line::Commit(c) => c.prev.clear(),
                Line::Promote(p) => p.prev.clear(),
            }
            line
        };
        unlinked(self) == unlinked(other)
    }

    fn prev(&self) -> &str {
        match self {
            Line::Commit(c) => &c.prev,
            Line::Promote(p) => &p.prev,
        }
    }
}

/// The end of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The last whole line.
    pub line: Line,
    /// Its link hash, which the next line holds as `prev`.
    pub link: String,
    /// Bytes up to the end of the last whole line.
    pub whole_len: u64,
    /// Bytes of a torn line behind it.
    pub torn_len: u64,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerProblem {
    /// Number of the line, counted from 1.
    pub line: u64,
    /// One sentence.
    pub what: String,
}

/// Reads the end of the ledger: a cost that does not grow with it. `None` when there is no ledger
/// or no whole line in it.
///
/// # Errors
/// `archive-corrupt` when the last whole line is no ledger line; `io`.
pub fn tail(root: &Root) -> Result<Option<Tail>> {
    let Some(mut file) = root.open_file(layout::COVERAGE)? else {
        return Ok(None);
    };
    let full = root.full(layout::COVERAGE);
    let io = |e| Error::io("read", &full, e);
    let len = file.metadata().map_err(io)?.len();
    let mut look = FIRST_LOOK;
    loop {
        let begin = len.saturating_sub(look);
        file.seek(SeekFrom::Start(begin)).map_err(io)?;
        let mut bytes = Vec::new();
        (&mut file)
            .take(len - begin)
            .read_to_end(&mut bytes)
            .map_err(io)?;
        let end = memchr::memrchr(b'\n', &bytes);
        let start = match end {
            Some(end) => memchr::memrchr(b'\n', &bytes[..end]).map(|i| i + 1),
            None => None,
        };
        match (end, start) {
            (None, _) if begin == 0 => return Ok(None),
            (Some(end), start) if start.is_some() || begin == 0 => {
                let line = &bytes[start.unwrap_or(0)..end];
                let whole_len = begin + u64::try_from(end).unwrap_or(0) + 1;
                let parsed = serde_json::from_slice(line).map_err(|e| {
                    Error::new(
                        ErrorKind::ArchiveCorrupt,
                        format!("the last line of {} is damaged", full.display()),
                    )
                    .with_context("path", layout::COVERAGE)
                    .with_source(e)
                })?;
                return Ok(Some(Tail {
                    line: parsed,
                    link: link(line),
                    whole_len,
                    torn_len: len - whole_len,
                }));
            }
            _ if look > MAX_LINE => {
                return Err(Error::new(
                    ErrorKind::ArchiveCorrupt,
                    format!("{} holds no line end where one must be", full.display()),
                ));
            }
            _ => look = look.saturating_mul(8),
        }
    }
}

/// Streams every whole line, oldest first, and reports lines that are damaged or don't link to
/// the line before. Returns the number of whole lines.
///
/// # Errors
/// `io`, and whatever the callbacks return.
pub fn for_each(
    root: &Root,
    on_line: &mut dyn FnMut(u64, Line) -> Result<()>,
    on_problem: &mut dyn FnMut(LedgerProblem) -> Result<()>,
) -> Result<u64> {
    for_each_within(root, u64::MAX, on_line, on_problem)
}

/// The same; each line comes with its link hash, which the next line holds as `prev`.
///
/// # Errors
/// As [`for_each`].
pub fn for_each_linked(
    root: &Root,
    on_line: &mut dyn FnMut(u64, Line, &str) -> Result<()>,
    on_problem: &mut dyn FnMut(LedgerProblem) -> Result<()>,
) -> Result<u64> {
    stream(root, u64::MAX, on_line, on_problem)
}

/// The same for the lines that are whole within the first `len` bytes: those that were there at a
/// moment whose length is known, whatever a writer has added since.
///
/// # Errors
/// As [`for_each`].
pub fn for_each_within(
    root: &Root,
    len: u64,
    on_line: &mut dyn FnMut(u64, Line) -> Result<()>,
    on_problem: &mut dyn FnMut(LedgerProblem) -> Result<()>,
) -> Result<u64> {
    stream(root, len, &mut |n, line, _| on_line(n, line), on_problem)
}

/// The same; each line comes with its link hash.
///
/// # Errors
/// As [`for_each`].
pub fn for_each_linked_within(
    root: &Root,
    len: u64,
    on_line: &mut dyn FnMut(u64, Line, &str) -> Result<()>,
    on_problem: &mut dyn FnMut(LedgerProblem) -> Result<()>,
) -> Result<u64> {
    stream(root, len, on_line, on_problem)
}

fn stream(
    root: &Root,
    len: u64,
    on_line: &mut dyn FnMut(u64, Line, &str) -> Result<()>,
    on_problem: &mut dyn FnMut(LedgerProblem) -> Result<()>,
) -> Result<u64> {
    let Some(file) = root.open_file(layout::COVERAGE)? else {
        return Ok(0);
    };
    let full = root.full(layout::COVERAGE);
    let mut reader = BufReader::new(file.take(len));
    let mut prev = NO_PREV.to_owned();
    let mut bytes = Vec::new();
    let mut number = 0u64;
    loop {
        bytes.clear();
        (&mut reader)
            .take(MAX_LINE)
            .read_until(b'\n', &mut bytes)
            .map_err(|e| Error::io("read", &full, e))?;
        if bytes.pop() != Some(b'\n') {
            return Ok(number);
        }
        number += 1;
        let this = link(&bytes);
        match serde_json::from_slice::<Line>(&bytes) {
            Ok(line) => {
                if line.prev() != prev {
                    let what = "does not follow the line before".to_owned();
                    on_problem(LedgerProblem { line: number, what })?;
                }
                on_line(number, line, &this)?;
            }
            Err(_) => {
                on_problem(LedgerProblem {
                    line: number,
                    what: "is no ledger line".to_owned(),
                })?;
            }
        }
        prev = this;
    }
}

/// The ledger, open for the holder of the writer lock.
#[derive(Debug)]
pub struct CoverageWriter {
    file: AppendFile,
    link: String,
}

impl CoverageWriter {
    /// Opens the ledger, makes it when missing, and drops a torn last line.
    ///
    /// # Errors
    /// `archive-corrupt` when its last whole line is damaged; `no-space`, `io`.
    pub fn open(cap: Capture<'_>) -> Result<(CoverageWriter, Option<Tail>)> {
        let tail = tail(cap.root())?;
        let keep = tail.as_ref().map_or(0, |t| t.whole_len);
        let len = cap.root().file_len(layout::COVERAGE)?;
        if len.is_some_and(|len| len > keep) {
            cap.drop_torn_tail(layout::COVERAGE, keep)?;
        }
        let (mut file, made) = cap.append(layout::COVERAGE)?;
        if made {
            cap.sync_dir("")?;
        }
        // A killed writer may have left lines that the kernel holds and the disk does not.
        file.sync()?;
        let link = tail
            .as_ref()
            .map_or_else(|| NO_PREV.to_owned(), |t| t.link.clone());
        Ok((CoverageWriter { file, link }, tail))
    }

    /// Appends a line whose `prev` is filled in here. Acknowledged after [`CoverageWriter::sync`].
    ///
    /// # Errors
    /// `no-space` or `io`; the writer is then of no use any more.
    pub fn append(&mut self, line: &mut Line) -> Result<()> {
        match line {
            Line::Commit(c) => c.prev.clone_from(&self.link),
            Line::Promote(p) => p.prev.clone_from(&self.link),
        }
        let mut bytes = serde_json::to_vec(line).map_err(|e| {
            Error::new(
                ErrorKind::Internal,
                "a ledger line can't be written as JSON",
            )
            .with_source(e)
        })?;
        self.link = link(&bytes);
        bytes.push(b'\n');
        self.file.append(&bytes)
    }

    /// Makes every appended line durable.
    ///
    /// # Errors
    /// `io`; the writer is then of no use any more.
    pub fn sync(&mut self) -> Result<()> {
        self.file.sync()
    }
}

fn link(line: &[u8]) -> String {
    let mut hex = Digest::of(line).to_hex();
    hex.truncate(32);
    hex
}
