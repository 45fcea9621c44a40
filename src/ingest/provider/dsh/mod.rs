//! DSH: one event a line, numbered; raw or in zstd frames.
//!
//! A log that was converted to a newer format lies beside its predecessor, and both are about one
//! session. Events are numbered anew then, but messages keep their ids: a message is known by its
//! id, and every other event by its bytes alone. So each message is there once, as the newest
//! generation has it.
//!
//! What an answer was streamed as comes again in the answer: the pieces are no messages of their
//! own. Whether a log is whole is not looked at here.

mod messages;

use std::collections::VecDeque;
use std::path::Path;

use serde_json::value::RawValue;

use super::{LogReader, RawRecord, Reading, known, stem};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::line::Line;
use crate::model::record::{Disposition, Facts};
use crate::session_log::is_type;

raw_object! {
    struct Row {
        kind = "type",
        id = "id",
        created_at = "createdAt",
        cwd = "cwd",
        parent_session = "parentSession",
        seq = "seq",
        time = "time",
        time0 = "time0",
        data = "data",
    }
}

/// Events whose data hold messages.
const SPEAKING: &[&str] = &[
    "assistant/attempt",
    "assistant/message",
    "compaction/summary",
    "developer/message",
    "steering/message",
    "system/message",
    "tool/call",
    "tool/result",
    "user/message",
];

/// A type of an event or a packed row that a version of the format knows. What an old kind of
/// summary looks like is not known, so it is passed over by nobody.
fn is_known(kind: &str) -> bool {
    kind == "session" || kind != "compact/summary" && is_type(kind)
}

/// Calls that an answer announced and that are remembered: their own event says them again.
const REMEMBERED: usize = 256;

/// Reads the events of one log.
#[derive(Debug)]
pub(super) struct DshReader {
    session: String,
    /// Ids of the newest calls that answers announced.
    announced: VecDeque<String>,
}

impl DshReader {
    pub(super) fn new<'h>(
        path: &Path,
        first: impl Iterator<Item = (usize, &'h str)>,
        state: Option<serde_json::Value>,
    ) -> Self {
        let named = first
            .take(4)
            .filter_map(|(_, text)| serde_json::from_str::<Row<'_>>(text).ok())
            .find(|row| json::text(row.kind).is_some_and(|kind| kind == "session"))
            .and_then(|header| json::owned(header.id));
        DshReader {
            session: named.unwrap_or_else(|| by_name(path)),
            announced: state
                .and_then(|s| serde_json::from_value(s).ok())
                .unwrap_or_default(),
        }
    }

    /// What a message is known by: its id, which a conversion keeps. The first versions wrote some
    /// without; their number in the session becomes their id later.
    fn native_id(&self, kind: &str, row: &Row<'_>) -> Option<String> {
        if !SPEAKING.contains(&kind) {
            return None;
        }
        let raw = |raw: Option<&'_ RawValue>| raw.map(|r| r.get().to_owned());
        if !messages::has_id(kind) {
            let call = messages::call_id(row.data).unwrap_or_default();
            return raw(row.time).map(|time| format!("{kind}@{time}/{call}"));
        }
        messages::id(row.data)
            .or_else(|| raw(row.seq).map(|seq| format!("legacy-message:{}:{seq}", self.session)))
    }

    fn disposition(&mut self, kind: &str, row: &Row<'_>) -> Disposition {
        if !SPEAKING.contains(&kind) {
            return if is_known(kind) {
                Disposition::Known
            } else {
                Disposition::Unknown
            };
        }
        let mut out = Vec::new();
        messages::read(kind, row.data, &mut out);
        match kind {
            "assistant/message" => {
                for id in out.iter().filter_map(|m| m.call_id.as_ref()) {
                    if self.announced.len() == REMEMBERED {
                        self.announced.pop_front();
                    }
                    self.announced.push_back(id.clone());
                }
            }
            "tool/call" => out.retain(|call| {
                call.call_id
                    .as_ref()
                    .is_none_or(|id| !self.announced.contains(id))
            }),
            _ => {}
        }
        known(out)
    }
}

impl LogReader for DshReader {
    fn state(&self) -> Option<serde_json::Value> {
        if self.announced.is_empty() {
            return None;
        }
        serde_json::to_value(&self.announced).ok()
    }

    fn first_keys(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        json::text(line.kind).is_some_and(|kind| SPEAKING.contains(&&*kind) || is_known(&kind))
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        let row: Row<'_> = serde_json::from_str(record.text).unwrap_or_default();
        let kind = json::text(row.kind).unwrap_or_default();
        let mut facts = Facts::default();
        match &*kind {
            "session" => {
                facts.workspace = json::owned(row.cwd);
                facts.parent_session = json::owned(row.parent_session);
            }
            "session/title" => facts.title = messages::title(row.data),
            _ => {}
        }
        Reading {
            session: self.session.clone(),
            native_id: self.native_id(&kind, &row),
            native_parent: None,
            time_ms: json::time_ms(row.time)
                .or_else(|| json::time_ms(row.time0))
                .or_else(|| json::time_ms(row.created_at)),
            disposition: self.disposition(&kind, &row),
            record_type: kind.into_owned(),
            facts,
        }
    }
}

/// The session that the name of a log's folder says; a log that lies in no folder of its own has
/// it in its name.
fn by_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let own = name.strip_suffix(".zstd").unwrap_or(&name);
    let folder = path.parent().and_then(Path::file_name);
    match folder {
        Some(folder) if own.starts_with("session.") => unescaped(&folder.to_string_lossy()),
        _ => unescaped(&stem(Path::new(own))),
    }
}

/// A name with its escapes undone: `~` and four hexadecimal digits stand for a UTF-16 code unit.
fn unescaped(name: &str) -> String {
    let mut units: Vec<u16> = Vec::new();
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let escape = rest
            .strip_prefix('~')
            .and_then(|r| r.get(..4))
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let len = match escape {
            Some(unit) => {
                units.push(unit);
                5
            }
            None => {
                units.extend_from_slice(c.encode_utf16(&mut [0; 2]));
                c.len_utf8()
            }
        };
        rest = rest.get(len..).unwrap_or_default();
    }
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_names_a_session_whose_header_is_lost() {
        for (path, want) in [
            ("/s/--p--/a~002Fb/session.jsonl", "a/b"),
            ("/s/--p--/~002E~002E/session.v3.jsonl.zstd", ".."),
            ("/s/--p--/~D83D~DE00x~7/session.jsonl", "\u{1f600}x~7"),
            ("/s/--p--/old-1.jsonl.zstd", "old-1"),
        ] {
            assert_eq!(by_name(Path::new(path)), want, "{path}");
        }
    }
}
