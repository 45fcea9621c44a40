//! The folders around a log: which log is the session's, and what the others say.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::header::Header;
use super::name::{LogName, is_project_folder, project_folder, session_folder};
use super::verdict::{Finding, Verdict};

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The log of a session.
    Log(LogName),
    /// A log under another name: alone, or of the layout that the harness gave up.
    Loose {
        /// Whether it is packed in zstd frames.
        packed: bool,
    },
    /// An SQLite store of many sessions.
    Store,
}

/// Another log of the same session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sibling {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// What it is.
    pub log: LogName,
}

/// One log to be examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies.
    pub path: PathBuf,
    /// What it is.
    pub kind: Kind,
    /// Names of the project's and the session's folder, where it lies in such.
    pub folders: Option<(String, String)>,
    /// Logs of the same session that are not examined: older generations.
    pub siblings: Vec<Sibling>,
    /// What its folders say against it.
    pub findings: Vec<Finding>,
}

/// What was found at a path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Looked {
    /// Logs, in the order of their paths.
    pub entries: Vec<Entry>,
    /// Session folders without a log: not written yet.
    pub empty_folders: u64,
}

/// One folder below a root.
struct SessionFolder {
    project: String,
    session: String,
    path: PathBuf,
    logs: Vec<Sibling>,
}

/// A sessions root, by names alone.
#[derive(Default)]
struct Root {
    sessions: Vec<SessionFolder>,
    flat: Vec<(PathBuf, bool)>,
    stores: Vec<PathBuf>,
    /// Packed and raw logs lie below it.
    mixed: bool,
    /// Names of session folders that several projects have, with their number.
    twins: BTreeMap<String, usize>,
}

/// Finds the logs at a path: a log, a session's or a project's folder, a sessions root, or the
/// harness's home. Only names and sizes are read.
///
/// # Errors
/// What the medium says; `NotFound` where nothing is.
pub fn look(path: &Path) -> io::Result<Looked> {
    // The folders above say something too.
    let path = &std::path::absolute(path)?;
    let meta = fs::metadata(path)?;
    if !meta.is_dir() {
        return Ok(Looked {
            entries: vec![of_file(path)?],
            empty_folders: 0,
        });
    }
    let name = file_name(path);
    let logs = logs_in(path)?;
    let parent_is_project = parent_of(path).is_some_and(|p| is_project_folder(&file_name(&p)));
    if !logs.is_empty() || (parent_is_project && !is_project_folder(&name)) {
        let root = root_around(path);
        let project = parent_of(path).map(|p| file_name(&p)).unwrap_or_default();
        let own = SessionFolder {
            project,
            session: name,
            path: path.to_owned(),
            logs,
        };
        let entry = root.entry(&own, parent_is_project);
        return Ok(Looked {
            empty_folders: u64::from(entry.is_none()),
            entries: entry.into_iter().collect(),
        });
    }
    if is_project_folder(&name) {
        let root = parent_of(path).map_or_else(Root::default, |p| read_root(&p));
        return Ok(root.looked(|s| s.project == name, Some(path)));
    }
    let home = path.join("sessions");
    let own = read_root(path);
    if own.sessions.is_empty() && own.flat.is_empty() && own.stores.is_empty() && home.is_dir() {
        return Ok(read_root(&home).looked(|_| true, None));
    }
    Ok(own.looked(|_| true, None))
}

/// What a header says against the folders in which its log lies.
#[must_use]
pub fn identity(entry: &Entry, header: &Header) -> Option<Finding> {
    let (project, session) = entry.folders.as_ref()?;
    let finding = |what: &str| {
        Some(Finding {
            verdict: Verdict::IdentityConflict,
            what: what.to_owned(),
        })
    };
    if session_folder(&header.id) != *session {
        return finding("the folder is another session's than the header names");
    }
    let own = project_folder(header.cwd.as_deref());
    if own != *project && !is_alias(entry, header, &own) {
        return finding("the folder is another project's than the header's working directory says");
    }
    None
}

/// Whether the log lies in the project's folder under another name: a link leads from one folder, or
/// one working directory, to the other.
fn is_alias(entry: &Entry, header: &Header, own: &str) -> bool {
    let Some(folder) = entry.path.ancestors().nth(2) else {
        return false;
    };
    let real = |path: &Path| fs::canonicalize(path).ok();
    let here = real(folder);
    if here.is_some() && here == real(&folder.with_file_name(own)) {
        return true;
    }
    let cwd = header
        .cwd
        .as_deref()
        .map(|cwd| Path::new(OsStr::from_bytes(cwd)));
    let name = here.as_deref().map(file_name);
    let meant = cwd.and_then(real);
    let meant = meant.map(|cwd| project_folder(Some(cwd.as_os_str().as_bytes())));
    meant.is_some() && (meant == name || meant.as_deref() == Some(&*file_name(folder)))
}

fn of_file(path: &Path) -> io::Result<Entry> {
    let name = file_name(path);
    let folder = parent_of(path).unwrap_or_default();
    let entry = |kind: Kind| Entry {
        path: path.to_owned(),
        kind,
        folders: None,
        siblings: Vec::new(),
        findings: Vec::new(),
    };
    if is_store(path)? {
        return Ok(entry(Kind::Store));
    }
    let packed = name.ends_with(".zstd");
    let project = parent_of(&folder)
        .map(|p| file_name(&p))
        .unwrap_or_default();
    match LogName::of(&name) {
        Some(log) if is_project_folder(&project) => {
            let root = root_around(&folder);
            let own = SessionFolder {
                project,
                session: file_name(&folder),
                logs: logs_in(&folder)?,
                path: folder,
            };
            Ok(root.entry_of(&own, &name, log, true))
        }
        Some(log) => Ok(entry(Kind::Log(log))),
        None if is_project_folder(&file_name(&folder)) && flat_name(&name).is_some() => {
            let mut flat = entry(Kind::Loose { packed });
            flat.findings.push(legacy());
            Ok(flat)
        }
        None => Ok(entry(Kind::Loose { packed })),
    }
}

fn is_store(path: &Path) -> io::Result<bool> {
    let mut head = [0; 16];
    let n = super::bytes::read_full(&fs::File::open(path)?, &mut head, 0)?;
    Ok(n == 16 && head == *b"SQLite format 3\0")
}

/// Whether a name is one of a log of the layout that was given up, and whether it is packed.
fn flat_name(name: &str) -> Option<bool> {
    let packed = name.ends_with(".jsonl.zstd");
    (packed || name.ends_with(".jsonl")).then_some(packed)
}

fn legacy() -> Finding {
    Finding {
        verdict: Verdict::LegacyLayout,
        what: "a log lies directly in a project's folder, a layout that the harness gave up; it \
               refuses the whole root"
            .to_owned(),
    }
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn parent_of(path: &Path) -> Option<PathBuf> {
    path.parent().map(Path::to_path_buf)
}

/// The root that a session's folder lies in, as far as it can be read.
fn root_around(session: &Path) -> Root {
    let project = parent_of(session).filter(|p| is_project_folder(&file_name(p)));
    project
        .and_then(|p| parent_of(&p))
        .map_or_else(Root::default, |root| read_root(&root))
}

fn children(folder: &Path) -> Vec<(String, PathBuf, fs::FileType)> {
    let Ok(list) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut out: Vec<_> = list
        .filter_map(Result::ok)
        .filter_map(|e| {
            let name = e.file_name().into_string().ok()?;
            Some((name, e.path(), e.file_type().ok()?))
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

fn logs_in(folder: &Path) -> io::Result<Vec<Sibling>> {
    fs::read_dir(folder)?;
    let mut out: Vec<Sibling> = children(folder)
        .into_iter()
        .filter(|(_, _, kind)| kind.is_file())
        .filter_map(|(name, path, _)| {
            let log = LogName::of(&name)?;
            let bytes = fs::symlink_metadata(path).map_or(0, |m| m.len());
            Some(Sibling { name, bytes, log })
        })
        .collect();
    out.sort_by_key(|s| std::cmp::Reverse(s.log));
    Ok(out)
}

fn read_root(root: &Path) -> Root {
    let mut out = Root::default();
    for (name, path, kind) in children(root) {
        if kind.is_file() && name.ends_with(".db") && is_store(&path).unwrap_or(false) {
            out.stores.push(path);
            continue;
        }
        // A project's folder may be a link; nothing below it may.
        if !is_project_folder(&name) || !path.is_dir() {
            continue;
        }
        for (child, path, kind) in children(&path) {
            if kind.is_dir() {
                out.sessions.push(SessionFolder {
                    project: name.clone(),
                    session: child,
                    logs: logs_in(&path).unwrap_or_default(),
                    path,
                });
            } else if let Some(packed) = flat_name(&child).filter(|_| kind.is_file()) {
                out.flat.push((path, packed));
            }
        }
    }
    let logs = || out.sessions.iter().flat_map(|s| &s.logs);
    out.mixed = logs().any(|l| l.log.packed) && logs().any(|l| !l.log.packed);
    let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for session in out.sessions.iter().filter(|s| !s.logs.is_empty()) {
        let projects = places.entry(&session.session).or_default();
        projects.insert(&session.project);
    }
    // Several names of one folder are one.
    let folders = |projects: BTreeSet<&str>| -> BTreeSet<PathBuf> {
        let real = |p: &str| fs::canonicalize(root.join(p)).ok();
        projects.into_iter().filter_map(real).collect()
    };
    let twins = places
        .into_iter()
        .filter(|(_, projects)| projects.len() > 1);
    out.twins = twins
        .map(|(session, projects)| (session.to_owned(), folders(projects).len()))
        .filter(|(_, n)| *n > 1)
        .collect();
    out
}

impl Root {
    fn looked(&self, want: impl Fn(&SessionFolder) -> bool, project: Option<&Path>) -> Looked {
        let mut out = Looked::default();
        for session in self.sessions.iter().filter(|s| want(s)) {
            match self.entry(session, true) {
                Some(entry) => out.entries.push(entry),
                None => out.empty_folders += 1,
            }
        }
        let below = |path: &Path| project.is_none_or(|p| path.starts_with(p));
        for (path, packed) in self.flat.iter().filter(|(path, _)| below(path)) {
            out.entries.push(Entry {
                path: path.clone(),
                kind: Kind::Loose { packed: *packed },
                folders: None,
                siblings: Vec::new(),
                findings: vec![legacy()],
            });
        }
        if project.is_none() {
            for path in &self.stores {
                out.entries.push(Entry {
                    path: path.clone(),
                    kind: Kind::Store,
                    folders: None,
                    siblings: Vec::new(),
                    findings: Vec::new(),
                });
            }
        }
        out.entries.sort_by(|a, b| a.path.cmp(&b.path));
        out
    }

    /// The newest log of a session.
    fn entry(&self, session: &SessionFolder, placed: bool) -> Option<Entry> {
        let newest = session.logs.first()?;
        Some(self.entry_of(session, &newest.name, newest.log, placed))
    }

    fn entry_of(&self, session: &SessionFolder, name: &str, log: LogName, placed: bool) -> Entry {
        let mut findings = Vec::new();
        let mut find = |verdict: Verdict, what: &str| {
            findings.push(Finding {
                verdict,
                what: what.to_owned(),
            });
        };
        let own_mixed = session.logs.iter().any(|l| l.log.packed != log.packed);
        if own_mixed || (placed && self.mixed) {
            find(
                Verdict::MixedEncodings,
                "packed and raw logs lie below one root, and the harness refuses all of it",
            );
        }
        if placed && !self.flat.is_empty() {
            findings.push(legacy());
        }
        if let Some(n) = self.twins.get(&session.session).filter(|_| placed) {
            findings.push(Finding {
                verdict: Verdict::IdentityConflict,
                what: format!("{n} project folders have a session of this id"),
            });
        }
        Entry {
            path: session.path.join(name),
            kind: Kind::Log(log),
            folders: placed.then(|| (session.project.clone(), session.session.clone())),
            siblings: session
                .logs
                .iter()
                .filter(|s| s.name != name)
                .cloned()
                .collect(),
            findings,
        }
    }
}
