//! The document of `doctor archive-scan`.

use schemars::JsonSchema;
use serde::Serialize;

use super::check::{
    BudgetBlock, DetailBlock, DetailLevel, FailOnLevel, FindingsSummary, MirrorBlock, RemoteBlock,
};
use super::envelope::Body;
use crate::model::finding::Severity;
use crate::model::provider::Provider;
use crate::model::scan::{
    ConfigRisk, HolderCode, HolderWarning, MissingSession, ScanPart, SessionItem, SourceItem,
    Verdict,
};
use crate::model::verdict::{AuthorityLevel, SourceState};

/// Every source and session, and who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScanBody {
    /// What was asked for.
    pub scan_scope: ScanScope,
    /// Time used and allowed.
    pub budget: BudgetBlock,
    /// What is wrong with a whole, or could not be looked at; the worst first.
    pub problems: Vec<ProblemEntry>,
    /// Warnings and problems by severity.
    pub findings_summary: FindingsSummary,
    /// The sources.
    pub source_inventory: SourceInventory,
    /// Who holds the sessions, in numbers.
    pub coverage_summary: CoverageSummary,
    /// The mirror.
    pub raw_mirror: MirrorBlock,
    /// The sessions whose holders are worth a word, the worst first.
    pub sole_copy_warnings: Vec<HolderWarning>,
    /// The same in numbers.
    pub sole_copy_warnings_by_code: Vec<CodeCount>,
    /// Where the list goes on.
    pub sole_copy_warnings_page: PageBlock,
    /// Every session and who holds it, by id.
    pub sessions: Vec<SessionItem>,
    /// Where the list goes on.
    pub sessions_page: PageBlock,
    /// What would be believed if a repair were planned now, and why the others would not.
    pub source_authority: LadderBlock,
    /// What the settings hide or leave out.
    pub config_exclusion_risks: Vec<ConfigRisk>,
    /// How many there are.
    pub config_exclusion_risks_total: u64,
    /// Other machines.
    pub remote_source_sync: RemoteBlock,
    /// Sessions that a harness's own history names and that nothing holds.
    pub missing_sessions: Vec<MissingSession>,
    /// Where the list goes on.
    pub missing_sessions_page: PageBlock,
    /// The histories that were read for it.
    pub missing_sessions_evidence: HistoryBlock,
    /// Where the rest is.
    pub detail: DetailBlock,
}

impl Body for ScanBody {
    const NAME: &'static str = "doctor-archive-scan";
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ScanScope {
    /// This harness alone; null for all.
    pub agent: Option<Provider>,
    /// Sources in this state alone are listed; null for all.
    pub state: Option<String>,
    /// Rows of each list at most.
    pub limit: u64,
    /// Where one list went on from; null on the first page.
    pub cursor: Option<String>,
    /// Whether every captured byte was read; else captures count whose objects are in place.
    pub deep: bool,
    /// How long the document may be.
    pub detail: DetailLevel,
    /// The severity from which on the exit is `health-failure`.
    pub fail_on: FailOnLevel,
    /// Whether everything was looked at. When not, numbers are of what was.
    pub complete: bool,
    /// The parts that did not come to their end, because of the budget, a signal or a failure.
    pub unfinished: Vec<ScanPart>,
}

/// Something that is wrong with a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProblemEntry {
    /// What it is, kebab-case and stable.
    pub code: String,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence for people.
    pub message: String,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageBlock {
    /// Rows of the whole list.
    pub total: u64,
    /// Rows in this document.
    pub shown: u64,
    /// Whether rows follow.
    pub truncated: bool,
    /// The command that shows the next page; null on the last, and where the data directory's name
    /// can't be written in an argument vector.
    pub next_argv: Option<Vec<String>>,
}

/// The sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SourceInventory {
    /// Whether the archive could be read.
    pub db_available: bool,
    /// Sources that are there, were captured or were read.
    pub total: u64,
    /// The same by state.
    pub by_state: StateCounts,
    /// The harnesses that are installed or have sources here, in the order of the id.
    pub providers: Vec<ProviderScanBlock>,
    /// The others: `provider-not-installed`.
    pub not_installed: Vec<Provider>,
    /// One page of the sources: what is worse comes first, then by key.
    pub sources: Vec<SourceItem>,
    /// Where the list goes on.
    pub sources_page: PageBlock,
}

/// Sources by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StateCounts {
    /// Captured and read as they are now.
    #[serde(skip_serializing_if = "is_zero")]
    pub ok: u64,
    /// New, grown or changed since.
    #[serde(skip_serializing_if = "is_zero")]
    pub newer_than_archive: u64,
    /// Gone.
    #[serde(skip_serializing_if = "is_zero")]
    pub pruned: u64,
    /// Without a byte.
    #[serde(skip_serializing_if = "is_zero")]
    pub empty: u64,
    /// Not to be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// Not looked for: excluded, on another machine, below a root that is missing.
    #[serde(skip_serializing_if = "is_zero")]
    pub out_of_sight: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl StateCounts {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ok
            + self.newer_than_archive
            + self.pruned
            + self.empty
            + self.unreadable
            + self.out_of_sight
    }
}

/// The sources of one harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProviderScanBlock {
    /// The harness.
    pub provider: Provider,
    /// The worst state of its sources, or why there are none.
    pub state: SourceState,
    /// Its sources by state.
    pub by_state: StateCounts,
    /// Days for which it keeps a session after the last change; absent when it never prunes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention_days: Option<u64>,
    /// Whether a setting says so; else it is the harness's default.
    pub retention_configured: bool,
    /// Session files that are not captured as they are now.
    pub uncaptured_sessions: u64,
    /// Of these, the ones that the harness may prune at once.
    pub overdue_sessions: u64,
    /// Sources with places that hold no record (`sources.log-health`).
    pub damaged_sources: u64,
    /// Days until the first of these is pruned, 0 when it is overdue; absent when none will be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_until_first_loss: Option<u64>,
    /// Days until the first captured session is pruned upstream; nothing is lost then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_until_next_prune: Option<u64>,
}

/// Who holds the sessions, in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CoverageSummary {
    /// What the numbers rest on.
    pub confidence_tier: Confidence,
    /// Conversations that the archive or the coverage ledger knows.
    pub conversations: u64,
    /// Conversations in the archive.
    pub archive_conversation_count: u64,
    /// Messages in the archive.
    pub archived_message_count: u64,
    /// Conversations of which the archive has all that was promised.
    pub archive_complete: u64,
    /// Conversations of which readable captures have all records.
    pub mirror_complete: u64,
    /// Conversations of which live sources have all records.
    pub live_complete: u64,
    /// Conversations of which live sources may have all records: the number is an upper bound.
    pub live_possible: u64,
    /// Distinct records by conversation, hash and occurrence, in all conversations.
    pub records: RecordTotals,
    /// Harnesses with a source.
    pub provider_count: u64,
    /// Sources that are there, were captured or were read.
    pub source_identity_count: u64,
    /// Sources that are there.
    pub visible_current_source_count: u64,
    /// Bytes of them.
    pub visible_current_source_bytes: u64,
    /// Captured or read sources that are gone.
    pub missing_current_source_count: u64,
    /// Sources that are newer than the archive or unknown to it.
    pub current_source_newer_than_archive_count: u64,
    /// Sources of other machines.
    pub remote_source_count: u64,
    /// Captured sources.
    pub mirror_source_count: u64,
    /// Captured sources whose newest capture can't be read.
    pub mirror_unreadable_count: u64,
    /// Sources that the archive read and the mirror does not have.
    pub db_without_raw_mirror_count: u64,
    /// Captured session sources that the archive never read.
    pub mirror_without_db_link_count: u64,
    /// Sessions whose live sources do not hold all of them any more.
    pub sole_copy_candidate_count: u64,
    /// Time of the first record, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub earliest_started_at: Option<String>,
    /// Time of the last record, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_ended_at: Option<String>,
}

/// What numbers rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Every captured byte was read.
    Verified,
    /// Rows were counted, and captures count whose objects are in place.
    InPlace,
    /// A part could not be looked at.
    Partial,
}

/// Records by holder, over all conversations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RecordTotals {
    /// In the archive.
    pub archived: u64,
    /// Promised by the coverage ledger.
    pub promised: u64,
    /// In readable captures.
    pub mirror: u64,
    /// In live sources; at most so many when `live_possible` is not 0.
    pub live: u64,
}

/// How many sessions have one kind of warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CodeCount {
    /// The kind.
    pub code: HolderCode,
    /// How bad it is.
    pub severity: Severity,
    /// Sessions.
    pub count: u64,
}

/// What would be believed. `authority_level` and `decision` hold the same value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LadderBlock {
    /// The best readable holder.
    pub authority_level: AuthorityLevel,
    /// The same.
    pub decision: AuthorityLevel,
    /// The candidate that is taken; null when there is none.
    pub selected_authority: Option<String>,
    /// All candidates, the best class first.
    pub candidates: Vec<CandidateEntry>,
    /// The ones that would not do.
    pub rejected_authorities: Vec<RejectedEntry>,
}

/// One candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CandidateEntry {
    /// What it is.
    pub authority: String,
    /// What it is believed as.
    pub level: AuthorityLevel,
    /// What became of it.
    pub verdict: Verdict,
    /// Why; of a rejected one `rejected_authorities` says it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// One candidate that would not do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RejectedEntry {
    /// What it is.
    pub authority: String,
    /// Why it would not do.
    pub reason: String,
}

/// The histories that were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HistoryBlock {
    /// Captured files.
    pub captured: u64,
    /// Live files that changed since they were captured, or never were.
    pub live: u64,
    /// Files that could not be read, or not to their end.
    pub unreadable: u64,
    /// Whether more names were met than could be compared, so that the total is too low.
    pub total_is_lower_bound: bool,
}
