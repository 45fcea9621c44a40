//! Handing a captured content out into a file.

use std::io::{Read, Write};
use std::path::Path;

use crate::disk::HandOut;
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;

/// Writes `content` for `target`, which must not exist, and gives the file to publish only when it
/// has exactly `len` bytes with the BLAKE3 `hash`: nothing is left otherwise.
///
/// # Errors
/// `verify-failed`, `target-exists`, `no-space`, `permission-denied`, `io`; `interrupted` or
/// `terminated` when a signal came.
pub(super) fn written_out(
    mut content: impl Read,
    target: &Path,
    len: u64,
    hash: Digest,
    interrupt: &Interrupt,
) -> Result<HandOut> {
    let mut out = HandOut::create(target)?;
    let mut hasher = blake3::Hasher::new();
    let mut buf = vec![0u8; 1 << 18];
    loop {
        interrupt.check()?;
        let n = match content.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => {
                return Err(Error::new(
                    ErrorKind::VerifyFailed,
                    format!("the capture of {} can't be read: {e}", target.display()),
                )
                .with_hint("Verify the mirror; a source that still exists heals it.")
                .with_hint_argv(["cass", "mirror", "verify", "--deep"])
                .with_source(e));
            }
        };
        hasher.update(&buf[..n]);
        out.write_all(&buf[..n])
            .map_err(|e| Error::io("write", target, e))?;
    }
    if hasher.count() != len || Digest::from(hasher.finalize()) != hash {
        return Err(Error::new(
            ErrorKind::VerifyFailed,
            format!(
                "the capture for {} is not what its ledger promises",
                target.display()
            ),
        )
        .with_hint("Verify the mirror.")
        .with_hint_argv(["cass", "mirror", "verify", "--deep"]));
    }
    Ok(out)
}
