//! A small file system in memory, so that room can be scarce. Mounting it needs root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A data directory, moved to a small file system in memory; taken away when it is dropped.
pub struct Disk(PathBuf);

impl Disk {
    /// Of so many MiB; what was in the folder lies in `aside` too. `None` where nothing can be mounted.
    pub fn below(data: PathBuf, aside: &Path, size: u32) -> Option<Disk> {
        fs::rename(&data, aside).unwrap();
        fs::create_dir(&data).unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o"])
            .arg(format!("size={size}m,mode=0700"))
            .arg("tmpfs")
            .arg(&data)
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|s| s.success());
        if !made {
            println!("passed over: a file system in memory can't be mounted here");
            return None;
        }
        let disk = Disk(data);
        let copied = Command::new("cp")
            .args(["-a", "--"])
            .arg(aside.join("."))
            .arg(&disk.0)
            .status();
        assert!(copied.is_ok_and(|s| s.success()));
        Some(disk)
    }

    /// Leaves so much room.
    pub fn leave(&self, free: u64) {
        let filler = self.0.join("filler");
        let _ = fs::remove_file(&filler);
        let stat = rustix::fs::statvfs(&self.0).unwrap();
        let now = stat.f_bavail * stat.f_frsize;
        let fill = usize::try_from(now.saturating_sub(free)).unwrap();
        fs::write(&filler, vec![7u8; fill]).unwrap();
    }

    /// Lets nothing be written to it any more, or again.
    #[allow(dead_code)]
    pub fn read_only(&self, is_read_only: bool) {
        let how = if is_read_only {
            "remount,ro"
        } else {
            "remount,rw"
        };
        let done = Command::new("mount")
            .args(["-o", how])
            .arg(&self.0)
            .status();
        assert!(done.is_ok_and(|s| s.success()));
    }

    #[allow(dead_code)]
    pub fn make_room(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let gone = Command::new("umount").arg(&self.0).status();
        assert!(std::thread::panicking() || gone.is_ok_and(|s| s.success()));
    }
}
