//! What each harness writes: one reader a harness.

mod aider;
mod amp;
mod blocks;
mod chat;
pub mod claude;
mod cline;
pub mod codex;
mod copilot;
mod copilot_history;
mod crush;
mod cursor;
mod droid;
mod dsh;
mod epoch;
mod gemini;
mod goose;
mod iflow;
mod inside;
mod kimi;
mod opencode;
mod pi;
mod qwen;
mod recent;
mod unknown;
mod uri;
mod wrapper;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use crate::ingest::parse::line::Line;
use crate::ingest::parse::{json, payload};
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};
use crate::model::row::Row;

/// Where a value stands in its source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// Nothing but white space and NUL bytes comes before it on its line.
    pub(crate) at_line_start: bool,
    /// Its segment has an end: more bytes can't change what it is.
    pub(crate) terminated: bool,
}

/// What a record says.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) session: String,
    pub(crate) native_id: Option<String>,
    pub(crate) native_parent: Option<String>,
    pub(crate) record_type: String,
    pub(crate) time_ms: Option<i64>,
    pub(crate) disposition: Disposition,
    pub(crate) facts: Facts,
}

/// A raw record as its reader sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawRecord<'a> {
    /// Its JSON text, repaired where it had to be.
    pub(crate) text: &'a str,
    /// Its outermost fields; `None` when it is JSON but no object.
    pub(crate) line: Option<&'a Line<'a>>,
    /// Where its bytes begin.
    pub(crate) offset: u64,
    /// BLAKE3 of its bytes.
    pub(crate) hash: &'a Digest,
}

/// Reads a log: one JSON object a line, appended.
pub(crate) trait LogReader: Debug + Send {
    /// What the reader of a later part of the same source must know; bounded.
    fn state(&self) -> Option<serde_json::Value> {
        None
    }

    /// Keys that a record may begin with: where one may be looked for inside a broken line.
    fn first_keys(&self) -> &'static [&'static str];

    /// Whether an object is a record by its fields.
    fn is_record(&self, line: &Line<'_>) -> bool;

    /// The members, one inside the other, to an array in this record whose elements are records of
    /// their own. What lies before and behind them is what [`LogReader::read`] says of the whole.
    fn records_inside(&self, _line: &Line<'_>) -> Option<&'static [&'static str]> {
        None
    }

    /// What a record says. Records come in file order.
    fn read(&mut self, record: RawRecord<'_>) -> Reading;
}

/// Reads a JSON document that its harness rewrites whole: an array of records, an object with
/// such an array, or one record.
pub(crate) trait DocumentReader: Debug + Send {
    /// Names of the member of the outermost object whose array holds the records.
    fn record_members(&self) -> &'static [&'static str] {
        &[]
    }

    /// What the document says beside its records. Comes before the records, whatever the order in
    /// the file. `members` are the other members of the outermost object, long ones left out.
    fn frame(&mut self, members: &Members) -> Reading;

    /// What one record says: an element of the array, or a whole document that has none.
    fn read(&mut self, record: RawRecord<'_>) -> Reading;

    /// An element that can't be read stands before the next one.
    fn pass_over(&mut self) {}
}

/// Members of a document's outermost object: their names and JSON texts.
#[derive(Debug, Default)]
pub(crate) struct Members(pub(crate) BTreeMap<String, String>);

impl Members {
    /// The JSON text of a member.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The string that a member is.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str::<String>(self.get(name)?)
            .ok()
            .filter(|t| !t.is_empty())
    }

    /// The number that a member is.
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        serde_json::from_str(self.get(name)?).ok()
    }
}

/// What a line of a transcript is to the block before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The first line of a block of this kind.
    Begins(&'static str),
    /// It belongs to the block at hand, which is of this kind.
    Goes(&'static str),
}

/// Reads a transcript in plain text, which grows at its end: blocks of lines, each of which says
/// one thing.
pub(crate) trait TextReader: Debug + Send {
    /// What a line, without its end, is to the block at hand. Lines come in file order, blank ones
    /// too: those go with the block before them, if it goes on.
    fn part(&mut self, line: &str) -> Part;

    /// What a block says. Lines behind it were seen already.
    fn read(&mut self, kind: &'static str, text: &str) -> Reading;

    /// Whether the transcript is to be passed over once before it is read: what tells its parts
    /// apart may stand behind them.
    fn looks_ahead(&self) -> bool {
        false
    }

    /// It was passed over and comes once more, from its begin: what is read from here on counts.
    fn begin_again(&mut self) {}

    /// What the reader of a later capture must know; bounded.
    fn state(&self) -> Option<serde_json::Value> {
        None
    }
}

/// Reads the tables of a database.
pub(crate) trait TableReader: Debug + Send {
    /// The tables whose rows are records. Those that are not there are passed over; rows of other
    /// tables are settings, indexes or caches.
    fn tables(&self) -> &'static [&'static str];

    /// Asks for rows in the order in which people would read them. Rows that were not asked for
    /// come behind, in the order of [`TableReader::tables`] and of their row ids.
    ///
    /// # Errors
    /// What `visit` returns.
    fn visit(&mut self, visit: &mut dyn Visit) -> crate::error::Result<()>;

    /// Which rows of a table are records, as an SQL condition: in a table of keys and values most
    /// are settings and caches.
    fn only(&self, _table: &'static str) -> &'static str {
        "1"
    }

    /// The records in a row that may hold several, or none at all; `None` for a row that is one
    /// record. Asked for before [`TableReader::read`].
    fn parts(&mut self, _table: &'static str, _row: &Row) -> Option<Vec<RowPart>> {
        None
    }

    /// What a row says.
    fn read(&mut self, table: &'static str, row: &Row) -> Reading;
}

/// One of the records in a row: a part of a column's text. Parts come in order and don't overlap;
/// what is between them says nothing.
#[derive(Debug)]
pub(crate) struct RowPart {
    pub(crate) column: &'static str,
    pub(crate) range: std::ops::Range<usize>,
    pub(crate) reading: Reading,
}

/// A walk over a database's rows: every row that is asked for is read and handed on, once.
pub(crate) trait Visit {
    /// Whether the database has the table.
    fn has(&self, table: &str) -> bool;

    /// Whether the table has the column.
    fn has_column(&self, table: &str, column: &str) -> bool;

    /// First columns of a query, as texts; NULL and unreadable ones are left out.
    ///
    /// # Errors
    /// The query can't be run.
    fn keys(&mut self, sql: &str, params: &[&str]) -> crate::error::Result<Vec<String>>;

    /// Reads the rows of `table` that `rest` (`WHERE ... ORDER BY ...`) selects.
    ///
    /// # Errors
    /// The query can't be run, or the row could not be handed on.
    fn rows(
        &mut self,
        reader: &mut dyn TableReader,
        table: &'static str,
        rest: &str,
        params: &[&str],
    ) -> crate::error::Result<()>;
}

/// What a source is read with, by the kind of its container.
#[derive(Debug)]
pub(crate) enum Reader {
    /// Lines.
    Log(Box<dyn LogReader>),
    /// One JSON document.
    Document(Box<dyn DocumentReader>),
    /// A transcript in plain text.
    Text(Box<dyn TextReader>),
    /// A database.
    Tables(Box<dyn TableReader>),
}

/// A source at the begin of a parse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Start<'a> {
    pub(crate) provider: Provider,
    pub(crate) path: &'a Path,
    /// The beginning of the whole source.
    pub(crate) head: &'a [u8],
    /// Beginnings of the files that [`siblings`] named, as captured; those that were not are left
    /// out.
    pub(crate) siblings: &'a BTreeMap<PathBuf, Vec<u8>>,
}

impl<'a> Start<'a> {
    /// The lines of the beginning that are objects, with their numbers.
    pub(crate) fn first_objects(&self) -> impl Iterator<Item = (usize, &'a str)> + use<'a> {
        crate::ingest::parse::first_objects(self.head)
    }

    /// A sibling that is one JSON document, read as `T`.
    #[allow(dead_code)]
    pub(crate) fn sibling<T: serde::de::DeserializeOwned>(&self, path: &Path) -> Option<T> {
        serde_json::from_slice(self.siblings.get(path)?).ok()
    }
}

/// A reader for a source; `state` is what a reader of an earlier part of it left.
pub(crate) fn reader(start: Start<'_>, state: Option<serde_json::Value>) -> Reader {
    match start.provider {
        Provider::Unknown => Reader::Log(unknown_lines(start.path)),
        Provider::Aider => Reader::Text(Box::new(aider::AiderReader::new(start.path, state))),
        Provider::Amp => Reader::Document(Box::new(amp::AmpReader::new(start.path))),
        Provider::Cline | Provider::Roo => {
            Reader::Document(Box::new(cline::TaskReader::new(start)))
        }
        Provider::Crush => Reader::Tables(Box::new(crush::CrushTables::new(start.path))),
        Provider::Cursor => cursor::reader(start),
        Provider::Goose => {
            if is_database(start.head) {
                Reader::Tables(Box::new(goose::GooseTables::default()))
            } else {
                Reader::Log(Box::new(goose::GooseLog::new(start, state)))
            }
        }
        Provider::Codex => Reader::Log(Box::new(codex::CodexReader::new(
            start.path,
            start.first_objects(),
            state,
        ))),
        Provider::Copilot => {
            if has_extension(start.path, "json") {
                let reader = copilot_history::CopilotHistory::new(start.path);
                Reader::Document(Box::new(reader))
            } else {
                Reader::Log(Box::new(copilot::CopilotReader::new(start, state)))
            }
        }
        Provider::Droid => Reader::Log(Box::new(droid::DroidReader::new(
            start.path,
            start.first_objects(),
            state,
        ))),
        Provider::Dsh => Reader::Log(Box::new(dsh::DshReader::new(
            start.path,
            start.first_objects(),
            state,
        ))),
        Provider::Iflow => Reader::Log(Box::new(iflow::IflowReader::new(
            start.path,
            start.first_objects(),
            state,
        ))),
        Provider::Kimi => Reader::Log(Box::new(kimi::KimiReader::new(start, state))),
        Provider::Qwen if !has_extension(start.path, "json") && !qwen::is_gemini(start) => {
            Reader::Log(Box::new(qwen::QwenReader::new(
                start.path,
                start.first_objects(),
            )))
        }
        Provider::Gemini | Provider::Qwen => {
            let reader = gemini::GeminiReader::new(start.path, start.first_objects());
            if has_extension(start.path, "json") {
                Reader::Document(Box::new(reader))
            } else {
                Reader::Log(Box::new(reader))
            }
        }
        Provider::OpenClaw | Provider::Pi => {
            let known = if start.provider == Provider::Pi {
                pi::by_name(start.path)
            } else {
                pi::store::known(start)
            };
            let reader = pi::PiReader::new(known, start.first_objects(), state);
            Reader::Log(Box::new(reader))
        }
        Provider::OpenCode => {
            if is_database(start.head) {
                Reader::Tables(Box::new(opencode::OpenCodeTables::default()))
            } else {
                Reader::Document(Box::new(opencode::OpenCodeTree::new(start)))
            }
        }
        Provider::Claude => Reader::Log(Box::new(claude::ClaudeReader::new(
            start.path,
            start.first_objects(),
            state,
        ))),
    }
}

/// Whether a document of the harness holds a whole session, so that two that differ went different
/// ways; what others write as documents are parts of one, or are told apart by their ids.
pub(crate) fn is_session_document(provider: Provider) -> bool {
    matches!(provider, Provider::Cline | Provider::Roo)
}

/// A reader for lines of which nothing is known.
pub(crate) fn unknown_lines(path: &Path) -> Box<dyn LogReader> {
    Box::new(unknown::UnknownReader::new(path))
}

/// Other files that say something about the session of a source and not in it: title, workspace,
/// roles. Their beginnings are handed to [`reader`]. `head` is the beginning of the source.
pub(crate) fn siblings(provider: Provider, path: &Path, head: &[u8]) -> Vec<PathBuf> {
    match provider {
        Provider::Copilot => copilot::workspace_file(path).into_iter().collect(),
        Provider::Kimi => kimi::siblings(path),
        Provider::OpenClaw => vec![pi::store::beside(path)],
        Provider::Cline | Provider::Roo => cline::siblings(path),
        Provider::Cursor => cursor::siblings(path),
        Provider::OpenCode => opencode::message_of(path, head).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// Whether bytes that begin with `{"` may be the begin of a record, by their first key.
pub(crate) fn may_begin_record(reader: &dyn LogReader, bytes: &[u8]) -> bool {
    let Some(rest) = bytes.strip_prefix(b"{\"") else {
        return false;
    };
    reader.first_keys().iter().any(|key| {
        rest.strip_prefix(key.as_bytes())
            .is_some_and(|after| after.first() == Some(&b'"'))
    })
}

/// A message with nothing but its text.
fn message(role: Role, kind: MessageKind, text: String) -> Message {
    Message {
        role,
        kind,
        text,
        tool_name: None,
        call_id: None,
        model: None,
        is_error: None,
    }
}

/// Adds the text in `raw`, if there is any.
fn push_text(out: &mut Vec<Message>, role: Role, kind: MessageKind, raw: Option<&RawValue>) {
    if let Some(text) = json::text(raw)
        && !text.is_empty()
    {
        out.push(message(role, kind, payload::described_in(text)));
    }
}

/// Adds a text that `role` says; what a harness put into the person's mouth is not theirs.
fn say(text: &str, role: Role, out: &mut Vec<Message>) {
    if text.is_empty() {
        return;
    }
    let role = match role {
        Role::User => blocks::speaker(text).0,
        role => role,
    };
    let text = payload::described_in(std::borrow::Cow::Borrowed(text));
    out.push(message(role, MessageKind::Text, text));
}

/// The text in `raw`; anything else as JSON, without payloads.
fn text_of(raw: Option<&RawValue>) -> String {
    match (json::text(raw), raw) {
        (Some(text), _) => payload::described_in(text),
        (None, Some(raw)) => json_text(raw),
        (None, None) => String::new(),
    }
}

/// The disposition of a record of a known type.
fn known(messages: Vec<Message>) -> Disposition {
    if messages.is_empty() {
        Disposition::Known
    } else {
        Disposition::Messages(messages)
    }
}

/// The text of `raw` as JSON, without payloads.
fn json_text(raw: &RawValue) -> String {
    payload::described_in(std::borrow::Cow::Borrowed(raw.get()))
}

/// The first 64 bits of a digest.
fn short(hash: &Digest) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = hash.0;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Whether the content that begins with `head` is an SQLite database.
fn is_database(head: &[u8]) -> bool {
    head.starts_with(b"SQLite format 3\0")
}

/// Whether the file's name ends in `.` and `extension`.
fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e == extension)
}

/// The file name without its extensions `.zst` and `.jsonl` or `.json`.
fn stem(path: &std::path::Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".zst").unwrap_or(&name);
    let name = name.strip_suffix(".jsonl").unwrap_or(name);
    name.strip_suffix(".json").unwrap_or(name).to_owned()
}

/// The session of records that name none: the file's, where its name is an id, since that is known
/// from the first byte on; else the first one that a record names.
fn session_of_file(name: String, named: impl FnOnce() -> Option<String>) -> String {
    if is_uuid(name.strip_prefix("session-").unwrap_or(&name)) {
        name
    } else {
        named().unwrap_or(name)
    }
}

/// Whether `text` has the form of a UUID.
fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(n, b)| match n {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}
