//! Cline, Roo Code and what was made from them: a folder a task, with what was sent to the model and
//! with what was shown; the command line of Cline keeps a folder a session.
//!
//! The two files of a task say the same in two ways, so what was shown is a session of its own whose
//! parent is the task.

mod history;
mod shown;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::inside::Marks;
use super::{
    DocumentReader, Members, RawRecord, Reading, Start, blocks, json_text, known, push_text, stem,
};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role, id_by_place};

raw_object! {
    struct Entry {
        id = "id",
        role = "role",
        content = "content",
        ts = "ts",
        kind = "type",
        say = "say",
        ask = "ask",
        text = "text",
        reasoning = "reasoning",
        images = "images",
        model_info = "modelInfo",
        is_summary = "isSummary",
        summary = "summary",
    }
}

raw_object! {
    struct ModelInfo { id = "id", model_id = "modelId" }
}

raw_object! {
    struct Block {
        kind = "type",
        text = "text",
        id = "tool_use_id",
        name = "name",
        content = "content",
        is_error = "is_error",
        success = "success",
    }
}

/// What stands beside the person's words in what is sent to the model.
const MARKS: Marks = Marks {
    said: &["task", "user_input", "feedback", "answer", "user_message"],
    injected: &[
        "environment_details",
        "explicit_instructions",
        "file_content",
        "folder_content",
        "git_commit",
        "git_working_state",
        "hook_context",
        "slash_command",
        "terminal_output",
        "url_content",
        "workspace_diagnostics",
    ],
};

/// The files beside a session's that say what it is about.
pub(super) fn siblings(path: &Path) -> Vec<PathBuf> {
    history::files(path)
}

/// Which of the files it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    /// What was sent to the model.
    Sent,
    /// What was shown.
    Shown,
}

/// Reads one file.
#[derive(Debug)]
pub(super) struct TaskReader {
    path: PathBuf,
    task: String,
    view: View,
    facts: Facts,
    /// Records passed.
    count: u64,
    /// Ids given out; a time alone may not be one.
    ids: HashMap<String, u32>,
}

impl TaskReader {
    pub(super) fn new(start: Start<'_>) -> Self {
        let name = start
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let folder = start
            .path
            .parent()
            .and_then(Path::file_name)
            .map(|n| n.to_string_lossy().into_owned());
        let by_name = if name.ends_with(".messages.json") {
            let stem = stem(start.path);
            Some(stem.strip_suffix(".messages").unwrap_or(&stem).to_owned())
        } else {
            folder
        };
        let task = by_name
            .filter(|n| !n.is_empty())
            .unwrap_or_else(|| "unknown".to_owned());
        let view = match name.as_str() {
            "ui_messages.json" | "claude_messages.json" => View::Shown,
            _ => View::Sent,
        };
        let mut facts = history::facts(start, &task);
        if view == View::Shown {
            facts.parent_session = Some(task.clone());
        }
        TaskReader {
            path: start.path.to_owned(),
            task,
            view,
            facts,
            count: 0,
            ids: HashMap::new(),
        }
    }

    fn session(&self) -> String {
        match self.view {
            View::Sent => self.task.clone(),
            View::Shown => format!("{}/ui", self.task),
        }
    }

    /// An id made of what does not change when a record is written again.
    fn made(&mut self, entry: &Entry<'_>, role: &str) -> Option<String> {
        let ts = entry.ts.map(RawValue::get).filter(|ts| {
            !ts.is_empty() && ts.len() <= 20 && ts.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        })?;
        let id = match self.view {
            View::Sent => format!("{ts}:{role}"),
            View::Shown => ts.to_owned(),
        };
        let n = self.ids.entry(id.clone()).or_default();
        *n += 1;
        Some(if *n == 1 { id } else { format!("{id}#{n}") })
    }
}

impl DocumentReader for TaskReader {
    fn record_members(&self) -> &'static [&'static str] {
        &["messages"]
    }

    fn frame(&mut self, members: &Members) -> Reading {
        if let Some(id) = members.text("sessionId") {
            self.task = id;
        }
        raw_object! {
            struct Origin { version = "version", parent = "parentSessionId" }
        }
        let origin = members
            .get("origin")
            .and_then(|o| serde_json::from_str::<Origin<'_>>(o).ok())
            .unwrap_or_default();
        if let Some(version) = json::owned(origin.version) {
            self.facts.harness_version = Some(version);
        }
        if let Some(parent) = json::owned(origin.parent) {
            self.facts.parent_session = Some(parent);
        }
        let updated = members
            .text("updated_at")
            .and_then(|t| t.parse::<jiff::Timestamp>().ok());
        Reading {
            session: self.session(),
            native_id: Some("document".to_owned()),
            native_parent: None,
            record_type: "document".to_owned(),
            time_ms: updated.map(jiff::Timestamp::as_millisecond),
            disposition: Disposition::Known,
            facts: self.facts.clone(),
        }
    }

    fn pass_over(&mut self) {
        self.count += 1;
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let entry: Entry<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let role = json::text(entry.role).unwrap_or_default();
        self.count += 1;
        let (record_type, disposition) = if !role.is_empty() {
            (role.clone().into_owned(), sent(&entry, &role))
        } else if entry.say.is_some() || entry.ask.is_some() {
            shown::read(&entry, self.count == 1)
        } else if json::text(entry.kind).is_some_and(|k| k == "reasoning") {
            ("reasoning".to_owned(), reasoning(&entry))
        } else {
            let kind = json::owned(entry.kind).unwrap_or_default();
            (kind, Disposition::Unknown)
        };
        if self.facts.workspace.is_none()
            && let Disposition::Messages(all) = &disposition
        {
            self.facts.workspace = history::workspace(all);
        }
        Reading {
            session: self.session(),
            native_id: json::owned(entry.id)
                .or_else(|| self.made(&entry, &role))
                .or_else(|| Some(id_by_place(&self.path, self.count - 1))),
            native_parent: None,
            record_type,
            time_ms: json::time_ms(entry.ts),
            disposition,
            facts: self.facts.clone(),
        }
    }
}

fn model_of(entry: &Entry<'_>) -> Option<String> {
    let info = json::object::<ModelInfo<'_>>(entry.model_info)?;
    json::owned(info.id).or_else(|| json::owned(info.model_id))
}

/// What was sent to the model, or came from it.
fn sent(entry: &Entry<'_>, role: &str) -> Disposition {
    let mut out = Vec::new();
    match role {
        "user" => {
            blocks::user(entry.content, &blocks::speaker, &mut out);
            out = apart(out);
        }
        "assistant" => {
            push_text(
                &mut out,
                Role::Assistant,
                MessageKind::Reasoning,
                entry.reasoning,
            );
            for element in json::elements::<Block<'_>>(entry.content) {
                if let Element::Object(block) = element
                    && json::text(block.kind).is_some_and(|k| k == "reasoning")
                {
                    push_text(
                        &mut out,
                        Role::Assistant,
                        MessageKind::Reasoning,
                        block.text,
                    );
                }
            }
            blocks::assistant(entry.content, &mut out);
            let model = model_of(entry);
            for message in out.iter_mut().filter(|m| m.role == Role::Assistant) {
                message.model.clone_from(&model);
            }
        }
        "system" => {
            blocks::assistant(entry.content, &mut out);
            for message in &mut out {
                message.role = Role::System;
            }
        }
        _ => return Disposition::Unknown,
    }
    results(entry.content, &mut out);
    if json::is_true(entry.is_summary) {
        for message in out.iter_mut().filter(|m| m.kind == MessageKind::Text) {
            message.kind = MessageKind::Summary;
        }
    }
    known(out)
}

/// Results whose content is objects of the tool's own, and the names of the tools.
fn results(content: Option<&RawValue>, out: &mut [Message]) {
    for element in json::elements::<Block<'_>>(content) {
        let Element::Object(block) = element else {
            continue;
        };
        if json::text(block.kind).is_none_or(|k| k != "tool_result") {
            continue;
        }
        let id = json::owned(block.id);
        let Some(message) = out.iter_mut().find(|m| {
            m.kind == MessageKind::ToolResult && m.call_id == id && m.tool_name.is_none()
        }) else {
            continue;
        };
        message.tool_name = json::owned(block.name);
        if message.text.is_empty()
            && let Some(content) = json::present(block.content)
            && !matches!(content.get(), "\"\"" | "[]")
        {
            message.text = json_text(content);
        }
        let failed = json::elements::<Block<'_>>(block.content)
            .iter()
            .any(|e| matches!(e, Element::Object(b) if json::boolean(b.success) == Some(false)));
        if failed {
            message.is_error = Some(true);
        }
    }
}

/// Takes the person's texts apart. Tools that are called in the text itself are answered in a
/// text that begins `[tool ...] Result:`; what follows may be a text of its own.
fn apart(messages: Vec<Message>) -> Vec<Message> {
    let mut out = Vec::with_capacity(messages.len());
    let mut answering: Option<String> = None;
    for one in messages {
        if one.role != Role::User || one.kind != MessageKind::Text {
            out.push(one);
            continue;
        }
        let begun = out.len();
        MARKS.text(&one.text, &mut out);
        let said = out.get(begun..).unwrap_or_default();
        let is_plain = matches!(said, [only] if only.role == Role::User);
        let marked = one.text.trim_start().starts_with('<') || !is_plain;
        let answers = tool_answered(&one.text);
        let tool = match (answers, answering.take()) {
            (Some(tool), _) => {
                if one.text.trim_end().ends_with("Result:") {
                    answering = Some(tool.clone());
                }
                Some(tool)
            }
            (None, Some(tool)) if !marked => Some(tool),
            _ => None,
        };
        match tool {
            Some(tool) if is_plain => {
                if let Some(last) = out.last_mut() {
                    last.role = Role::Tool;
                    last.kind = MessageKind::ToolResult;
                    last.tool_name = Some(tool);
                }
            }
            _ if is_notice(&one.text) => {
                for message in out.iter_mut().skip(begun) {
                    message.role = Role::Meta;
                }
            }
            _ => {}
        }
    }
    out
}

/// The tool that `[tool for '...'] Result:` names.
fn tool_answered(text: &str) -> Option<String> {
    let line = text.trim_start().lines().next()?;
    let inside = line.strip_prefix('[')?;
    if !line.contains("] Result:") {
        return None;
    }
    let end = inside.find([' ', ']'])?;
    let name = inside.get(..end)?;
    let is_name = !name.is_empty()
        && name.len() <= 64
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    is_name.then(|| name.to_owned())
}

/// Whether the harness speaks in the person's place.
fn is_notice(text: &str) -> bool {
    const NOTICES: &[&str] = &[
        "[ERROR] ",
        "[TASK RESUMPTION]",
        "[NOTE] ",
        "[AUTO]",
        "# Todos",
    ];
    NOTICES.iter().any(|n| text.trim_start().starts_with(n))
}

/// A model's reasoning that is an entry of its own.
fn reasoning(entry: &Entry<'_>) -> Disposition {
    let mut out = Vec::new();
    for content in [entry.text, entry.content, entry.reasoning] {
        push_text(&mut out, Role::Assistant, MessageKind::Reasoning, content);
    }
    for element in json::elements::<Block<'_>>(entry.summary) {
        if let Element::Object(block) = element {
            push_text(
                &mut out,
                Role::Assistant,
                MessageKind::Reasoning,
                block.text,
            );
        }
    }
    known(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<String> {
        let entry: Entry<'_> = serde_json::from_str(text).unwrap();
        let role = json::text(entry.role).unwrap();
        match sent(&entry, &role) {
            Disposition::Messages(all) => all
                .iter()
                .map(|m| format!("{:?} {:?} {:?} {}", m.role, m.kind, m.tool_name, m.text))
                .collect(),
            other => vec![format!("{other:?}")],
        }
    }

    #[test]
    fn answers_of_tools_in_texts_are_not_the_person() {
        assert_eq!(
            read(
                r#"{"role":"user","content":[{"type":"text","text":"[read_file for 'a'] Result:"},
                {"type":"text","text":"the file"},
                {"type":"text","text":"<environment_details>x</environment_details>"}]}"#
            ),
            [
                "Tool ToolResult Some(\"read_file\") [read_file for 'a'] Result:",
                "Tool ToolResult Some(\"read_file\") the file",
                "Meta Text None <environment_details>x</environment_details>"
            ]
        );
        assert_eq!(
            read(
                r#"{"role":"user","content":[{"type":"text","text":"[attempt_completion] Result:\n<feedback>\nmore\n</feedback>"}]}"#
            ),
            [
                "Meta Text None [attempt_completion] Result:",
                "User Text None more"
            ]
        );
        assert_eq!(
            read(r#"{"role":"user","content":"[ERROR] You did not use a tool"}"#),
            ["Meta Text None [ERROR] You did not use a tool"]
        );
        assert_eq!(
            read(r#"{"role":"user","content":"[x] Result: mine"}"#)[0],
            "Tool ToolResult Some(\"x\") [x] Result: mine"
        );
        assert_eq!(read(r#"{"role":"robot"}"#), ["Unknown"]);
    }

    #[test]
    fn results_of_objects_are_kept_and_failures_are_seen() {
        let entry: Entry<'_> = serde_json::from_str(
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","name":"run",
            "content":[{"query":"q","result":"r","success":false}]}]}"#,
        )
        .unwrap();
        let Disposition::Messages(all) = sent(&entry, "user") else {
            panic!("no message");
        };
        assert_eq!(all[0].is_error, Some(true));
        assert_eq!(all[0].tool_name.as_deref(), Some("run"));
        assert!(all[0].text.contains("\"result\":\"r\""));
    }
}
