//! `doctor repair`: from what is found to the cheapest plan that is sufficient. Looks, never writes.

mod behind;
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

pub(super) use behind::Behind;
pub(super) use evidence::Evidence;
pub(super) use gates::{damage as damage_gate, places as places_gate};
pub(super) use holders::Holder;
pub(super) use leftovers::marker as marker_state;
pub(super) use lost::{Sought, lost};
pub(super) use planner::SPARE;
pub(super) use survey::{Survey, archive_state, open_state, promise_state};
