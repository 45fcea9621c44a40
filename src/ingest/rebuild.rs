//! From the mirror to a candidate archive: the captures that the coverage ledger names, in its
//! order, then what the mirror holds beyond them.
//!
//! The order decides which of two diverging sources keeps a conversation's id and which of two
//! versions stands, so that of the ledger gives the archive that was lost.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;

use crate::disk::{Capture, Root};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::feed::{FeedOutcome, Feeder, Taken};
use crate::ingest::jobs::{self, Pending, Turn, is_of_one_source};
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::source::SourceKey;
use crate::model::watch::Watch;
use crate::sources::config::Config;
use crate::sources::roots::roots;
use crate::sources::usage::{FileUse, Usages};
use crate::store::archive::ArchiveWriter;
use crate::store::coverage::{self, LedgerProblem, Line};
use crate::store::mirror::{CaptureLine, MirrorWriter, SourceIdent};

/// What a replay did.
#[derive(Debug)]
pub struct Rebuilt {
    /// What was read. Its problems are sources whose own content is damaged: what can be read of
    /// them is archived.
    pub read: FeedOutcome,
    /// Captures read because the coverage ledger names them, or a later one of the same source.
    pub promised: u64,
    /// Captures read beyond those.
    pub beyond: u64,
    /// Captures of which nothing could be read.
    pub unread: Vec<Unread>,
    /// Lines of the coverage ledger that are damaged: what they promised is not known.
    pub ledger_problems: Vec<LedgerProblem>,
}

/// A capture of which nothing could be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Its source.
    pub key: SourceKey,
    /// The harness; `None` when the mirror knows nothing of the source.
    pub provider: Option<Provider>,
    /// The source's path; `None` as above.
    pub path: Option<PathBuf>,
    /// Number of the capture.
    pub seq: u64,
    /// Whether the coverage ledger names it.
    pub promised: bool,
    /// A later capture, which was read, that holds all that this one held.
    pub held_by: Option<u64>,
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// Why, in one sentence.
    pub reason: String,
}

/// A replay that was begun: first [`Replay::promised`], then [`Replay::rest`]. In between the
/// archive holds what was promised, as far as the mirror can give it.
#[derive(Debug)]
pub struct Replay<'a> {
    feeder: Feeder<'a>,
    sources: Vec<Pending>,
    places: HashMap<SourceKey, usize>,
    /// In the order of capture; `None` once read.
    turns: Vec<Option<Turn>>,
    /// Of each source, the turns that were not read yet.
    waiting: Vec<VecDeque<usize>>,
    /// Of each source, up to which capture this replay read or tried to.
    reached: Vec<u64>,
    /// How far the archive had read sources when the replay began.
    parsed: HashMap<SourceKey, (u64, Digest)>,
    named: Named,
    listed: HashSet<(SourceKey, u64)>,
    out: Counted,
}

#[derive(Debug, Default)]
struct Counted {
    promised: u64,
    beyond: u64,
    unread: Vec<Unread>,
}

/// Replays everything at once.
///
/// # Errors
/// As [`Replay::begin`], [`Replay::promised`] and [`Replay::end`].
pub fn replay(
    env: &Env,
    cap: Capture<'_>,
    mirror: &mut MirrorWriter<'_>,
    archive: &mut ArchiveWriter<'_>,
    watch: Watch<'_>,
) -> Result<Rebuilt> {
    let mut replay = Replay::begin(env, cap, mirror, archive, watch)?;
    replay.promised(mirror, archive)?;
    replay.rest(mirror, archive)?;
    replay.end(archive)
}

impl<'a> Replay<'a> {
    /// Finds what is to be read into a staged archive, which may hold something already: what it
    /// has read is not read again.
    ///
    /// # Errors
    /// Errors of the archive or the mirror as a whole; `io`.
    pub fn begin(
        env: &'a Env,
        cap: Capture<'a>,
        mirror: &mut MirrorWriter<'_>,
        archive: &ArchiveWriter<'_>,
        watch: Watch<'a>,
    ) -> Result<Replay<'a>> {
        let named = named(cap.root())?;
        // The harness may be uninstalled and the settings may be broken. Where no root is known, a
        // path is read in every way it can be, so nothing that is a session is missed; and what
        // was committed was one.
        let config = Config::load(env.config_dir(), env.home()).unwrap_or_default();
        let roots = roots(env, &config);
        let usages = Usages::new(&roots);
        let keys: HashSet<SourceKey> = named.captures.iter().map(|c| c.0).collect();
        let is_session = |ident: &SourceIdent| {
            keys.contains(&ident.key)
                || usages.of(ident.provider, &ident.path) == Some(FileUse::Session)
        };
        let parsed = archive.parsed()?;
        let is_read =
            |key: SourceKey, seq: u64, hash: Digest| parsed.get(&key) == Some(&(seq, hash));
        let mut sources = jobs::pending(mirror, &is_session, &is_read)?;

        let mut out = Counted::default();
        let mut listed = HashSet::new();
        let mut turns = Vec::new();
        for (n, source) in sources.iter_mut().enumerate() {
            match jobs::add_turns(mirror, archive, n, source, &mut turns) {
                Ok(()) => {}
                Err(e) if is_of_one_source(&e) => {
                    let (ident, seq) = (&source.ident, source.newest());
                    listed.insert((ident.key, seq));
                    let promised = keys.contains(&ident.key);
                    out.unread.push(unread(ident, seq, promised, &e));
                }
                Err(e) => return Err(e),
            }
        }
        jobs::in_order(&mut turns, &sources);
        watch.progress.phase("archive", Some(turns.len() as u64));
        let mut waiting = vec![VecDeque::new(); sources.len()];
        for (i, turn) in turns.iter().enumerate() {
            waiting[turn.source].push_back(i);
        }
        Ok(Replay {
            feeder: Feeder::new(env, cap, archive, watch),
            places: (0..)
                .zip(&sources)
                .map(|(n, source)| (source.ident.key, n))
                .collect(),
            reached: vec![0; sources.len()],
            sources,
            turns: turns.into_iter().map(Some).collect(),
            waiting,
            parsed,
            named,
            listed,
            out,
        })
    }

    /// Reads the captures that the coverage ledger names, in its order. One that it does not name
    /// is read before a later one of the same source that it does name: nothing goes back behind a
    /// source's cursor.
    ///
    /// # Errors
    /// Errors of the archive or the mirror as a whole; `no-space` where a capture could not be read
    /// for want of room. A capture that can't be read is listed.
    pub fn promised(
        &mut self,
        mirror: &mut MirrorWriter<'_>,
        archive: &mut ArchiveWriter<'_>,
    ) -> Result<()> {
        for (key, seq) in std::mem::take(&mut self.named.captures) {
            let read = self.parsed.get(&key).map_or(0, |(read, _)| *read);
            let Some(&n) = self.places.get(&key) else {
                if read < seq {
                    self.miss(key, seq, None);
                }
                continue;
            };
            while let Some(&at) = self.waiting[n].front() {
                let due = self.turns[at].as_ref().map_or(0, |t| t.line.seq);
                if due > seq {
                    break;
                }
                if self.feeder.is_to_stop() {
                    return Ok(());
                }
                self.out.promised += self.turn(mirror, archive, at, due == seq)?;
            }
            if self.reached[n].max(read) < seq {
                self.miss(key, seq, Some(n));
            }
        }
        Ok(())
    }

    /// Reads what the mirror holds beyond them, in the order of capture.
    ///
    /// # Errors
    /// As [`Replay::promised`].
    pub fn rest(
        &mut self,
        mirror: &mut MirrorWriter<'_>,
        archive: &mut ArchiveWriter<'_>,
    ) -> Result<()> {
        for at in 0..self.turns.len() {
            if self.feeder.is_to_stop() {
                return Ok(());
            }
            self.out.beyond += self.turn(mirror, archive, at, false)?;
        }
        Ok(())
    }

    /// Sums up.
    ///
    /// # Errors
    /// `no-space`, `io`.
    pub fn end(self, archive: &mut ArchiveWriter<'_>) -> Result<Rebuilt> {
        Ok(Rebuilt {
            read: self.feeder.end(archive)?,
            promised: self.out.promised,
            beyond: self.out.beyond,
            unread: self.out.unread,
            ledger_problems: self.named.problems,
        })
    }

    /// Whether a signal ended it early.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.feeder.out.stopped
    }

    /// Reads one turn, if it was not read before. Returns how many captures that made.
    fn turn(
        &mut self,
        mirror: &mut MirrorWriter<'_>,
        archive: &mut ArchiveWriter<'_>,
        at: usize,
        promised: bool,
    ) -> Result<u64> {
        let Some(turn) = self.turns[at].take() else {
            return Ok(0);
        };
        let (n, line) = (turn.source, turn.line);
        self.waiting[n].pop_front();
        self.reached[n] = self.reached[n].max(line.seq);
        let source = &self.sources[n];
        let problem = match self.feeder.take(mirror, archive, source, &line)? {
            Taken::Unread(problem) => {
                let e = Error::new(problem.kind, problem.message);
                // That there is no room says nothing about the evidence.
                if e.kind() == ErrorKind::NoSpace {
                    return Err(e);
                }
                if self.listed.insert((source.ident.key, line.seq)) {
                    let entry = unread(&source.ident, line.seq, promised, &e);
                    self.out.unread.push(entry);
                }
                return Ok(0);
            }
            Taken::Damaged(problem) => Some(problem),
            Taken::Whole => None,
        };
        self.feeder.out.problems.extend(problem);
        self.hold(mirror, n, &line)?;
        Ok(1)
    }

    /// Notes which unread captures the one that was read now holds.
    fn hold(&mut self, mirror: &mut MirrorWriter<'_>, n: usize, line: &CaptureLine) -> Result<()> {
        let source = &self.sources[n];
        for lost in &mut self.out.unread {
            if lost.key != source.ident.key || lost.held_by.is_some() {
                continue;
            }
            if let Some(of) = mirror.capture(lost.key, lost.seq)?
                && jobs::is_held_by(mirror, source, &of, line).unwrap_or(false)
            {
                lost.held_by = Some(line.seq);
            }
        }
        Ok(())
    }

    /// Lists a capture that the coverage ledger names and the mirror's ledger does not.
    fn miss(&mut self, key: SourceKey, seq: u64, source: Option<usize>) {
        if !self.listed.insert((key, seq)) {
            return;
        }
        let ident = source.and_then(|n| self.sources.get(n)).map(|s| &s.ident);
        self.out.unread.push(Unread {
            key,
            provider: ident.map(|i| i.provider),
            path: ident.map(|i| i.path.clone()),
            seq,
            promised: true,
            held_by: None,
            kind: ErrorKind::MirrorDamaged,
            reason: "the mirror holds no such capture".to_owned(),
        });
    }
}

fn unread(ident: &SourceIdent, seq: u64, promised: bool, e: &Error) -> Unread {
    Unread {
        key: ident.key,
        provider: Some(ident.provider),
        path: Some(ident.path.clone()),
        seq,
        promised,
        held_by: None,
        kind: e.kind(),
        reason: e.message().to_owned(),
    }
}

/// The captures that the coverage ledger names.
#[derive(Debug, Default)]
struct Named {
    captures: Vec<(SourceKey, u64)>,
    problems: Vec<LedgerProblem>,
}

/// Reads the coverage ledger. Where a promotion went back to an earlier commit, what was committed
/// behind it was read again later, or comes last.
fn named(root: &Root) -> Result<Named> {
    let mut out = Named::default();
    // Number and head of each commit, and how many captures were named up to it.
    let mut commits: Vec<(u64, Digest, usize)> = Vec::new();
    let mut taken_back = Vec::new();
    let (captures, problems) = (&mut out.captures, &mut out.problems);
    coverage::for_each(
        root,
        &mut |_, line| {
            match line {
                Line::Commit(c) => {
                    captures.extend(c.captures);
                    commits.push((c.commit, c.head, captures.len()));
                }
                Line::Promote(p) => {
                    let same = |c: &(u64, Digest, usize)| (c.0, c.1) == (p.commit, p.head);
                    if let Some(at) = commits.iter().rposition(same) {
                        taken_back.extend(captures.drain(commits[at].2..));
                        commits.truncate(at + 1);
                    }
                }
            }
            Ok(())
        },
        &mut |problem| {
            problems.push(problem);
            Ok(())
        },
    )?;
    out.captures.extend(taken_back);
    Ok(out)
}
