//! The inventory: every source that is there, was captured, or was read, each once.

use std::collections::BTreeMap;
use std::path::Path;

use super::StateFilter;
use super::captures::Captures;
use super::live::{same, stat};
use super::named::Named;
use super::page::Page;
use super::risks::Risks;
use super::sessions::Sessions;
use super::view::View;
use crate::doctor::archived::Archived;
use crate::error::Result;
use crate::model::conversation::ArchivedSource;
use crate::model::interrupt::Interrupt;
use crate::model::provider::Provider;
use crate::model::scan::{Holder, LogHealth, OutOfSight, SourceItem, SourceUse};
use crate::model::source::{LOCAL, SourceKey};
use crate::model::verdict::SourceState;
use crate::sources::usage::FileUse;
use crate::sources::walk::{FoundFile, Met, Oddity, RootState, walk};
use crate::store::archive::ArchiveReader;
use crate::store::mirror::{Head, MirrorReader};

/// The sources of one harness.
#[derive(Debug, Clone)]
pub struct ProviderScan {
    /// The harness.
    pub provider: Provider,
    /// Whether one of its roots is there.
    pub installed: bool,
    /// Sources by state.
    pub by_state: BTreeMap<SourceState, u64>,
    /// Sources that could not be looked for.
    pub out_of_sight: u64,
    /// Days that the harness keeps a session; `None` when it never prunes or is not installed.
    pub retention_days: Option<u64>,
    /// Whether a setting says so.
    pub retention_configured: bool,
    /// Session files that are not captured as they are now.
    pub uncaptured: u64,
    /// Of these, the ones that the harness may prune at once.
    pub overdue: u64,
    /// Sources with places that hold no record.
    pub damaged: u64,
    /// Days until the first of them is pruned; negative when overdue.
    pub days_until_first_loss: Option<i64>,
    /// Days until the harness prunes the first session that is captured: nothing is lost then.
    pub days_until_next_prune: Option<i64>,
}

impl ProviderScan {
    fn new(provider: Provider) -> Self {
        ProviderScan {
            provider,
            installed: false,
            by_state: BTreeMap::new(),
            out_of_sight: 0,
            retention_days: None,
            retention_configured: false,
            uncaptured: 0,
            overdue: 0,
            damaged: 0,
            days_until_first_loss: None,
            days_until_next_prune: None,
        }
    }

    /// Sources in one state.
    #[must_use]
    pub fn count(&self, state: SourceState) -> u64 {
        self.by_state.get(&state).copied().unwrap_or(0)
    }

    /// The worst state of its sources, or why there are none.
    #[must_use]
    pub fn state(&self) -> SourceState {
        let worst = [
            SourceState::Unreadable,
            SourceState::NewerThanArchive,
            SourceState::Pruned,
            SourceState::Ok,
            SourceState::Empty,
        ];
        let found = worst.into_iter().find(|s| self.count(*s) > 0);
        found.unwrap_or(if self.installed {
            SourceState::NoLocalData
        } else {
            SourceState::ProviderNotInstalled
        })
    }

    fn due(&mut self, left: Option<i64>, captured: bool) {
        self.uncaptured += u64::from(!captured);
        let Some(left) = left else {
            return;
        };
        self.overdue += u64::from(!captured && left <= 0);
        let first = if captured {
            &mut self.days_until_next_prune
        } else {
            &mut self.days_until_first_loss
        };
        *first = Some(first.map_or(left, |so_far| so_far.min(left)));
    }
}

/// The inventory so far.
#[derive(Debug)]
pub(super) struct Inventory {
    pub(super) page: Page<SourceItem>,
    pub(super) providers: BTreeMap<&'static str, ProviderScan>,
    filter: Option<StateFilter>,
    /// Sources with a file that is there, and the bytes of them.
    pub(super) visible: (u64, u64),
    /// Captured sources.
    pub(super) captured: u64,
    /// All captures of them.
    pub(super) captures: u64,
    /// Captured sources whose newest capture can't be read.
    pub(super) captures_unreadable: u64,
    /// Sources that the archive read.
    pub(super) archived: u64,
    /// Of these, the ones without a capture.
    pub(super) archived_not_captured: u64,
    /// Captured session sources that the archive never read.
    pub(super) captured_not_archived: u64,
    /// Sources of other machines.
    pub(super) remote: u64,
}

/// What is worse comes first.
fn rank(state: Option<SourceState>) -> u8 {
    match state {
        Some(SourceState::Unreadable) => 0,
        None => 1,
        Some(SourceState::NewerThanArchive) => 2,
        Some(SourceState::Empty) => 3,
        Some(SourceState::Pruned) => 4,
        Some(_) => 5,
    }
}

impl Inventory {
    pub(super) fn new(page: Page<SourceItem>, filter: Option<StateFilter>) -> Self {
        Inventory {
            page,
            providers: Provider::ALL
                .iter()
                .map(|p| (p.as_str(), ProviderScan::new(*p)))
                .collect(),
            filter,
            visible: (0, 0),
            captured: 0,
            captures: 0,
            captures_unreadable: 0,
            archived: 0,
            archived_not_captured: 0,
            captured_not_archived: 0,
            remote: 0,
        }
    }

    fn tally(&mut self, provider: Provider) -> &mut ProviderScan {
        self.providers
            .entry(provider.as_str())
            .or_insert_with(|| ProviderScan::new(provider))
    }

    fn add(&mut self, item: SourceItem) {
        let tally = self.tally(item.provider);
        match item.state {
            Some(state) => *tally.by_state.entry(state).or_default() += 1,
            None => tally.out_of_sight += 1,
        }
        if let Some(bytes) = item.bytes {
            self.visible.0 += 1;
            self.visible.1 = self.visible.1.saturating_add(bytes);
        }
        if self.filter.is_none_or(|f| f.takes(item.state)) {
            let key = format!("{}{}", rank(item.state), item.key);
            self.page.offer(key, || item);
        }
    }
}

/// What the scan of sources works on and fills.
pub(super) struct Looking<'a, 'b> {
    pub(super) view: &'b mut View,
    pub(super) mirror: Option<&'a MirrorReader<'a>>,
    pub(super) archive: Option<&'a ArchiveReader>,
    /// Whether a source that the archive does not have is known to be unread.
    pub(super) archive_known: bool,
    pub(super) captures: Option<&'b mut Captures<'a>>,
    pub(super) inventory: &'b mut Inventory,
    pub(super) sessions: &'b mut Sessions,
    pub(super) named: &'b mut Named,
    pub(super) risks: &'b mut Risks,
    pub(super) interrupt: &'a Interrupt,
}

impl Looking<'_, '_> {
    /// Walks the roots. Files that were captured or read are left for [`Looking::known`].
    pub(super) fn live(&mut self) -> Result<()> {
        for at in 0..self.view.roots.len() {
            self.interrupt.check()?;
            let Some((root, keep, _)) = self.view.roots.get(at).cloned() else {
                continue;
            };
            let mut failed = None;
            let mut places = Vec::new();
            let config = std::mem::take(&mut self.view.config);
            let state = walk(&root, &config, &mut |met| match met {
                _ if failed.is_some() => {}
                Met::File(file) => {
                    if !self.view.met_before(at, &file.path) {
                        failed = self.file(&file).err();
                    }
                }
                Met::Odd {
                    path,
                    kind: Oddity::Unreadable,
                    ..
                } => places.push(path),
                Met::Odd {
                    path,
                    kind: Oddity::Excluded,
                    ..
                } => {
                    let named = &mut *self.named;
                    self.risks
                        .excluded_live(&config, &root, &path, &mut |found| {
                            named.file(root.provider, found);
                        });
                }
                Met::Odd { .. } => {}
            });
            self.view.config = config;
            if let Some(e) = failed {
                return Err(e);
            }
            for path in places.into_iter().filter(|p| *p != root.path) {
                self.unreadable(root.provider, &path);
                self.view.unreadable.push(path);
            }
            if state == RootState::Absent && root.named {
                self.risks.root_missing(&root);
            }
            let tally = self.inventory.tally(root.provider);
            tally.installed |= state != RootState::Absent;
            if state == RootState::Present && tally.retention_days.is_none() {
                tally.retention_days = keep.days;
                tally.retention_configured = keep.configured;
            }
            if let Some(entry) = self.view.roots.get_mut(at) {
                entry.2 = Some(state);
            }
        }
        Ok(())
    }

    /// A place that can't be looked at.
    fn unreadable(&mut self, provider: Provider, path: &Path) {
        let usage = self.view.usage(provider, path, false);
        self.inventory.add(SourceItem {
            key: SourceKey::derive(LOCAL, provider, path).to_string(),
            provider,
            path: path.display().to_string(),
            usage: used(usage),
            state: Some(SourceState::Unreadable),
            out_of_sight: None,
            bytes: None,
            captures: 0,
            holders: Vec::new(),
            log_health: None,
        });
    }

    /// A file that is there.
    fn file(&mut self, file: &FoundFile) -> Result<()> {
        self.interrupt.check()?;
        self.named.file(file.provider, &file.path);
        let key = SourceKey::derive(LOCAL, file.provider, &file.path);
        if let Some(mirror) = self.mirror
            && mirror.indexed_head(key)?.is_some()
        {
            return Ok(());
        }
        if let Some(archive) = self.archive
            && archive.source(key)?.is_some()
        {
            return Ok(());
        }
        let readable = rustix::fs::access(&file.path, rustix::fs::Access::READ_OK).is_ok();
        let state = match (readable, file.stat.size) {
            (false, _) => SourceState::Unreadable,
            (true, 0) => SourceState::Empty,
            _ => SourceState::NewerThanArchive,
        };
        if file.usage == FileUse::Session && file.stat.size > 0 {
            let left = self
                .view
                .days_left(file.provider, &file.path, file.stat.mtime_ns);
            self.inventory.tally(file.provider).due(left, false);
            self.sessions.live_only(file.provider, key, left);
        }
        self.inventory.add(SourceItem {
            key: key.to_string(),
            provider: file.provider,
            path: file.path.display().to_string(),
            usage: used(file.usage),
            state: Some(state),
            out_of_sight: None,
            bytes: Some(file.stat.size),
            captures: 0,
            holders: vec![Holder::LiveSource],
            log_health: None,
        });
        Ok(())
    }

    /// Every source that was captured or read, by key.
    pub(super) fn known(&mut self) -> Result<()> {
        let mut archived = Archived::new(self.archive)?;
        let interrupt = self.interrupt;
        if let Some(mirror) = self.mirror {
            mirror.for_each_head(&mut |head| {
                interrupt.check()?;
                let mut read = None;
                while let Some(source) = archived.take(Some(head.ident.key))? {
                    if source.key == head.ident.key {
                        read = Some(source);
                    } else {
                        self.source(None, Some(&source))?;
                    }
                }
                self.source(Some(&head), read.as_ref())
            })?;
        }
        while let Some(source) = archived.take(None)? {
            interrupt.check()?;
            self.source(None, Some(&source))?;
        }
        if let Some(captures) = &mut self.captures {
            captures.swept();
        }
        Ok(())
    }

    fn source(&mut self, head: Option<&Head>, read: Option<&ArchivedSource>) -> Result<()> {
        let (key, source_id, provider, path) = match (head, read) {
            (Some(h), _) => {
                let i = &h.ident;
                (i.key, i.source_id.as_str(), i.provider, i.path.as_path())
            }
            (None, Some(s)) => (s.key, s.source_id.as_str(), s.provider, s.path.as_path()),
            (None, None) => return Ok(()),
        };
        if !self.view.wants(provider) {
            return Ok(());
        }
        self.named.file(provider, path);
        let readable = match (head, &mut self.captures) {
            (Some(h), Some(captures)) => captures.newest(h)?,
            _ => false,
        };
        let inventory = &mut *self.inventory;
        inventory.remote += u64::from(source_id != LOCAL);
        inventory.captured += u64::from(head.is_some());
        inventory.captures += head.map_or(0, |h| h.seq);
        inventory.captures_unreadable += u64::from(head.is_some() && !readable);
        inventory.archived += u64::from(read.is_some());
        inventory.archived_not_captured += u64::from(read.is_some() && head.is_none());
        let usage = self.view.usage(provider, path, read.is_some());
        let hidden = self.view.out_of_sight(source_id, provider, path);
        if hidden == Some(OutOfSight::Excluded) {
            self.risks
                .excluded_captured(&self.view.config, provider, path);
        }
        let mut holders = Vec::new();
        let (mut state, mut bytes) = (None, None);
        let mut current = false;
        if hidden.is_none() {
            let now = stat(path);
            bytes = now.ok().flatten().map(|now| now.size);
            current = now
                .ok()
                .flatten()
                .is_some_and(|now| head.is_some_and(|h| same(h, &now)));
            let is_read = usage == FileUse::Evidence
                || head.is_some_and(|h| {
                    read.is_some_and(|s| (s.parsed_seq, s.captured_hash) == (h.seq, h.hash))
                });
            state = Some(match now {
                Err(()) => SourceState::Unreadable,
                Ok(None) => SourceState::Pruned,
                Ok(Some(now)) if now.size == 0 => SourceState::Empty,
                Ok(Some(_)) if current && is_read => SourceState::Ok,
                Ok(Some(_))
                    if !current
                        && rustix::fs::access(path, rustix::fs::Access::READ_OK).is_err() =>
                {
                    SourceState::Unreadable
                }
                Ok(Some(_)) => SourceState::NewerThanArchive,
            });
            if let (FileUse::Session, Ok(Some(now))) = (usage, now)
                && now.size > 0
            {
                let left = self.view.days_left(provider, path, now.mtime_ns);
                self.inventory.tally(provider).due(left, current);
            }
        }
        if bytes.is_some() {
            holders.push(Holder::LiveSource);
        }
        if readable {
            holders.push(Holder::Mirror);
        }
        if read.is_some() {
            holders.push(Holder::Archive);
        }
        if let (FileUse::Session, Some(h), None) = (usage, head, read)
            && self.archive_known
            && h.len > 0
        {
            self.inventory.captured_not_archived += 1;
            let live = hidden.is_none().then_some(current);
            self.sessions.not_archived(provider, key, live, readable);
        }
        let log_health = read.and_then(|s| LogHealth::of(&s.accounting));
        self.inventory.tally(provider).damaged += u64::from(log_health.is_some());
        self.inventory.add(SourceItem {
            key: key.to_string(),
            provider,
            path: path.display().to_string(),
            usage: used(usage),
            state,
            out_of_sight: hidden,
            bytes,
            captures: head.map_or(0, |h| h.seq),
            holders,
            log_health,
        });
        Ok(())
    }
}

fn used(usage: FileUse) -> SourceUse {
    match usage {
        FileUse::Session => SourceUse::Session,
        FileUse::Evidence => SourceUse::Evidence,
    }
}
