//! Sessions that a harness's own history names: those that no file, capture or archive row holds.

mod history;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use crate::error::Result;
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::scan::{Help, HistoryKind, MissingSession};
use crate::model::source::SourceKey;
use crate::store::archive::ArchiveReader;

use super::page::Page;

pub use history::History;
pub(super) use history::read_all;

/// Names that are kept: far beyond what any history was seen to have, and still a few megabytes.
const MAX_NAMES: usize = 20_000;
/// Longest id that is one.
const MAX_ID: usize = 200;
/// Ids known to be held that are remembered, since a history names each many times.
const REMEMBERED: usize = 4096;

#[derive(Debug)]
struct Found {
    kinds: BTreeSet<HistoryKind>,
    mentions: u64,
    file: Option<String>,
    history: SourceKey,
    helps: BTreeSet<Help>,
}

/// The names that nothing was found for so far.
#[derive(Debug, Default)]
pub(super) struct Named {
    open: BTreeMap<(Provider, String), Found>,
    held: HashSet<(Provider, String)>,
    /// Distinct names beyond those that are kept, at most.
    pub(super) over: u64,
}

/// Where a name was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) provider: Provider,
    pub(super) kind: HistoryKind,
    pub(super) key: SourceKey,
    /// Whether it was read from a capture.
    pub(super) captured: bool,
}

impl Named {
    /// A session that a history names, with the file that the harness had for it.
    pub(super) fn name(
        &mut self,
        archive: Option<&ArchiveReader>,
        place: Place,
        id: &str,
        file: Option<&str>,
    ) -> Result<()> {
        if id.is_empty() || id.len() > MAX_ID {
            return Ok(());
        }
        let key = (place.provider, id.to_owned());
        if !self.open.contains_key(&key) {
            if self.held.contains(&key) {
                return Ok(());
            }
            let in_archive = match archive {
                Some(archive) => archive.has_native(place.provider, id)?,
                None => false,
            };
            let is_there = file.is_some_and(|f| {
                Path::new(f).is_absolute() && matches!(super::live::stat(Path::new(f)), Ok(Some(_)))
            });
            if in_archive || is_there {
                if self.held.len() >= REMEMBERED {
                    self.held.clear();
                }
                self.held.insert(key);
                return Ok(());
            }
            if self.open.len() >= MAX_NAMES {
                self.over += 1;
                return Ok(());
            }
        }
        let found = self.open.entry(key).or_insert_with(|| Found {
            kinds: BTreeSet::new(),
            mentions: 0,
            file: None,
            history: place.key,
            helps: BTreeSet::from([Help::HomeBackup]),
        });
        found.kinds.insert(place.kind);
        found.mentions += 1;
        if let Some(file) = file {
            found.file = Some(file.to_owned());
        }
        let help = match (place.kind, place.captured) {
            (HistoryKind::Prompts, true) => Some(Help::PromptsInMirror),
            (HistoryKind::Prompts, false) => Some(Help::PromptsInLiveFile),
            (HistoryKind::SessionTable | HistoryKind::SessionIndex, true) => {
                Some(Help::TitleInMirror)
            }
            (HistoryKind::SessionTable | HistoryKind::SessionIndex, false) => {
                Some(Help::TitleInLiveFile)
            }
        };
        found.helps.extend(help);
        Ok(())
    }

    /// A file that is there or was captured: the sessions that its name stands for are not missing.
    pub(super) fn file(&mut self, provider: Provider, path: &Path) {
        if self.open.is_empty() {
            return;
        }
        let Some(name) = path.file_name().and_then(|n| n.to_str()) else {
            return;
        };
        let stem = [".jsonl.zst", ".jsonl", ".json"]
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .unwrap_or(name);
        let mut found = |id: &str| drop(self.open.remove(&(provider, id.to_owned())));
        found(stem);
        match provider {
            // rollout-<time>-<uuid>
            Provider::Codex => {
                if let Some(at) = stem.len().checked_sub(36) {
                    found(stem.get(at..).unwrap_or_default());
                }
            }
            // session-<time>-<first 8 of the id>
            Provider::Gemini if stem.starts_with("session-") => {
                let short = stem.rsplit('-').next().unwrap_or_default();
                if short.len() == 8 {
                    let from = (provider, short.to_owned());
                    let ids: Vec<_> = self
                        .open
                        .range(from..)
                        .map(|(key, _)| key)
                        .take_while(|(p, id)| *p == provider && id.starts_with(short))
                        .cloned()
                        .collect();
                    for id in ids {
                        self.open.remove(&id);
                    }
                }
            }
            _ => {}
        }
    }

    /// What is left: nothing holds it.
    pub(super) fn into_page(self, page: &mut Page<MissingSession>) {
        for ((provider, id), found) in self.open {
            let mut digest = Digest::of(id.as_bytes()).to_hex();
            digest.truncate(32);
            page.offer(format!("{provider}{digest}"), || MissingSession {
                provider,
                native_id: id,
                named_by: found.kinds.into_iter().collect(),
                mentions: found.mentions,
                file: found.file,
                history: found.history.to_string(),
                helps: found.helps.into_iter().collect(),
            });
        }
    }
}
