//! How a small file or a folder comes to be: whole, durable, under its final name only.

use std::fs::File;
use std::io::Write;

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::root::{DIR_MODE, FILE_MODE, Root};
use crate::error::{Error, ErrorKind, Result};

/// Makes a folder and those above it; each new entry is synced in its parent. So is that of an
/// empty folder: who made it may have been killed before. In one that holds anything somebody has
/// written since, and so had synced its entry.
pub(super) fn create_dir(root: &Root, rel: &str) -> Result<()> {
    let mut done = String::new();
    for part in rel.split('/').filter(|p| !p.is_empty()) {
        if !done.is_empty() {
            done.push('/');
        }
        done.push_str(part);
        let (dir, name) = root
            .parent(&done)
            .map_err(|e| root.failed("open", &done, e))?;
        match rustix::fs::mkdirat(&dir, name, DIR_MODE) {
            Ok(()) => rustix::fs::fsync(&dir).map_err(|e| root.failed("sync", &done, e))?,
            Err(Errno::EXIST) => {
                root.require_folder(&done)?;
                if root.is_empty_folder(&done)? {
                    rustix::fs::fsync(&dir).map_err(|e| root.failed("sync", &done, e))?;
                }
            }
            Err(e) => return Err(root.failed("create", &done, e)),
        }
    }
    Ok(())
}

/// Publishes `bytes` under `rel`: whole or not at all, durable when this returns. With `over` it
/// replaces what was there.
pub(super) fn publish(root: &Root, rel: &str, bytes: &[u8], over: bool) -> Result<()> {
    let (dir, name) = root
        .parent(rel)
        .map_err(|e| root.failed("open folder of", rel, e))?;
    let taken = || {
        Error::new(
            ErrorKind::TargetExists,
            format!("{} exists already", root.full(rel).display()),
        )
    };
    if !over && rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Err(taken());
    }
    // One fixed temporary name per target: a crash leaves at most one, and the next writer,
    // who holds the lock alone, overwrites it.
    let temp = format!(".{name}.tmp");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
    let fd = rustix::fs::openat(&dir, temp.as_str(), flags | OFlags::CLOEXEC, FILE_MODE)
        .map_err(|e| root.failed("create", rel, e))?;
    let mut file = File::from(fd);
    let full = root.full(rel);
    let written = file
        .write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(|e| Error::io("write", &full, e))
        .and_then(|()| {
            // The name was free a moment ago and only the lock's holder makes names here.
            rustix::fs::renameat(&dir, temp.as_str(), &dir, name)
                .map_err(|e| root.failed("publish", rel, e))
        });
    if let Err(e) = written {
        let _ = rustix::fs::unlinkat(&dir, temp.as_str(), AtFlags::empty());
        return Err(e);
    }
    rustix::fs::fsync(&dir).map_err(|e| root.failed("sync folder of", rel, e))
}
