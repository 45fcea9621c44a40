//! `--from`: another data directory, or a database that was recovered by other means.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::store::archive::APPLICATION_ID;
use crate::store::generation::current_or_none as current;
use crate::store::generation::{self, Live};
use crate::store::layout;

const TAKES: &str = "--from takes a data directory of cass or a database file of its archive.";

/// An archive that the operator named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedArchive {
    /// As it was given, made absolute.
    pub path: PathBuf,
}

impl NamedArchive {
    /// Its folder and the name of its database there.
    ///
    /// # Errors
    /// `not-found` when there is no archive; `schema-too-new`; `io`.
    pub fn locate(&self) -> Result<(Root, String)> {
        if self.path.is_dir() {
            let root = Root::open(&self.path)?.ok_or_else(|| nothing(&self.path))?;
            let named = match generation::locate(&root) {
                Ok(Live::Present(live)) => Some(live.id),
                Err(e) if e.kind() == ErrorKind::SchemaTooNew => return Err(e),
                // Damaged or not, what CURRENT names is taken; failing that, the newest.
                _ => match current(&root)? {
                    Some(id) => Some(id),
                    None => generation::folders(&root)?.pop(),
                },
            };
            let rel = named.map_or_else(
                || layout::ARCHIVE_DB.to_owned(),
                |id| layout::archive_db(id.as_str()),
            );
            return match root.file_len(&rel)? {
                Some(_) => Ok((root, rel)),
                None => Err(nothing(&self.path)),
            };
        }
        let folder = self.path.parent().unwrap_or_else(|| Path::new("/"));
        let name = self.path.file_name().and_then(|n| n.to_str());
        let (Some(root), Some(name)) = (Root::open(folder)?, name) else {
            return Err(nothing(&self.path));
        };
        match root.file_len(name) {
            Ok(Some(_)) => Ok((root, name.to_owned())),
            Ok(None) => Err(nothing(&self.path)),
            Err(e) if e.kind() == ErrorKind::UnsafeTarget => Err(e.with_hint(TAKES)),
            Err(e) => Err(e),
        }
    }
}

impl NamedArchive {
    /// Refuses a file in which no row verifies and whose header is not an archive's.
    ///
    /// # Errors
    /// `not-found` when it is no archive of cass; `io`.
    pub fn refuse_foreign(&self, root: &Root, rel: &str) -> Result<()> {
        let mut head = Vec::new();
        if let Some(file) = root.open_file(rel)? {
            file.take(72)
                .read_to_end(&mut head)
                .map_err(|e| Error::io("read", &root.full(rel), e))?;
        }
        let ours = head
            .get(68..72)
            .is_some_and(|id| id == &APPLICATION_ID.to_be_bytes()[4..]);
        if ours {
            Ok(())
        } else {
            Err(nothing(&self.path))
        }
    }
}

fn nothing(path: &Path) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!("there is no archive at {}", path.display()),
    )
    .with_hint(TAKES)
}
