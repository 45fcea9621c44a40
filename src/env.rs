//! Everything the program takes from around itself, gathered once in `main`: clock, home,
//! folders, variables. Below `main` nobody reads the process environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};

/// Where time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The system clock.
    System,
    /// A fixed instant, milliseconds since the Unix epoch.
    Fixed(i64),
}

/// The program's surroundings.
#[derive(Debug, Clone)]
pub struct Env {
    clock: Clock,
    vars: BTreeMap<OsString, OsString>,
    home: PathBuf,
    data_dir: PathBuf,
    config_dir: PathBuf,
}

impl Env {
    /// Reads the process environment. `data_dir` is the value of `--data-dir`, if given.
    ///
    /// # Errors
    /// `usage` when no home folder is known and no folder was named.
    pub fn from_process(data_dir: Option<PathBuf>) -> Result<Self> {
        Env::new(Clock::System, std::env::vars_os().collect(), data_dir)
    }

    /// An environment made of `vars` alone.
    ///
    /// # Errors
    /// `usage` when neither `HOME` nor the folders that replace it are set.
    pub fn new(
        clock: Clock,
        vars: BTreeMap<OsString, OsString>,
        data_dir: Option<PathBuf>,
    ) -> Result<Self> {
        let set = |name: &str| {
            vars.get(OsStr::new(name))
                .filter(|v| !v.is_empty())
                .map(PathBuf::from)
        };
        let home = set("HOME").or_else(etcetera_home).unwrap_or_default();
        let no_home = || {
            Error::new(ErrorKind::Usage, "no home folder is known: HOME is not set")
                .with_hint("Set HOME, or name the folder with --data-dir.")
        };
        let absolute = |p: PathBuf| std::path::absolute(&p).unwrap_or(p);
        let under_home = |xdg: &str, mac: &str, linux: &str| -> Result<PathBuf> {
            if let Some(base) = set(xdg).filter(|p| p.is_absolute()) {
                return Ok(base.join("cass"));
            }
            if home.as_os_str().is_empty() {
                return Err(no_home());
            }
            let base = if cfg!(target_os = "macos") {
                mac
            } else {
                linux
            };
            Ok(home.join(base).join("cass"))
        };
        let data_dir = match data_dir.or_else(|| set("CASS_DATA_DIR")) {
            Some(dir) => absolute(dir),
            None => under_home(
                "XDG_DATA_HOME",
                "Library/Application Support",
                ".local/share",
            )?,
        };
        // Without a home there is no configuration; an empty path is never opened.
        let config_dir = match set("CASS_CONFIG_DIR") {
            Some(dir) => absolute(dir),
            None => under_home("XDG_CONFIG_HOME", "Library/Application Support", ".config")
                .unwrap_or_default(),
        };
        Ok(Env {
            clock,
            vars,
            home,
            data_dir,
            config_dir,
        })
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        match self.clock {
            Clock::Fixed(ms) => ms,
            Clock::System => jiff::Timestamp::now().as_millisecond(),
        }
    }

    /// A variable of the process environment; unset and empty are the same.
    #[must_use]
    pub fn var(&self, name: &str) -> Option<&OsStr> {
        self.vars
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
            .filter(|v| !v.is_empty())
    }

    /// The user's home folder; empty when none is known.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The data directory, absolute.
    #[must_use]
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The folder of `config.toml` and `sources.toml`; empty when none is known.
    #[must_use]
    pub fn config_dir(&self) -> &Path {
        &self.config_dir
    }
}

fn etcetera_home() -> Option<PathBuf> {
    etcetera::home_dir().ok()
}
