//! Kimi, both programs: kimi-code keeps a wire log an agent, kimi-cli (Python) a wire log and a
//! context log a session. No record names its session: the folders do.
//!
//! A prompt stands in the wire log when it is given and again when it joins the context: that is
//! one message. The context log says what the wire log says, without times, so it is read only
//! where no wire log covers it.

mod place;
mod wire;

use std::path::PathBuf;

use super::chat::{self, Chat};
use super::recent::Recent;
use super::{LogReader, RawRecord, Reading, Start, known, stem};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::line::Line;
use crate::model::record::{Disposition, Facts, Role};
pub(super) use place::siblings;
use place::{Place, facts_beside};

raw_object! {
    struct Entry {
        kind = "type",
        time = "time",
        timestamp = "timestamp",
        created_at = "created_at",
        role = "role",
        message = "message",
        protocol = "protocol_version",
        event = "event",
        cwd = "cwd",
        disclosure = "environmentDisclosure",
        input = "input",
        origin = "origin",
        summary = "summary",
        content = "content",
        model = "model",
        error = "error",
    }
}

raw_object! {
    struct Origin { kind = "kind", cwd = "cwd" }
}

/// Keys that a record may begin with.
const FIRST_KEYS: &[&str] = &["type", "timestamp", "role", "time"];

/// Reads the records of one file.
#[derive(Debug)]
pub(super) struct KimiReader {
    session: String,
    /// What the folder and the file beside say. The title may come late, so every record tells it;
    /// the working folder counts until a record names one.
    beside: Facts,
    placed: bool,
    /// The wire log beside says all that this context log says.
    covered: bool,
    /// Prompts that have not come again as messages.
    prompts: Recent,
    /// The model that is asked.
    model: Option<String>,
}

impl KimiReader {
    pub(super) fn new(start: Start<'_>, state: Option<serde_json::Value>) -> Self {
        type Kept = (String, bool, bool, Recent, Option<String>);
        let place = Place::of(start.path);
        let kept = state.and_then(|s| serde_json::from_value::<Kept>(s).ok());
        let wire = if place.is_context {
            siblings(start.path)
                .iter()
                .filter(|path| stem(path) == "wire")
                .find_map(|path| start.siblings.get(path))
        } else {
            None
        };
        let (session, placed, covered, prompts, model) = kept.unwrap_or_else(|| {
            let covered = wire.is_some_and(|wire| covers(wire, start));
            // Beside a wire log that says something else this is a part of its own.
            let session = if place.is_context && (wire.is_some() && !covered || place.is_old) {
                format!("{}/{}", place.session(), stem(start.path))
            } else {
                place.session()
            };
            (session, false, covered, Recent::default(), None)
        });
        let mut beside = facts_beside(start, &place);
        if session != place.session() {
            beside.parent_session = Some(place.session());
        }
        KimiReader {
            session,
            beside,
            placed,
            covered,
            prompts,
            model,
        }
    }

    /// A line of a context log.
    fn context(&self, role: &str, text: &str) -> Disposition {
        if matches!(role, "_checkpoint" | "_usage") || self.covered {
            return Disposition::Known;
        }
        let mut chat: Chat<'_> = serde_json::from_str(text).unwrap_or_default();
        if role == "_system_prompt" {
            chat.role = serde_json::from_str("\"system\"").ok();
        }
        let mut out = Vec::new();
        if !chat::messages(&chat, Role::User, &mut out) {
            return Disposition::Unknown;
        }
        for message in &mut out {
            if message.role == Role::User && is_note(&message.text) {
                message.role = Role::Meta;
            }
        }
        known(out)
    }
}

/// Whether a text in the person's mouth is the program's own, such as the mark of a checkpoint.
fn is_note(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("<system>") && text.ends_with("</system>")
}

/// Whether a wire log begins with the prompt with which a context log begins.
fn covers(wire: &[u8], start: Start<'_>) -> bool {
    let prompt = start.first_objects().find_map(|(_, text)| {
        let chat: Chat<'_> = serde_json::from_str(text).ok()?;
        let said = json::text(chat.role)?;
        let text = chat::joined(chat.content);
        (said == "user" && !is_note(&text)).then_some(text)
    });
    match prompt {
        // Nothing was said yet that could be lost.
        None => true,
        Some(prompt) => {
            let begun = crate::ingest::parse::first_objects(wire)
                .filter_map(|(_, text)| serde_json::from_str::<Entry<'_>>(text).ok())
                .find_map(|entry| wire::prompt(&entry));
            begun == Some(prompt)
        }
    }
}

impl LogReader for KimiReader {
    fn state(&self) -> Option<serde_json::Value> {
        serde_json::to_value((
            &self.session,
            self.placed,
            self.covered,
            &self.prompts,
            &self.model,
        ))
        .ok()
    }

    fn first_keys(&self) -> &'static [&'static str] {
        FIRST_KEYS
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        line.role.is_some()
            || (line.timestamp.is_some() && line.message.is_some())
            || json::text(line.kind).is_some_and(|kind| kind.contains('.') || kind == "metadata")
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let entry: Entry<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let mut reading = Reading {
            session: self.session.clone(),
            native_id: None,
            native_parent: None,
            record_type: json::owned(entry.kind).unwrap_or_default(),
            time_ms: [entry.time, entry.timestamp, entry.created_at]
                .into_iter()
                .find_map(json::time_ms),
            disposition: Disposition::Unknown,
            facts: Facts {
                workspace: None,
                ..self.beside.clone()
            },
        };
        if entry.kind.is_some() {
            self.wire(&entry, record.offset, &mut reading);
        } else if let Some(role) = json::owned(entry.role) {
            reading.disposition = self.context(&role, record.text);
            reading.record_type = role;
        } else if let Some(sent) = json::object::<wire::Sent<'_>>(entry.message) {
            self.sent(&sent, &mut reading);
        }
        self.placed |= reading.facts.workspace.is_some();
        if !self.placed {
            reading.facts.workspace.clone_from(&self.beside.workspace);
        }
        reading
    }
}

/// The path with another name.
fn beside(path: &std::path::Path, name: &str) -> PathBuf {
    path.with_file_name(name)
}
