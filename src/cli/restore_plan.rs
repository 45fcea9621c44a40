//! Which captured files make up a session, and where its harness has them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::session_name;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::conversation::{ArchivedSource, Conversation};
use crate::model::digest::Digest;
use crate::model::next::Next;
use crate::model::source::{LOCAL, SourceKey};
use crate::sources::config::Config;
use crate::sources::harness::{Harness, harness};
use crate::sources::roots::{real, roots};
use crate::sources::usage::FileUse;
use crate::store::archive::ArchiveReader;
use crate::store::mirror::{CaptureLine, MirrorReader};

/// First bytes of an SQLite database.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// One captured version of one file.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Where it lies below the harness's folder.
    pub rel: PathBuf,
    /// Whether it holds the session itself.
    pub main: bool,
    /// Whether it serves other sessions too.
    pub shared: bool,
    /// The database that it is or is a part of, where that lies beside the session.
    pub database: Option<PathBuf>,
    /// The source.
    pub key: SourceKey,
    /// Number of the capture.
    pub seq: u64,
    /// When it was captured.
    pub at_ms: i64,
    /// Names the content.
    pub recipe: Digest,
    /// Bytes.
    pub len: u64,
    /// BLAKE3.
    pub hash: Digest,
}

/// All files of a session.
#[derive(Debug)]
pub(super) struct Parts {
    /// The folder of the harness that they were captured from.
    pub root: PathBuf,
    /// The session's own files first, then by place.
    pub list: Vec<Part>,
    /// Whether the session is in a database, beside others.
    pub database: bool,
}

impl Part {
    /// What a capture of the source `key`, which lies at `rel`, puts back: itself and what SQLite
    /// keeps beside a database, which was captured with it and is a part of it.
    fn all_of(capture: &CaptureLine, key: SourceKey, rel: &Path) -> Vec<Part> {
        let of = |rel: PathBuf, recipe, len, hash| Part {
            rel,
            main: true,
            shared: false,
            database: None,
            key,
            seq: capture.seq,
            at_ms: capture.at_ms,
            recipe,
            len,
            hash,
        };
        let members = capture.group.iter().map(|member| {
            let mut beside = rel.as_os_str().to_owned();
            beside.push(&member.name);
            of(beside.into(), member.recipe, member.len, member.hash)
        });
        let own = of(rel.to_path_buf(), capture.recipe, capture.len, capture.hash);
        members.chain([own]).collect()
    }
}

/// The files of `session`: its own in the version asked for, and what belongs to it as it was then.
pub(super) fn parts(
    env: &Env,
    archive: &ArchiveReader,
    mirror: &MirrorReader<'_>,
    session: &Conversation,
    name: &OsStr,
    version: Option<u64>,
) -> Result<Parts> {
    let of = harness(session.provider);
    let all = archive.sources_of(&session.id)?;
    let own = own_files(&all, session);
    let chosen = chosen(env, mirror, of, &own, name)?;
    let first = chosen
        .first()
        .ok_or_else(|| Error::new(ErrorKind::NotFound, "no file of this session was captured"))?;
    if version.is_some() && chosen.len() > 1 {
        return Err(Error::new(
            ErrorKind::Usage,
            "this session is spread over many files, each with versions of its own",
        )
        .with_hint("Name one of its files instead of the session, or leave --version out."));
    }
    let (root, own) = below(env, of, session, &first.path)?;
    let (mut list, mut database) = (Vec::new(), false);
    for source in &chosen {
        let capture = capture(mirror, source, version)?;
        let rel = source
            .path
            .strip_prefix(&root)
            .map_err(|_| outside(&source.path))?;
        database |= is_database(mirror, &capture)?;
        list.extend(Part::all_of(&capture, source.key, rel));
    }
    if !database {
        let until = match version {
            Some(version) => end_of(mirror, first.key, version)?,
            None => None,
        };
        let mut found: Vec<(SourceKey, PathBuf)> = Vec::new();
        mirror.for_each_head(&mut |head| {
            let ident = head.ident;
            let here = (ident.provider, &ident.source_id) == (session.provider, &session.source_id);
            let rel = ident.path.strip_prefix(&root).ok().filter(|_| here);
            let Some(rel) = rel.filter(|rel| of.usage(rel).is_some()) else {
                return Ok(());
            };
            // Of the session's own files those that are not wanted stay out, whatever their names
            // are.
            let wanted = if all.iter().any(|s| s.key == ident.key) {
                of.goes_with(rel, &own) && chosen.iter().all(|s| s.key != ident.key)
            } else {
                of.belongs(rel, &session.native_id, &own) || of.serves_many(rel, &own)
            };
            if wanted {
                found.push((ident.key, rel.to_path_buf()));
            }
            Ok(())
        })?;
        for (key, rel) in found {
            let Some(capture) = as_it_was(mirror, key, until)? else {
                continue;
            };
            let shared = of.serves_many(&rel, &own);
            // The pages of a database are whole, so most other files need not be opened.
            let may_be = capture.len > 0 && capture.len.is_multiple_of(512);
            let database = (may_be && is_database(mirror, &capture)?).then(|| rel.clone());
            list.extend(
                Part::all_of(&capture, key, &rel)
                    .into_iter()
                    .map(|part| Part {
                        main: false,
                        shared,
                        database: database.clone(),
                        ..part
                    }),
            );
        }
    }
    list.sort_by(|a, b| (!a.main, &a.rel).cmp(&(!b.main, &b.rel)));
    Ok(Parts {
        root,
        list,
        database,
    })
}

/// Of the sources that hold records of a session those that are about it: a file of another session
/// may have been continued from it.
fn own_files(all: &[ArchivedSource], session: &Conversation) -> Vec<ArchivedSource> {
    let native = session.native_id.as_str();
    let own: Vec<_> = all
        .iter()
        .filter(|s| s.main_session.as_deref() == Some(native))
        .cloned()
        .collect();
    if own.is_empty() { all.to_vec() } else { own }
}

/// The source that was named; else, where a session is one file, the one that was captured last:
/// the others are where it was before it was moved, packed or written anew.
fn chosen(
    env: &Env,
    mirror: &MirrorReader<'_>,
    of: &dyn Harness,
    own: &[ArchivedSource],
    name: &OsStr,
) -> Result<Vec<ArchivedSource>> {
    let paths = session_name::paths(env, name);
    if let Some(named) = own.iter().find(|s| paths.contains(&s.path)) {
        return Ok(vec![named.clone()]);
    }
    if of.is_scattered() {
        return Ok(own.to_vec());
    }
    let mut best: Option<((u64, i64, u64), &ArchivedSource)> = None;
    for source in own {
        let Some(head) = mirror.head(source.key)? else {
            continue;
        };
        let rank = (of.rank(&source.path), head.at_ms, head.len);
        if best.is_none_or(|(known, _)| known < rank) {
            best = Some((rank, source));
        }
    }
    Ok(best.into_iter().map(|b| b.1.clone()).collect())
}

/// The capture with this number; without one the newest that did not change while it was read.
fn capture(
    mirror: &MirrorReader<'_>,
    source: &ArchivedSource,
    version: Option<u64>,
) -> Result<CaptureLine> {
    let (mut whole, mut newest) = (None, None);
    mirror.captures(source.key, &mut |line| {
        if version.is_none_or(|v| v == line.seq) {
            if !line.moving {
                whole = Some(line.clone());
            }
            newest = Some(line);
        }
        Ok(())
    })?;
    whole.or(newest).ok_or_else(|| {
        let what = match version {
            Some(v) => format!("{} has no version {v}", source.path.display()),
            None => format!("no capture of {} is in the mirror", source.path.display()),
        };
        Error::new(ErrorKind::NotFound, what)
            .with_hint("The captured versions of a file are listed.")
            .with_hint_argv(Next::MirrorList(source.key).argv())
    })
}

/// When files beside a version of a source are those of the next one; `None` for the newest. All of
/// one run are captured a little apart, so the border lies in the middle between the two.
fn end_of(mirror: &MirrorReader<'_>, key: SourceKey, version: u64) -> Result<Option<i64>> {
    let (mut own, mut next) = (None, None);
    mirror.captures(key, &mut |line| {
        if line.seq == version {
            own = Some(line.at_ms);
        } else if line.seq > version && next.is_none() {
            next = Some(line.at_ms);
        }
        Ok(())
    })?;
    Ok(own.zip(next).map(|(own, next)| {
        let between = next.saturating_sub(own);
        own.saturating_add(between - between / 2)
    }))
}

/// The newest capture of a file beside a session, or the newest before a moment; where the ledger
/// holds none of that time, the oldest. One that did not change while it was read is preferred.
fn as_it_was(
    mirror: &MirrorReader<'_>,
    key: SourceKey,
    until: Option<i64>,
) -> Result<Option<CaptureLine>> {
    let (mut whole, mut newest, mut oldest) = (None, None, None);
    mirror.captures(key, &mut |line| {
        if oldest.is_none() {
            oldest = Some(line.clone());
        }
        if until.is_none_or(|until| line.at_ms < until) {
            if !line.moving {
                whole = Some(line.clone());
            }
            newest = Some(line);
        }
        Ok(())
    })?;
    Ok(whole.or(newest).or(oldest))
}

fn is_database(mirror: &MirrorReader<'_>, capture: &CaptureLine) -> Result<bool> {
    use std::io::Read;
    let mut head = Vec::new();
    let content = mirror.open_content(capture.recipe, capture.len)?;
    let length = u64::try_from(DATABASE.len()).unwrap_or(u64::MAX);
    // What can't be read fails with its reason when it is written.
    let _ = content.take(length).read_to_end(&mut head);
    Ok(head == DATABASE)
}

/// The harness's folder that `path` was captured from, and where it lies below. A folder that no
/// setting names any more is known by its layout.
fn below(
    env: &Env,
    of: &dyn Harness,
    session: &Conversation,
    path: &Path,
) -> Result<(PathBuf, PathBuf)> {
    let config = Config::load(env.config_dir(), env.home())?;
    let of_now: Vec<PathBuf> = roots(env, &config)
        .into_iter()
        .filter(|r| r.provider == session.provider)
        .map(|r| r.path)
        .collect();
    let mut known = of_now.clone();
    known.retain(|_| session.source_id == LOCAL);
    // Where roots lie in one another, the innermost one is the file's.
    known.sort_by_key(|p| std::cmp::Reverse(p.as_os_str().len()));
    let by_name = known
        .iter()
        .find(|root| path.starts_with(root))
        .map(PathBuf::as_path);
    let by_layout = || {
        let fits = |root: &&Path| {
            path.strip_prefix(root)
                .is_ok_and(|rel| of.usage(rel) == Some(FileUse::Session))
        };
        let above = || path.ancestors().skip(1).filter(fits);
        // One that bears the name of a folder of now; else the outermost whose layout this is.
        let named = |root: &&Path| of_now.iter().any(|r| r.file_name() == root.file_name());
        above().find(named).or_else(|| above().last())
    };
    let root = by_name.or_else(by_layout).ok_or_else(|| outside(path))?;
    let rel = path.strip_prefix(root).map_err(|_| outside(path))?;
    Ok((root.to_path_buf(), rel.to_path_buf()))
}

/// The harness's folder of now into which what was captured below `captured` goes: the same one
/// where it is still in force, else the first that is there, else the first.
pub(super) fn target(env: &Env, session: &Conversation, captured: &Path) -> Result<PathBuf> {
    let config = Config::load(env.config_dir(), env.home())?;
    let known: Vec<PathBuf> = roots(env, &config)
        .into_iter()
        .filter(|r| r.provider == session.provider)
        .map(|r| r.path)
        .collect();
    let found = known
        .iter()
        .find(|root| *root == captured)
        .or_else(|| known.iter().find(|root| root.is_dir()))
        .or_else(|| known.first())
        .ok_or_else(|| {
            Error::new(
                ErrorKind::UnsafeTarget,
                format!(
                    "no folder of {} is known here",
                    session.provider.display_name()
                ),
            )
            .with_hint("Name a folder with --to.")
        })?;
    // A harness's folder that a link leads into our own is none.
    if real(found).starts_with(real(env.data_dir())) {
        return Err(Error::new(
            ErrorKind::UnsafeTarget,
            format!("{} lies in the data directory", found.display()),
        ));
    }
    Ok(found.clone())
}

fn outside(path: &Path) -> Error {
    Error::new(
        ErrorKind::UnsafeTarget,
        format!(
            "{} is not where its harness keeps sessions, so its place is not known",
            path.display()
        ),
    )
    .with_hint("Its bytes are safe: hand them out with export or mirror get.")
}
