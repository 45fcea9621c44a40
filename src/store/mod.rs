//! The formats on disk: mirror, archive, ledgers. Reading is open; writing needs a `Capture`.

pub mod layout;
pub mod mirror;
pub mod sqlite;
