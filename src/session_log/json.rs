//! JSON as DSH's own reader takes it: numbers in any spelling, the last of several equal keys, lone
//! surrogates, and bytes that are no UTF-8 inside of strings. Nothing is copied that need not be:
//! values are slices of the text, so that a row can be written back byte for byte.

use std::borrow::Cow;

/// The largest integer that the harness's numbers hold exactly.
pub(super) const MAX_SAFE: i64 = (1 << 53) - 1;

/// How deep a value may be nested before it is compared as text.
const DEEP: usize = 200;

/// The members of an object in the order of the text. Values are whole and valid.
#[derive(Debug, Clone, Default)]
pub(super) struct Object<'a> {
    members: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> Object<'a> {
    /// Reads a whole text that is one object. `None` when it is anything else, or not JSON.
    pub(super) fn read(text: &'a [u8]) -> Option<Object<'a>> {
        let mut stack = Vec::new();
        Object::whole(text, &mut |_, at| value_end(text, at, &mut stack))
    }

    /// As [`Object::read`], and the object that one of its values is, read on the way.
    pub(super) fn read_with(
        text: &'a [u8],
        key: &[u8],
    ) -> Option<(Object<'a>, Option<Object<'a>>)> {
        let (mut stack, mut deeper) = (Vec::new(), Vec::new());
        let mut inner = None;
        let object = Object::whole(text, &mut |k, at| {
            if k != key {
                return value_end(text, at, &mut stack);
            }
            inner = None;
            if text.get(at) != Some(&b'{') {
                return value_end(text, at, &mut stack);
            }
            let (object, end) =
                Object::at(text, at, &mut |_, at| value_end(text, at, &mut deeper))?;
            inner = Some(object);
            Some(end)
        })?;
        Some((object, inner))
    }

    /// Reads a value that is known to be valid: it came out of [`Object::read`] or [`elements`].
    /// `None` when it is no object.
    pub(super) fn within(value: &'a [u8]) -> Option<Object<'a>> {
        Object::whole(value, &mut |_, at| valid_end(value, at))
    }

    fn whole(
        text: &'a [u8],
        end_of: &mut dyn FnMut(&'a [u8], usize) -> Option<usize>,
    ) -> Option<Object<'a>> {
        let (object, end) = Object::at(text, space(text, 0), end_of)?;
        (space(text, end) == text.len()).then_some(object)
    }

    /// Reads the object that begins at `at`, and says where it ends. `end_of` says where the value
    /// of a key ends.
    fn at(
        text: &'a [u8],
        at: usize,
        end_of: &mut dyn FnMut(&'a [u8], usize) -> Option<usize>,
    ) -> Option<(Object<'a>, usize)> {
        if text.get(at) != Some(&b'{') {
            return None;
        }
        let mut members = Vec::with_capacity(8);
        let mut at = space(text, at + 1);
        if text.get(at) == Some(&b'}') {
            return Some((Object { members }, at + 1));
        }
        loop {
            let key_end = string_end(text, at)?;
            let key = text.get(at + 1..key_end - 1)?;
            at = space(text, key_end);
            if text.get(at) != Some(&b':') {
                return None;
            }
            at = space(text, at + 1);
            let end = end_of(key, at)?;
            members.push((key, text.get(at..end)?));
            at = space(text, end);
            match text.get(at) {
                Some(b',') => at = space(text, at + 1),
                Some(b'}') => return Some((Object { members }, at + 1)),
                _ => return None,
            }
        }
    }

    /// Every key, escapes resolved, with its value.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Cow<'a, [u8]>, &'a [u8])> {
        self.members.iter().map(|(k, v)| (unescaped(k), *v))
    }

    /// The value of a key: of several the last.
    pub(super) fn get(&self, key: &str) -> Option<&'a [u8]> {
        self.members
            .iter()
            .rev()
            .find(|(k, _)| key_is(k, key))
            .map(|(_, v)| *v)
    }

    /// Whether there is no key but these.
    pub(super) fn only(&self, keys: &[&str]) -> bool {
        self.members
            .iter()
            .all(|(k, _)| keys.iter().any(|key| key_is(k, key)))
    }

    /// The value of a key as an object.
    pub(super) fn object(&self, key: &str) -> Option<Object<'a>> {
        Object::within(self.get(key)?)
    }

    /// The value of a key as text.
    pub(super) fn text(&self, key: &str) -> Option<Cow<'a, [u8]>> {
        text(self.get(key)?)
    }

    /// The value of a key as a safe integer.
    pub(super) fn int(&self, key: &str) -> Option<i64> {
        integer(self.get(key)?)
    }

    /// The value of a key as a safe integer that is not negative.
    pub(super) fn count(&self, key: &str) -> Option<u64> {
        u64::try_from(self.int(key)?).ok()
    }
}

fn key_is(raw: &[u8], key: &str) -> bool {
    // An escape is longer than what it stands for.
    raw == key.as_bytes()
        || raw.len() > key.len()
            && memchr::memchr(b'\\', raw).is_some()
            && *unescaped(raw) == *key.as_bytes()
}

/// Whether a whole text is one valid value.
#[cfg(test)]
pub(super) fn valid(text: &[u8]) -> bool {
    let at = space(text, 0);
    value_end(text, at, &mut Vec::new()).is_some_and(|end| space(text, end) == text.len())
}

/// The elements of a valid array, or `None`.
pub(super) fn elements(value: &[u8]) -> Option<Vec<&[u8]>> {
    if value.first() != Some(&b'[') {
        return None;
    }
    let mut out = Vec::new();
    let mut at = space(value, 1);
    if value.get(at) == Some(&b']') {
        return Some(out);
    }
    loop {
        let end = valid_end(value, at)?;
        out.push(value.get(at..end)?);
        at = space(value, end);
        match value.get(at)? {
            b',' => at = space(value, at + 1),
            _ => return Some(out),
        }
    }
}

/// The text of a string value, escapes resolved; a lone surrogate keeps the three bytes that its
/// number would have.
pub(super) fn text(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let inner = value.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(unescaped(inner))
}

/// Whether a value is this text.
pub(super) fn is_text(value: Option<&[u8]>, want: &str) -> bool {
    value.and_then(text).is_some_and(|t| *t == *want.as_bytes())
}

/// A number that is an integer and safe, in whatever spelling.
pub(super) fn integer(value: &[u8]) -> Option<i64> {
    if value.len() <= 15 && !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
        return Some(
            value
                .iter()
                .fold(0_i64, |n, d| n * 10 + i64::from(d - b'0')),
        );
    }
    let number = number(value)?;
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    (number.trunc() == number && number.abs() <= MAX_SAFE as f64).then_some(number as i64)
}

/// Whether a number is spelled or rounds to minus zero.
pub(super) fn minus_zero(value: &[u8]) -> bool {
    number(value).is_some_and(|n| n == 0.0 && n.is_sign_negative())
}

/// A number of any kind; what is too large for one is infinite.
pub(super) fn number(value: &[u8]) -> Option<f64> {
    if !matches!(value.first(), Some(b'-' | b'0'..=b'9')) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    at
}

/// The end of the value that begins at `at`, whole and checked. `stack` is room to work in.
fn value_end(text: &[u8], mut at: usize, stack: &mut Vec<u8>) -> Option<usize> {
    stack.clear();
    loop {
        match *text.get(at)? {
            b'"' => at = string_end(text, at)?,
            open @ (b'{' | b'[') => {
                at = space(text, at + 1);
                let close = if open == b'{' { b'}' } else { b']' };
                if *text.get(at)? == close {
                    at += 1;
                } else {
                    stack.push(close);
                    if open == b'{' {
                        at = key_end(text, at)?;
                    }
                    continue;
                }
            }
            b't' => at = word(text, at, b"true")?,
            b'f' => at = word(text, at, b"false")?,
            b'n' => at = word(text, at, b"null")?,
            _ => at = number_end(text, at)?,
        }
        loop {
            let Some(close) = stack.last().copied() else {
                return Some(at);
            };
            at = space(text, at);
            let sign = *text.get(at)?;
            at += 1;
            if sign == close {
                stack.pop();
            } else if sign == b',' {
                at = space(text, at);
                if close == b'}' {
                    at = key_end(text, at)?;
                }
                break;
            } else {
                return None;
            }
        }
    }
}

/// The end of a value in text that is known to be valid.
fn valid_end(text: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    loop {
        match *text.get(at)? {
            b'"' => at = valid_string_end(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                at += 1;
            }
            _ if depth > 0 => {
                at += 1;
                continue;
            }
            _ => {
                let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
                let rest = text.get(at..)?;
                return Some(at + rest.iter().position(ends).unwrap_or(rest.len()));
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

fn valid_string_end(text: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at = sign_in_short(text, at)
            .or_else(|at| {
                let rest = text.get(at..).ok_or(at)?;
                memchr::memchr2(b'"', b'\\', rest).map(|n| at + n).ok_or(at)
            })
            .ok()?;
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}

/// Where the next quote or backslash is, if it is near; else how far there is none.
fn sign_in_short(text: &[u8], mut at: usize) -> Result<usize, usize> {
    for _ in 0..4 {
        let Some(x) = eight(text, at) else {
            return Err(at);
        };
        let hit = zero(x ^ (ONES * u64::from(b'"'))) | zero(x ^ (ONES * u64::from(b'\\')));
        if hit != 0 {
            return Ok(at + hit.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    Err(at)
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Marks bytes that are zero; the lowest mark is always right.
const fn zero(x: u64) -> u64 {
    x.wrapping_sub(ONES) & !x & HIGH
}

fn eight(text: &[u8], at: usize) -> Option<u64> {
    let bytes = text.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

/// Behind a key and its colon.
fn key_end(text: &[u8], at: usize) -> Option<usize> {
    let at = space(text, string_end(text, at)?);
    (*text.get(at)? == b':').then(|| space(text, at + 1))
}

fn word(text: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    text.get(at..)?.starts_with(word).then_some(at + word.len())
}

fn number_end(text: &[u8], mut at: usize) -> Option<usize> {
    let digits = |mut at: usize| -> Option<usize> {
        let from = at;
        while text.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        (at > from).then_some(at)
    };
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = match text.get(at)? {
        b'0' => at + 1,
        _ => digits(at)?,
    };
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = digits(at)?;
    }
    Some(at)
}

/// Behind the closing quote of the string that begins at `at`.
fn string_end(text: &[u8], at: usize) -> Option<usize> {
    if text.get(at) != Some(&b'"') {
        return None;
    }
    let mut at = at + 1;
    loop {
        at = plain_end(text, at);
        match *text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match *text.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' => {
                    let hex = text.get(at + 2..at + 6)?;
                    if !hex.iter().all(u8::is_ascii_hexdigit) {
                        return None;
                    }
                    at += 6;
                }
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// Where the next quote, backslash or control character is: eight bytes at a time.
fn plain_end(text: &[u8], mut at: usize) -> usize {
    let begun = at;
    while let Some(x) = eight(text, at) {
        let control = x.wrapping_sub(ONES * 0x20) & !x & HIGH;
        let hit =
            control | zero(x ^ (ONES * u64::from(b'"'))) | zero(x ^ (ONES * u64::from(b'\\')));
        if hit != 0 {
            return at + hit.trailing_zeros() as usize / 8;
        }
        at += 8;
        // A long text: many bytes at a time as long as there is nothing in them.
        if at - begun == 32 {
            let rest = text.get(at..).unwrap_or_default();
            let plain = |b: &u8| u8::from(*b < 0x20) | u8::from(*b == b'"') | u8::from(*b == b'\\');
            at += 64
                * rest
                    .chunks_exact(64)
                    .take_while(|c| c.iter().fold(0, |hit, b| hit | plain(b)) == 0)
                    .count();
        }
    }
    while let Some(b) = text.get(at) {
        if *b == b'"' || *b == b'\\' || *b < 0x20 {
            break;
        }
        at += 1;
    }
    at
}

fn unescaped(inner: &[u8]) -> Cow<'_, [u8]> {
    let first = if inner.len() < 16 {
        inner.iter().position(|b| *b == b'\\')
    } else {
        memchr::memchr(b'\\', inner)
    };
    let Some(first) = first else {
        return Cow::Borrowed(inner);
    };
    let mut out = Vec::with_capacity(inner.len());
    out.extend_from_slice(inner.get(..first).unwrap_or_default());
    let unit = |at: usize| -> Option<u32> {
        let hex = inner.get(at..at + 4)?;
        u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok()
    };
    let mut at = first;
    while let Some(b) = inner.get(at) {
        if *b != b'\\' {
            out.push(*b);
            at += 1;
            continue;
        }
        let sign = inner.get(at + 1).copied().unwrap_or(b'\\');
        at += 2;
        match sign {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let mut code = unit(at).unwrap_or(0xFFFD);
                at += 4;
                let low = match (code, inner.get(at..at + 2)) {
                    (0xD800..=0xDBFF, Some(b"\\u")) => unit(at + 2),
                    _ => None,
                };
                if let Some(low @ 0xDC00..=0xDFFF) = low {
                    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                    at += 6;
                }
                push_code(&mut out, code);
            }
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

/// UTF-8 of a number, surrogates included.
fn push_code(out: &mut Vec<u8>, code: u32) {
    if let Some(c) = char::from_u32(code) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        return;
    }
    let low = |shift: u32| u8::try_from((code >> shift) & 0x3F).unwrap_or(0) | 0x80;
    out.extend_from_slice(&[0xED, low(6), low(0)]);
}

/// Writes a valid value so that equal values are equal bytes: keys in order and once each, numbers
/// as numbers, strings without escapes.
pub(super) fn canonical(value: &[u8], out: &mut Vec<u8>) {
    write_canonical(value, out, 0);
}

fn write_canonical(value: &[u8], out: &mut Vec<u8>, depth: usize) {
    let piece = |tag: u8, bytes: &[u8], out: &mut Vec<u8>| {
        out.push(tag);
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(bytes);
    };
    match value.first() {
        Some(b'"') => piece(b's', &text(value).unwrap_or_default(), out),
        Some(b'-' | b'0'..=b'9') => {
            let number = number(value).unwrap_or(f64::NAN);
            let number = if number == 0.0 { 0.0 } else { number };
            out.push(b'n');
            out.extend_from_slice(&number.to_bits().to_le_bytes());
        }
        Some(b'[') if depth < DEEP => {
            let list = elements(value).unwrap_or_default();
            out.push(b'a');
            out.extend_from_slice(&(list.len() as u64).to_le_bytes());
            for element in list {
                write_canonical(element, out, depth + 1);
            }
        }
        Some(b'{') if depth < DEEP => {
            let object = Object::within(value).unwrap_or_default();
            let mut members: std::collections::BTreeMap<Cow<'_, [u8]>, &[u8]> =
                std::collections::BTreeMap::new();
            for (key, value) in &object.members {
                members.insert(unescaped(key), value);
            }
            out.push(b'o');
            out.extend_from_slice(&(members.len() as u64).to_le_bytes());
            for (key, value) in members {
                piece(b'k', &key, out);
                write_canonical(value, out, depth + 1);
            }
        }
        _ => piece(b'w', value, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        canonical(a.as_bytes(), &mut x);
        canonical(b.as_bytes(), &mut y);
        x == y
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_keys_in_any_order() {
        assert!(same(
            r#"{"a":3,"b":[1,"\u00e9"]}"#,
            r#"{ "b":[1.0, "é"], "a":1, "a":3e0}"#
        ));
        assert!(!same(r#"{"a":"3"}"#, r#"{"a":3}"#));
        assert!(!same(r#"["\ud83d"]"#, r#"["\ud83e"]"#));
        assert!(same(r#""\ud83d\ude00""#, "\"\u{1F600}\""));
    }

    #[test]
    fn integers_in_every_spelling() {
        for (text, want) in [
            ("3.0", Some(3)),
            ("4e0", Some(4)),
            ("-0", Some(0)),
            ("9007199254740991", Some(MAX_SAFE)),
            ("9007199254740992", None),
            ("1.5", None),
            ("\"1\"", None),
        ] {
            assert_eq!(integer(text.as_bytes()), want, "{text}");
        }
        assert!(minus_zero(b"-0.0") && !minus_zero(b"0"));
    }

    #[test]
    fn what_is_json() {
        for text in [
            r#"{"a":[],"b":{},"c":[{"d":null}]} "#,
            "\"\\ud800\"",
            "[1e5,-0.5E-3]",
        ] {
            assert!(valid(text.as_bytes()), "{text}");
        }
        for text in [
            "{\"a\":1,}",
            "[1,]",
            "01",
            "1.",
            "\"\n\"",
            "{a:1}",
            "\u{feff}{}",
            "nul",
            "[1 2]",
            "",
        ] {
            assert!(!valid(text.as_bytes()), "{text}");
        }
        assert!(valid(b"[\"\xff\"]") && !valid(b"[\xff]"));
    }
}
