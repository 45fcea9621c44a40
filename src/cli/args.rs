//! The command line as types.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

use super::moment::Moment;
use crate::model::finding::CheckId;
use crate::model::provider::Provider;
use crate::model::record::Role;
use crate::model::scan::Cursor;
use crate::report::search::FIELDS;

/// Keeps the sessions of coding agents safe: captures the raw bytes, indexes them into an archive,
/// and says what is safe and what is not.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "cass",
    version,
    max_term_width = 80,
    disable_help_subcommand = false
)]
#[command(subcommand_required = true, arg_required_else_help = false)]
#[command(
    after_help = "Every command takes --json and then prints one JSON document. Start with: cass index"
)]
pub struct Cli {
    /// For every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// For every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "For every command")]
pub struct Global {
    /// Data directory [default: $CASS_DATA_DIR, else `cass` in the platform's data folder]
    #[arg(long, value_name = "DIR", global = true)]
    pub data_dir: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long, visible_alias = "robot", global = true, overrides_with = "json")]
    pub json: bool,
    /// Print no text for people; errors still go to stderr
    #[arg(long, short, global = true, overrides_with = "quiet")]
    pub quiet: bool,
    /// When to colour text for people
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorWhen::Auto, global = true)]
    pub color: ColorWhen,
    /// How to show progress, on stderr
    #[arg(long, value_name = "HOW", value_enum, default_value_t = ProgressHow::Auto, global = true)]
    pub progress: ProgressHow,
}

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How to show progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ProgressHow {
    /// One line that is rewritten, on a terminal; nothing elsewhere
    Auto,
    /// A line now and then
    Plain,
    /// Nothing
    None,
}

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Capture what is new in the harnesses' session files and bring the archive up to date
    Index(IndexArgs),
    /// Say what is safe and what is not
    Doctor(DoctorArgs),
    /// List and show sessions
    #[command(subcommand)]
    Sessions(SessionsCommand),
    /// Find messages by their words
    Search(SearchArgs),
    /// Say which models there are
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Read one session: who said what, in order, a page at a time
    View(ViewArgs),
    /// Count what the archive holds
    Stats(StatsArgs),
    /// Hand out one session: its files byte for byte, or its messages
    Export(ExportArgs),
    /// Look into the raw mirror
    #[command(subcommand)]
    Mirror(MirrorCommand),
    /// Show the state in a few fields, fast
    Health,
    /// Describe every command, document, exit and error kind
    Introspect(IntrospectArgs),
}

/// `index`
#[derive(Debug, Clone, Args)]
pub struct IndexArgs {
    /// Compare the content of every source, not only its size and time, and verify the search index
    #[arg(long)]
    pub full: bool,
    /// Leave the search index as it is
    #[arg(long)]
    pub skip_lexical: bool,
}

/// `doctor`
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct DoctorArgs {
    /// Which part of the doctor.
    #[command(subcommand)]
    pub command: Option<DoctorCommand>,
    /// Make derived data anew where that is all that is wrong; no plan has to be shown for it
    #[arg(long)]
    pub fix: bool,
    /// With --fix: make derived data anew even where it is as it should be
    #[arg(long, requires = "fix")]
    pub force_rebuild: bool,
    /// With --fix: go on although an earlier repair failed
    #[arg(long, requires = "fix")]
    pub allow_repeated_repair: bool,
    /// Without a word, `doctor` is `doctor check`.
    #[command(flatten)]
    pub check: CheckArgs,
}

/// The parts of the doctor.
#[derive(Debug, Clone, Subcommand)]
pub enum DoctorCommand {
    /// Say what is safe and what is not; changes nothing
    Check(CheckArgs),
    /// List every source and session and who holds it; changes nothing
    ArchiveScan(ScanArgs),
    /// Plan the cheapest sufficient repair, or apply the plan that was shown
    Repair(RepairArgs),
    /// Make, list, verify and restore backups of the archive
    #[command(subcommand)]
    Backups(BackupsCommand),
    /// List, show and undo what was applied
    #[command(subcommand)]
    Runs(RunsCommand),
    /// Say what is wrong with the session logs of DSH
    #[command(subcommand)]
    SessionLog(SessionLogCommand),
}

/// `doctor session-log`
#[derive(Debug, Clone, Subcommand)]
pub enum SessionLogCommand {
    /// Read logs whole and say what is wrong with each; changes nothing
    Check(SessionLogCheckArgs),
    /// Plan the repair of one log, or apply the plan that was shown
    Repair(SessionLogRepairArgs),
}

/// `doctor session-log repair`
#[derive(Debug, Clone, Args)]
pub struct SessionLogRepairArgs {
    /// A log, a store, or a folder in which one log needs a repair
    #[arg(value_name = "PATH", value_parser = not_empty())]
    pub path: OsString,
    /// Folder that becomes a sessions root with the repaired log in it
    #[arg(long, value_name = "DIR", default_value = "repaired-sessions", value_parser = clap::builder::PathBufValueParser::new())]
    pub output: PathBuf,
    /// Write over the log itself, under its locks; what it was stays in the mirror
    #[arg(long, conflicts_with = "output")]
    pub in_place: bool,
    /// The harness was ended: needed in place where its version takes no lock
    #[arg(long, requires = "in_place")]
    pub harness_stopped: bool,
    /// Close the turn that is open at the end of a log that is sound otherwise
    #[arg(long)]
    pub close_turn: bool,
    /// To apply a plan.
    #[command(flatten)]
    pub apply: ApplyArgs,
}

/// `doctor session-log check`
#[derive(Debug, Clone, Args)]
pub struct SessionLogCheckArgs {
    /// A log, a store, a session's or a project's folder, a sessions root, or a session file, folder
    /// or home of any other harness
    #[arg(value_name = "PATH", required = true, value_parser = not_empty())]
    pub paths: Vec<OsString>,
    /// Show the text of the lines around the first failure
    #[arg(long)]
    pub show_content: bool,
    /// Largest number of sessions in the list; damaged ones come into it first, totals are of all
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u64,
    /// Severity from which on the exit is 1
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
}

/// `doctor backups list`
#[derive(Debug, Clone, Args)]
pub struct BackupsListArgs {
    /// Largest number of entries; totals are of all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u64,
}

/// `doctor backups verify`
#[derive(Debug, Clone, Args)]
pub struct BackupsVerifyArgs {
    /// Id of a backup (b and eight digits) or of a sealed generation (g and eight digits)
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
    /// Read every row of its archive too
    #[arg(long)]
    pub deep: bool,
}

/// `doctor archive-scan`
#[derive(Debug, Clone, Args)]
pub struct ScanArgs {
    /// Milliseconds after which it ends with what it has [default: none]
    #[arg(long, value_name = "N")]
    pub budget_ms: Option<u64>,
    /// This harness alone
    #[arg(long, value_name = "P", value_parser = provider())]
    pub agent: Option<Provider>,
    /// List the sources in this state alone; totals are of all
    #[arg(long, value_name = "STATE", value_enum)]
    pub state: Option<StateWord>,
    /// Rows of each list [default: 10; 500 with --detail full]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: Option<u32>,
    /// Go on with one list where a document before ended
    #[arg(long, value_name = "CURSOR", value_parser = |text: &str| text.parse::<Cursor>())]
    pub cursor: Option<Cursor>,
    /// How long the document may be: brief stays below 12 KiB
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Detail::Brief)]
    pub detail: Detail,
    /// Read and verify every captured byte
    #[arg(long)]
    pub deep: bool,
    /// Severity from which on the exit is 1
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
}

/// State of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateWord {
    /// Captured and read as it is now
    Ok,
    /// New, grown or changed since
    NewerThanArchive,
    /// Gone
    Pruned,
    /// Without a byte
    Empty,
    /// Not to be read
    Unreadable,
    /// Not looked for
    OutOfSight,
}

/// `doctor check`
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Milliseconds after which it ends with what it has [default: 8000; none with --deep]
    #[arg(long, value_name = "N")]
    pub budget_ms: Option<u64>,
    /// Read and verify everything
    #[arg(long)]
    pub deep: bool,
    /// Keep the result as a dated attestation in the data directory
    #[arg(long, requires = "deep")]
    pub record: bool,
    /// Run this check alone; may be repeated
    #[arg(long, value_name = "ID", value_parser = check_id())]
    pub only: Vec<CheckId>,
    /// Leave this check out; may be repeated
    #[arg(long, value_name = "ID", value_parser = check_id())]
    pub skip: Vec<CheckId>,
    /// Severity from which on the exit is 1
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = FailOn::Error)]
    pub fail_on: FailOn,
    /// How long the document may be: brief stays below 6 KiB
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Detail::Brief)]
    pub detail: Detail,
    /// Leave out what depends on time and free space
    #[arg(long)]
    pub deterministic: bool,
}

/// For every planned command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "To apply a plan")]
pub struct ApplyArgs {
    /// Only show the plan; this is what happens without --yes
    #[arg(long, conflicts_with = "yes")]
    pub dry_run: bool,
    /// Apply the plan that was shown
    #[arg(long)]
    pub yes: bool,
    /// The fingerprint of the plan that was shown
    #[arg(long, value_name = "FP")]
    pub plan_fingerprint: Option<String>,
    /// The JSON document of the dry run: a refusal then lists what moved
    #[arg(long, value_name = "FILE", requires = "yes")]
    pub plan_file: Option<PathBuf>,
    /// How long lists are
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Detail::Brief)]
    pub detail: Detail,
    /// Leave out what depends on time and free space
    #[arg(long)]
    pub deterministic: bool,
}

/// `doctor repair`
#[derive(Debug, Clone, Args)]
pub struct RepairArgs {
    /// Another data directory or a database: its verified rows are taken as well
    #[arg(long, value_name = "PATH", value_parser = clap::builder::PathBufValueParser::new())]
    pub from: Option<PathBuf>,
    /// Repeat a repair although an earlier one failed
    #[arg(long)]
    pub allow_repeated_repair: bool,
    /// To apply a plan.
    #[command(flatten)]
    pub apply: ApplyArgs,
}

/// `doctor backups`
#[derive(Debug, Clone, Subcommand)]
pub enum BackupsCommand {
    /// List the backups and the sealed generations, the newest first; changes nothing
    List(BackupsListArgs),
    /// Compare one with what its manifest or seal says of it; changes nothing
    Verify(BackupsVerifyArgs),
    /// Back up the archive
    Create(BackupsCreateArgs),
    /// Rehearse a restore, or apply the one that was rehearsed
    Restore(BackupsRestoreArgs),
}

/// `doctor backups create`
#[derive(Debug, Clone, Args)]
pub struct BackupsCreateArgs {
    /// Your words for it
    #[arg(long, value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub label: Option<String>,
    /// To apply a plan.
    #[command(flatten)]
    pub apply: ApplyArgs,
}

/// `doctor backups restore`
#[derive(Debug, Clone, Args)]
pub struct BackupsRestoreArgs {
    /// Backup id, or the id of a sealed generation
    #[arg(value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub id: String,
    /// Keep what is newer than the backup: it is read into the restored archive
    #[arg(long)]
    pub keep_newer: bool,
    /// To apply a plan.
    #[command(flatten)]
    pub apply: ApplyArgs,
}

/// `doctor runs`
#[derive(Debug, Clone, Subcommand)]
pub enum RunsCommand {
    /// List what was applied, the newest first
    List(RunsListArgs),
    /// Show one run: its receipt, its steps, how to go back
    Show(RunsShowArgs),
    /// Plan going back to what was there before a run, or apply that plan
    Undo(RunsUndoArgs),
}

/// `doctor runs list`
#[derive(Debug, Clone, Args)]
pub struct RunsListArgs {
    /// How many
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u64,
}

/// `doctor runs show`
#[derive(Debug, Clone, Args)]
pub struct RunsShowArgs {
    /// The run, or `latest`
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    pub run: String,
}

/// `doctor runs undo`
#[derive(Debug, Clone, Args)]
pub struct RunsUndoArgs {
    /// The run, or `latest`
    #[arg(value_name = "RUN", value_parser = NonEmptyStringValueParser::new())]
    pub run: String,
    /// To apply a plan.
    #[command(flatten)]
    pub apply: ApplyArgs,
}

/// Severity from which on the exit is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Any finding
    Info,
    /// Warnings and errors
    Warn,
    /// Errors
    Error,
    /// No finding
    Never,
}

/// How long the document may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Detail {
    /// Short; lists are cut and say so
    Brief,
    /// All lists are complete, or long pages of them
    Full,
}

/// `sessions`
#[derive(Debug, Clone, Subcommand)]
pub enum SessionsCommand {
    /// List sessions, the newest first
    List(SessionsListArgs),
    /// Show one session and what became of every byte of its files
    Show(SessionsShowArgs),
    /// Put the files of one session back, byte for byte; without a target only say what would be put where
    Restore(SessionsRestoreArgs),
}

/// `sessions list`
#[derive(Debug, Clone, Args)]
pub struct SessionsListArgs {
    /// Largest number of sessions
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: u64,
    /// Every session, however many there are
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// How many of the newest to leave out
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub offset: u64,
    /// Which sessions.
    #[command(flatten)]
    pub which: Which,
}

/// Which sessions are meant.
#[derive(Debug, Clone, Args)]
pub struct Which {
    /// Sessions of this harness alone
    #[arg(long, visible_alias = "agent", value_name = "P", value_parser = provider())]
    pub provider: Option<Provider>,
    /// Sessions that worked in this folder or below it alone
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
    /// Sessions used since this day (2026-01-31), time (RFC 3339) or age (12h, 7d, 2w) alone
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    pub since: Option<Moment>,
    /// Sessions begun until then alone, likewise; a day counts whole
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    pub until: Option<Moment>,
}

/// `stats`
#[derive(Debug, Clone, Args)]
pub struct StatsArgs {
    /// Which sessions.
    #[command(flatten)]
    pub which: Which,
    /// This session alone, named as everywhere
    #[arg(long, value_name = "SESSION", value_parser = not_empty())]
    pub session: Option<OsString>,
    /// What to count sessions by
    #[arg(long, value_name = "PERIOD", value_enum, default_value_t = By::Month)]
    pub by: By,
    /// How many of the tools to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub tools: u64,
}

/// A length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// The day on which they began
    Day,
    /// The month in which they began
    Month,
}

/// `sessions show`
#[derive(Debug, Clone, Args)]
pub struct SessionsShowArgs {
    /// The session: its id, the harness's own id, the first characters of either (six or more), or
    /// the path of its file
    #[arg(value_name = "SESSION", value_parser = not_empty())]
    pub id: OsString,
}

/// `search`
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "A message must hold every word. \"Quotes\" make a phrase, a closing * makes a \
                  beginning; everything else is text. Put -- before a query that begins with a dash."
)]
pub struct SearchArgs {
    /// The words
    #[arg(value_name = "QUERY", required = true)]
    pub query: Vec<String>,
    /// Sessions of this harness alone
    #[arg(long, visible_alias = "provider", value_name = "P", value_parser = provider())]
    pub agent: Option<Provider>,
    /// Sessions whose working directory is this folder or lies below it
    #[arg(long, value_name = "PATH")]
    pub workspace: Option<PathBuf>,
    /// Sessions of this machine alone; `local` is this one
    #[arg(long, value_name = "ID")]
    pub source: Option<String>,
    /// Messages of this speaker alone
    #[arg(long, value_name = "ROLE", value_parser = role())]
    pub role: Option<Role>,
    /// Not before: a day (2026-01-31), a time (2026-01-31T12:00:00Z), or how long ago (36h, 7d, 2w)
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    pub since: Option<Moment>,
    /// Not after, likewise; a day counts whole
    #[arg(long, value_name = "WHEN", value_parser = Moment::parse)]
    pub until: Option<Moment>,
    /// Largest number of hits
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub limit: u64,
    /// Go on behind the last page: its next_cursor, with the same query and filters
    #[arg(long, value_name = "CURSOR")]
    pub cursor: Option<String>,
    /// These fields of each hit alone, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = PossibleValuesParser::new(FIELDS))]
    pub fields: Vec<String>,
    /// With each hit, up to N messages of its session before and behind it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20))]
    pub context: Option<u32>,
    /// Say how the query was read
    #[arg(long)]
    pub explain: bool,
}

/// `models`
#[derive(Debug, Clone, Subcommand)]
pub enum ModelsCommand {
    /// Say whether a model for semantic search is there, and what is done without
    Status,
}

/// `sessions restore`
#[derive(Debug, Clone, Args)]
pub struct SessionsRestoreArgs {
    /// The session: its id, the harness's own id, the first characters of either (six or more), or
    /// the path of its file
    #[arg(value_name = "SESSION", value_parser = not_empty())]
    pub id: OsString,
    /// Number of the captured version of its file; `sessions show` lists them [default: the newest
    /// that was captured whole]
    #[arg(long = "version", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub capture: Option<u64>,
    /// Folder to put the files into, by their names in the harness's folder; never over an existing
    /// file
    #[arg(long, value_name = "DIR", conflicts_with = "into_harness")]
    pub to: Option<PathBuf>,
    /// Put the files back into the harness's own folder; never over an existing file
    #[arg(long)]
    pub into_harness: bool,
}

/// `view`
#[derive(Debug, Clone, Args)]
pub struct ViewArgs {
    /// The session: its id, the harness's own id, the first characters of either (six or more), or
    /// the path of its file
    #[arg(value_name = "SESSION", value_parser = not_empty())]
    pub id: OsString,
    /// Number of the first message to show
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub from: u64,
    /// How many messages to show [default: what fits on a page; 10 with --raw, 50 with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Show each message whole, lines as they are
    #[arg(long)]
    pub raw: bool,
    /// Show superseded versions of messages too
    #[arg(long)]
    pub all: bool,
}

/// `export`
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// The session: its id, the harness's own id, the first characters of either (six or more), or
    /// the path of its file
    #[arg(value_name = "SESSION", value_parser = not_empty())]
    pub id: OsString,
    /// What to hand out
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub format: Format,
    /// Folder (raw) or file (others) to make; never over an existing file [default: raw: a folder
    /// named by the session's id; others: stdout]
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<PathBuf>,
}

/// What to hand out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The harness's own files, byte for byte
    Raw,
    /// Messages, one JSON document
    Json,
    /// A page to read, as Markdown
    Markdown,
    /// A page to read, as one HTML file without scripts
    Html,
}

/// `mirror`
#[derive(Debug, Clone, Subcommand)]
pub enum MirrorCommand {
    /// Verify that every capture is readable
    Verify(MirrorVerifyArgs),
    /// List the captures of one source
    List(MirrorListArgs),
    /// Hand out one captured file, byte for byte
    Get(MirrorGetArgs),
}

/// `mirror verify`
#[derive(Debug, Clone, Args)]
pub struct MirrorVerifyArgs {
    /// Read every byte and compare every digest
    #[arg(long)]
    pub deep: bool,
}

/// `mirror list`
#[derive(Debug, Clone, Args)]
pub struct MirrorListArgs {
    /// Path of the source, or its key
    #[arg(value_name = "SOURCE", value_parser = not_empty())]
    pub source: OsString,
    /// Largest number of captures
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u64,
}

/// `mirror get`
#[derive(Debug, Clone, Args)]
pub struct MirrorGetArgs {
    /// Path of the source, or its key; `@N` behind it names a capture [default: the newest]
    #[arg(value_name = "SOURCE[@SEQ]", value_parser = not_empty())]
    pub source: OsString,
    /// Number of the capture; SOURCE is then taken as it is, `@` included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seq: Option<u64>,
    /// A file captured with the source, by what its name adds: -wal, -journal
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new())]
    pub member: Option<String>,
    /// File to make; never over an existing file
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

/// `introspect`
#[derive(Debug, Clone, Args)]
pub struct IntrospectArgs {
    /// The commands, exits, error kinds and checks alone
    #[arg(long, conflicts_with = "schema")]
    pub commands: bool,
    /// The schema of this document alone; may be repeated
    #[arg(long, value_name = "NAME", value_parser = schema_name())]
    pub schema: Vec<String>,
}

fn check_id() -> impl TypedValueParser<Value = CheckId> {
    PossibleValuesParser::new(CheckId::ALL.iter().map(|id| id.as_str()))
        .try_map(|text| text.parse::<CheckId>())
}

fn provider() -> impl TypedValueParser<Value = Provider> {
    PossibleValuesParser::new(Provider::ALL.iter().map(|p| p.as_str()))
        .try_map(|text| text.parse::<Provider>())
}

fn role() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(["user", "assistant", "tool", "system", "meta"])
        .try_map(|text| serde_json::from_value::<Role>(serde_json::Value::String(text)))
}

fn schema_name() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(super::catalog::SCHEMAS.iter().copied())
}

fn not_empty() -> impl TypedValueParser<Value = OsString> {
    // As a path, because that parser refuses an empty value and takes any bytes.
    clap::builder::PathBufValueParser::new().map(PathBuf::into_os_string)
}
