//! From what archive and mirror know of a session to its documents.

use super::export::{ExportMessage, ExportSession, Locator};
use super::sessions::{Accounting, SessionRow};
use super::time::rfc3339;
use crate::model::conversation::{Accounting as Parts, ArchivedMessage, Conversation};
use crate::model::digest::Digest;

impl From<&Conversation> for SessionRow {
    fn from(c: &Conversation) -> SessionRow {
        SessionRow {
            id: c.id.clone(),
            native_id: c.native_id.clone(),
            provider: c.provider,
            source_id: c.source_id.clone(),
            title: c.title.clone(),
            workspace: c.workspace.clone(),
            started_at: c.started_ms.and_then(rfc3339),
            ended_at: c.ended_ms.and_then(rfc3339),
            messages: c.message_count,
            parent_session: c.parent_session.clone(),
            branch_of: c.branch_of.clone(),
        }
    }
}

impl From<&Parts> for Accounting {
    fn from(p: &Parts) -> Accounting {
        Accounting {
            length: p.length,
            message_bytes: p.messages.bytes,
            known_bytes: p.known.bytes,
            unknown_bytes: p.unknown.bytes,
            duplicate_bytes: p.duplicate.bytes,
            skipped_bytes: p.skipped_bytes,
            separator_bytes: p.separator_bytes,
            tail_bytes: p.tail.map_or(0, |t| t.len),
        }
    }
}

impl From<&Conversation> for ExportSession {
    fn from(c: &Conversation) -> ExportSession {
        ExportSession {
            id: c.id.clone(),
            native_id: c.native_id.clone(),
            provider: c.provider,
            source_id: c.source_id.clone(),
            title: c.title.clone(),
            workspace: c.workspace.clone(),
            parent_session: c.parent_session.clone(),
            branch_of: c.branch_of.clone(),
            harness_version: c.harness_version.clone(),
            started_at: c.started_ms.and_then(rfc3339),
            ended_at: c.ended_ms.and_then(rfc3339),
        }
    }
}

/// The id that people see: from the record's hash, its occurrence and the part, so that a rebuild
/// gives the same.
#[must_use]
pub fn message_id(record_hash: &Digest, occurrence: u64, part: u64) -> String {
    let hash = record_hash.to_hex();
    format!("{}.{occurrence}.{part}", hash.get(..24).unwrap_or(&hash))
}

impl From<ArchivedMessage> for ExportMessage {
    fn from(m: ArchivedMessage) -> ExportMessage {
        ExportMessage {
            id: message_id(&m.record_hash, m.occurrence, m.part),
            record_hash: m.record_hash.to_hex(),
            occurrence: m.occurrence,
            part: u32::try_from(m.part).unwrap_or(u32::MAX),
            role: m.message.role,
            kind: m.message.kind,
            text: m.message.text,
            time: m.time_ms.and_then(rfc3339),
            tool_name: m.message.tool_name,
            call_id: m.message.call_id,
            model: m.message.model,
            is_error: m.message.is_error,
            native_id: m.native_id,
            native_parent: m.native_parent,
            superseded: m.superseded,
            locator: Locator {
                source: m.source.to_string(),
                seq: m.seq,
                offset: m.span.offset,
                len: m.span.len,
            },
        }
    }
}
