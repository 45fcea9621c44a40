//! Read-only checks. Nothing here can write: it never names a capability of `disk`.

mod archived;
pub mod check;
pub mod scan;
