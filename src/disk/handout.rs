//! Files that a person asked for by name, outside the data directory.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// A file being handed out: written beside its target under a temporary name, published only
/// whole, and never over an existing file.
#[derive(Debug)]
pub struct HandOut {
    file: File,
    temp: PathBuf,
    target: PathBuf,
    published: bool,
}

impl HandOut {
    /// Starts a file at `target`. Its folder must exist.
    ///
    /// # Errors
    /// `target-exists` when something has the name; `permission-denied`, `no-space`, `io`.
    pub fn create(target: &Path) -> Result<HandOut> {
        if std::fs::symlink_metadata(target).is_ok() {
            return Err(exists(target));
        }
        let name = target.file_name().ok_or_else(|| {
            Error::new(
                ErrorKind::UnsafeTarget,
                format!("{} names no file", target.display()),
            )
        })?;
        let mut temp_name = std::ffi::OsString::from(".");
        temp_name.push(name);
        temp_name.push(format!(".{}.cass-tmp", std::process::id()));
        let temp = target.with_file_name(temp_name);
        #[allow(clippy::disallowed_types)] // the door itself
        let file = std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temp)
            .map_err(|e| Error::io("create", target, e))?;
        Ok(HandOut {
            file,
            temp,
            target: target.to_path_buf(),
            published: false,
        })
    }

    /// Makes a folder to hand files out into, and those above it.
    ///
    /// # Errors
    /// `permission-denied`, `no-space`, `io`.
    pub fn create_dir(path: &Path) -> Result<()> {
        #[allow(clippy::disallowed_types)] // the door itself
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|e| Error::io("create folder", path, e))
    }

    /// Publishes the file under its name, durable when this returns.
    ///
    /// # Errors
    /// `target-exists` when the name was taken meanwhile; `no-space`, `io`.
    pub fn publish(mut self) -> Result<()> {
        self.file
            .sync_all()
            .map_err(|e| Error::io("write", &self.target, e))?;
        // A hard link fails when the name is taken, a rename would replace it.
        #[allow(clippy::disallowed_methods)] // the door itself
        match std::fs::hard_link(&self.temp, &self.target) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(exists(&self.target));
            }
            Err(_) if std::fs::symlink_metadata(&self.target).is_ok() => {
                return Err(exists(&self.target));
            }
            // File systems without hard links.
            Err(_) => {
                std::fs::rename(&self.temp, &self.target)
                    .map_err(|e| Error::io("publish", &self.target, e))?;
                self.published = true;
            }
        }
        if !self.published {
            #[allow(clippy::disallowed_methods)] // the door itself
            std::fs::remove_file(&self.temp).map_err(|e| Error::io("publish", &self.target, e))?;
            self.published = true;
        }
        let folder = match self.target.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        File::open(folder)
            .and_then(|d| d.sync_all())
            .map_err(|e| Error::io("sync folder", folder, e))
    }
}

impl Write for HandOut {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.file.write(buf)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for HandOut {
    fn drop(&mut self) {
        if !self.published {
            #[allow(clippy::disallowed_methods)] // the door itself
            let _ = std::fs::remove_file(&self.temp);
        }
    }
}

fn exists(target: &Path) -> Error {
    Error::new(
        ErrorKind::TargetExists,
        format!("{} exists already and is not overwritten", target.display()),
    )
    .with_hint("Name a path where nothing is yet.")
}
