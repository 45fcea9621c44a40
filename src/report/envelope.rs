//! What every document begins with.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Candidate, Error, ErrorKind};
use crate::exit::ExitCodeKind;
use crate::model::finding::RiskLevel;
use crate::model::next::{Next, NextId};

/// The body of one kind of document.
pub trait Body: Serialize + JsonSchema {
    /// Name of the schema.
    const NAME: &'static str;
    /// Grows when a reader of the last version would misread; additions don't count.
    const VERSION: u32 = 1;
}

/// One document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report<T> {
    /// What kind of document this is.
    pub schema: SchemaRef,
    /// Version of the program.
    pub cass_version: String,
    /// The verdict, in one word.
    pub status: Status,
    /// How much is at stake when nothing is done.
    pub risk_level: RiskLevel,
    /// What to do next, as a stable code; `recommended_commands` has the command, if there is one.
    pub recommended_action: NextId,
    /// Commands to run next, the most useful one first. They inherit the environment.
    pub recommended_commands: Vec<RecommendedCommand>,
    /// How the command ended.
    pub operation_outcome: OperationOutcome,
    /// What went wrong. Absent when nothing did. A document with both `err` and a body is partial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub err: Option<ErrBody>,
    /// What the command is about.
    #[serde(flatten)]
    pub body: T,
}

/// Names a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SchemaRef {
    /// Name; `cass introspect --schema NAME` prints it.
    pub name: String,
    /// Version; additions don't change it, and readers ignore fields they don't know.
    pub version: u32,
}

/// A verdict in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Read-only: nothing above information.
    Ok,
    /// Read-only: at least one warning.
    Warn,
    /// Read-only: at least one error, or the command itself failed.
    Error,
    /// Read-only: something could not be told.
    Unknown,
    /// Read-only: nothing was ever indexed here.
    NotInitialized,
    /// Mutating: a plan was shown, nothing was done.
    Planned,
    /// Mutating: there was nothing to do.
    NoOp,
    /// Mutating: done.
    Applied,
    /// Mutating: was done before.
    AlreadyApplied,
    /// Mutating: some of it was done.
    Partial,
    /// Mutating: not begun; a lock, a gate or missing room is in the way.
    Blocked,
    /// Mutating: failed.
    Failed,
    /// Mutating: done and taken back.
    RolledBack,
}

/// How a command ended, as one closed list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutcomeKind {
    /// Nothing to do.
    OkNoActionNeeded,
    /// Looked, found something, changed nothing.
    OkReadOnlyDiagnosed,
    /// A plan was shown.
    Planned,
    /// Done.
    Fixed,
    /// Was done before.
    AlreadyApplied,
    /// Some of it was done.
    PartiallyFixed,
    /// A lock, a gate or missing room is in the way; nothing was done.
    RepairBlocked,
    /// Refused as asked for: arguments, unsafe target, incompatible data.
    RepairRefused,
    /// Begun and not finished.
    RepairIncomplete,
    /// Something does not verify.
    VerificationFailed,
    /// Done and taken back.
    RolledBack,
    /// A clean-up plan was shown.
    CleanupDryRunOnly,
    /// The automatic run had nothing it may do.
    AutoRunSkipped,
    /// A bundle was made.
    SupportBundleOnly,
    /// A baseline was compared.
    BaselineDiffOnly,
    /// A person has to look.
    RequiresManualReview,
    /// The budget ran out or some sources failed.
    Incomplete,
    /// Ended by a signal.
    Interrupted,
}

/// How the command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OperationOutcome {
    /// What happened.
    pub kind: OutcomeKind,
    /// Kind of the process exit.
    pub exit_code_kind: ExitCodeKind,
    /// The process exit code.
    pub exit_code: u8,
    /// Whether the same command may succeed when it is simply run again.
    pub retryable: bool,
    /// When a retry makes sense, milliseconds from now.
    pub retry_after_ms: Option<u64>,
}

impl OperationOutcome {
    /// An outcome without a retry.
    #[must_use]
    pub fn new(kind: OutcomeKind, exit: ExitCodeKind) -> Self {
        OperationOutcome {
            kind,
            exit_code_kind: exit,
            exit_code: exit.code(),
            retryable: false,
            retry_after_ms: None,
        }
    }
}

/// A command to run next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecommendedCommand {
    /// Stable code.
    pub id: NextId,
    /// Argument vector; run it without a shell.
    pub argv: Vec<String>,
    /// Whether it changes anything on disk.
    pub mutates: bool,
    /// Why one would run it.
    pub why: String,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrBody {
    /// What to branch on.
    pub kind: ErrorKind,
    /// One sentence for people.
    pub message: String,
    /// What to do next, in one sentence.
    pub hint: Option<String>,
    /// The command to run next.
    pub hint_argv: Option<Vec<String>>,
    /// Whether the same command may succeed when it is simply run again.
    pub retryable: bool,
    /// When a retry makes sense, milliseconds from now.
    pub retry_after_ms: Option<u64>,
    /// Named facts.
    pub context: BTreeMap<String, String>,
    /// What an ambiguous name may mean, the newest first; `context.candidates` counts all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
}

/// The body of a failure that has nothing else to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NoBody {}

impl Body for NoBody {
    const NAME: &'static str = "error";
}

/// Which data directory a recommended command must name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataDirArg {
    /// The same default or variable leads there again.
    Inherited,
    /// `--data-dir` was given; commands repeat it.
    Named(String),
    /// `--data-dir` was given and is not UTF-8: no argument vector can name it, none is printed.
    Unprintable,
}

/// How this program was called, as far as documents depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The data directory that commands must name.
    pub data_dir: DataDirArg,
    /// The home folder: shown as `~` in messages. Empty when none is known.
    pub home: String,
    /// Its real name, where `home` leads there through a link; else empty. Messages about the data
    /// directory hold this one.
    pub real_home: String,
}

impl Site {
    /// A site that adds nothing.
    #[must_use]
    pub fn plain() -> Self {
        Site {
            data_dir: DataDirArg::Inherited,
            home: String::new(),
            real_home: String::new(),
        }
    }

    /// `argv` (beginning with `cass`) as it must be typed to act on the same data directory.
    #[must_use]
    pub fn argv(&self, argv: Vec<String>) -> Option<Vec<String>> {
        match &self.data_dir {
            DataDirArg::Inherited => Some(argv),
            DataDirArg::Unprintable => None,
            DataDirArg::Named(dir) => {
                let mut words = argv.into_iter();
                let program = words.next()?;
                // One word, so that a folder that begins with a dash stays a value.
                let mut out = vec![program, format!("--data-dir={dir}")];
                out.extend(words);
                Some(out)
            }
        }
    }

    /// A command to run next; `None` where it can't be printed.
    #[must_use]
    pub fn recommend(&self, next: &Next) -> Option<RecommendedCommand> {
        Some(RecommendedCommand {
            id: next.id(),
            argv: self.argv(next.argv())?,
            mutates: next.mutates(),
            why: next.why().to_owned(),
        })
    }

    /// `text` with the home folder shown as `~`.
    #[must_use]
    pub fn redact(&self, text: &str) -> String {
        with_tilde(&with_tilde(text, &self.home), &self.real_home)
    }
}

fn with_tilde(text: &str, home: &str) -> String {
    if home.len() < 2 {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(home) {
        let (before, found) = rest.split_at(at);
        let behind = &found[home.len()..];
        let whole = !behind.starts_with(|c: char| c.is_alphanumeric() || "._-".contains(c));
        out.push_str(before);
        out.push_str(if whole { "~" } else { home });
        rest = behind;
    }
    out.push_str(rest);
    out
}

impl<T: Body> Report<T> {
    /// A document without findings, commands or failure.
    #[must_use]
    pub fn new(status: Status, outcome: OperationOutcome, body: T) -> Self {
        Report {
            schema: SchemaRef {
                name: T::NAME.to_owned(),
                version: T::VERSION,
            },
            cass_version: env!("CARGO_PKG_VERSION").to_owned(),
            status,
            risk_level: RiskLevel::None,
            recommended_action: NextId::None,
            recommended_commands: Vec::new(),
            operation_outcome: outcome,
            err: None,
            body,
        }
    }

    /// A read-only command that did what was asked.
    #[must_use]
    pub fn ok(body: T) -> Self {
        let outcome = OperationOutcome::new(OutcomeKind::OkNoActionNeeded, ExitCodeKind::Success);
        Report::new(Status::Ok, outcome, body)
    }

    /// The same document with commands to run next; the first gives `recommended_action`.
    #[must_use]
    pub fn recommending(mut self, next: &[Next], site: &Site) -> Self {
        if let Some(first) = next.first() {
            self.recommended_action = first.id();
        }
        self.recommended_commands = next.iter().filter_map(|n| site.recommend(n)).collect();
        self
    }

    /// A partial document: `body` holds what was done before `error`.
    #[must_use]
    pub fn failing(mut self, error: &Error, mutating: bool, site: &Site) -> Self {
        let kind = error.kind();
        self.status = match kind {
            _ if !mutating => Status::Error,
            ErrorKind::LockBusy
            | ErrorKind::NoSpace
            | ErrorKind::Blocked
            | ErrorKind::PlanMismatch => Status::Blocked,
            ErrorKind::RolledBack => Status::RolledBack,
            ErrorKind::SourcesFailed
            | ErrorKind::BudgetExhausted
            | ErrorKind::Interrupted
            | ErrorKind::Terminated => Status::Partial,
            _ => Status::Failed,
        };
        self.risk_level = risk(kind);
        self.recommended_action = match kind {
            _ if kind.retryable() => NextId::Retry,
            ErrorKind::NotInitialized => NextId::Index,
            ErrorKind::NoSpace => NextId::MakeRoom,
            ErrorKind::Usage
            | ErrorKind::UnsafeTarget
            | ErrorKind::ConfigInvalid
            | ErrorKind::AmbiguousName
            | ErrorKind::TargetExists => NextId::FixArguments,
            _ => NextId::ReadMessage,
        };
        if kind == ErrorKind::NotInitialized {
            self.recommended_commands = site.recommend(&Next::Index).into_iter().collect();
        }
        let exit = kind.exit();
        self.operation_outcome = OperationOutcome {
            retryable: kind.retryable(),
            retry_after_ms: error.retry_after_ms(),
            ..OperationOutcome::new(outcome_kind(kind), exit)
        };
        self.err = Some(ErrBody {
            kind,
            message: site.redact(error.message()),
            hint: error.hint().map(|h| site.redact(h)),
            hint_argv: error.hint_argv().and_then(|argv| site.argv(argv.to_vec())),
            retryable: kind.retryable(),
            retry_after_ms: error.retry_after_ms(),
            context: error
                .context()
                .iter()
                .map(|(k, v)| (k.clone(), site.redact(v)))
                .collect(),
            candidates: error.candidates().to_vec(),
        });
        self
    }
}

impl<T: Body> Report<T> {
    /// Of a read-only command that could look at nothing: what it would have found is not known,
    /// which is not the same as bad.
    #[must_use]
    pub fn not_known(mut self) -> Self {
        self.status = Status::Unknown;
        self.risk_level = RiskLevel::Unknown;
        self
    }

    /// As [`Report::failing`], for a read-only command that knows better what to do next.
    #[must_use]
    pub fn failing_keeping_next(self, error: &Error, site: &Site) -> Self {
        let (action, commands) = (self.recommended_action, self.recommended_commands.clone());
        let mut report = self.failing(error, false, site);
        report.recommended_action = action;
        report.recommended_commands = commands;
        report
    }
}

impl Report<NoBody> {
    /// The document of a command that could do nothing.
    #[must_use]
    pub fn failure(error: &Error, mutating: bool, site: &Site) -> Self {
        Report::ok(NoBody {}).failing(error, mutating, site)
    }
}

fn risk(kind: ErrorKind) -> RiskLevel {
    match kind {
        ErrorKind::ArchiveMissing
        | ErrorKind::ArchiveCorrupt
        | ErrorKind::LostCommits
        | ErrorKind::VerifyFailed
        | ErrorKind::MirrorDamaged => RiskLevel::High,
        ErrorKind::ArchiveUnreadable | ErrorKind::Io | ErrorKind::Internal => RiskLevel::Unknown,
        ErrorKind::NoSpace | ErrorKind::SourcesFailed | ErrorKind::PermissionDenied => {
            RiskLevel::Medium
        }
        _ => RiskLevel::None,
    }
}

/// What a failure of `kind` is called in `operation_outcome.kind`.
#[must_use]
pub fn outcome_kind(kind: ErrorKind) -> OutcomeKind {
    match kind {
        ErrorKind::LockBusy | ErrorKind::NoSpace | ErrorKind::Blocked => OutcomeKind::RepairBlocked,
        ErrorKind::PlanMismatch => OutcomeKind::RepairRefused,
        ErrorKind::RepairFailed => OutcomeKind::RepairIncomplete,
        ErrorKind::RolledBack => OutcomeKind::RolledBack,
        ErrorKind::Interrupted | ErrorKind::Terminated => OutcomeKind::Interrupted,
        _ => match kind.exit() {
            ExitCodeKind::UsageError | ExitCodeKind::Incompatible => OutcomeKind::RepairRefused,
            ExitCodeKind::Incomplete => OutcomeKind::Incomplete,
            ExitCodeKind::VerifyFailed => OutcomeKind::VerificationFailed,
            _ => OutcomeKind::RequiresManualReview,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_data_dir_is_repeated_and_one_that_is_not_text_prints_nothing() {
        let named = Site {
            data_dir: DataDirArg::Named("-x y".into()),
            home: String::new(),
            real_home: String::new(),
        };
        let argv = named.argv(Next::Index.argv()).unwrap();
        assert_eq!(argv, ["cass", "--data-dir=-x y", "index"]);
        let lost = Site {
            data_dir: DataDirArg::Unprintable,
            home: String::new(),
            real_home: String::new(),
        };
        assert_eq!(lost.recommend(&Next::Index), None);
    }

    #[test]
    fn the_home_folder_is_a_tilde_and_a_longer_name_is_not() {
        let site = Site {
            data_dir: DataDirArg::Inherited,
            home: "/home/ann".into(),
            real_home: "/disk2/ann".into(),
        };
        assert_eq!(
            site.redact("no /home/ann/x, /home/anna/x"),
            "no ~/x, /home/anna/x"
        );
        assert_eq!(site.redact("/home/ann"), "~");
        assert_eq!(site.redact("/disk2/ann/x, /disk2/anna"), "~/x, /disk2/anna");
    }

    #[test]
    fn a_failure_says_the_same_exit_everywhere() {
        for kind in ErrorKind::ALL {
            let r = Report::failure(&Error::new(kind, "m"), true, &Site::plain());
            assert_eq!(r.operation_outcome.exit_code, kind.exit().code());
            assert_eq!(r.operation_outcome.exit_code_kind, kind.exit());
            assert_eq!(r.operation_outcome.retryable, kind.retryable());
        }
    }
}
