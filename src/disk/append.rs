//! A file that only grows.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};

/// A file open for appending. After [`AppendFile::sync`] returns, everything appended so far
/// survives a power cut. A failed write or sync poisons the handle: what the kernel then holds is
/// unknown, so nothing that follows may be acknowledged, and a second sync would lie.
#[derive(Debug)]
pub struct AppendFile {
    file: File,
    path: PathBuf,
    len: u64,
    poisoned: bool,
}

impl AppendFile {
    pub(super) fn new(file: File, path: PathBuf, len: u64) -> Self {
        AppendFile {
            file,
            path,
            len,
            poisoned: false,
        }
    }

    /// Bytes in the file, written by this handle or before it.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends `bytes`. Not durable before [`AppendFile::sync`].
    ///
    /// # Errors
    /// `no-space` or `io`; the file may then end in a part of `bytes`.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.check()?;
        if let Err(e) = self.file.write_all(bytes) {
            self.poisoned = true;
            return Err(Error::io("append to", &self.path, e));
        }
        self.len = self
            .len
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// Makes everything appended so far durable.
    ///
    /// # Errors
    /// `io`; the handle is then of no use any more.
    pub fn sync(&mut self) -> Result<()> {
        self.check()?;
        if let Err(e) = self.file.sync_data() {
            self.poisoned = true;
            return Err(Error::io("sync", &self.path, e));
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.poisoned {
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "{} failed before; it is not written further",
                    self.path.display()
                ),
            ));
        }
        Ok(())
    }
}
