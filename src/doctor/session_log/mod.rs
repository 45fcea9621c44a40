//! Session logs: reading them where they lie, and planning the repair of one.

mod evidence;
mod log;
mod outcome;
mod planner;
mod read;
mod target;
pub(super) mod undo;

pub use evidence::{EvidenceKind, Found};
pub use outcome::After;
pub use planner::{LogRepairPlanner, Seen};
pub use read::{Examined, examine, open};
pub use target::Place;
