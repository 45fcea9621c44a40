//! From the files of harnesses to rows: capture first, parse second.

pub mod parse;
pub mod provider;
