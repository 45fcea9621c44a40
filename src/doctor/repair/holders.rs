//! The archives whose verified rows can fill what the mirror can't give.

use std::collections::{BTreeMap, HashSet};

use super::survey::Survey;
use crate::disk::{ArchiveShared, Root};
use crate::error::Result;
use crate::model::plan::{AuthorityClass, FileState, RowAuthority};
use crate::model::watch::Watch;
use crate::store::archive::{Rescued, RescuedKey};
use crate::store::file_state::file_state;
use crate::store::generation::GenerationId;
use crate::store::named::NamedArchive;
use crate::store::run::Purpose;
use crate::store::{backup, layout, seal};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);

/// An archive with rows that verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::doctor) struct Holder {
    /// What kind of holder it is.
    pub class: AuthorityClass,
    /// Generation id, backup id, or `named`.
    pub name: String,
    /// Its database, relative to its data directory.
    pub rel: String,
    /// Its files, by content.
    pub files: Vec<FileState>,
    /// Rows that verify, of records and of messages whose record is lost.
    pub rows: u64,
    /// Verified records by conversation.
    pub coverage: BTreeMap<String, u64>,
    /// Whether nothing of it is damaged.
    pub is_whole: bool,
    /// Whether an undo took it back. What it was made of was there then, and the plan that made it
    /// must be the same plan again: it is used only where something would be lost without it.
    pub is_spare: bool,
    /// Messages whose own row is damaged, ranges that can't be read counted as one: their record
    /// may be there, their text is not.
    pub damaged_messages: u64,
    /// Whether SQLite can't read all of it, so that its pages are read one by one.
    pub by_pages: bool,
}

impl Holder {
    /// Reads what can be read of the database `rel` below `root`.
    ///
    /// # Errors
    /// `lock-busy`, `interrupted`, `io`. Damage takes rows, and is no error.
    pub fn read(
        class: AuthorityClass,
        name: &str,
        root: &Root,
        rel: &str,
        watch: Watch<'_>,
    ) -> Result<Option<Holder>> {
        let mut files = Vec::new();
        for rel in [rel.to_owned(), format!("{rel}-wal")] {
            let state = file_state(root, &rel, watch.interrupt)?;
            files.extend(state.filter(|f| f.len.0 > 0).map(|mut f| {
                // By its bare name: where it lies says nothing about it.
                f.name = f.name.rsplit('/').next().unwrap_or_default().to_owned();
                f
            }));
        }
        if files.is_empty() {
            return Ok(None);
        }
        let lock = ArchiveShared::acquire(root, PATIENCE)?;
        let mut holder = Holder {
            class,
            name: name.to_owned(),
            rel: rel.to_owned(),
            files,
            rows: 0,
            coverage: BTreeMap::new(),
            is_whole: false,
            is_spare: false,
            damaged_messages: 0,
            by_pages: false,
        };
        let Some(rescued) = Rescued::open(root, rel, &lock)? else {
            return Ok(Some(holder));
        };
        let mut seen = 0u64;
        let mut copies: HashSet<Fingerprint> = HashSet::new();
        rescued.coverage(&mut |key| {
            seen += 1;
            if seen.is_multiple_of(4096) {
                watch.interrupt.check()?;
            }
            match key.conversation {
                Some(conversation) if key.counted => {
                    *holder.coverage.entry(conversation.to_owned()).or_insert(0) += 1;
                }
                Some(conversation) => {
                    copies.insert(fingerprint(conversation, &key));
                }
                None => {}
            }
            Ok(())
        })?;
        // A copy counts where the row that counts is lost, and only there.
        if !copies.is_empty() {
            rescued.coverage(&mut |key| {
                if let Some(conversation) = key.conversation.filter(|_| key.counted) {
                    copies.remove(&fingerprint(conversation, &key));
                }
                Ok(())
            })?;
        }
        if !copies.is_empty() {
            rescued.coverage(&mut |key| {
                if let Some(conversation) = key.conversation
                    && copies.remove(&fingerprint(conversation, &key))
                {
                    *holder.coverage.entry(conversation.to_owned()).or_insert(0) += 1;
                }
                Ok(())
            })?;
        }
        holder.rows = seen;
        holder.by_pages = rescued.is_by_pages();
        let tally = rescued.tally(watch.interrupt)?;
        holder.is_whole = tally.is_sound();
        if !holder.is_whole {
            let strays = rescued.strays(&|_| true, watch.interrupt)?;
            holder.rows += strays.iter().map(|s| s.messages).sum::<u64>();
        }
        holder.damaged_messages = tally
            .tables
            .get("messages")
            .map_or(0, |t| t.refused + t.unreadable_ranges);
        Ok(Some(holder))
    }

    /// As a plan covers it.
    #[must_use]
    pub fn authority(&self) -> RowAuthority {
        RowAuthority {
            class: self.class,
            name: self.name.clone(),
            files: self.files.clone(),
        }
    }
}

/// Stands for a coverage key.
pub(super) type Fingerprint = [u8; 16];

/// What stands for this one.
pub(super) fn fingerprint(conversation: &str, key: &RescuedKey<'_>) -> Fingerprint {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&key.hash.0);
    hasher.update(&key.occurrence.to_le_bytes());
    hasher.update(conversation.as_bytes());
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    short
}

/// The live archive, sealed generations and backups (the newest first), and the one that was named.
///
/// # Errors
/// As [`Holder::read`]; what is wrong with the named one.
pub(super) fn holders(
    root: &Root,
    survey: &Survey,
    from: Option<&NamedArchive>,
    watch: Watch<'_>,
) -> Result<Vec<Holder>> {
    let mut all = Vec::new();
    watch.progress.phase("read rows", None);
    let live: Option<GenerationId> = survey.at_hand.as_ref().map(|g| g.id.clone());
    for id in live.into_iter().chain(unnamed(root, survey)?) {
        let rel = layout::archive_db(id.as_str());
        all.extend(Holder::read(
            AuthorityClass::Archive,
            id.as_str(),
            root,
            &rel,
            watch,
        )?);
    }
    let mut kept: Vec<(String, String, bool)> = backup::list(root)?
        .into_iter()
        .map(|(id, _)| (id.to_string(), backup::database_of(&id), false))
        .collect();
    for (id, seal) in seal::list(root)? {
        let taken_back = seal.is_ok_and(|s| s.reason == Purpose::Undo.word());
        kept.push((id.to_string(), layout::archive_db(id.as_str()), taken_back));
    }
    kept.reverse();
    for (name, rel, is_spare) in kept {
        let holder = Holder::read(AuthorityClass::Backup, &name, root, &rel, watch)?;
        all.extend(holder.map(|holder| Holder { is_spare, ..holder }));
    }
    if let Some(from) = from {
        let (other, rel) = from.locate()?;
        let named = Holder::read(AuthorityClass::Named, "named", &other, &rel, watch)?;
        if named.as_ref().is_none_or(|h| h.rows == 0) {
            from.refuse_foreign(&other, &rel)?;
        }
        all.extend(named);
    }
    Ok(all)
}

/// Where nothing names an archive, whatever generation is there holds rows all the same.
fn unnamed(root: &Root, survey: &Survey) -> Result<Vec<GenerationId>> {
    if survey.at_hand.is_some() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for id in crate::store::generation::folders(root)? {
        if !seal::is_sealed(root, &id)? {
            found.push(id);
        }
    }
    Ok(found)
}
