//! `sources.*`: what the harnesses have now, against what was captured. Names and metadata only.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use super::context::Context;
use crate::disk::writer_owner;
use crate::error::{ErrorKind, Result};
use crate::model::check::ProviderFacts;
use crate::model::digest::Digest;
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::Next;
use crate::model::provider::Provider;
use crate::model::source::{LOCAL, SourceKey};
use crate::model::verdict::{MirrorState, SourceState};
use crate::sources::config::Config;
use crate::sources::retention::retention;
use crate::sources::roots::roots;
use crate::sources::sight::Sight;
use crate::sources::usage::{FileUse, Usages};
use crate::sources::walk::{Met, Oddity, RootState, walk};
use crate::store::archive::ArchiveReader;
use crate::store::mirror::MirrorReader;

const DAY_MS: i64 = 86_400_000;
/// A session that is not captured and falls due within this many days is worth a warning.
const SOON_DAYS: u64 = 3;

/// What the mirror knows of one source, as far as this check compares it.
struct Known {
    provider: Provider,
    path: PathBuf,
    ino: u64,
    size: u64,
    mtime_ns: i64,
}

#[derive(Default)]
struct Tally {
    installed: bool,
    named_but_absent: Vec<String>,
    sources: u64,
    /// Those that hold sessions.
    sessions: u64,
    newer: u64,
    unreadable: u64,
    pruned: u64,
    excluded: u64,
    special: u64,
    retention_days: Option<u64>,
    /// Age in days of the oldest session that is not captured as it is, and the days the harness
    /// keeps sessions.
    due: Option<(u64, u64)>,
}

const IDS: [CheckId; 3] = [
    CheckId::SourcesInventory,
    CheckId::SourcesFreshness,
    CheckId::SourcesRetention,
];

pub(super) fn inventory(cx: &mut Context) -> Vec<CheckResult> {
    let config = match Config::load(cx.env.config_dir(), cx.env.home()) {
        Ok(config) => config,
        // config.parse says why; without the rules nothing may be looked at.
        Err(_) => return Context::skip(&IDS, SkipReason::Blocked, None),
    };
    let mut known = match known(cx) {
        Ok(known) => known,
        Err(e) if e.kind() == ErrorKind::LockBusy => return busy(&IDS),
        Err(e) => {
            let f = Finding::new(
                CheckId::SourcesInventory,
                "heads-unreadable",
                Severity::Warn,
                "raw-mirror",
                e.message(),
            );
            return vec![
                CheckResult::unknown(IDS[0], UnknownReason::Unreadable, vec![f]),
                CheckResult::unknown(IDS[1], UnknownReason::Unreadable, Vec::new()),
                CheckResult::unknown(IDS[2], UnknownReason::Unreadable, Vec::new()),
            ];
        }
    };
    let mut tallies: BTreeMap<&'static str, (Provider, Tally)> = Provider::ALL
        .iter()
        .map(|p| (p.as_str(), (*p, Tally::default())))
        .collect();
    let mut findings = Vec::new();
    let now_ms = cx.env.now_ms();
    let mut sight = Sight::default();
    for root in &roots(&cx.env, &config) {
        let Some((_, tally)) = tallies.get_mut(root.provider.as_str()) else {
            continue;
        };
        let keep = retention(root.provider, &root.path);
        tally.retention_days = tally.retention_days.or(keep.days);
        let state = walk(root, &config, &mut |met| {
            sight.note(&met);
            match met {
                Met::File(file) => {
                    tally.sources += 1;
                    tally.sessions += u64::from(file.usage == FileUse::Session);
                    let key = SourceKey::derive(LOCAL, file.provider, &file.path);
                    let captured = known.remove(&key).is_some_and(|k| {
                        // The device is left out: a copied or remounted home is no news.
                        (k.ino, k.size, k.mtime_ns)
                            == (file.stat.ino, file.stat.size, file.stat.mtime_ns)
                            || (k.size, k.mtime_ns) == (file.stat.size, file.stat.mtime_ns)
                    });
                    if captured {
                        return;
                    }
                    if rustix::fs::access(&file.path, rustix::fs::Access::READ_OK).is_err() {
                        tally.unreadable += 1;
                        findings.push(Finding::new(
                            CheckId::SourcesInventory,
                            "source-unreadable",
                            Severity::Warn,
                            file.path.display().to_string(),
                            "can't be read, and is not captured as it is now",
                        ));
                        return;
                    }
                    tally.newer += 1;
                    if let (FileUse::Session, Some(days)) = (file.usage, keep.days) {
                        let age_ms = now_ms.saturating_sub(file.stat.mtime_ns / 1_000_000).max(0);
                        let age = u64::try_from(age_ms / DAY_MS).unwrap_or(0);
                        let left = days.saturating_sub(age);
                        if tally.due.is_none_or(|(soonest, _)| left < soonest) {
                            tally.due = Some((left, days));
                        }
                    }
                }
                Met::Odd {
                    kind: Oddity::Unreadable,
                    path,
                    message,
                } => {
                    tally.unreadable += 1;
                    let what = message.unwrap_or_else(|| "no permission".to_owned());
                    findings.push(Finding::new(
                        CheckId::SourcesInventory,
                        "source-unreadable",
                        Severity::Warn,
                        path.display().to_string(),
                        format!("can't be looked at: {what}"),
                    ));
                }
                Met::Odd {
                    kind: Oddity::Excluded,
                    ..
                } => tally.excluded += 1,
                Met::Odd {
                    kind: Oddity::Special | Oddity::Link,
                    ..
                } => tally.special += 1,
                Met::Odd { .. } => {}
            }
        });
        sight.end(root, state);
        match state {
            RootState::Absent if root.named => {
                tally.named_but_absent.push(root.path.display().to_string());
            }
            RootState::Absent => {}
            RootState::Unreadable | RootState::Present => tally.installed = true,
        }
        if cx.should_stop() {
            let why = cx.stop_reason();
            let mut out = vec![CheckResult::unknown(IDS[0], why, findings)];
            out.extend(
                IDS[1..]
                    .iter()
                    .map(|i| CheckResult::unknown(*i, why, Vec::new())),
            );
            return out;
        }
    }
    for k in known.values().filter(|k| sight.reaches(&k.path)) {
        if let Some((_, tally)) = tallies.get_mut(k.provider.as_str()) {
            tally.pruned += 1;
        }
    }
    report(cx, tallies, findings)
}

/// Every local source of the mirror, with the gate of its newest capture.
fn known(cx: &Context) -> Result<HashMap<SourceKey, Known>> {
    let mut known = HashMap::new();
    let Some(root) = &cx.root else {
        return Ok(known);
    };
    let Some(mirror) = MirrorReader::open(root)? else {
        return Ok(known);
    };
    mirror.for_each_head(&mut |head| {
        if head.ident.source_id == LOCAL {
            known.insert(
                head.ident.key,
                Known {
                    provider: head.ident.provider,
                    path: head.ident.path,
                    ino: head.gate.ino,
                    size: head.gate.size,
                    mtime_ns: head.gate.mtime_ns,
                },
            );
        }
        Ok(())
    })?;
    Ok(known)
}

fn report(
    cx: &mut Context,
    tallies: BTreeMap<&'static str, (Provider, Tally)>,
    mut inventory: Vec<Finding>,
) -> Vec<CheckResult> {
    let (mut fresh, mut keeps) = (Vec::new(), Vec::new());
    let mut days_left: Option<u64> = None;
    for (name, (provider, t)) in tallies {
        let state = if t.unreadable > 0 {
            SourceState::Unreadable
        } else if t.newer > 0 {
            SourceState::NewerThanArchive
        } else if t.sessions > 0 {
            if t.pruned > 0 {
                SourceState::Pruned
            } else {
                SourceState::Ok
            }
        } else if t.pruned > 0 {
            SourceState::Pruned
        } else if t.installed {
            SourceState::NoLocalData
        } else {
            SourceState::ProviderNotInstalled
        };
        if provider == Provider::Amp && t.installed && t.sessions == 0 {
            let message = format!(
                "{name}: no thread is kept on this machine; `amp threads export` fetches one from its server"
            );
            inventory.push(Finding::new(
                CheckId::SourcesInventory,
                "remote-only",
                Severity::Info,
                name,
                message,
            ));
        }
        for path in &t.named_but_absent {
            inventory.push(Finding::new(
                CheckId::SourcesInventory,
                "root-absent",
                Severity::Warn,
                path.clone(),
                format!("{name}: a setting names this folder and nothing is there"),
            ));
        }
        if t.pruned > 0 {
            let message = format!(
                "{name}: {} captured sources are gone upstream; their bytes are in the mirror",
                t.pruned
            );
            inventory.push(
                Finding::new(
                    CheckId::SourcesInventory,
                    "source-pruned",
                    Severity::Info,
                    name,
                    message,
                )
                .with_count(t.pruned)
                .with_next(Next::SessionsList { limit: None }),
            );
        }
        if t.excluded > 0 {
            let message = format!(
                "{name}: {} files or folders are excluded by config.toml",
                t.excluded
            );
            inventory.push(
                Finding::new(
                    CheckId::SourcesInventory,
                    "excluded",
                    Severity::Info,
                    name,
                    message,
                )
                .with_count(t.excluded),
            );
        }
        if t.special > 0 {
            let message = format!("{name}: {} links or special files are not read", t.special);
            inventory.push(
                Finding::new(
                    CheckId::SourcesInventory,
                    "not-a-file",
                    Severity::Info,
                    name,
                    message,
                )
                .with_count(t.special),
            );
        }
        if t.newer > 0 {
            let message = format!(
                "{name}: {} sources are new or changed since the last index",
                t.newer
            );
            fresh.push(
                Finding::new(
                    CheckId::SourcesFreshness,
                    "newer-than-archive",
                    Severity::Info,
                    name,
                    message,
                )
                .with_count(t.newer)
                .with_next(Next::Index),
            );
        }
        if let Some((left, days)) = t.due {
            days_left = Some(days_left.map_or(left, |d| d.min(left)));
            if left <= SOON_DAYS {
                let message = format!(
                    "{name}: sessions that are not captured are pruned in {left} days (it keeps {days})"
                );
                keeps.push(
                    Finding::new(
                        CheckId::SourcesRetention,
                        "loss-is-near",
                        Severity::Warn,
                        name,
                        message,
                    )
                    .with_next(Next::Index),
                );
            }
        }
        cx.facts.providers.push(ProviderFacts {
            provider,
            state,
            sources: t.sources,
            newer: t.newer,
            pruned: t.pruned,
            unreadable: t.unreadable,
            retention_days: t.retention_days.filter(|_| t.installed),
        });
    }
    cx.sources_looked = true;
    cx.facts.coverage.days_until_first_loss = days_left;
    cx.facts.coverage.source_pruned = cx.facts.providers.iter().map(|p| p.pruned).sum();
    vec![
        CheckResult::ran(CheckId::SourcesInventory, inventory),
        CheckResult::ran(CheckId::SourcesFreshness, fresh),
        CheckResult::ran(CheckId::SourcesRetention, keeps),
    ]
}

const READ: [CheckId; 2] = [CheckId::SourcesParse, CheckId::SourcesLogHealth];

/// What was read, by harness, and the sources whose archived capture no ledger has: how many, and
/// one of them.
type Read = (BTreeMap<&'static str, Reading>, (u64, Option<SourceKey>));

/// A writer folds its log in, and takes long.
fn busy(ids: &[CheckId]) -> Vec<CheckResult> {
    ids.iter()
        .map(|id| CheckResult::unknown(*id, UnknownReason::LockBusy, Vec::new()))
        .collect()
}

#[derive(Default)]
struct Reading {
    pending: u64,
    records: u64,
    silent: u64,
    first_silent: String,
    damaged: u64,
    places: u64,
    unknown: u64,
    unaccounted: u64,
}

/// What the archive made of the bytes of each source.
pub(super) fn parse(cx: &mut Context) -> Vec<CheckResult> {
    let Some(root) = &cx.root else {
        return Context::skip(&READ, SkipReason::NoArchive, None);
    };
    if !cx.archive_readable {
        return Context::skip(&READ, SkipReason::NoArchive, None);
    }
    // Settings that can't be read name no roots; config.parse says so.
    let usages = Config::load(cx.env.config_dir(), cx.env.home())
        .map_or_else(|_| Usages::new([]), |c| Usages::new(&roots(&cx.env, &c)));
    let read = || -> Result<Read> {
        let mut behind: Vec<(SourceKey, (u64, Digest))> = Vec::new();
        let mut by: BTreeMap<&'static str, Reading> = BTreeMap::new();
        let mut done: HashMap<SourceKey, (u64, Digest)> = HashMap::new();
        if let Some(archive) = ArchiveReader::open(root)? {
            archive.for_each_source(&mut |s| {
                let r = by.entry(s.provider.as_str()).or_default();
                let a = &s.accounting;
                let records = a.messages.records + a.known.records + a.duplicate.records;
                r.records += records;
                if a.length > 0 && records == 0 && a.skipped_bytes > 0 {
                    r.silent += 1;
                    if r.first_silent.is_empty() {
                        r.first_silent = s.path.display().to_string();
                    }
                }
                if a.accounted() != a.length {
                    r.unaccounted += 1;
                }
                if a.skipped_bytes > 0 {
                    r.damaged += 1;
                    r.places += a.skip_count;
                }
                r.unknown += a.unknown.records;
                done.insert(s.key, (s.parsed_seq, s.captured_hash));
                Ok(())
            })?;
        }
        if let Some(mirror) = MirrorReader::open(root)? {
            mirror.for_each_head(&mut |head| {
                let session =
                    usages.of(head.ident.provider, &head.ident.path) == Some(FileUse::Session);
                let read = done.remove(&head.ident.key);
                if session && read != Some((head.seq, head.hash)) {
                    by.entry(head.ident.provider.as_str()).or_default().pending += 1;
                }
                // The archive read a capture that the ledger no longer has.
                if let Some(read) = read
                    .filter(|(seq, hash)| *seq > head.seq || *seq == head.seq && *hash != head.hash)
                {
                    behind.push((head.ident.key, read));
                }
                Ok(())
            })?;
            behind.extend(done);
            behind.sort_unstable();
            // The derived index may be what is wrong: the ledger itself has the last word.
            let mut gone = Vec::new();
            for (key, read) in behind {
                let mut there = false;
                mirror.captures(key, &mut |line| {
                    there |= (line.seq, line.hash) == read;
                    Ok(())
                })?;
                if !there {
                    gone.push(key);
                }
            }
            return Ok((by, (gone.len() as u64, gone.first().copied())));
        }
        // Without a mirror nothing of what was read can be given back byte for byte.
        Ok((by, (done.len() as u64, done.keys().min().copied())))
    };
    let pending = |(by, _): &Read| by.values().any(|r| r.pending > 0);
    let mut looked = read();
    // A writer captures first and archives then: while one is at it, this is no finding. One that
    // ended in between is found out by a second look.
    let mut writing = false;
    if looked.as_ref().is_ok_and(pending) {
        writing = !matches!(writer_owner(root), Ok(None));
        if !writing {
            looked = read();
            writing = !matches!(writer_owner(root), Ok(None));
        }
    }
    let (by, missing) = match looked {
        Ok(looked) => looked,
        Err(e) if e.kind() == ErrorKind::LockBusy => return busy(&READ),
        Err(e) => {
            let f = Finding::new(READ[0], "unreadable", Severity::Warn, "", e.message());
            return vec![
                CheckResult::unknown(READ[0], UnknownReason::Unreadable, vec![f]),
                CheckResult::unknown(READ[1], UnknownReason::Unreadable, Vec::new()),
            ];
        }
    };
    cx.captures_missing = missing;
    if missing.0 > 0 {
        cx.mirror_damaged = true;
        cx.mirror_verified = false;
        // One that is gone as a whole is absent, not corrupt.
        if cx.mirror_present {
            cx.facts.mirror.status = MirrorState::Corrupt;
        }
    }
    let (mut parse, mut health) = (Vec::new(), Vec::new());
    for (name, r) in by {
        let found = |id, code, severity, count: u64, message: String| {
            Finding::new(id, code, severity, name, message).with_count(count)
        };
        if r.silent > 0 {
            let message = format!(
                "{name}: not one record could be read from {}",
                r.first_silent
            );
            // One broken file is damage that its bytes in the mirror outlive; a harness of which
            // nothing can be read is a parser that no longer fits.
            let severity = if r.records == 0 {
                Severity::Error
            } else {
                Severity::Info
            };
            parse.push(found(
                READ[0],
                "nothing-parsed",
                severity,
                r.silent,
                message,
            ));
        }
        if r.unaccounted > 0 {
            let message = format!(
                "{name}: bytes of {} sources are not accounted for",
                r.unaccounted
            );
            parse.push(found(
                READ[0],
                "bytes-unaccounted",
                Severity::Error,
                r.unaccounted,
                message,
            ));
        }
        if r.pending > 0 {
            let message = format!(
                "{name}: {} sources are captured and not in the archive yet",
                r.pending
            );
            // A running writer is between the two; without one they were left behind.
            let severity = if writing {
                Severity::Info
            } else {
                Severity::Warn
            };
            parse.push(
                found(
                    READ[0],
                    "captured-not-archived",
                    severity,
                    r.pending,
                    message,
                )
                .with_next(Next::Index),
            );
        }
        if r.unknown > 0 {
            let message = format!(
                "{name}: {} records are of a type this version does not know; they are kept",
                r.unknown
            );
            parse.push(found(
                READ[0],
                "unknown-records",
                Severity::Info,
                r.unknown,
                message,
            ));
        }
        if r.damaged > 0 {
            let message = format!(
                "{name}: {} sources hold {} places that are no record; their bytes are in the mirror",
                r.damaged, r.places
            );
            health.push(found(
                READ[1],
                "damaged-places",
                Severity::Info,
                r.damaged,
                message,
            ));
        }
    }
    vec![
        CheckResult::ran(READ[0], parse),
        CheckResult::ran(READ[1], health),
    ]
}
