//! From captures to rows: every capture that the archive has not read yet, oldest first.
//!
//! One thread reads and parses, this one writes; one transaction a capture, whose cursor commits
//! with its rows. A kill costs the source at hand and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};

use crossbeam_channel::{Receiver, Sender};

use crate::disk::WriterLock;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::capture::{CaptureOutcome, Note, Problem};
use crate::ingest::parse::{self, SourceName};
use crate::ingest::watch::Watch;
use crate::model::digest::Digest;
use crate::model::note::NoteCode;
use crate::model::provider::Provider;
use crate::model::record::{Disposition, Piece, ResumePoint, SkipReason, Span};
use crate::model::source::SourceKey;
use crate::sources::usage::{FileUse, Usages};
use crate::store::archive::{ArchiveWriter, CaptureRef, Cursor};
use crate::store::coverage::CommitLine;
use crate::store::mirror::{
    CaptureLine, ContentReader, Head, MirrorWriter, SourceIdent, begins_with,
};

/// How much of a source's beginning the parser may look at.
const HEAD_BYTES: u64 = 256 << 10;
/// Pieces handed over at once, and hand-overs in flight: bounds the memory between the threads.
const BATCH: usize = 256;
const IN_FLIGHT: usize = 8;

/// Sources from which on commits are acknowledged together, and how many at a time.
const MANY: usize = 16;
const BATCH_COMMITS: usize = 64;
/// A longer WAL is folded into the database between two sources.
const WAL_LIMIT: u64 = 64 << 20;

/// What feeding did.
#[derive(Debug, Default)]
pub struct FeedOutcome {
    /// Captures read into the archive.
    pub parsed: u64,
    /// Commits made.
    pub commits: u64,
    /// Records and messages seen in these captures.
    pub records: u64,
    /// Messages in these captures.
    pub messages: u64,
    /// The same by harness.
    pub messages_by: Vec<(Provider, u64)>,
    /// Conversations that were new.
    pub conversations_added: u64,
    /// Conversations that were there and grew.
    pub conversations_grown: u64,
    /// The generation written to.
    pub generation: String,
    /// Whether it was made by this run.
    pub created: bool,
    /// Coverage lines that an earlier run had not written and this one did.
    pub backfilled: u64,
    /// Number of the last commit, and its chain head in hex.
    pub commit: u64,
    /// Chain head of the last commit, hex.
    pub head: String,
    /// Records that the ladder could not read, and their bytes.
    pub skipped: u64,
    /// Bytes that hold no record.
    pub skipped_bytes: u64,
    /// Sources that could not be read into the archive.
    pub problems: Vec<Problem>,
    /// Sources that were, and gave nothing.
    pub notes: Vec<Note>,
    /// Whether it ended early because it was told to.
    pub stopped: bool,
}

/// One capture to read.
struct Job {
    ident: SourceIdent,
    line: CaptureLine,
    /// Where to go on; `None` begins a new epoch of the source.
    from: Option<ResumePoint>,
    restart: bool,
}

/// What the parsing thread sends for a job, in this order: batches, then an end.
enum Parsed {
    Batch(Vec<Piece>),
    End(ResumePoint),
    /// A compressed container ends or breaks here; what was decoded before stands.
    Cut(ResumePoint, Error),
    Failed(Error),
}

/// Reads every pending capture of every session source.
///
/// # Errors
/// Errors of the archive or the mirror as a whole. A source that can't be
/// parsed or whose capture can't be read is a [`Problem`].
pub fn feed(
    env: &Env,
    capture: &CaptureOutcome,
    mirror: &mut MirrorWriter<'_>,
    archive: &mut ArchiveWriter<'_>,
    lock: &WriterLock,
    watch: Watch<'_>,
) -> Result<FeedOutcome> {
    let begun = archive.conversation_count();
    let usages = Usages::new(capture.roots.iter().map(|(root, ..)| root));
    let mut touched = BTreeSet::new();
    let mut by: BTreeMap<&'static str, (Provider, u64)> = BTreeMap::new();
    let mut out = FeedOutcome {
        generation: archive.generation().id.to_string(),
        created: archive.found().created,
        backfilled: archive.found().backfilled,
        ..FeedOutcome::default()
    };
    // By content as well as by number: a ledger that was lost begins anew, and its numbers say
    // nothing about what was read.
    let parsed = archive.parsed()?;
    let is_read = |key: SourceKey, seq: u64, hash: Digest| parsed.get(&key) == Some(&(seq, hash));
    // When nothing was captured, what the capture run saw of the mirror still holds.
    let pending = if capture.captured.is_empty()
        && capture
            .sessions
            .iter()
            .all(|(key, seq, hash)| is_read(*key, *seq, *hash))
    {
        Vec::new()
    } else {
        pending(mirror, &usages, &is_read)?
    };
    watch.progress.phase("archive", Some(pending.len() as u64));
    // A first index has thousands of small sources: one sync for many of them. What a power cut
    // then takes was never acknowledged, and is read again from its captures.
    archive.acknowledge_every(if pending.len() > MANY {
        BATCH_COMMITS
    } else {
        1
    })?;
    for source in pending {
        if watch.interrupt.pending().is_some() {
            out.stopped = true;
            break;
        }
        if archive.wal_bytes() > WAL_LIMIT {
            // A reader may be in it: then the WAL grows on, and the next look tries again.
            archive.checkpoint_if_free(lock)?;
        }
        match jobs(mirror, archive, &source.ident, source.seq) {
            Ok(jobs) => {
                for job in jobs {
                    let before = out.messages;
                    if let Some(line) = run(env, mirror, archive, &job, &mut out)? {
                        touched.extend(line.conversations.into_iter().map(|(id, ..)| id));
                    }
                    by.entry(job.ident.provider.as_str())
                        .or_insert((job.ident.provider, 0))
                        .1 += out.messages - before;
                }
            }
            Err(e) if of_the_source(&e) => out.problems.push(problem(&source.ident, &e)),
            Err(e) => return Err(e),
        }
        watch.progress.advance(1, source.len);
    }
    archive.acknowledge()?;
    out.messages_by = by.into_values().collect();
    out.conversations_added = archive.conversation_count().saturating_sub(begun);
    out.conversations_grown = (touched.len() as u64).saturating_sub(out.conversations_added);
    let head = archive.head();
    out.commit = head.commit;
    out.head = head.head.to_hex();
    Ok(out)
}

struct Pending {
    at_ms: i64,
    ident: SourceIdent,
    seq: u64,
    len: u64,
}

/// Session sources whose newest capture was not read, in the order of capture: the order decides
/// which of two diverging sources keeps a conversation's id.
fn pending(
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
    pending.sort_by(|a, b| (a.at_ms, &a.ident.path).cmp(&(b.at_ms, &b.ident.path)));
    Ok(pending)
}

/// The captures of one source to read. One that the next capture merely extends is left to it.
fn jobs(
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
    let mut before = read
        .map(|at| lines.drain(..=at).next_back())
        .unwrap_or_default();
    let mut from = cursor.filter(|_| before.is_some()).map(|c| c.resume);
    let mut jobs: Vec<Job> = Vec::new();
    let mut lines = lines.into_iter().peekable();
    while let Some(line) = lines.next() {
        let extended = match lines.peek() {
            Some(next) => extends(mirror, &line, next)?,
            None => false,
        };
        if extended {
            continue;
        }
        let goes_on = match &before {
            Some(b) => extends(mirror, b, &line)?,
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

fn unreadable(line: &CaptureLine, e: std::io::Error) -> Error {
    of_capture(line, &e).with_source(e)
}

fn of_capture(line: &CaptureLine, why: &dyn std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::MirrorDamaged,
        format!("capture {} can't be read: {why}", line.seq),
    )
}

/// Whether an error is about one source, so that the others go on.
fn of_the_source(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::MirrorDamaged | ErrorKind::VerifyFailed)
}

fn problem(ident: &SourceIdent, e: &Error) -> Problem {
    Problem {
        provider: ident.provider,
        path: ident.path.clone(),
        kind: e.kind(),
        message: e.message().to_owned(),
    }
}

fn run(
    env: &Env,
    mirror: &mut MirrorWriter<'_>,
    archive: &mut ArchiveWriter<'_>,
    job: &Job,
    out: &mut FeedOutcome,
) -> Result<Option<CommitLine>> {
    let content = mirror.open_content(job.line.recipe, job.line.len);
    let begun = content.and_then(|mut content| {
        let mut head: Vec<u8> = Vec::new();
        (&mut content)
            .take(HEAD_BYTES)
            .read_to_end(&mut head)
            .map_err(|e| unreadable(&job.line, e))?;
        Ok((content, head))
    });
    let (content, head) = match begun {
        Ok(begun) => begun,
        Err(e) if of_the_source(&e) => {
            out.problems.push(problem(&job.ident, &e));
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    let mut append = archive.begin(CaptureRef {
        key: job.ident.key,
        source_id: &job.ident.source_id,
        provider: job.ident.provider,
        path: &job.ident.path,
        seq: job.line.seq,
        len: job.line.len,
        hash: job.line.hash,
        restart: job.restart,
        parser_version: parse::VERSION,
    })?;
    let (send, receive) = crossbeam_channel::bounded(IN_FLIGHT);
    let mut counts = (0u64, 0u64, 0u64, 0u64);
    let end: Result<(ResumePoint, Option<Error>)> = std::thread::scope(|scope| {
        scope.spawn(move || parse_job(job, content, &head, &send));
        drain(&receive, &mut |piece| {
            match piece {
                Piece::Record(r) => {
                    counts.0 += 1;
                    if let Disposition::Messages(m) = &r.disposition {
                        counts.1 += m.len() as u64;
                    }
                }
                Piece::Skipped { span, .. } => {
                    counts.2 += 1;
                    counts.3 += span.len;
                }
                Piece::Separator(_) => {}
            }
            append.piece(piece)
        })
    });
    let (resume, cut) = match end {
        Ok(end) => end,
        Err(e) if of_the_source(&e) => {
            // The rows of this capture are rolled back with `append`.
            out.problems.push(problem(&job.ident, &e));
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    if cut.is_some() {
        // An unfinished tail of no decoded bytes: what the archive remembers of the break, until
        // the source is read to its end.
        append.piece(&Piece::Skipped {
            span: Span {
                offset: resume.offset,
                len: 0,
            },
            line: resume.line,
            reason: SkipReason::TornTail,
        })?;
    }
    out.records += counts.0;
    out.messages += counts.1;
    out.skipped += counts.2;
    out.skipped_bytes += counts.3;
    out.parsed += 1;
    let line = append.finish(resume, env.now_ms())?;
    out.commits += u64::from(line.is_some());
    if let Some(e) = cut {
        out.problems.push(Problem {
            provider: job.ident.provider,
            path: job.ident.path.clone(),
            kind: ErrorKind::SourcesFailed,
            message: format!(
                "the compressed file is cut short or damaged; the {} records before that are archived: {}",
                counts.0,
                e.message()
            ),
        });
    }
    // Said, and no failure: the bytes are safe. A harness of which nothing at all can be read is
    // an error of the check.
    if job.line.len > 0 && counts.0 == 0 && counts.2 > 0 && job.from.is_none() {
        out.notes.push(Note {
            code: NoteCode::NothingParsed,
            provider: job.ident.provider,
            path: job.ident.path.clone(),
        });
    }
    Ok(line)
}

fn drain(
    receive: &Receiver<Parsed>,
    each: &mut dyn FnMut(&Piece) -> Result<()>,
) -> Result<(ResumePoint, Option<Error>)> {
    for parsed in receive {
        match parsed {
            Parsed::Batch(pieces) => {
                for piece in &pieces {
                    each(piece)?;
                }
            }
            Parsed::End(resume) => return Ok((resume, None)),
            Parsed::Cut(resume, e) => return Ok((resume, Some(e))),
            Parsed::Failed(e) => return Err(e),
        }
    }
    Err(Error::new(
        ErrorKind::Internal,
        "the parser ended without a result",
    ))
}

fn parse_job(job: &Job, content: ContentReader<'_>, head: &[u8], send: &Sender<Parsed>) {
    let result = (|| {
        let mut pieces = Vec::with_capacity(BATCH);
        let packed = parse::is_packed(&job.ident.path, head);
        let mut parser = parser_for(job, content, head, packed)?;
        let mut cut = None;
        loop {
            match parser.next() {
                Ok(Some(piece)) => pieces.push(piece),
                Ok(None) => break,
                // The container is damaged, not the mirror: everything whole was handed out.
                Err(e) if packed && !is_of_the_mirror(&e) => {
                    cut = Some(e);
                    break;
                }
                Err(e) if is_of_the_mirror(&e) => {
                    return Err(of_capture(&job.line, &e).with_source(e));
                }
                Err(e) => return Err(e),
            }
            if pieces.len() == BATCH
                && send
                    .send(Parsed::Batch(std::mem::take(&mut pieces)))
                    .is_err()
            {
                // The writer gave up and says why itself.
                return Ok(None);
            }
        }
        if send.send(Parsed::Batch(pieces)).is_err() {
            return Ok(None);
        }
        Ok(Some((parser.resume(), cut)))
    })();
    let _ = match result {
        Ok(None) => Ok(()),
        Ok(Some((resume, None))) => send.send(Parsed::End(resume)),
        Ok(Some((resume, Some(e)))) => send.send(Parsed::Cut(resume, e)),
        Err(e) => send.send(Parsed::Failed(e)),
    };
}

fn parser_for<'c>(
    job: &Job,
    mut content: ContentReader<'c>,
    head: &[u8],
    packed: bool,
) -> Result<parse::SourceParser<'c>> {
    let name = SourceName {
        provider: job.ident.provider,
        path: &job.ident.path,
    };
    let at = job.from.as_ref().map_or(0, |f| f.offset);
    let rewind = if packed { 0 } else { at };
    content
        .seek(SeekFrom::Start(rewind))
        .map_err(|e| unreadable(&job.line, e))?;
    if !packed {
        return Ok(parse::open(name, Box::new(content), head, job.from.clone()));
    }
    let mut plain = parse::decoded(&job.ident.path, Box::new(content))?;
    // Offsets count decoded bytes: what was read before is decoded again and passed over.
    let mut plain_head = Vec::new();
    if at == 0 {
        // What decodes before the container breaks is read; the break is met again behind it.
        let broken = (&mut plain)
            .take(HEAD_BYTES)
            .read_to_end(&mut plain_head)
            .err();
        let rest: Box<dyn Read + 'c> = match broken {
            Some(e) => Box::new(Broken(Some(e))),
            None => plain,
        };
        let whole = std::io::Cursor::new(plain_head.clone()).chain(rest);
        return Ok(parse::open(name, Box::new(whole), &plain_head, None));
    }
    std::io::copy(&mut (&mut plain).take(at), &mut std::io::sink())
        .map_err(|e| unreadable(&job.line, e))?;
    Ok(parse::open(name, plain, &plain_head, job.from.clone()))
}

/// Whether a read failed because of the mirror, not because of what is in the capture.
fn is_of_the_mirror(e: &Error) -> bool {
    e.is_caused_by::<Error>()
}

/// Fails with the error that was met before.
struct Broken(Option<std::io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(self
            .0
            .take()
            .unwrap_or_else(|| std::io::Error::other("the content ended in an error")))
    }
}
