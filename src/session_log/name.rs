//! Names of folders and logs, and what they say.

use std::fmt::Write as _;

/// What the name of a log says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogName {
    /// The version of the format: 0 where the name has none.
    pub generation: u64,
    /// Whether it is packed in zstd frames.
    pub packed: bool,
}

/// How a log has to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// Whether it is packed in zstd frames.
    pub packed: bool,
    /// The version that its name promises, if its name says one.
    pub generation: Option<u64>,
}

impl Form {
    /// A raw log whose name says nothing.
    pub const NAMELESS: Form = Form {
        packed: false,
        generation: None,
    };
}

impl From<LogName> for Form {
    fn from(name: LogName) -> Form {
        Form {
            packed: name.packed,
            generation: Some(name.generation),
        }
    }
}

impl std::fmt::Display for LogName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.generation {
            0 => f.write_str("session.jsonl")?,
            n => write!(f, "session.v{n}.jsonl")?,
        }
        f.write_str(if self.packed { ".zstd" } else { "" })
    }
}

impl LogName {
    /// Reads a file name. `None` for every other file: locks, first writes that were never
    /// published, names in other cases.
    #[must_use]
    pub fn of(name: &str) -> Option<LogName> {
        let (name, packed) = match name.strip_suffix(".zstd") {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        let middle = name.strip_prefix("session")?.strip_suffix(".jsonl")?;
        let generation = if middle.is_empty() {
            0
        } else {
            let digits = middle.strip_prefix(".v")?;
            let is_number = digits.bytes().all(|b| b.is_ascii_digit());
            if digits.is_empty() || digits.starts_with('0') || !is_number {
                return None;
            }
            // One that no number holds is the newest all the same.
            digits.parse().unwrap_or(u64::MAX)
        };
        Some(LogName { generation, packed })
    }
}

/// Whether a folder's name is one of a project.
#[must_use]
pub fn is_project_folder(name: &str) -> bool {
    name == "_no-cwd" || (name.len() >= 4 && name.starts_with("--") && name.ends_with("--"))
}

/// UTF-16 units of text in which a lone surrogate has three bytes of its own.
fn units(text: &[u8]) -> Vec<u16> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|r| !r.is_empty()) {
        let valid = match std::str::from_utf8(rest) {
            Ok(all) => all,
            Err(e) => std::str::from_utf8(rest.get(..e.valid_up_to()).unwrap_or_default())
                .unwrap_or_default(),
        };
        out.extend(valid.encode_utf16());
        at += valid.len();
        match text.get(at..at + 3) {
            Some([0xED, b @ 0xA0..=0xBF, c]) => {
                out.push(0xD000 | u16::from(b & 0x3F) << 6 | u16::from(c & 0x3F));
                at += 3;
            }
            _ if at < text.len() => {
                out.push(0xFFFD);
                at += 1;
            }
            _ => break,
        }
    }
    out
}

fn plain(unit: u16) -> Option<char> {
    let c = char::from_u32(u32::from(unit))?;
    (c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')).then_some(c)
}

/// The folder of a project, from the working directory that a header names.
#[must_use]
pub fn project_folder(cwd: Option<&[u8]>) -> String {
    let Some(cwd) = cwd else {
        return "_no-cwd".to_owned();
    };
    let mut out = String::new();
    let mut separator = false;
    for unit in units(cwd) {
        if matches!(unit, 0x2F | 0x5C | 0x3A) {
            if !separator {
                out.push('-');
            }
            separator = true;
            continue;
        }
        separator = false;
        push(&mut out, unit);
    }
    let name = out.trim_start_matches('-');
    let name = if name.is_empty() { "root" } else { name };
    // All of it is ASCII.
    let name = name.get(..251).unwrap_or(name);
    format!("--{name}--")
}

/// The folder of a session, from its id.
#[must_use]
pub fn session_folder(id: &[u8]) -> String {
    match id {
        b"." => return "~002E".to_owned(),
        b".." => return "~002E~002E".to_owned(),
        _ => {}
    }
    let mut out = String::new();
    for unit in units(id) {
        push(&mut out, unit);
    }
    out
}

fn push(out: &mut String, unit: u16) {
    match plain(unit) {
        Some(c) => out.push(c),
        None => {
            let _ = write!(out, "~{unit:04X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_follow_from_what_a_header_says() {
        let project = |cwd: &str| project_folder(Some(cwd.as_bytes()));
        assert_eq!(project("/w/garden-shed"), "--w-garden-shed--");
        assert_eq!(project("/"), "--root--");
        assert_eq!(project("C:\\\\x:/y"), "--C-x-y--");
        assert_eq!(project("/w/Größe ~x"), "--w-Gr~00F6~00DFe~0020~007Ex--");
        assert_eq!(project("/\u{1F600}"), "--~D83D~DE00--");
        assert_eq!(project(&"/a".repeat(300)).len(), 255);
        assert_eq!(project_folder(None), "_no-cwd");
        assert_eq!(session_folder(b"a/b"), "a~002Fb");
        assert_eq!(session_folder(b".."), "~002E~002E");
        assert_eq!(session_folder(b"\xed\xa0\xbd"), "~D83D");
    }

    #[test]
    fn logs_by_their_names() {
        let name = |n: &str| LogName::of(n).map(|l| (l.generation, l.packed));
        assert_eq!(name("session.jsonl"), Some((0, false)));
        assert_eq!(name("session.v12.jsonl.zstd"), Some((12, true)));
        assert_eq!(
            name("session.v99999999999999999999.jsonl"),
            Some((u64::MAX, false))
        );
        for odd in [
            "session.v.jsonl",
            "session.v0.jsonl",
            "session.v03.jsonl",
            "SESSION.V1.JSONL",
            "session.lock",
            "session.jsonl.0a1b2c3d4e5f.tmp",
            "session.migration.0a1b2c3d4e5f0a1b.jsonl.zstd.tmp",
        ] {
            assert_eq!(name(odd), None, "{odd}");
        }
    }
}
