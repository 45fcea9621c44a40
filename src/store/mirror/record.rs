//! One record of a pack: an object with everything needed to find and check it alone.
//!
//! ```text
//! marker 4 | kind and encoding 1 | plain length u32 | stored length u32 | digest 32 | check 8 | payload
//! ```
//!
//! Numbers are little-endian. `check` is the start of the BLAKE3 of what precedes it and the
//! payload, so damage is seen without decompressing; the digest names the plain bytes. A batch of
//! records ends with a commit record:
//!
//! ```text
//! marker 8 | records u32 | bytes of the batch u32 | check 8
//! ```
//!
//! whose check covers its own fields and the checks of all records of the batch.

use std::cell::RefCell;

use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;

/// Begins every record. No byte of it is ASCII, so text that was stored plain can't hold it.
pub(super) const MARKER: [u8; 4] = [0xCA, 0x55, 0x0B, 0x9D];
/// Begins every commit record. Longer than a record's: a search for it must not err.
pub(super) const COMMIT_MARKER: [u8; 8] = [0xCA, 0x55, 0xE7, 0xD0, 0x8F, 0x1B, 0xC3, 0xA6];
/// Bytes of a record before its payload.
pub(super) const HEADER: usize = 53;
/// Bytes of a commit record.
pub(super) const COMMIT: usize = 24;
/// Longest object, plain.
pub(super) const MAX_PLAIN: usize = 4 << 20;

const LEVEL: i32 = 3;
const ZSTD: u8 = 0x10;

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Bytes of contents.
    Chunk,
    /// How a content is made.
    Recipe,
}

impl Kind {
    pub(super) const fn code(self) -> u8 {
        match self {
            Kind::Chunk => 1,
            Kind::Recipe => 2,
        }
    }

    pub(super) const fn from_code(code: u8) -> Option<Kind> {
        match code {
            1 => Some(Kind::Chunk),
            2 => Some(Kind::Recipe),
            _ => None,
        }
    }
}

/// The first eight bytes of a BLAKE3.
pub(super) type Check = [u8; 8];

/// An object as it is written to a pack.
#[derive(Debug)]
pub(super) struct Sealed {
    pub kind: Kind,
    pub digest: Digest,
    pub plain_len: u32,
    pub check: Check,
    /// Header and payload.
    pub bytes: Vec<u8>,
}

impl Sealed {
    pub(super) fn stored_len(&self) -> u32 {
        u32::try_from(self.bytes.len().saturating_sub(HEADER)).unwrap_or(u32::MAX)
    }
}

thread_local! {
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

fn internal(what: &str, e: std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("{what}: {e}")).with_source(e)
}

/// Compresses behind `out`; false when that would not be shorter than `plain`, `out` is then as
/// it was.
fn compress_behind(plain: &[u8], out: &mut Vec<u8>) -> Result<bool> {
    let before = out.len();
    COMPRESSOR.with(|slot| {
        let mut slot = slot.borrow_mut();
        let compressor = match &mut *slot {
            Some(c) => c,
            none => none.insert(
                zstd::bulk::Compressor::new(LEVEL)
                    .map_err(|e| internal("the compressor can't be made", e))?,
            ),
        };
        let bound = zstd::zstd_safe::compress_bound(plain.len());
        out.resize(before + bound, 0);
        let written = compressor
            .compress_to_buffer(plain, &mut out[before..])
            .map_err(|e| internal("an object can't be compressed", e))?;
        let shorter = written < plain.len();
        out.truncate(if shorter { before + written } else { before });
        Ok(shorter)
    })
}

/// Makes the record of an object whose digest is known.
pub(super) fn seal_as(kind: Kind, digest: Digest, plain: &[u8]) -> Result<Sealed> {
    let plain_len = u32::try_from(plain.len())
        .ok()
        .filter(|_| plain.len() <= MAX_PLAIN)
        .ok_or_else(|| Error::new(ErrorKind::Internal, "an object is longer than allowed"))?;
    let mut bytes = vec![0u8; HEADER];
    let zstd = compress_behind(plain, &mut bytes)?;
    if !zstd {
        bytes.extend_from_slice(plain);
    }
    bytes.shrink_to_fit();
    let stored_len = u32::try_from(bytes.len() - HEADER).unwrap_or(u32::MAX);
    bytes[0..4].copy_from_slice(&MARKER);
    bytes[4] = kind.code() | if zstd { ZSTD } else { 0 };
    bytes[5..9].copy_from_slice(&plain_len.to_le_bytes());
    bytes[9..13].copy_from_slice(&stored_len.to_le_bytes());
    bytes[13..45].copy_from_slice(&digest.0);
    let check = check_of(&bytes[..45], &bytes[HEADER..]);
    bytes[45..HEADER].copy_from_slice(&check);
    Ok(Sealed {
        kind,
        digest,
        plain_len,
        check,
        bytes,
    })
}

/// Makes the record of an object.
pub(super) fn seal(kind: Kind, plain: &[u8]) -> Result<Sealed> {
    seal_as(kind, Digest::of(plain), plain)
}

fn check_of(head: &[u8], payload: &[u8]) -> Check {
    let mut hasher = blake3::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    short(&hasher.finalize())
}

pub(super) fn short(hash: &blake3::Hash) -> Check {
    let mut out = Check::default();
    out.copy_from_slice(&hash.as_bytes()[..8]);
    out
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut le = [0u8; 4];
    if let Some(from) = bytes.get(at..at + 4) {
        le.copy_from_slice(from);
    }
    u32::from_le_bytes(le)
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub kind: Kind,
    pub zstd: bool,
    pub plain_len: u32,
    pub stored_len: u32,
    pub digest: Digest,
    pub check: Check,
}

impl Header {
    /// Bytes of the whole record.
    pub(super) fn record_len(&self) -> u64 {
        HEADER as u64 + u64::from(self.stored_len)
    }
}

/// Reads a header; `None` when it is none, or says lengths that no writer writes.
pub(super) fn parse_header(bytes: &[u8]) -> Option<Header> {
    if bytes.len() < HEADER || bytes[..4] != MARKER || bytes[4] & !(ZSTD | 0x0f) != 0 {
        return None;
    }
    let kind = Kind::from_code(bytes[4] & 0x0f)?;
    let zstd = bytes[4] & ZSTD != 0;
    let (plain_len, stored_len) = (u32_at(bytes, 5), u32_at(bytes, 9));
    let fits = usize::try_from(plain_len).is_ok_and(|n| n <= MAX_PLAIN);
    let lens = if zstd {
        stored_len < plain_len
    } else {
        stored_len == plain_len
    };
    if !fits || !lens {
        return None;
    }
    let mut digest = Digest::default();
    digest.0.copy_from_slice(&bytes[13..45]);
    let mut check = Check::default();
    check.copy_from_slice(&bytes[45..HEADER]);
    Some(Header {
        kind,
        zstd,
        plain_len,
        stored_len,
        digest,
        check,
    })
}

/// Whether a whole record (header and payload) is as it was written.
pub(super) fn intact(header: &Header, record: &[u8]) -> bool {
    record.len() as u64 == header.record_len()
        && check_of(&record[..45], &record[HEADER..]) == header.check
}

/// The plain bytes of a whole record; the reason when it is damaged.
pub(super) fn open(header: &Header, record: &[u8]) -> Result<Vec<u8>, &'static str> {
    if !intact(header, record) {
        return Err("its checksum does not match");
    }
    let payload = &record[HEADER..];
    let plain_len = usize::try_from(header.plain_len).unwrap_or(0);
    let plain = if header.zstd {
        decompress(payload, plain_len).ok_or("it can't be decompressed")?
    } else {
        payload.to_vec()
    };
    if plain.len() != plain_len {
        return Err("its length does not match");
    }
    if Digest::of(&plain) != header.digest {
        return Err("its content does not match its name");
    }
    Ok(plain)
}

fn decompress(payload: &[u8], plain_len: usize) -> Option<Vec<u8>> {
    DECOMPRESSOR.with(|slot| {
        let mut slot = slot.borrow_mut();
        let decompressor = match &mut *slot {
            Some(d) => d,
            none => {
                let mut d = zstd::bulk::Decompressor::new().ok()?;
                d.set_parameter(zstd::zstd_safe::DParameter::WindowLogMax(27))
                    .ok()?;
                none.insert(d)
            }
        };
        let mut plain = vec![0u8; plain_len];
        let n = decompressor
            .decompress_to_buffer(payload, &mut plain[..])
            .ok()?;
        (n == plain_len).then_some(plain)
    })
}

/// What a commit record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Commit {
    pub records: u32,
    pub bytes: u32,
    pub check: Check,
}

/// The check of a commit record over a batch whose records' checks went into `checks`.
pub(super) fn commit_check(records: u32, bytes: u32, checks: &blake3::Hasher) -> Check {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&COMMIT_MARKER);
    hasher.update(&records.to_le_bytes());
    hasher.update(&bytes.to_le_bytes());
    hasher.update(checks.finalize().as_bytes());
    short(&hasher.finalize())
}

/// The commit record of a batch.
pub(super) fn commit(records: u32, bytes: u32, checks: &blake3::Hasher) -> [u8; COMMIT] {
    let mut out = [0u8; COMMIT];
    out[..8].copy_from_slice(&COMMIT_MARKER);
    out[8..12].copy_from_slice(&records.to_le_bytes());
    out[12..16].copy_from_slice(&bytes.to_le_bytes());
    out[16..].copy_from_slice(&commit_check(records, bytes, checks));
    out
}

/// Reads a commit record; its check is the caller's to compare.
pub(super) fn parse_commit(bytes: &[u8]) -> Option<Commit> {
    if bytes.len() < COMMIT || bytes[..8] != COMMIT_MARKER {
        return None;
    }
    let mut check = Check::default();
    check.copy_from_slice(&bytes[16..COMMIT]);
    Some(Commit {
        records: u32_at(bytes, 8),
        bytes: u32_at(bytes, 12),
        check,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_flipped_bit_of_a_record_goes_unseen() {
        let sealed = seal(Kind::Chunk, &b"a line that repeats. ".repeat(20)).unwrap();
        assert!(sealed.bytes.len() < 200, "it was not compressed");
        for bit in 0..sealed.bytes.len() * 8 {
            let mut bytes = sealed.bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let seen = match parse_header(&bytes) {
                None => true,
                Some(h) => open(&h, &bytes).is_err() || h.digest != sealed.digest,
            };
            assert!(seen, "bit {bit}");
        }
        assert!(open(&parse_header(&sealed.bytes).unwrap(), &sealed.bytes).is_ok());
    }

    #[test]
    fn a_frame_longer_than_it_says_is_refused() {
        let plain = vec![0u8; 100_000];
        let mut sealed = seal(Kind::Chunk, &plain).unwrap();
        sealed.bytes[5..9].copy_from_slice(&90_000u32.to_le_bytes());
        let check = check_of(&sealed.bytes[..45], &sealed.bytes[HEADER..]);
        sealed.bytes[45..HEADER].copy_from_slice(&check);
        let header = parse_header(&sealed.bytes).unwrap();
        assert_eq!(
            open(&header, &sealed.bytes),
            Err("it can't be decompressed")
        );
    }

    proptest! {
        #[test]
        fn every_object_comes_back(plain in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let sealed = seal(Kind::Recipe, &plain).unwrap();
            let header = parse_header(&sealed.bytes).unwrap();
            prop_assert_eq!(open(&header, &sealed.bytes).unwrap(), plain);
        }

        #[test]
        fn noise_never_panics(noise in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = MARKER.to_vec();
            bytes.extend(noise);
            if let Some(h) = parse_header(&bytes) {
                prop_assert!(open(&h, &bytes).is_err());
            }
            let _ = parse_commit(&bytes);
        }
    }
}
