//! From captures to rows: every capture that the archive has not read yet, in the order of capture.
//!
//! One thread reads and parses, this one writes; one transaction a capture, whose cursor commits
//! with its rows. A kill costs the source at hand and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::Capture;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::capture::{CaptureOutcome, Note, Problem};
use crate::ingest::jobs::{self, Job, Pending, Turn};
use crate::ingest::parse;
use crate::ingest::watch::Watch;
use crate::ingest::{projection, scratch};
use crate::model::digest::Digest;
use crate::model::note::NoteCode;
use crate::model::provider::Provider;
use crate::model::record::{Piece, SkipReason, Span};
use crate::model::source::SourceKey;
use crate::sources::usage::Usages;
use crate::store::archive::{ArchiveWriter, CaptureRef};
use crate::store::coverage::CommitLine;
use crate::store::mirror::{CaptureLine, MirrorWriter, SourceIdent};

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
    /// Messages that were new.
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
    cap: Capture<'_>,
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
    let mut pending = if capture.captured.is_empty()
        && capture
            .sessions
            .iter()
            .all(|(key, seq, hash)| is_read(*key, *seq, *hash))
    {
        Vec::new()
    } else {
        jobs::pending(mirror, &usages, &is_read)?
    };
    let mut turns: Vec<Turn> = Vec::new();
    for (n, source) in pending.iter_mut().enumerate() {
        match jobs::add_turns(mirror, archive, n, source, &mut turns) {
            Ok(()) => {}
            Err(e) if of_the_source(&e) => out.problems.push(problem(&source.ident, &e)),
            Err(e) => return Err(e),
        }
    }
    jobs::in_order(&mut turns, &pending);
    watch.progress.phase("archive", Some(turns.len() as u64));
    // A first index has thousands of small sources: one sync for many of them. What a power cut
    // then takes was never acknowledged, and is read again from its captures.
    archive.acknowledge_every(if turns.len() > MANY { BATCH_COMMITS } else { 1 })?;
    let mut failed: BTreeMap<usize, Vec<(CaptureLine, Problem)>> = BTreeMap::new();
    for turn in turns {
        if watch.interrupt.pending().is_some() {
            out.stopped = true;
            break;
        }
        if archive.wal_bytes() > WAL_LIMIT {
            // A reader may be in it: then the WAL grows on, and the next look tries again.
            archive.checkpoint_if_free(cap.lock())?;
        }
        let Some(source) = pending.get(turn.source) else {
            continue;
        };
        let before = out.messages;
        let ran = run(env, cap, mirror, archive, (source, &turn.line), &mut out)?;
        touched.extend(
            ran.line
                .into_iter()
                .flat_map(|l| l.conversations)
                .map(|c| c.0),
        );
        let earlier = failed.entry(turn.source).or_default();
        match ran.problem {
            Some(problem) => earlier.push((turn.line.clone(), problem)),
            // What could not be read of an earlier capture is no loss where this one holds it.
            None => earlier.retain(|(line, _)| {
                !jobs::is_held_by(mirror, source, line, &turn.line).unwrap_or(false)
            }),
        }
        by.entry(source.ident.provider.as_str())
            .or_insert((source.ident.provider, 0))
            .1 += out.messages - before;
        watch.progress.advance(1, turn.line.len);
    }
    // One for each source: what a damaged object takes, it may take from all of its captures.
    out.problems.extend(
        failed
            .into_values()
            .filter_map(|all| all.into_iter().next())
            .map(|f| f.1),
    );
    archive.acknowledge()?;
    scratch::clear(cap)?;
    out.messages_by = by.into_values().collect();
    out.conversations_added = archive.conversation_count().saturating_sub(begun);
    out.conversations_grown = (touched.len() as u64).saturating_sub(out.conversations_added);
    let head = archive.head();
    out.commit = head.commit;
    out.head = head.head.to_hex();
    Ok(out)
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

/// What became of one capture.
struct Ran {
    /// What was committed.
    line: Option<CommitLine>,
    /// Why it was not read, or not all of it; the others go on.
    problem: Option<Problem>,
}

impl Ran {
    fn failed(problem: Problem) -> Ran {
        Ran {
            line: None,
            problem: Some(problem),
        }
    }
}

fn run(
    env: &Env,
    cap: Capture<'_>,
    mirror: &mut MirrorWriter<'_>,
    archive: &mut ArchiveWriter<'_>,
    (source, line): (&Pending, &CaptureLine),
    out: &mut FeedOutcome,
) -> Result<Ran> {
    let opened = jobs::job(mirror, archive, source, line)
        .and_then(|job| projection::open(cap, mirror, &job).map(|opened| (job, opened)));
    let (job, opened) = match opened {
        Ok(opened) => opened,
        // No room for a copy of one database is no reason not to read the others.
        Err(e) if of_the_source(&e) || e.kind() == ErrorKind::NoSpace => {
            return Ok(Ran::failed(problem(&source.ident, &e)));
        }
        Err(e) => return Err(e),
    };
    let job: &Job = &job;
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
        kind: opened.kind(),
    })?;
    let mut counts = (0u64, 0u64, 0u64);
    let ended = projection::read(job, opened, &mut |piece| {
        match piece {
            Piece::Record(_) => {
                counts.0 += 1;
            }
            Piece::Skipped { span, .. } => {
                counts.1 += 1;
                counts.2 += span.len;
            }
            Piece::Separator(_) => {}
        }
        append.piece(piece)
    });
    let ended = match ended {
        Ok(ended) => ended,
        Err(e) if of_the_source(&e) => {
            // The rows of this capture are rolled back with `append`.
            return Ok(Ran::failed(problem(&job.ident, &e)));
        }
        Err(e) => return Err(e),
    };
    if ended.damage.is_some() {
        // An unfinished tail of no bytes: what the archive remembers of the break, until
        // the source is read to its end.
        append.piece(&Piece::Skipped {
            span: Span {
                offset: ended.resume.offset,
                len: 0,
            },
            line: ended.resume.line,
            reason: SkipReason::TornTail,
        })?;
    }
    out.records += counts.0;
    out.messages += append.messages_added();
    out.skipped += counts.1;
    out.skipped_bytes += counts.2;
    out.parsed += 1;
    let line = append.finish(ended.resume, env.now_ms())?;
    out.commits += u64::from(line.is_some());
    // Said, and no failure: the bytes are safe. A harness of which nothing at all can be read is
    // an error of the check.
    if source.is_newest(&job.line)
        && job.line.len > 0
        && counts.0 == 0
        && counts.1 > 0
        && job.from.is_none()
    {
        out.notes.push(Note {
            code: NoteCode::NothingParsed,
            provider: job.ident.provider,
            path: job.ident.path.clone(),
        });
    }
    let problem = ended.damage.map(|damage| Problem {
        provider: job.ident.provider,
        path: job.ident.path.clone(),
        kind: ErrorKind::SourcesFailed,
        message: format!(
            "{damage}; the {} records that can be read are archived",
            counts.0
        ),
    });
    Ok(Ran { line, problem })
}
