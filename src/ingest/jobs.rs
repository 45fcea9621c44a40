//! Which captures the archive has not read yet, and how each is to be read.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::ingest::parse::{self, Beginning, Container, SourceName};
use crate::ingest::projection::{HEAD_BYTES, unreadable};
use crate::model::digest::Digest;
use crate::model::record::ResumePoint;
use crate::model::source::SourceKey;
use crate::store::archive::{ArchiveWriter, Cursor};
use crate::store::mirror::{CaptureLine, Head, MirrorWriter, SourceIdent, begins_with};

/// One capture to read.
pub(super) struct Job {
    pub(super) ident: SourceIdent,
    pub(super) line: CaptureLine,
    /// Where to go on; `None` begins a new epoch of the source.
    pub(super) from: Option<ResumePoint>,
    /// Where reading of the capture before ended.
    pub(super) before: Option<ResumePoint>,
    pub(super) restart: bool,
}

/// A session source with a capture that was not read.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ident: SourceIdent,
    seq: u64,
    is_log: bool,
    /// What the archive read last, where this ledger does not hold it: then nothing goes on from it.
    stale: Option<(u64, Digest)>,
}

impl Pending {
    /// Number of the newest capture.
    pub(super) fn newest(&self) -> u64 {
        self.seq
    }

    /// Whether the capture is the newest of the source.
    pub(super) fn is_newest(&self, line: &CaptureLine) -> bool {
        line.seq == self.seq
    }
}

/// One capture to read.
#[derive(Debug)]
pub(super) struct Turn {
    /// Place of its source among those that are pending.
    pub(super) source: usize,
    pub(super) line: CaptureLine,
    at_ms: i64,
}

/// Session sources whose newest capture was not read.
pub(super) fn pending(
    mirror: &mut MirrorWriter<'_>,
    is_session: &dyn Fn(&SourceIdent) -> bool,
    is_read: &dyn Fn(SourceKey, u64, Digest) -> bool,
) -> Result<Vec<Pending>> {
    let mut pending = Vec::new();
    mirror.for_each_head(&mut |head: Head| {
        let Head {
            ident, seq, hash, ..
        } = head;
        if is_session(&ident) && !is_read(ident.key, seq, hash) {
            pending.push(Pending {
                ident,
                seq,
                is_log: true,
                stale: None,
            });
        }
        Ok(())
    })?;
    Ok(pending)
}

/// Adds the captures of one source that were not read, oldest first.
///
/// One that the next capture merely extends is read, too: a record is found in the capture that
/// brought it, however many of them are read in one run.
pub(super) fn add_turns(
    mirror: &mut MirrorWriter<'_>,
    archive: &ArchiveWriter<'_>,
    source: usize,
    pending: &mut Pending,
    turns: &mut Vec<Turn>,
) -> Result<()> {
    let cursor: Option<Cursor> = archive.cursor(pending.ident.key)?;
    let mut lines: Vec<CaptureLine> = Vec::new();
    mirror.captures(pending.ident.key, &mut |line| {
        if line.seq <= pending.seq {
            lines.push(line);
        }
        Ok(())
    })?;
    // Anything but a log is read anew as a whole: every version says what changed.
    if cursor.is_some() || lines.len() > 1 {
        pending.is_log = container_of(mirror, &pending.ident, &lines)? == Container::Log;
    }
    // The capture that the cursor speaks of, if this ledger is still the one that holds it.
    if let Some(cursor) = cursor {
        let read = (cursor.parsed_seq, cursor.hash);
        match lines.iter().position(|l| (l.seq, l.hash) == read) {
            Some(at) => drop(lines.drain(..=at)),
            None => pending.stale = Some(read),
        }
    }
    // A clock that went back does not change the order of a ledger.
    let mut newest = i64::MIN;
    turns.extend(lines.into_iter().map(|line| {
        newest = newest.max(line.at_ms);
        Turn {
            source,
            at_ms: newest,
            line,
        }
    }));
    Ok(())
}

/// Puts the turns of all sources in the order of capture. It decides which of two diverging sources
/// keeps a conversation's id and which of two versions stands, so an archive that is made anew is
/// the one that was lost only where its captures are read in the order in which they came.
pub(super) fn in_order(turns: &mut [Turn], pending: &[Pending]) {
    let path = |t: &Turn| pending.get(t.source).map(|p| p.ident.path.as_path());
    // A copy that the harness made earlier is read before what it was made from: of two versions
    // of a record the later one stands.
    let is_live = |t: &Turn| {
        path(t)
            .and_then(Path::extension)
            .is_none_or(|e| e != "backup")
    };
    turns.sort_by(|a, b| {
        (is_live(a), a.at_ms, path(a), a.line.seq).cmp(&(is_live(b), b.at_ms, path(b), b.line.seq))
    });
}

/// How the capture of a turn is read, now that those before it were.
pub(super) fn job(
    mirror: &mut MirrorWriter<'_>,
    archive: &ArchiveWriter<'_>,
    pending: &Pending,
    line: &CaptureLine,
) -> Result<Job> {
    let cursor = archive.cursor(pending.ident.key)?;
    let known = cursor.is_some();
    let before = cursor.as_ref().map(|c| c.resume.clone());
    let mut from = None;
    if let Some(cursor) = cursor
        && pending.is_log
        && pending.stale != Some((cursor.parsed_seq, cursor.hash))
        && extends(mirror, cursor.len, cursor.hash, line)?
    {
        from = Some(cursor.resume);
    }
    Ok(Job {
        ident: pending.ident.clone(),
        line: line.clone(),
        restart: known && from.is_none(),
        from,
        before,
    })
}

/// Whether a later capture of a log holds all that `line` does.
pub(super) fn is_held_by(
    mirror: &mut MirrorWriter<'_>,
    pending: &Pending,
    line: &CaptureLine,
    later: &CaptureLine,
) -> Result<bool> {
    Ok(pending.is_log && extends(mirror, line.len, line.hash, later)?)
}

/// Whether the content of which length and digest are given is the beginning of `new`'s.
fn extends(
    mirror: &mut MirrorWriter<'_>,
    len: u64,
    hash: Digest,
    new: &CaptureLine,
) -> Result<bool> {
    if new.len < len {
        return Ok(false);
    }
    let mut content = mirror.open_content(new.recipe, new.len)?;
    begins_with(&mut content, len, hash).map_err(|e| unreadable(new, e))
}

/// How the source is read, by the beginning of its newest capture that can be read. Where none can,
/// each is met again and says so.
fn container_of(
    mirror: &mut MirrorWriter<'_>,
    ident: &SourceIdent,
    lines: &[CaptureLine],
) -> Result<Container> {
    let mut head = Vec::new();
    for line in lines.iter().rev() {
        head.clear();
        match beginning(mirror, line, &mut head) {
            Ok(()) => break,
            Err(e) if is_of_one_source(&e) => {}
            Err(e) => return Err(e),
        }
    }
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

fn beginning(mirror: &mut MirrorWriter<'_>, line: &CaptureLine, head: &mut Vec<u8>) -> Result<()> {
    mirror
        .open_content(line.recipe, line.len)?
        .take(HEAD_BYTES)
        .read_to_end(head)
        .map(drop)
        .map_err(|e| unreadable(line, e))
}

/// Whether an error is about one source, so that the others go on.
pub(super) fn is_of_one_source(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::MirrorDamaged | ErrorKind::VerifyFailed)
}
