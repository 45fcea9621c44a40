//! Reading one source so that what was read is one state of it.

use std::fs::File;
use std::io::Read;

use crate::error::{Error, ErrorKind, Result};
use crate::sources::file::{Base, Stat};
use crate::sources::walk::FoundFile;

/// How often a source that changes under the reader is read again.
pub const TRIES: u32 = 5;

/// Opens the file of `found`; its metadata is taken from the descriptor, not from the name.
pub fn open(found: &FoundFile) -> Result<(File, Stat)> {
    let rel = found.path.strip_prefix(&found.base).map_err(|_| {
        Error::new(
            ErrorKind::Internal,
            format!("{} is not below its base folder", found.path.display()),
        )
    })?;
    let file = Base::open(&found.base)?.open_regular(rel)?;
    let meta = file
        .metadata()
        .map_err(|e| Error::io("stat", &found.path, e))?;
    Ok((file, Stat::of(&meta)))
}

/// The first bytes of a source, at most `len`.
pub fn beginning(found: &FoundFile, len: u64) -> Result<Vec<u8>> {
    let (file, _) = open(found)?;
    let mut bytes = Vec::new();
    file.take(len)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io("read", &found.path, e))?;
    Ok(bytes)
}

/// Reads exactly the bytes a file had when it was opened, and fails at their end when the file
/// shrank or was written in place meanwhile. One that only grew is fine: its next state is the
/// next capture.
pub struct StableReader<'a> {
    file: File,
    before: Stat,
    left: u64,
    strict: bool,
    unchanged: &'a dyn Fn() -> Result<bool>,
}

impl std::fmt::Debug for StableReader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StableReader")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl<'a> StableReader<'a> {
    /// A reader of `file`. With `strict` unset nothing is compared: the last resort for a source
    /// that never holds still. `unchanged` is asked at the end whether the other files of the
    /// capture are as they were.
    pub fn new(
        file: File,
        before: Stat,
        strict: bool,
        unchanged: &'a dyn Fn() -> Result<bool>,
    ) -> Self {
        StableReader {
            file,
            before,
            left: before.size,
            strict,
            unchanged,
        }
    }

    fn check(&self) -> std::io::Result<()> {
        if !self.strict {
            return Ok(());
        }
        let now = Stat::of(&self.file.metadata()?);
        let in_place = now.size == self.before.size && now.mtime_ns != self.before.mtime_ns;
        if now.size < self.before.size || in_place || self.left > 0 {
            return Err(moved());
        }
        if !(self.unchanged)().map_err(std::io::Error::other)? {
            return Err(moved());
        }
        Ok(())
    }
}

impl Read for StableReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let want = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(buf.len());
        if want == 0 {
            if self.left == 0 && !buf.is_empty() {
                self.check()?;
            }
            return Ok(0);
        }
        let got = loop {
            match self.file.read(&mut buf[..want]) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if got == 0 {
            self.check()?;
        }
        self.left -= got as u64;
        Ok(got)
    }
}

/// The mark by which a retry knows its reason.
#[derive(Debug, thiserror::Error)]
#[error("the file changed while it was read")]
struct Moved;

fn moved() -> std::io::Error {
    std::io::Error::other(Moved)
}

/// Whether an error, or one that caused it, is that a source changed while it was read.
pub fn is_moved(error: &Error) -> bool {
    let mut at: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
    while let Some(e) = at {
        if e.is::<Moved>() {
            return true;
        }
        at = match e
            .downcast_ref::<std::io::Error>()
            .and_then(|io| io.get_ref())
        {
            Some(inner) => Some(inner),
            None => e.source(),
        };
    }
    false
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::Path;

    fn reader_over(
        change: impl Fn(&Path),
        strict: bool,
    ) -> (std::io::Result<Vec<u8>>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = File::open(&path).unwrap();
        let before = Stat::of(&file.metadata().unwrap());
        let same = || Ok(true);
        let mut r = StableReader::new(file, before, strict, &same);
        let mut first = [0u8; 4];
        r.read_exact(&mut first).unwrap();
        change(&path);
        let mut rest = Vec::new();
        let end = r.read_to_end(&mut rest).map(|_| rest);
        (end, dir)
    }

    fn is_mark(e: std::io::Error) -> bool {
        is_moved(&Error::io("read", Path::new("/s"), e))
    }

    #[test]
    fn growth_is_fine_and_not_read() {
        let (got, _d) = reader_over(
            |p| {
                let mut f = std::fs::OpenOptions::new().append(true).open(p).unwrap();
                f.write_all(b"more").unwrap();
            },
            true,
        );
        assert_eq!(got.unwrap(), b"456789");
    }

    #[test]
    fn shrinking_and_writing_in_place_are_noticed() {
        let cut = |p: &Path| {
            std::fs::OpenOptions::new()
                .write(true)
                .open(p)
                .unwrap()
                .set_len(6)
                .unwrap();
        };
        assert!(is_mark(reader_over(cut, true).0.unwrap_err()));
        assert_eq!(reader_over(cut, false).0.unwrap(), b"45");
        let over = |p: &Path| {
            let f = std::fs::OpenOptions::new().write(true).open(p).unwrap();
            (&f).write_all(b"abc").unwrap();
            let t = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(5);
            f.set_modified(t).unwrap();
        };
        assert!(is_mark(reader_over(over, true).0.unwrap_err()));
    }
}
