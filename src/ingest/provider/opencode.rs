//! OpenCode: an SQLite database; before 1.2 a tree of JSON files, one a session, message or part.
//!
//! Rows and files say the same under the same ids, so what a migration copied from the tree into
//! the database is a version, not a second session.

use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::{
    DocumentReader, Members, RawRecord, Reading, Start, TableReader, Visit, blocks, json_text,
    known, message, push_text, stem,
};
use crate::error::Result;
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::payload;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};
use crate::model::row::Row;

raw_object! {
    struct Info {
        id = "id",
        session_id = "sessionID",
        message_id = "messageID",
        parent_id = "parentID",
        directory = "directory",
        title = "title",
        version = "version",
        role = "role",
        model_id = "modelID",
        model = "model",
        time = "time",
        error = "error",
        path = "path",
        cwd = "cwd",
        kind = "type",
        text = "text",
        synthetic = "synthetic",
        tool = "tool",
        call_id = "callID",
        state = "state",
        filename = "filename",
        mime = "mime",
        url = "url",
        prompt = "prompt",
        description = "description",
        name = "name",
        message = "message",
        data = "data",
    }
}

raw_object! {
    struct State {
        status = "status",
        input = "input",
        output = "output",
        error = "error",
        time = "time",
    }
}

raw_object! {
    struct Time { created = "created", start = "start", completed = "completed" }
}

fn created(time: Option<&RawValue>) -> Option<i64> {
    let time = json::object::<Time<'_>>(time)?;
    json::time_ms(time.created).or_else(|| json::time_ms(time.start))
}

fn parse(text: &str) -> Option<Info<'_>> {
    serde_json::from_str(text).ok()
}

/// The role of a message's texts and its model.
#[derive(Debug, Default, Clone)]
struct Speaker {
    message: Option<String>,
    role: Option<Role>,
    model: Option<String>,
}

impl Speaker {
    fn of(id: Option<String>, info: &Info<'_>) -> Speaker {
        let nested = json::object::<Info<'_>>(info.model);
        Speaker {
            message: id,
            role: match json::text(info.role).as_deref() {
                Some("user") => Some(Role::User),
                Some("assistant") => Some(Role::Assistant),
                Some("system") => Some(Role::System),
                _ => None,
            },
            model: json::owned(info.model_id)
                .or_else(|| nested.and_then(|m| json::owned(m.model_id))),
        }
    }
}

/// What a message says by itself: its texts are in its parts, but not what made it fail.
fn of_message(info: &Info<'_>) -> Disposition {
    let mut out = Vec::new();
    if let Some(error) = json::object::<Info<'_>>(info.error) {
        let name = json::text(error.name).unwrap_or_default();
        let said = json::object::<Info<'_>>(error.data)
            .and_then(|d| json::text(d.message))
            .or_else(|| json::text(error.message))
            .unwrap_or_default();
        let text = format!("{name}: {said}");
        out.push(Message {
            is_error: Some(true),
            ..message(Role::System, MessageKind::Text, text)
        });
    }
    known(out)
}

/// What a part says; `speaker` is that of its message.
fn of_part(info: &Info<'_>, speaker: &Speaker) -> Disposition {
    let mut out = Vec::new();
    let kind = json::text(info.kind).unwrap_or_default();
    let role = speaker.role.unwrap_or(Role::Assistant);
    match &*kind {
        "text" => {
            if let Some(text) = json::text(info.text).filter(|t| !t.is_empty()) {
                let role = if json::is_true(info.synthetic) {
                    Role::Meta
                } else if role == Role::User {
                    blocks::speaker(&text).0
                } else {
                    role
                };
                out.push(message(
                    role,
                    MessageKind::Text,
                    payload::described_in(text),
                ));
            }
        }
        "reasoning" => push_text(&mut out, role, MessageKind::Reasoning, info.text),
        "tool" => tool(info, &mut out),
        "file" => {
            let name = json::text(info.filename).unwrap_or_default();
            let url = json::text(info.url).unwrap_or_default();
            let mut line = payload::describe_url("file", &url);
            if !name.is_empty() {
                line = format!("{name} {line}");
            }
            out.push(message(role, MessageKind::Attachment, line));
        }
        "subtask" => {
            push_text(&mut out, Role::User, MessageKind::Text, info.prompt);
            push_text(&mut out, Role::Meta, MessageKind::Text, info.description);
        }
        "agent" => push_text(&mut out, Role::Meta, MessageKind::Text, info.name),
        "retry" => {
            if let Disposition::Messages(failed) = of_message(info) {
                out.extend(failed);
            }
        }
        "step-start" | "step-finish" | "snapshot" | "patch" | "compaction" => {}
        _ => return Disposition::Unknown,
    }
    for message in &mut out {
        if message.role == Role::Assistant {
            message.model.clone_from(&speaker.model);
        }
    }
    known(out)
}

fn tool(info: &Info<'_>, out: &mut Vec<Message>) {
    let state = json::object::<State<'_>>(info.state).unwrap_or_default();
    let (name, call_id) = (json::owned(info.tool), json::owned(info.call_id));
    out.push(Message {
        tool_name: name.clone(),
        call_id: call_id.clone(),
        ..message(
            Role::Assistant,
            MessageKind::ToolCall,
            state.input.map(json_text).unwrap_or_default(),
        )
    });
    let failed = json::text(state.status).is_some_and(|s| s == "error");
    let answer = if failed { state.error } else { state.output };
    if let Some(answer) = json::present(answer) {
        let text =
            json::text(Some(answer)).map_or_else(|| json_text(answer), payload::described_in);
        out.push(Message {
            tool_name: name,
            call_id,
            is_error: Some(failed),
            ..message(Role::Tool, MessageKind::ToolResult, text)
        });
    }
}

/// Reads the database.
#[derive(Debug, Default)]
pub(super) struct OpenCodeTables {
    speaker: Speaker,
}

const TABLES: &[&str] = &[
    "session",
    "message",
    "part",
    "todo",
    "session_message",
    "session_input",
];

impl TableReader for OpenCodeTables {
    fn tables(&self) -> &'static [&'static str] {
        TABLES
    }

    fn visit(&mut self, visit: &mut dyn Visit) -> Result<()> {
        if !visit.has("session") {
            return Ok(());
        }
        for session in visit.keys("SELECT id FROM session ORDER BY time_created, id", &[])? {
            visit.rows(self, "session", "WHERE id=?1", &[&session])?;
            if visit.has("message") {
                let sql = "SELECT id FROM message WHERE session_id=?1 ORDER BY time_created, id";
                for id in visit.keys(sql, &[&session])? {
                    visit.rows(self, "message", "WHERE id=?1", &[&id])?;
                    if visit.has("part") {
                        visit.rows(self, "part", "WHERE message_id=?1 ORDER BY id", &[&id])?;
                    }
                }
            }
            for (table, order) in [
                ("todo", "position"),
                ("session_message", "seq"),
                ("session_input", "admitted_seq"),
            ] {
                if visit.has(table) {
                    let rest = format!("WHERE session_id=?1 ORDER BY {order}");
                    visit.rows(self, table, &rest, &[&session])?;
                }
            }
        }
        Ok(())
    }

    fn read(&mut self, table: &'static str, row: &Row) -> Reading {
        let id = row.owned("id");
        let data = row.text("data").unwrap_or_default();
        let info = parse(&data).unwrap_or_default();
        let mut reading = Reading {
            session: row.owned("session_id").unwrap_or_default(),
            native_id: id.clone(),
            native_parent: None,
            record_type: json::owned(info.kind).unwrap_or_default(),
            time_ms: row.integer("time_created"),
            disposition: Disposition::Known,
            facts: Facts::default(),
        };
        match table {
            "session" => {
                reading.session = id.unwrap_or_default();
                reading.facts = Facts {
                    title: row.owned("title"),
                    workspace: row.owned("directory"),
                    parent_session: row.owned("parent_id"),
                    harness_version: row.owned("version"),
                };
            }
            "message" => {
                self.speaker = Speaker::of(id, &info);
                reading.record_type = json::owned(info.role).unwrap_or_default();
                reading.native_parent = json::owned(info.parent_id);
                reading.disposition = if parse(&data).is_some() {
                    of_message(&info)
                } else {
                    Disposition::Unknown
                };
            }
            "part" => {
                let of = row.owned("message_id");
                if self.speaker.message != of {
                    self.speaker = Speaker::default();
                }
                reading.native_parent = of;
                reading.disposition = of_part(&info, &self.speaker);
            }
            "session_input" => {
                reading.record_type = row.owned("delivery").unwrap_or_default();
                let prompt = row.text("prompt").unwrap_or_default();
                let mut out = Vec::new();
                // The prompt comes again as a message once it is delivered.
                let text = parse(&prompt)
                    .and_then(|p| json::owned(p.text))
                    .unwrap_or_else(|| prompt.into_owned());
                if !text.is_empty() {
                    out.push(message(Role::Meta, MessageKind::Text, text));
                }
                reading.disposition = known(out);
            }
            "session_message" => {
                reading.record_type = row.owned("type").unwrap_or_default();
                let mut out = Vec::new();
                push_text(&mut out, Role::Meta, MessageKind::Text, info.text);
                reading.disposition = known(out);
            }
            // A todo has no id of its own: its place in the list is one.
            _ => {
                let place = row.integer("position").unwrap_or_default();
                reading.native_id = Some(format!("todo:{place}"));
                let mut out = Vec::new();
                if let Some(text) = row.owned("content") {
                    let status = row.text("status").unwrap_or_default();
                    out.push(message(
                        Role::Meta,
                        MessageKind::Text,
                        format!("[{status}] {text}"),
                    ));
                }
                reading.disposition = known(out);
            }
        }
        if reading.session.is_empty() {
            reading.session = "unknown".to_owned();
        }
        reading
    }
}

/// Reads one file of the tree.
#[derive(Debug)]
pub(super) struct OpenCodeTree {
    place: Place,
    session: String,
    speaker: Speaker,
}

/// The folder of the tree that a file is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Session,
    Message,
    Part,
    Other,
}

impl Place {
    fn of(path: &Path) -> Place {
        let name = path
            .parent()
            .and_then(Path::parent)
            .and_then(Path::file_name)
            .unwrap_or_default();
        match name.to_str() {
            Some("session") => Place::Session,
            Some("message") => Place::Message,
            Some("part") => Place::Part,
            _ => Place::Other,
        }
    }
}

/// The file of the message that a part belongs to.
pub(super) fn message_of(path: &Path, head: &[u8]) -> Option<PathBuf> {
    if Place::of(path) != Place::Part {
        return None;
    }
    let info: Info<'_> = serde_json::from_slice(head).ok()?;
    let session = json::owned(info.session_id)?;
    let message = path.parent()?.file_name()?.to_str()?;
    if session.contains('/') || session.starts_with('.') {
        return None;
    }
    let storage = path.parent()?.parent()?.parent()?;
    Some(
        storage
            .join("message")
            .join(session)
            .join(format!("{message}.json")),
    )
}

impl OpenCodeTree {
    pub(super) fn new(start: Start<'_>) -> Self {
        let info: Info<'_> = serde_json::from_slice(start.head).unwrap_or_default();
        let place = Place::of(start.path);
        let folder = start.path.parent().and_then(Path::file_name);
        let by_path = match place {
            Place::Session | Place::Other => Some(stem(start.path)),
            Place::Message => folder.map(|f| f.to_string_lossy().into_owned()),
            Place::Part => None,
        };
        let session = match place {
            Place::Session => json::owned(info.id),
            _ => json::owned(info.session_id),
        };
        let speaker = message_of(start.path, start.head)
            .and_then(|path| start.siblings.get(&path))
            .and_then(|bytes| {
                let info: Info<'_> = serde_json::from_slice(bytes).ok()?;
                Some(Speaker::of(json::owned(info.id), &info))
            })
            .unwrap_or_default();
        OpenCodeTree {
            place,
            session: session.or(by_path).unwrap_or_else(|| "unknown".to_owned()),
            speaker,
        }
    }
}

impl DocumentReader for OpenCodeTree {
    fn frame(&mut self, _: &Members) -> Reading {
        self.read(RawRecord {
            text: "{}",
            line: None,
            offset: 0,
            hash: &crate::model::digest::Digest::default(),
        })
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let parsed = parse(record.text);
        let info = parsed.unwrap_or_default();
        let mut facts = Facts::default();
        let (kind, disposition) = match self.place {
            _ if parsed.is_none() => (String::new(), Disposition::Unknown),
            Place::Session => {
                facts = Facts {
                    title: json::owned(info.title),
                    workspace: json::owned(info.directory),
                    parent_session: json::owned(info.parent_id),
                    harness_version: json::owned(info.version),
                };
                ("session".to_owned(), Disposition::Known)
            }
            Place::Message => {
                let role = json::text(info.role).unwrap_or_default();
                (format!("message/{role}"), of_message(&info))
            }
            Place::Part => {
                let kind = json::text(info.kind).unwrap_or_default();
                (format!("part/{kind}"), of_part(&info, &self.speaker))
            }
            Place::Other => ("other".to_owned(), Disposition::Known),
        };
        Reading {
            session: self.session.clone(),
            native_id: json::owned(info.id),
            native_parent: json::owned(info.message_id).or_else(|| match self.place {
                Place::Message => json::owned(info.parent_id),
                _ => None,
            }),
            record_type: kind,
            time_ms: created(info.time).or_else(|| {
                let state = json::object::<State<'_>>(info.state)?;
                created(state.time)
            }),
            disposition,
            facts,
        }
    }
}
