//! `config.toml`: excludes and extra roots.

use std::path::{Path, PathBuf};

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::Deserialize;

use crate::error::{Error, ErrorKind, Result};
use crate::model::provider::Provider;
use crate::sources::file::read_small;

/// File name inside the config folder.
pub const FILE: &str = "config.toml";
/// A longer settings file is refused.
const LIMIT: u64 = 1 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    roots: Vec<RawRoot>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRoot {
    provider: Provider,
    path: PathBuf,
}

/// The settings in force.
#[derive(Debug, Default)]
pub struct Config {
    exclude: GlobSet,
    patterns: Vec<String>,
    roots: Vec<(Provider, PathBuf)>,
}

impl Config {
    /// Reads `config.toml` in `dir`. A missing file, or no config folder, means no settings.
    ///
    /// `~/` at the start of a path or pattern stands for `home`.
    ///
    /// # Errors
    /// `config-invalid` when the file can't be read, is no TOML, holds an unknown key or a
    /// malformed pattern. Nothing is captured then: a rule that is not understood may be the one
    /// that keeps a private folder out.
    pub fn load(dir: &Path, home: &Path) -> Result<Config> {
        if dir.as_os_str().is_empty() {
            return Ok(Config::default());
        }
        let path = dir.join(FILE);
        let invalid = |what: String| {
            Error::new(
                ErrorKind::ConfigInvalid,
                format!("{} can't be used: {what}", path.display()),
            )
            .with_hint("Mend the file; known keys are exclude = [patterns] and [[roots]] with provider and path.")
            .with_context("path", path.display().to_string())
        };
        let text = match read_small(&path, LIMIT) {
            Ok(text) => text,
            Err(e)
                if matches!(
                    e.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
                ) =>
            {
                return Ok(Config::default());
            }
            Err(e) => return Err(invalid(e.to_string())),
        };
        let raw: Raw = toml::from_str(&text).map_err(|e| invalid(e.message().to_owned()))?;
        let mut set = GlobSetBuilder::new();
        let mut patterns = Vec::new();
        for pattern in raw.exclude {
            let full = match pattern.strip_prefix("~/") {
                // The home's own name is no pattern.
                Some(rest) => {
                    let home = home.to_string_lossy();
                    format!("{}/{rest}", globset::escape(home.trim_end_matches('/')))
                }
                // Anything else would never match an absolute path: a rule that keeps nothing out.
                None if !pattern.starts_with('/') && !pattern.starts_with("**/") => {
                    return Err(invalid(format!(
                        "the rule {pattern:?} begins with neither /, ~/ nor **/"
                    )));
                }
                None => pattern.clone(),
            };
            // A folder excludes everything below it, with or without a slash at its end.
            let full = full.trim_end_matches('/');
            for form in [full.to_owned(), format!("{full}/**")] {
                set.add(Glob::new(&form).map_err(|e| invalid(e.to_string()))?);
            }
            patterns.push(pattern);
        }
        let exclude = set.build().map_err(|e| invalid(e.to_string()))?;
        let mut roots = Vec::new();
        for root in raw.roots {
            let path = match root.path.strip_prefix("~") {
                Ok(rest) => home.join(rest),
                Err(_) => root.path,
            };
            if !path.is_absolute() {
                return Err(invalid(format!(
                    "the root {} is not absolute",
                    path.display()
                )));
            }
            roots.push((root.provider, path));
        }
        Ok(Config {
            exclude,
            patterns,
            roots,
        })
    }

    /// Whether a rule keeps `path` out.
    #[must_use]
    pub fn excludes(&self, path: &Path) -> bool {
        !self.exclude.is_empty() && self.exclude.is_match(path)
    }

    /// The first rule, as written, that keeps `path` out.
    #[must_use]
    pub fn rule_for(&self, path: &Path) -> Option<&str> {
        // Two globs were made of each pattern.
        let first = self.exclude.matches(path).into_iter().min()?;
        self.patterns.get(first / 2).map(String::as_str)
    }

    /// The exclude patterns as written.
    #[must_use]
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// Roots beside the harnesses' own.
    #[must_use]
    pub fn roots(&self) -> &[(Provider, PathBuf)] {
        &self.roots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        #[allow(clippy::disallowed_methods)]
        std::fs::write(dir.path().join(FILE), text).unwrap();
        Config::load(dir.path(), Path::new("/home/u"))
    }

    #[test]
    fn excludes_match_folders_names_and_home() {
        let c = load("exclude = [\"~/secret\", \"**/private-*/**\", \"/x/*.jsonl\"]").unwrap();
        assert!(c.excludes(Path::new("/home/u/secret")));
        assert!(c.excludes(Path::new("/home/u/secret/a/b.jsonl")));
        assert!(c.excludes(Path::new("/p/private-1/a.jsonl")));
        let rule = c.rule_for(Path::new("/p/private-1/a.jsonl"));
        assert_eq!(rule, Some("**/private-*/**"));
        assert!(c.excludes(Path::new("/x/a.jsonl")));
        assert!(!c.excludes(Path::new("/home/u/secrets/a.jsonl")));
        assert!(!c.excludes(Path::new("/y/a.jsonl")));
    }

    #[test]
    fn a_rule_that_is_not_understood_is_an_error() {
        for text in [
            "excluded = [\"a\"]",
            "exclude = \"a\"",
            "exclude = [\"a[\"]",
            "exclude = [",
            "[[roots]]\nprovider = \"nobody\"\npath = \"/a\"",
            "[[roots]]\nprovider = \"claude\"\npath = \"relative\"",
        ] {
            let e = load(text).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::ConfigInvalid, "{text}");
        }
    }

    #[test]
    fn no_file_means_no_settings() {
        let c = Config::load(Path::new("/nowhere/at/all"), Path::new("/h")).unwrap();
        assert!(!c.excludes(Path::new("/a")) && c.roots().is_empty());
    }
}
