//! Whose file it is: by where it lies below a harness's folder, else by what it holds.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use crate::env::Env;
use crate::ingest::parse::{self, Beginning, Container, SourceName};
use crate::model::path::normalise;
use crate::model::provider::Provider;
use crate::model::record::{Disposition, Piece};
use crate::sources::config::Config;
use crate::sources::database::member_path;
use crate::sources::roots::{ProviderRoot, real, roots};
use crate::sources::usage::{FileUse, usage};

/// How it is known whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KnownBy {
    /// It lies below one of the harness's folders.
    Root,
    /// It lies in folders that are laid out and named like the harness's, and holds its records.
    Layout,
    /// It holds the harness's records.
    Content,
    /// It was captured as one.
    Archive,
}

/// Whose file it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whose {
    /// The harness.
    pub provider: Provider,
    /// How it is known.
    pub by: KnownBy,
    /// Whether it holds sessions.
    pub usage: FileUse,
    /// The path by which an index knows it.
    pub source: PathBuf,
}

/// The folders in which the harnesses keep their files here.
#[derive(Debug)]
pub struct Surroundings {
    pub(super) config: Config,
    pub(super) roots: Vec<(ProviderRoot, PathBuf)>,
    pub(super) data_dir: PathBuf,
}

impl Surroundings {
    /// The folders in force. Settings that can't be read change none but the extra ones.
    #[must_use]
    pub fn of(env: &Env) -> Surroundings {
        let config = Config::load(env.config_dir(), env.home()).unwrap_or_default();
        let mut roots: Vec<_> = roots(env, &config)
            .into_iter()
            .map(|root| {
                let real = real(&root.path);
                (root, real)
            })
            .collect();
        // Where roots lie in one another, the innermost one is the file's.
        roots.sort_by_key(|(root, _)| std::cmp::Reverse(root.path.as_os_str().len()));
        Surroundings {
            config,
            roots,
            data_dir: real(env.data_dir()),
        }
    }

    /// Whose file it is by where it lies below the folders in force.
    #[must_use]
    pub fn by_root(&self, path: &Path) -> Option<Whose> {
        let path = absolute(path);
        let full = real(&path);
        self.roots
            .iter()
            .filter_map(|(root, at)| {
                let rel = path
                    .strip_prefix(&root.path)
                    .or_else(|_| full.strip_prefix(at))
                    .ok()?;
                Some(Whose {
                    provider: root.provider,
                    by: KnownBy::Root,
                    usage: usage(root.provider, rel)?,
                    source: root.path.join(rel),
                })
            })
            .min_by_key(|w| w.usage)
    }

    /// Whose file it is; `head` is its beginning. Where its place says nothing, the harness that
    /// reads most of the beginning is taken; of several the one whose layout it has.
    #[must_use]
    pub fn whose(&self, path: &Path, head: &[u8]) -> Option<Whose> {
        if let Some(whose) = self.by_root(path) {
            return Some(whose);
        }
        let source = absolute(path);
        let laid_out = by_layout(&source);
        let head = plain(&source, head);
        let mut best: Option<(Score, Provider)> = None;
        for provider in Provider::ALL {
            let is_laid_out = laid_out.contains(&provider);
            let score = score(provider, &source, &head, is_laid_out);
            if score.known > 0
                && (is_laid_out || score.messages > 0)
                && best.as_ref().is_none_or(|(b, _)| score > *b)
            {
                best = Some((score, provider));
            }
        }
        let (provider, by) = match (best, laid_out.as_slice()) {
            (Some((score, provider)), _) if score.is_laid_out => (provider, KnownBy::Layout),
            (Some((_, provider)), _) => (provider, KnownBy::Content),
            // The schema of a database may be in its WAL as yet.
            (None, [provider]) if !is_sqlite(&head) || member_path(&source, "-wal").exists() => {
                (*provider, KnownBy::Layout)
            }
            (None, _) => return None,
        };
        Some(Whose {
            provider,
            by,
            usage: FileUse::Session,
            source,
        })
    }
}

/// The absolute path, without dots.
pub(super) fn absolute(path: &Path) -> PathBuf {
    normalise(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
}

/// The harnesses in whose layout the file would be one with sessions, whatever folder their root is.
/// Of a log that lies directly in a root the name says nothing.
fn by_layout(path: &Path) -> Vec<Provider> {
    let is_json = path
        .extension()
        .is_some_and(|e| e == "jsonl" || e == "json");
    let fits = |provider: &Provider| {
        path.ancestors().skip(1 + usize::from(is_json)).any(|root| {
            path.strip_prefix(root)
                .is_ok_and(|rel| usage(*provider, rel) == Some(FileUse::Session))
        })
    };
    Provider::ALL.into_iter().filter(fits).collect()
}

/// The plain beginning of a file.
fn plain(path: &Path, head: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    if parse::is_packed(path, head)
        && let Ok(content) = parse::decoded(path, Box::new(Cursor::new(head)))
    {
        // What decodes of a beginning that is cut off is enough.
        let _ = content.take(parse::MAX_HEAD as u64).read_to_end(&mut out);
        return out;
    }
    head.to_vec()
}

/// How much of the beginning of a file a harness's parser knows; the more the better.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// Records of types that it knows, less the others.
    known: u64,
    /// Whether a folder above it has the harness's name: formats were taken over from one another.
    is_named: bool,
    /// Whether the file lies and is named as the harness's do.
    is_laid_out: bool,
    /// Messages in the records.
    messages: u64,
}

fn is_named(provider: Provider, path: &Path) -> bool {
    path.components().any(|part| {
        let name = part.as_os_str().as_encoded_bytes();
        name.strip_prefix(b".").unwrap_or(name) == provider.as_str().as_bytes()
    })
}

fn is_sqlite(head: &[u8]) -> bool {
    head.starts_with(b"SQLite format 3\0")
}

fn score(provider: Provider, path: &Path, head: &[u8], is_laid_out: bool) -> Score {
    let name = SourceName { provider, path };
    let siblings = BTreeMap::new();
    let beginning = Beginning {
        name,
        head,
        siblings: &siblings,
    };
    let method = parse::method(&beginning, None);
    let (mut known, mut unknown, mut messages) = (0u64, 0u64, 0u64);
    let mut each = |piece: Piece| {
        if let Piece::Record(r) = piece {
            match r.disposition {
                Disposition::Unknown => unknown += 1,
                Disposition::Messages(m) => {
                    known += 1;
                    messages += m.len() as u64;
                }
                _ => known += 1,
            }
        }
        Ok(())
    };
    let mut content = Cursor::new(head);
    match (method.container(), is_sqlite(head)) {
        (Container::Log, false) => {
            drop(parse::log(name, method, Box::new(content), None, &mut each));
        }
        (Container::Document, false) if matches!(head.trim_ascii_start(), [b'{' | b'[', ..]) => {
            drop(parse::document(name, method, &mut content, &mut each));
        }
        // The schema is at the begin of the file.
        (Container::Database, true) => {
            let has = |table: &&&str| {
                ["", "\"", "`", "["].iter().any(|quote| {
                    let made = format!("CREATE TABLE {quote}{table}");
                    memchr::memmem::find(head, made.as_bytes()).is_some()
                })
            };
            known = method.tables().iter().filter(has).count() as u64;
            messages = known;
            // A few names alone are many programs'.
            unknown = u64::from(known < 3 && !is_laid_out) * known;
        }
        // Any text would be a transcript.
        _ => {}
    }
    Score {
        known: known.saturating_sub(unknown),
        is_laid_out,
        messages,
        is_named: is_named(provider, path),
    }
}
