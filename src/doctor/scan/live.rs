//! What is left of an archived source where its harness had it.

use std::io::Read;
use std::path::Path;

use crate::error::{ErrorKind, Result};
use crate::model::conversation::ArchivedSource;
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::sources::file::{Base, Stat};
use crate::store::mirror::Head;

const BLOCK: usize = 256 << 10;

/// What is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::doctor) enum Left {
    /// All of what the archive read, perhaps with more behind it.
    All,
    /// A file that does not begin with what the archive read.
    Other,
    /// Nothing.
    Gone,
    /// It can't be looked at.
    Unknown,
}

/// The size and time of what lies at `path`: `Ok(None)` when no regular file does.
pub(super) fn stat(path: &Path) -> std::result::Result<Option<Stat>, ()> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() => Ok(Some(Stat::of(&meta))),
        Ok(_) => Ok(None),
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(_) => Err(()),
    }
}

/// Whether the gate of `head` is that of the file as it is now. Device and inode are left out: a
/// copied or remounted home is no news.
pub(super) fn same(head: &Head, now: &Stat) -> bool {
    (head.gate.size, head.gate.mtime_ns) == (now.size, now.mtime_ns)
}

/// Compares the live file with the capture that the archive read. Only a file that changed since
/// its newest capture is read: logs grow at their end, so the old bytes are its beginning.
///
/// # Errors
/// When an end was asked for.
pub(in crate::doctor) fn left(
    source: &ArchivedSource,
    head: Option<&Head>,
    interrupt: &Interrupt,
) -> Result<Left> {
    let now = match stat(&source.path) {
        Ok(Some(now)) => now,
        Ok(None) => return Ok(Left::Gone),
        Err(()) => return Ok(Left::Unknown),
    };
    let read_last = (source.parsed_seq, source.captured_hash);
    if head.is_some_and(|h| (h.seq, h.hash) == read_last && same(h, &now)) {
        return Ok(Left::All);
    }
    if now.size < source.captured_len {
        return Ok(Left::Other);
    }
    let (len, hash) = (source.captured_len, source.captured_hash);
    begins_with(&source.path, len, hash, interrupt)
}

fn begins_with(path: &Path, len: u64, hash: Digest, interrupt: &Interrupt) -> Result<Left> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Left::Unknown);
    };
    let opened = Base::open(parent).and_then(|base| base.open_regular(Path::new(name)));
    let file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Left::Gone),
        Err(_) => return Ok(Left::Unknown),
    };
    let mut hasher = blake3::Hasher::new();
    let mut rest = file.take(len);
    let mut block = vec![0; BLOCK];
    loop {
        interrupt.check()?;
        match rest.read(&mut block) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(block.get(..n).unwrap_or_default());
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return Ok(Left::Unknown),
        }
    }
    Ok(if Digest::from(hasher.finalize()) == hash {
        Left::All
    } else {
        Left::Other
    })
}
