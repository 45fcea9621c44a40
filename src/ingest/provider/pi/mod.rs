//! pi and what is built on it: one JSON object a line, a tree of entries that is read in file
//! order. Every branch of the tree is kept.
//!
//! Ids of entries are unique only inside a file. The first version of the format has none, and its
//! files get them when a later pi opens them: the file is then written anew under its name. An
//! entry of such a file is known by its time and what it says, before and after.

mod messages;
pub(super) mod store;

use std::collections::VecDeque;
use std::path::Path;

use serde_json::value::RawValue;

use super::{LogReader, RawRecord, Reading, known, push_text, short};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::line::Line;
use crate::model::digest::Digest;
use crate::model::record::{Disposition, Facts, MessageKind, Role};

raw_object! {
    struct Entry {
        kind = "type",
        version = "version",
        id = "id",
        parent_id = "parentId",
        timestamp = "timestamp",
        cwd = "cwd",
        parent_session = "parentSession",
        branched_from = "branchedFrom",
        model_id = "modelId",
        thinking_level = "thinkingLevel",
        message = "message",
        summary = "summary",
        content = "content",
        custom_type = "customType",
        name = "name",
        title = "title",
    }
}

/// Types of entries.
const TYPES: &[&str] = &[
    "session",
    "message",
    "model_change",
    "thinking_level_change",
    "compaction",
    "branch_summary",
    "custom",
    "custom_message",
    "label",
    "session_info",
    "title",
];

/// Entries of a file that was given ids whose ids are remembered, to name their children's parent.
const REMEMBERED: usize = 64;

/// What the file's first lines and its name say.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The id of its session, where no header names it.
    pub(super) fallback: String,
    /// Its title and the session that spawned it, as other files tell.
    pub(super) title: Option<String>,
    pub(super) parent: Option<String>,
}

/// Reads the entries of one file.
#[derive(Debug)]
pub(super) struct PiReader {
    session: String,
    known: Known,
    /// The file was begun without ids and was given them since.
    given_ids: bool,
    /// Of such a file: the newest ids that were given, and what the entries are known by.
    given: VecDeque<(String, String)>,
}

impl PiReader {
    pub(super) fn new<'h>(
        known: Known,
        first: impl Iterator<Item = (usize, &'h str)>,
        state: Option<serde_json::Value>,
    ) -> Self {
        let header = first
            .take(16)
            .find_map(|(_, text)| Some((text, header(text)?)));
        let (session, given) = state
            .and_then(|s| serde_json::from_value(s).ok())
            .unwrap_or_else(|| {
                let id = header.as_ref().map(|(_, id)| id.clone());
                (
                    id.unwrap_or_else(|| known.fallback.clone()),
                    VecDeque::new(),
                )
            });
        PiReader {
            session,
            known,
            given_ids: header.is_some_and(|(text, _)| was_given_ids(text)),
            given,
        }
    }

    /// What the entry is known by.
    fn native_id(&mut self, kind: &str, entry: &Entry<'_>) -> Option<String> {
        let own = json::owned(entry.id);
        if kind == "session" || own.is_some() && !self.given_ids {
            return own;
        }
        let derived = derived(kind, entry)?;
        if let Some(own) = own {
            if self.given.len() == REMEMBERED {
                self.given.pop_front();
            }
            self.given.push_back((own, derived.clone()));
        }
        Some(derived)
    }

    fn native_parent(&self, entry: &Entry<'_>) -> Option<String> {
        let parent = json::owned(entry.parent_id)?;
        if !self.given_ids {
            return Some(parent);
        }
        let (_, derived) = self.given.iter().rev().find(|(own, _)| *own == parent)?;
        Some(derived.clone())
    }

    fn facts(&self, kind: &str, entry: &Entry<'_>) -> Facts {
        match kind {
            "session" => Facts {
                title: self
                    .known
                    .title
                    .clone()
                    .or_else(|| json::owned(entry.title)),
                workspace: json::owned(entry.cwd),
                parent_session: json::owned(entry.parent_session)
                    .or_else(|| json::owned(entry.branched_from))
                    .map(|said| session_named_by(&said))
                    .or_else(|| self.known.parent.clone())
                    .filter(|parent| *parent != self.session),
                ..Facts::default()
            },
            "session_info" => Facts {
                title: json::owned(entry.name),
                ..Facts::default()
            },
            "title" => Facts {
                title: json::owned(entry.title),
                ..Facts::default()
            },
            _ => Facts::default(),
        }
    }
}

impl LogReader for PiReader {
    fn state(&self) -> Option<serde_json::Value> {
        serde_json::to_value((&self.session, &self.given)).ok()
    }

    fn first_keys(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        json::text(line.kind).is_some_and(|kind| TYPES.contains(&&*kind))
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let entry: Entry<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let kind = json::text(entry.kind).unwrap_or_default();
        if kind == "session"
            && let Some(id) = json::owned(entry.id)
        {
            // Lines of another session may follow: records belong to the header above them.
            self.session = id;
        }
        let native_parent = self.native_parent(&entry);
        let said = messages::time(entry.message);
        Reading {
            session: self.session.clone(),
            native_id: self.native_id(&kind, &entry),
            native_parent,
            record_type: record_type(&kind, &entry),
            time_ms: json::time_ms(entry.timestamp).or_else(|| json::time_ms(said)),
            disposition: disposition(&kind, &entry),
            facts: self.facts(&kind, &entry),
        }
    }
}

/// The session id of a header.
fn header(text: &str) -> Option<String> {
    let entry: Entry<'_> = serde_json::from_str(text).ok()?;
    if json::text(entry.kind)? != "session" {
        return None;
    }
    json::owned(entry.id)
}

/// Whether a header was written without a version and given one since: the first version keeps the
/// model in it, or the version stands behind everything else.
fn was_given_ids(text: &str) -> bool {
    let Ok(entry) = serde_json::from_str::<Entry<'_>>(text) else {
        return false;
    };
    let Some(version) = entry.version.filter(|v| v.get() != "1") else {
        return false;
    };
    let last = text
        .trim_end()
        .strip_suffix('}')
        .is_some_and(|t| t.ends_with(&format!("\"version\":{}", version.get())));
    last || entry.model_id.is_some() || entry.thinking_level.is_some()
}

/// What an entry without an id of its own is known by; `None` without a time.
fn derived(kind: &str, entry: &Entry<'_>) -> Option<String> {
    let stamp = json::text(entry.timestamp)?;
    let mut said = Vec::new();
    let mut add = |raw: Option<&RawValue>| {
        said.extend_from_slice(raw.map(RawValue::get).unwrap_or_default().as_bytes());
        said.push(0);
    };
    for raw in messages::substance(entry.message) {
        add(raw);
    }
    for raw in [
        entry.summary,
        entry.content,
        entry.model_id,
        entry.thinking_level,
        entry.name,
    ] {
        add(raw);
    }
    Some(format!("{stamp}/{kind}/{:016x}", short(&Digest::of(&said))))
}

/// The type with what tells its kinds apart.
fn record_type(kind: &str, entry: &Entry<'_>) -> String {
    let subtype = match kind {
        "message" => messages::role(entry.message),
        "custom" | "custom_message" => json::text(entry.custom_type),
        _ => None,
    };
    match subtype {
        Some(subtype) if !subtype.is_empty() => format!("{kind}/{subtype}"),
        _ => kind.to_owned(),
    }
}

fn disposition(kind: &str, entry: &Entry<'_>) -> Disposition {
    let mut out = Vec::new();
    match kind {
        "message" => {
            if !messages::read(entry.message, &mut out) {
                return Disposition::Unknown;
            }
        }
        "compaction" | "branch_summary" => {
            push_text(&mut out, Role::System, MessageKind::Summary, entry.summary);
        }
        // An extension's words for the model, in the user's mouth.
        "custom_message" => messages::injected(entry.content, &mut out),
        kind if TYPES.contains(&kind) => {}
        _ => return Disposition::Unknown,
    }
    known(out)
}

/// The session that a header means by `said`: the path of its file, or its id.
fn session_named_by(said: &str) -> String {
    let name = said.rsplit(['/', '\\']).next().unwrap_or(said);
    match name.strip_suffix(".jsonl") {
        Some(stem) => behind_stamp(stem).to_owned(),
        None => said.to_owned(),
    }
}

/// `<stamp>_<id>` without the stamp.
fn behind_stamp(stem: &str) -> &str {
    match stem.split_once('_') {
        Some((stamp, id)) if stamp.starts_with(|c: char| c.is_ascii_digit()) && !id.is_empty() => {
            id
        }
        _ => stem,
    }
}

/// What a file of pi's own says by its name: its session, and the session whose subagent wrote it.
pub(super) fn by_name(path: &Path) -> Known {
    let stem = super::stem(path);
    let folder = path
        .parent()
        .and_then(Path::file_name)
        .map(|n| n.to_string_lossy().into_owned());
    // sessions/<project>/<stamp>_<id>/<agent>.jsonl
    let parent = folder.and_then(|folder| {
        let id = behind_stamp(&folder);
        (id.len() < folder.len()).then(|| id.to_owned())
    });
    let fallback = match &parent {
        Some(parent) if behind_stamp(&stem).len() == stem.len() => format!("{parent}/{stem}"),
        _ => behind_stamp(&stem).to_owned(),
    };
    Known {
        fallback,
        title: None,
        parent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_was_given_a_version_is_told() {
        for (header, want) in [
            (r#"{"type":"session","version":3,"id":"a"}"#, false),
            (
                r#"{"type":"session","id":"a","version":3,"timestamp":"x"}"#,
                false,
            ),
            (r#"{"type":"session","id":"a"}"#, false),
            (r#"{"type":"session","id":"a","version":1}"#, false),
            (r#"{"type":"session","id":"a","version":3}"#, true),
            (
                r#"{"type":"session","version":2,"id":"a","modelId":"m"}"#,
                true,
            ),
        ] {
            assert_eq!(was_given_ids(header), want, "{header}");
        }
    }

    #[test]
    fn sessions_are_found_in_names() {
        assert_eq!(
            session_named_by("/x/2025-01-01T09-00-00-000Z_p-1.jsonl"),
            "p-1"
        );
        assert_eq!(session_named_by("c:\\x\\p_1.jsonl"), "p_1");
        assert_eq!(session_named_by("p-1"), "p-1");
        let known = by_name(Path::new("/s/--p--/2025_a/Task.jsonl"));
        assert_eq!(known.fallback, "a/Task");
        assert_eq!(known.parent.as_deref(), Some("a"));
        let known = by_name(Path::new("/s/--p--/2025_a.jsonl"));
        assert_eq!((known.fallback.as_str(), known.parent), ("a", None));
    }
}
