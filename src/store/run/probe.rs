//! Probes: whether the archive that was promoted can be read and written, tried for real.

use serde::{Deserialize, Serialize};

use crate::disk::Capture;
use crate::error::{Error, ErrorKind, Result};
use crate::model::plural::count;
use crate::store::archive::{ArchiveReader, ArchiveWriter, Head};
use crate::store::generation::Generation;

/// What one probe found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Probe {
    /// `read` or `write`.
    pub name: String,
    /// Whether it went well.
    pub ok: bool,
    /// What was tried, or why it failed.
    pub detail: String,
}

impl Probe {
    pub(super) fn of(name: &str, tried: &Result<String>) -> Probe {
        let (ok, detail) = match tried {
            Ok(detail) => (true, detail.clone()),
            Err(e) => (false, e.message().to_owned()),
        };
        Probe {
            name: name.to_owned(),
            ok,
            detail,
        }
    }
}

/// Reads the live archive, then writes to it inside a transaction that is rolled back. Why the write
/// failed is given as well.
#[must_use]
pub fn probe(cap: Capture<'_>, expected: &Generation, head: Head) -> (Vec<Probe>, Option<Error>) {
    let read = || -> Result<String> {
        let reader = ArchiveReader::open(cap.root())?
            .ok_or_else(|| Error::new(ErrorKind::ArchiveMissing, "no archive is live"))?;
        if reader.generation().id != expected.id {
            return Err(Error::new(
                ErrorKind::ArchiveCorrupt,
                format!("{} is live, not {}", reader.generation().id, expected.id),
            ));
        }
        if reader.head()? != head {
            return Err(Error::new(
                ErrorKind::ArchiveCorrupt,
                "the archive does not end in the commit that was verified",
            ));
        }
        let counts = reader.counts()?;
        Ok(format!(
            "{} holds {} and {} and ends in commit {}",
            expected.id,
            count(counts.conversations, "conversation", "conversations"),
            count(counts.messages, "message", "messages"),
            head.commit
        ))
    };
    let first = Probe::of("read", &read());
    if !first.ok {
        return (vec![first], None);
    }
    // No reader of this process is open any more: closing one would drop the writer's locks.
    let write = || -> Result<String> {
        ArchiveWriter::open(cap, expected.clone())?.try_to_write()?;
        Ok("a row was written in a transaction that was rolled back".to_owned())
    };
    let wrote = write();
    let second = Probe::of("write", &wrote);
    (vec![first, second], wrote.err())
}
