//! Capture: the raw bytes of every source that changed, into the mirror, before anything is
//! parsed. Needs no archive.

use std::collections::HashMap;
use std::path::PathBuf;

use rayon::prelude::*;

use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::group::{self, Member};
use crate::ingest::look::{Look, Looks, gate_of};
use crate::ingest::read::{self, Care, RACY_NS, StableReader, TRIES};
use crate::model::digest::Digest;
use crate::model::note::NoteCode;
use crate::model::provider::Provider;
use crate::model::source::{LOCAL, SourceKey};
use crate::model::watch::Watch;
use crate::sources::database::{MEMBERS, is_database_name};
use crate::sources::file::{Base, Stat};
use crate::sources::roots::ProviderRoot;
use crate::sources::sight::Sight;
use crate::sources::usage::{FileUse, Usages};
use crate::sources::walk::{FoundFile, Met, Oddity, RootState};
use crate::store::mirror::{
    Added, CaptureMeta, Head, MirrorWriter, PREPARE_LIMIT, Prepared, Shape, SourceIdent, StatGate,
};

/// Sources prepared at once, and the bytes of them held in memory.
const WINDOW_FILES: usize = 64;
const WINDOW_BYTES: u64 = 24 << 20;

/// Something met that is no failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What.
    pub code: NoteCode,
    /// The harness.
    pub provider: Provider,
    /// Where.
    pub path: PathBuf,
}

/// Why a source could not be captured or archived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The harness.
    pub provider: Provider,
    /// The file.
    pub path: PathBuf,
    /// What went wrong.
    pub kind: ErrorKind,
    /// One sentence.
    pub message: String,
}

/// One capture that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// The harness.
    pub provider: Provider,
    /// The source.
    pub key: SourceKey,
    /// Number of the capture.
    pub seq: u64,
    /// Bytes.
    pub len: u64,
    /// BLAKE3 of the content.
    pub hash: Digest,
    /// Whether the source never held still, or a file beside it could not be read.
    pub moving: bool,
}

/// What a capture run did.
#[derive(Debug, Default)]
pub struct CaptureOutcome {
    /// Files found.
    pub found: u64,
    /// Files whose gate says that nothing changed.
    pub unchanged: u64,
    /// Files that were read and had not changed.
    pub reread: u64,
    /// Large databases left alone for now.
    pub deferred: u64,
    /// Files and folders that a rule keeps out.
    pub excluded: u64,
    /// Sources in the mirror that no longer lie where they were.
    pub gone: u64,
    /// Sources in the mirror whose places could not be looked at, or no setting names any more.
    pub out_of_sight: u64,
    /// The newest capture of every session source before this run.
    pub sessions: Vec<(SourceKey, u64, Digest)>,
    /// Captures made.
    pub captured: Vec<Captured>,
    /// Bytes of the sources that were read.
    pub bytes_read: u64,
    /// Bytes added to the packs.
    pub bytes_stored: u64,
    /// Damaged objects that are whole again.
    pub healed: u64,
    /// Roots, with what was found there.
    pub roots: Vec<(ProviderRoot, RootState, u64)>,
    /// What could not be read.
    pub problems: Vec<Problem>,
    /// What else was met.
    pub notes: Vec<Note>,
    /// Files that were not read because the run was told to end.
    pub not_reached: u64,
}

/// What of the mirror's heads decides whether a file is read.
struct Known {
    path: PathBuf,
    gate: StatGate,
    at_ms: i64,
    len: u64,
}

/// A file to read, with its gate as it was when it was met.
struct Job {
    found: FoundFile,
    ident: SourceIdent,
    gate: StatGate,
}

/// Captures everything that changed. With `full` every file is read, whatever its metadata says.
///
/// # Errors
/// `no-space` before anything is written when the room does not suffice; errors of the mirror.
/// A source that can't be read is a [`Problem`], not an error.
pub fn capture(
    env: &Env,
    looks: Looks,
    mirror: &mut MirrorWriter<'_>,
    free_bytes: u64,
    full: bool,
    watch: Watch<'_>,
) -> Result<CaptureOutcome> {
    let mut out = CaptureOutcome::default();
    let usages = Usages::new(&looks.roots);
    let mut known: HashMap<SourceKey, Known> = HashMap::new();
    mirror.for_each_head(&mut |head: Head| {
        let Head {
            ident,
            seq,
            hash,
            gate,
            at_ms,
            len,
            ..
        } = head;
        if usages.of(ident.provider, &ident.path) == Some(FileUse::Session) {
            out.sessions.push((ident.key, seq, hash));
        }
        if ident.source_id == LOCAL {
            let path = ident.path;
            known.insert(
                ident.key,
                Known {
                    path,
                    gate,
                    at_ms,
                    len,
                },
            );
        }
        Ok(())
    })?;
    let (jobs, sight) = compare(looks, env.now_ms(), &mut known, full, &mut out);
    // What is left was captured once and was not met.
    let left = known.len() as u64;
    out.gone = known.values().filter(|k| sight.reaches(&k.path)).count() as u64;
    out.out_of_sight = left - out.gone;

    check_room(&jobs, free_bytes)?;
    watch.progress.phase("capture", Some(jobs.len() as u64));

    let mut jobs = jobs.into_iter().map(|(_, job)| job).peekable();
    let mut window: Vec<Job> = Vec::new();
    while jobs.peek().is_some() {
        if watch.interrupt.pending().is_some() {
            out.not_reached = jobs.count() as u64;
            break;
        }
        window.clear();
        let mut bytes = 0;
        while let Some(next) = jobs.peek() {
            let size = next.gate.size;
            let big = size > PREPARE_LIMIT || is_database_name(&next.found.path);
            let full = window.len() >= WINDOW_FILES || bytes + size > WINDOW_BYTES;
            if !window.is_empty() && (big || full) {
                break;
            }
            bytes += size;
            window.extend(jobs.next());
            if big {
                break;
            }
        }
        let sizes: u64 = window.iter().map(|j| j.gate.size).sum();
        let count = window.len() as u64;
        match window.as_slice() {
            [job] if job.gate.size > PREPARE_LIMIT || is_database_name(&job.found.path) => {
                let added = stream(mirror, env, job);
                settle(job, added, &mut out)?;
            }
            _ => small(mirror, env, &window, &mut out)?,
        }
        watch.progress.advance(count, sizes);
    }
    mirror.flush()?;
    Ok(out)
}

/// Captures one file that a person named, wherever it lies, with the files that belong to it. Durable
/// when this returns. Gives what was added, and whether the file never held still.
///
/// # Errors
/// `not-found`, `unsupported` when it is no regular file; errors of the mirror.
pub fn capture_named(
    env: &Env,
    mirror: &mut MirrorWriter<'_>,
    provider: Provider,
    path: &std::path::Path,
) -> Result<(Added, bool)> {
    let base = path.parent().unwrap_or(path).to_path_buf();
    let name = path.file_name().unwrap_or_default();
    let file = Base::open(&base)?.open_regular(std::path::Path::new(name))?;
    let meta = file.metadata().map_err(|e| Error::io("stat", path, e))?;
    let stat = Stat::of(&meta);
    let job = Job {
        found: FoundFile {
            provider,
            path: path.to_path_buf(),
            base,
            usage: FileUse::Session,
            stat,
        },
        ident: SourceIdent::new(LOCAL, provider, path.to_path_buf()),
        gate: gate_of(stat, env.now_ms()),
    };
    let done = stream(mirror, env, &job)?;
    mirror.flush()?;
    Ok(done)
}

/// Takes out of `known` what is there, and returns what must be read, with the bytes that are
/// expected to be new.
fn compare(
    looks: Looks,
    now_ms: i64,
    known: &mut HashMap<SourceKey, Known>,
    full: bool,
    out: &mut CaptureOutcome,
) -> (Vec<(u64, Job)>, Sight) {
    let mut jobs = Vec::new();
    let mut sight = Sight::default();
    let mut files = 0;
    looks.for_each(&mut |look| match look {
        Look::File(found, gate) => {
            files += 1;
            out.found += 1;
            let gate = match gate {
                Ok(gate) => gate,
                Err(e) => {
                    out.problems.push(problem(found.provider, &found.path, &e));
                    return;
                }
            };
            let key = SourceKey::derive(LOCAL, found.provider, &found.path);
            let mut fresh = gate.size;
            if let Some(k) = known.remove(&key) {
                if k.gate == gate && !full {
                    out.unchanged += 1;
                    return;
                }
                let is_db = is_database_name(&found.path);
                if is_db && !full && group::too_soon(gate.size, k.at_ms, now_ms) {
                    out.deferred += 1;
                    return;
                }
                fresh = match gate.size.checked_sub(k.len) {
                    // Grown: most likely at its end.
                    Some(more) if more > 0 => more,
                    _ => gate.size,
                };
            }
            let ident = SourceIdent::new(LOCAL, found.provider, found.path.clone());
            jobs.push((fresh, Job { found, ident, gate }));
        }
        Look::Odd(provider, met) => {
            sight.note(&met);
            odd(provider, met, out);
        }
        Look::End(root, state) => {
            sight.end(&root, state);
            if root.named && state == RootState::Absent {
                out.notes.push(Note {
                    code: NoteCode::RootAbsent,
                    provider: root.provider,
                    path: root.path.clone(),
                });
            }
            out.roots.push((root, state, std::mem::take(&mut files)));
        }
    });
    (jobs, sight)
}

/// Books what was met and not taken.
fn odd(provider: Provider, met: Met, out: &mut CaptureOutcome) {
    let Met::Odd {
        path,
        kind,
        message,
    } = met
    else {
        return;
    };
    let code = match kind {
        Oddity::Excluded => {
            out.excluded += 1;
            return;
        }
        Oddity::Unreadable => {
            let why = message.unwrap_or_else(|| "no permission".to_owned());
            out.problems.push(Problem {
                provider,
                path,
                kind: ErrorKind::Unsupported,
                message: format!("can't be read: {why}"),
            });
            return;
        }
        Oddity::Link => NoteCode::LinkSkipped,
        Oddity::FollowedLink => NoteCode::LinkFollowed,
        Oddity::LinkLoop => NoteCode::LinkSeen,
        Oddity::Special => NoteCode::NotAFile,
        Oddity::Sidecar => NoteCode::SidecarSkipped,
    };
    out.notes.push(Note {
        code,
        provider,
        path,
    });
}

/// The room a run needs at most, by the one estimate that every surface shows: half of the new
/// bytes for the mirror, as much again as the new session bytes for the archive's rows.
#[must_use]
pub fn required_bytes(new_bytes: u64, new_session_bytes: u64) -> u64 {
    if new_bytes == 0 {
        return 0;
    }
    (1 << 20) + new_bytes / 2 + new_session_bytes
}

fn check_room(jobs: &[(u64, Job)], free: u64) -> Result<()> {
    let new: u64 = jobs.iter().map(|(fresh, _)| fresh).sum();
    let session: u64 = jobs
        .iter()
        .filter(|(_, j)| j.found.usage == FileUse::Session)
        .map(|(fresh, _)| fresh)
        .sum();
    let need = required_bytes(new, session);
    if need <= free {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NoSpace,
        format!("{need} bytes are needed for {new} new bytes of sources, {free} are free"),
    )
    .with_hint("Make room on the data directory's file system, or name another with --data-dir.")
    .with_context("required_bytes", need.to_string())
    .with_context("free_bytes", free.to_string()))
}

/// Captures a window of small files: read, hashed and compressed in parallel, added in order.
fn small(
    mirror: &mut MirrorWriter<'_>,
    env: &Env,
    window: &[Job],
    out: &mut CaptureOutcome,
) -> Result<()> {
    let mut heads = Vec::with_capacity(window.len());
    for job in window {
        heads.push(mirror.head(job.ident.key)?);
    }
    let ready: Vec<Result<Option<(Prepared, bool)>>> = window
        .par_iter()
        .zip(heads)
        .map(|(job, head)| {
            let Some((bytes, moving)) = read_whole(env, job)? else {
                return Ok(None);
            };
            let shape = group::shape_of(&bytes);
            Ok(Some((
                MirrorWriter::prepare(bytes, shape, head.as_ref())?,
                moving,
            )))
        })
        .collect();
    for (job, ready) in window.iter().zip(ready) {
        let added = match ready {
            Ok(Some((prepared, moving))) => {
                let meta = meta(env, job, moving);
                match mirror.add(&job.ident, prepared, meta) {
                    // A link or a folder lies where this source's ledger must be; nothing was
                    // written yet, and the others go on.
                    Err(e) if e.kind() == ErrorKind::UnsafeTarget => Err(e),
                    // The writer is of no use after it failed: that is no problem of one source.
                    added => Ok((added?, moving)),
                }
            }
            Ok(None) => stream(mirror, env, job),
            Err(e) => Err(e),
        };
        settle(job, added, out)?;
    }
    Ok(())
}

fn meta(env: &Env, job: &Job, moving: bool) -> CaptureMeta {
    CaptureMeta {
        gate: trusted(job.gate.clone(), moving),
        at_ms: env.now_ms(),
        moving,
        group: Vec::new(),
    }
}

/// The gate to keep. That of a source that never held still lets nothing pass: the next run reads
/// it again, even if nothing changes any more.
fn trusted(mut gate: StatGate, moving: bool) -> StatGate {
    if moving {
        gate.extra.push_str("moving");
    }
    gate
}

/// The content of a small file, and whether it never held still; `None` when it has grown too
/// long to be held in memory.
fn read_whole(env: &Env, job: &Job) -> Result<Option<(Vec<u8>, bool)>> {
    let alone = || Ok(true);
    let mut tries = 0;
    loop {
        tries += 1;
        let strict = tries <= TRIES;
        let (file, before) = read::open(&job.found)?;
        if before.size > PREPARE_LIMIT {
            return Ok(None);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(before.size).unwrap_or(0));
        let care = Care::of(&before, env.now_ms(), tries);
        let mut reader = StableReader::new(file, before, care, &alone);
        match std::io::Read::read_to_end(&mut reader, &mut bytes) {
            Ok(_) => return Ok(Some((bytes, !strict))),
            Err(e) => {
                let e = Error::io("read", &job.found.path, e);
                if !(strict && read::is_moved(&e)) {
                    return Err(e);
                }
            }
        }
    }
}

/// Captures one large file, or one database with its sidecars.
fn stream(mirror: &mut MirrorWriter<'_>, env: &Env, job: &Job) -> Result<(Added, bool)> {
    let head = read::beginning(&job.found, 18)?;
    let shape = group::shape_of(&head);
    let is_group = is_database_name(&job.found.path);
    let mut tries = 0;
    loop {
        tries += 1;
        let strict = tries <= TRIES;
        let mut meta = meta(env, job, !strict);
        if is_group && strict && group::is_racy(&job.found, env.now_ms())? {
            // Its times can't tell yet whether it holds still; soon they can.
            std::thread::sleep(std::time::Duration::from_nanos(RACY_NS.unsigned_abs()));
            continue;
        }
        let gate_before = if is_group {
            group::members_gate(&job.found)?
        } else {
            String::new()
        };
        let (file, before) = read::open(&job.found)?;
        let mut gate = gate_of(before, env.now_ms());
        let care = match (is_group, strict) {
            // For a database even growth is a change: page 1 may be from before, the end from after.
            (true, true) => Care::Metadata,
            _ => Care::of(&before, env.now_ms(), tries),
        };
        if is_group {
            gate.extra.clone_from(&gate_before);
        }
        meta.gate = trusted(gate, !strict);
        let same = || -> Result<bool> {
            if !is_group {
                return Ok(true);
            }
            let now = read::open(&job.found)?.1;
            Ok(now == before && group::members_gate(&job.found)? == gate_before)
        };
        let alone = || Ok(true);
        let attempt = (|| {
            if is_group {
                for suffix in MEMBERS {
                    match group::open_member(&job.found, suffix)? {
                        Member::Absent => {}
                        // What only it holds is missing: no state that its program ever saw.
                        Member::Unread => meta.moving = true,
                        Member::File(member, stat) => {
                            let mut r = StableReader::new(member, stat, care, &alone);
                            let key = job.ident.key;
                            meta.group.push(mirror.store_member(
                                key,
                                suffix,
                                &mut r,
                                Shape::Text,
                            )?);
                        }
                    }
                }
            }
            let mut r = StableReader::new(file, before, care, &same);
            let moving = meta.moving;
            let added = mirror.add_stream(&job.ident, &mut r, shape, meta.clone())?;
            Ok((added, moving))
        })();
        match attempt {
            Ok(done) => return Ok(done),
            Err(e) if strict && read::is_moved(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Books the result of one source. Only an error of the source itself is a problem; one of the
/// mirror ends the run.
fn settle(job: &Job, added: Result<(Added, bool)>, out: &mut CaptureOutcome) -> Result<()> {
    match added {
        Ok((added, moving)) => {
            out.bytes_read += added.len;
            out.bytes_stored += added.stored;
            out.healed += added.healed;
            if added.unchanged {
                out.reread += 1;
            } else {
                out.captured.push(Captured {
                    provider: job.ident.provider,
                    key: job.ident.key,
                    seq: added.seq,
                    len: added.len,
                    hash: added.hash,
                    moving,
                });
            }
            Ok(())
        }
        // Deleted between the walk and now: nothing to capture, nothing lost.
        Err(e) if e.kind() == ErrorKind::NotFound => {
            out.found = out.found.saturating_sub(1);
            Ok(())
        }
        Err(e) if e.kind() == ErrorKind::NoSpace => Err(e),
        Err(e) => {
            out.problems
                .push(problem(job.found.provider, &job.found.path, &e));
            Ok(())
        }
    }
}

fn problem(provider: Provider, path: &std::path::Path, e: &Error) -> Problem {
    Problem {
        provider,
        path: path.to_path_buf(),
        kind: e.kind(),
        message: e.message().to_owned(),
    }
}
