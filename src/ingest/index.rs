//! `cass index`: capture first, then parse; the one command that brings new evidence in.

use crate::disk::{Capture, Root, WriterLock};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::capture::{CaptureOutcome, capture};
use crate::ingest::feed::{FeedOutcome, feed};
use crate::ingest::look::Looks;
use crate::model::watch::Watch;
use crate::sources::config::Config;
use crate::sources::roots::overlapping;
use crate::store::archive::{ArchiveWriter, SCHEMA_VERSION};
use crate::store::derived::{Derived, Lexical};
use crate::store::generation::{self, Live};
use crate::store::layout;
use crate::store::lexical::Refreshed;
use crate::store::mirror::{MirrorProblem, MirrorWriter, refuse_newer};
use crate::store::run::{self, Finished, Receipt};

/// What an index run did.
#[derive(Debug)]
pub struct IndexOutcome {
    /// The capture.
    pub capture: CaptureOutcome,
    /// What reading the captures into the archive did; `None` when there was no usable archive.
    pub feed: Option<FeedOutcome>,
    /// Why there was no usable archive, or why reading into it ended.
    pub archive_error: Option<Error>,
    /// Damage that opening the mirror met.
    pub mirror_problems: Vec<MirrorProblem>,
    /// Bytes free on the data directory's file system before the run.
    pub free_bytes: u64,
    /// What became of the lexical index.
    pub lexical: LexicalOutcome,
    /// Runs of killed processes that were finished or closed.
    pub finished: Vec<Finished>,
    /// The migration of an archive that was of an older schema.
    pub migrated: Option<Migrated>,
}

/// A migration that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migrated {
    /// Schema version that the archive had.
    pub old_schema: i64,
    /// Schema version that it has now.
    pub new_schema: i64,
    /// The receipt of the run, which can be undone.
    pub receipt: Receipt,
}

/// Brings the live archive, which is of an older schema, to the present one, under the lock of the run.
/// No connection is open to it.
pub type Migrate<'m> = &'m dyn Fn(Capture<'_>) -> Result<Receipt>;

/// What became of the lexical index.
#[derive(Debug)]
pub enum LexicalOutcome {
    /// It was left as it is.
    Skipped,
    /// It is up to date.
    Refreshed(Refreshed),
    /// It could not be brought up to date; nothing else depends on it.
    Failed(Error),
}

/// What an index run is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Compare the content of every source, and verify what is derived.
    pub full: bool,
    /// Bring the lexical index up to date.
    pub lexical: bool,
}

impl IndexOutcome {
    /// Whether anything was added anywhere.
    #[must_use]
    pub fn is_no_op(&self) -> bool {
        self.capture.captured.is_empty()
            && self.archive_error.is_none()
            && self.migrated.is_none()
            && self
                .feed
                .as_ref()
                .is_none_or(|f| f.commits == 0 && f.parsed == 0)
    }

    /// Whether a signal or a failure left work for the next run.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.capture.not_reached > 0
            || self.feed.as_ref().is_some_and(|f| f.stopped)
            || matches!(&self.lexical, LexicalOutcome::Failed(e)
                if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::Terminated))
    }

    /// Sources that failed, in either part.
    #[must_use]
    pub fn failed_sources(&self) -> usize {
        let feed = self.feed.as_ref().map_or(0, |f| f.problems.len());
        self.capture.problems.len() + feed
    }
}

/// Captures what is new and reads it into the archive.
///
/// # Errors
/// Before anything is written: `config-invalid`, `foreign-archive`, `mirror-too-new`, `lock-busy`,
/// `no-space`, `permission-denied`. Later: errors of the mirror. An archive that can't be used is
/// no error here: the capture is done and [`IndexOutcome::archive_error`] says why.
pub fn index(env: &Env, ask: Ask, migrate: Migrate<'_>, watch: Watch<'_>) -> Result<IndexOutcome> {
    let outcome = attempt(env, ask, migrate, watch);
    let failed = match &outcome {
        Ok(outcome) => outcome.archive_error.as_ref(),
        Err(e) => Some(e),
    };
    // Damage of the mirror's derived index that shows in the middle of a batch costs the index and
    // this run. The next one makes it again from packs and ledgers, so it need not wait for a
    // person; what was made durable before is found there. Any other failure ends the run, even
    // where there is no index yet: after a sync that failed a second one would answer well, whether
    // or not the data is there.
    let is_damage = failed.is_some_and(|e| e.kind() == ErrorKind::ArchiveCorrupt);
    if is_damage && watch.interrupt.pending().is_none() && index_was_removed(env)? {
        return attempt(env, ask, migrate, watch);
    }
    outcome
}

/// Whether there is a mirror without its derived index.
fn index_was_removed(env: &Env) -> Result<bool> {
    let Some(root) = Root::open(env.data_dir())? else {
        return Ok(false);
    };
    Ok(root.exists(layout::MIRROR_FORMAT)? && !root.exists(layout::MIRROR_INDEX_DB)?)
}

/// Makes the data directory where there is none, unless its place is not safe.
///
/// # Errors
/// `unsafe-target` where it and a harness's folder lie in one another; `config-invalid`,
/// `permission-denied`, `no-space`.
pub fn make_data_dir(env: &Env) -> Result<Root> {
    refuse_overlap(env, &Config::load(env.config_dir(), env.home())?)?;
    Root::open_or_create(env.data_dir())
}

fn refuse_overlap(env: &Env, config: &Config) -> Result<()> {
    let Some(root) = overlapping(env, config, env.data_dir()) else {
        return Ok(());
    };
    Err(Error::new(
        ErrorKind::UnsafeTarget,
        format!(
            "the data directory {} and the harness's folder {} lie in one another",
            env.data_dir().display(),
            root.display()
        ),
    )
    .with_hint("Name another data directory with --data-dir or CASS_DATA_DIR."))
}

fn attempt(env: &Env, ask: Ask, migrate: Migrate<'_>, watch: Watch<'_>) -> Result<IndexOutcome> {
    let config = Config::load(env.config_dir(), env.home())?;
    refuse_overlap(env, &config)?;
    // Looked at before anything is made: what belongs to another program stays untouched.
    if let Some(root) = Root::open(env.data_dir())? {
        match generation::locate(&root) {
            Err(e) if e.kind() == ErrorKind::ForeignArchive => return Err(e),
            _ => {}
        }
        refuse_newer(&root)?;
    }
    let root = Root::open_or_create(env.data_dir())?;
    let free_bytes = root.free_bytes()?;
    let lock = WriterLock::acquire(root, "index", env.now_ms())?;
    let cap = Capture::new(&lock);
    let (mut mirror, mirror_problems, capture) = std::thread::scope(|scope| {
        let looks = Looks::begin(scope, env, &config);
        let mut mirror = MirrorWriter::open(cap, env.now_ms())?;
        let problems = mirror.problems().to_vec();
        let captured = capture(env, looks, &mut mirror, free_bytes, ask.full, watch)?;
        Ok::<_, Error>((mirror, problems, captured))
    })?;

    let mut outcome = IndexOutcome {
        capture,
        feed: None,
        archive_error: None,
        mirror_problems,
        free_bytes,
        lexical: LexicalOutcome::Skipped,
        finished: Vec::new(),
        migrated: None,
    };
    if outcome.capture.not_reached == 0 {
        // A run that was killed in the middle of a promotion is finished before the archive is
        // written to; the evidence is safe by now.
        match run::finish_interrupted(cap, env.now_ms(), watch.interrupt) {
            Ok(finished) => outcome.finished = finished,
            Err(e) => outcome.archive_error = Some(e),
        }
    }
    if outcome.capture.not_reached == 0 && outcome.archive_error.is_none() {
        match renew(cap, migrate) {
            Ok(migrated) => outcome.migrated = migrated,
            Err(e) => outcome.archive_error = Some(e),
        }
    }
    if outcome.capture.not_reached == 0 && outcome.archive_error.is_none() {
        match project(env, cap, &outcome.capture, &mut mirror, watch) {
            Ok(feed) => outcome.feed = Some(feed),
            Err(e) => outcome.archive_error = Some(e),
        }
    }
    mirror.finish()?;
    // The evidence and the archive are safe by now, and the archive's writer is closed.
    if ask.lexical && outcome.feed.as_ref().is_some_and(|f| !f.stopped) {
        outcome.lexical = match Lexical.refresh(cap, ask.full, watch.progress, watch.interrupt) {
            Ok(Some(done)) => LexicalOutcome::Refreshed(done),
            Ok(None) => LexicalOutcome::Skipped,
            Err(e) => LexicalOutcome::Failed(e),
        };
    }
    Ok(outcome)
}

/// Migrates an archive of an older schema, if the live one is.
fn renew(cap: Capture<'_>, migrate: Migrate<'_>) -> Result<Option<Migrated>> {
    match generation::locate(cap.root())? {
        Live::Present(live) if live.manifest.is_older() => {
            // What a writer finds wrong first is told as ever; a crash may have kept lines from being
            // written.
            let old_schema = live.manifest.schema_version;
            drop(ArchiveWriter::open(cap, live)?);
            Ok(Some(Migrated {
                old_schema,
                new_schema: SCHEMA_VERSION,
                receipt: migrate(cap)?,
            }))
        }
        Live::Present(_) | Live::Never { .. } => Ok(None),
    }
}

fn project(
    env: &Env,
    cap: Capture<'_>,
    capture: &CaptureOutcome,
    mirror: &mut MirrorWriter<'_>,
    watch: Watch<'_>,
) -> Result<FeedOutcome> {
    let mut archive = ArchiveWriter::open_or_create(cap, env.now_ms())?;
    // After a failure nothing more is written: what the kernel holds of a file whose sync failed
    // is not known.
    let fed = feed(env, capture, mirror, &mut archive, cap, watch)?;
    if fed.commits == 0 && !fed.created {
        // Nothing but its end was looked at. What waits in the log of an archive that may be damaged
        // is evidence, and a plan covers it; the next commit folds it in.
        return Ok(fed);
    }
    match archive.checkpoint_if_free(cap.lock()) {
        // What is committed is safe in the WAL; folding it in can wait for a reader, or for room.
        Err(e) if !matches!(e.kind(), ErrorKind::LockBusy | ErrorKind::NoSpace) => Err(e),
        _ => Ok(fed),
    }
}
