//! The exit table: the only place that turns an outcome into a process exit code.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kind of exit a command ends with; `exit_code_kind` in every document.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ExitCodeKind {
    /// Done, clean, information and warnings only, no-op, already applied, never initialised.
    Success,
    /// A finding at or above `--fail-on`, or an archive that existed is gone.
    HealthFailure,
    /// Bad arguments, a missing or malformed fingerprint, an unsafe target path.
    UsageError,
    /// No such session, source, backup, run; or a command that needs an archive where none was made.
    NotFound,
    /// Apply failed after it began; nothing lost.
    RepairFailure,
    /// Schema or mirror format newer than this binary, or a foreign archive.
    Incompatible,
    /// Another owner holds the lock.
    LockBusy,
    /// The budget ran out, some sources failed, or what is asked has to be built first; the document
    /// is partial.
    Incomplete,
    /// A bug or an unclassified I/O error.
    Internal,
    /// The state moved since the plan was shown; nothing done.
    PlanMismatch,
    /// A safety gate refused.
    Blocked,
    /// Promoted, a probe failed, the old generation is live again.
    RolledBack,
    /// A backup, export, bundle or mirror object does not verify.
    VerifyFailed,
    /// Ended by SIGINT; partial document.
    Interrupted,
    /// Ended by SIGTERM; partial document.
    Terminated,
}

impl ExitCodeKind {
    /// Every kind, in the order of its code: tables and tests walk this.
    pub const ALL: [ExitCodeKind; 15] = [
        ExitCodeKind::Success,
        ExitCodeKind::HealthFailure,
        ExitCodeKind::UsageError,
        ExitCodeKind::NotFound,
        ExitCodeKind::RepairFailure,
        ExitCodeKind::Incompatible,
        ExitCodeKind::LockBusy,
        ExitCodeKind::Incomplete,
        ExitCodeKind::Internal,
        ExitCodeKind::PlanMismatch,
        ExitCodeKind::Blocked,
        ExitCodeKind::RolledBack,
        ExitCodeKind::VerifyFailed,
        ExitCodeKind::Interrupted,
        ExitCodeKind::Terminated,
    ];

    /// The process exit code, 0..=255.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            ExitCodeKind::Success => 0,
            ExitCodeKind::HealthFailure => 1,
            ExitCodeKind::UsageError => 2,
            ExitCodeKind::NotFound => 3,
            ExitCodeKind::RepairFailure => 5,
            ExitCodeKind::Incompatible => 6,
            ExitCodeKind::LockBusy => 7,
            ExitCodeKind::Incomplete => 8,
            ExitCodeKind::Internal => 9,
            ExitCodeKind::PlanMismatch => 20,
            ExitCodeKind::Blocked => 21,
            ExitCodeKind::RolledBack => 22,
            ExitCodeKind::VerifyFailed => 23,
            ExitCodeKind::Interrupted => 130,
            ExitCodeKind::Terminated => 143,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_distinct_and_sorted() {
        let codes: Vec<u8> = ExitCodeKind::ALL.iter().map(|k| k.code()).collect();
        let set: BTreeSet<u8> = codes.iter().copied().collect();
        assert_eq!(set.len(), codes.len());
        assert_eq!(set.into_iter().collect::<Vec<_>>(), codes);
    }
}
