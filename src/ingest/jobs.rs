//! Which captures the archive has not read yet, and how each is to be read.

use std::collections::BTreeMap;
use std::io::Read;

use crate::error::Result;
use crate::ingest::parse::{self, Beginning, Container, SourceName};
use crate::ingest::projection::{HEAD_BYTES, unreadable};
use crate::model::digest::Digest;
use crate::model::record::ResumePoint;
use crate::model::source::SourceKey;
use crate::sources::usage::{FileUse, Usages};
use crate::store::archive::{ArchiveWriter, Cursor};
use crate::store::mirror::{CaptureLine, Head, MirrorWriter, SourceIdent, begins_with};

/// One capture to read.
pub(super) struct Job {
    pub(super) ident: SourceIdent,
    pub(super) line: CaptureLine,
    /// Where to go on; `None` begins a new epoch of the source.
    pub(super) from: Option<ResumePoint>,
    pub(super) restart: bool,
}

/// A session source with a capture that was not read.
pub(super) struct Pending {
    at_ms: i64,
    pub(super) ident: SourceIdent,
    pub(super) seq: u64,
    pub(super) len: u64,
}

/// Session sources whose newest capture was not read, in the order of capture: the order decides
/// which of two diverging sources keeps a conversation's id.
pub(super) fn pending(
    mirror: &mut MirrorWriter<'_>,
    usages: &Usages,
    is_read: &dyn Fn(SourceKey, u64, Digest) -> bool,
) -> Result<Vec<Pending>> {
    let mut pending = Vec::new();
    mirror.for_each_head(&mut |head: Head| {
        let Head {
            ident,
            seq,
            hash,
            at_ms,
            len,
            ..
        } = head;
        if usages.of(ident.provider, &ident.path) != Some(FileUse::Session) {
            return Ok(());
        }
        if !is_read(ident.key, seq, hash) {
            pending.push(Pending {
                at_ms,
                ident,
                seq,
                len,
            });
        }
        Ok(())
    })?;
    // A copy that the harness made earlier is read before what it was made from: of two versions
    // of a record the later one stands.
    let is_live = |p: &Pending| p.ident.path.extension().is_none_or(|e| e != "backup");
    pending.sort_by(|a, b| {
        (is_live(a), a.at_ms, &a.ident.path).cmp(&(is_live(b), b.at_ms, &b.ident.path))
    });
    Ok(pending)
}

/// The captures of one source to read. One that the next capture merely extends is left to it.
pub(super) fn jobs(
    mirror: &mut MirrorWriter<'_>,
    archive: &ArchiveWriter<'_>,
    ident: &SourceIdent,
    newest: u64,
) -> Result<Vec<Job>> {
    let cursor: Option<Cursor> = archive.cursor(ident.key)?;
    let mut lines: Vec<CaptureLine> = Vec::new();
    mirror.captures(ident.key, &mut |line| {
        if line.seq <= newest {
            lines.push(line);
        }
        Ok(())
    })?;
    // The capture that the cursor speaks of, if this ledger is still the one that holds it.
    let read = cursor.as_ref().and_then(|c| {
        lines
            .iter()
            .position(|l| (l.seq, l.hash) == (c.parsed_seq, c.hash))
    });
    let known = cursor.is_some();
    // Anything but a log is read anew as a whole: every version says what changed.
    let is_log = match lines.last() {
        Some(newest) if known || lines.len() > 1 => {
            container_of(mirror, ident, newest)? == Container::Log
        }
        _ => true,
    };
    let mut before = read
        .map(|at| lines.drain(..=at).next_back())
        .unwrap_or_default();
    let mut from = cursor.filter(|_| before.is_some()).map(|c| c.resume);
    let mut jobs: Vec<Job> = Vec::new();
    let mut lines = lines.into_iter().peekable();
    while let Some(line) = lines.next() {
        let extended = match lines.peek() {
            Some(next) => is_log && extends(mirror, &line, next)?,
            None => false,
        };
        if extended {
            continue;
        }
        let goes_on = match &before {
            Some(b) => is_log && extends(mirror, b, &line)?,
            None => false,
        };
        jobs.push(Job {
            ident: ident.clone(),
            line: line.clone(),
            // Only the first job can go on from the cursor; a later one follows a rewrite.
            from: if goes_on { from.take() } else { None },
            restart: !goes_on && (known || before.is_some()),
        });
        before = Some(line);
        from = None;
    }
    Ok(jobs)
}

/// Whether `old`'s content is the beginning of `new`'s.
fn extends(mirror: &mut MirrorWriter<'_>, old: &CaptureLine, new: &CaptureLine) -> Result<bool> {
    if new.len < old.len {
        return Ok(false);
    }
    let mut content = mirror.open_content(new.recipe, new.len)?;
    begins_with(&mut content, old.len, old.hash).map_err(|e| unreadable(new, e))
}

/// How the source is read, by the beginning of a capture.
fn container_of(
    mirror: &mut MirrorWriter<'_>,
    ident: &SourceIdent,
    line: &CaptureLine,
) -> Result<Container> {
    let mut head = Vec::new();
    mirror
        .open_content(line.recipe, line.len)?
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .map_err(|e| unreadable(line, e))?;
    if parse::is_packed(&ident.path, &head) {
        return Ok(Container::Log);
    }
    let beginning = Beginning {
        name: SourceName {
            provider: ident.provider,
            path: &ident.path,
        },
        head: &head,
        siblings: &BTreeMap::new(),
    };
    Ok(parse::method(&beginning, None).container())
}
