//! Transcripts of agents in plain text: `user:` and `assistant:` on lines of their own, and marks in
//! brackets for reasoning, calls and results.

use std::path::Path;

use super::transcript::{names, workspace};
use crate::ingest::parse::payload;
use crate::ingest::provider::{Part, Reading, TextReader, known, message};
use crate::model::record::{Facts, Message, MessageKind, Role};

const USER: &str = "user";
const ASSISTANT: &str = "assistant";
const THINKING: &str = "thinking";
const CALL: &str = "tool-call";
const RESULT: &str = "tool-result";

/// What begins a block inside an answer.
const MARKS: &[(&str, &str)] = &[
    ("[Thinking]", THINKING),
    ("[Tool call]", CALL),
    ("[Tool result]", RESULT),
];

/// Reads a transcript; as the others, a session of its own.
#[derive(Debug)]
pub(super) struct Plain {
    session: String,
    parent: String,
    at: &'static str,
    /// A blank line came since the block at hand began, which ends all but what is said.
    blank: bool,
    /// Blocks read. The last one may go on when the transcript grows, so its place names it.
    blocks: u64,
}

impl Plain {
    pub(super) fn new(path: &Path) -> Self {
        let (session, parent) = names(path);
        Plain {
            session,
            parent,
            at: ASSISTANT,
            blank: false,
            blocks: 0,
        }
    }

    fn begins(&mut self, kind: &'static str) -> Part {
        self.at = kind;
        self.blank = false;
        Part::Begins(kind)
    }
}

impl TextReader for Plain {
    fn part(&mut self, line: &str) -> Part {
        if line.trim().is_empty() {
            self.blank = true;
            return Part::Goes(self.at);
        }
        match line.trim_end() {
            "user:" => return self.begins(USER),
            "assistant:" | "A:" => return self.begins(ASSISTANT),
            _ => {}
        }
        if self.at == USER {
            return Part::Goes(USER);
        }
        if let Some((_, kind)) = MARKS.iter().find(|(mark, _)| line.starts_with(mark)) {
            return self.begins(kind);
        }
        // Arguments and reasoning end with a blank line; a result may hold some, so it ends with
        // the next mark.
        if self.blank && matches!(self.at, CALL | THINKING) {
            return self.begins(ASSISTANT);
        }
        Part::Goes(self.at)
    }

    fn read(&mut self, kind: &'static str, text: &str) -> Reading {
        let mut out = Vec::new();
        self.blocks += 1;
        match kind {
            USER => {
                let said = behind_line(text, &["user:"]);
                let said = payload::described_in(said.into());
                super::MARKS.text(&said, &mut out);
            }
            THINKING => push(
                &mut out,
                MessageKind::Reasoning,
                without(text, "[Thinking]"),
            ),
            CALL => out.push(tool(text, "[Tool call]", Role::Assistant)),
            RESULT => out.push(tool(text, "[Tool result]", Role::Tool)),
            _ => push(
                &mut out,
                MessageKind::Text,
                behind_line(text, &["assistant:", "A:"]),
            ),
        }
        let facts = Facts {
            workspace: workspace(&out),
            parent_session: Some(self.parent.clone()),
            ..Facts::default()
        };
        Reading {
            session: self.session.clone(),
            native_id: Some(format!("block:{}", self.blocks)),
            native_parent: None,
            record_type: kind.to_owned(),
            time_ms: None,
            disposition: known(out),
            facts,
        }
    }
}

/// The text behind a mark that it begins with.
fn without<'t>(text: &'t str, mark: &str) -> &'t str {
    let text = text.trim();
    text.strip_prefix(mark).unwrap_or(text).trim()
}

/// The text behind its first line, if that is one of `marks` alone.
fn behind_line<'t>(text: &'t str, marks: &[&str]) -> &'t str {
    let text = text.trim();
    let (line, rest) = text.split_once('\n').unwrap_or((text, ""));
    if marks.contains(&line.trim_end()) {
        rest.trim()
    } else {
        text
    }
}

fn push(out: &mut Vec<Message>, kind: MessageKind, text: &str) {
    if !text.is_empty() {
        let text = payload::described_in(text.into());
        out.push(message(Role::Assistant, kind, text));
    }
}

/// A call or a result: the tool's name on the first line, the rest behind it.
fn tool(text: &str, mark: &str, role: Role) -> Message {
    let rest = without(text, mark);
    let (name, rest) = rest.split_once('\n').unwrap_or((rest, ""));
    let kind = if role == Role::Tool {
        MessageKind::ToolResult
    } else {
        MessageKind::ToolCall
    };
    let name = name.trim();
    Message {
        tool_name: (!name.is_empty()).then(|| name.to_owned()),
        ..message(role, kind, payload::described_in(rest.trim().into()))
    }
}
