//! pi: `$PI_CODING_AGENT_DIR`, else `~/.pi/agent`; its forks in folders of their own.

use std::path::Path;

use super::{
    Area, Harness, Home, area, below_home, beside_or_named, parts, variable_or_home, with_id,
};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Pi;

/// Folders of forks, which write the same files.
const FORKS: [&str; 2] = [".omp/agent", ".prime/agent"];

impl Harness for Pi {
    fn homes(&self, env: &Env) -> Vec<Home> {
        let mut homes = variable_or_home(env, "PI_CODING_AGENT_DIR", ".pi/agent");
        if let Some(sessions) = env.var("PI_CODING_AGENT_SESSION_DIR") {
            homes.push(Home::named(sessions));
        }
        for fork in FORKS {
            homes.extend(below_home(env, fork));
        }
        homes
    }

    fn areas(&self) -> &'static [Area] {
        const AREAS: &[Area] = &[area("sessions", true)];
        AREAS
    }

    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        beside_or_named(rel, native, own)
    }

    fn resume(&self, native: &str, root: &Path) -> Option<Vec<String>> {
        // A fork is a program of another name.
        let of_fork = FORKS.iter().any(|fork| root.ends_with(fork));
        with_id(&["pi", "--session"], native).filter(|_| !of_fork)
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            // A folder for sessions alone holds them side by side: `<stamp>_<id>.jsonl`.
            [name] => {
                let stamped = name.first().is_some_and(u8::is_ascii_digit) && name.contains(&b'_');
                (stamped && name.ends_with(b".jsonl")).then_some(FileUse::Session)
            }
            [b"sessions", .., name] => {
                if name.ends_with(b".jsonl") {
                    Some(FileUse::Session)
                } else {
                    // What subagents and tools of a fork left beside the session.
                    let kept: [&[u8]; 4] = [b".json", b".md", b".txt", b".log"];
                    kept.iter()
                        .any(|end| name.ends_with(end))
                        .then_some(FileUse::Evidence)
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_by_their_place_below_the_root() {
        for (rel, want) in [
            (
                "sessions/--tmp-p--/2026-01-01T00-00-00-000Z_a.jsonl",
                Some(FileUse::Session),
            ),
            (
                "sessions/--tmp-p--/2026_a/Task.jsonl",
                Some(FileUse::Session),
            ),
            (
                "sessions/--tmp-p--/2026_a/1.bash.log",
                Some(FileUse::Evidence),
            ),
            ("2026-01-01T00-00-00-000Z_a.jsonl", Some(FileUse::Session)),
            ("history.jsonl", None),
            ("auth.json", None),
            ("sessions/--tmp-p--/x.tmp", None),
            ("extensions/x.jsonl", None),
        ] {
            assert_eq!(Pi.usage(Path::new(rel)), want, "{rel}");
        }
    }
}
