//! The state that a repair starts from: which generation is at hand, what is wrong with it, what the
//! coverage ledger promises.

use crate::disk::{ArchiveShared, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{ArchiveState, Count, Coverage, PromiseState};
use crate::model::watch::Watch;
use crate::store::archive::{
    Agreement, ArchiveReader, Head, unnamed_generation, verify_generation,
};
use crate::store::backup;
use crate::store::coverage;
use crate::store::file_state::{archive_files, manifest_digest};
use crate::store::generation::current_or_none as current;
use crate::store::generation::{self, Generation, GenerationId};
use crate::store::layout;
use crate::store::promises::Promises;
use crate::store::version::refuse_newer;

/// How long a repair waits for a checkpoint to end.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
/// Pieces of damage that are told in words.
const TOLD: usize = 5;

/// What a deep look at the archive at hand says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Soundness {
    /// None was ever made.
    Never,
    /// Every row verifies and no promised commit is missing.
    Sound {
        /// Its end.
        head: Head,
    },
    /// Every row verifies, but the ledger promises commits that are not there: a WAL was lost or
    /// damaged.
    LostCommits {
        /// Its end.
        head: Head,
    },
    /// Rows, sums, chain, schema or pages are damaged, or it can't be opened at all.
    Damaged,
    /// There is no database file at hand.
    Gone,
}

/// The state that a repair starts from.
#[derive(Debug)]
pub struct Survey {
    /// What `CURRENT` names.
    pub current: Option<GenerationId>,
    /// What is left of an archive that neither `CURRENT` nor the ledger names.
    pub unnamed: Option<GenerationId>,
    /// The generation that is live or should be: the one that `CURRENT` names if it is there, else
    /// the one of the ledger's last line.
    pub at_hand: Option<Generation>,
    /// Whether `CURRENT` names it.
    pub is_named: bool,
    /// How it stands.
    pub soundness: Soundness,
    /// What is wrong, as short sentences.
    pub reasons: Vec<String>,
    /// What the ledger promises.
    pub promises: Option<Promises>,
    /// Whether the coverage ledger itself is damaged.
    pub ledger_damaged: bool,
    /// What the archive holds, if it can be read.
    pub coverage: Option<Coverage>,
}

impl Survey {
    /// Looks at all of it.
    ///
    /// # Errors
    /// `foreign-archive`, `schema-too-new`, `mirror-too-new`: nothing here may be judged;
    /// `lock-busy`, `permission-denied`, `interrupted`, `io`.
    pub fn take(root: &Root, watch: Watch<'_>) -> Result<Survey> {
        refuse_newer(root)?;
        if let Err(e) = generation::locate(root)
            && matches!(
                e.kind(),
                ErrorKind::ForeignArchive
                    | ErrorKind::SchemaTooNew
                    | ErrorKind::PermissionDenied
                    // Nothing is put over what somebody else put there.
                    | ErrorKind::UnsafeTarget
            )
        {
            return Err(e);
        }
        let promises = Promises::read(root)?;
        let mut reasons = Vec::new();
        let mut ledger_damaged = promises
            .as_ref()
            .is_some_and(|p| p.problem_count > 0 || !p.last.is_end);
        if let Err(e) = coverage::tail(root) {
            if e.kind() != ErrorKind::ArchiveCorrupt {
                return Err(e);
            }
            ledger_damaged = true;
        }
        if ledger_damaged {
            reasons.push("the coverage ledger is damaged".to_owned());
        }
        let named = current(root)?;
        let at_hand = Self::pick(root, named.as_ref(), promises.as_ref())?;
        let is_named = at_hand.as_ref().map(|g| &g.id) == named.as_ref();
        if at_hand.is_some() && !is_named {
            reasons.push(match &named {
                Some(id) => format!("CURRENT names {id}, which is not there"),
                None => "CURRENT is missing or damaged".to_owned(),
            });
        }
        let mut unnamed = None;
        let (soundness, coverage) = match &at_hand {
            Some(generation) => {
                Self::judge(root, generation, promises.as_ref(), watch, &mut reasons)?
            }
            None if promises.is_none() && named.is_none() => {
                unnamed = unnamed_generation(root)?;
                match (&unnamed, backup::list(root)?.pop()) {
                    (None, None) => (Soundness::Never, None),
                    (Some(id), _) => {
                        reasons.push(format!(
                            "neither CURRENT nor the coverage ledger names an archive, and \
                             generations/{id} holds one"
                        ));
                        (Soundness::Gone, None)
                    }
                    (None, Some((id, _))) => {
                        reasons.push(format!(
                            "nothing is left of the archive that the backup {id} is of"
                        ));
                        (Soundness::Gone, None)
                    }
                }
            }
            None => {
                reasons.push("the archive's files are gone".to_owned());
                (Soundness::Gone, None)
            }
        };
        Ok(Survey {
            current: named,
            unnamed,
            at_hand,
            is_named,
            soundness,
            reasons,
            promises,
            ledger_damaged,
            coverage,
        })
    }

    /// Whether the live archive needs nothing.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        matches!(self.soundness, Soundness::Sound { .. }) && self.is_named
    }

    fn pick(
        root: &Root,
        named: Option<&GenerationId>,
        promises: Option<&Promises>,
    ) -> Result<Option<Generation>> {
        let promised = promises.map(|p| &p.last.generation);
        for id in named.into_iter().chain(promised) {
            if !root.exists(&layout::archive_db(id.as_str()))? {
                continue;
            }
            let manifest = match generation::manifest(root, id) {
                Ok(Some(manifest)) => manifest,
                Err(e) if e.kind() == ErrorKind::SchemaTooNew => return Err(e),
                _ => generation::Manifest::made(id, promises.map_or("", |p| p.archive.as_str()), 0),
            };
            return Ok(Some(Generation {
                id: id.clone(),
                manifest,
            }));
        }
        Ok(None)
    }

    fn judge(
        root: &Root,
        generation: &Generation,
        promises: Option<&Promises>,
        watch: Watch<'_>,
        reasons: &mut Vec<String>,
    ) -> Result<(Soundness, Option<Coverage>)> {
        let _lock = ArchiveShared::acquire(root, PATIENCE)?;
        if !matches!(generation::manifest(root, &generation.id), Ok(Some(_))) {
            reasons.push(format!("{} has no readable manifest", generation.id));
            return Ok((Soundness::Damaged, None));
        }
        watch.progress.phase("verify archive", None);
        let mut found = 0usize;
        let verified = verify_generation(
            root,
            generation,
            &|| watch.interrupt.pending().is_some(),
            &mut |finding| {
                found += 1;
                if found <= TOLD {
                    reasons.push(match (finding.table, finding.row) {
                        ("", _) => finding.what,
                        (table, Some(row)) => format!("{table} row {row}: {}", finding.what),
                        (table, None) => format!("{table}: {}", finding.what),
                    });
                }
            },
        );
        watch.interrupt.check()?;
        match verified {
            Ok(summary) if !summary.complete => {
                reasons.push("the archive could not be read to its end".to_owned());
                return Ok((Soundness::Damaged, None));
            }
            Ok(_) => {}
            Err(e) if of_the_archive(&e) => {
                reasons.push(e.message().to_owned());
                return Ok((Soundness::Damaged, None));
            }
            Err(e) => return Err(e),
        }
        if found > TOLD {
            reasons.push(format!("{} more pieces of damage", found - TOLD));
        }
        if found > 0 {
            return Ok((Soundness::Damaged, None));
        }
        let reader = ArchiveReader::open_aside(
            root,
            &layout::archive_db(generation.id.as_str()),
            &generation.manifest,
        )?;
        let head = reader.head()?;
        let counts = reader.counts()?;
        let coverage = Some(counts.into());
        // The end of the ledger as far as it can be read.
        let tail = coverage::tail(root).ok().flatten();
        Ok(match reader.agreement(tail.as_ref())? {
            Agreement::Equal | Agreement::Ahead { .. } | Agreement::NoLedger { .. } => {
                (Soundness::Sound { head }, coverage)
            }
            Agreement::Lost { promised, found } => {
                reasons.push(format!(
                    "the archive ends in commit {found}, and commit {promised} was promised"
                ));
                (Soundness::LostCommits { head }, coverage)
            }
            Agreement::Elsewhere { generation: other } => {
                reasons.push(format!("the coverage ledger ends in {other}"));
                let known = promises.is_some();
                if known {
                    (Soundness::LostCommits { head }, coverage)
                } else {
                    (Soundness::Damaged, coverage)
                }
            }
        })
    }
}

/// Whether an error says that the archive is damaged, and not that it could not be looked at.
fn of_the_archive(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::ArchiveCorrupt
            | ErrorKind::ArchiveMissing
            | ErrorKind::ArchiveUnreadable
            | ErrorKind::UnsafeTarget
    )
}

/// The archive as a plan covers it.
///
/// # Errors
/// `io`, `interrupted`.
pub fn archive_state(root: &Root, survey: &Survey, watch: Watch<'_>) -> Result<ArchiveState> {
    if let (true, Some(g), Soundness::Sound { head }) =
        (survey.is_named, &survey.at_hand, &survey.soundness)
    {
        return Ok(ArchiveState::Verified {
            archive_id: g.manifest.archive_id.clone(),
            generation: g.id.to_string(),
            commit: Count(head.commit),
            head: head.head.to_hex(),
            manifest: manifest_digest(root, &g.id, watch.interrupt)?,
        });
    }
    if survey.soundness == Soundness::Never {
        return Ok(ArchiveState::Never);
    }
    watch.progress.phase("hash archive", None);
    Ok(ArchiveState::Unverified {
        current: survey.current.as_ref().map(ToString::to_string),
        files: match &survey.at_hand {
            Some(g) => archive_files(root, &g.id, watch.interrupt)?,
            None => Vec::new(),
        },
    })
}

/// The live archive as it opens, for a plan that replaces it unread; by its bytes where it does not.
///
/// # Errors
/// `lock-busy`, `io`, `interrupted`.
pub fn open_state(root: &Root, watch: Watch<'_>) -> Result<ArchiveState> {
    let look = || -> Result<Option<ArchiveState>> {
        let Some(reader) = ArchiveReader::open(root)? else {
            return Ok(None);
        };
        let head = reader.head()?;
        let generation = reader.generation();
        Ok(Some(ArchiveState::Open {
            archive_id: generation.manifest.archive_id.clone(),
            generation: generation.id.to_string(),
            commit: Count(head.commit),
            head: head.head.to_hex(),
            manifest: manifest_digest(root, &generation.id, watch.interrupt)?,
        }))
    };
    match look() {
        Ok(Some(state)) => return Ok(state),
        Err(e) if matches!(e.kind(), ErrorKind::LockBusy | ErrorKind::SchemaTooNew) => {
            return Err(e);
        }
        Ok(None) | Err(_) => {}
    }
    let current = current(root)?;
    Ok(ArchiveState::Unverified {
        files: match &current {
            Some(id) => archive_files(root, id, watch.interrupt)?,
            None => Vec::new(),
        },
        current: current.map(|id| id.to_string()),
    })
}

/// The promises as a plan covers them. Not by the ledger's own end: an undo adds lines and promises
/// nothing else.
#[must_use]
pub fn promise_state(promises: &Promises) -> PromiseState {
    let mut hasher = blake3::Hasher::new();
    for (id, promised) in &promises.conversations {
        hasher.update(&(id.len() as u64).to_le_bytes());
        hasher.update(id.as_bytes());
        hasher.update(&promised.count.to_le_bytes());
        hasher.update(&promised.sum.0);
    }
    let mut captures: Vec<_> = promises.captures.iter().collect();
    captures.sort_by_key(|(key, _)| **key);
    for (key, captured) in captures {
        hasher.update(&key.0);
        for (from, to) in &captured.seqs {
            hasher.update(&from.to_le_bytes());
            hasher.update(&to.to_le_bytes());
        }
    }
    PromiseState {
        archive_id: promises.archive.clone(),
        generation: promises.last.generation.to_string(),
        commit: Count(promises.last.commit),
        head: promises.last.head.to_hex(),
        conversations: Count(promises.conversations.len() as u64),
        digest: hasher.finalize().to_hex().to_string(),
    }
}
