//! Read-only checks.
