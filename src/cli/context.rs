//! What a command is given besides its own arguments.

use std::path::Path;
use std::time::Instant;

use super::args::Global;
use super::progress::Shown;
use crate::env::Env;
use crate::model::interrupt::Interrupt;
use crate::report::envelope::{DataDirArg, Site};

/// How documents of a command in `env` name the data directory and the home folder.
#[must_use]
pub fn site(env: &Env, data_dir: DataDirArg) -> Site {
    let text = |path: &Path| {
        let text = path.to_str().unwrap_or_default();
        text.trim_end_matches('/').to_owned()
    };
    let home = text(env.home());
    let real_home = std::fs::canonicalize(env.home()).map_or_else(|_| String::new(), |p| text(&p));
    Site {
        data_dir,
        real_home: if real_home == home {
            String::new()
        } else {
            real_home
        },
        home,
    }
}

/// What a command is given besides its own arguments.
#[derive(Debug)]
pub struct Context {
    /// Clock, folders, variables.
    pub env: Env,
    /// How documents name the data directory and the home folder.
    pub site: Site,
    /// Whether an end was asked for.
    pub interrupt: Interrupt,
    /// Takes reports of progress.
    pub progress: Shown,
    /// When the command began.
    pub begun: Instant,
}

impl Context {
    /// The context of a command.
    #[must_use]
    pub fn new(global: &Global, env: Env, interrupt: Interrupt) -> Self {
        let data_dir = match &global.data_dir {
            None => DataDirArg::Inherited,
            // Absolute: the command may be run from another folder.
            Some(_) => match env.data_dir().to_str() {
                Some(text) => DataDirArg::Named(text.to_owned()),
                None => DataDirArg::Unprintable,
            },
        };
        Context {
            site: site(&env, data_dir),
            env,
            interrupt,
            progress: Shown::new(global.progress, global.quiet),
            begun: Instant::now(),
        }
    }

    /// Milliseconds since the command began.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
