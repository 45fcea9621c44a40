//! Read-only checks and planners. Nothing here can write: it never names a capability of `disk`.

mod archived;
pub mod backup_plan;
pub mod backups;
pub mod check;
mod losses;
pub mod migration;
pub mod repair;
pub mod scan;
pub mod session_log;
pub mod undo;
