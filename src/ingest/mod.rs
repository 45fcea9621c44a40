//! From the files of harnesses to rows: capture first, parse second.

mod beside;
pub mod capture;
pub mod feed;
pub mod group;
pub mod health;
pub mod index;
mod jobs;
pub mod look;
pub mod parse;
mod projection;
pub mod provider;
pub mod read;
pub mod rebuild;
mod scratch;
