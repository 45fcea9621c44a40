//! The first line of a log.

use std::io;

use super::bytes::ReadAt;
use super::json::{self, Object};
use super::lines::Lines;
use super::name::Form;
use super::vocabulary::NEWEST;

/// What a sound header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Version of the format.
    pub version: u64,
    /// The session's id; text in which a lone surrogate has three bytes of its own.
    pub id: Vec<u8>,
    /// The working directory.
    pub cwd: Option<Vec<u8>>,
    /// The session that it was forked from.
    pub parent: Option<Vec<u8>>,
    /// The profile that the session was begun with.
    pub preset: Option<Vec<u8>>,
    /// How many leading events were inherited: versions 0 and 1.
    pub seed_length: u64,
    /// Whether leading events were inherited: version 2 and later.
    pub seeded: bool,
}

/// What is wrong with a first line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HeaderFault {
    /// A version that is not known: above those that are, or below them.
    Version {
        /// As far as it is a whole number.
        number: Option<u64>,
        newer: bool,
    },
    /// No header, or one that must not be.
    Invalid(String),
}

/// The byte order mark that some editors put before a text.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// The version that a line says, whatever else it holds.
fn version(object: &Object<'_>) -> Result<u64, HeaderFault> {
    let invalid = |why: &str| Err(HeaderFault::Invalid(why.to_owned()));
    let number = object.count("version");
    #[allow(clippy::cast_precision_loss)]
    match (object.get("version").and_then(json::number), number) {
        (None, _) => invalid("the header has no version"),
        (Some(n), _) if n > NEWEST as f64 => Err(HeaderFault::Version {
            number,
            newer: true,
        }),
        (Some(_), Some(number)) => Ok(number),
        (Some(n), None) if n < 0.0 => Err(HeaderFault::Version {
            number,
            newer: false,
        }),
        (Some(_), None) => invalid("the header's version is no whole number"),
    }
}

/// Reads a header that a new log is to begin with; the reason in words where it is refused.
///
/// # Errors
/// Why it is no header, or of a version that is not known.
pub fn read_header(line: &[u8]) -> Result<Header, String> {
    read(line, None).map_err(|fault| match fault {
        HeaderFault::Version { .. } => "its version is not known".to_owned(),
        HeaderFault::Invalid(why) => why,
    })
}

/// The header of a log; `None` where it has no sound one.
///
/// # Errors
/// What the medium says.
pub fn header_of<S: ReadAt + ?Sized>(source: &S, form: Form) -> io::Result<Option<Header>> {
    let mut lines = Lines::new(source, form.packed);
    let first = lines.next()?.filter(|line| line.whole);
    Ok(first.and_then(|line| read(line.bytes, form.generation).ok()))
}

/// Reads a header. `generation` is what the log's name says, if it has such a name.
pub(super) fn read(line: &[u8], generation: Option<u64>) -> Result<Header, HeaderFault> {
    let invalid = |why: &str| HeaderFault::Invalid(why.to_owned());
    let Some(object) = Object::read(line) else {
        return Err(invalid("the first line is not a JSON object"));
    };
    if !json::is_text(object.get("type"), "session") {
        return Err(invalid("the first line is no session header"));
    }
    let version = version(&object)?;
    if let Some(named) = generation.filter(|n| *n != version) {
        return Err(HeaderFault::Invalid(format!(
            "the file's name says version {named}, the header version {version}"
        )));
    }
    for retired in ["sandboxMode", "approvalPolicy"] {
        if object.get(retired).is_some() {
            return Err(HeaderFault::Invalid(format!(
                "the header has the retired key {retired}"
            )));
        }
    }
    let seed = if version <= 1 {
        "seedLength"
    } else {
        "isSeeded"
    };
    let keys = [
        "type",
        "version",
        "id",
        "createdAt",
        "delegationDepth",
        "cwd",
        "parentSession",
        "origin",
        "agentPreset",
        seed,
    ];
    if version >= 1 && !object.only(&keys) {
        return Err(invalid("the header has a key that it must not have"));
    }
    for key in ["createdAt", "delegationDepth"] {
        let sound = object
            .get(key)
            .is_some_and(|v| !json::minus_zero(v) && json::integer(v).is_some_and(|n| n >= 0));
        if !sound {
            return Err(HeaderFault::Invalid(format!(
                "the header's {key} is missing or no whole number"
            )));
        }
    }
    let id = object
        .text("id")
        .filter(|id| !id.is_empty())
        .ok_or_else(|| invalid("the header has no id"))?
        .into_owned();
    let text = |key: &str| match object.get(key) {
        None => Ok(None),
        Some(value) => match json::text(value) {
            Some(text) => Ok(Some(text.into_owned())),
            None => Err(HeaderFault::Invalid(format!(
                "the header's {key} is no text"
            ))),
        },
    };
    let cwd = text("cwd")?;
    let absolute = |path: &[u8]| matches!(path, [b'/' | b'\\', ..] | [_, b':', ..]);
    if cwd.as_deref().is_some_and(|cwd| !absolute(cwd)) {
        return Err(invalid("the header's cwd is no absolute path"));
    }
    let parent = text("parentSession")?;
    let preset = text("agentPreset")?;
    if text("origin")?.is_some_and(|o| o != b"subagent") {
        return Err(invalid("the header's origin is not known"));
    }
    let seed_length = match object.get("seedLength") {
        Some(_) if version <= 1 => object
            .count("seedLength")
            .ok_or_else(|| invalid("the header's seedLength is no whole number"))?,
        _ => 0,
    };
    let seeded = match (version, object.get("isSeeded")) {
        (0 | 1, _) | (_, Some(b"false")) => false,
        (_, Some(b"true")) => true,
        _ => return Err(invalid("the header's isSeeded is missing or not a boolean")),
    };
    Ok(Header {
        version,
        id,
        cwd,
        parent,
        preset,
        seed_length,
        seeded,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = r#"{"type":"session","version":0,"id":"s-1","createdAt":17e2,"cwd":"/w","delegationDepth":0}"#;

    #[test]
    fn a_version_is_looked_at_before_anything_else() {
        assert!(read(SOUND.as_bytes(), Some(0)).is_ok());
        let newer = r#"{"type":"session","version":9,"shape":"another"}"#;
        assert_eq!(
            read(newer.as_bytes(), Some(0)),
            Err(HeaderFault::Version {
                number: Some(9),
                newer: true
            })
        );
    }

    #[test]
    fn headers_that_no_version_has() {
        for (from, to) in [
            (r#""id":"s-1","#, ""),
            (r#""delegationDepth":0"#, r#""delegationDepth":-0"#),
            (r#""cwd":"/w""#, r#""cwd":"w""#),
            (r#""version":0"#, r#""version":3"#),
            (r#""version":0"#, r#""version":"0""#),
            (r#""cwd":"/w""#, r#""sandboxMode":"off""#),
            (r#""cwd":"/w""#, r#""origin":"moon""#),
        ] {
            let line = SOUND.replace(from, to);
            assert_ne!(line, SOUND);
            let read = read(line.as_bytes(), Some(0));
            assert!(matches!(read, Err(HeaderFault::Invalid(_))), "{line}");
        }
    }
}
