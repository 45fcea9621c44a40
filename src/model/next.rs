//! The commands that a document may recommend: one closed list, so that a test can parse every
//! argument vector that can be printed.

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::source::SourceKey;

/// What to do next, as a stable code; `recommended_action` and `recommended_commands[].id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum NextId {
    /// Nothing.
    None,
    /// Correct the command line.
    FixArguments,
    /// Run the same command again.
    Retry,
    /// Read `err.message`; no command settles it.
    ReadMessage,
    /// Free space where the data directory lies; until then nothing can be captured.
    MakeRoom,
    /// Capture and index.
    Index,
    /// Capture and index; compare the content of every source.
    IndexFull,
    /// Check.
    Check,
    /// Check, without limits on lists.
    CheckDetail,
    /// Check everything there is.
    CheckDeep,
    /// Check everything there is and keep a dated attestation.
    CheckDeepRecord,
    /// Verify the mirror's structure.
    MirrorVerify,
    /// Verify every byte of the mirror.
    MirrorVerifyDeep,
    /// List the captures of a source.
    MirrorList,
    /// List sessions.
    SessionsList,
    /// Show one session.
    SessionsShow,
    /// Read one session.
    View,
    /// The next page of a search.
    SearchOn,
    /// Put the files of one session back where its harness finds them.
    Restore,
    /// Put the files of one session into a new folder.
    RestoreTo,
    /// Hand out the files of one session.
    ExportRaw,
    /// Plan a repair.
    Repair,
    /// Apply the plan that was shown.
    ApplyPlan,
    /// Make derived data anew.
    Fix,
    /// Plan a backup.
    BackupsCreate,
    /// Rehearse a restore.
    BackupsRestore,
    /// List runs.
    RunsList,
    /// Show one run.
    RunsShow,
    /// Plan going back.
    RunsUndo,
    /// List the backups.
    BackupsList,
    /// Verify one backup.
    BackupsVerify,
    /// Look at session logs again, with the text around what is wrong.
    SessionLogShow,
    /// Plan the repair of a session log.
    SessionLogRepair,
    /// Show the state in a few fields.
    Health,
    /// Show what the program can do.
    Introspect,
}

/// A command to run next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Next {
    /// `cass index`
    Index,
    /// `cass index --full`
    IndexFull,
    /// `cass doctor check`
    Check,
    /// `cass doctor check --detail full`
    CheckDetail,
    /// `cass doctor check --deep`
    CheckDeep,
    /// `cass doctor check --deep --record`
    CheckDeepRecord,
    /// `cass mirror verify`
    MirrorVerify,
    /// `cass mirror verify --deep`
    MirrorVerifyDeep,
    /// `cass mirror list SOURCE`
    MirrorList(SourceKey),
    /// `cass sessions list`
    SessionsList {
        /// Largest number of rows; the default when absent.
        limit: Option<u64>,
    },
    /// `cass sessions show ID`
    SessionsShow(String),
    /// `cass view ID --from N`
    View {
        /// The session.
        id: String,
        /// Number of the first message.
        from: u64,
        /// How many; the default when absent.
        count: Option<u64>,
        /// Whole messages.
        raw: bool,
        /// Superseded versions too.
        all: bool,
    },
    /// `cass search … --cursor C -- QUERY`
    SearchOn {
        /// Flags, each with its value in the same word.
        flags: Vec<String>,
        /// The words of the query, as they were given.
        query: Vec<String>,
    },
    /// `cass sessions restore ID --into-harness`
    Restore {
        /// The session.
        id: String,
        /// Number of the capture; the newest when absent.
        version: Option<u64>,
    },
    /// `cass sessions restore ID --to restored-ID`
    RestoreTo {
        /// The session.
        id: String,
        /// Number of the capture; the newest when absent.
        version: Option<u64>,
    },
    /// `cass export ID --format raw`
    ExportRaw(String),
    /// `cass doctor repair`
    Repair {
        /// Whether a failed repair may be repeated.
        allow_repeated: bool,
    },
    /// The planned command with these words, `--yes` and the fingerprint among them.
    ApplyPlan(Vec<String>),
    /// `cass doctor --fix`
    Fix,
    /// `cass doctor backups create`
    BackupsCreate,
    /// `cass doctor backups restore [--keep-newer] ID`
    BackupsRestore {
        /// The backup.
        id: String,
        /// Whether what is newer is kept.
        keep_newer: bool,
    },
    /// `cass doctor runs list`
    RunsList,
    /// `cass doctor runs show RUN`
    RunsShow(String),
    /// `cass doctor runs undo RUN`
    RunsUndo(String),
    /// `cass doctor backups list`
    BackupsList,
    /// `cass doctor backups verify ID`
    BackupsVerify {
        /// The backup's id, or the generation's.
        id: String,
        /// Every row too.
        deep: bool,
    },
    /// `cass doctor session-log check --show-content -- PATH`
    SessionLogShow(String),
    /// `cass doctor session-log repair -- PATH`
    SessionLogRepair(String),
    /// `cass health`
    Health,
    /// `cass introspect`
    Introspect,
}

/// `cass doctor repair`, of what no repair failed at before.
pub const REPAIR: Next = Next::Repair {
    allow_repeated: false,
};

impl Next {
    /// The stable code.
    #[must_use]
    pub const fn id(&self) -> NextId {
        match self {
            Next::Index => NextId::Index,
            Next::IndexFull => NextId::IndexFull,
            Next::Check => NextId::Check,
            Next::CheckDetail => NextId::CheckDetail,
            Next::CheckDeep => NextId::CheckDeep,
            Next::CheckDeepRecord => NextId::CheckDeepRecord,
            Next::MirrorVerify => NextId::MirrorVerify,
            Next::MirrorVerifyDeep => NextId::MirrorVerifyDeep,
            Next::MirrorList(_) => NextId::MirrorList,
            Next::SessionsList { .. } => NextId::SessionsList,
            Next::SessionsShow(_) => NextId::SessionsShow,
            Next::View { .. } => NextId::View,
            Next::SearchOn { .. } => NextId::SearchOn,
            Next::Restore { .. } => NextId::Restore,
            Next::RestoreTo { .. } => NextId::RestoreTo,
            Next::ExportRaw(_) => NextId::ExportRaw,
            Next::Repair { .. } => NextId::Repair,
            Next::ApplyPlan(_) => NextId::ApplyPlan,
            Next::Fix => NextId::Fix,
            Next::BackupsCreate => NextId::BackupsCreate,
            Next::BackupsRestore { .. } => NextId::BackupsRestore,
            Next::RunsList => NextId::RunsList,
            Next::RunsShow(_) => NextId::RunsShow,
            Next::RunsUndo(_) => NextId::RunsUndo,
            Next::BackupsList => NextId::BackupsList,
            Next::BackupsVerify { .. } => NextId::BackupsVerify,
            Next::SessionLogShow(_) => NextId::SessionLogShow,
            Next::SessionLogRepair(_) => NextId::SessionLogRepair,
            Next::Health => NextId::Health,
            Next::Introspect => NextId::Introspect,
        }
    }

    /// The argument vector, beginning with `cass`.
    #[must_use]
    pub fn argv(&self) -> Vec<String> {
        let words = |list: &[&str]| -> Vec<String> {
            std::iter::once("cass")
                .chain(list.iter().copied())
                .map(str::to_owned)
                .collect()
        };
        // `--` keeps an id or path that begins with a dash from being read as a flag.
        let named = |list: &[&str], name: String| -> Vec<String> {
            let mut argv = words(list);
            argv.push("--".to_owned());
            argv.push(name);
            argv
        };
        match self {
            Next::Index => words(&["index"]),
            Next::IndexFull => words(&["index", "--full"]),
            Next::Check => words(&["doctor", "check"]),
            Next::CheckDetail => words(&["doctor", "check", "--detail", "full"]),
            Next::CheckDeep => words(&["doctor", "check", "--deep"]),
            Next::CheckDeepRecord => words(&["doctor", "check", "--deep", "--record"]),
            Next::MirrorVerify => words(&["mirror", "verify"]),
            Next::MirrorVerifyDeep => words(&["mirror", "verify", "--deep"]),
            Next::MirrorList(key) => words(&["mirror", "list", &key.to_string()]),
            Next::SessionsList { limit: None } => words(&["sessions", "list"]),
            Next::SessionsList { limit: Some(n) } => {
                words(&["sessions", "list", "--limit", &n.to_string()])
            }
            Next::SessionsShow(id) => named(&["sessions", "show"], id.clone()),
            Next::View {
                id,
                from,
                count,
                raw,
                all,
            } => {
                let mut argv = words(&["view", "--from", &from.to_string()]);
                if let Some(count) = count {
                    argv.extend(["--count".to_owned(), count.to_string()]);
                }
                argv.extend(raw.then(|| "--raw".to_owned()));
                argv.extend(all.then(|| "--all".to_owned()));
                argv.extend(["--".to_owned(), id.clone()]);
                argv
            }
            Next::SearchOn { flags, query } => {
                let mut argv = words(&["search"]);
                argv.extend(flags.iter().cloned());
                argv.push("--".to_owned());
                argv.extend(query.iter().cloned());
                argv
            }
            Next::Restore { id, version } => {
                let mut argv = words(&["sessions", "restore", "--into-harness"]);
                if let Some(version) = version {
                    argv.extend(["--version".to_owned(), version.to_string()]);
                }
                argv.extend(["--".to_owned(), id.clone()]);
                argv
            }
            Next::RestoreTo { id, version } => {
                let short: String = id.chars().take(8).collect();
                let mut argv = words(&["sessions", "restore"]);
                argv.push(format!("--to=restored-{short}"));
                if let Some(version) = version {
                    argv.extend(["--version".to_owned(), version.to_string()]);
                }
                argv.extend(["--".to_owned(), id.clone()]);
                argv
            }
            Next::ExportRaw(id) => named(&["export", "--format", "raw"], id.clone()),
            Next::Repair {
                allow_repeated: false,
            } => words(&["doctor", "repair"]),
            Next::Repair {
                allow_repeated: true,
            } => words(&["doctor", "repair", "--allow-repeated-repair"]),
            Next::ApplyPlan(argv) => words(&argv.iter().map(String::as_str).collect::<Vec<_>>()),
            Next::Fix => words(&["doctor", "--fix"]),
            Next::BackupsCreate => words(&["doctor", "backups", "create"]),
            Next::BackupsRestore { id, keep_newer } => {
                let mut list = vec!["doctor", "backups", "restore"];
                list.extend(keep_newer.then_some("--keep-newer"));
                named(&list, id.clone())
            }
            Next::RunsList => words(&["doctor", "runs", "list"]),
            Next::RunsShow(run) => words(&["doctor", "runs", "show", run]),
            Next::RunsUndo(run) => words(&["doctor", "runs", "undo", run]),
            Next::BackupsList => words(&["doctor", "backups", "list"]),
            Next::BackupsVerify { id, deep: true } => {
                named(&["doctor", "backups", "verify", "--deep"], id.clone())
            }
            Next::BackupsVerify { id, deep: false } => words(&["doctor", "backups", "verify", id]),
            Next::SessionLogShow(path) => named(
                &["doctor", "session-log", "check", "--show-content"],
                path.clone(),
            ),
            Next::SessionLogRepair(path) => {
                named(&["doctor", "session-log", "repair"], path.clone())
            }
            Next::Health => words(&["health"]),
            Next::Introspect => words(&["introspect"]),
        }
    }

    /// Whether the command changes anything on disk.
    #[must_use]
    pub const fn mutates(&self) -> bool {
        matches!(
            self,
            Next::Index
                | Next::IndexFull
                | Next::CheckDeepRecord
                | Next::ApplyPlan(_)
                | Next::Fix
                | Next::Restore { .. }
                | Next::RestoreTo { .. }
                | Next::ExportRaw(_)
        )
    }

    /// Why one would run it, as one clause.
    #[must_use]
    pub const fn why(&self) -> &'static str {
        match self {
            Next::Index => "captures what is new and brings the archive up to date",
            Next::IndexFull => "compares the content of every source, not only size and time",
            Next::Check => "says what is safe and what is not",
            Next::CheckDetail => "lists every finding",
            Next::CheckDeep => "reads and verifies everything",
            Next::CheckDeepRecord => "reads and verifies everything and keeps the result",
            Next::MirrorVerify => "verifies the mirror's ledgers and that every object is there",
            Next::MirrorVerifyDeep => "verifies every byte of the mirror",
            Next::MirrorList(_) => "lists the captured versions of that source",
            Next::SessionsList { .. } => "lists the sessions",
            Next::SessionsShow(_) => "shows that session",
            Next::View { .. } => "shows that session, from this message on",
            Next::SearchOn { .. } => "shows the next page of hits",
            Next::Restore { .. } => "puts that session's files back where its harness finds them",
            Next::RestoreTo { .. } => "puts that session's files into a new folder",
            Next::ExportRaw(_) => "hands out that session's files, byte for byte",
            Next::Repair {
                allow_repeated: false,
            } => "plans the cheapest sufficient repair and changes nothing",
            Next::Repair {
                allow_repeated: true,
            } => "plans the repair again although it failed before",
            Next::ApplyPlan(_) => "applies exactly the plan that was shown",
            Next::Fix => "makes derived data anew, which needs no plan",
            Next::BackupsCreate => "plans a backup of the archive",
            Next::BackupsRestore {
                keep_newer: true, ..
            } => "rehearses a restore that keeps what is newer",
            Next::BackupsRestore { .. } => "rehearses a restore",
            Next::RunsList => "lists what was applied",
            Next::RunsShow(_) => "shows what that run did",
            Next::RunsUndo(_) => "plans going back to what was there before that run",
            Next::BackupsList => "lists the backups and the sealed generations",
            Next::BackupsVerify { deep: true, .. } => "reads and verifies every row of that backup",
            Next::BackupsVerify { .. } => "compares every file of that backup with its digest",
            Next::SessionLogShow(_) => "shows the lines around the first failure, text included",
            Next::SessionLogRepair(_) => "plans the repair of the first log that can have one",
            Next::Health => "shows the state in a few fields",
            Next::Introspect => "lists every command, flag and document",
        }
    }

    /// One of each, for the test that parses every argument vector.
    #[must_use]
    pub fn samples() -> Vec<Next> {
        vec![
            Next::Index,
            Next::IndexFull,
            Next::Check,
            Next::CheckDetail,
            Next::CheckDeep,
            Next::CheckDeepRecord,
            Next::MirrorVerify,
            Next::MirrorVerifyDeep,
            Next::MirrorList(SourceKey([7; 16])),
            Next::SessionsList { limit: None },
            Next::SessionsList { limit: Some(100) },
            Next::SessionsShow("-an id; with 'traps'\n".to_owned()),
            Next::View {
                id: "--all".to_owned(),
                from: 8,
                count: Some(3),
                raw: true,
                all: true,
            },
            Next::SearchOn {
                flags: vec!["--limit=2".to_owned(), "--cursor=--x".to_owned()],
                query: vec!["-rf".to_owned(), "\"a b".to_owned()],
            },
            Next::Restore {
                id: "-x".to_owned(),
                version: Some(2),
            },
            Next::RestoreTo {
                id: "-x /y".to_owned(),
                version: Some(2),
            },
            Next::ExportRaw("--help".to_owned()),
            Next::Repair {
                allow_repeated: false,
            },
            Next::Repair {
                allow_repeated: true,
            },
            Next::ApplyPlan(
                [
                    "doctor",
                    "repair",
                    "--from=-x",
                    "--yes",
                    "--plan-fingerprint",
                    "plan-v1-00",
                ]
                .map(str::to_owned)
                .to_vec(),
            ),
            Next::Fix,
            Next::BackupsCreate,
            Next::BackupsRestore {
                id: "-b".to_owned(),
                keep_newer: true,
            },
            Next::BackupsRestore {
                id: "b00000001".to_owned(),
                keep_newer: false,
            },
            Next::RunsList,
            Next::RunsShow("latest".to_owned()),
            Next::RunsUndo("latest".to_owned()),
            Next::BackupsList,
            Next::BackupsVerify {
                id: "b00000001".to_owned(),
                deep: false,
            },
            Next::BackupsVerify {
                id: "g00000001".to_owned(),
                deep: true,
            },
            Next::SessionLogShow("-a b".to_owned()),
            Next::SessionLogRepair("-a b".to_owned()),
            Next::Health,
            Next::Introspect,
        ]
    }
}
