//! Gemini CLI: `~/.gemini`, below `$GEMINI_CLI_HOME` when that is set.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Area, Harness, Home, area, below_home, parts, with_id};
use crate::env::Env;
use crate::sources::file::read_small;
use crate::sources::retention::Retention;
use crate::sources::usage::FileUse;

pub(super) struct Gemini;

/// Days a session file is kept when no setting says otherwise.
const DEFAULT_DAYS: u64 = 30;

impl Harness for Gemini {
    fn homes(&self, env: &Env) -> Vec<Home> {
        match env.var("GEMINI_CLI_HOME") {
            Some(dir) => vec![Home::named(PathBuf::from(dir).join(".gemini"))],
            None => below_home(env, ".gemini"),
        }
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("tmp", true)];
        AREAS
    }

    fn resume(&self, native: &str, _root: &Path) -> Option<Vec<String>> {
        with_id(&["gemini", "--resume"], native)
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"projects.json"] => Some(FileUse::Evidence),
            // Some chats are named by the harness when it could not read them.
            [b"tmp", _, b"chats", .., name] => {
                let is_session = name.ends_with(b".json")
                    || name.ends_with(b".jsonl")
                    || name.windows(12).any(|w| w == b".unreadable-");
                is_session.then_some(FileUse::Session)
            }
            [b"tmp", _, b"logs.json" | b".project_root"] => Some(FileUse::Evidence),
            [
                b"tmp",
                _,
                b"checkpoints" | b"tool-outputs" | b"history",
                _,
                ..,
            ] => Some(FileUse::Evidence),
            _ => None,
        }
    }

    fn prunes_by_content(&self) -> Option<&'static str> {
        Some("general.sessionRetention in settings.json")
    }

    fn retention(&self, root: &Path) -> Retention {
        #[derive(Deserialize)]
        struct Settings {
            general: Option<General>,
        }
        #[derive(Deserialize)]
        struct General {
            #[serde(rename = "sessionRetention")]
            retention: Option<Session>,
        }
        #[derive(Deserialize)]
        struct Session {
            enabled: Option<bool>,
            #[serde(rename = "maxAge")]
            max_age: Option<String>,
        }
        let set = read_small(&root.join("settings.json"), 1 << 20)
            .ok()
            .and_then(|text| serde_json::from_str::<Settings>(&text).ok())
            .and_then(|s| s.general?.retention);
        let Some(set) = set else {
            return Retention {
                days: Some(DEFAULT_DAYS),
                configured: false,
            };
        };
        if set.enabled == Some(false) {
            return Retention {
                days: None,
                configured: true,
            };
        }
        let days = set.max_age.as_deref().and_then(days);
        Retention {
            days: Some(days.unwrap_or(DEFAULT_DAYS)),
            configured: days.is_some(),
        }
    }
}

/// Whole days of an age such as `30d`, `2w`, `48h` or `1m` (a month); at least 1.
fn days(age: &str) -> Option<u64> {
    let (number, unit) = age.split_at_checked(age.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok()?;
    let days = match unit {
        "h" => number / 24,
        "d" => number,
        "w" => number.checked_mul(7)?,
        "m" => number.checked_mul(30)?,
        _ => return None,
    };
    Some(days.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_read_as_the_harness_writes_them() {
        for (age, want) in [
            ("30d", Some(30)),
            ("2w", Some(14)),
            ("48h", Some(2)),
            ("1h", Some(1)),
            ("1m", Some(30)),
            ("d", None),
            ("", None),
            ("30", None),
            ("30é", None),
        ] {
            assert_eq!(days(age), want, "{age}");
        }
    }
}
