//! Dated results of deep checks, kept when a person asks for it.

use serde::{Deserialize, Serialize};

use crate::disk::{EntryKind, Journal, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::check::AttestationFacts;
use crate::model::digest::Digest;
use crate::store::layout;

/// A longer file is none of ours.
const LIMIT: u64 = 1 << 20;

/// What a deep check found, when, and of which state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attestation {
    /// Layout version of this file.
    pub format: u32,
    /// When, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// Whether everything was read and nothing at severity `error` was found.
    pub clean: bool,
    /// The archive that was read.
    pub archive_id: Option<String>,
    /// Its generation.
    pub generation: Option<String>,
    /// Its last commit and chain head.
    pub commit: Option<u64>,
    /// Chain head of that commit, hex.
    pub head: Option<String>,
    /// Findings at severity `error`.
    pub errors: u64,
    /// Captures of the mirror that were read.
    pub captures: Option<u64>,
}

/// The file: the attestation and the digest of its text, since no chain covers it.
#[derive(Debug, Serialize, Deserialize)]
struct Sealed {
    attestation: Attestation,
    digest: Digest,
}

fn digest_of(a: &Attestation) -> Result<Digest> {
    serde_json::to_vec(a)
        .map(|bytes| Digest::of(&bytes))
        .map_err(|e| {
            Error::new(
                ErrorKind::Internal,
                "an attestation can't be written as JSON",
            )
            .with_source(e)
        })
}

/// Keeps an attestation and returns where, relative to the data directory.
///
/// # Errors
/// `no-space`, `permission-denied`, `io`.
pub fn write(journal: Journal<'_>, attestation: Attestation) -> Result<String> {
    // The name sorts by time; the process id tells apart two of the same millisecond.
    let name = format!("{:015}-{}.json", attestation.at_ms, std::process::id());
    let digest = digest_of(&attestation)?;
    let mut bytes = serde_json::to_vec_pretty(&Sealed {
        attestation,
        digest,
    })
    .map_err(|e| {
        Error::new(
            ErrorKind::Internal,
            "an attestation can't be written as JSON",
        )
        .with_source(e)
    })?;
    bytes.push(b'\n');
    journal.create("attestations", &name, &bytes)
}

/// The newest attestation that is whole; damaged ones are passed over.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn newest(root: &Root) -> Result<Option<AttestationFacts>> {
    let names = root.list(layout::ATTESTATIONS)?.unwrap_or_default();
    for entry in names.iter().rev().filter(|e| e.kind == EntryKind::File) {
        let rel = format!("{}/{}", layout::ATTESTATIONS, entry.name);
        let Ok(Some(bytes)) = root.read(&rel, LIMIT) else {
            continue;
        };
        let Ok(sealed) = serde_json::from_slice::<Sealed>(&bytes) else {
            continue;
        };
        if digest_of(&sealed.attestation)? != sealed.digest {
            continue;
        }
        let a = sealed.attestation;
        return Ok(Some(AttestationFacts {
            at_ms: a.at_ms,
            path: rel,
            clean: a.clean,
        }));
    }
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_one_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap().unwrap();
        assert_eq!(newest(&root).unwrap(), None);
        let a = |at_ms, clean| Attestation {
            format: 1,
            at_ms,
            clean,
            archive_id: None,
            generation: None,
            commit: Some(3),
            head: None,
            errors: 0,
            captures: None,
        };
        let journal = Journal::new(&root);
        write(journal, a(1000, true)).unwrap();
        let second = write(journal, a(2000, false)).unwrap();
        assert_eq!(
            newest(&root).unwrap().map(|n| (n.at_ms, n.clean)),
            Some((2000, false))
        );
        // One changed byte: it no longer counts.
        let path = root.full(&second);
        let text = std::fs::read_to_string(&path)
            .unwrap()
            .replace("\"clean\": false", "\"clean\": true");
        std::fs::write(&path, text).unwrap();
        assert_eq!(newest(&root).unwrap().map(|n| n.at_ms), Some(1000));
    }
}
