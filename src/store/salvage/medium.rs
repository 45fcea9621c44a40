//! The bytes of a file, read by position.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A piece that is given up by itself when a range can't be read.
const SECTOR: usize = 4096;

/// Where bytes come from.
#[derive(Debug)]
pub enum Medium {
    /// A file, of the length it had when it was opened.
    File(File, u64),
    /// Bytes in memory.
    Memory(Vec<u8>),
}

impl Medium {
    /// The bytes of an open file.
    ///
    /// # Errors
    /// When its length can't be read.
    pub fn of(file: File) -> io::Result<Medium> {
        let len = file.metadata()?.len();
        Ok(Medium::File(file, len))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Medium::File(_, len) => *len,
            Medium::Memory(bytes) => bytes.len() as u64,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` from `at` on. What lies behind the end or can't be read is zero: a bad sector
    /// costs what lies in it.
    pub fn read(&self, at: u64, buf: &mut [u8]) {
        match self {
            Medium::Memory(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let n = buf.len().min(bytes.len() - from);
                let (head, rest) = buf.split_at_mut(n);
                head.copy_from_slice(&bytes[from..from + n]);
                rest.fill(0);
            }
            Medium::File(file, _) => {
                if fill(file, at, buf).is_err() {
                    for (i, piece) in buf.chunks_mut(SECTOR).enumerate() {
                        let at = at.saturating_add((i * SECTOR) as u64);
                        if fill(file, at, piece).is_err() {
                            piece.fill(0);
                        }
                    }
                }
            }
        }
    }
}

fn fill(file: &File, at: u64, buf: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|r| !r.is_empty()) {
        match file.read_at(rest, at.saturating_add(done as u64)) {
            Ok(0) => {
                rest.fill(0);
                return Ok(());
            }
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
