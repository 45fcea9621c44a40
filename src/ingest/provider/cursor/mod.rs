//! Cursor: databases of keys and values, the databases of its command line agent, and transcripts.
//!
//! One conversation may be in several of them. In the databases its records have ids, so what comes
//! twice is a version. Transcripts have none, and say less: each is a session of its own whose
//! parent is the conversation.

mod bubble;
mod desktop;
mod plain;
mod store;
mod transcript;

use std::path::{Path, PathBuf};

use super::inside::Marks;
use super::{Reader, Reading, Start, TableReader, Visit, has_extension, is_database};
use crate::error::Result;
use crate::model::row::Row;

/// What stands beside the person's words in what is sent to the model.
const MARKS: Marks = Marks {
    said: &["user_query"],
    injected: &[
        "additional_data",
        "agent_skills",
        "agent_transcripts",
        "always_applied_workspace_rules",
        "attached_files",
        "git_status",
        "open_and_recently_viewed_files",
        "project_layout",
        "rules",
        "system_reminder",
        "timestamp",
        "user_info",
    ],
};

pub(super) fn reader(start: Start<'_>) -> Reader {
    if is_database(start.head) {
        return Reader::Tables(Box::new(CursorTables {
            desktop: desktop::Desktop::new(start),
            store: store::Store::new(start),
        }));
    }
    if has_extension(start.path, "txt") {
        return Reader::Text(Box::new(plain::Plain::new(start.path)));
    }
    Reader::Log(Box::new(transcript::Transcript::new(start.path)))
}

/// The files that say in which folder a database's conversations took place.
pub(super) fn siblings(path: &Path) -> Vec<PathBuf> {
    let Some(folder) = path.parent() else {
        return Vec::new();
    };
    match path.file_name().and_then(|n| n.to_str()) {
        Some("store.db") => vec![folder.join("meta.json")],
        Some("state.vscdb" | "state.vscdb.backup") => vec![folder.join("workspace.json")],
        _ => Vec::new(),
    }
}

/// Reads a database of either kind: its tables say which it is.
#[derive(Debug)]
struct CursorTables {
    desktop: desktop::Desktop,
    store: store::Store,
}

impl TableReader for CursorTables {
    fn tables(&self) -> &'static [&'static str] {
        &[
            desktop::DISK,
            desktop::ITEMS,
            desktop::HEADERS,
            store::META,
            store::BLOBS,
        ]
    }

    fn visit(&mut self, visit: &mut dyn Visit) -> Result<()> {
        if visit.has(desktop::DISK) {
            self.conversations(visit)?;
        }
        if visit.has(store::META) {
            visit.rows(self, store::META, "ORDER BY key", &[])?;
        }
        if visit.has(store::BLOBS) {
            for id in self.store.order(visit)? {
                visit.rows(self, store::BLOBS, "WHERE id=?1", &[&id])?;
            }
        }
        Ok(())
    }

    fn only(&self, table: &'static str) -> &'static str {
        desktop::only(table)
    }

    fn parts(&mut self, table: &'static str, row: &Row) -> Option<Vec<super::RowPart>> {
        self.desktop.parts(table, row)
    }

    fn read(&mut self, table: &'static str, row: &Row) -> Reading {
        match table {
            store::META | store::BLOBS => self.store.read(table, row),
            _ => self.desktop.read(table, row),
        }
    }
}

impl CursorTables {
    /// Asks for the conversations one after another, each with its bubbles in the order of its own
    /// list; those that the list lacks come behind.
    fn conversations(&mut self, visit: &mut dyn Visit) -> Result<()> {
        let sql = "SELECT key FROM cursorDiskKV WHERE key>='composerData:' AND key<'composerData;' \
                   ORDER BY _rowid_";
        for key in visit.keys(sql, &[])? {
            let Some(id) = key.strip_prefix("composerData:") else {
                continue;
            };
            self.desktop.begin();
            visit.rows(self, desktop::DISK, "WHERE key=?1", &[&key])?;
            for bubble in self.desktop.listed() {
                let key = format!("bubbleId:{id}:{bubble}");
                visit.rows(self, desktop::DISK, "WHERE key=?1", &[&key])?;
            }
            let (from, to) = (format!("bubbleId:{id}:"), format!("bubbleId:{id};"));
            let rest = "WHERE key>=?1 AND key<?2 ORDER BY _rowid_";
            visit.rows(self, desktop::DISK, rest, &[&from, &to])?;
        }
        Ok(())
    }
}
