//! The error at the library's edge: a kind to branch on, a message to read, a hint to follow.
//!
//! Modules may have narrower errors; they convert into this one. Messages name the path they are
//! about and never hold text from a session.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exit::ExitCodeKind;

/// What went wrong, as one closed list; `err.kind` in every failure document.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ErrorKind {
    Usage,
    UnsafeTarget,
    ConfigInvalid,
    NotFound,
    NotInitialized,
    AmbiguousName,
    ArchiveMissing,
    ArchiveUnreadable,
    ArchiveCorrupt,
    LostCommits,
    SchemaTooNew,
    MirrorTooNew,
    ForeignArchive,
    LockBusy,
    SourcesFailed,
    BudgetExhausted,
    LexicalUnavailable,
    NoSpace,
    PermissionDenied,
    Io,
    Unsupported,
    Internal,
    VerifyFailed,
    MirrorDamaged,
    TargetExists,
    PlanMismatch,
    Blocked,
    RepairFailed,
    RolledBack,
    Interrupted,
    Terminated,
}

impl ErrorKind {
    /// Every kind: documentation and the totality test walk this.
    pub const ALL: [ErrorKind; 31] = [
        ErrorKind::Usage,
        ErrorKind::UnsafeTarget,
        ErrorKind::ConfigInvalid,
        ErrorKind::NotFound,
        ErrorKind::NotInitialized,
        ErrorKind::AmbiguousName,
        ErrorKind::ArchiveMissing,
        ErrorKind::ArchiveUnreadable,
        ErrorKind::ArchiveCorrupt,
        ErrorKind::LostCommits,
        ErrorKind::SchemaTooNew,
        ErrorKind::MirrorTooNew,
        ErrorKind::ForeignArchive,
        ErrorKind::LockBusy,
        ErrorKind::SourcesFailed,
        ErrorKind::BudgetExhausted,
        ErrorKind::LexicalUnavailable,
        ErrorKind::NoSpace,
        ErrorKind::PermissionDenied,
        ErrorKind::Io,
        ErrorKind::Unsupported,
        ErrorKind::Internal,
        ErrorKind::VerifyFailed,
        ErrorKind::MirrorDamaged,
        ErrorKind::TargetExists,
        ErrorKind::PlanMismatch,
        ErrorKind::Blocked,
        ErrorKind::RepairFailed,
        ErrorKind::RolledBack,
        ErrorKind::Interrupted,
        ErrorKind::Terminated,
    ];

    /// The exit this error ends the process with.
    #[must_use]
    pub const fn exit(self) -> ExitCodeKind {
        match self {
            ErrorKind::Usage
            | ErrorKind::UnsafeTarget
            | ErrorKind::ConfigInvalid
            | ErrorKind::AmbiguousName
            | ErrorKind::TargetExists => ExitCodeKind::UsageError,
            ErrorKind::NotFound | ErrorKind::NotInitialized => ExitCodeKind::NotFound,
            ErrorKind::ArchiveMissing
            | ErrorKind::ArchiveUnreadable
            | ErrorKind::ArchiveCorrupt
            | ErrorKind::LostCommits => ExitCodeKind::HealthFailure,
            ErrorKind::SchemaTooNew | ErrorKind::MirrorTooNew | ErrorKind::ForeignArchive => {
                ExitCodeKind::Incompatible
            }
            ErrorKind::LockBusy => ExitCodeKind::LockBusy,
            ErrorKind::SourcesFailed
            | ErrorKind::BudgetExhausted
            | ErrorKind::LexicalUnavailable => ExitCodeKind::Incomplete,
            ErrorKind::NoSpace | ErrorKind::Blocked => ExitCodeKind::Blocked,
            ErrorKind::PlanMismatch => ExitCodeKind::PlanMismatch,
            ErrorKind::RepairFailed => ExitCodeKind::RepairFailure,
            ErrorKind::RolledBack => ExitCodeKind::RolledBack,
            ErrorKind::PermissionDenied
            | ErrorKind::Io
            | ErrorKind::Unsupported
            | ErrorKind::Internal => ExitCodeKind::Internal,
            ErrorKind::VerifyFailed | ErrorKind::MirrorDamaged => ExitCodeKind::VerifyFailed,
            ErrorKind::Interrupted => ExitCodeKind::Interrupted,
            ErrorKind::Terminated => ExitCodeKind::Terminated,
        }
    }

    /// The kind of a failed system call: no room, no permission, or unclassified.
    #[must_use]
    pub fn of(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                ErrorKind::NoSpace
            }
            std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
                ErrorKind::PermissionDenied
            }
            _ => ErrorKind::Io,
        }
    }

    /// Whether the same command may succeed when it is simply run again.
    #[must_use]
    pub const fn retryable(self) -> bool {
        matches!(
            self,
            ErrorKind::LockBusy
                | ErrorKind::BudgetExhausted
                | ErrorKind::Interrupted
                | ErrorKind::Terminated
        )
    }
}

/// One of the things that a name may mean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Candidate {
    /// The id that names it alone.
    pub id: String,
    /// The harness's own id.
    pub native_id: String,
    /// The harness.
    pub provider: String,
    /// Machine it comes from.
    pub source_id: String,
    /// Title or summary, when the harness keeps one.
    pub title: Option<String>,
    /// Time of its last record, RFC 3339.
    pub ended_at: Option<String>,
}

/// One failure: everything a caller branches on or a person reads.
#[derive(Debug)]
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    hint_argv: Option<Vec<String>>,
    retry_after_ms: Option<u64>,
    context: BTreeMap<String, String>,
    candidates: Vec<Candidate>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// Result with the library's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind`; `message` is one sentence that names the path it is about.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                hint: None,
                hint_argv: None,
                retry_after_ms: None,
                context: BTreeMap::new(),
                candidates: Vec::new(),
                source: None,
            }),
        }
    }

    /// A failed system call on `path`. The kind follows from the call's error.
    #[must_use]
    pub fn io(doing: &str, path: &Path, error: std::io::Error) -> Self {
        let kind = ErrorKind::of(&error);
        Error::new(kind, format!("cannot {doing} {}: {error}", path.display()))
            .with_context("path", path.display().to_string())
            .with_source(error)
            .saying_who_may(path)
    }

    /// Where something was not permitted: who has to change what, so that it is.
    #[must_use]
    pub fn saying_who_may(self, path: &Path) -> Self {
        if self.kind() == ErrorKind::PermissionDenied {
            self.with_hint(who_may(path))
        } else {
            self
        }
    }

    /// What to do next, in one sentence.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.inner.hint = Some(hint.into());
        self
    }

    /// The command to run next, as an argument vector that begins with `cass`.
    #[must_use]
    pub fn with_hint_argv<I, S>(mut self, argv: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        self.inner.hint_argv = Some(argv.into_iter().map(Into::into).collect());
        self
    }

    /// When a retry makes sense, in milliseconds from now.
    #[must_use]
    pub fn with_retry_after_ms(mut self, ms: u64) -> Self {
        self.inner.retry_after_ms = Some(ms);
        self
    }

    /// One named fact beside the message.
    #[must_use]
    pub fn with_context(mut self, key: &str, value: impl Into<String>) -> Self {
        self.inner.context.insert(key.to_owned(), value.into());
        self
    }

    /// The things that an ambiguous name may mean.
    #[must_use]
    pub fn with_candidates(mut self, candidates: Vec<Candidate>) -> Self {
        self.inner.candidates = candidates;
        self
    }

    /// The error that caused this one.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Whether an error of type `T` is among the causes, those inside an I/O error included.
    #[must_use]
    pub fn is_caused_by<T: std::error::Error + 'static>(&self) -> bool {
        let mut at = std::error::Error::source(self);
        while let Some(cause) = at {
            if cause.is::<T>() {
                return true;
            }
            at = match cause
                .downcast_ref::<std::io::Error>()
                .and_then(std::io::Error::get_ref)
            {
                Some(inner) => Some(inner),
                None => cause.source(),
            };
        }
        false
    }

    /// The kind to branch on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The sentence for people.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// What to do next, if known.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.inner.hint.as_deref()
    }

    /// The command to run next, if known.
    #[must_use]
    pub fn hint_argv(&self) -> Option<&[String]> {
        self.inner.hint_argv.as_deref()
    }

    /// Milliseconds until a retry makes sense, if known.
    #[must_use]
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.inner.retry_after_ms
    }

    /// Named facts beside the message, sorted by name.
    #[must_use]
    pub fn context(&self) -> &BTreeMap<String, String> {
        &self.inner.context
    }

    /// The things that an ambiguous name may mean, the newest first.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.inner.candidates
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner
            .source
            .as_ref()
            .map(|e| e.as_ref() as &(dyn std::error::Error + 'static))
    }
}

/// What keeps this user from `path`, and the command that changes it.
fn who_may(path: &Path) -> String {
    use rustix::fs::{Access, access};
    let lacks = |at: &Path, what: Access| access(at, what) == Err(rustix::io::Errno::ACCESS);
    let read_only = |at: &Path| access(at, Access::WRITE_OK) == Err(rustix::io::Errno::ROFS);
    let above = || path.ancestors().skip(1);
    if read_only(path) || above().next().is_some_and(read_only) {
        return format!(
            "The file system of {} is mounted read-only: mount it for writing, or name another \
             folder with --data-dir.",
            path.display()
        );
    }
    // A folder on the way that can't be entered; else the file or folder itself; else the folder
    // that it is made in.
    let shut: Vec<&Path> = above().filter(|at| lacks(at, Access::EXEC_OK)).collect();
    let itself = lacks(path, Access::READ_OK) || lacks(path, Access::WRITE_OK);
    let at = match (shut.last(), itself) {
        (Some(at), _) => at,
        (None, true) => path,
        (None, false) => path.parent().unwrap_or(path),
    };
    let me = rustix::process::geteuid().as_raw();
    let meta = std::fs::metadata(at);
    let owner = meta
        .as_ref()
        .map_or(me, std::os::unix::fs::MetadataExt::uid);
    let rights = if meta.is_ok_and(|m| m.is_dir()) {
        "u+rwx"
    } else {
        "u+rw"
    };
    let quoted = format!("'{}'", at.display().to_string().replace('\'', "'\\''"));
    if owner == me {
        format!("Give its owner, this user, the right to it: chmod {rights} {quoted}")
    } else {
        format!(
            "It belongs to user {owner}, and this runs as user {me}. Run it as that user, or let \
             that user or root give it over: chown {me} {quoted}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_is_listed_once_and_serialises_in_kebab_case() {
        let names: BTreeSet<String> = ErrorKind::ALL
            .iter()
            .map(|k| serde_json::to_string(k).unwrap())
            .collect();
        assert_eq!(names.len(), ErrorKind::ALL.len());
        for n in names {
            assert!(
                n.trim_matches('"')
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c == '-')
            );
        }
    }

    #[test]
    fn full_disk_is_told_from_no_permission() {
        let e = Error::io(
            "write",
            Path::new("/x"),
            std::io::Error::from_raw_os_error(28),
        );
        assert_eq!(e.kind(), ErrorKind::NoSpace);
        let e = Error::io(
            "write",
            Path::new("/x"),
            std::io::Error::from_raw_os_error(13),
        );
        assert_eq!(e.kind(), ErrorKind::PermissionDenied);
    }
}
