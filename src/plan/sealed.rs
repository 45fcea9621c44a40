//! A sealed plan, and the approval that lets it be applied.

use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{Body, Draft, Gate, GateResult, GateVerdict, Notes};

use super::fingerprint::Fingerprint;
use super::ground::{Ground, Planner};
use super::room;

/// A plan whose fingerprint covers it. Made by [`Plan::make`] alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    draft: Draft,
    fingerprint: Fingerprint,
}

impl Plan {
    /// Asks the planner, adds the room that the plan needs, and seals it.
    ///
    /// # Errors
    /// What the planner says; `io`; `internal` when it can't be put in canonical form.
    pub(super) fn make(planner: &dyn Planner, ground: &Ground<'_>) -> Result<Plan> {
        let mut draft = planner.plan(ground)?;
        let required = room::needed(ground.root(), &draft.body, draft.notes.required_bytes)?;
        draft.notes.required_bytes = required;
        if required > 0 {
            draft.gates.push(GateResult {
                gate: Gate::Storage,
                verdict: GateVerdict::AtApply,
                reason: format!("{required} bytes must be free when it is applied"),
            });
        }
        let fingerprint = Fingerprint::of(&draft.body)?;
        Ok(Plan { draft, fingerprint })
    }

    /// What the fingerprint covers.
    #[must_use]
    pub fn body(&self) -> &Body {
        &self.draft.body
    }

    /// What the gates say.
    #[must_use]
    pub fn gates(&self) -> &[GateResult] {
        &self.draft.gates
    }

    /// What else is said.
    #[must_use]
    pub fn notes(&self) -> &Notes {
        &self.draft.notes
    }

    /// The fingerprint.
    #[must_use]
    pub fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Whether there is nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.draft.body.actions.is_empty()
    }

    /// The error of a plan with a shut gate; none when it may be applied.
    #[must_use]
    pub fn blocked(&self) -> Option<Error> {
        shut(&self.draft.gates).map(|gate| {
            let mut error = Error::new(
                ErrorKind::Blocked,
                format!(
                    "a safety gate is shut ({}): {}",
                    word(gate.gate),
                    gate.reason
                ),
            )
            .with_context("gate", word(gate.gate));
            if let Some(argv) = &self.draft.notes.instead {
                error = error
                    .with_hint("Nothing was changed. This is what to run instead:")
                    .with_hint_argv(argv.clone());
            } else {
                error = error.with_hint("Nothing was changed.");
            }
            error
        })
    }
}

/// The first gate that is shut.
#[must_use]
pub fn shut(gates: &[GateResult]) -> Option<&GateResult> {
    gates.iter().find(|g| g.verdict == GateVerdict::Block)
}

fn word(gate: Gate) -> String {
    serde_json::to_value(gate)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// What the operator approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// The plan with this fingerprint, which was shown.
    Shown {
        /// The fingerprint.
        fingerprint: Fingerprint,
        /// The body that was shown with it, where the operator kept it: lets a refusal say what moved.
        covered: Option<serde_json::Value>,
    },
    /// Whatever only makes derived data anew.
    Predeclared,
}
