//! Cline: the extension's folder in each editor, and `~/.cline` for its command line.

use std::path::{Path, PathBuf};

use super::{Area, Harness, Home, area, below_home, editor, parts, shallow};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Cline;

/// The extension's id.
const EXTENSION: &str = "saoudrizwan.claude-dev";

impl Harness for Cline {
    fn homes(&self, env: &Env) -> Vec<Home> {
        let mut homes: Vec<Home> = match (env.var("CLINE_DATA_DIR"), env.var("CLINE_DIR")) {
            (Some(data), _) => vec![Home::named(data)],
            (None, Some(dir)) => vec![Home::named(PathBuf::from(dir).join("data"))],
            (None, None) => below_home(env, ".cline/data"),
        };
        homes.extend(in_editors(env, EXTENSION));
        homes
    }

    fn areas(&self) -> &'static [Area] {
        TASKS
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"sessions", .., _, name] => {
                if name.ends_with(b".messages.json") {
                    Some(FileUse::Session)
                } else {
                    name.ends_with(b".json").then_some(FileUse::Evidence)
                }
            }
            [b"db", b"sessions.db"] | [b"state", b"taskHistory.json"] => Some(FileUse::Evidence),
            inside => task_file(inside),
        }
    }
}

/// What is walked in the folder of an extension, and in that of the command line.
pub(super) const TASKS: &[Area] = &[
    shallow("tasks", 2),
    area("sessions", false),
    shallow("db", 1),
    shallow("state", 1),
];

/// The folder of an extension in each editor.
pub(super) fn in_editors(env: &Env, extension: &str) -> Vec<Home> {
    editor::user_folders(env)
        .into_iter()
        .map(|user| Home::usual(user.join("globalStorage").join(extension)))
        .collect()
}

/// What a file in a task's folder is.
pub(super) fn task_file(rel: &[&[u8]]) -> Option<FileUse> {
    match rel {
        [b"tasks", _, name] => match *name {
            b"api_conversation_history.json" | b"ui_messages.json" | b"claude_messages.json" => {
                Some(FileUse::Session)
            }
            // Titles, settings, the files in the context, records of checkpoints.
            name => name.ends_with(b".json").then_some(FileUse::Evidence),
        },
        [b"tasks", b"_index.json"] => Some(FileUse::Evidence),
        _ => None,
    }
}
