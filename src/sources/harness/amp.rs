//! Amp: `$XDG_DATA_HOME/amp`, else `~/.local/share/amp`; `$AMP_THREADS_DIR` names the folder of the
//! threads itself. Since spring 2026 threads are kept on its maker's servers, and nothing is here.

use std::path::Path;

use super::{Area, Harness, Home, beside, parts, shallow, xdg_data};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Amp;

impl Harness for Amp {
    fn homes(&self, env: &Env) -> Vec<Home> {
        if let Some(threads) = env.var("AMP_THREADS_DIR") {
            return vec![Home::named(threads)];
        }
        xdg_data(env)
            .map(|data| Home::usual(data.join("amp")))
            .into_iter()
            .collect()
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[shallow("threads", 1)];
        AREAS
    }

    fn belongs(&self, rel: &Path, _native: &str, own: &Path) -> bool {
        // A thread is one file.
        beside(rel, own)
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"threads", name] | [name] => {
                let is_thread = name.starts_with(b"T-") && name.ends_with(b".json");
                is_thread.then_some(FileUse::Session)
            }
            _ => None,
        }
    }
}
