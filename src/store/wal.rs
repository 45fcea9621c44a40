//! Folding the WAL of a foreign database into an image of it in memory, so that it can be read
//! where nothing may be written.

const HEADER: usize = 32;
const FRAME: usize = 24;

/// Puts the pages of every commit in `wal` where they belong in `image`, as SQLite's recovery would:
/// frames count as long as their salts and checksums hold, up to the last commit. The image is
/// marked as one without a WAL. One that is no database stays as it is.
pub fn fold(image: &mut Vec<u8>, wal: &[u8]) {
    if let Some((pages, size, page_size)) = committed(wal) {
        let bytes = page_size.saturating_mul(size);
        image.resize(bytes, 0);
        for (number, at) in pages {
            let to = number.saturating_sub(1).saturating_mul(page_size);
            let content = wal.get(at..at.saturating_add(page_size));
            let place = image.get_mut(to..to.saturating_add(page_size));
            if let (Some(place), Some(content)) = (place, content) {
                place.copy_from_slice(content);
            }
        }
    }
    // Read and write version: 1 is the rollback journal.
    if image.starts_with(b"SQLite format 3\0")
        && let Some(versions) = image.get_mut(18..20)
    {
        versions.fill(1);
    }
}

/// Number and place in the WAL of every committed page in order, pages of the database after the
/// last commit, page size.
type Committed = (Vec<(usize, usize)>, usize, usize);

fn committed(wal: &[u8]) -> Option<Committed> {
    let big = match number(wal, 0)? {
        0x377f_0682 => false,
        0x377f_0683 => true,
        _ => return None,
    };
    let page_size = usize::try_from(number(wal, 8)?).ok()?;
    if !page_size.is_power_of_two() || !(512..=65536).contains(&page_size) {
        return None;
    }
    let mut sum = checksum(wal.get(..24)?, (0, 0), big);
    if sum != (number(wal, 24)?, number(wal, 28)?) {
        return None;
    }
    let salts = wal.get(16..24)?;
    let (mut pages, mut sure, mut size) = (Vec::new(), 0, 0);
    let mut at = HEADER;
    while let Some(frame) = wal.get(at..at.saturating_add(FRAME + page_size)) {
        let (head, content) = frame.split_at(FRAME);
        if head.get(8..16) != Some(salts) {
            break;
        }
        sum = checksum(content, checksum(head.get(..8)?, sum, big), big);
        if sum != (number(head, 16)?, number(head, 20)?) {
            break;
        }
        pages.push((usize::try_from(number(head, 0)?).ok()?, at + FRAME));
        let after = usize::try_from(number(head, 4)?).ok()?;
        if after > 0 {
            (sure, size) = (pages.len(), after);
        }
        at += FRAME + page_size;
    }
    pages.truncate(sure);
    // A size that no page of the WAL and no database of this length explains is none of SQLite's.
    (sure > 0 && size <= (1 << 20)).then_some((pages, size, page_size))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(part.try_into().ok()?))
}

pub(super) fn checksum(bytes: &[u8], (mut a, mut b): (u32, u32), big: bool) -> (u32, u32) {
    for pair in bytes.chunks_exact(8) {
        let word = |at: usize| {
            let mut four = [0u8; 4];
            four.copy_from_slice(&pair[at..at + 4]);
            if big {
                u32::from_be_bytes(four)
            } else {
                u32::from_le_bytes(four)
            }
        };
        a = a.wrapping_add(word(0)).wrapping_add(b);
        b = b.wrapping_add(word(4)).wrapping_add(a);
    }
    (a, b)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::store::foreign::ForeignDb;
    use rusqlite::Connection;

    fn rows(image: &[u8]) -> Vec<String> {
        let db = ForeignDb::from_image(image, std::path::Path::new("x.db")).unwrap();
        let mut out = Vec::new();
        db.keys("SELECT x FROM t ORDER BY x", &[], &mut out)
            .unwrap();
        out
    }

    #[test]
    fn committed_rows_of_the_wal_are_seen_and_torn_ones_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(x); \
             INSERT INTO t VALUES(1); PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO t VALUES(2);",
        )
        .unwrap();
        let db = std::fs::read(&path).unwrap();
        let wal = std::fs::read(dir.path().join("x.db-wal")).unwrap();
        conn.execute_batch("INSERT INTO t VALUES(3)").unwrap();
        let longer = std::fs::read(dir.path().join("x.db-wal")).unwrap();
        let folded = |wal: &[u8]| {
            let mut image = db.clone();
            fold(&mut image, wal);
            rows(&image)
        };
        assert_eq!(folded(b""), ["1"]);
        assert_eq!(folded(&wal), ["1", "2"]);
        assert_eq!(folded(&longer), ["1", "2", "3"]);
        assert_eq!(folded(&longer[..longer.len() - 1]), ["1", "2"]);
        let mut changed = longer.clone();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        assert_eq!(folded(&changed), ["1", "2"]);
        let mut none = b"no database".to_vec();
        fold(&mut none, &longer[..40]);
        assert_eq!(none, b"no database");
    }
}
