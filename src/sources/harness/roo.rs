//! Roo Code: the extension's folder in each editor, or the one that the editor's settings name.
//! The first Kilo Code was made from it and keeps the same files.

use std::path::{Path, PathBuf};

use super::{Area, Harness, Home, cline, editor, parts};
use crate::env::Env;
use crate::sources::file::read_small;
use crate::sources::usage::FileUse;

pub(super) struct Roo;

const EXTENSION: &str = "rooveterinaryinc.roo-cline";
const KILO: &str = "kilocode.kilo-code";
const SETTING: &str = "\"roo-cline.customStoragePath\"";

impl Harness for Roo {
    fn homes(&self, env: &Env) -> Vec<Home> {
        let mut homes = cline::in_editors(env, EXTENSION);
        homes.extend(cline::in_editors(env, KILO));
        for user in editor::user_folders(env) {
            let named = read_small(&user.join("settings.json"), 4 << 20)
                .ok()
                .and_then(|settings| custom_path(&settings, env));
            if let Some(path) = named
                && homes.iter().all(|h| h.path != path)
            {
                homes.push(Home::named(path));
            }
        }
        homes
    }

    fn areas(&self) -> &'static [Area] {
        cline::TASKS
    }

    fn belongs(&self, rel: &Path, native: &str, own: &Path) -> bool {
        cline::of_task(rel, native, own)
    }

    fn goes_with(&self, rel: &Path, own: &Path) -> bool {
        rel.parent() == own.parent()
    }

    fn serves_many(&self, rel: &Path, _own: &Path) -> bool {
        cline::is_list(rel)
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        cline::task_file(&parts(rel))
    }
}

/// The folder that the settings name. They may hold comments, so they are not read as a whole.
fn custom_path(settings: &str, env: &Env) -> Option<PathBuf> {
    let at = settings.find(SETTING)?;
    let value = settings
        .get(at + SETTING.len()..)?
        .trim_start()
        .strip_prefix(':')?;
    let path = serde_json::Deserializer::from_str(value)
        .into_iter::<String>()
        .next()?
        .ok()?;
    let path = match path.strip_prefix("~/") {
        Some(rest) => env.home().join(rest),
        None => PathBuf::from(path),
    };
    path.is_absolute().then_some(path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::env::Clock;

    #[test]
    fn settings_with_comments_name_a_folder() {
        let vars = BTreeMap::from([("HOME".into(), "/h".into())]);
        let env = Env::new(Clock::Fixed(0), vars, None).unwrap();
        for (text, want) in [
            (
                "{ // mine\n\"roo-cline.customStoragePath\" : \"/data/r\\u006fo\", }",
                Some("/data/roo"),
            ),
            ("{\"roo-cline.customStoragePath\":\"~/roo\"", Some("/h/roo")),
            ("{\"roo-cline.customStoragePath\":\"\"}", None),
            ("{\"roo-cline.customStoragePath\":7}", None),
            ("{\"roo-cline.customStoragePath\"", None),
            ("{}", None),
        ] {
            assert_eq!(custom_path(text, &env), want.map(PathBuf::from), "{text}");
        }
    }
}
