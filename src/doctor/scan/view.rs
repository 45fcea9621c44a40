//! Where a scan looks: settings, roots, how long each keeps sessions, and what could be seen.

use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::model::provider::Provider;
use crate::model::scan::OutOfSight;
use crate::model::source::LOCAL;
use crate::sources::config::Config;
use crate::sources::retention::{Retention, retention};
use crate::sources::roots::{ProviderRoot, roots};
use crate::sources::usage::{FileUse, Usages, usage};
use crate::sources::walk::RootState;

const DAY_MS: i64 = 86_400_000;

/// What a scan knows of the surroundings.
pub(super) struct View {
    pub(super) config: Config,
    /// Whether the settings can't be used: then nothing of the harnesses may be looked at.
    pub(super) blind: bool,
    pub(super) roots: Vec<(ProviderRoot, Retention, Option<RootState>)>,
    /// Folders that could not be listed.
    pub(super) unreadable: Vec<PathBuf>,
    pub(super) usages: Usages,
    pub(super) now_ms: i64,
    agent: Option<Provider>,
}

impl View {
    pub(super) fn new(env: &Env, config: Option<Config>, agent: Option<Provider>) -> View {
        let blind = config.is_none();
        let config = config.unwrap_or_default();
        let all = if blind {
            Vec::new()
        } else {
            roots(env, &config)
        };
        let usages = Usages::new(&all);
        View {
            blind,
            roots: all
                .into_iter()
                .filter(|r| agent.is_none_or(|a| a == r.provider))
                .map(|r| {
                    let keep = retention(r.provider, &r.path);
                    (r, keep, None)
                })
                .collect(),
            config,
            unreadable: Vec::new(),
            usages,
            now_ms: env.now_ms(),
            agent,
        }
    }

    /// Whether the harness is asked for.
    pub(super) fn wants(&self, provider: Provider) -> bool {
        self.agent.is_none_or(|a| a == provider)
    }

    /// What a file is; one that no root in force explains and that was captured is guessed.
    pub(super) fn usage(&self, provider: Provider, path: &Path, archived: bool) -> FileUse {
        self.usages.of(provider, path).unwrap_or(if archived {
            FileUse::Session
        } else {
            FileUse::Evidence
        })
    }

    /// Why a captured file at `path` can't be looked for; `None` when it can.
    pub(super) fn out_of_sight(
        &self,
        source_id: &str,
        provider: Provider,
        path: &Path,
    ) -> Option<OutOfSight> {
        if source_id != LOCAL {
            return Some(OutOfSight::OtherMachine);
        }
        if self.blind {
            return Some(OutOfSight::ConfigInvalid);
        }
        if self.config.excludes(path) {
            return Some(OutOfSight::Excluded);
        }
        let mut seen = Some(OutOfSight::RootNotNamed);
        for (root, _, state) in &self.roots {
            if root.provider == provider && path.starts_with(&root.path) {
                seen = match state {
                    Some(RootState::Unreadable) => Some(OutOfSight::RootUnreadable),
                    // It may be a disk that is not mounted. A harness's own folder was removed.
                    Some(RootState::Absent) if root.named => Some(OutOfSight::RootMissing),
                    _ => None,
                };
                if seen.is_none() {
                    break;
                }
            }
        }
        if seen.is_none() && self.unreadable.iter().any(|place| path.starts_with(place)) {
            return Some(OutOfSight::RootUnreadable);
        }
        seen
    }

    /// Whether the walk of an earlier root of the same harness met this file.
    pub(super) fn met_before(&self, at: usize, path: &Path) -> bool {
        let Some((this, ..)) = self.roots.get(at) else {
            return false;
        };
        self.roots.iter().take(at).any(|(root, ..)| {
            root.provider == this.provider
                && path
                    .strip_prefix(&root.path)
                    .is_ok_and(|rel| usage(root.provider, rel).is_some())
        })
    }

    /// Days that are left until the harness prunes a session file last changed at `mtime_ns`;
    /// negative when it is overdue. `None` when the harness keeps it.
    pub(super) fn days_left(&self, provider: Provider, path: &Path, mtime_ns: i64) -> Option<i64> {
        let (_, keep, _) = self
            .roots
            .iter()
            .filter(|(root, ..)| root.provider == provider && path.starts_with(&root.path))
            .max_by_key(|(root, ..)| root.path.as_os_str().len())?;
        let days = i64::try_from(keep.days?).unwrap_or(i64::MAX);
        let age_ms = self.now_ms.saturating_sub(mtime_ns / 1_000_000).max(0);
        Some(days.saturating_sub(age_ms / DAY_MS))
    }
}
