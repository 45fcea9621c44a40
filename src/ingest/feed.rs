//! From captures to rows: every capture that the archive has not read yet, in the order of capture.
//!
//! One thread reads and parses, this one writes; one transaction a capture, whose cursor commits
//! with its rows. A kill costs the source at hand and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::Capture;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::capture::{CaptureOutcome, Note, Problem};
use crate::ingest::jobs::{self, Job, Pending, Turn, is_of_one_source};
use crate::ingest::parse;
use crate::ingest::{beside, projection, scratch};
use crate::model::digest::Digest;
use crate::model::note::NoteCode;
use crate::model::provider::Provider;
use crate::model::record::{Piece, SkipReason, Span};
use crate::model::source::SourceKey;
use crate::model::watch::Watch;
use crate::sources::usage::{FileUse, Usages};
use crate::store::accepted::Accepted;
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
    let usages = Usages::new(capture.roots.iter().map(|(root, ..)| root));
    let mut feeder = Feeder::new(env, cap, archive, watch);
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
        let is_session =
            |ident: &SourceIdent| usages.of(ident.provider, &ident.path) == Some(FileUse::Session);
        jobs::pending(mirror, &is_session, &is_read)?
    };
    let mut turns: Vec<Turn> = Vec::new();
    for (n, source) in pending.iter_mut().enumerate() {
        match jobs::add_turns(mirror, archive, n, source, &mut turns) {
            Ok(()) => {}
            Err(e) if is_of_one_source(&e) => feeder.out.problems.push(problem(&source.ident, &e)),
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
        if feeder.is_to_stop() {
            break;
        }
        let Some(source) = pending.get(turn.source) else {
            continue;
        };
        let taken = feeder.take(mirror, archive, source, &turn.line)?;
        let earlier = failed.entry(turn.source).or_default();
        match taken {
            Taken::Damaged(problem) | Taken::Unread(problem) => {
                earlier.push((turn.line.clone(), problem));
            }
            // What could not be read of an earlier capture is no loss where this one holds it.
            Taken::Whole => earlier.retain(|(line, _)| {
                !jobs::is_held_by(mirror, source, line, &turn.line).unwrap_or(false)
            }),
        }
    }
    if !feeder.is_to_stop() {
        feeder.out.commits += beside::retitle(env, cap, capture, mirror, archive)?;
    }
    // What was put on record as lost is tried each time, since it may come back, and is no news.
    if failed.values().any(|all| !all.is_empty()) {
        let accepted = Accepted::read(cap.root())?;
        for (n, all) in &mut failed {
            if let Some(source) = pending.get(*n) {
                let key = source.ident.key;
                all.retain(|(l, _)| accepted.covers(key, l.seq, Some(l.hash)).is_none());
            }
        }
    }
    // One for each source: what a damaged object takes, it may take from all of its captures.
    feeder.out.problems.extend(
        failed
            .into_values()
            .filter_map(|all| all.into_iter().next())
            .map(|f| f.1),
    );
    feeder.end(archive)
}

/// What became of one capture.
#[derive(Debug)]
pub(super) enum Taken {
    /// It was read to its end.
    Whole,
    /// What of it can be read is archived.
    Damaged(Problem),
    /// Nothing of it is archived; the others go on.
    Unread(Problem),
}

/// Reads captures into an archive, one after another, and counts what they bring.
#[derive(Debug)]
pub(super) struct Feeder<'a> {
    env: &'a Env,
    cap: Capture<'a>,
    watch: Watch<'a>,
    /// Conversations there were.
    begun: u64,
    touched: BTreeSet<String>,
    by: BTreeMap<&'static str, (Provider, u64)>,
    pub(super) out: FeedOutcome,
}

impl<'a> Feeder<'a> {
    pub(super) fn new(
        env: &'a Env,
        cap: Capture<'a>,
        archive: &ArchiveWriter<'_>,
        watch: Watch<'a>,
    ) -> Feeder<'a> {
        Feeder {
            env,
            cap,
            watch,
            begun: archive.conversation_count(),
            touched: BTreeSet::new(),
            by: BTreeMap::new(),
            out: FeedOutcome {
                generation: archive.generation().id.to_string(),
                created: archive.found().created,
                backfilled: archive.found().backfilled,
                ..FeedOutcome::default()
            },
        }
    }

    /// Whether a signal came; the outcome then says that it ended early.
    pub(super) fn is_to_stop(&mut self) -> bool {
        self.out.stopped |= self.watch.interrupt.pending().is_some();
        self.out.stopped
    }

    /// Reads one capture.
    ///
    /// # Errors
    /// Errors of the archive or the mirror as a whole.
    pub(super) fn take(
        &mut self,
        mirror: &mut MirrorWriter<'_>,
        archive: &mut ArchiveWriter<'_>,
        source: &Pending,
        line: &CaptureLine,
    ) -> Result<Taken> {
        if archive.wal_bytes() > WAL_LIMIT {
            // A reader may be in it: then the WAL grows on, and the next look tries again.
            archive.checkpoint_if_free(self.cap.lock())?;
        }
        let before = self.out.messages;
        let out = &mut self.out;
        let ran = run(self.env, self.cap, mirror, archive, (source, line), out)?;
        self.touched.extend(
            ran.line
                .into_iter()
                .flat_map(|l| l.conversations)
                .map(|c| c.0),
        );
        self.by
            .entry(source.ident.provider.as_str())
            .or_insert((source.ident.provider, 0))
            .1 += self.out.messages - before;
        self.watch.progress.advance(1, line.len);
        Ok(ran.taken)
    }

    /// Makes the commits durable and sums up.
    ///
    /// # Errors
    /// `no-space`, `io`.
    pub(super) fn end(self, archive: &mut ArchiveWriter<'_>) -> Result<FeedOutcome> {
        archive.acknowledge()?;
        scratch::clear(self.cap)?;
        let mut out = self.out;
        out.messages_by = self.by.into_values().collect();
        out.conversations_added = archive.conversation_count().saturating_sub(self.begun);
        out.conversations_grown =
            (self.touched.len() as u64).saturating_sub(out.conversations_added);
        let head = archive.head();
        out.commit = head.commit;
        out.head = head.head.to_hex();
        Ok(out)
    }
}

fn problem(ident: &SourceIdent, e: &Error) -> Problem {
    Problem {
        provider: ident.provider,
        path: ident.path.clone(),
        kind: e.kind(),
        message: e.message().to_owned(),
    }
}

struct Ran {
    /// What was committed.
    line: Option<CommitLine>,
    taken: Taken,
}

impl Ran {
    fn failed(problem: Problem) -> Ran {
        Ran {
            line: None,
            taken: Taken::Unread(problem),
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
        Err(e) if is_of_one_source(&e) || e.kind() == ErrorKind::NoSpace => {
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
        kind: opened.kind(job.ident.provider),
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
        Err(e) if is_of_one_source(&e) => {
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
    let taken = ended.damage.map_or(Taken::Whole, |damage| {
        Taken::Damaged(Problem {
            provider: job.ident.provider,
            path: job.ident.path.clone(),
            kind: ErrorKind::SourcesFailed,
            message: format!(
                "{damage}; the {} records that can be read are archived",
                counts.0
            ),
        })
    });
    Ok(Ran { line, taken })
}
