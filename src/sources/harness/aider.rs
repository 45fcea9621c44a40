//! Aider: one history in each repository, so there is no folder of its own. What is looked at is
//! the folder of `$AIDER_CHAT_HISTORY_FILE` and the roots that the settings name.

use std::path::{Path, PathBuf};

use super::{Area, Harness, Home, parts};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Aider;

impl Harness for Aider {
    fn homes(&self, env: &Env) -> Vec<Home> {
        env.var("AIDER_CHAT_HISTORY_FILE")
            .map(PathBuf::from)
            .filter(|file| file.is_absolute())
            .and_then(|file| file.parent().map(Home::named))
            .into_iter()
            .collect()
    }

    fn areas(&self) -> &'static [Area] {
        // The files lie at the top of a repository; what is in it is not Aider's.
        &[]
    }

    fn belongs(&self, _rel: &Path, _native: &str, _own: &Path) -> bool {
        false
    }

    fn serves_many(&self, rel: &Path, own: &Path) -> bool {
        // What was typed is offered again; the other log is for its developers.
        rel.parent() == own.parent() && rel.ends_with(".aider.input.history")
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b".aider.chat.history.md"] => Some(FileUse::Session),
            [b".aider.input.history" | b".aider.llm.history"] => Some(FileUse::Evidence),
            _ => None,
        }
    }
}
