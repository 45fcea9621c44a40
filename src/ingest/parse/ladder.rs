//! The ladder: which bytes of a segment are a record. Each step is tried only where the ones
//! before it failed.
//!
//! 1. the object as it stands; 2. with lone surrogate escapes replaced; 3. one of several on a line;
//! 4. invalid UTF-8 read as U+FFFD; 5. control characters in strings escaped; 6. a record inside a
//!    broken line; 7. the lines joined that a raw line feed tore; 8. a fragment.

use serde::de::IgnoredAny;

use super::line::Line;
use super::shape::{self, Extent};
use super::window::{Stop, Window};
use super::{is_gap, len64, trimmed};
use crate::ingest::provider::{LogReader, Place, may_begin_record};
use crate::model::record::Recovery;

/// Lines that may be joined to one record behind its first.
const MAX_JOINED: usize = 16;
/// Bytes of a record that is joined from several lines.
const MAX_JOINED_BYTES: usize = 1024 * 1024;
/// Records looked for inside one broken line.
const MAX_CANDIDATES: usize = 256;

/// A record's bytes, found.
#[derive(Debug)]
pub(super) struct Value {
    /// Bytes, from the begin of the segment.
    pub(super) len: usize,
    /// How they were read.
    pub(super) recovery: Recovery,
    /// The text to read, when it is not the bytes themselves.
    pub(super) text: Option<String>,
    /// Line feeds inside.
    pub(super) line_feeds: u64,
}

/// The object at the begin of `bytes` and its length, if it needs no repair at all: the step that
/// nearly every record takes.
pub(super) fn well_formed(bytes: &[u8]) -> Option<(Line<'_>, usize)> {
    if bytes.first() != Some(&b'{') {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Line<'_>>();
    let line = values.next()?.ok()?;
    let len = values.byte_offset();
    if shape::may_hold_surrogates(text.get(..len)?) {
        return None;
    }
    Some((line, len))
}

/// The JSON value at the begin of `bytes`, if there is one.
pub(super) fn first_value(bytes: &[u8], place: Place) -> Option<Value> {
    if bytes.first() != Some(&b'{') {
        return other_value(bytes, place);
    }
    let Extent::Complete(len) = shape::extent(bytes) else {
        return None;
    };
    readable(bytes.get(..len)?)
}

/// `text` as a record, with lone surrogates replaced if it holds any.
fn clean(text: &str) -> Value {
    let repaired = if shape::may_hold_surrogates(text) {
        shape::without_lone_surrogates(text)
    } else {
        None
    };
    Value {
        len: text.len(),
        recovery: if repaired.is_some() {
            Recovery::LoneSurrogate
        } else {
            Recovery::Clean
        },
        text: repaired,
        line_feeds: 0,
    }
}

/// The object that `bytes` are, repaired as far as needed.
fn readable(bytes: &[u8]) -> Option<Value> {
    let is_object = |text: &str| serde_json::from_str::<Line<'_>>(text).is_ok();
    let lossy = String::from_utf8_lossy(bytes);
    let mut value = match &lossy {
        std::borrow::Cow::Borrowed(text) => clean(text),
        std::borrow::Cow::Owned(text) => {
            let mut value = clean(text);
            value.recovery = Recovery::InvalidUtf8;
            value.text.get_or_insert_with(|| text.clone());
            value
        }
    };
    value.len = bytes.len();
    if is_object(value.text.as_deref().unwrap_or(&lossy)) {
        return Some(value);
    }
    let escaped = shape::with_control_escaped(value.text.as_deref().unwrap_or(&lossy)).into_owned();
    if !is_object(&escaped) {
        return None;
    }
    value.recovery = Recovery::Multiline;
    value.text = Some(escaped);
    Some(value)
}

/// The value that `bytes` are as a whole, repaired as far as needed: inside a document it may be
/// of any kind.
pub(super) fn document_value(bytes: &[u8]) -> Option<Value> {
    if bytes.first() == Some(&b'{') {
        return readable(bytes);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut value = clean(&text);
    if let std::borrow::Cow::Owned(_) = text {
        value.recovery = Recovery::InvalidUtf8;
        value.text.get_or_insert_with(|| text.clone().into_owned());
    }
    value.len = bytes.len();
    serde_json::from_str::<IgnoredAny>(value.text.as_deref().unwrap_or(&text)).ok()?;
    Some(value)
}

/// A value that is no object: only as a whole, finished line, for half a number is a number too.
fn other_value(bytes: &[u8], place: Place) -> Option<Value> {
    if !place.at_line_start || !place.terminated {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    Some(clean(text))
}

/// Where a record begins inside a broken segment. It must be one by its fields, and the segment or
/// another record must follow it, so that no part of a broken record is taken for one. `left` is how
/// many bytes may still be looked through in this segment.
pub(super) fn record_inside(
    reader: &dyn LogReader,
    bytes: &[u8],
    left: &mut usize,
) -> Option<usize> {
    let mut tried = 0;
    for at in memchr::memmem::find_iter(bytes.get(1..)?, b"{\"") {
        let at = at + 1;
        let rest = bytes.get(at..)?;
        if !may_begin_record(reader, rest) {
            continue;
        }
        tried += 1;
        if tried > MAX_CANDIDATES || *left == 0 {
            return None;
        }
        match shape::extent(rest) {
            Extent::Complete(len) => {
                *left = left.saturating_sub(len);
                let follows = rest
                    .get(len..)
                    .unwrap_or_default()
                    .iter()
                    .find(|b| !is_gap(**b));
                if matches!(follows, None | Some(b'{'))
                    && readable(rest.get(..len)?).is_some_and(|v| is_record(reader, rest, &v))
                {
                    return Some(at);
                }
            }
            Extent::InString | Extent::Open => {
                *left = left.saturating_sub(rest.len());
            }
        }
    }
    None
}

/// Whether the fields of `value`, found at the begin of `bytes`, are those of a record.
fn is_record(reader: &dyn LogReader, bytes: &[u8], value: &Value) -> bool {
    let text = match &value.text {
        Some(text) => text.as_str(),
        None => std::str::from_utf8(bytes.get(..value.len).unwrap_or_default()).unwrap_or_default(),
    };
    serde_json::from_str::<Line<'_>>(text).is_ok_and(|line| reader.is_record(&line))
}

/// What joining lines gave.
#[derive(Debug)]
pub(super) enum Join {
    /// A record over several lines.
    Record(Value),
    /// The content ends before it can be said.
    Pending,
    /// The first line stays broken.
    No,
}

/// Joins the broken line of `len` bytes at the begin of `window`, which ends inside a string, with
/// the broken lines behind it.
pub(super) fn join(
    reader: &dyn LogReader,
    window: &mut Window<'_>,
    len: usize,
    max_line: usize,
) -> Join {
    let limit = MAX_JOINED_BYTES.min(max_line);
    let mut end = len;
    let mut walk = shape::Walk::default();
    for _ in 0..MAX_JOINED {
        let begin = end + 1;
        if begin > limit {
            return Join::No;
        }
        let (next_end, stop) = window.segment(begin, limit);
        let rest = window.rest();
        let next = rest.get(begin..next_end).unwrap_or_default();
        let next = trimmed(next).trim_ascii_start();
        if let Extent::Complete(n) = shape::extent(next)
            && next
                .get(..n)
                .is_some_and(|object| readable(object).is_some())
        {
            return Join::No;
        }
        match stop {
            Stop::End => return Join::Pending,
            Stop::Nul | Stop::Limit => return Join::No,
            Stop::Newline => {}
        }
        let whole = trimmed(rest.get(..next_end).unwrap_or_default());
        match walk.on(whole) {
            Extent::InString => end = next_end,
            Extent::Complete(n) if n == whole.len() => {
                return match readable(whole) {
                    Some(mut value) if is_record(reader, whole, &value) => {
                        value.recovery = Recovery::Multiline;
                        value.line_feeds = len64(memchr::memchr_iter(b'\n', whole).count());
                        Join::Record(value)
                    }
                    _ => Join::No,
                };
            }
            Extent::Complete(_) | Extent::Open => return Join::No,
        }
    }
    Join::No
}
