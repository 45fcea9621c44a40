//! The plan of `doctor repair`.

use std::collections::{BTreeMap, BTreeSet};

use super::beside::{Losses, before_any_archive, beside};
use super::evidence::Evidence;
use super::holders::{self, Holder, holders};
use super::ladder::{Known, Remedy, rungs};
use super::leftovers;
use super::lost::{Sought, lost};
use super::survey::{Soundness, Survey, archive_state, promise_state};
use crate::disk::Root;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::interrupt::{Interrupt, Until};
use crate::model::plan::{
    Action, ArchiveState, AuthorityClass, Body, CaptureName, DerivedAsset, Draft, Gate, GateResult,
    GateVerdict, Listed, Lost, LostWhat, Missing, Notes, PlanKind, Recipe, RowAuthority,
};
use crate::model::watch::Watch;
use crate::plan::{Ground, Planner};
use crate::store::derived::{Derived, Lexical};
use crate::store::file_state::{archive_files, file_state};
use crate::store::generation::GenerationId;
use crate::store::layout;
use crate::store::lexical::State;
use crate::store::named::NamedArchive;
use crate::store::run::MarkerState;

/// Bytes that are kept free beside what a candidate needs.
const SPARE: u64 = 16 << 20;

/// Plans `doctor repair`.
#[derive(Debug, Clone, Default)]
pub struct RepairPlanner {
    /// Another archive whose verified rows are taken as well.
    pub from: Option<NamedArchive>,
    /// Whether a failed repair may be repeated.
    pub allow_repeated: bool,
}

impl Planner for RepairPlanner {
    fn kind(&self) -> PlanKind {
        PlanKind::Repair
    }

    fn plan(&self, ground: &Ground<'_>) -> Result<Draft> {
        let absent;
        let root = match (ground.root(), &self.from) {
            (Some(root), _) => root,
            // Nothing was made yet: what was named is all that there is to plan with.
            (None, Some(_)) => {
                absent = Root::absent(ground.env().data_dir());
                &absent
            }
            (None, None) => return Ok(nothing(PlanKind::Repair)),
        };
        let draft = self.draft(ground, root, Spare::Unused)?;
        // What an undo took back was made of what was there then. Where that is so still, the plan
        // that made it is the same plan again; else it may be the last to hold something.
        // A capture that nothing promised may have been read into it, and be lost since.
        let beyond = !draft.notes.unreadable.is_empty();
        if losses(&draft) == (0, 0) && !beyond
            || !holders::has_spare(root)?
            || ground.was_applied(&draft.body)?
        {
            return Ok(draft);
        }
        let with = self.draft(ground, root, Spare::Used)?;
        let (less, same) = (
            losses(&with) < losses(&draft),
            losses(&with) == losses(&draft),
        );
        Ok(if less || same && beyond { with } else { draft })
    }
}

/// Whether archives that an undo took back are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spare {
    Unused,
    Used,
}

/// Where a remedy is looked for.
struct Site<'a> {
    root: &'a Root,
    env: &'a Env,
    watch: Watch<'a>,
    spare: Spare,
}

/// Records and messages that a plan can't bring back.
fn losses(draft: &Draft) -> (u64, usize) {
    let missing = &draft.notes.missing;
    let records = missing.iter().map(|m| m.records.0).sum();
    (records, draft.notes.lost.len())
}

impl RepairPlanner {
    fn draft(&self, ground: &Ground<'_>, root: &Root, spare: Spare) -> Result<Draft> {
        let interrupted = leftovers::interrupted(root)?;
        if !interrupted.is_empty() {
            return finish_first(root, interrupted, ground.watch().interrupt);
        }
        let watch = ground.watch();
        let survey = Survey::take(root, watch)?;
        let mut body = Body::new(self.kind(), archive_state(root, &survey, watch)?);
        body.promises = survey.promises.as_ref().map(promise_state);
        let mut notes = Notes {
            reasons: survey.reasons.clone(),
            coverage: survey.coverage,
            named: self.from.as_ref().map(|from| from.path.clone()),
            ..Notes::default()
        };
        if ground.root().is_none() {
            let begun = "there is no data directory yet: it is made, with what was named in it";
            notes.reasons.push(begun.to_owned());
        }
        let mut gates = Vec::new();
        self.marker(root, &mut body, &mut notes, &mut gates)?;
        let found = self.remedy(
            &Site {
                root,
                env: ground.env(),
                watch,
                spare,
            },
            &survey,
            &mut body,
            &mut notes,
            &mut gates,
        )?;
        body.lost = Listed::of(&notes.lost);
        let mut kept: BTreeSet<GenerationId> = survey.current.iter().cloned().collect();
        kept.extend(survey.unnamed.iter().cloned());
        kept.extend(survey.at_hand.iter().map(|g| g.id.clone()));
        kept.extend(survey.promises.iter().map(|p| p.last.generation.clone()));
        match &found.remedy {
            Remedy::Candidate(recipe) => {
                body.actions.push(Action::StageCandidate {
                    recipe: recipe.clone(),
                });
                self.renew_ledger(ground, root, &survey, &mut body)?;
                accept_loss(&mut body, &notes);
                body.actions.push(Action::PromoteCandidate);
            }
            Remedy::RePoint => {
                if let Some(g) = &survey.at_hand {
                    body.actions.push(Action::RePoint {
                        generation: g.id.to_string(),
                        files: archive_files(root, &g.id, watch.interrupt)?,
                    });
                }
                self.renew_ledger(ground, root, &survey, &mut body)?;
            }
            Remedy::None => {
                self.renew_ledger(ground, root, &survey, &mut body)?;
                accept_loss(&mut body, &notes);
            }
            Remedy::Nothing => {
                notes
                    .instead
                    .get_or_insert_with(|| ["cass", "index"].map(str::to_owned).to_vec());
                gates.push(GateResult {
                gate: Gate::Authority,
                verdict: GateVerdict::Block,
                reason: "neither the archive, nor the mirror, nor a backup can be read; `cass index` \
                         captures what the harnesses still have, and --from takes an archive that \
                         lies elsewhere"
                    .to_owned(),
                });
            }
        }
        let mut known = found.known;
        if found.index_damaged {
            known
                .derived
                .push("the mirror's index contradicts packs and ledgers".to_owned());
            body.actions.push(Action::RebuildDerived {
                asset: DerivedAsset::MirrorIndex,
            });
        }
        if matches!(found.remedy, Remedy::None)
            && survey.is_sound()
            && let Some(state) = lexical_damage(root, watch.interrupt)?
        {
            known.derived.push(format!("the lexical index is {state}"));
            body.actions.push(Action::RebuildDerived {
                asset: DerivedAsset::LexicalIndex,
            });
        }
        if found.remedy != Remedy::Nothing && survey.soundness != Soundness::Never {
            body.actions.extend(leftovers::orphans(root, &kept, watch)?);
        }
        if let (Some(marker), false) = (&body.marker, gates.iter().any(is_shut)) {
            body.actions.push(Action::ClearMarker {
                marker: marker.clone(),
            });
        }
        notes.rungs = rungs(&found.remedy, known);
        for file in &body.inputs {
            notes.read_bytes += file.len.0;
        }
        gates.push(GateResult {
            gate: Gate::Storage,
            verdict: GateVerdict::AtApply,
            reason: format!(
                "{} bytes must be free when it is applied",
                notes.required_bytes
            ),
        });
        Ok(Draft { body, gates, notes })
    }
}

fn is_shut(gate: &GateResult) -> bool {
    gate.verdict == GateVerdict::Block
}

/// What is done about the archive, and what else was learned on the way.
struct Found {
    remedy: Remedy,
    known: Known,
    index_damaged: bool,
}

/// A plan that does nothing, of a data directory that holds nothing.
pub(in crate::doctor) fn nothing(kind: PlanKind) -> Draft {
    Draft {
        body: Body::new(kind, ArchiveState::Never),
        gates: Vec::new(),
        notes: Notes::default(),
    }
}

/// What a killed run left is finished first: what else is to be done can only be told then.
fn finish_first(root: &Root, interrupted: Vec<Action>, interrupt: &Interrupt) -> Result<Draft> {
    let current = crate::store::generation::current_or_none(root)?;
    let files = match &current {
        Some(id) => archive_files(root, id, interrupt)?,
        None => Vec::new(),
    };
    let mut body = Body::new(
        PlanKind::Repair,
        ArchiveState::Unverified {
            current: current.map(|id| id.to_string()),
            files,
        },
    );
    // They decide between finishing and closing, and name what is removed or made live.
    for action in &interrupted {
        if let Action::FinishInterrupted { run_id } = action {
            let intent = format!("{}/{run_id}.json", layout::INTENTS);
            body.inputs.extend(file_state(root, &intent, interrupt)?);
        }
    }
    let ledger = file_state(root, layout::COVERAGE, interrupt)?;
    body.inputs.extend(ledger);
    body.actions = interrupted;
    Ok(Draft {
        body,
        gates: Vec::new(),
        notes: Notes {
            reasons: vec![
                "a run was killed; it is finished or closed first, then repair plans again"
                    .to_owned(),
            ],
            ..Notes::default()
        },
    })
}

/// What is wrong with the lexical index, if it is more than being behind.
fn lexical_damage(root: &Root, interrupt: &Interrupt) -> Result<Option<&'static str>> {
    let survey = Lexical.state(root, &Until::new(interrupt, None))?;
    // A look that was broken off says nothing.
    interrupt.check()?;
    Ok(survey.and_then(|survey| match survey.state {
        State::Hollow { .. } | State::Corrupt { .. } => Some(survey.state.word()),
        _ => None,
    }))
}

impl RepairPlanner {
    fn marker(
        &self,
        root: &Root,
        body: &mut Body,
        notes: &mut Notes,
        gates: &mut Vec<GateResult>,
    ) -> Result<()> {
        let marker = leftovers::marker(root)?;
        body.marker = marker.digest().map(|d| d.to_hex());
        if self.allow_repeated {
            body.options
                .insert("allow-repeated-repair".to_owned(), "true".to_owned());
        }
        let (verdict, reason) = match &marker {
            MarkerState::Absent => (GateVerdict::Pass, "no earlier repair failed".to_owned()),
            _ if self.allow_repeated => (
                GateVerdict::Warn,
                "an earlier repair failed, and a repeat was asked for".to_owned(),
            ),
            MarkerState::Present { marker, .. } => (
                GateVerdict::Block,
                format!(
                    "{} failed; read doctor/failures/{}.json, then allow a repeat",
                    marker.kind.word(),
                    marker.run_id
                ),
            ),
            MarkerState::Corrupt { .. } => (
                GateVerdict::Block,
                "an earlier repair failed, and its marker is damaged".to_owned(),
            ),
        };
        if verdict == GateVerdict::Block {
            let mut argv = ["cass", "doctor", "repair"].map(str::to_owned).to_vec();
            if let Some(from) = &self.from {
                argv.push(format!("--from={}", from.path.display()));
            }
            argv.push("--allow-repeated-repair".to_owned());
            notes.instead = Some(argv);
        }
        gates.push(GateResult {
            gate: Gate::RepairMarker,
            verdict,
            reason,
        });
        Ok(())
    }

    fn renew_ledger(
        &self,
        ground: &Ground<'_>,
        root: &Root,
        survey: &Survey,
        body: &mut Body,
    ) -> Result<()> {
        if survey.ledger_damaged
            && let Some(file) = file_state(root, layout::COVERAGE, ground.watch().interrupt)?
        {
            body.actions.push(Action::RenewLedger { file });
        }
        Ok(())
    }

    /// The cheapest rung that is sufficient.
    fn remedy(
        &self,
        site: &Site<'_>,
        survey: &Survey,
        body: &mut Body,
        notes: &mut Notes,
        gates: &mut Vec<GateResult>,
    ) -> Result<Found> {
        let (root, watch) = (site.root, site.watch);
        let mut known = Known::default();
        let found = |remedy, known| {
            Ok(Found {
                remedy,
                known,
                index_damaged: false,
            })
        };
        if survey.soundness == Soundness::Never && self.from.is_none() {
            before_any_archive(root, watch, notes)?;
            return found(Remedy::None, known);
        }
        if survey.is_sound() && self.from.is_none() {
            let beside = beside(root, site.env, survey, watch, notes)?;
            if let Some(losses) = beside.losses {
                accepting_gate(gates, &losses);
                body.missing = Listed::of(&losses.missing);
                notes.missing = losses.missing;
                notes.lost = losses.lost;
                notes.accepted = losses.captures;
            }
            return Ok(Found {
                remedy: Remedy::None,
                known,
                index_damaged: beside.index_damaged,
            });
        }
        if matches!(survey.soundness, Soundness::Sound { .. }) && self.from.is_none() {
            return found(Remedy::RePoint, known);
        }
        known.re_point = match survey.soundness {
            Soundness::Gone => "no generation that the ledger names is there".to_owned(),
            _ if survey.is_named => "CURRENT names the archive that is damaged".to_owned(),
            _ => "the generation of the ledger's last line does not verify".to_owned(),
        };
        let evidence = Evidence::gather(root, survey.promises.as_ref(), watch)?;
        notes.read_bytes += evidence.mirror_bytes;
        // Without a ledger, or where it was begun anew, nothing was promised, and all that is there is
        // evidence.
        let unpromised = survey
            .promises
            .as_ref()
            .is_none_or(|p| p.conversations.is_empty());
        let given = if unpromised {
            evidence.captures
        } else {
            evidence.given
        };
        notes.authorities.insert("mirror".to_owned(), given);
        let db_bytes: u64 = match &body.archive {
            ArchiveState::Unverified { files, .. } => files.iter().map(|f| f.len.0).sum(),
            _ => survey
                .at_hand
                .iter()
                .map(|g| root.file_len(&layout::archive_db(g.id.as_str())))
                .collect::<Result<Vec<_>>>()?
                .into_iter()
                .flatten()
                .sum(),
        };
        if let (Soundness::LostCommits { .. }, Some(g), true, None) = (
            &survey.soundness,
            &survey.at_hand,
            evidence.unreadable.is_empty(),
            &self.from,
        ) {
            notes.required_bytes = db_bytes * 2 + SPARE;
            coverage_gate(gates, &[]);
            return Ok(Found {
                remedy: Remedy::Candidate(Recipe::Recover {
                    generation: g.id.to_string(),
                }),
                known,
                index_damaged: evidence.index_damaged,
            });
        }
        known.recover = match survey.soundness {
            Soundness::LostCommits { .. } => {
                "the mirror can't give all of what the WAL lost".to_owned()
            }
            Soundness::Gone => "there is no database to copy".to_owned(),
            _ => "rows, pages or the chain are damaged, not the WAL alone".to_owned(),
        };
        let mut all = holders(root, survey, self.from.as_ref(), watch)?;
        all.retain(|h| site.spare == Spare::Used || !h.is_spare);
        if let Some(from) = &self.from {
            let named = all.iter().find(|h| h.class == AuthorityClass::Named);
            let Some(named) = named.filter(|h| h.rows > 0) else {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "nothing in {} can be read as rows of an archive",
                        from.path.display()
                    ),
                )
                .with_hint(
                    "--from takes a data directory of cass or a database file of its archive.",
                ));
            };
            let kept = |h: &&Holder| h.class != AuthorityClass::Named && h.files == named.files;
            if let Some(same) = all.iter().find(kept) {
                return Err(Error::new(
                    ErrorKind::Usage,
                    format!(
                        "{} has the very bytes of {}, which is here already",
                        from.path.display(),
                        same.name
                    ),
                )
                .with_hint("Leave --from out: what is here is read anyway.")
                .with_hint_argv(["cass", "doctor", "repair"]));
            }
            body.inputs.extend(named.files.clone());
        }
        let mirror_gives = given > 0;
        let mut useful: Vec<&Holder> = all
            .iter()
            .filter(|h| {
                h.class == AuthorityClass::Named || unpromised || !evidence.unreadable.is_empty()
            })
            .filter(|h| h.rows > 0)
            .collect();
        // A record keeps the place that the first archive gives it: whole ones come first.
        useful.sort_by_key(|h| !h.is_whole);
        let mut missing = evidence.missing(&held(&useful, &evidence.touched));
        let archive_gives = useful.iter().any(|h| h.class == AuthorityClass::Archive);
        known.mirror = if evidence.mirror {
            "the mirror gives none of what was promised, and the archive no verified row".to_owned()
        } else {
            "there is no mirror, and the archive gives no verified row".to_owned()
        };
        known.backups = "there is no backup that verifies".to_owned();
        let sole = useful
            .iter()
            .filter(|h| h.class == AuthorityClass::Archive)
            .flat_map(|h| h.coverage.keys())
            .filter(|id| {
                evidence.touched.contains_key(*id)
                    && !all
                        .iter()
                        .filter(|h| h.class == AuthorityClass::Backup && !h.is_spare)
                        .any(|h| h.coverage.contains_key(*id))
            })
            .count() as u64;
        for holder in &useful {
            *notes
                .authorities
                .entry(word(holder.class).to_owned())
                .or_insert(0) += holder.coverage.len() as u64;
        }
        known.salvage = salvage(&useful, evidence.unreadable.len());
        let rows: Vec<RowAuthority> = useful.iter().map(|h| h.authority()).collect();
        let unreadable = evidence.names();
        notes.required_bytes = db_bytes.max(evidence.mirror_bytes * 4) * 2 + SPARE;
        let whole = all
            .iter()
            .filter(|h| h.class == AuthorityClass::Backup && h.is_whole)
            .max_by_key(|h| (!h.is_spare, h.rows));
        let remedy = if mirror_gives || archive_gives || self.from.is_some() {
            Remedy::Candidate(Recipe::Rebuild {
                rows,
                unreadable: Listed::of(&unreadable),
            })
        } else if let Some(backup) = whole {
            Remedy::Candidate(Recipe::Restore {
                backup: backup.name.clone(),
                keep_newer: true,
                rows: Vec::new(),
                unreadable: Listed::of(&unreadable),
            })
        } else if all.iter().all(|h| h.rows == 0) {
            Remedy::Candidate(Recipe::Begin {
                unreadable: Listed::of(&unreadable),
            })
        } else if rows.is_empty() {
            Remedy::Nothing
        } else {
            Remedy::Candidate(Recipe::Rebuild {
                rows,
                unreadable: Listed::of(&unreadable),
            })
        };
        if remedy != Remedy::Nothing {
            if matches!(remedy, Remedy::Candidate(Recipe::Begin { .. })) {
                begin_gate(gates, &missing, evidence.captures);
            } else {
                coverage_gate(gates, &missing);
            }
            let sought = Sought {
                root,
                from: self.from.as_ref(),
                evidence: &evidence,
                rows: &useful,
                all: unpromised,
                watch,
            };
            notes.lost = lost(&sought, &mut missing)?;
            notes.accepted = evidence.lost_for_good(&missing);
            damage_gate(gates, &notes.lost);
            sole_gate(gates, sole);
        }
        notes.sole_copies = sole;
        body.missing = Listed::of(&missing);
        notes.missing = missing;
        notes.unreadable = unreadable;
        Ok(Found {
            remedy,
            known,
            index_damaged: evidence.index_damaged,
        })
    }
}

/// How rows of the archive fill what the mirror can't give, or why they don't.
fn salvage(useful: &[&Holder], unreadable: usize) -> std::result::Result<String, String> {
    let gives = |h: &&&Holder| h.class == AuthorityClass::Archive || h.by_pages;
    let by_pages = useful.iter().filter(gives).any(|h| h.by_pages);
    let rows: u64 = useful.iter().filter(gives).map(|h| h.rows).sum();
    if rows > 0 {
        let how = if by_pages { ", page by page" } else { "" };
        return Ok(format!(
            "the mirror can't give {unreadable} captures; {rows} rows that verify are salvaged{how}"
        ));
    }
    Err(if unreadable == 0 {
        "the mirror gives everything that was promised".to_owned()
    } else {
        "no row of the damaged archive verifies".to_owned()
    })
}

fn word(class: AuthorityClass) -> &'static str {
    match class {
        AuthorityClass::Archive => "archive",
        AuthorityClass::Mirror => "mirror",
        AuthorityClass::Backup => "backup",
        AuthorityClass::Named => "named",
    }
}

/// How many records of each conversation the best of the holders has.
fn held<V>(holders: &[&Holder], of: &BTreeMap<String, V>) -> BTreeMap<String, u64> {
    let mut best: BTreeMap<String, u64> = BTreeMap::new();
    for holder in holders {
        for (id, count) in &holder.coverage {
            if of.contains_key(id) {
                let known = best.entry(id.clone()).or_insert(0);
                *known = (*known).max(*count);
            }
        }
    }
    best
}

fn coverage_gate(gates: &mut Vec<GateResult>, missing: &[Missing]) {
    let records: u64 = missing.iter().map(|m| m.records.0).sum();
    gates.push(if missing.is_empty() {
        GateResult {
            gate: Gate::Coverage,
            verdict: GateVerdict::Pass,
            reason: "everything that was promised can be read".to_owned(),
        }
    } else {
        GateResult {
            gate: Gate::Coverage,
            verdict: GateVerdict::Warn,
            reason: format!(
                "up to {records} records of {} conversations can't be read anywhere; the plan lists \
                 them, and the outgoing archive is kept; where a harness still has them, run `cass \
                 index` first: it captures them, and the plan then needs less",
                missing.len()
            ),
        }
    });
}

/// Puts on record what the plan lists and nothing can bring back.
fn accept_loss(body: &mut Body, notes: &Notes) {
    if notes.missing.is_empty() && notes.accepted.is_empty() {
        return;
    }
    let captures: Vec<CaptureName> = notes
        .accepted
        .iter()
        .map(|(name, _)| name.clone())
        .collect();
    body.actions.push(Action::AcceptLoss {
        captures: Listed::of(&captures),
        conversations: Listed::of(&notes.missing),
    });
}

fn accepting_gate(gates: &mut Vec<GateResult>, losses: &Losses) {
    let records: u64 = losses.missing.iter().map(|m| m.records.0).sum();
    gates.push(GateResult {
        gate: Gate::Coverage,
        verdict: GateVerdict::Warn,
        reason: format!(
            "{} captures can't be given back, with up to {records} records that the archive lacks; the \
             plan lists them and puts them on record as lost; not a byte is changed or removed, and what \
             comes back is used as before",
            losses.captures.len()
        ),
    });
}

fn begin_gate(gates: &mut Vec<GateResult>, missing: &[Missing], captures: u64) {
    let records: u64 = missing.iter().map(|m| m.records.0).sum();
    gates.push(GateResult {
        gate: Gate::Coverage,
        verdict: GateVerdict::Warn,
        reason: format!(
            "neither the archive, nor the mirror, nor a backup gives a row: a new archive is begun with \
             the {captures} captures that the mirror has, and {records} records of {} conversations are \
             put on record as lost; what is left of the old archive is kept; `cass index` captures what \
             the harnesses still have, and --from takes an archive that lies elsewhere: try both first",
            missing.len()
        ),
    });
}

/// Messages whose own row is damaged, and that nothing else has.
fn damage_gate(gates: &mut Vec<GateResult>, lost: &[Lost]) {
    let damaged = lost.iter().filter(|l| l.what == LostWhat::Messages).count();
    if damaged > 0 {
        gates.push(GateResult {
            gate: Gate::Coverage,
            verdict: GateVerdict::Warn,
            reason: format!(
                "{damaged} damaged messages of the archive have no other copy: their records come \
                 without these texts, and the plan lists them; the outgoing archive is kept"
            ),
        });
    }
}

fn sole_gate(gates: &mut Vec<GateResult>, sole: u64) {
    gates.push(if sole == 0 {
        GateResult {
            gate: Gate::SoleCopy,
            verdict: GateVerdict::Pass,
            reason: "no conversation has the outgoing archive as its only holder".to_owned(),
        }
    } else {
        GateResult {
            gate: Gate::SoleCopy,
            verdict: GateVerdict::Warn,
            reason: format!(
                "the outgoing archive is the only holder of {sole} conversations: they are copied, \
                 and its sealed generation is kept until another holder exists"
            ),
        }
    });
}
