//! The fingerprint: BLAKE3 over the covered body in canonical JSON (RFC 8785).

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::Body;

const PREFIX: &str = "plan-v1-";
const CONTEXT: &str = "cass plan fingerprint v1";
/// Beyond it a double can't hold every whole number.
const MAX_SAFE: u64 = 1 << 53;
/// Hex digits behind the prefix.
const DIGITS: usize = 64;

/// Names one plan for one state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of a body.
    ///
    /// # Errors
    /// `internal` when the body holds a number that JSON readers may round.
    pub fn of(body: &Body) -> Result<Fingerprint> {
        let value = serde_json::to_value(body).map_err(|e| {
            Error::new(ErrorKind::Internal, "a plan can't be written as JSON").with_source(e)
        })?;
        Fingerprint::of_covered(&value)
    }

    /// The fingerprint of a body that was read from JSON.
    ///
    /// # Errors
    /// `internal` when it holds a number that JSON readers may round.
    pub fn of_covered(covered: &Value) -> Result<Fingerprint> {
        let mut text = String::new();
        canonical(covered, &mut text)?;
        let hash = blake3::Hasher::new_derive_key(CONTEXT)
            .update(text.as_bytes())
            .finalize();
        Ok(Fingerprint(format!("{PREFIX}{}", hash.to_hex())))
    }

    /// The fingerprint, if `text` is one in full.
    ///
    /// # Errors
    /// `usage` when it is not.
    pub fn parse(text: &str) -> Result<Fingerprint> {
        let digits = text.strip_prefix(PREFIX).unwrap_or_default();
        let known = digits.len() == DIGITS
            && digits
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if known {
            return Ok(Fingerprint(text.to_owned()));
        }
        Err(Error::new(
            ErrorKind::Usage,
            format!(
                "{text:?} is no plan fingerprint: {PREFIX} and {DIGITS} hex digits, copied in full"
            ),
        )
        .with_hint("Run the command without --yes; it prints the plan and its fingerprint."))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// RFC 8785: sorted keys, no white space, the shortest escapes. Numbers are whole and small.
fn canonical(value: &Value, out: &mut String) -> Result<()> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => match n.as_u64().filter(|n| *n < MAX_SAFE) {
            Some(n) => out.push_str(&n.to_string()),
            None => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("a plan holds the number {n}, which readers may round"),
                ));
            }
        },
        Value::String(s) => text(s, out),
        Value::Array(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                canonical(item, out)?;
            }
            out.push(']');
        }
        Value::Object(map) => {
            // By UTF-16 units, which is not the order of UTF-8 bytes beyond the first plane.
            let mut keys: Vec<(&String, &Value)> = map.iter().collect();
            keys.sort_by_cached_key(|(key, _)| key.encode_utf16().collect::<Vec<u16>>());
            out.push('{');
            for (i, (key, item)) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                text(key, out);
                out.push(':');
                canonical(item, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn text(s: &str, out: &mut String) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The covered body of the plan that a document of a dry run shows.
#[must_use]
pub fn covered_in(document: &Value) -> Option<Value> {
    let plan = document
        .as_object()?
        .values()
        .find(|v| v.get("covered").is_some_and(Value::is_object))?;
    let mut covered = plan.get("covered")?.clone();
    // Without `--detail full` the actions stand beside what else is covered.
    if let (Some(covered), Some(actions)) = (covered.as_object_mut(), plan.get("actions"))
        && !covered.contains_key("actions")
    {
        covered.insert("actions".to_owned(), actions.clone());
    }
    Some(covered)
}

/// Where two bodies differ, as JSON pointers into them, sorted; at most `limit` of them.
#[must_use]
pub fn moved(before: &Value, now: &Value, limit: usize) -> Vec<String> {
    let mut found = BTreeSet::new();
    differ(before, now, "", &mut found);
    found.into_iter().take(limit).collect()
}

fn differ(a: &Value, b: &Value, at: &str, found: &mut BTreeSet<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let here = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => differ(a, b, &here, found),
                    _ => drop(found.insert(here)),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differ(a, b, &format!("{at}/{i}"), found);
            }
        }
        _ if a == b => {}
        _ => drop(found.insert(at.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::plan::{ArchiveState, Count, PlanKind};

    fn text_of(value: &Value) -> String {
        let mut out = String::new();
        canonical(value, &mut out).unwrap();
        out
    }

    #[test]
    fn canonical_json_is_that_of_rfc_8785() {
        let value: Value = serde_json::from_str(
            "{\"\u{20ac}\":\"Euro\",\"\\r\":\"CR\",\"\u{fb33}\":1,\"1\":\"One\",\"\u{1f600}\":2,\"\u{80}\":3,\"\u{f6}\":4}",
        )
        .unwrap();
        // The order of the RFC's own example: the emoji's surrogates come before U+FB33.
        assert_eq!(
            text_of(&value),
            "{\"\\r\":\"CR\",\"1\":\"One\",\"\u{80}\":3,\"\u{f6}\":4,\"\u{20ac}\":\"Euro\",\"\u{1f600}\":2,\"\u{fb33}\":1}"
        );
        assert_eq!(
            text_of(&Value::String("\u{1}\u{8}\t\"\\/\u{7f}é".to_owned())),
            "\"\\u0001\\b\\t\\\"\\\\/\u{7f}é\""
        );
    }

    #[test]
    fn numbers_that_a_double_rounds_are_refused_and_counts_are_text() {
        let mut out = String::new();
        for bad in ["1.5", "-1", "9007199254740993"] {
            let value: Value = serde_json::from_str(bad).unwrap();
            canonical(&value, &mut out).unwrap_err();
        }
        assert_eq!(
            serde_json::to_string(&Count(u64::MAX)).unwrap(),
            "\"18446744073709551615\""
        );
    }

    #[test]
    fn only_a_whole_fingerprint_is_one() {
        let body = Body::new(PlanKind::Repair, ArchiveState::Never);
        let whole = Fingerprint::of(&body).unwrap();
        assert_eq!(Fingerprint::parse(whole.as_str()).unwrap(), whole);
        let short = &whole.as_str()[..whole.as_str().len() - 1];
        for bad in [
            "",
            "plan-v1-",
            short,
            &format!("{whole}0"),
            &whole.as_str().to_uppercase(),
            &whole.as_str().replace("v1", "v2"),
            &format!(" {whole}"),
        ] {
            let e = Fingerprint::parse(bad).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Usage, "{bad}");
        }
    }

    #[test]
    fn what_moved_is_named() {
        let a = serde_json::json!({"x": {"a/b": 1, "c": [1, 2]}, "y": 1});
        let b = serde_json::json!({"x": {"a/b": 2, "c": [1, 3]}, "z": 1});
        assert_eq!(moved(&a, &b, 9), ["/x/a~1b", "/x/c/1", "/y", "/z"]);
        assert_eq!(moved(&a, &a, 9), Vec::<String>::new());
    }
}
