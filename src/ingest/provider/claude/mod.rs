//! Claude Code: one JSON object a line, appended; a tree of records that is read in file order.

mod identity;

use std::collections::VecDeque;
use std::path::Path;

use super::{LogReader, RawRecord, Reading, blocks, known, push_text, short, wrapper};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::line::Line;
use crate::model::digest::Digest;
use crate::model::record::{Disposition, Facts, MessageKind, Role};
use identity::Identity;

/// Keys that a record may begin with.
const FIRST_KEYS: &[&str] = &[
    "type",
    "parentUuid",
    "logicalParentUuid",
    "timestamp",
    "isSidechain",
    "sessionId",
    "uuid",
    "cwd",
    "userType",
    "messageId",
    "leafUuid",
    "summary",
];

/// Types whose records hold no message of their own.
const SILENT: &[&str] = &[
    "agent-name",
    "ai-title",
    "bridge-session",
    "custom-title",
    "file-history-delta",
    "file-history-snapshot",
    "frame-link",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "progress",
    "relocated",
    "result",
    "started",
    "summary",
    "worktree-state",
];

/// Records with an id of their own that are remembered to find one that is written twice.
const REMEMBERED: usize = 128;

raw_object! {
    struct MessageBody { content = "content", model = "model" }
}

raw_object! {
    struct Attached { kind = "type", prompt = "prompt" }
}

raw_object! {
    struct Origin { session_id = "sessionId" }
}

/// Whether an object is a record by its type.
fn is_record(line: &Line<'_>) -> bool {
    json::text(line.kind).is_some_and(|kind| {
        SILENT.contains(&&*kind)
            || matches!(
                &*kind,
                "user" | "assistant" | "system" | "attachment" | "queue-operation"
            )
    })
}

/// Reads the records of one file.
#[derive(Debug)]
pub(crate) struct ClaudeReader {
    identity: Identity,
    /// Rank of the title that counts: one that a person chose is not replaced by a made one.
    title_rank: u64,
    /// Short hash and offset of the newest records that have an id.
    recent: VecDeque<(u64, u64)>,
}

impl LogReader for ClaudeReader {
    fn state(&self) -> Option<serde_json::Value> {
        if self.title_rank == 0 && self.recent.is_empty() {
            return None;
        }
        serde_json::to_value((self.title_rank, &self.recent)).ok()
    }

    fn first_keys(&self) -> &'static [&'static str] {
        FIRST_KEYS
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        is_record(line)
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        self.reading(record.line, record.offset, record.hash)
    }
}

impl ClaudeReader {
    pub(super) fn new<'h>(
        path: &Path,
        first: impl Iterator<Item = (usize, &'h str)>,
        state: Option<serde_json::Value>,
    ) -> Self {
        let (title_rank, recent) = state
            .and_then(|s| serde_json::from_value::<(u64, VecDeque<(u64, u64)>)>(s).ok())
            .unwrap_or_default();
        ClaudeReader {
            identity: Identity::new(path, first),
            title_rank,
            recent,
        }
    }

    fn reading(&mut self, line: Option<&Line<'_>>, offset: u64, hash: &Digest) -> Reading {
        let nothing = Line::default();
        let object = line.is_some();
        let line = line.unwrap_or(&nothing);
        let kind = json::text(line.kind).unwrap_or_default();
        let native_id = json::owned(line.uuid);
        let (session, parent) = self.identity.session(line);
        let mut disposition = if object {
            disposition(&kind, line)
        } else {
            Disposition::Unknown
        };
        if native_id.is_some() {
            let short = short(hash);
            match self.recent.iter().find(|(seen, _)| *seen == short) {
                Some((_, first)) => disposition = Disposition::DuplicateOf { offset: *first },
                None => {
                    if self.recent.len() == REMEMBERED {
                        self.recent.pop_front();
                    }
                    self.recent.push_back((short, offset));
                }
            }
        }
        let relocated = json::owned(line.relocated_cwd);
        Reading {
            session,
            native_id,
            native_parent: json::owned(line.parent_uuid)
                .or_else(|| json::owned(line.logical_parent_uuid)),
            record_type: record_type(&kind, line),
            time_ms: json::time_ms(line.timestamp),
            disposition,
            facts: Facts {
                title: self.title(&kind, line),
                workspace: relocated.or_else(|| json::owned(line.cwd)),
                parent_session: parent.or_else(|| {
                    json::object::<Origin<'_>>(line.forked_from)
                        .and_then(|origin| json::owned(origin.session_id))
                }),
                harness_version: json::owned(line.version),
            },
        }
    }

    fn title(&mut self, kind: &str, line: &Line<'_>) -> Option<String> {
        let (rank, title) = match kind {
            "custom-title" => (3, line.custom_title),
            "ai-title" => (2, line.ai_title),
            "summary" => (1, line.summary),
            _ => return None,
        };
        let title = json::owned(title)?;
        if rank < self.title_rank {
            return None;
        }
        self.title_rank = rank;
        Some(title)
    }
}

/// The type with what tells its kinds apart.
fn record_type(kind: &str, line: &Line<'_>) -> String {
    let inner = |raw| json::object::<Attached<'_>>(raw).and_then(|inner| json::text(inner.kind));
    let subtype = match kind {
        "progress" => inner(line.data),
        "attachment" => inner(line.attachment),
        "queue-operation" => json::text(line.operation),
        _ => json::text(line.subtype),
    };
    match subtype {
        Some(subtype) if !subtype.is_empty() => format!("{kind}/{subtype}"),
        _ => kind.to_owned(),
    }
}

fn disposition(kind: &str, line: &Line<'_>) -> Disposition {
    match kind {
        "user" | "assistant" => {
            let Some(body) = json::object::<MessageBody<'_>>(line.message) else {
                return Disposition::Unknown;
            };
            let mut out = Vec::new();
            if kind == "user" {
                blocks::user(body.content, &|text| speaker(line, text), &mut out);
            } else {
                blocks::assistant(body.content, &mut out);
                let model = json::owned(body.model);
                for message in &mut out {
                    message.model.clone_from(&model);
                }
            }
            known(out)
        }
        "system" => {
            let away = json::text(line.subtype).is_some_and(|s| s == "away_summary");
            let kind = if away {
                MessageKind::Summary
            } else {
                MessageKind::Text
            };
            let mut out = Vec::new();
            push_text(&mut out, Role::System, kind, line.content);
            known(out)
        }
        "attachment" => {
            let Some(attached) = json::object::<Attached<'_>>(line.attachment) else {
                return Disposition::Known;
            };
            let mut out = Vec::new();
            if json::text(attached.kind).is_some_and(|k| k == "queued_command") {
                blocks::user(attached.prompt, &|text| speaker(line, text), &mut out);
            }
            known(out)
        }
        // The prompt comes again when its turn comes, mostly; this may be the only copy.
        "queue-operation" => {
            let mut out = Vec::new();
            push_text(&mut out, Role::Meta, MessageKind::Text, line.content);
            known(out)
        }
        kind if SILENT.contains(&kind) => Disposition::Known,
        _ => Disposition::Unknown,
    }
}

/// The role of a text in a user record.
fn user_role(line: &Line<'_>, text: &str) -> Role {
    if json::is_true(line.is_meta)
        || json::is_true(line.is_compact_summary)
        || wrapper::only_injected(text)
    {
        Role::Meta
    } else {
        Role::User
    }
}

/// Who says a text of a user record, and what it is.
fn speaker(line: &Line<'_>, text: &str) -> (Role, MessageKind) {
    let kind = if json::is_true(line.is_compact_summary) {
        MessageKind::Summary
    } else {
        MessageKind::Text
    };
    (user_role(line, text), kind)
}
