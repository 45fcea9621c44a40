//! `doctor --fix`: what may be done without a plan that was shown, because it only makes derived data
//! anew. Any doubt about archive, coverage or room shuts the gate and names the command to run.

use super::beside::structure;
use super::leftovers;
use super::planner::nothing;
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::interrupt::{Interrupt, Until};
use crate::model::plan::{
    Action, ArchiveState, Body, Count, DerivedAsset, Draft, FORCE_REBUILD, Gate, GateResult,
    GateVerdict, Notes, PlanKind,
};
use crate::plan::{Ground, Planner};
use crate::store::archive::{Agreement, ArchiveReader};
use crate::store::coverage;
use crate::store::derived::{Derived, Lexical};
use crate::store::file_state::manifest_digest;
use crate::store::generation::{self, Live};
use crate::store::lexical::State;
use crate::store::mirror::MirrorReader;
use crate::store::run::MarkerState;
use crate::store::version::refuse_newer;

/// Below it nothing is begun without an operator.
const ROOM: u64 = 64 << 20;

/// Plans `doctor --fix`.
#[derive(Debug, Clone, Copy, Default)]
pub struct FixPlanner {
    /// Make derived data anew even where it is as it should be.
    pub force_rebuild: bool,
    /// Go on although an earlier repair failed.
    pub allow_repeated: bool,
}

impl Planner for FixPlanner {
    fn kind(&self) -> PlanKind {
        PlanKind::Fix
    }

    fn plan(&self, ground: &Ground<'_>) -> Result<Draft> {
        let Some(root) = ground.root() else {
            return Ok(nothing(PlanKind::Fix));
        };
        refuse_newer(root)?;
        let mut body = Body::new(PlanKind::Fix, ArchiveState::Never);
        if self.force_rebuild {
            body.options
                .insert(FORCE_REBUILD.to_owned(), "true".to_owned());
        }
        if self.allow_repeated {
            body.options
                .insert("allow-repeated-repair".to_owned(), "true".to_owned());
        }
        let mut notes = Notes::default();
        let mut doubts = self.doubts(root, ground.watch().interrupt, &mut body)?;
        let lexical = match &body.archive {
            ArchiveState::Open { .. } => {
                Lexical.state(root, &Until::new(ground.watch().interrupt, None))?
            }
            _ => None,
        };
        if let Some(survey) = lexical {
            let stale = !matches!(survey.state, State::Ready);
            if stale || self.force_rebuild {
                notes
                    .reasons
                    .push(format!("the lexical index is {}", survey.state.word()));
                body.actions.push(Action::RebuildDerived {
                    asset: DerivedAsset::LexicalIndex,
                });
            }
        }
        match index_problem(root, ground.watch().interrupt) {
            Ok(Some(why)) => {
                notes.reasons.push(why);
                body.actions.push(Action::RebuildDerived {
                    asset: DerivedAsset::MirrorIndex,
                });
            }
            Ok(None) => {}
            Err(e) if passes_on(&e) => return Err(e),
            Err(e) => doubts.push(e.message().to_owned()),
        }
        let needs_operator = !doubts.is_empty();
        let free = root.free_bytes()?;
        if !body.actions.is_empty() && free < ROOM {
            doubts.push(format!("{ROOM} bytes must be free, and {free} are"));
        }
        let gate = match doubts.first() {
            None => GateResult {
                gate: Gate::AutoEligibility,
                verdict: GateVerdict::Pass,
                reason: "only derived data is made anew".to_owned(),
            },
            Some(first) => {
                // No repair makes room.
                notes.instead = needs_operator
                    .then(|| ["cass", "doctor", "repair"].map(str::to_owned).to_vec());
                body.actions.clear();
                GateResult {
                    gate: Gate::AutoEligibility,
                    verdict: GateVerdict::Block,
                    reason: format!("this needs an operator: {first}"),
                }
            }
        };
        notes.reasons.extend(doubts);
        Ok(Draft {
            body,
            gates: vec![gate],
            notes,
        })
    }
}

impl FixPlanner {
    /// Why this must not run by itself.
    fn doubts(&self, root: &Root, interrupt: &Interrupt, body: &mut Body) -> Result<Vec<String>> {
        let mut doubts = Vec::new();
        let marker = leftovers::marker(root)?;
        body.marker = marker.digest().map(|d| d.to_hex());
        if marker != MarkerState::Absent && !self.allow_repeated {
            doubts.push("an earlier run failed and left a marker".to_owned());
        }
        match generation::locate(root) {
            Ok(Live::Never { .. }) => return Ok(doubts),
            Ok(Live::Present(_)) => {}
            Err(e) if passes_on(&e) => return Err(e),
            Err(e) => {
                doubts.push(e.message().to_owned());
                return Ok(doubts);
            }
        }
        let mut look = || -> Result<Option<String>> {
            let Some(reader) = ArchiveReader::open(root)? else {
                return Ok(None);
            };
            let head = reader.head()?;
            body.archive = ArchiveState::Open {
                archive_id: reader.generation().manifest.archive_id.clone(),
                generation: reader.generation().id.to_string(),
                commit: Count(head.commit),
                head: head.head.to_hex(),
                manifest: manifest_digest(root, &reader.generation().id, interrupt)?,
            };
            if !reader.schema_is_ours()? {
                return Ok(Some("the archive's schema text was changed".to_owned()));
            }
            Ok(match reader.agreement(coverage::tail(root)?.as_ref())? {
                Agreement::Equal | Agreement::Ahead { .. } => None,
                _ => Some("archive and coverage ledger do not agree".to_owned()),
            })
        };
        match look() {
            Ok(doubt) => doubts.extend(doubt),
            Err(e) if passes_on(&e) => return Err(e),
            Err(e) => doubts.push(e.message().to_owned()),
        }
        Ok(doubts)
    }
}

/// Whether an error says that nothing could be judged: no plan helps there.
fn passes_on(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::ForeignArchive
            | ErrorKind::SchemaTooNew
            | ErrorKind::MirrorTooNew
            | ErrorKind::LockBusy
            | ErrorKind::PermissionDenied
            | ErrorKind::Interrupted
            | ErrorKind::Terminated
    )
}

/// What is wrong with the mirror's index beside being behind.
fn index_problem(root: &Root, interrupt: &Interrupt) -> Result<Option<String>> {
    Ok(match MirrorReader::open(root)? {
        Some(mirror) => structure(&mirror, false, interrupt)?
            .0
            .map(|why| format!("the mirror's index: {why}")),
        None => None,
    })
}
