//! `cass sessions restore`

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::args::SessionsRestoreArgs;
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count, size};
use super::restore_plan::{Part, Parts, parts, target};
use super::sanitise::{ending, shell_line, visible};
use super::{place, session_name};
use crate::disk::PutBack;
use crate::error::{Error, ErrorKind, Result};
use crate::exit::ExitCodeKind;
use crate::model::conversation::Conversation;
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::model::next::{Next, NextId};
use crate::model::path::PathText;
use crate::report::envelope::{OperationOutcome, OutcomeKind, Report, Status};
use crate::report::export::MAX_FILES;
use crate::report::restore::{
    FollowedLink, PrunedAgain, RestoreBody, RestoreState, RestoreTarget, RestoredFile, Resume,
};
use crate::report::time::rfc3339;
use crate::sources::harness::harness;
use crate::sources::roots::real;
use crate::store::mirror::MirrorReader;

const DAY_MS: i64 = 86_400_000;

pub(super) fn run(ctx: &Context, args: &SessionsRestoreArgs) -> Result<Report<RestoreBody>> {
    let root = place::with_archive(&ctx.env)?;
    let archive = place::archive(&root)?;
    let session = session_name::session(&ctx.env, &archive, &args.id)?;
    let mirror = place::mirror(&root)?;
    let parts = parts(
        &ctx.env,
        &archive,
        &mirror,
        &session,
        &args.id,
        args.capture,
    )?;
    let (kind, folder) = match &args.to {
        Some(dir) => {
            let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
            place::hand_out_target(&ctx.env, &dir)?;
            (RestoreTarget::Folder, dir)
        }
        None if parts.database => return Err(in_database(&session.id)),
        None if args.into_harness => (
            RestoreTarget::Harness,
            target(&ctx.env, &session, &parts.root)?,
        ),
        None => (
            RestoreTarget::Plan,
            target(&ctx.env, &session, &parts.root)?,
        ),
    };
    if kind != RestoreTarget::Folder
        && let Some(own) = parts.list.first()
        && let Some(why) = harness(session.provider).spoils(&folder, &own.rel)
    {
        return Err(Error::new(ErrorKind::UnsafeTarget, why).with_hint(format!(
            "Put it into a folder of your own: cass sessions restore {} --to DIR",
            session.id
        )));
    }
    let mut back = PutBack::below(&folder)?;
    if kind != RestoreTarget::Folder {
        // The same links that capture follows.
        let areas = harness(session.provider).areas().iter();
        back = back.with_links_below(areas.filter(|a| a.linked_projects).map(|a| a.rel));
    }
    let mut states = look(ctx, &back, &parts, kind)?;
    let links = links(ctx, &folder, &back)?;
    // One that comes up from here on was not looked at.
    let back = back.with_links_below([]);
    if kind == RestoreTarget::Plan {
        drop(back);
    } else {
        write(ctx, &mirror, back, &parts, &mut states)?;
    }
    let resume = harness(session.provider)
        .resume(&session.native_id, &folder)
        .filter(|_| kind != RestoreTarget::Folder)
        .map(|argv| Resume {
            argv,
            workspace: session.workspace.clone(),
        });
    let body = RestoreBody {
        id: session.id.clone(),
        native_id: session.native_id.clone(),
        provider: session.provider,
        target: kind,
        root: PathText::new(&folder),
        links,
        files: files(&folder, &parts, &states),
        files_total: total(parts.list.len()),
        written: total(
            states
                .iter()
                .filter(|s| **s == RestoreState::Written)
                .count(),
        ),
        bytes_total: parts.list.iter().map(|p| p.len).sum(),
        pruned_again: (kind != RestoreTarget::Folder)
            .then(|| pruned_again(ctx, &session, &folder))
            .flatten(),
        resume,
    };
    Ok(report(ctx, args, body, &states))
}

fn report(
    ctx: &Context,
    args: &SessionsRestoreArgs,
    body: RestoreBody,
    states: &[RestoreState],
) -> Report<RestoreBody> {
    let (status, kind) = match body.target {
        RestoreTarget::Plan => (Status::Planned, OutcomeKind::Planned),
        _ if body.written == 0 => (Status::AlreadyApplied, OutcomeKind::AlreadyApplied),
        _ => (Status::Applied, OutcomeKind::Fixed),
    };
    let useful = body.target == RestoreTarget::Plan
        && states.contains(&RestoreState::Missing)
        && !states.contains(&RestoreState::InTheWay);
    let next = Next::Restore {
        id: body.id.clone(),
        version: args.capture,
    };
    let outcome = OperationOutcome::new(kind, ExitCodeKind::Success);
    let mut report = Report::new(status, outcome, body);
    if useful {
        report = report.recommending(&[next], &ctx.site);
        // A useful command, and still nothing that has to be done.
        report.recommended_action = NextId::None;
    }
    report
}

/// What is at each place. A file in the way is an error where files are to be written.
fn look(
    ctx: &Context,
    back: &PutBack,
    parts: &Parts,
    kind: RestoreTarget,
) -> Result<Vec<RestoreState>> {
    let mut states = Vec::new();
    for part in &parts.list {
        ctx.interrupt.check()?;
        let state = match back.look(&part.rel)? {
            None => RestoreState::Missing,
            Some(_) if kind == RestoreTarget::Folder => return Err(in_the_way(&part.rel)),
            Some(file) if is_same(&file, part, &ctx.interrupt)? => RestoreState::AlreadyThere,
            Some(_) if !part.main => RestoreState::LeftAlone,
            Some(_) if kind == RestoreTarget::Plan => RestoreState::InTheWay,
            Some(_) => return Err(in_the_way(&part.rel)),
        };
        states.push(state);
    }
    whole_databases(back, parts, &mut states)?;
    Ok(states)
}

/// Whether the session is too old for its harness, which judges by what the session says.
fn pruned_again(ctx: &Context, session: &Conversation, folder: &Path) -> Option<PrunedAgain> {
    let of = harness(session.provider);
    let setting = of.prunes_by_content()?.to_owned();
    let retention_days = of.retention(folder).days?;
    let age_ms = ctx.env.now_ms().saturating_sub(session.ended_ms?);
    let days = u64::try_from(age_ms / DAY_MS).unwrap_or(0);
    (days >= retention_days).then_some(PrunedAgain {
        retention_days,
        setting,
    })
}

/// The links on the way that were followed. One that leads into our own folder is none.
fn links(ctx: &Context, folder: &Path, back: &PutBack) -> Result<Vec<FollowedLink>> {
    let mut list = Vec::new();
    for rel in back.followed() {
        let link = folder.join(rel);
        let leads_to = real(&link);
        if leads_to.starts_with(real(ctx.env.data_dir())) {
            return Err(Error::new(
                ErrorKind::UnsafeTarget,
                format!("{} leads into the data directory", link.display()),
            ));
        }
        list.push(FollowedLink {
            link: PathText::new(&link),
            leads_to: PathText::new(&leads_to),
        });
    }
    Ok(list)
}

/// A database beside the session comes back whole or not at all: SQLite would play a log into
/// whatever database it finds beside it.
fn whole_databases(back: &PutBack, parts: &Parts, states: &mut [RestoreState]) -> Result<()> {
    let names: BTreeSet<&PathBuf> = parts
        .list
        .iter()
        .filter_map(|p| p.database.as_ref())
        .collect();
    for name in names {
        let its = |part: &Part| part.database.as_ref() == Some(name);
        let mut begun = parts
            .list
            .iter()
            .zip(&*states)
            .any(|(part, state)| its(part) && *state != RestoreState::Missing);
        for end in ["-wal", "-journal"] {
            let mut log = name.as_os_str().to_owned();
            log.push(end);
            begun = begun || back.look(Path::new(&log))?.is_some();
        }
        for (part, state) in parts.list.iter().zip(&mut *states) {
            if begun && its(part) && *state == RestoreState::Missing {
                *state = RestoreState::LeftAlone;
            }
        }
    }
    Ok(())
}

fn is_same(file: &File, part: &Part, interrupt: &Interrupt) -> Result<bool> {
    if file.metadata().map(|m| m.len()).ok() != Some(part.len) {
        return Ok(false);
    }
    let hashed = hash_of(file, interrupt)?;
    // One that can't be read is not known to be the same.
    Ok(hashed.is_ok_and(|(len, hash)| (len, hash) == (part.len, part.hash)))
}

fn hash_of(mut file: impl Read, interrupt: &Interrupt) -> Result<std::io::Result<(u64, Digest)>> {
    let mut hasher = blake3::Hasher::new();
    let mut buf = vec![0u8; 1 << 18];
    loop {
        interrupt.check()?;
        match file.read(&mut buf) {
            Ok(0) => return Ok(Ok((hasher.count(), Digest::from(hasher.finalize())))),
            Ok(n) => {
                hasher.update(buf.get(..n).unwrap_or(&buf));
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Ok(Err(e)),
        }
    }
}

fn write(
    ctx: &Context,
    mirror: &MirrorReader<'_>,
    mut back: PutBack,
    parts: &Parts,
    states: &mut [RestoreState],
) -> Result<()> {
    // Taken back in whole when one fails.
    for (part, state) in parts.list.iter().zip(&mut *states) {
        if *state != RestoreState::Missing {
            continue;
        }
        if let Err(error) = write_one(ctx, mirror, &mut back, part) {
            let left = back.take_back();
            if left.is_empty() {
                return Err(error);
            }
            let left: Vec<_> = left.iter().map(|p| p.display().to_string()).collect();
            return Err(error
                .with_hint("Some files are complete and could not be taken back: see the context.")
                .with_context("complete_files", left.join("\n")));
        }
        *state = RestoreState::Written;
    }
    back.keep();
    Ok(())
}

fn write_one(
    ctx: &Context,
    mirror: &MirrorReader<'_>,
    back: &mut PutBack,
    part: &Part,
) -> Result<()> {
    let shown = part.rel.display();
    let damaged = |what: String| {
        Error::new(ErrorKind::VerifyFailed, what)
            .with_hint("Verify the mirror; a source that still exists heals it.")
            .with_hint_argv(["cass", "mirror", "verify", "--deep"])
    };
    let mut content = mirror.open_content(part.recipe, part.len)?;
    let mut file = back.begin(&part.rel)?;
    let mut buf = vec![0u8; 1 << 18];
    loop {
        ctx.interrupt.check()?;
        let n = match content.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => {
                return Err(damaged(format!(
                    "the capture of {shown} can't be read: {e}"
                )));
            }
        };
        file.write_all(buf.get(..n).unwrap_or(&buf))
            .map_err(|e| Error::io("write", &part.rel, e))?;
    }
    file.rewind()
        .map_err(|e| Error::io("write", &part.rel, e))?;
    let (len, hash) =
        hash_of(&mut file, &ctx.interrupt)?.map_err(|e| Error::io("read", &part.rel, e))?;
    if (len, hash) != (part.len, part.hash) {
        return Err(damaged(format!(
            "what was written for {shown} is not what its ledger promises"
        )));
    }
    back.publish(file)
}

fn files(folder: &Path, parts: &Parts, states: &[RestoreState]) -> Vec<RestoredFile> {
    let both = parts.list.iter().zip(states).take(MAX_FILES);
    both.map(|(part, state)| RestoredFile {
        path: PathText::new(&folder.join(&part.rel)),
        state: *state,
        main: part.main,
        shared: part.shared,
        bytes: part.len,
        blake3: part.hash.to_hex(),
        source: part.key.to_string(),
        version: part.seq,
        captured_at: rfc3339(part.at_ms),
    })
    .collect()
}

fn total(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn in_the_way(rel: &Path) -> Error {
    Error::new(
        ErrorKind::TargetExists,
        format!("{} exists already and is not overwritten", rel.display()),
    )
    .with_hint("Nothing was written. Move it away, or name another folder with --to.")
}

fn in_database(id: &str) -> Error {
    Error::new(
        ErrorKind::UnsafeTarget,
        "this session is kept in a database beside others, and putting a captured database back \
         would take the place of what they became since",
    )
    .with_hint(format!(
        "Put it into a folder of your own: cass sessions restore {id} --to DIR"
    ))
}

impl Human for RestoreBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        for file in &b.files {
            let word = match file.state {
                RestoreState::Missing => "missing",
                RestoreState::Written => "written",
                RestoreState::AlreadyThere => "is there",
                RestoreState::LeftAlone => "left alone",
                RestoreState::InTheWay => {
                    page.anomaly(
                        Mark::Warn,
                        &format!("{} is there with other bytes", file.path.path),
                    );
                    "in the way"
                }
            };
            let name = PathBuf::from(&file.path.path);
            let rel = name.strip_prefix(&b.root.path).unwrap_or(&name);
            page.fact(&format!(
                "{word:<10} version {:<4} {:>8}  {}",
                file.version,
                size(file.bytes),
                ending(&visible(&rel.to_string_lossy()), 46)
            ));
        }
        if let Some(again) = &b.pruned_again {
            page.anomaly(
                Mark::Warn,
                &format!(
                    "older than the {} for which the harness keeps a session, so it removes it \
                     again when it starts; first change {}",
                    count(again.retention_days, "day", "days"),
                    again.setting
                ),
            );
        }
        page.fact(&format!("folder     {}", b.root.path));
        for link in &b.links {
            let (from, to) = (&link.link.path, &link.leads_to.path);
            page.fact(&format!("link       {from} -> {to}"));
        }
        if let Some(resume) = &b.resume {
            page.fact(&format!("resume     {}", shell_line(&resume.argv)));
            if let Some(workspace) = &resume.workspace {
                page.fact(&format!("in         {workspace}"));
            }
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let b = &r.body;
        let files = count(b.files_total, "file", "files");
        match b.target {
            RestoreTarget::Plan => format!("{files}; nothing was written."),
            _ if b.written == 0 => format!("{files}, all there already."),
            _ => format!(
                "{} of {files} put back, {}, every byte compared.",
                b.written,
                size(b.bytes_total)
            ),
        }
    }
}
