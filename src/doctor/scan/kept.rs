//! Backups and sealed generations, as far as their manifests tell: nothing of them is read here.

use crate::disk::Root;
use crate::model::digest::Digest;
use crate::store::archive::ArchiveReader;
use crate::store::generation;
use crate::store::generation::current_or_none;
use crate::store::layout;
use crate::store::{backup, seal};

/// What is kept beside the live archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// Backups whose manifest can be read.
    pub backups: u64,
    /// Sealed generations whose seal can be read.
    pub sealed: u64,
    /// Those whose manifest or seal can't be read.
    pub damaged: u64,
    /// The newest backup, or else the newest sealed generation.
    pub newest: Option<String>,
    /// Why it is not known what is there.
    pub unknown: Option<String>,
    /// Whether `CURRENT` names a database file with bytes in it.
    pub database: bool,
}

/// The archives in backups and sealed generations, open for a look at single rows.
#[derive(Debug, Default)]
pub(super) struct KeptArchives(Vec<ArchiveReader>);

impl KeptArchives {
    /// Opens all that open; what is wrong with the others is told by their verification.
    pub(super) fn open(root: Option<&Root>) -> KeptArchives {
        let mut all = Vec::new();
        let Some(root) = root else {
            return KeptArchives(all);
        };
        for (id, kept) in backup::list(root).unwrap_or_default() {
            let manifest = kept.and_then(|b| backup::generation_manifest(root, &b));
            let reader = manifest
                .and_then(|m| ArchiveReader::open_aside(root, &backup::database_of(&id), &m));
            all.extend(reader.ok());
        }
        for (id, _) in seal::list(root).unwrap_or_default() {
            if let Ok(Some(manifest)) = generation::manifest(root, &id) {
                let db = layout::archive_db(id.as_str());
                all.extend(ArchiveReader::open_aside(root, &db, &manifest).ok());
            }
        }
        KeptArchives(all)
    }

    /// Whether one of them has exactly these records of a conversation.
    pub(super) fn hold(&self, id: &str, records: u64, sum: &Digest) -> bool {
        self.0
            .iter()
            .any(|a| a.holds_coverage(id, records, sum).unwrap_or(false))
    }
}

/// Looks.
pub(super) fn kept(root: Option<&Root>) -> Kept {
    let mut kept = Kept::default();
    let Some(root) = root else {
        return kept;
    };
    let listed = seal::list(root).and_then(|seals| Ok((seals, backup::list(root)?)));
    match listed {
        Ok((seals, backups)) => {
            for (id, seal) in seals {
                match seal {
                    Ok(_) => {
                        kept.sealed += 1;
                        kept.newest = Some(id.to_string());
                    }
                    Err(_) => kept.damaged += 1,
                }
            }
            for (id, backup) in backups {
                match backup {
                    Ok(_) => {
                        kept.backups += 1;
                        kept.newest = Some(id.to_string());
                    }
                    Err(_) => kept.damaged += 1,
                }
            }
        }
        Err(e) => kept.unknown = Some(e.message().to_owned()),
    }
    kept.database = current_or_none(root)
        .ok()
        .flatten()
        .and_then(|id| root.file_len(&layout::archive_db(id.as_str())).ok()?)
        .is_some_and(|len| len > 0);
    kept
}

impl Kept {
    /// Whether there is one to believe, and why.
    pub(super) fn verdict(&self) -> Result<String, String> {
        if let Some(why) = &self.unknown {
            return Err(why.clone());
        }
        match (&self.newest, self.damaged) {
            (Some(newest), damaged) => {
                let mut why = format!(
                    "backups: {}, sealed generations: {}, the newest is {newest}; what is in them \
                     was not compared here",
                    self.backups, self.sealed
                );
                if damaged > 0 {
                    why.push_str(&format!("; manifests that can't be read: {damaged}"));
                }
                Ok(why)
            }
            (None, 0) => Err("there is none".to_owned()),
            (None, n) => Err(format!("manifests that can't be read: {n}, and no other")),
        }
    }
}
