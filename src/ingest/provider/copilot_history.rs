//! GitHub Copilot CLI before its event logs: one JSON document a session, with the messages that
//! were sent to the model.

use std::path::Path;

use super::chat::{self, Chat};
use super::{DocumentReader, Members, RawRecord, Reading, copilot, known};
use crate::ingest::parse::json::{self, raw_object};
use crate::model::record::{Disposition, Facts, Role};

raw_object! {
    struct Entry { id = "id", timestamp = "timestamp", kind = "type", role = "role" }
}

/// Reads one document.
#[derive(Debug)]
pub(super) struct CopilotHistory {
    session: String,
}

impl CopilotHistory {
    pub(super) fn new(path: &Path) -> Self {
        CopilotHistory {
            session: copilot::session_in_name(path),
        }
    }

    fn reading(&self, record_type: String, disposition: Disposition) -> Reading {
        Reading {
            session: self.session.clone(),
            native_id: None,
            native_parent: None,
            record_type,
            time_ms: None,
            disposition,
            facts: Facts::default(),
        }
    }
}

impl DocumentReader for CopilotHistory {
    fn record_members(&self) -> &'static [&'static str] {
        &["chatMessages"]
    }

    fn frame(&mut self, members: &Members) -> Reading {
        if let Some(session) = members.text("sessionId") {
            self.session = session;
        }
        let mut reading = self.reading("document".to_owned(), Disposition::Known);
        reading.time_ms = members
            .text("startTime")
            .and_then(|t| t.parse::<jiff::Timestamp>().ok())
            .map(jiff::Timestamp::as_millisecond);
        reading
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let chat: Chat<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let entry: Entry<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let mut out = Vec::new();
        let disposition = if chat::messages(&chat, Role::User, &mut out) {
            known(out)
        } else {
            Disposition::Unknown
        };
        let kind = json::owned(entry.role).or_else(|| json::owned(entry.kind));
        let mut reading = self.reading(kind.unwrap_or_default(), disposition);
        reading.native_id = json::owned(entry.id);
        reading.time_ms = json::time_ms(entry.timestamp);
        reading
    }
}
