//! One log with everything that is known of it: its bytes, its rows, its folders.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use rusqlite::Connection;
use sha2::{Digest, Sha256};

use super::bytes::{ReadAt, each_piece, hex, sha256};
use super::examine::examine;
use super::folder::{Entry, Kind, identity};
use super::name::Form;
use super::store;
use super::verdict::Diagnosis;

/// What a file was when it was examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// Its size in bytes.
    pub bytes: u64,
    /// SHA-256 of all of them, in hex.
    pub sha256: String,
    /// When it was last changed, in milliseconds since the Unix epoch.
    pub modified_ms: i64,
    /// Whether it changed while it was read: then what is said of it may be of no one moment.
    pub moved: bool,
}

/// A log that was examined.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The session's id, or what its folder is called.
    pub session_id: Option<String>,
    /// What is said of it.
    pub diagnosis: Diagnosis,
    /// Whether it is one of several in a store: its rows are numbered by the store, without header.
    pub in_store: bool,
}

impl Entry {
    /// How its file has to be read as a log; `None` for a store.
    #[must_use]
    pub fn form(&self) -> Option<Form> {
        match self.kind {
            Kind::Log(name) => Some(name.into()),
            Kind::Loose { packed } => Some(Form {
                packed,
                generation: None,
            }),
            Kind::Store => None,
        }
    }
}

/// Something that stops giving bytes when an end is asked for.
pub(super) struct Watched<'a, S> {
    pub(super) source: &'a S,
    pub(super) stop: &'a dyn Fn() -> bool,
}

impl<S: ReadAt> ReadAt for Watched<'_, S> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if (self.stop)() {
            return Err(io::Error::other("an end was asked for"));
        }
        self.source.read_at(buf, offset)
    }
}

/// Examines a log that lies in a file. `stop` is asked between reads whether to end.
///
/// # Errors
/// What the medium says, a line that is too long to be read, and an end that was asked for.
pub fn check(
    entry: &Entry,
    file: &File,
    stop: &dyn Fn() -> bool,
) -> io::Result<(Checked, Evidence)> {
    let before = file.metadata()?;
    let form = entry.form().unwrap_or(Form::NAMELESS);
    let watched = Watched { source: file, stop };
    let mut diagnosis = examine(&watched, form)?;
    let against = diagnosis.header.as_ref().and_then(|h| identity(entry, h));
    for finding in entry.findings.iter().cloned().chain(against) {
        diagnosis.add(finding);
    }
    let evidence = evidence(&watched, &before)?;
    let header = diagnosis.header.as_ref();
    let id = header.map(|h| String::from_utf8_lossy(&h.id).into_owned());
    let checked = Checked {
        session_id: id.or_else(|| entry.folders.as_ref().map(|(_, s)| s.clone())),
        diagnosis,
        in_store: false,
    };
    Ok((checked, evidence))
}

/// Examines each session of a store. `file` is the store's own file, `conn` is open on a copy of it.
///
/// # Errors
/// What the medium says; a store that SQLite can't read.
pub fn check_store(
    file: &File,
    conn: &Connection,
    stop: &dyn Fn() -> bool,
) -> io::Result<(Vec<Checked>, Evidence)> {
    let before = file.metadata()?;
    let sessions = store::sessions(conn, stop).map_err(io::Error::other)?;
    Ok((
        sessions,
        evidence(&Watched { source: file, stop }, &before)?,
    ))
}

/// Takes the digest of a file and looks whether it moved since `before`.
fn evidence(watched: &Watched<'_, File>, before: &std::fs::Metadata) -> io::Result<Evidence> {
    let (bytes, sha256) = sha256(watched, u64::MAX)?;
    let after = watched.source.metadata()?;
    let state = |m: &std::fs::Metadata| (m.len(), m.mtime(), m.mtime_nsec());
    Ok(Evidence {
        bytes,
        sha256: hex(sha256),
        modified_ms: after.mtime() * 1000 + after.mtime_nsec() / 1_000_000,
        moved: state(before) != state(&after) || bytes != after.len(),
    })
}

/// Length, SHA-256 and BLAKE3 of all bytes, in hex.
///
/// # Errors
/// What the medium says.
pub fn digests<S: ReadAt + ?Sized>(source: &S) -> io::Result<(u64, String, String)> {
    let (mut sha256, mut blake3) = (Sha256::new(), blake3::Hasher::new());
    let len = each_piece(source, (0, u64::MAX), &mut |piece| {
        sha256.update(piece);
        blake3.update(piece);
        Ok(())
    })?;
    Ok((len, hex(sha256), blake3.finalize().to_hex().to_string()))
}
