//! What a run met that is no failure and yet worth a word.

use schemars::JsonSchema;
use serde::Serialize;

use super::finding::Severity;

/// What was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoteCode {
    /// A setting or variable names this folder, and nothing is there.
    RootAbsent,
    /// The capture is safe, and not one record could be read from it.
    NothingParsed,
    /// A link to a folder that was followed.
    LinkFollowed,
    /// A link to a folder that was read under another name.
    LinkSeen,
    /// A link that is not followed.
    LinkSkipped,
    /// A FIFO, socket or device, which is never opened.
    NotAFile,
    /// A `-wal` or `-journal` that is no regular file: its database was captured without it.
    SidecarSkipped,
}

impl NoteCode {
    /// How much it matters.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            NoteCode::RootAbsent | NoteCode::NothingParsed | NoteCode::SidecarSkipped => {
                Severity::Warn
            }
            _ => Severity::Info,
        }
    }

    /// One sentence for people, behind the path.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            NoteCode::RootAbsent => "a setting names this folder and nothing is there",
            NoteCode::NothingParsed => "is captured, and no record could be read from it",
            NoteCode::LinkFollowed => "a linked folder; it was followed once",
            NoteCode::LinkSeen => "a link to a folder that was read already",
            NoteCode::LinkSkipped => "a link; it is not followed",
            NoteCode::NotAFile => "a FIFO, socket or device; it is not read",
            NoteCode::SidecarSkipped => {
                "is no regular file; the database is captured without it, so what only it holds is missing"
            }
        }
    }
}
