//! The plan of `doctor repair`.

use std::collections::BTreeSet;

use super::beside::{before_any_archive, beside};
use super::evidence::Evidence;
use super::gates;
use super::holders::{Holder, holders};
use super::ladder::{Known, Remedy, rungs};
use super::leftovers;
use super::rows::Rows;
use super::survey::{Soundness, Survey, archive_state, promise_state};
use crate::disk::Root;
use crate::env::Env;
use crate::error::Result;
use crate::model::interrupt::{Interrupt, Until};
use crate::model::plan::{
    Action, ArchiveState, Body, CaptureName, DerivedAsset, Draft, Gate, GateResult, GateVerdict,
    Listed, Notes, PlanKind, Recipe,
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
pub(in crate::doctor) const SPARE: u64 = 16 << 20;

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

    /// What an undo took back gives rows like any other archive, but to a plan that was applied
    /// without: the same state is the same plan again.
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
        let interrupted = leftovers::interrupted(root)?;
        if !interrupted.is_empty() {
            return finish_first(root, interrupted, ground.watch().interrupt);
        }
        let watch = ground.watch();
        let site = Site {
            root,
            env: ground.env(),
            watch,
            survey: Survey::take(root, watch)?,
        };
        let mut sketch = self.sketch(&site)?;
        if ground.root().is_none() {
            let begun = "there is no data directory yet: it is made, with what was named in it";
            sketch.notes.reasons.push(begun.to_owned());
        }
        if self.from.is_none() && site.is_at_hand(&mut sketch)? {
            return site.finish(sketch);
        }
        let evidence = site.evidence(&mut sketch)?;
        if self.from.is_none() && site.is_recovered(&evidence, &mut sketch)? {
            return site.finish(sketch);
        }
        let all = holders(root, &site.survey, self.from.as_ref(), watch)?;
        let before: Vec<&Holder> = all.iter().filter(|h| !h.is_spare).collect();
        let mut rows = Rows {
            site: &site,
            from: self.from.as_ref(),
            evidence: &evidence,
            all: &before,
        };
        rows.take_named(&mut sketch)?;
        let draft = site.finish(rows.choose(sketch.clone())?)?;
        if before.len() == all.len() || ground.was_applied(&draft.body)? {
            return Ok(draft);
        }
        let with_spare: Vec<&Holder> = all.iter().collect();
        rows.all = &with_spare;
        site.finish(rows.choose(sketch)?)
    }
}

/// A plan in the making.
#[derive(Debug, Clone)]
pub(super) struct Sketch {
    pub(super) body: Body,
    pub(super) notes: Notes,
    pub(super) gates: Vec<GateResult>,
    /// What is done about the archive.
    pub(super) remedy: Remedy,
    pub(super) known: Known,
    /// Whether the mirror's index has to be made again.
    pub(super) index_damaged: bool,
}

/// Where a remedy is looked for.
pub(super) struct Site<'a> {
    pub(super) root: &'a Root,
    pub(super) env: &'a Env,
    pub(super) watch: Watch<'a>,
    pub(super) survey: Survey,
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
    fn sketch(&self, site: &Site<'_>) -> Result<Sketch> {
        let survey = &site.survey;
        let mut body = Body::new(self.kind(), archive_state(site.root, survey, site.watch)?);
        body.promises = survey.promises.as_ref().map(promise_state);
        let mut sketch = Sketch {
            body,
            notes: Notes {
                reasons: survey.reasons.clone(),
                coverage: survey.coverage,
                named: self.from.as_ref().map(|from| from.path.clone()),
                ..Notes::default()
            },
            gates: Vec::new(),
            remedy: Remedy::None,
            known: Known::default(),
            index_damaged: false,
        };
        self.marker(site.root, &mut sketch)?;
        Ok(sketch)
    }

    fn marker(&self, root: &Root, sketch: &mut Sketch) -> Result<()> {
        let Sketch {
            body, notes, gates, ..
        } = sketch;
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
                "an earlier run failed, and a repeat was asked for".to_owned(),
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
                "an earlier run failed, and its marker is damaged".to_owned(),
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
}

impl Site<'_> {
    /// Whether nothing has to be built: the archive is sound, or a sound one has only to be named.
    fn is_at_hand(&self, sketch: &mut Sketch) -> Result<bool> {
        if self.survey.soundness == Soundness::Never {
            before_any_archive(self.root, self.watch, &mut sketch.notes)?;
            return Ok(true);
        }
        if self.survey.is_sound() {
            let beside = beside(
                self.root,
                self.env,
                &self.survey,
                self.watch,
                &mut sketch.notes,
            )?;
            if let Some(losses) = beside.losses {
                sketch.gates.push(gates::accepting(&losses));
                sketch.body.missing = Listed::of(&losses.missing);
                sketch.notes.missing = losses.missing;
                sketch.notes.lost = losses.lost;
                sketch.notes.accepted = losses.captures;
            }
            sketch.index_damaged = beside.index_damaged;
            return Ok(true);
        }
        if matches!(self.survey.soundness, Soundness::Sound { .. }) {
            sketch.remedy = Remedy::RePoint;
            return Ok(true);
        }
        Ok(false)
    }

    /// What the mirror can give.
    fn evidence(&self, sketch: &mut Sketch) -> Result<Evidence> {
        sketch.known.re_point = match self.survey.soundness {
            Soundness::Gone => "no generation that the ledger names is there".to_owned(),
            _ if self.survey.is_named => "CURRENT names the archive that is damaged".to_owned(),
            _ => "the generation of the ledger's last line does not verify".to_owned(),
        };
        let evidence = Evidence::gather(self.root, self.survey.promises.as_ref(), self.watch)?;
        sketch.index_damaged = evidence.index_damaged;
        sketch.notes.read_bytes += evidence.mirror_bytes;
        let given = self.given(&evidence);
        sketch.notes.authorities.insert("mirror".to_owned(), given);
        Ok(evidence)
    }

    /// Whether nothing was promised: without a ledger, or where it was begun anew, all that is there
    /// is evidence.
    pub(super) fn is_unpromised(&self) -> bool {
        let promises = self.survey.promises.as_ref();
        promises.is_none_or(|p| p.conversations.is_empty())
    }

    /// Captures that the mirror gives of what must be there.
    pub(super) fn given(&self, evidence: &Evidence) -> u64 {
        if self.is_unpromised() {
            evidence.captures
        } else {
            evidence.given
        }
    }

    /// Whether a copy of the archive and what the mirror gives are enough.
    fn is_recovered(&self, evidence: &Evidence, sketch: &mut Sketch) -> Result<bool> {
        let at_hand = match (&self.survey.soundness, &self.survey.at_hand) {
            (Soundness::LostCommits { .. }, at_hand) => at_hand.as_ref(),
            _ => None,
        };
        sketch.known.recover = match self.survey.soundness {
            Soundness::LostCommits { .. } => {
                "the mirror can't give all of what the WAL lost".to_owned()
            }
            Soundness::Gone => "there is no database to copy".to_owned(),
            _ => "rows, pages or the chain are damaged, not the WAL alone".to_owned(),
        };
        let Some(g) = at_hand.filter(|_| evidence.unreadable.is_empty()) else {
            return Ok(false);
        };
        sketch.notes.required_bytes = self.archive_bytes(&sketch.body)? * 2 + SPARE;
        sketch.gates.push(gates::coverage(&[]));
        sketch.remedy = Remedy::Candidate(Recipe::Recover {
            generation: g.id.to_string(),
        });
        Ok(true)
    }

    /// Bytes of the archive's database.
    pub(super) fn archive_bytes(&self, body: &Body) -> Result<u64> {
        if let ArchiveState::Unverified { files, .. } = &body.archive {
            return Ok(files.iter().map(|f| f.len.0).sum());
        }
        let db = self.survey.at_hand.iter();
        db.map(|g| {
            let len = self.root.file_len(&layout::archive_db(g.id.as_str()));
            Ok(len?.unwrap_or(0))
        })
        .sum()
    }

    /// What is done, in order, and why each rung is taken or not.
    fn finish(&self, sketch: Sketch) -> Result<Draft> {
        let (root, watch) = (self.root, self.watch);
        let Sketch {
            mut body,
            mut notes,
            mut gates,
            remedy,
            mut known,
            index_damaged,
        } = sketch;
        body.lost = Listed::of(&notes.lost);
        match &remedy {
            Remedy::Candidate(recipe) => {
                body.actions.push(Action::StageCandidate {
                    recipe: recipe.clone(),
                });
                self.renew_ledger(&mut body)?;
                accept_loss(&mut body, &notes);
                body.actions.push(Action::PromoteCandidate);
            }
            Remedy::RePoint => {
                if let Some(g) = &self.survey.at_hand {
                    body.actions.push(Action::RePoint {
                        generation: g.id.to_string(),
                        files: archive_files(root, &g.id, watch.interrupt)?,
                    });
                }
                self.renew_ledger(&mut body)?;
            }
            Remedy::None => {
                self.renew_ledger(&mut body)?;
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
        if index_damaged {
            known
                .derived
                .push("the mirror's index contradicts packs and ledgers".to_owned());
            body.actions.push(Action::RebuildDerived {
                asset: DerivedAsset::MirrorIndex,
            });
        }
        if remedy == Remedy::None
            && self.survey.is_sound()
            && let Some(state) = lexical_damage(root, watch.interrupt)?
        {
            known.derived.push(format!("the lexical index is {state}"));
            body.actions.push(Action::RebuildDerived {
                asset: DerivedAsset::LexicalIndex,
            });
        }
        if remedy != Remedy::Nothing && self.survey.soundness != Soundness::Never {
            body.actions
                .extend(leftovers::orphans(root, &self.kept(), watch)?);
        }
        if let (Some(marker), false) = (
            &body.marker,
            gates.iter().any(|g| g.verdict == GateVerdict::Block),
        ) {
            body.actions.push(Action::ClearMarker {
                marker: marker.clone(),
            });
        }
        notes.rungs = rungs(&remedy, known);
        for file in &body.inputs {
            notes.read_bytes += file.len.0;
        }
        Ok(Draft { body, gates, notes })
    }

    /// Generations that something names.
    fn kept(&self) -> BTreeSet<GenerationId> {
        let survey = &self.survey;
        let named = survey.current.iter().chain(&survey.unnamed).cloned();
        named
            .chain(survey.at_hand.iter().map(|g| g.id.clone()))
            .chain(survey.promises.iter().map(|p| p.last.generation.clone()))
            .collect()
    }

    fn renew_ledger(&self, body: &mut Body) -> Result<()> {
        if self.survey.ledger_damaged
            && let Some(file) = file_state(self.root, layout::COVERAGE, self.watch.interrupt)?
        {
            body.actions.push(Action::RenewLedger { file });
        }
        Ok(())
    }
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
