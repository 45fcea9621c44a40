//! One row of a log: an event, or several pieces of an answer packed into one row.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::json::{self, Object};
use super::vocabulary::PACKED;

/// A row, decoded as far as its place among the others needs it.
#[derive(Debug, Clone)]
pub(super) enum Row<'a> {
    Event(Event<'a>),
    Packed(Packed<'a>),
    /// A header where an event is due.
    Header,
    /// Nothing that has a place.
    Bad(&'static str),
}

/// An event as it is written.
#[derive(Debug, Clone)]
pub(super) struct Event<'a> {
    pub(super) kind: Cow<'a, [u8]>,
    pub(super) seq: u64,
    pub(super) time: Option<i64>,
    pub(super) data: Option<&'a [u8]>,
    /// The same as an object, where it is one.
    pub(super) object: Option<Object<'a>>,
    pub(super) sources: Option<&'a [u8]>,
    pub(super) operation: Option<&'a [u8]>,
    pub(super) ignorable: Option<&'a [u8]>,
    /// A key that events don't have.
    pub(super) odd_key: bool,
}

/// What a packed row is made of.
#[derive(Debug, Clone)]
pub(super) struct Packed<'a> {
    pub(super) kind: Cow<'a, [u8]>,
    pub(super) first: u64,
    pub(super) time: i64,
    pub(super) turn: u64,
    pub(super) step: u64,
    object: Object<'a>,
    steps: Vec<i64>,
    texts: Vec<&'a [u8]>,
}

/// Decodes a line.
pub(super) fn decode(line: &[u8], version: u64) -> Row<'_> {
    let Some((object, data)) = Object::read_with(line, b"data") else {
        return Row::Bad("it is not a JSON object");
    };
    let Some(kind) = object.text("type") else {
        return Row::Bad("it has no type");
    };
    if version <= 1 && PACKED.iter().any(|p| p.as_bytes() == &*kind) {
        return match packed(kind, &object, data) {
            Ok(packed) => Row::Packed(packed),
            Err(why) => Row::Bad(why),
        };
    }
    let mut event = Event {
        kind,
        seq: 0,
        time: None,
        data: None,
        object: None,
        sources: None,
        operation: None,
        ignorable: None,
        odd_key: false,
    };
    let (mut seq, mut plain) = (None, true);
    for (key, value) in object.iter() {
        plain &= matches!(key, Cow::Borrowed(_));
        match &*key {
            b"type" => {}
            b"seq" => seq = json::integer(value).and_then(|n| u64::try_from(n).ok()),
            b"time" => event.time = json::integer(value).filter(|t| *t >= 0),
            b"data" => event.data = Some(value),
            b"sourceEventSeqs" => event.sources = Some(value),
            b"surfaceOp" => event.operation = Some(value),
            b"ignorable" => event.ignorable = Some(value),
            _ => event.odd_key = true,
        }
    }
    match seq {
        Some(seq) => {
            // An escape hides a key from what was read on the way.
            let object = if plain {
                data
            } else {
                event.data.and_then(Object::within)
            };
            Row::Event(Event {
                seq,
                object,
                ..event
            })
        }
        None if *event.kind == *b"session" => Row::Header,
        None => Row::Bad("it has no sequence number"),
    }
}

fn packed<'a>(
    kind: Cow<'a, [u8]>,
    row: &Object<'a>,
    data: Option<Object<'a>>,
) -> Result<Packed<'a>, &'static str> {
    if !row.only(&["type", "seq0", "time0", "data"]) {
        return Err("a packed row with a key that it must not have");
    }
    let call = *kind == *b"tool-call-chunks";
    let read = || -> Option<Packed<'a>> {
        let data = data.or_else(|| row.object("data"))?;
        let allowed: &[&str] = if call {
            &["turn", "step", "index", "id", "name", "dt", "args"]
        } else {
            &["turn", "step", "index", "dt", "texts"]
        };
        let first = row.count("seq0")?;
        let time = row.int("time0").filter(|t| *t >= 0)?;
        let (texts, steps) = pieces(&data, call, time)?;
        let last = first.checked_add(texts.len() as u64)?;
        let sound = data.only(allowed) && last <= json::MAX_SAFE.unsigned_abs();
        sound.then_some(Packed {
            kind: kind.clone(),
            first,
            time,
            turn: data.count("turn")?,
            step: data.count("step")?,
            object: data,
            steps,
            texts,
        })
    };
    read().ok_or("a packed row whose parts do not fit together")
}

/// The strings of several pieces of an answer, and the times between them.
type Pieces<'a> = (Vec<&'a [u8]>, Vec<i64>);

/// Several pieces of an answer that begin at `time`; `None` where their parts do not fit together.
fn pieces<'a>(object: &Object<'a>, call: bool, time: i64) -> Option<Pieces<'a>> {
    let texts = json::elements(object.get(if call { "args" } else { "texts" })?)?;
    let steps = json::elements(object.get("dt")?)?;
    let steps: Option<Vec<i64>> = steps.into_iter().map(json::integer).collect();
    let steps = steps?;
    object.count("index")?;
    if call {
        object.text("id")?;
        if let Some(name) = object.get("name") {
            json::text(name)?;
        }
    }
    let mut now = time;
    for step in &steps {
        now = now
            .checked_add(*step)
            .filter(|n| (0..=json::MAX_SAFE).contains(n))?;
    }
    let strings = texts.iter().all(|t| t.first() == Some(&b'"'));
    (!texts.is_empty() && strings && steps.len() + 1 == texts.len()).then_some((texts, steps))
}

/// Whether something is a part of the stream that later versions keep with an answer.
pub(super) fn is_of_stream(part: &Object<'_>) -> bool {
    let time = |key: &str| part.int(key).filter(|t| *t >= 0);
    let several = |call: bool, keys: &[&str]| {
        part.only(keys) && time("time0").is_some_and(|t| pieces(part, call, t).is_some())
    };
    match part.text("type").as_deref() {
        Some(b"text-chunks" | b"reasoning-chunks") => {
            several(false, &["type", "time0", "index", "dt", "texts"])
        }
        Some(b"tool-call-chunks") => several(
            true,
            &["type", "time0", "index", "id", "name", "dt", "args"],
        ),
        Some(b"chunk") => {
            let known = part.get("chunk").and_then(chunk).is_some();
            part.only(&["type", "time", "chunk"]) && time("time").is_some() && known
        }
        _ => false,
    }
}

/// What a piece of an answer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chunk<'a> {
    /// Of a call, with its id.
    Call(Cow<'a, [u8]>),
    Other,
}

/// Reads a piece of an answer; `None` for one of no known kind.
pub(super) fn chunk(value: &[u8]) -> Option<Chunk<'_>> {
    static TYPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"type\""));
    const TEXTS: [&[u8]; 2] = [b"text-delta\"", b"reasoning-delta\""];
    // By far the most; another key of this name would count in the place of the first.
    if let Some(rest) = value.strip_prefix(b"{\"type\":\"")
        && TEXTS.iter().any(|t| rest.starts_with(t))
        && TYPE.find(rest).is_none()
    {
        return Some(Chunk::Other);
    }
    let object = Object::within(value)?;
    match object.text("type").as_deref()? {
        b"tool-call-delta" => Some(Chunk::Call(object.text("id")?)),
        b"text-delta" | b"reasoning-delta" | b"block-start" | b"block-end" | b"usage" => {
            Some(Chunk::Other)
        }
        b"finish" => {
            let reason = object.object("reason")?;
            let sound = match reason.text("kind").as_deref()? {
                b"stop" | b"tool-calls" | b"max-tokens" => true,
                b"aborted" | b"error" => reason.get("failure").is_some(),
                _ => false,
            };
            sound.then_some(Chunk::Other)
        }
        _ => None,
    }
}

impl<'a> Packed<'a> {
    /// How many events it holds.
    pub(super) fn len(&self) -> u64 {
        self.texts.len() as u64
    }

    /// The time of its last event.
    pub(super) fn last_time(&self) -> i64 {
        self.steps.iter().fold(self.time, |t, d| t + d)
    }

    /// The id of the call that it is about.
    pub(super) fn call_id(&self) -> Option<Cow<'a, [u8]>> {
        self.object.text("id")
    }

    /// The data that an event of its own would have.
    fn member(&self, k: usize) -> Vec<u8> {
        let raw = |key: &str| self.object.get(key).unwrap_or(b"null");
        let text = self.texts.get(k).copied().unwrap_or(b"null");
        let mut out = Vec::with_capacity(128 + text.len());
        let mut put = |parts: &[&[u8]]| parts.iter().for_each(|p| out.extend_from_slice(p));
        put(&[b"{\"turn\":", raw("turn"), b",\"step\":", raw("step")]);
        let (name, field): (&[u8], &[u8]) = match &*self.kind {
            b"text-chunks" => (b"text-delta", b"text"),
            b"reasoning-chunks" => (b"reasoning-delta", b"text"),
            _ => (b"tool-call-delta", b"argumentsDelta"),
        };
        put(&[
            b",\"chunk\":{\"type\":\"",
            name,
            b"\",\"index\":",
            raw("index"),
        ]);
        for key in ["id", "name"] {
            if let Some(value) = self.object.get(key) {
                put(&[b",\"", key.as_bytes(), b"\":", value]);
            }
        }
        put(&[b",\"", field, b"\":", text, b"}}"]);
        out
    }

    /// Each event in the form in which events are compared.
    pub(super) fn canonical_members(&self) -> Vec<Vec<u8>> {
        (0..self.texts.len())
            .map(|k| canonical_parts(b"assistant/chunk", Some(&self.member(k)), None, None, false))
            .collect()
    }

    /// The row without its first `cut` events, strings as they were written.
    pub(super) fn without_first(&self, cut: u64) -> Vec<u8> {
        let cut = usize::try_from(cut).unwrap_or(usize::MAX);
        let passed = self.steps.get(..cut).unwrap_or_default();
        let time = passed.iter().fold(self.time, |t, d| t + d);
        let raw = |key: &str| self.object.get(key).unwrap_or(b"null");
        let mut out = Vec::new();
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        put(b"{\"type\":\"");
        put(&self.kind);
        put(format!("\",\"seq0\":{},\"time0\":{time}", self.first + cut as u64).as_bytes());
        put(b",\"data\":{\"turn\":");
        put(raw("turn"));
        put(b",\"step\":");
        put(raw("step"));
        put(b",\"index\":");
        put(raw("index"));
        for key in ["id", "name"] {
            if let Some(value) = self.object.get(key) {
                put(b",\"");
                put(key.as_bytes());
                put(b"\":");
                put(value);
            }
        }
        put(b",\"dt\":[");
        for (k, step) in self.steps.iter().skip(cut).enumerate() {
            if k > 0 {
                put(b",");
            }
            put(step.to_string().as_bytes());
        }
        let list: &[u8] = match &*self.kind {
            b"tool-call-chunks" => b"args",
            _ => b"texts",
        };
        put(b"],\"");
        put(list);
        put(b"\":[");
        for (k, text) in self.texts.iter().skip(cut).enumerate() {
            if k > 0 {
                put(b",");
            }
            put(text);
        }
        put(b"]}}");
        out
    }
}

impl Event<'_> {
    /// The event in the form in which events are compared: everything but its number and time.
    pub(super) fn canonical(&self) -> Vec<u8> {
        canonical_parts(
            &self.kind,
            self.data,
            self.sources,
            self.operation,
            self.ignorable.is_some(),
        )
    }

    /// Whether it only marks the end of what a constructor replayed.
    pub(super) fn is_marker(&self) -> bool {
        *self.kind == *b"session/end-seed"
            && self.sources.is_none()
            && self.operation.is_none()
            && self.object.as_ref().is_some_and(|data| data.only(&[]))
    }
}

fn canonical_parts(
    kind: &[u8],
    data: Option<&[u8]>,
    sources: Option<&[u8]>,
    operation: Option<&[u8]>,
    ignorable: bool,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 + data.map_or(0, <[u8]>::len));
    out.extend_from_slice(&(kind.len() as u64).to_le_bytes());
    out.extend_from_slice(kind);
    for part in [data, operation] {
        out.push(u8::from(part.is_some()));
        if let Some(part) = part {
            json::canonical(part, &mut out);
        }
    }
    out.push(u8::from(ignorable));
    match sources.map(runs) {
        None => out.push(0),
        Some(Some(runs)) => {
            out.push(1);
            for (from, to) in runs {
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&to.to_le_bytes());
            }
        }
        // Nothing that can be spelled out: as it is written.
        Some(None) => {
            out.push(2);
            json::canonical(sources.unwrap_or_default(), &mut out);
        }
    }
    out
}

/// The numbers of a list as runs, first and last; a run in the list may be written as a pair.
pub(super) fn runs(list: &[u8]) -> Option<Vec<(u64, u64)>> {
    plain_runs(list).or_else(|| any_runs(list))
}

/// The same for a list of nothing but digits and commas, which most are.
fn plain_runs(list: &[u8]) -> Option<Vec<(u64, u64)>> {
    let inner = list.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let mut out: Vec<(u64, u64)> = Vec::new();
    let (mut n, mut digits) = (0_u64, 0);
    for byte in inner.iter().chain(b",") {
        match byte {
            b'0'..=b'9' if digits < 15 => {
                n = n * 10 + u64::from(byte - b'0');
                digits += 1;
            }
            b',' if digits > 0 => {
                match out.last_mut() {
                    Some(last) if last.1 + 1 == n => last.1 = n,
                    _ => out.push((n, n)),
                }
                (n, digits) = (0, 0);
            }
            _ => return None,
        }
    }
    Some(out)
}

/// Whether runs that a list writes as pairs are of three or more, and all of it in order.
pub(super) fn has_sound_pairs(list: &[u8]) -> bool {
    // Most lists have none.
    if memchr::memchr_iter(b'[', list).nth(1).is_none() {
        return true;
    }
    let is_pair = |e: &[u8]| e.first() == Some(&b'[');
    let mut before = None;
    let elements = json::elements(list).unwrap_or_default();
    elements.iter().all(|element| {
        let numbers = json::elements(element).unwrap_or_else(|| vec![*element]);
        let ends = numbers.first().zip(numbers.last());
        let Some((Some(from), Some(to))) = ends.map(|(a, b)| (json::integer(a), json::integer(b)))
        else {
            return false;
        };
        let sound = before.is_none_or(|b| from > b) && (!is_pair(element) || to >= from + 2);
        before = Some(to);
        sound
    })
}

fn any_runs(list: &[u8]) -> Option<Vec<(u64, u64)>> {
    let mut out: Vec<(u64, u64)> = Vec::new();
    let count = |v: &[u8]| json::integer(v).and_then(|n| u64::try_from(n).ok());
    for element in json::elements(list)? {
        let (from, to) = if element.first() == Some(&b'[') {
            match json::elements(element)?.as_slice() {
                [a, b] => (count(a)?, count(b)?),
                _ => return None,
            }
        } else {
            let n = count(element)?;
            (n, n)
        };
        if from > to {
            return None;
        }
        match out.last_mut() {
            Some(last) if last.1 + 1 == from => last.1 = to,
            _ => out.push((from, to)),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_keys_the_last_counts_however_it_is_spelled() {
        let line = r#"{"type":"turn/start","seq":1,"seq":2,"time":1,"data":{"turn":1},"d\u0061ta":{"turn":2}}"#;
        let Row::Event(e) = decode(line.as_bytes(), 0) else {
            unreachable!("an event");
        };
        let turn = e.object.as_ref().and_then(|o| o.count("turn"));
        assert_eq!((e.seq, turn), (2, Some(2)));
    }

    const PACK: &str = r#"{"type":"tool-call-chunks","seq0":16,"time0":99,"data":{"turn":1,"step":1,"index":2,"id":"c","name":"n","dt":[3,-2],"args":["a","\u0062","c"]}}"#;

    #[test]
    fn a_packed_row_is_the_events_that_it_stands_for() {
        let Row::Packed(p) = decode(PACK.as_bytes(), 0) else {
            unreachable!("a packed row");
        };
        assert_eq!((p.len(), p.last_time()), (3, 100));
        let plain = r#"{"data":{"chunk":{"argumentsDelta":"b","name":"n","id":"c","index":2.0,"type":"tool-call-delta"},"step":1,"turn":1},"seq":17,"time":1,"type":"assistant/chunk"}"#;
        let Row::Event(e) = decode(plain.as_bytes(), 0) else {
            unreachable!("an event");
        };
        assert_eq!(p.canonical_members()[1], e.canonical());
        assert_eq!(
            String::from_utf8(p.without_first(2)).expect("UTF-8"),
            r#"{"type":"tool-call-chunks","seq0":18,"time0":100,"data":{"turn":1,"step":1,"index":2,"id":"c","name":"n","dt":[],"args":["c"]}}"#
        );
        assert!(matches!(decode(PACK.as_bytes(), 2), Row::Bad(_)));
    }

    #[test]
    fn packed_rows_whose_parts_do_not_fit_have_no_place() {
        for (from, to) in [
            ("[3,-2]", "[3]"),
            ("\"args\":[\"a\",", "\"args\":[1,"),
            ("\"dt\":[3,-2]", "\"dt\":[3,1.5]"),
            ("\"time0\":99", "\"time0\":9007199254740991"),
            ("\"index\":2", "\"index\":2,\"more\":1"),
            ("\"seq0\":16", "\"seq0\":16,\"seq\":16"),
        ] {
            let line = PACK.replace(from, to);
            assert_ne!(line, PACK);
            assert!(matches!(decode(line.as_bytes(), 0), Row::Bad(_)), "{line}");
        }
    }

    #[test]
    fn sources_are_the_same_spelled_out_or_as_runs() {
        assert_eq!(runs(b"[4,5,6,9]"), Some(vec![(4, 6), (9, 9)]));
        assert_eq!(runs(b"[]"), Some(vec![]));
        assert_eq!(runs(b"[[4,6], 9.0]"), Some(vec![(4, 6), (9, 9)]));
        assert_eq!(runs(b"[[6,4]]"), None);
        assert_eq!(runs(b"[\"4\"]"), None);
    }
}
