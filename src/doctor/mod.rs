//! Read-only checks. Nothing here can write: it never names a capability of `disk`.

pub mod check;
