//! SQLite databases as sources: the database, its `-wal` and its `-journal` are one capture.
//!
//! The database is never opened where it lies: an ordinary reader would fold the WAL into it and
//! delete it. A change is seen by sizes, times and the WAL's salts; the change counter in the
//! database's header misses commits that are only in the WAL.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;

use crate::error::{Error, ErrorKind, Result};
use crate::ingest::read::{self, RACY_NS};
use crate::sources::database::{MEMBERS, member_path};
use crate::sources::file::{Base, Stat};
use crate::sources::walk::FoundFile;
use crate::store::mirror::Shape;

/// A database above this size is captured again only after a while.
const LARGE: u64 = 64 << 20;
/// The while: one second for this many bytes.
const BYTES_PER_SECOND: u64 = 4 << 20;
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// How the content that begins with `head` is cut.
#[must_use]
pub fn shape_of(head: &[u8]) -> Shape {
    if head.len() < 18 || !head.starts_with(MAGIC) {
        return Shape::Text;
    }
    let page_size = match u32::from(u16::from_be_bytes([head[16], head[17]])) {
        1 => 65536,
        n => n,
    };
    if page_size.is_power_of_two() && (512..=65536).contains(&page_size) {
        Shape::Sqlite { page_size }
    } else {
        Shape::Text
    }
}

/// The other files of a database, as they are now: part of the gate. Sizes and times, and the
/// WAL's first 32 bytes, which hold its salts. Empty when there are none. One that can't be read
/// is named alone.
///
/// # Errors
/// `io`.
pub fn members_gate(found: &FoundFile) -> Result<String> {
    let mut gate = String::new();
    for suffix in MEMBERS {
        let (mut file, stat) = match open_member(found, suffix)? {
            Member::File(file, stat) => (file, stat),
            Member::Absent => continue,
            Member::Unread => {
                let _ = write!(gate, "{suffix} unread;");
                continue;
            }
        };
        let _ = write!(gate, "{suffix} {} {}", stat.size, stat.mtime_ns);
        if suffix == "-wal" {
            let mut head = [0u8; 32];
            let mut got = 0;
            while got < head.len() {
                match file.read(&mut head[got..]) {
                    Ok(0) => break,
                    Ok(n) => got += n,
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(Error::io("read", &member_path(&found.path, suffix), e)),
                }
            }
            let _ = write!(gate, " {}", crate::model::path::hex(&head[..got]));
        }
        gate.push(';');
    }
    Ok(gate)
}

/// Whether the database or a member was changed so recently that the next change may bear the
/// same time: then equal times say nothing.
///
/// # Errors
/// As [`members_gate`]; `not-found` when the database is gone.
pub fn is_racy(found: &FoundFile, now_ms: i64) -> Result<bool> {
    let mut newest = read::open(found)?.1.mtime_ns;
    for suffix in MEMBERS {
        if let Member::File(_, stat) = open_member(found, suffix)? {
            newest = newest.max(stat.mtime_ns);
        }
    }
    let now_ns = now_ms.saturating_mul(1_000_000);
    // A time from the future never passes; waiting for it would be for nothing.
    Ok((0..RACY_NS).contains(&now_ns.saturating_sub(newest)))
}

/// Another file of a database.
#[derive(Debug)]
pub enum Member {
    /// It is not there.
    Absent,
    /// It is there and is no regular file, or nothing that this user may read. The database is
    /// captured without it, and the walk says so.
    Unread,
    /// It, opened.
    File(File, Stat),
}

/// Opens a member.
///
/// # Errors
/// `io`.
pub fn open_member(found: &FoundFile, suffix: &str) -> Result<Member> {
    let path = member_path(&found.path, suffix);
    let rel = path.strip_prefix(&found.base).unwrap_or(&path);
    let file = match Base::open(&found.base)?.open_regular(rel) {
        Ok(file) => file,
        Err(e) => {
            return match e.kind() {
                ErrorKind::NotFound => Ok(Member::Absent),
                ErrorKind::Unsupported | ErrorKind::PermissionDenied => Ok(Member::Unread),
                _ => Err(e),
            };
        }
    };
    let stat = Stat::of(&file.metadata().map_err(|e| Error::io("stat", &path, e))?);
    Ok(Member::File(file, stat))
}

/// Whether a large database was captured so recently that it is left alone for now.
#[must_use]
pub fn too_soon(size: u64, captured_at_ms: i64, now_ms: i64) -> bool {
    if size < LARGE {
        return false;
    }
    let wait_ms = i64::try_from(size / BYTES_PER_SECOND)
        .unwrap_or(i64::MAX)
        .saturating_mul(1000);
    let age = now_ms.saturating_sub(captured_at_ms);
    // A capture from the future says that a clock was wrong, not that there is no need.
    (0..wait_ms).contains(&age)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_size_comes_from_the_header() {
        let mut head = MAGIC.to_vec();
        head.extend([0x10, 0x00]);
        assert_eq!(shape_of(&head), Shape::Sqlite { page_size: 4096 });
        head[16..18].copy_from_slice(&[0, 1]);
        assert_eq!(shape_of(&head), Shape::Sqlite { page_size: 65536 });
        head[16..18].copy_from_slice(&[0, 3]);
        assert_eq!(shape_of(&head), Shape::Text);
        assert_eq!(shape_of(b"{}"), Shape::Text);
    }

    #[test]
    fn only_large_databases_wait_and_a_wrong_clock_never_stops_capture() {
        assert!(!too_soon(LARGE - 1, 1000, 1001));
        assert!(too_soon(1 << 30, 1000, 1001));
        assert!(!too_soon(1 << 30, 1000, 1000 + 256_000));
        assert!(!too_soon(1 << 30, 1000, 999));
    }
}
