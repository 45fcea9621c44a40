//! What a command may write without the writer lock: new records of the doctor's own.

use super::publish::{create_dir, publish};
use super::root::Root;
use crate::error::Result;

/// The right to create new files below `doctor/`. It can't replace, change or remove anything, so
/// it can't alter evidence.
#[derive(Debug, Clone, Copy)]
pub struct Journal<'r> {
    root: &'r Root,
}

impl<'r> Journal<'r> {
    /// The right to add to the doctor's records in `root`.
    #[must_use]
    pub fn new(root: &'r Root) -> Self {
        Journal { root }
    }

    /// Creates `doctor/<folder>/<name>` with `bytes`, and the folder when missing.
    ///
    /// # Errors
    /// `target-exists` when the name is taken; `no-space`, `permission-denied`, `io`.
    pub fn create(&self, folder: &str, name: &str, bytes: &[u8]) -> Result<String> {
        let folder = format!("doctor/{folder}");
        create_dir(self.root, &folder)?;
        let rel = format!("{folder}/{name}");
        publish(self.root, &rel, bytes, false)?;
        Ok(rel)
    }
}
