//! Whether an index would read a file that was captured once and is still there.

use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::model::provider::Provider;
use crate::model::source::LOCAL;
use crate::sources::config::Config;
use crate::sources::roots::{ProviderRoot, roots};

/// Why an index does not read a file that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Obstacle {
    /// The file.
    pub path: PathBuf,
    /// What keeps it from being read.
    pub why: Why,
}

/// What keeps a file from being read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// This rule of `config.toml`.
    Excluded(String),
    /// Its mode or owner, or a folder's above it.
    NoPermission,
    /// It lies in no folder that is looked into.
    NoRoot,
}

impl Obstacle {
    /// What is in the way and what takes it away, as a sentence without its end.
    #[must_use]
    pub fn told(&self) -> String {
        let path = self.path.display();
        match &self.why {
            Why::Excluded(rule) => format!(
                "its source {path} is there, but \"{rule}\" in config.toml excludes it: include it \
                 again and run cass index --full"
            ),
            Why::NoPermission => format!(
                "its source {path} is there, but may not be read: chmod u+r, or chown, and run cass \
                 index --full"
            ),
            Why::NoRoot => format!(
                "its source {path} is there, but in no folder that is looked into: name its folder \
                 under [[roots]] in config.toml and run cass index --full"
            ),
        }
    }
}

/// Where an index looks.
#[derive(Debug)]
pub struct Reach {
    /// `None` where the settings can't be used: then nothing is known.
    known: Option<(Config, Vec<ProviderRoot>)>,
}

impl Reach {
    /// By the settings as they are.
    #[must_use]
    pub fn of(env: &Env) -> Reach {
        let config = Config::load(env.config_dir(), env.home()).ok();
        Reach {
            known: config.map(|config| {
                let roots = roots(env, &config);
                (config, roots)
            }),
        }
    }

    /// Whether an index reads a source that is there. Of a file of another machine, and where the
    /// settings can't be used, that can't be said.
    #[must_use]
    pub fn reads(&self, source_id: &str, provider: Provider, path: &Path) -> bool {
        source_id == LOCAL && self.known.is_some() && self.obstacle(provider, path).is_none()
    }

    /// What keeps a file of this machine that is there from being read.
    #[must_use]
    pub fn obstacle(&self, provider: Provider, path: &Path) -> Option<Obstacle> {
        let (config, roots) = self.known.as_ref()?;
        let why = if let Some(rule) = config.rule_for(path) {
            Why::Excluded(rule.to_owned())
        } else if !roots
            .iter()
            .any(|r| r.provider == provider && path.starts_with(&r.path))
        {
            Why::NoRoot
        } else if rustix::fs::access(path, rustix::fs::Access::READ_OK).is_err() {
            Why::NoPermission
        } else {
            return None;
        };
        Some(Obstacle {
            path: path.to_owned(),
            why,
        })
    }
}
