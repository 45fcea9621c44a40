//! Where each harness keeps its files: one file a harness, behind one trait.

mod aider;
mod amp;
mod claude;
mod cline;
mod codex;
mod copilot;
mod crush;
mod cursor;
mod droid;
mod dsh;
mod editor;
mod gemini;
mod goose;
mod iflow;
mod kimi;
mod openclaw;
mod opencode;
mod pi;
mod qwen;
mod roo;
mod unknown;

use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::model::provider::Provider;
use crate::sources::retention::Retention;
use crate::sources::usage::FileUse;

/// A folder in which a harness keeps its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The folder.
    pub path: PathBuf,
    /// Whether a variable or setting named it: a missing one is then worth a word.
    pub named: bool,
}

impl Home {
    /// A folder that the variable names.
    #[must_use]
    pub fn named(path: impl Into<PathBuf>) -> Home {
        Home {
            path: path.into(),
            named: true,
        }
    }

    /// A folder that the harness uses by default.
    #[must_use]
    pub fn usual(path: impl Into<PathBuf>) -> Home {
        Home {
            path: path.into(),
            named: false,
        }
    }
}

/// One part of a root that is walked to its bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// Relative to the root.
    pub rel: &'static str,
    /// Project folders directly below may be links.
    pub linked_projects: bool,
    /// How many levels are walked.
    pub depth: usize,
}

/// A part of a root; with `linked_projects` its folders may be links.
pub const fn area(rel: &'static str, linked_projects: bool) -> Area {
    Area {
        rel,
        linked_projects,
        depth: usize::MAX,
    }
}

/// A part of a root of which only the uppermost levels are the harness's: 1 is the files directly
/// in it.
pub const fn shallow(rel: &'static str, depth: usize) -> Area {
    Area {
        rel,
        linked_projects: false,
        depth,
    }
}

/// Where a harness keeps its files and what they are to it. Names alone decide.
pub trait Harness: Sync {
    /// Its folders: what its own variables name, else its defaults. Those that are not there are
    /// named all the same.
    fn homes(&self, env: &Env) -> Vec<Home>;

    /// The parts of a root that are walked, beside the files directly in it.
    fn areas(&self) -> &'static [Area];

    /// What the file at `rel`, relative to a root, is; `None` for one that is not taken. Only the
    /// root's own layout counts: a project may bear any name, and so may the folders that lead to
    /// the root.
    fn usage(&self, rel: &Path) -> Option<FileUse>;

    /// How long it keeps sessions, by the settings in its root.
    fn retention(&self, _root: &Path) -> Retention {
        Retention {
            days: None,
            configured: false,
        }
    }

    /// The setting that has the harness keep sessions longer, where it judges their age by what
    /// they say and not by the time of the file: an old one that is put back goes at once.
    fn prunes_by_content(&self) -> Option<&'static str> {
        None
    }

    /// Whether the file at `rel`, relative to a root, belongs to the session with the id `native`
    /// beside the file at `own` that holds it: a subagent's log, a tool's result, metadata.
    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        beside(rel, own) || named_after(rel, native)
    }

    /// Whether the file at `rel`, which holds records of the same session as the one at `own`, is
    /// needed with it. Most are what it was before it was moved, packed or written anew.
    fn goes_with(&self, _rel: &Path, _own: &Path) -> bool {
        false
    }

    /// Whether the harness finds the session of the file at `own` by the one at `rel`, which serves
    /// other sessions too. Such a file comes back only where there is none.
    fn serves_many(&self, _rel: &Path, _own: &Path) -> bool {
        false
    }

    /// Why the harness would refuse its other sessions below `root` if the file `own` came there.
    fn spoils(&self, _root: &Path, _own: &Path) -> Option<&'static str> {
        None
    }

    /// Of several files that hold one session the harness opens that of the highest rank.
    fn rank(&self, _rel: &Path) -> u64 {
        0
    }

    /// Whether one session is spread over many files that are all needed.
    fn is_scattered(&self) -> bool {
        false
    }

    /// The command with which a person goes on with a session whose files are in place below
    /// `root`; `None` where that is not known.
    fn resume(&self, _native: &str, _root: &Path) -> Option<Vec<String>> {
        None
    }
}

/// Whether a part of `rel` is named after the session `native`: has its id as the whole name, the
/// beginning or the end. Of a subagent's id only its own part counts.
#[must_use]
pub fn named_after(rel: &Path, native: &str) -> bool {
    /// A shorter id is a part of other names by chance.
    const LEAST: usize = 6;
    let own = native.rsplit('/').next().unwrap_or(native).as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(|b| b".-_".contains(b));
    parts(rel).into_iter().any(|part| {
        if part == own {
            return true;
        }
        if own.len() < LEAST {
            return false;
        }
        let begins = part
            .strip_prefix(own)
            .is_some_and(|rest| edge(rest.first()));
        let stem = part
            .iter()
            .rposition(|b| *b == b'.')
            .map_or(part, |dot| part.get(..dot).unwrap_or(part));
        let ends = stem.strip_suffix(own).is_some_and(|head| edge(head.last()));
        begins || ends
    })
}

/// Whether `rel` lies beside the file `own` and is named as that is without its ending, or lies in
/// a folder there of that name.
#[must_use]
pub fn beside(rel: &Path, own: &Path) -> bool {
    let (Some(folder), Some(name)) = (own.parent(), own.file_name()) else {
        return false;
    };
    let name = name.as_encoded_bytes();
    let stem = [&b".jsonl"[..], b".json", b".txt"]
        .iter()
        .find_map(|end| {
            let at = name.windows(end.len()).position(|w| w == *end)?;
            name.get(..at)
        })
        .unwrap_or(name);
    let next = rel.strip_prefix(folder).ok().and_then(|r| r.iter().next());
    !stem.is_empty()
        && next.is_some_and(|next| {
            let rest = next.as_encoded_bytes().strip_prefix(stem);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
        })
}

/// As [`beside`], or named after the session; but not after an agent of a session, for those bear
/// the same names in every session.
fn beside_or_named(rel: &Path, native: &str, own: &Path) -> bool {
    beside(rel, own) || !native.contains('/') && named_after(rel, native)
}

/// The command that is `words` and the session's id; `None` for an agent of a session, which is
/// not gone on with by itself.
fn with_id(words: &[&str], native: &str) -> Option<Vec<String>> {
    let words = words.iter().copied().chain([native]);
    (!native.contains('/')).then(|| words.map(str::to_owned).collect())
}

/// What is known of a harness.
#[must_use]
pub fn harness(provider: Provider) -> &'static dyn Harness {
    match provider {
        Provider::Aider => &aider::Aider,
        Provider::Amp => &amp::Amp,
        Provider::Claude => &claude::Claude,
        Provider::Cline => &cline::Cline,
        Provider::Codex => &codex::Codex,
        Provider::Copilot => &copilot::Copilot,
        Provider::Droid => &droid::Droid,
        Provider::Gemini => &gemini::Gemini,
        Provider::Iflow => &iflow::Iflow,
        Provider::Kimi => &kimi::Kimi,
        Provider::OpenCode => &opencode::OpenCode,
        Provider::Qwen => &qwen::Qwen,
        Provider::Dsh => &dsh::Dsh,
        Provider::OpenClaw => &openclaw::OpenClaw,
        Provider::Pi => &pi::Pi,
        Provider::Crush => &crush::Crush,
        Provider::Cursor => &cursor::Cursor,
        Provider::Goose => &goose::Goose,
        Provider::Roo => &roo::Roo,
        Provider::Unknown => &unknown::Unknown,
    }
}

/// The folder that `variable` names, or `default` below the home folder; none without a home.
#[must_use]
pub fn variable_or_home(env: &Env, variable: &str, default: &str) -> Vec<Home> {
    match env.var(variable) {
        Some(dir) => vec![Home::named(dir)],
        None => below_home(env, default),
    }
}

/// A folder below the home folder; none without a home.
#[must_use]
pub fn below_home(env: &Env, rel: &str) -> Vec<Home> {
    if env.home().as_os_str().is_empty() {
        return Vec::new();
    }
    vec![Home::usual(env.home().join(rel))]
}

/// The folder for data of the XDG rules: `$XDG_DATA_HOME`, else `~/.local/share`; `None` without a
/// home.
#[must_use]
pub fn xdg_data(env: &Env) -> Option<PathBuf> {
    match env.var("XDG_DATA_HOME") {
        Some(dir) if Path::new(&dir).is_absolute() => Some(PathBuf::from(dir)),
        _ if env.home().as_os_str().is_empty() => None,
        _ => Some(env.home().join(".local/share")),
    }
}

/// The parts of a relative path, as bytes.
#[must_use]
pub fn parts(rel: &Path) -> Vec<&[u8]> {
    rel.iter().map(std::ffi::OsStr::as_encoded_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_a_file_bears_its_name() {
        let own = Path::new("s/p/a-1.jsonl");
        for (rel, want) in [
            ("s/p/a-1.settings.json", true),
            ("s/p/a-1.jsonl.backup", true),
            ("s/p/a-1/tools/1.log", true),
            ("s/p/a-1", true),
            ("s/p/a-10.settings.json", false),
            ("s/p/a-1-2/x", false),
            ("s/q/a-1.settings.json", false),
            ("s/p", false),
        ] {
            assert_eq!(beside(Path::new(rel), own), want, "{rel}");
        }
        assert!(!beside(Path::new("s/x"), Path::new("s/.jsonl")));
    }

    #[test]
    fn agents_bear_the_same_names_in_every_session() {
        let other = Path::new("p/other/Review-1/notes.md");
        let own = Path::new("p/mine/Review-1.jsonl");
        assert!(named_after(other, "mine/Review-1"));
        assert!(!beside_or_named(other, "mine/Review-1", own));
        assert_eq!(with_id(&["h"], "mine/Review-1"), None);
        let argv = Some(vec!["h".to_owned(), "mine".to_owned()]);
        assert_eq!(with_id(&["h"], "mine"), argv);
    }
}
