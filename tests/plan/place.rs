//! Copies of one data directory: each case has its own, and none is indexed anew.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::lab::copy;
use super::sandbox::{Ran, ran, snapshot};

/// A copy of a data directory, with the home that its sources lie in.
pub struct Place {
    dir: tempfile::TempDir,
    from: PathBuf,
}

impl Place {
    /// Copies `from`, which has a `data` and a `home`.
    pub fn copy_of(from: &Path) -> Place {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let dir = tempfile::Builder::new()
            .prefix("cass-plan-")
            .tempdir_in(folder)
            .unwrap();
        copy(from, dir.path());
        Place {
            dir,
            from: from.to_owned(),
        }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn command(&self) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_cass"));
        c.env_clear()
            .env("HOME", self.home())
            .env("PATH", "/usr/bin:/bin")
            .env("CASS_DATA_DIR", self.data())
            .arg("--json")
            .stdin(Stdio::null());
        c
    }

    pub fn run<S: AsRef<std::ffi::OsStr>>(&self, args: &[S]) -> Ran {
        ran(self.command().args(args).output().unwrap())
    }

    /// Indexes the sources that the data directory was made from: those of the copied home lie
    /// elsewhere and would be news.
    pub fn index_without_news(&self) -> Ran {
        let mut c = self.command();
        ran(c
            .env("HOME", self.from.join("home"))
            .arg("index")
            .output()
            .unwrap())
    }

    /// Name and content of everything, without the locks.
    pub fn bytes(&self) -> BTreeMap<PathBuf, String> {
        let data = self.data();
        snapshot(&data)
            .into_iter()
            .map(|(path, facts)| (path.strip_prefix(&data).unwrap().to_owned(), facts.4))
            .filter(|(path, _)| !path.starts_with("locks"))
            .collect()
    }

    /// The file at `rel`, where `*` in a part stands for the first entry that fits.
    #[track_caller]
    pub fn find(&self, rel: &str) -> PathBuf {
        let mut at = self.data();
        for part in rel.split('/') {
            at = match part.split_once('*') {
                // Lexically: the data directory may not be there.
                None if part == ".." => at.parent().unwrap().to_owned(),
                None => at.join(part),
                Some((head, tail)) => {
                    let mut names: Vec<String> = std::fs::read_dir(&at)
                        .unwrap()
                        .map(|e| e.unwrap().file_name().into_string().unwrap())
                        .filter(|n| n.starts_with(head) && n.ends_with(tail))
                        .collect();
                    names.sort();
                    at.join(names.first().unwrap_or_else(|| panic!("no {rel}")))
                }
            };
        }
        assert!(at.exists(), "no {rel}");
        at
    }
}

/// Runs `one` for every index below `n`, some at a time.
pub fn each(n: usize, at_once: usize, one: impl Fn(usize) + Sync) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if i >= n {
                        break;
                    }
                    one(i);
                }
            });
        }
    });
}
