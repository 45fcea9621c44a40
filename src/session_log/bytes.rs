//! Where the bytes of a log come from.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

/// Bytes that can be read at any place, without moving anything.
pub trait ReadAt {
    /// Reads up to `buf.len()` bytes from `offset` on; 0 at the end.
    ///
    /// # Errors
    /// What the medium says.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(self, buf, offset) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl ReadAt for [u8] {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.get(from..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..n), rest.get(..n)) {
            to.copy_from_slice(from);
        }
        Ok(n)
    }
}

impl ReadAt for Vec<u8> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.as_slice().read_at(buf, offset)
    }
}

/// Something that is read by moving to a place first.
#[derive(Debug)]
pub struct Seeking<R>(RefCell<R>);

impl<R: Read + Seek> Seeking<R> {
    /// Reads `source` at any place.
    pub fn new(source: R) -> Self {
        Seeking(RefCell::new(source))
    }
}

impl<R: Read + Seek> ReadAt for Seeking<R> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut source = self.0.borrow_mut();
        source.seek(SeekFrom::Start(offset))?;
        source.read(buf)
    }
}

/// Fills as much of `buf` as there is.
pub(super) fn read_full<S: ReadAt + ?Sized>(
    source: &S,
    buf: &mut [u8],
    mut offset: u64,
) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buf.get_mut(done..).filter(|r| !r.is_empty()) {
        match source.read_at(rest, offset)? {
            0 => break,
            n => {
                done += n;
                offset += n as u64;
            }
        }
    }
    Ok(done)
}

/// Gives the bytes from `from` up to `to`, or to the end, in pieces; where they ended.
pub(super) fn each_piece<S: ReadAt + ?Sized>(
    source: &S,
    (from, to): (u64, u64),
    each: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut buf = vec![0; 256 * 1024];
    let mut at = from;
    loop {
        let room = usize::try_from(to.saturating_sub(at))
            .unwrap_or(usize::MAX)
            .min(buf.len());
        let n = read_full(source, buf.get_mut(..room).unwrap_or_default(), at)?;
        if n == 0 {
            return Ok(at);
        }
        each(buf.get(..n).unwrap_or_default())?;
        at += n as u64;
    }
}

/// Length and SHA-256 of the bytes before `to`; the hash can go on.
pub(super) fn sha256<S: ReadAt + ?Sized>(source: &S, to: u64) -> io::Result<(u64, Sha256)> {
    let mut hasher = Sha256::new();
    let len = each_piece(source, (0, to), &mut |piece| {
        hasher.update(piece);
        Ok(())
    })?;
    Ok((len, hasher))
}

/// A digest in hex.
pub(super) fn hex(sha256: Sha256) -> String {
    let bytes = sha256.finalize();
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
