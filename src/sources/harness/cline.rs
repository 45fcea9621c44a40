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

    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        of_task(rel, native, own)
    }

    fn goes_with(&self, rel: &Path, own: &Path) -> bool {
        rel.parent() == own.parent()
    }

    fn serves_many(&self, rel: &Path, _own: &Path) -> bool {
        is_list(rel)
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

/// Whether a file belongs to a task: what is in the folder of the task, whichever of its two views
/// is asked for, and what an agent of a session of the command line left.
pub(super) fn of_task(rel: &Path, native: &str, own: &Path) -> bool {
    match (parts(own).as_slice(), parts(rel).as_slice()) {
        ([b"tasks", task, _], [b"tasks", other, ..]) => task == other,
        ([b"sessions", id, _], [b"sessions", other, ..]) => id == other,
        ([b"sessions", ..], [b"sessions", ..]) => {
            let id = native.as_bytes();
            let name = rel.file_name().map(std::ffi::OsStr::as_encoded_bytes);
            let rest = name.and_then(|name| name.strip_prefix(id));
            rel.parent() == own.parent() && rest.is_some_and(|rest| rest.starts_with(b"."))
        }
        _ => false,
    }
}

/// Whether a file is a list of all tasks.
pub(super) fn is_list(rel: &Path) -> bool {
    matches!(
        parts(rel).as_slice(),
        [b"tasks", b"_index.json"] | [b"state", b"taskHistory.json"]
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_their_place_below_the_root() {
        let session = Some(FileUse::Session);
        let evidence = Some(FileUse::Evidence);
        for (rel, want) in [
            ("tasks/1/api_conversation_history.json", session),
            ("tasks/1/ui_messages.json", session),
            ("tasks/1/claude_messages.json", session),
            ("tasks/1/task_metadata.json", evidence),
            ("tasks/1/history_item.json", evidence),
            ("tasks/1/focus_chain.md", None),
            ("tasks/_index.json", evidence),
            ("state/taskHistory.json", evidence),
            ("sessions/a/a.messages.json", session),
            ("sessions/a/a.json", evidence),
            ("sessions/a/a.compaction.json", evidence),
            ("sessions/a/sub/b.messages.json", session),
            ("db/sessions.db", evidence),
            ("db/sessions.db-wal", None),
            ("checkpoints/x/HEAD", None),
        ] {
            assert_eq!(Cline.usage(Path::new(rel)), want, "{rel}");
        }
    }
}
