//! Compressed sources: which ones are, and their plain bytes.

use std::io::{Cursor, Read};
use std::path::Path;

use super::frames::Frames;
use crate::error::{Error, Result};

/// What a zstd frame begins with.
pub(super) const FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// What a frame to pass over begins with; the first byte's low half may be anything.
const SKIPPABLE: [u8; 4] = [0x50, 0x2a, 0x4d, 0x18];

/// Whether the content that begins with `head` is compressed. The content decides: a log may be
/// compressed in place, or unpacked under its old name. Where it begins neither like a frame nor
/// like text, it is a damaged container if `path` ends in `.zst` or `.zstd`.
#[must_use]
pub fn is_packed(path: &Path, head: &[u8]) -> bool {
    match *head {
        [a, b, c, d, ..] if [a, b, c, d] == FRAME || [a & 0xf0, b, c, d] == SKIPPABLE => true,
        // A value, white space, or a byte order mark.
        [b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' | 0xef, ..] => false,
        _ => path.extension().is_some_and(|e| e == "zst" || e == "zstd"),
    }
}

/// The plain bytes of a source: `content` itself, or what it decompresses to when it is compressed
/// (any number of frames; damaged ones are passed over, which is an error at the end). Offsets count
/// plain bytes.
///
/// # Errors
/// `io` when the beginning can't be read or the decoder can't be set up.
pub fn decoded<'r>(path: &Path, mut content: Box<dyn Read + 'r>) -> Result<Box<dyn Read + 'r>> {
    let failed = |e| Error::io("decompress", path, e);
    let mut head = Vec::with_capacity(FRAME.len());
    (&mut content)
        .take(FRAME.len() as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    let packed = is_packed(path, &head);
    let whole = Cursor::new(head).chain(content);
    if !packed {
        return Ok(Box::new(whole));
    }
    Ok(Box::new(Frames::new(whole).map_err(failed)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_decides_and_the_name_where_it_says_nothing() {
        let (plain, zst) = (Path::new("/s/x.jsonl"), Path::new("/s/x.jsonl.zst"));
        for (head, as_plain, as_zst) in [
            (&b"\x28\xb5\x2f\xfd\x04"[..], true, true),
            (b"\x5a\x2a\x4d\x18\x00", true, true),
            (b"{\"a\":1}", false, false),
            (b"\n\n", false, false),
            (b"\xef\xbb\xbf{}", false, false),
            (b"\x28\xb5\x2f", false, true),
            (b"\0\0\0\0", false, true),
            (b"", false, true),
        ] {
            assert_eq!(is_packed(plain, head), as_plain, "{head:?}");
            assert_eq!(is_packed(zst, head), as_zst, "{head:?}");
        }
    }

    #[test]
    fn plain_bytes_come_back_whatever_the_name() {
        let packed = zstd::encode_all(&b"{\"a\":1}\n"[..], 3).unwrap();
        for (bytes, name) in [
            (packed.as_slice(), "/s/x.jsonl"),
            (&packed, "/s/x.jsonl.zst"),
            (b"{\"a\":1}\n", "/s/x.jsonl.zst"),
            (b"{\"a\":1}\n", "/s/x.jsonl"),
        ] {
            let content = Box::new(Cursor::new(bytes.to_vec()));
            let plain = decoded(Path::new(name), content).unwrap();
            assert_eq!(std::io::read_to_string(plain).unwrap(), "{\"a\":1}\n");
        }
    }
}
