//! The plans of `doctor backups create` and `doctor backups restore`.

use std::collections::BTreeMap;

use super::repair::{
    Behind, Evidence, Holder, SPARE, Sought, Survey, archive_state, damage_gate, lost, places_gate,
    promise_state,
};
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::exit::ExitCodeKind;
use crate::model::plan::{
    Action, ArchiveState, AuthorityClass, Body, Count, Draft, Gate, GateResult, GateVerdict,
    Listed, Missing, MissingReason, Notes, PlanKind, Recipe,
};
use crate::model::plural::count;
use crate::plan::{Ground, Planner};
use crate::sources::reach::Reach;
use crate::store::archive::{Agreement, ArchiveReader};
use crate::store::coverage;
use crate::store::file_state::manifest_digest;
use crate::store::generation::GenerationId;
use crate::store::version::refuse_newer;
use crate::store::{backup, layout, seal};

/// Plans `doctor backups create`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BackupPlanner {
    /// The operator's words for it.
    pub label: Option<String>,
}

impl Planner for BackupPlanner {
    fn kind(&self) -> PlanKind {
        PlanKind::BackupCreate
    }

    fn plan(&self, ground: &Ground<'_>) -> Result<Draft> {
        let not_there = || {
            Error::new(ErrorKind::NotInitialized, "there is no archive to back up")
                .with_hint("Make one:")
                .with_hint_argv(["cass", "index"])
        };
        let root = ground.root().ok_or_else(not_there)?;
        refuse_newer(root)?;
        let reader = ArchiveReader::open(root)
            .map_err(|e| {
                // Only what a repair mends is told of a repair.
                if e.kind().exit() != ExitCodeKind::HealthFailure {
                    return e;
                }
                let message = e.message().to_owned();
                Error::new(
                    e.kind(),
                    format!("{message}; only an archive that opens is backed up"),
                )
                .with_hint("This plans its repair:")
                .with_hint_argv(["cass", "doctor", "repair"])
                .with_source(e)
            })?
            .ok_or_else(not_there)?;
        let head = reader.head()?;
        let generation = reader.generation().clone();
        let counts = reader.counts()?;
        // A damaged ledger is no reason against a backup.
        let lost = match reader.agreement(coverage::tail(root).ok().flatten().as_ref())? {
            Agreement::Lost { promised, found } => Some((promised, found)),
            _ => None,
        };
        drop(reader);
        let mut body = Body::new(
            PlanKind::BackupCreate,
            ArchiveState::Open {
                archive_id: generation.manifest.archive_id.clone(),
                generation: generation.id.to_string(),
                commit: Count(head.commit),
                head: head.head.to_hex(),
                manifest: manifest_digest(root, &generation.id, ground.watch().interrupt)?,
            },
        );
        if let Some(label) = &self.label {
            body.options.insert("label".to_owned(), label.clone());
        }
        let at_this_head = backup::list(root)?
            .iter()
            .filter(|(_, b)| {
                b.as_ref()
                    .is_ok_and(|b| b.is_of(&generation.manifest.archive_id, &head))
            })
            .count() as u64;
        body.actions.push(Action::CreateBackup {
            at_this_head: Count(at_this_head),
            label: self.label.clone(),
        });
        let db = layout::archive_db(generation.id.as_str());
        let mut required = SPARE;
        for rel in [db.clone(), format!("{db}-wal"), layout::COVERAGE.to_owned()] {
            required += root.file_len(&rel)?.unwrap_or(0);
        }
        Ok(Draft {
            body,
            gates: vec![promise_gate(lost)],
            notes: Notes {
                required_bytes: required,
                reasons: vec![match at_this_head {
                    0 => "there is no backup of this commit yet".to_owned(),
                    1 => "there is one backup of this commit already".to_owned(),
                    n => format!("there are {n} backups of this commit already"),
                }],
                coverage: Some(counts.into()),
                ..Notes::default()
            },
        })
    }
}

/// A copy of an archive that lost commits is worth having, but is not what was promised.
fn promise_gate(lost: Option<(u64, u64)>) -> GateResult {
    let (verdict, reason) = match lost {
        None => (
            GateVerdict::Pass,
            "the archive ends where the coverage ledger says".to_owned(),
        ),
        Some((promised, found)) => (
            GateVerdict::Warn,
            format!(
                "the archive ends in commit {found}, and commit {promised} was promised: the backup \
                 holds what is there; repair the archive, then make another"
            ),
        ),
    };
    GateResult {
        gate: Gate::Coverage,
        verdict,
        reason,
    }
}

/// Plans `doctor backups restore`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestorePlanner {
    /// Backup id or generation id.
    pub id: String,
    /// Whether what was captured since is read into it as well.
    pub keep_newer: bool,
}

impl Planner for RestorePlanner {
    fn kind(&self) -> PlanKind {
        PlanKind::BackupRestore
    }

    fn plan(&self, ground: &Ground<'_>) -> Result<Draft> {
        let root = ground.root().ok_or_else(|| self.unknown())?;
        let watch = ground.watch();
        let rel = self.database(root, ground)?;
        let backup = Holder::read(AuthorityClass::Backup, &self.id, root, &rel, watch)?
            .ok_or_else(|| self.unknown())?;
        if !backup.is_whole {
            return Err(Error::new(
                ErrorKind::VerifyFailed,
                format!(
                    "the archive in {} is damaged: not every row verifies",
                    self.id
                ),
            )
            .with_hint("What can be read of it is used by a repair:")
            .with_hint_argv(["cass", "doctor", "repair"]));
        }
        let survey = Survey::take(root, watch)?;
        if let Some(live) = &survey.at_hand
            && let Some(other) = self.archive_id(root)?
            && other != live.manifest.archive_id
            && !live.manifest.archive_id.is_empty()
        {
            return Err(Error::new(
                ErrorKind::Blocked,
                format!("{} is a backup of another archive ({other})", self.id),
            )
            .with_hint("Its rows can be taken over by: cass doctor repair --from"));
        }
        let mut body = Body::new(self.kind(), archive_state(root, &survey, watch)?);
        body.promises = survey.promises.as_ref().map(promise_state);
        body.inputs.clone_from(&backup.files);
        body.options.insert("backup".to_owned(), self.id.clone());
        if self.keep_newer {
            body.options
                .insert("keep-newer".to_owned(), "true".to_owned());
        }
        let live = match &survey.at_hand {
            Some(g) => Holder::read(
                AuthorityClass::Archive,
                g.id.as_str(),
                root,
                &layout::archive_db(g.id.as_str()),
                watch,
            )?,
            None => None,
        };
        let mut notes = Notes {
            reasons: survey.reasons.clone(),
            coverage: survey.coverage,
            ..Notes::default()
        };
        let evidence = Evidence::gather(root, survey.promises.as_ref(), watch)?;
        let wanted = wanted(&survey, live.as_ref());
        let mut missing: Vec<Missing> = if self.keep_newer {
            let held = live
                .as_ref()
                .map(|l| l.coverage.clone())
                .unwrap_or_default();
            let mut held = held;
            for (id, count) in &backup.coverage {
                let known = held.entry(id.clone()).or_insert(0);
                *known = (*known).max(*count);
            }
            evidence.missing(&held)
        } else {
            newer_than(&wanted, &backup.coverage)
        };
        let gained = backup
            .coverage
            .iter()
            .map(|(id, n)| {
                let live = live.as_ref().and_then(|l| l.coverage.get(id));
                n.saturating_sub(live.copied().unwrap_or(0))
            })
            .sum();
        notes.gained = Some(gained);
        let mut gates = vec![coverage_gate(&missing, self.keep_newer)];
        notes.lost = if self.keep_newer {
            let rows: Vec<&Holder> = std::iter::once(&backup).chain(&live).collect();
            let promises = survey.promises.as_ref();
            let sought = Sought {
                root,
                from: None,
                evidence: &evidence,
                rows: &rows,
                all: promises.is_none_or(|p| p.conversations.is_empty()),
                reach: &Reach::of(ground.env()),
                watch,
            };
            lost(&sought, &mut missing)?
        } else {
            let behind = Behind {
                root,
                outgoing: live.as_ref().map(|l| l.rel.as_str()),
                incoming: Some(&backup),
                reason: MissingReason::NewerThanBackup,
                watch,
            };
            behind.list(&mut missing)?
        };
        gates.extend(damage_gate(&notes.lost));
        gates.extend(places_gate(&notes.lost));
        if !self.keep_newer && !missing.is_empty() {
            notes.instead = Some(
                [
                    "cass",
                    "doctor",
                    "backups",
                    "restore",
                    "--keep-newer",
                    "--",
                    &self.id,
                ]
                .map(str::to_owned)
                .to_vec(),
            );
        }
        gates.push(GateResult {
            gate: Gate::Rehearsal,
            verdict: GateVerdict::AtApply,
            reason: "a rehearsal of this very plan must be on record".to_owned(),
        });
        let rows: Vec<&Holder> = live
            .iter()
            .filter(|l| self.keep_newer && l.rows > 0)
            .collect();
        let db = root.file_len(&rel)?.unwrap_or(0);
        notes.required_bytes = db * 2
            + SPARE
            + if self.keep_newer {
                evidence.mirror_bytes * 4
            } else {
                0
            };
        notes.unreadable = evidence.names();
        body.missing = Listed::of(&missing);
        body.lost = Listed::of(&notes.lost);
        notes.missing = missing;
        body.actions = vec![
            Action::StageCandidate {
                recipe: Recipe::Restore {
                    backup: self.id.clone(),
                    keep_newer: self.keep_newer,
                    rows: rows.iter().map(|h| h.authority()).collect(),
                    unreadable: Listed::of(if self.keep_newer {
                        &notes.unreadable
                    } else {
                        &[]
                    }),
                },
            },
            Action::PromoteCandidate,
        ];
        Ok(Draft { body, gates, notes })
    }
}

impl RestorePlanner {
    fn unknown(&self) -> Error {
        Error::new(
            ErrorKind::NotFound,
            format!("there is no backup {:?}", self.id),
        )
        .with_hint("This lists them:")
        .with_hint_argv(["cass", "doctor", "backups", "list"])
    }

    /// The database of the backup, after its hashes were compared.
    fn database(&self, root: &Root, ground: &Ground<'_>) -> Result<String> {
        let interrupt = ground.watch().interrupt;
        if let Some(id) = backup::BackupId::parse(&self.id) {
            let verified =
                backup::verify(root, &id, false, interrupt)?.ok_or_else(|| self.unknown())?;
            if !backup::may_restore(&verified.files) {
                return Err(damaged(&self.id));
            }
            return Ok(backup::database_of(&id));
        }
        let id = GenerationId::parse(&self.id).ok_or_else(|| self.unknown())?;
        if !seal::is_sealed(root, &id)? {
            return Err(self.unknown());
        }
        match seal::verify(root, &id, interrupt)? {
            Some((_, files)) if backup::may_restore(&files) => Ok(layout::archive_db(id.as_str())),
            _ => Err(damaged(&self.id)),
        }
    }

    fn archive_id(&self, root: &Root) -> Result<Option<String>> {
        Ok(match backup::BackupId::parse(&self.id) {
            Some(id) => backup::read(root, &id)?.map(|b| b.archive_id),
            None => match GenerationId::parse(&self.id) {
                Some(id) => seal::read(root, &id)?.and_then(|s| s.archive_id),
                None => None,
            },
        })
    }
}

fn damaged(id: &str) -> Error {
    Error::new(
        ErrorKind::VerifyFailed,
        format!("{id} does not verify: its files are not those of its manifest"),
    )
    .with_hint("What can be read of it is used by a repair:")
    .with_hint_argv(["cass", "doctor", "repair"])
}

/// What must not be lost: what can be read of the live archive, and what was promised.
fn wanted(survey: &Survey, live: Option<&Holder>) -> BTreeMap<String, u64> {
    let mut wanted = live.map(|l| l.coverage.clone()).unwrap_or_default();
    for (id, promised) in survey.promises.iter().flat_map(|p| p.conversations.iter()) {
        let known = wanted.entry(id.clone()).or_insert(0);
        *known = (*known).max(promised.count);
    }
    wanted
}

fn newer_than(wanted: &BTreeMap<String, u64>, held: &BTreeMap<String, u64>) -> Vec<Missing> {
    wanted
        .iter()
        .filter_map(|(id, count)| {
            let have = held.get(id).copied().unwrap_or(0);
            (have < *count).then(|| Missing {
                conversation: id.clone(),
                provider: None,
                native_id: None,
                records: Count(count - have),
                reason: MissingReason::NewerThanBackup,
            })
        })
        .collect()
}

fn coverage_gate(lost: &[Missing], keep_newer: bool) -> GateResult {
    let records: u64 = lost.iter().map(|m| m.records.0).sum();
    let (verdict, reason) = match (lost.is_empty(), keep_newer) {
        (true, _) => (
            GateVerdict::Pass,
            "nothing that can be read today is missing afterwards".to_owned(),
        ),
        (false, true) => (
            GateVerdict::Warn,
            format!(
                "up to {} can't be read anywhere; the plan lists them",
                count(records, "record", "records")
            ),
        ),
        (false, false) => (
            GateVerdict::Block,
            format!(
                "{} of {}, newer than the backup, would be missing; --keep-newer keeps both",
                count(records, "record", "records"),
                count(lost.len(), "conversation", "conversations")
            ),
        ),
    };
    GateResult {
        gate: Gate::Coverage,
        verdict,
        reason,
    }
}
