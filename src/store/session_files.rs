//! The files that a session was read from, as captured.

use crate::error::{Error, ErrorKind, Result};
use crate::model::conversation::{ArchivedSource, Conversation};
use crate::store::archive::ArchiveReader;
use crate::store::mirror::{CaptureLine, MirrorReader, begins_with};

/// One captured version of one file.
#[derive(Debug, Clone)]
pub struct SessionFile {
    /// The source.
    pub source: ArchivedSource,
    /// The capture.
    pub capture: CaptureLine,
    /// Whether a later capture took its place that does not begin with it.
    pub superseded: bool,
}

/// The files of `conversation`: of every source that brought records of it the newest capture,
/// and of a source that was rewritten also each older capture that the next one does not contain.
/// In the order of first commit, older captures first.
///
/// # Errors
/// `archive-corrupt`, `mirror-damaged`, `verify-failed`, `io`.
pub fn session_files(
    archive: &ArchiveReader,
    mirror: &MirrorReader<'_>,
    conversation: &Conversation,
) -> Result<Vec<SessionFile>> {
    let mut files = Vec::new();
    for source in archive.sources_of(&conversation.id)? {
        let mut lines: Vec<CaptureLine> = Vec::new();
        mirror.captures(source.key, &mut |line| {
            lines.push(line);
            Ok(())
        })?;
        let Some(newest) = lines.pop() else {
            return Err(Error::new(
                ErrorKind::MirrorDamaged,
                format!("no capture of {} is in the mirror", source.path.display()),
            )
            .with_hint("Verify the mirror.")
            .with_hint_argv(["cass", "mirror", "verify"]));
        };
        // Epoch 1 means that every capture so far extended the one before.
        if source.epoch > 1 {
            let mut next = newest.clone();
            let mut older = Vec::new();
            while let Some(line) = lines.pop() {
                let mut content = mirror.open_content(next.recipe, next.len)?;
                let kept = line.len <= next.len
                    && begins_with(&mut content, line.len, line.hash).map_err(|e| {
                        Error::new(
                            ErrorKind::VerifyFailed,
                            format!("capture {} of {} can't be read: {e}", next.seq, source.key),
                        )
                    })?;
                if !kept {
                    older.push(line.clone());
                }
                next = line;
            }
            files.extend(older.into_iter().rev().map(|capture| SessionFile {
                source: source.clone(),
                capture,
                superseded: true,
            }));
        }
        files.push(SessionFile {
            source,
            capture: newest,
            superseded: false,
        });
    }
    Ok(files)
}
