//! What an inventory of all holders says about one thing: a source, a session, a rule.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::model::conversation::Accounting;
use crate::model::finding::Severity;
use crate::model::next::NextId;
use crate::model::provider::Provider;
use crate::model::verdict::SourceState;

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(
                Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema,
            )]
            pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+ }

            impl $name {
                /// Every value.
                pub const ALL: &'static [$name] = &[$($name::$variant,)+];

                /// The word in documents.
                #[must_use]
                pub const fn as_str(self) -> &'static str {
                    match self { $($name::$variant => $word,)+ }
                }
            }
        )+
    };
}

words! {
    /// Who can hold a session.
    Holder {
        /// The harness's own file.
        LiveSource = "live-source",
        /// The raw mirror.
        Mirror = "mirror",
        /// A backup.
        Backup = "backup",
        /// The archive.
        Archive = "archive",
        /// An export.
        Export = "export",
    }

    /// A part of a scan, in the order in which they run.
    ScanPart {
        /// What the histories of the harnesses name.
        Histories = "histories",
        /// The folders of the harnesses.
        LiveSources = "live-sources",
        /// What was captured or read.
        KnownSources = "known-sources",
        /// What the settings hide.
        Settings = "settings",
        /// The holders of each session.
        Sessions = "sessions",
    }

    /// Why a captured source was not looked for: it is neither there nor gone.
    OutOfSight {
        /// An exclude rule covers it.
        Excluded = "excluded",
        /// The root that a setting names is not there.
        RootMissing = "root-missing",
        /// A folder above it can't be listed.
        RootUnreadable = "root-unreadable",
        /// No root in force leads to it any more.
        RootNotNamed = "root-not-named",
        /// It was read on another machine.
        OtherMachine = "other-machine",
        /// The settings can't be used, so nothing may be looked at.
        ConfigInvalid = "config-invalid",
    }

    /// What a file is to its harness.
    SourceUse {
        /// Holds sessions.
        Session = "session",
        /// Captured for a full restore alone.
        Evidence = "evidence",
    }

    /// What is worth a word about the holders of a session.
    HolderCode {
        /// Records that were promised have no readable holder.
        PromiseWithoutHolder = "promise-without-holder",
        /// The archive lacks promised records; the mirror has them.
        HeldByMirror = "held-by-mirror",
        /// The archive lacks promised records; the live source has them.
        HeldByLiveSource = "held-by-live-source",
        /// A backup or sealed generation has all of it, and the mirror has not.
        HeldByBackup = "held-by-backup",
        /// The archive lacks promised records, and another holder could not be looked at.
        HolderUnknown = "holder-unknown",
        /// Archive rows alone.
        ArchiveOnly = "archive-only",
        /// The archive, and a part of it in the mirror.
        MirrorPartial = "mirror-partial",
        /// Archive and live source, not the mirror.
        NotInMirror = "not-in-mirror",
        /// Captured, never read into the archive, and the source is gone.
        MirrorOnly = "mirror-only",
        /// Not captured: the harness alone has it.
        LiveOnly = "live-only",
        /// Captured and not read into the archive yet; the source is there.
        CapturedNotArchived = "captured-not-archived",
        /// The source is gone; archive and mirror hold it. Normal.
        PrunedUpstream = "pruned-upstream",
        /// The source holds less than it did; archive and mirror hold all of it.
        RewrittenUpstream = "rewritten-upstream",
    }

    /// What may hide or lose evidence by way of the settings.
    RiskKind {
        /// An exclude rule covers sources that were captured before.
        ExcludeHidesCaptured = "cass-config-exclude-hides-captured",
        /// An exclude rule covers session files that are there now.
        ExcludeHidesLive = "cass-config-exclude-hides-live",
        /// A setting or variable names a root, and nothing is there.
        NamedRootMissing = "named-root-missing",
        /// One root of a harness lies in another.
        RootsNested = "roots-nested",
        /// The data directory lies in a harness's root, or the other way round.
        DataDirInRoot = "data-dir-in-root",
    }

    /// What a harness's own record of its sessions is.
    HistoryKind {
        /// Prompts that were typed, with the session of each.
        Prompts = "prompts",
        /// The harness's table of sessions.
        SessionTable = "session-table",
        /// The harness's index of session names.
        SessionIndex = "session-index",
    }

    /// What could still help with a session that no file holds.
    Help {
        /// The prompts of it, as typed, in the captured history file.
        PromptsInMirror = "prompts-in-mirror",
        /// The prompts of it in the live history file, which is not captured as it is now.
        PromptsInLiveFile = "prompts-in-live-file",
        /// Title and first message in the harness's captured table of sessions.
        TitleInMirror = "title-in-mirror",
        /// The same in the live table, which is not captured as it is now.
        TitleInLiveFile = "title-in-live-file",
        /// A backup or snapshot of the home folder from before it was removed.
        HomeBackup = "home-backup",
    }

    /// What became of a candidate for authority.
    Verdict {
        /// It would be believed.
        Selected = "selected",
        /// It would do, if nothing better were there.
        Available = "available",
        /// It would not.
        Rejected = "rejected",
    }

    /// The lists that go on from page to page.
    ListName {
        /// `source_inventory.sources`
        Sources = "sources",
        /// `sessions`
        Sessions = "sessions",
        /// `sole_copy_warnings`
        Warnings = "warnings",
        /// `missing_sessions`
        Missing = "missing",
    }
}

/// Where a list goes on: its name and the sort key of the last row that was shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The list.
    pub list: ListName,
    /// The last row that was shown.
    pub after: String,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.list.as_str(), self.after)
    }
}

/// A text that is no cursor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this command")]
pub struct ParseCursorError;

impl FromStr for Cursor {
    type Err = ParseCursorError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (name, after) = s.split_once('.').ok_or(ParseCursorError)?;
        let list = ListName::ALL
            .iter()
            .copied()
            .find(|l| l.as_str() == name)
            .ok_or(ParseCursorError)?;
        let plain = |b: u8| b.is_ascii_digit() || b.is_ascii_lowercase();
        if after.is_empty() || after.len() > 100 || !after.bytes().all(plain) {
            return Err(ParseCursorError);
        }
        Ok(Cursor {
            list,
            after: after.to_owned(),
        })
    }
}

/// One source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceItem {
    /// Its key.
    pub key: String,
    /// The harness.
    pub provider: Provider,
    /// Its path; the home folder as `~`.
    pub path: String,
    /// What it is for.
    pub usage: SourceUse,
    /// What became of it since it was captured and read; null when it was not looked for.
    pub state: Option<SourceState>,
    /// Why it was not looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_sight: Option<OutOfSight>,
    /// Bytes of the file now; absent when it is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Number of its newest capture; 0 when it was never captured.
    pub captures: u64,
    /// Who has it.
    pub holders: Vec<Holder>,
    /// What the archive could not read of it as records; absent when there is nothing such, or when
    /// it was never read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_health: Option<LogHealth>,
}

/// Places in a source that hold no record. Their bytes are in the mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LogHealth {
    /// Places, in all versions that were read.
    pub damaged_places: u64,
    /// Bytes of them, in the newest version.
    pub damaged_bytes: u64,
}

impl LogHealth {
    /// What the archive says; `None` of a source in which every byte belongs to a record.
    #[must_use]
    pub fn of(accounting: &Accounting) -> Option<LogHealth> {
        (accounting.skip_count > 0).then_some(LogHealth {
            damaged_places: accounting.skip_count,
            damaged_bytes: accounting.skipped_bytes,
        })
    }
}

/// Records of one session, by holder. Absent: could not be looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordCounts {
    /// In the archive: distinct records by hash and occurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archived: Option<u64>,
    /// Promised by the last line of the coverage ledger that names the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promised: Option<u64>,
    /// In captures of the mirror that can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mirror: Option<u64>,
    /// In the live sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<u64>,
    /// Whether `live` is no more than a bound: a database or document that was read more than once
    /// may have lost records that an earlier capture of it held. Such a session is not named as held
    /// by its live sources. Left out when false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub live_is_upper_bound: bool,
}

/// One session and who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SessionItem {
    /// Its id; null when no archive has read it, and it is known by its source alone.
    pub id: Option<String>,
    /// The harness's own id, where the archive knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub native_id: Option<String>,
    /// The harness; absent where only the coverage ledger knows the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Key of its first source, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// How many sources brought records of it.
    pub sources: u64,
    /// Who holds all of it.
    pub holders: Vec<Holder>,
    /// Its records by holder.
    pub records: RecordCounts,
}

/// One session whose holders are worth a word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HolderWarning {
    /// What it is; stable.
    pub code: HolderCode,
    /// How bad it is, by the evidence that is left.
    pub severity: Severity,
    /// The session.
    #[serde(flatten)]
    pub session: SessionItem,
    /// `recommended_commands[].id` of what helps; absent when nothing has to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<NextId>,
}

/// One session that a harness's own history names, and that no file, capture or archive row holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissingSession {
    /// The harness.
    pub provider: Provider,
    /// The harness's own id.
    pub native_id: String,
    /// What names it.
    pub named_by: Vec<HistoryKind>,
    /// How many times it is named.
    pub mentions: u64,
    /// Where the harness had its file; the home folder as `~`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Key of the source that names it.
    pub history: String,
    /// What could still help.
    pub helps: Vec<Help>,
}

/// One risk that lies in the settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct ConfigRisk {
    /// What it is.
    pub risk_kind: RiskKind,
    /// How bad it is.
    pub severity: Severity,
    /// The rule or folder; the home folder as `~`.
    pub subject: String,
    /// The harness, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Provider>,
    /// Sources that are concerned; 0 when they can't be counted.
    pub sources: u64,
    /// One sentence for people.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_nothing_else_is_one() {
        for list in ListName::ALL {
            let cursor = Cursor {
                list: *list,
                after: "1abc09".to_owned(),
            };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in ["", "sources", "sources.", "x.1", "sources.A", "sources.a b"] {
            assert_eq!(text.parse::<Cursor>(), Err(ParseCursorError), "{text}");
        }
    }
}
