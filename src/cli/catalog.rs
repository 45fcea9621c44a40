//! What the command line itself does not say about its commands.

/// Names of all documents, sorted.
pub const SCHEMAS: [&str; 32] = [
    "doctor-archive-scan",
    "doctor-backups-create",
    "doctor-backups-list",
    "doctor-backups-restore",
    "doctor-backups-verify",
    "doctor-check",
    "doctor-fix",
    "doctor-reconstruct-dry-run",
    "doctor-repair",
    "doctor-runs-list",
    "doctor-runs-show",
    "doctor-runs-undo",
    "doctor-session-log-check",
    "doctor-session-log-repair",
    "error",
    "export",
    "export-json",
    "health",
    "help",
    "index",
    "introspect",
    "mirror-get",
    "mirror-list",
    "mirror-verify",
    "models-status",
    "search",
    "sessions-list",
    "sessions-restore",
    "sessions-show",
    "stats",
    "version",
    "view",
];

/// One command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its words.
    pub words: &'static [&'static str],
    /// Whether it changes anything on disk.
    pub mutates: bool,
    /// Name of its document.
    pub schema: &'static str,
}

/// Every command that does something.
pub const COMMANDS: [Entry; 27] = [
    Entry {
        words: &["index"],
        mutates: true,
        schema: "index",
    },
    // `--record` adds one attestation; nothing else does.
    Entry {
        words: &["doctor"],
        mutates: false,
        schema: "doctor-check",
    },
    Entry {
        words: &["doctor", "check"],
        mutates: false,
        schema: "doctor-check",
    },
    Entry {
        words: &["doctor", "archive-scan"],
        mutates: false,
        schema: "doctor-archive-scan",
    },
    // Without `--yes` it shows a plan and writes nothing.
    Entry {
        words: &["doctor", "repair"],
        mutates: true,
        schema: "doctor-repair",
    },
    Entry {
        words: &["doctor", "backups", "create"],
        mutates: true,
        schema: "doctor-backups-create",
    },
    Entry {
        words: &["doctor", "backups", "restore"],
        mutates: true,
        schema: "doctor-backups-restore",
    },
    Entry {
        words: &["doctor", "runs", "list"],
        mutates: false,
        schema: "doctor-runs-list",
    },
    Entry {
        words: &["doctor", "runs", "show"],
        mutates: false,
        schema: "doctor-runs-show",
    },
    Entry {
        words: &["doctor", "runs", "undo"],
        mutates: true,
        schema: "doctor-runs-undo",
    },
    Entry {
        words: &["doctor", "session-log", "check"],
        mutates: false,
        schema: "doctor-session-log-check",
    },
    Entry {
        words: &["doctor", "session-log", "repair"],
        mutates: true,
        schema: "doctor-session-log-repair",
    },
    Entry {
        words: &["doctor", "backups", "list"],
        mutates: false,
        schema: "doctor-backups-list",
    },
    Entry {
        words: &["doctor", "backups", "verify"],
        mutates: false,
        schema: "doctor-backups-verify",
    },
    Entry {
        words: &["sessions", "list"],
        mutates: false,
        schema: "sessions-list",
    },
    Entry {
        words: &["sessions", "show"],
        mutates: false,
        schema: "sessions-show",
    },
    Entry {
        words: &["search"],
        mutates: false,
        schema: "search",
    },
    Entry {
        words: &["models", "status"],
        mutates: false,
        schema: "models-status",
    },
    Entry {
        words: &["sessions", "restore"],
        mutates: true,
        schema: "sessions-restore",
    },
    Entry {
        words: &["view"],
        mutates: false,
        schema: "view",
    },
    Entry {
        words: &["stats"],
        mutates: false,
        schema: "stats",
    },
    Entry {
        words: &["export"],
        mutates: true,
        schema: "export",
    },
    Entry {
        words: &["mirror", "verify"],
        mutates: false,
        schema: "mirror-verify",
    },
    Entry {
        words: &["mirror", "list"],
        mutates: false,
        schema: "mirror-list",
    },
    Entry {
        words: &["mirror", "get"],
        mutates: true,
        schema: "mirror-get",
    },
    Entry {
        words: &["health"],
        mutates: false,
        schema: "health",
    },
    Entry {
        words: &["introspect"],
        mutates: false,
        schema: "introspect",
    },
];

/// The entry of a command.
#[must_use]
pub fn find(words: &[&str]) -> Option<Entry> {
    COMMANDS.iter().find(|e| e.words == words).copied()
}
