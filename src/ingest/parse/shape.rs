//! The shape of JSON text, seen without parsing it: where an object ends, where it breaks off,
//! and the repairs that make a text readable.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

/// How far the object at the begin of a text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// It ends behind this many bytes.
    Complete(usize),
    /// The text ends inside a string of it.
    InString,
    /// The text ends inside it, or is no object.
    Open,
}

/// How far the object at the begin of `bytes` goes, by its braces and strings alone.
pub(super) fn extent(bytes: &[u8]) -> Extent {
    Walk::default().on(bytes)
}

/// A walk through an object that goes on when more of it is there.
#[derive(Debug, Default)]
pub(super) struct Walk {
    at: usize,
    depth: usize,
    in_string: bool,
}

impl Walk {
    /// Walks on through `bytes`, which begin with what was walked through before.
    pub(super) fn on(&mut self, bytes: &[u8]) -> Extent {
        if self.at == 0 && bytes.first() != Some(&b'{') {
            return Extent::Open;
        }
        loop {
            if self.in_string && !self.leave_string(bytes) {
                return Extent::InString;
            }
            let Some(&byte) = bytes.get(self.at) else {
                return Extent::Open;
            };
            self.at += 1;
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Extent::Complete(self.at);
                    }
                }
                b'"' => self.in_string = true,
                _ => {}
            }
        }
    }

    /// Passes the rest of a string; `false` when it has no end yet.
    fn leave_string(&mut self, bytes: &[u8]) -> bool {
        while let Some(rest) = bytes.get(self.at..)
            && let Some(found) = memchr::memchr2(b'"', b'\\', rest)
        {
            self.at += found;
            if bytes.get(self.at) == Some(&b'"') {
                self.at += 1;
                self.in_string = false;
                return true;
            }
            // The escaped byte may not be there yet.
            self.at += 2;
        }
        self.at = self.at.max(bytes.len());
        false
    }
}

/// `text` with every lone surrogate escape replaced by `\ufffd`, which is as long; `None` when it
/// holds none.
pub(super) fn without_lone_surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut repaired: Option<Vec<u8>> = None;
    let mut at = 0;
    // A run of backslashes is read from its begin, so an escaped backslash is never taken for one
    // that escapes.
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += found;
        match surrogate(bytes, at) {
            Some(0xd800..=0xdbff) => match surrogate(bytes, at + 6) {
                Some(0xdc00..=0xdfff) => at += 12,
                _ => {
                    replace(&mut repaired, bytes, at);
                    at += 6;
                }
            },
            Some(_) => {
                replace(&mut repaired, bytes, at);
                at += 6;
            }
            None => at += 2,
        }
    }
    repaired.and_then(|r| String::from_utf8(r).ok())
}

/// The surrogate code unit escaped at `at`.
fn surrogate(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at.checked_add(6)?)?;
    let digits = escape.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let unit = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..=0xdfff).contains(&unit).then_some(unit)
}

fn replace(repaired: &mut Option<Vec<u8>>, bytes: &[u8], at: usize) {
    let out = repaired.get_or_insert_with(|| bytes.to_vec());
    if let Some(slot) = out.get_mut(at..at + 6) {
        slot.copy_from_slice(b"\\ufffd");
    }
}

/// Whether `text` may hold a surrogate escape: a quick look before the careful one.
pub(super) fn may_hold_surrogates(text: &str) -> bool {
    static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\\u"));
    let bytes = text.as_bytes();
    ESCAPE
        .find_iter(bytes)
        .any(|at| matches!(bytes.get(at + 2), Some(b'd' | b'D')))
}

/// `text` with the control characters inside its strings escaped; unchanged when there are none.
pub(super) fn with_control_escaped(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut in_string = false;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if in_string && c < ' ' {
            out.push_str(text.get(copied..at).unwrap_or_default());
            // A backslash at the end of a line escapes nothing any more.
            if escaped {
                out.push('\\');
            }
            out.push_str(match c {
                '\n' => "\\n",
                '\r' => "\\r",
                '\t' => "\\t",
                _ => "\\ufffd",
            });
            copied = at + 1;
            escaped = false;
            continue;
        }
        match c {
            '\\' if in_string => escaped = !escaped,
            '"' if !escaped => in_string = !in_string,
            _ => escaped = false,
        }
        if c == '"' {
            escaped = false;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_object_is_found_past_strings_and_escapes() {
        assert_eq!(extent(br#"{"a":"}\"","b":[{}]} x"#), Extent::Complete(20));
        assert_eq!(extent(br#"{"a":"b"#), Extent::InString);
        assert_eq!(extent(br#"{"a":"b\"#), Extent::InString);
        assert_eq!(extent(br#"{"a":["#), Extent::Open);
        assert_eq!(extent(b"[1]"), Extent::Open);
        assert_eq!(extent(b""), Extent::Open);
    }

    #[test]
    fn a_walk_goes_on_where_it_was() {
        let text = br#"{"a\\":"x\"}","b":[{"c":"\\\""},{}]} rest"#;
        let whole = extent(text);
        assert_eq!(whole, Extent::Complete(text.len() - 5));
        for cut in 1..text.len() - 5 {
            let mut walk = Walk::default();
            assert_eq!(walk.on(&text[..cut]), extent(&text[..cut]));
            assert_eq!(walk.on(text), whole, "cut at {cut}");
        }
    }

    #[test]
    fn only_lone_surrogates_are_replaced() {
        assert_eq!(without_lone_surrogates(r"a \ud83d\ude00 \n"), None);
        assert_eq!(without_lone_surrogates(r"\\ud83d \u0041"), None);
        assert_eq!(
            without_lone_surrogates(r"\ud83d x").as_deref(),
            Some(r"\ufffd x")
        );
        assert_eq!(
            without_lone_surrogates(r"\uDE00\ud83d\ud83d\ude00").as_deref(),
            Some(r"\ufffd\ufffd\ud83d\ude00")
        );
        assert_eq!(without_lone_surrogates(r"\ud800\udfff\udbff\udc00"), None);
        assert_eq!(without_lone_surrogates(r"\ud83"), None);
        assert_eq!(without_lone_surrogates("\\"), None);
    }

    #[test]
    fn control_characters_are_escaped_inside_strings_only() {
        assert_eq!(with_control_escaped("{\n\"a\":1}"), "{\n\"a\":1}");
        assert_eq!(
            with_control_escaped("{\"a\":\"x\r\n\ty\"}"),
            r#"{"a":"x\r\n\ty"}"#
        );
        assert_eq!(with_control_escaped("\"x\\\ny\""), r#""x\\\ny""#);
        assert_eq!(with_control_escaped("\"\\\"\n\""), r#""\"\n""#);
    }
}
