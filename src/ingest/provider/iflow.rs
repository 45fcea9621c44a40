//! iFlow CLI: records in the shape of Claude Code's, with tool results in the shape of Gemini's.
//!
//! While an answer is on its way the calls in it are written again with each new one, under new
//! ids: a call is told once.

use std::path::Path;

use serde_json::value::RawValue;

use super::recent::Recent;
use super::{
    LogReader, RawRecord, Reading, blocks, gemini, known, push_text, session_of_file, stem,
};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::line::Line;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};

raw_object! {
    struct Entry {
        uuid = "uuid",
        parent = "parentUuid",
        session_id = "sessionId",
        timestamp = "timestamp",
        kind = "type",
        subtype = "subtype",
        is_meta = "isMeta",
        is_summary = "isCompactSummary",
        is_sidechain = "isSidechain",
        agent_id = "agentId",
        cwd = "cwd",
        version = "version",
        message = "message",
        content = "content",
        summary = "summary",
        tool = "toolUseResult",
    }
}

raw_object! {
    struct Body { content = "content", model = "model" }
}

raw_object! {
    struct Block { kind = "type", call_id = "tool_use_id", content = "content", is_error = "is_error" }
}

raw_object! {
    struct Answer { parts = "responseParts", display = "resultDisplay" }
}

raw_object! {
    struct Tool { name = "toolName", status = "status" }
}

/// Keys that a record may begin with.
const FIRST_KEYS: &[&str] = &["uuid", "parentUuid", "sessionId", "timestamp", "type"];

/// Reads the records of one file.
#[derive(Debug)]
pub(super) struct IflowReader {
    /// Session of records that name none.
    fallback: String,
    /// Calls that were told already.
    told: Recent,
}

impl IflowReader {
    pub(super) fn new<'h>(
        path: &Path,
        mut first: impl Iterator<Item = (usize, &'h str)>,
        state: Option<serde_json::Value>,
    ) -> Self {
        let fallback = session_of_file(stem(path), || {
            first.find_map(|(_, text)| {
                json::owned(serde_json::from_str::<Entry<'_>>(text).ok()?.session_id)
            })
        });
        IflowReader {
            fallback,
            told: state
                .and_then(|s| serde_json::from_value(s).ok())
                .unwrap_or_default(),
        }
    }

    fn assistant(&mut self, body: &Body<'_>, offset: u64) -> Disposition {
        let mut out = Vec::new();
        blocks::assistant(body.content, &mut out);
        let mut first = None;
        out.retain(|message| {
            let Some(id) = message
                .call_id
                .as_ref()
                .filter(|_| message.kind == MessageKind::ToolCall)
            else {
                return true;
            };
            // By what it asks for, too: some models number their calls anew each turn.
            let call = format!("{id} {}", message.text);
            if let Some(at) = self.told.find(&call) {
                first = first.or(Some(at));
                return false;
            }
            self.told.add(&call, offset);
            true
        });
        let model = json::owned(body.model);
        for message in &mut out {
            message.model.clone_from(&model);
        }
        match first {
            Some(offset) if out.is_empty() => Disposition::DuplicateOf { offset },
            _ => known(out),
        }
    }
}

fn user(entry: &Entry<'_>, body: &Body<'_>, out: &mut Vec<Message>) {
    let meta = json::is_true(entry.is_meta);
    let summary = json::is_true(entry.is_summary);
    let speak = |text: &str| {
        let (role, kind) = blocks::speaker(text);
        if summary {
            (Role::Meta, MessageKind::Summary)
        } else if meta {
            (Role::Meta, kind)
        } else {
            (role, kind)
        }
    };
    let tool = json::object::<Tool<'_>>(entry.tool).unwrap_or_default();
    let begun = out.len();
    blocks::user(body.content, &speak, out);
    // Results come in the order of their blocks.
    let mut answers = json::elements::<Block<'_>>(body.content)
        .into_iter()
        .filter_map(|element| match element {
            Element::Object(block) if is_result(&block) => Some(block),
            _ => None,
        });
    for message in out.iter_mut().skip(begun) {
        if message.kind != MessageKind::ToolResult {
            continue;
        }
        let Some(block) = answers.next() else {
            continue;
        };
        message.tool_name = json::owned(tool.name);
        if message.is_error.is_none() {
            message.is_error = json::text(tool.status).map(|s| s != "success");
        }
        if let Some(text) = answer(block.content) {
            message.text = text;
        }
    }
}

fn is_result(block: &Block<'_>) -> bool {
    json::text(block.kind).is_some_and(|k| k == "tool_result" || k.ends_with("_tool_result"))
}

/// The text of a result that is an object.
fn answer(content: Option<&RawValue>) -> Option<String> {
    let answer = json::object::<Answer<'_>>(content)?;
    let mut out: Vec<Message> = Vec::new();
    gemini::parts(answer.parts, Role::Tool, &mut out);
    let texts: Vec<String> = out.into_iter().map(|m| m.text).collect();
    if !texts.is_empty() {
        return Some(texts.join("\n"));
    }
    json::text(answer.display)
        .map(crate::ingest::parse::payload::described_in)
        .or_else(|| content.map(super::json_text))
}

impl LogReader for IflowReader {
    fn state(&self) -> Option<serde_json::Value> {
        if self.told.is_empty() {
            return None;
        }
        serde_json::to_value(&self.told).ok()
    }

    fn first_keys(&self) -> &'static [&'static str] {
        FIRST_KEYS
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        line.kind.is_some() && (line.uuid.is_some() || line.session_id.is_some())
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let entry: Entry<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let kind = json::text(entry.kind).unwrap_or_default();
        let body = json::object::<Body<'_>>(entry.message);
        let mut facts = Facts {
            workspace: json::owned(entry.cwd),
            harness_version: json::owned(entry.version),
            ..Facts::default()
        };
        let disposition = match (&*kind, body) {
            ("assistant", Some(body)) => self.assistant(&body, record.offset),
            ("user", Some(body)) => {
                let mut out = Vec::new();
                user(&entry, &body, &mut out);
                known(out)
            }
            ("system", _) => {
                let mut out = Vec::new();
                push_text(&mut out, Role::System, MessageKind::Text, entry.content);
                known(out)
            }
            ("summary", _) => {
                facts.title = json::owned(entry.summary);
                Disposition::Known
            }
            _ => Disposition::Unknown,
        };
        let mut session = json::owned(entry.session_id).unwrap_or_else(|| self.fallback.clone());
        let agent = json::owned(entry.agent_id).filter(|_| json::is_true(entry.is_sidechain));
        if let Some(agent) = agent {
            let own = format!("{session}/{agent}");
            facts.parent_session = Some(std::mem::replace(&mut session, own));
        }
        let subtype = json::text(entry.subtype).filter(|s| !s.is_empty());
        Reading {
            session,
            native_id: json::owned(entry.uuid),
            native_parent: json::owned(entry.parent),
            record_type: match subtype {
                Some(subtype) => format!("{kind}/{subtype}"),
                None => kind.into_owned(),
            },
            time_ms: json::time_ms(entry.timestamp),
            disposition,
            facts,
        }
    }
}
