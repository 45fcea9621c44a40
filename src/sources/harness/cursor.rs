//! Cursor: the `User` folder of the editor, and `~/.cursor` (`$CURSOR_CONFIG_DIR`) for its command
//! line agent and the transcripts of agents.

use std::path::Path;

use super::{Area, Harness, Home, below_home, beside, editor, named_after, parts, shallow};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Cursor;

impl Harness for Cursor {
    fn homes(&self, env: &Env) -> Vec<Home> {
        let mut homes: Vec<Home> = editor::user_folder(env, "Cursor")
            .map(Home::usual)
            .into_iter()
            .collect();
        homes.extend(below_home(env, ".cursor"));
        // The variable moves the settings; whether it moves the chats depends on the version.
        if let Some(dir) = env.var("CURSOR_CONFIG_DIR") {
            homes.push(Home::named(dir));
        }
        homes
    }

    fn areas(&self) -> &'static [Area] {
        // Extensions keep folders of their own in the first two, and they may be large.
        const AREAS: &[Area] = &[
            shallow("globalStorage", 1),
            shallow("workspaceStorage", 2),
            shallow("chats", 3),
            shallow("projects", 5),
        ];
        AREAS
    }

    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        match parts(own).as_slice() {
            // A conversation's folder holds the transcripts of its agents.
            [a, b, c, folder, _] if own.file_stem() == own.parent().and_then(Path::file_name) => {
                parts(rel).starts_with(&[a, b, c, folder])
            }
            [b"projects", ..] => beside(rel, own),
            _ => named_after(rel, native),
        }
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"globalStorage", name] | [b"workspaceStorage", _, name] | [name] => match *name {
                b"state.vscdb" | b"state.vscdb.backup" => Some(FileUse::Session),
                b"workspace.json" => Some(FileUse::Evidence),
                _ => None,
            },
            [b"chats", _, _, name] => match *name {
                b"store.db" => Some(FileUse::Session),
                b"meta.json" | b"prompt_history.json" => Some(FileUse::Evidence),
                _ => None,
            },
            [b"chats", .., b"prompt_history.json"] => Some(FileUse::Evidence),
            [b"projects", _, b"agent-transcripts", .., name] => {
                (name.ends_with(b".jsonl") || name.ends_with(b".txt")).then_some(FileUse::Session)
            }
            _ => None,
        }
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
            ("globalStorage/state.vscdb", session),
            ("globalStorage/state.vscdb.backup", session),
            ("globalStorage/state.vscdb-wal", None),
            ("globalStorage/storage.json", None),
            ("globalStorage/some.extension/state.vscdb", None),
            ("workspaceStorage/0f/state.vscdb", session),
            ("workspaceStorage/0f/workspace.json", evidence),
            ("chats/0f/1a/store.db", session),
            ("chats/0f/1a/store.db-wal", None),
            ("chats/0f/1a/meta.json", evidence),
            ("chats/0f/prompt_history.json", evidence),
            ("projects/p/agent-transcripts/a.jsonl", session),
            ("projects/p/agent-transcripts/a/a.jsonl", session),
            ("projects/p/agent-transcripts/a/subagents/b.jsonl", session),
            ("projects/p/agent-transcripts/a.txt", session),
            ("projects/p/terminals/1.txt", None),
            ("mcp.json", None),
        ] {
            assert_eq!(Cursor.usage(Path::new(rel)), want, "{rel}");
        }
    }
}
