//! Reading one source so that what was read is one state of it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;

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

/// A source changed this shortly before it was opened is taken to be in use.
const LIVE_NS: i64 = 2_000_000_000;
/// Two changes this close together may bear the same time: the file system's clock is coarse.
pub const RACY_NS: i64 = 20_000_000;

/// How a source is watched while it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// Not at all: the last resort for a source that never holds still.
    None,
    /// By its metadata: any change means that it moved.
    Metadata,
    /// By its content: one that grew, or whose time can't tell, is read a second time, since an
    /// append and a rewrite look the same from outside.
    Content {
        /// Whether it was changed so recently that the next change may bear the same time.
        racy: bool,
    },
}

impl Care {
    /// The care for a source that looked like `before` at `now_ms`, at the `tries`-th try. A
    /// source that was quiet is not hashed for a change that rarely comes: if it comes, the next
    /// try does.
    #[must_use]
    pub fn of(before: &Stat, now_ms: i64, tries: u32) -> Care {
        let age = now_ms
            .saturating_mul(1_000_000)
            .saturating_sub(before.mtime_ns);
        if tries > TRIES {
            Care::None
        } else if tries == 1 && age >= LIVE_NS {
            Care::Metadata
        } else {
            Care::Content {
                racy: age < RACY_NS,
            }
        }
    }
}

/// Reads exactly the bytes a file had when it was opened, and fails at their end when they were
/// no single state of it. One that only grew is fine: its next state is the next capture.
pub struct StableReader<'a> {
    file: File,
    before: Stat,
    left: u64,
    care: Care,
    /// Of the bytes that were handed out, when they are compared at the end.
    hash: Option<Box<blake3::Hasher>>,
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
    /// A reader of `file`. `unchanged` is asked at the end whether the other files of the capture
    /// are as they were.
    pub fn new(
        file: File,
        before: Stat,
        care: Care,
        unchanged: &'a dyn Fn() -> Result<bool>,
    ) -> Self {
        let hash = matches!(care, Care::Content { .. }).then(Box::default);
        StableReader {
            file,
            before,
            left: before.size,
            care,
            hash,
            unchanged,
        }
    }

    fn check(&self) -> std::io::Result<()> {
        if self.care == Care::None {
            return Ok(());
        }
        let now = Stat::of(&self.file.metadata()?);
        let (same_size, same_time) = (
            now.size == self.before.size,
            now.mtime_ns == self.before.mtime_ns,
        );
        if now.size < self.before.size || (same_size && !same_time) || self.left > 0 {
            return Err(moved());
        }
        let doubtful = !same_size || self.care == (Care::Content { racy: true });
        if doubtful && !self.is_same_again()? {
            return Err(moved());
        }
        if !(self.unchanged)().map_err(std::io::Error::other)? {
            return Err(moved());
        }
        Ok(())
    }

    /// Whether a second reading gives what the first one gave.
    fn is_same_again(&self) -> std::io::Result<bool> {
        let Some(first) = &self.hash else {
            return Ok(false);
        };
        let mut again = blake3::Hasher::new();
        let mut buf = vec![0u8; 64 << 10];
        let mut at = 0;
        while at < self.before.size {
            let want = usize::try_from(self.before.size - at)
                .unwrap_or(usize::MAX)
                .min(buf.len());
            match self.file.read_at(&mut buf[..want], at) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    again.update(&buf[..n]);
                    at += n as u64;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(again.finalize() == first.finalize())
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
        if let Some(hash) = &mut self.hash {
            hash.update(&buf[..got]);
        }
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
    error.is_caused_by::<Moved>()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::Path;

    fn reader_over(
        change: impl Fn(&Path),
        care: Care,
    ) -> (std::io::Result<Vec<u8>>, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        std::fs::write(&path, b"0123456789").unwrap();
        let file = File::open(&path).unwrap();
        let before = Stat::of(&file.metadata().unwrap());
        let same = || Ok(true);
        let mut r = StableReader::new(file, before, care, &same);
        let mut first = [0u8; 4];
        r.read_exact(&mut first).unwrap();
        change(&path);
        let mut rest = Vec::new();
        let end = r.read_to_end(&mut rest).map(|_| rest);
        (end, dir)
    }

    const CONTENT: Care = Care::Content { racy: false };

    fn is_mark(e: std::io::Error) -> bool {
        is_moved(&Error::io("read", Path::new("/s"), e))
    }

    fn open(path: &Path) -> File {
        std::fs::OpenOptions::new().write(true).open(path).unwrap()
    }

    #[test]
    fn growth_is_fine_and_not_read() {
        let grow = |p: &Path| {
            let mut f = std::fs::OpenOptions::new().append(true).open(p).unwrap();
            f.write_all(b"more").unwrap();
        };
        assert_eq!(reader_over(grow, CONTENT).0.unwrap(), b"456789");
        // One that was quiet is read again, with more care.
        assert!(is_mark(reader_over(grow, Care::Metadata).0.unwrap_err()));
    }

    #[test]
    fn a_rewrite_that_made_it_longer_is_no_growth() {
        let rewrite = |p: &Path| open(p).write_all(b"abcdefghijklmnop").unwrap();
        for care in [CONTENT, Care::Metadata] {
            assert!(is_mark(reader_over(rewrite, care).0.unwrap_err()));
        }
        assert_eq!(reader_over(rewrite, Care::None).0.unwrap(), b"efghij");
    }

    #[test]
    fn a_change_within_one_tick_is_seen_by_content() {
        let over = |p: &Path| {
            let f = open(p);
            let time = f.metadata().unwrap().modified().unwrap();
            (&f).write_all(b"abc").unwrap();
            f.set_modified(time).unwrap();
        };
        assert!(is_mark(
            reader_over(over, Care::Content { racy: true })
                .0
                .unwrap_err()
        ));
        assert_eq!(
            reader_over(|_| {}, Care::Content { racy: true }).0.unwrap(),
            b"456789"
        );
    }

    #[test]
    fn shrinking_and_writing_in_place_are_noticed() {
        let cut = |p: &Path| open(p).set_len(6).unwrap();
        let over = |p: &Path| {
            let f = open(p);
            (&f).write_all(b"abc").unwrap();
            let t = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(5);
            f.set_modified(t).unwrap();
        };
        for care in [CONTENT, Care::Metadata] {
            assert!(is_mark(reader_over(cut, care).0.unwrap_err()));
            assert!(is_mark(reader_over(over, care).0.unwrap_err()));
        }
        assert_eq!(reader_over(cut, Care::None).0.unwrap(), b"45");
    }

    #[test]
    fn care_follows_from_the_time_of_the_last_change() {
        let at = |mtime_ms: i64| Stat {
            dev: 1,
            ino: 1,
            size: 1,
            mtime_ns: mtime_ms * 1_000_000,
        };
        assert_eq!(Care::of(&at(0), 10_000, 1), Care::Metadata);
        assert_eq!(Care::of(&at(0), 10_000, 2), CONTENT);
        assert_eq!(Care::of(&at(9_000), 10_000, 1), CONTENT);
        assert_eq!(
            Care::of(&at(9_990), 10_000, 1),
            Care::Content { racy: true }
        );
        assert_eq!(
            Care::of(&at(11_000), 10_000, 1),
            Care::Content { racy: true }
        );
        assert_eq!(Care::of(&at(9_990), 10_000, TRIES + 1), Care::None);
    }
}
