//! What archive and mirror are, as far as they open.

use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::store::archive::{Agreement, ArchiveReader, unnamed_generation};
use crate::store::coverage;
use crate::store::layout;
use crate::store::mirror::MirrorReader;
use crate::store::version::refuse_newer;

/// The archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveSeen {
    /// None was ever made.
    Never,
    /// One was made; it is gone or damaged.
    Lost(String),
    /// It could not be looked at, which says nothing about its state.
    Unknown(String),
    /// It opens.
    Open {
        /// How its commits contradict the coverage ledger.
        disagrees: Option<String>,
    },
}

/// The mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorSeen {
    /// Nothing was ever captured.
    Never,
    /// An archive was made from one that is gone.
    Gone,
    /// It could not be looked at.
    Unknown(String),
    /// It opens.
    Open,
}

/// Opens the archive.
///
/// # Errors
/// `foreign-archive` and `schema-too-new`: nothing here may be judged.
pub(super) fn archive(root: Option<&Root>) -> Result<(Option<ArchiveReader>, ArchiveSeen)> {
    let Some(root) = root else {
        return Ok((None, ArchiveSeen::Never));
    };
    match refuse_newer(root) {
        Err(e) if e.kind() == ErrorKind::SchemaTooNew => return Err(e),
        _ => {}
    }
    // Before the archive: a line is written after its commit, so what it promises is there.
    let tail = coverage::tail(root);
    let opened = ArchiveReader::open(root).and_then(|reader| match reader {
        None => match unnamed_generation(root)? {
            None => Ok(None),
            Some(left) => Err(Error::new(
                ErrorKind::ArchiveMissing,
                format!("no CURRENT names an archive, and generations/{left} holds one"),
            )),
        },
        Some(reader) => {
            let disagrees = match tail {
                Ok(tail) => disagreement(&reader.agreement(tail.as_ref())?),
                Err(e) => Some(e.message().to_owned()),
            };
            Ok(Some((reader, disagrees)))
        }
    });
    match opened {
        Ok(None) => Ok((None, ArchiveSeen::Never)),
        Ok(Some((reader, disagrees))) => Ok((Some(reader), ArchiveSeen::Open { disagrees })),
        Err(e) => Ok((None, unopened(e)?)),
    }
}

/// What an archive is that does not open, or that could not be read to its end.
pub(super) fn unopened(e: Error) -> Result<ArchiveSeen> {
    let why = e.message().to_owned();
    match e.kind() {
        ErrorKind::ForeignArchive | ErrorKind::SchemaTooNew => Err(e),
        ErrorKind::ArchiveMissing | ErrorKind::ArchiveCorrupt | ErrorKind::UnsafeTarget => {
            Ok(ArchiveSeen::Lost(why))
        }
        ErrorKind::Interrupted | ErrorKind::Terminated => Err(e),
        _ => Ok(ArchiveSeen::Unknown(why)),
    }
}

fn disagreement(agreement: &Agreement) -> Option<String> {
    match agreement {
        Agreement::Equal | Agreement::Ahead { .. } => None,
        Agreement::Lost { promised, found } => Some(format!(
            "it is at commit {found}, and the coverage ledger promises commit {promised}"
        )),
        Agreement::Elsewhere { generation } => Some(format!(
            "the coverage ledger ends in {generation}, which is another archive"
        )),
        Agreement::NoLedger { found: 0 } => None,
        Agreement::NoLedger { .. } => {
            Some("the coverage ledger is gone, so nothing tells whether it is complete".to_owned())
        }
    }
}

/// Opens the mirror.
///
/// # Errors
/// `mirror-too-new`: nothing here may be judged.
pub(super) fn mirror(root: Option<&Root>) -> Result<(Option<MirrorReader<'_>>, MirrorSeen)> {
    let Some(root) = root else {
        return Ok((None, MirrorSeen::Never));
    };
    match MirrorReader::open(root) {
        Ok(Some(reader)) => Ok((Some(reader), MirrorSeen::Open)),
        Ok(None) => {
            let used = root.exists(layout::COVERAGE)? || root.exists(layout::CURRENT)?;
            let seen = if used {
                MirrorSeen::Gone
            } else {
                MirrorSeen::Never
            };
            Ok((None, seen))
        }
        Err(e) if e.kind() == ErrorKind::MirrorTooNew => Err(e),
        Err(e) => Ok((None, MirrorSeen::Unknown(e.message().to_owned()))),
    }
}
