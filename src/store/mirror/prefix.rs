//! Whether one content is the beginning of another.

use std::io::{ErrorKind, Read};

use crate::model::digest::Digest;

/// Whether the first `len` bytes of `content` have the BLAKE3 `hash`. Reads no further.
///
/// # Errors
/// What `content` fails with.
pub fn begins_with(content: &mut dyn Read, len: u64, hash: Digest) -> std::io::Result<bool> {
    let mut hasher = blake3::Hasher::new();
    let mut content = content.take(len);
    let mut buf = vec![0u8; 1 << 20];
    loop {
        match content.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(&buf[..n]);
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(hasher.count() == len && Digest::from(hasher.finalize()) == hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shorter_or_other_content_does_not_begin_with_it() {
        let hash = Digest::of(b"abc");
        assert!(begins_with(&mut &b"abcdef"[..], 3, hash).unwrap());
        assert!(begins_with(&mut &b"abc"[..], 3, hash).unwrap());
        assert!(!begins_with(&mut &b"ab"[..], 3, hash).unwrap());
        assert!(!begins_with(&mut &b"abX"[..], 3, hash).unwrap());
        assert!(begins_with(&mut &b""[..], 0, Digest::of(b"")).unwrap());
    }
}
