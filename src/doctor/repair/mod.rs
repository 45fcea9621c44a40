//! `doctor repair`: from what is found to the cheapest plan that is sufficient. Looks, never writes.

mod beside;
mod evidence;
mod fix;
mod gates;
mod holders;
mod ladder;
mod leftovers;
mod lost;
mod names;
mod planner;
mod rows;
mod survey;

pub use fix::FixPlanner;
pub use planner::RepairPlanner;

pub(super) use evidence::Evidence;
pub(super) use holders::Holder;
pub(super) use survey::{Survey, archive_state, open_state, promise_state};
