//! Trying to write, without writing.

use super::failed;
use super::writer::ArchiveWriter;
use crate::error::Result;

impl ArchiveWriter<'_> {
    /// Writes a row in a transaction and rolls it back.
    ///
    /// # Errors
    /// `lock-busy`, `no-space`, `archive-corrupt`, `io`: the archive can't be written to.
    pub fn try_to_write(&mut self) -> Result<()> {
        let tried = self
            .conn
            .execute_batch("BEGIN IMMEDIATE; UPDATE meta SET value=value WHERE id=1");
        let ended = self.conn.execute_batch("ROLLBACK");
        tried
            .and(ended)
            .map_err(|e| failed(&self.conn, "write to", e))
    }
}
