//! cursor
