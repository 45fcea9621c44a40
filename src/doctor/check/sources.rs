//! `sources.*`: what the harnesses have now, against what was captured. Names and metadata only.

use std::collections::BTreeMap;

use super::context::{Context, busy};
use super::findings::{About, Capped, which};
use crate::doctor::losses::is_gone;
use crate::error::{Error, ErrorKind, Result};
use crate::model::check::ProviderFacts;
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use crate::model::next::Next;
use crate::model::provider::Provider;
use crate::model::source::{LOCAL, SourceKey};
use crate::model::verdict::SourceState;
use crate::sources::config::Config;
use crate::sources::retention::retention;
use crate::sources::roots::roots;
use crate::sources::sight::Sight;
use crate::sources::usage::FileUse;
use crate::sources::walk::{FoundFile, Met, Oddity, RootState, walk};
use crate::store::layout;
use crate::store::mirror::MirrorReader;

const DAY_MS: i64 = 86_400_000;
/// A session that is not captured and falls due within this many days is worth a warning.
const SOON_DAYS: u64 = 3;

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
    let mirror = match cx.root.as_ref().map(MirrorReader::open).transpose() {
        Ok(mirror) => mirror.flatten(),
        Err(e) => return unread(&e),
    };
    let mut tallies: BTreeMap<&'static str, (Provider, Tally)> = Provider::ALL
        .iter()
        .map(|p| (p.as_str(), (*p, Tally::default())))
        .collect();
    let mut findings = Capped::default();
    let now_ms = cx.env.now_ms();
    let mut failed: Option<Error> = None;
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
                    match captured(mirror.as_ref(), &file) {
                        Ok(true) => return,
                        Ok(false) => {}
                        Err(e) => {
                            failed.get_or_insert(e);
                            return;
                        }
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
                    kind: Oddity::Sidecar,
                    path,
                    ..
                } => findings.push(Finding::new(
                    CheckId::SourcesInventory,
                    "sidecar-unread",
                    Severity::Warn,
                    path.display().to_string(),
                    "is no regular file; its database is captured without it, so what only it holds \
                     is missing",
                )),
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
        if let Some(e) = failed {
            return unread(&e);
        }
        if cx.should_stop() {
            return unknown(cx.stop_reason(), findings.into_list(IDS[0]));
        }
    }
    let mut stopped = false;
    let gone = mirror.as_ref().map_or(Ok(()), |mirror| {
        mirror.for_each_head(&mut |head| {
            let (ident, path) = (&head.ident, &head.ident.path);
            stopped = stopped || cx.should_stop();
            if !stopped
                && ident.source_id == LOCAL
                && sight.reaches(path)
                && !config.excludes(path)
                && is_gone(path)
                && let Some((_, tally)) = tallies.get_mut(ident.provider.as_str())
            {
                tally.pruned += 1;
            }
            Ok(())
        })
    });
    if let Err(e) = gone {
        return unread(&e);
    }
    if stopped {
        return unknown(cx.stop_reason(), findings.into_list(IDS[0]));
    }
    drop(mirror);
    report(cx, tallies, findings.into_list(IDS[0]))
}

/// No answer, but what was found so far.
fn unknown(why: UnknownReason, found: Vec<Finding>) -> Vec<CheckResult> {
    let mut out = vec![CheckResult::unknown(IDS[0], why, found)];
    out.extend(
        IDS[1..]
            .iter()
            .map(|id| CheckResult::unknown(*id, why, Vec::new())),
    );
    out
}

/// The mirror's heads can't be read, so nothing can be compared with them.
fn unread(e: &Error) -> Vec<CheckResult> {
    if e.kind() == ErrorKind::LockBusy {
        return busy(&IDS);
    }
    let (code, severity) = ("heads-unreadable", Severity::Warn);
    let f = Finding::new(IDS[0], code, severity, layout::MIRROR, e.message());
    unknown(UnknownReason::Unreadable, vec![f])
}

/// Whether the newest capture of a file is of the file as it is now. Each is looked up by itself:
/// a list of all would grow with their number.
fn captured(mirror: Option<&MirrorReader<'_>>, file: &FoundFile) -> Result<bool> {
    let Some(mirror) = mirror else {
        return Ok(false);
    };
    let key = SourceKey::derive(LOCAL, file.provider, &file.path);
    // Device and inode are left out: a copied or remounted home is no news.
    Ok(mirror.indexed_head(key)?.is_some_and(|head| {
        (head.gate.size, head.gate.mtime_ns) == (file.stat.size, file.stat.mtime_ns)
    }))
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
        let about = About(name);
        inventory.extend(
            about
                .found(
                    (IDS[0], "source-pruned", Severity::Info),
                    t.pruned,
                    [
                        "captured source is gone upstream; its bytes are in the mirror",
                        "captured sources are gone upstream; their bytes are in the mirror",
                    ],
                )
                .map(|f| f.with_next(Next::SessionsList { limit: None })),
        );
        inventory.extend(about.found(
            (IDS[0], "excluded", Severity::Info),
            t.excluded,
            [
                "file or folder is excluded by config.toml",
                "files or folders are excluded by config.toml",
            ],
        ));
        inventory.extend(about.found(
            (IDS[0], "not-a-file", Severity::Info),
            t.special,
            [
                "link or special file is not read",
                "links or special files are not read",
            ],
        ));
        fresh.extend(
            about
                .found(
                    (IDS[1], "newer-than-archive", Severity::Info),
                    t.newer,
                    [
                        "source is new or changed since the last index",
                        "sources are new or changed since the last index",
                    ],
                )
                .map(|f| f.with_next(Next::Index)),
        );
        if let Some((left, days)) = t.due {
            days_left = Some(days_left.map_or(left, |d| d.min(left)));
            if left <= SOON_DAYS {
                let message = format!(
                    "{name}: sessions that are not captured are pruned in {left} {} (it keeps {days})",
                    which(left, "day", "days")
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
