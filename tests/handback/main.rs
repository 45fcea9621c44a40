//! The session back in a person's hands: read, handed out as a page, put back where its harness
//! finds it, counted.

#[path = "../journey/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;

mod memory;
mod pages;
mod restore;
mod stats;
mod view;
