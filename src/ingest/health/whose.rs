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
        let mut best: Option<(u64, bool, Provider)> = None;
        for provider in Provider::ALL {
            let is_laid_out = laid_out.contains(&provider);
            let read = readable(provider, &source, &head);
            let score = (read, is_laid_out, provider);
            let better = |b: &(u64, bool, Provider)| (score.0, score.1) > (b.0, b.1);
            if read > 0 && best.as_ref().is_none_or(better) {
                best = Some(score);
            }
        }
        let (provider, by) = match (best, laid_out.as_slice()) {
            (Some((_, true, provider)), _) => (provider, KnownBy::Layout),
            (Some((_, false, provider)), _) => (provider, KnownBy::Content),
            (None, [provider]) => (*provider, KnownBy::Layout),
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
fn by_layout(path: &Path) -> Vec<Provider> {
    let fits = |provider: &Provider| {
        path.ancestors().skip(1).any(|root| {
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

/// How many records of the beginning the harness's parser knows, if that is most of them.
fn readable(provider: Provider, path: &Path, head: &[u8]) -> u64 {
    let name = SourceName { provider, path };
    let siblings = BTreeMap::new();
    let beginning = Beginning {
        name,
        head,
        siblings: &siblings,
    };
    let method = parse::method(&beginning, None);
    let (mut known, mut unknown) = (0u64, 0u64);
    let mut each = |piece: Piece| {
        if let Piece::Record(r) = piece {
            match r.disposition {
                Disposition::Unknown => unknown += 1,
                _ => known += 1,
            }
        }
        Ok(())
    };
    let mut content = Cursor::new(head);
    match method.container() {
        Container::Log => drop(parse::log(name, method, Box::new(content), None, &mut each)),
        Container::Document if matches!(head.trim_ascii_start(), [b'{' | b'[', ..]) => {
            drop(parse::document(name, method, &mut content, &mut each));
        }
        // The schema is at the begin of the file, unless all of it is in the WAL yet.
        Container::Database => {
            let has = |table: &&&str| memchr::memmem::find(head, table.as_bytes()).is_some();
            known = method.tables().iter().filter(has).count() as u64;
            if known < 2 {
                known = 0;
            }
        }
        // Any text would be a transcript.
        Container::Document | Container::Text => {}
    }
    if known > unknown { known - unknown } else { 0 }
}
