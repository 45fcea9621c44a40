//! Documents that list files by name, length and digest: the manifest of a backup and the seal of
//! a generation. Their own text is covered by a digest, and what they say is never believed before
//! the files agree.

use std::collections::BTreeSet;
use std::io::Read;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::disk::{EntryKind, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::store::archive::SCHEMA_VERSION;
use crate::store::version::{self, Said};

/// A longer document is none of ours.
const LIMIT: u64 = 1 << 20;
/// Bytes between two looks for a signal.
const PIECE: usize = 1 << 20;

/// One file, as it was when it was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredFile {
    /// Name in its folder.
    pub name: String,
    /// Bytes.
    pub len: u64,
    /// BLAKE3 of the content.
    pub blake3: Digest,
}

/// How a file stands to what the list says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileStatus {
    /// Length and digest are as listed.
    Matched,
    /// Length or digest is another.
    Mismatched,
    /// Listed and not there.
    Missing,
    /// There and not listed.
    Extra,
    /// No regular file: a link, a folder, a device.
    Unsafe,
    /// It could not be read.
    Unreadable,
}

/// One file, compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCheck {
    /// Name in its folder.
    pub name: String,
    /// How it stands.
    pub status: FileStatus,
    /// What the list says; `None` for a file that is not listed.
    pub listed: Option<StoredFile>,
    /// Bytes found, where that was a file.
    pub found_len: Option<u64>,
    /// One sentence for people; empty where all is well.
    pub what: String,
}

/// A document with the digest of its text, since no chain covers it.
#[derive(Serialize)]
struct Covered<'a, T> {
    #[serde(flatten)]
    body: &'a T,
    digest: Digest,
}

fn digest_of<T: Serialize>(body: &T) -> Result<Digest> {
    serde_json::to_vec(body)
        .map(|bytes| Digest::of(&bytes))
        .map_err(|e| unwritable().with_source(e))
}

fn unwritable() -> Error {
    Error::new(
        ErrorKind::Internal,
        "a list of files can't be written as JSON",
    )
}

/// The text of a document.
///
/// # Errors
/// `internal` when it can't be written as JSON.
pub(super) fn to_bytes<T: Serialize>(body: &T) -> Result<Vec<u8>> {
    let digest = digest_of(body)?;
    let mut bytes = serde_json::to_vec_pretty(&Covered { body, digest })
        .map_err(|e| unwritable().with_source(e))?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a document; `None` when nothing has its name.
///
/// # Errors
/// `verify-failed` when it is damaged, too long or no regular file; `schema-too-new` when its
/// format is above `format`; `permission-denied`, `io`.
pub(super) fn read<T>(root: &Root, rel: &str, format: u32) -> Result<Option<T>>
where
    T: Serialize + DeserializeOwned,
{
    let file = match root.open_file(rel) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(None),
        Err(e) if e.kind() == ErrorKind::UnsafeTarget => {
            return Err(bad(root, rel, "is no regular file"));
        }
        Err(e) => return Err(e),
    };
    let mut bytes = Vec::new();
    file.take(LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io("read", &root.full(rel), e))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > LIMIT {
        return Err(bad(root, rel, "is too long"));
    }
    #[derive(Deserialize)]
    struct Signed {
        digest: Digest,
    }
    let damaged = |e: serde_json::Error| bad(root, rel, "is damaged").with_source(e);
    let said: Said = serde_json::from_slice(&bytes).map_err(damaged)?;
    let found = said.format.as_ref();
    version::require(
        root,
        rel,
        "format",
        found,
        format.into(),
        ErrorKind::VerifyFailed,
    )?;
    if let Some(schema) = said.schema_version.as_ref().filter(|v| !v.is_null()) {
        let known = SCHEMA_VERSION;
        version::require(
            root,
            rel,
            "schema",
            Some(schema),
            known,
            ErrorKind::VerifyFailed,
        )?;
    }
    let body: T = serde_json::from_slice(&bytes).map_err(damaged)?;
    let signed: Signed = serde_json::from_slice(&bytes).map_err(damaged)?;
    if digest_of(&body)? != signed.digest {
        return Err(bad(root, rel, "does not agree with its digest"));
    }
    Ok(Some(body))
}

/// Why a document is not believed.
pub(super) fn bad(root: &Root, rel: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::VerifyFailed,
        format!("{} {what}", root.full(rel).display()),
    )
    .with_context("path", rel)
}

/// Whether every name is one of `known` and comes once, and all of `needed` are there: a name is
/// never made into a path before.
pub(super) fn names_are_ours(
    files: &[StoredFile],
    known: &[&str],
    needed: &[&str],
) -> std::result::Result<(), &'static str> {
    let mut seen = BTreeSet::new();
    for file in files {
        if !known.contains(&file.name.as_str()) {
            return Err("lists a file that no version writes");
        }
        if !seen.insert(file.name.as_str()) {
            return Err("lists a file twice");
        }
    }
    match needed.iter().all(|n| seen.contains(n)) {
        true => Ok(()),
        false => Err("does not list a file that must be there"),
    }
}

/// Length and digest of a regular file; `None` when nothing has its name. No connection to a
/// database of that name may be open in this process.
///
/// # Errors
/// `unsafe-target` when it is no regular file; `interrupted`, `terminated`, `io`.
pub(super) fn measure(
    root: &Root,
    rel: &str,
    interrupt: &Interrupt,
) -> Result<Option<(u64, Digest)>> {
    let Some(mut file) = root.open_file(rel)? else {
        return Ok(None);
    };
    let mut buffer = vec![0u8; PIECE];
    let mut hasher = blake3::Hasher::new();
    let mut len = 0u64;
    loop {
        interrupt.check()?;
        match file.read(&mut buffer) {
            Ok(0) => return Ok(Some((len, hasher.finalize().into()))),
            Ok(n) => {
                hasher.update_rayon(&buffer[..n]);
                len = len.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("read", &root.full(rel), e)),
        }
    }
}

/// Compares what is in `folder` with `files`, whose names were found to be ours; names for which
/// `ignored` holds may be there as well. In the order of the list, then what is not listed.
///
/// # Errors
/// `interrupted`, `terminated`; `io` when the folder can't be listed.
pub(super) fn compare(
    root: &Root,
    folder: &str,
    files: &[StoredFile],
    ignored: &dyn Fn(&str) -> bool,
    interrupt: &Interrupt,
) -> Result<Vec<FileCheck>> {
    let mut out = Vec::new();
    for file in files {
        let rel = format!("{folder}/{}", file.name);
        // The length costs nothing, and tells before a large file is read.
        let (status, found_len, what) = match root.file_len(&rel) {
            Ok(Some(len)) if len != file.len => (
                FileStatus::Mismatched,
                Some(len),
                format!("has {len} bytes, {} are listed", file.len),
            ),
            Ok(_) => match measure(root, &rel, interrupt) {
                Ok(Some((len, hash))) if len == file.len && hash == file.blake3 => {
                    (FileStatus::Matched, Some(len), String::new())
                }
                Ok(Some((len, _))) => (
                    FileStatus::Mismatched,
                    Some(len),
                    "has other bytes than those that are listed".to_owned(),
                ),
                Ok(None) => (FileStatus::Missing, None, "is not there".to_owned()),
                Err(e) => unreadable(e)?,
            },
            Err(e) => unreadable(e)?,
        };
        out.push(FileCheck {
            name: file.name.clone(),
            status,
            listed: Some(file.clone()),
            found_len,
            what,
        });
    }
    for entry in root.list(folder)?.unwrap_or_default() {
        if ignored(&entry.name) || files.iter().any(|f| f.name == entry.name) {
            continue;
        }
        let (status, what) = match entry.kind {
            EntryKind::File => (FileStatus::Extra, "is not listed"),
            _ => (FileStatus::Unsafe, "is not listed and no regular file"),
        };
        out.push(FileCheck {
            found_len: root
                .file_len(&format!("{folder}/{}", entry.name))
                .ok()
                .flatten(),
            name: entry.name,
            status,
            listed: None,
            what: what.to_owned(),
        });
    }
    Ok(out)
}

fn unreadable(e: Error) -> Result<(FileStatus, Option<u64>, String)> {
    match e.kind() {
        ErrorKind::Interrupted | ErrorKind::Terminated => Err(e),
        ErrorKind::UnsafeTarget => Ok((FileStatus::Unsafe, None, "is no regular file".to_owned())),
        _ => Ok((FileStatus::Unreadable, None, e.message().to_owned())),
    }
}
