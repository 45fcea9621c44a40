//! Titles that stand in a file beside a session's, when that file alone has changed.

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::Capture;
use crate::env::Env;
use crate::error::Result;
use crate::ingest::capture::CaptureOutcome;
use crate::ingest::jobs::{Job, is_of_one_source};
use crate::ingest::{parse, projection};
use crate::model::source::SourceKey;
use crate::sources::usage::{FileUse, Usages};
use crate::store::archive::{ArchiveWriter, CaptureRef, Retitled};
use crate::store::mirror::{CaptureLine, Head, MirrorWriter, SourceIdent};

/// Gives sessions the titles that files captured by this run say and that the archive does not
/// have, because the session's own file is as it was; returns the number of commits. A session that
/// was renamed in its own file since keeps that name.
///
/// # Errors
/// Errors of the archive or the mirror as a whole.
pub(super) fn retitle(
    env: &Env,
    cap: Capture<'_>,
    capture: &CaptureOutcome,
    mirror: &mut MirrorWriter<'_>,
    archive: &mut ArchiveWriter<'_>,
) -> Result<u64> {
    let captured: BTreeSet<SourceKey> = capture.captured.iter().map(|c| c.key).collect();
    if captured.is_empty() {
        return Ok(0);
    }
    let usages = Usages::new(capture.roots.iter().map(|(root, ..)| root));
    let mut beside: Vec<(SourceIdent, u64, BTreeSet<SourceKey>)> = Vec::new();
    mirror.for_each_head(&mut |head: Head| {
        let ident = head.ident;
        if captured.contains(&ident.key)
            || usages.of(ident.provider, &ident.path) != Some(FileUse::Session)
        {
            return Ok(());
        }
        let changed: BTreeSet<SourceKey> = parse::siblings(projection::name_of(&ident), b"")
            .iter()
            .map(|path| SourceKey::derive(&ident.source_id, ident.provider, path))
            .filter(|key| captured.contains(key))
            .collect();
        if !changed.is_empty() {
            beside.push((ident, head.seq, changed));
        }
        Ok(())
    })?;
    let mut commits = 0;
    for (ident, seq, changed) in beside {
        match one(env, cap, mirror, archive, (&ident, seq, &changed)) {
            Ok(committed) => commits += u64::from(committed),
            // Its title is as it was.
            Err(e) if is_of_one_source(&e) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(commits)
}

fn one(
    env: &Env,
    cap: Capture<'_>,
    mirror: &mut MirrorWriter<'_>,
    archive: &mut ArchiveWriter<'_>,
    (ident, seq, changed): (&SourceIdent, u64, &BTreeSet<SourceKey>),
) -> Result<bool> {
    let Some(cursor) = archive.cursor(ident.key)? else {
        return Ok(false);
    };
    let mut newest: Option<CaptureLine> = None;
    mirror.captures(ident.key, &mut |line| {
        if line.seq == seq {
            newest = Some(line);
        }
        Ok(())
    })?;
    let Some(line) = newest.filter(|l| (l.seq, l.hash) == (cursor.parsed_seq, cursor.hash)) else {
        return Ok(false);
    };
    let job = Job {
        ident: ident.clone(),
        line,
        from: None,
        before: None,
        restart: false,
    };
    let opened = projection::open(cap, mirror, &job)?;
    let mut before = opened.siblings().clone();
    for (path, bytes) in projection::earlier(mirror, &job, opened.siblings(), changed)? {
        match bytes {
            Some(bytes) => drop(before.insert(path, bytes)),
            None => drop(before.remove(&path)),
        }
    }
    let said = projection::titles(&job, &opened, &before)?;
    let says = projection::titles(&job, &opened, opened.siblings())?;
    let titles: Vec<Retitled> = says
        .into_iter()
        .filter(|(session, title)| said.get(session) != Some(title))
        .map(|(session, title)| Retitled {
            before: said.get(&session).cloned(),
            session,
            title,
        })
        .collect();
    if titles.is_empty() {
        return Ok(false);
    }
    let append = archive.begin(CaptureRef {
        key: ident.key,
        source_id: &ident.source_id,
        provider: ident.provider,
        path: &ident.path,
        seq: job.line.seq,
        len: job.line.len,
        hash: job.line.hash,
        restart: false,
        parser_version: parse::VERSION,
        kind: opened.kind(ident.provider),
    })?;
    Ok(append
        .retitle(&titles, cursor.resume, env.now_ms())?
        .is_some())
}

/// Beginnings of files, by path; `None` for one that is not there.
pub(super) type Beginnings = BTreeMap<std::path::PathBuf, Option<Vec<u8>>>;
