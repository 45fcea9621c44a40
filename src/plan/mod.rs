//! The engine: no change without a plan that was shown, fingerprinted and approved.
//!
//! A planner looks and says what it would do; it can't write. The plan is sealed by a fingerprint over
//! the request, the state and the actions. An apply takes the writer lock, finishes what a killed
//! run left, plans again, and goes on only if the fingerprint is the one that was approved. There is
//! one interpreter for the closed list of actions, and so one place for locks, gates, intents,
//! receipts and what happens after a crash.

mod apply;
mod fingerprint;
mod ground;
mod loss;
mod perform;
mod rehearse;
mod room;
mod sealed;
mod session_log;
mod stage;

pub use apply::{Applied, Ended, apply, migrate};
pub use fingerprint::{Fingerprint, covered_in, moved};
pub use ground::{Ground, Planner};
pub use rehearse::{Rehearsal, rehearse};
pub use sealed::{Approval, Plan, shut};

use crate::env::Env;
use crate::error::Result;
use crate::model::watch::Watch;

/// Makes the plan, and nothing else: not a byte is written.
///
/// # Errors
/// What the planner says; a state that can't be planned for is such an error.
pub fn plan(env: &Env, planner: &dyn Planner, watch: Watch<'_>) -> Result<Plan> {
    let open = Ground::open(env, watch)?;
    let ground = open.ground();
    if let Some(root) = ground.root() {
        ground::refuse_unsafe(root)?;
    }
    Plan::make(planner, &ground)
}
