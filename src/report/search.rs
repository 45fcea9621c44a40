//! The document of `search`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};

use super::envelope::{Body, OperationOutcome, OutcomeKind, Report, Site, Status};
use super::session_of::message_id;
use super::time::rfc3339;
use crate::error::{Error, ErrorKind};
use crate::exit::ExitCodeKind;
use crate::model::finding::RiskLevel;
use crate::model::next::{Next, NextId};
use crate::model::path::PathText;
use crate::model::provider::Provider;
use crate::model::record::{MessageKind, Role};
use crate::store::archive::PlacedMessage;
use crate::store::lexical::{Ranking, Rule, Snippet, State};

/// Characters of a neighbouring message that are shown.
const CONTEXT_CHARS: usize = 400;

/// Messages that hold every word of a query, the best first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchBody {
    /// The query as it was given.
    pub query: String,
    /// In the order of `ranking.rule`; of equals the newest first.
    pub hits: Vec<Hit>,
    /// How many messages match, those of earlier pages included. In an index of more than 10,000
    /// messages it counts 2,000 further than the pages of the 2,000 matches before these.
    pub total: u64,
    /// Whether more messages match or may match: older ones were not counted, or the index does not
    /// know all messages yet.
    pub total_is_lower_bound: bool,
    /// How matches were ranked and counted.
    pub ranking: RankingBlock,
    /// `--cursor` for the next page; null when this is the last one. A page may have fewer hits than
    /// `--limit` and still not be the last.
    pub next_cursor: Option<String>,
    /// The index that was asked.
    pub lexical: LexicalBlock,
    /// How the query was read. Only with `--explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<ExplainBlock>,
}

impl Body for SearchBody {
    const NAME: &'static str = "search";
}

/// What the order of hits goes by. The newest message is the one that was archived last, whatever
/// time it bears.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RankRule {
    /// The best first by BM25, of everything that matches.
    #[default]
    Best,
    /// The best first by BM25, of the newest 2,000 matches; then of the 2,000 before them, and so
    /// on.
    BestOfNewest,
    /// The newest first: so many messages hold these words that they tell none apart.
    Newest,
}

/// How matches were ranked and counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RankingBlock {
    /// The order of the list.
    pub rule: RankRule,
    /// Matches that were ranked together, among them these hits: 2,000 at most in an index of more
    /// than 10,000 messages.
    pub ranked: u64,
    /// How many messages match, as the newest part of the index lets one expect; the number itself
    /// when all were counted.
    pub total_estimate: u64,
    /// Clauses that a message must hold and that had no part in its score: words that very many
    /// messages hold, and beginnings of words beside words. None in an index of up to 10,000
    /// messages, superseded ones counted.
    pub unweighed: Vec<String>,
}

impl From<Ranking> for RankingBlock {
    fn from(r: Ranking) -> RankingBlock {
        RankingBlock {
            rule: match r.rule {
                Rule::Best => RankRule::Best,
                Rule::BestOfNewest => RankRule::BestOfNewest,
                Rule::Newest => RankRule::Newest,
            },
            ranked: r.ranked,
            total_estimate: r.estimate,
            unweighed: r.unweighed,
        }
    }
}

impl RankRule {
    /// A sentence's part, for people.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            RankRule::Best => "bm25, then the newest",
            RankRule::BestOfNewest => {
                "bm25, of 2,000 matches at a time, the last archived ones first"
            }
            RankRule::Newest => "the last archived first: very many messages hold these words",
        }
    }
}

/// The index that was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LexicalBlock {
    /// In what state it is. Only `ready` and `stale` give hits.
    pub state: LexicalState,
    /// Messages that can be found.
    pub documents: u64,
    /// Commits of the archive that it does not know yet.
    pub commits_behind: u64,
    /// Of the documents, those that can be found by their first 64 MiB alone.
    pub cut: u64,
}

/// In what state the lexical index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LexicalState {
    /// It knows every message.
    Ready,
    /// It knows an earlier commit.
    Stale,
    /// Another version of the program or another generation of the archive made it.
    Outdated,
    /// There is none.
    Missing,
    /// It was begun and not finished.
    Building,
    /// It holds other messages than it should.
    Hollow,
    /// It can't be read.
    Corrupt,
}

impl LexicalState {
    /// The word for `state`.
    #[must_use]
    pub const fn of(state: &State) -> LexicalState {
        match state {
            State::Ready => LexicalState::Ready,
            State::Stale { .. } => LexicalState::Stale,
            State::Outdated { .. } => LexicalState::Outdated,
            State::Missing => LexicalState::Missing,
            State::Building { .. } => LexicalState::Building,
            State::Hollow { .. } => LexicalState::Hollow,
            State::Corrupt { .. } => LexicalState::Corrupt,
        }
    }
}

/// How a query was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExplainBlock {
    /// What a message must hold, each as the full-text engine is asked. `p` holds the words and
    /// parts of identifiers, `*` stands behind a beginning.
    pub clauses: Vec<String>,
    /// Words that were left out, because there were too many.
    pub words_left_out: u64,
    /// Not before, RFC 3339.
    pub since: Option<String>,
    /// Before, RFC 3339.
    pub until: Option<String>,
    /// How hits are ordered.
    pub order: String,
}

/// One message that matches, or the fields of it that were asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// All there is.
    pub all: SearchHit,
    /// Names of the fields that are written; all when empty.
    pub fields: Vec<String>,
}

impl Serialize for Hit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.fields.is_empty() {
            return self.all.serialize(serializer);
        }
        let mut value = serde_json::to_value(&self.all).map_err(S::Error::custom)?;
        if let Some(map) = value.as_object_mut() {
            map.retain(|name, _| self.fields.iter().any(|f| f == name));
        }
        value.serialize(serializer)
    }
}

impl JsonSchema for Hit {
    fn schema_name() -> Cow<'static, str> {
        "Hit".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = SearchHit::json_schema(generator);
        // `--fields` leaves out any of them.
        schema.remove("required");
        schema
    }
}

/// One message that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchHit {
    /// Place in the whole list, counted from 1.
    pub rank: u64,
    /// How well it matches, in thousandths of BM25: the larger, the better. 0 under the rule
    /// `newest`.
    pub score_milli: i64,
    /// Id of the session, the same after every rebuild.
    pub session_id: String,
    /// Id of the session in its harness.
    pub native_id: String,
    /// The harness.
    pub provider: Provider,
    /// Machine it comes from.
    pub source_id: String,
    /// Title of the session, when the harness keeps one.
    pub title: Option<String>,
    /// Working directory of the session.
    pub workspace: Option<String>,
    /// Id of the message, as the export has it.
    pub message_id: String,
    /// Its number in the session, from 1, as `view --from` takes it and `view` gives it. Null when
    /// damage in the archive keeps it from being counted.
    pub number: Option<u64>,
    /// The command that shows the session from this message on.
    pub view_argv: Option<Vec<String>>,
    /// Who speaks.
    pub role: Role,
    /// What it is.
    pub kind: MessageKind,
    /// Time stamp, RFC 3339.
    pub time: Option<String>,
    /// Tool name, for calls and results that name it.
    pub tool_name: Option<String>,
    /// A piece of the text, as it stands there.
    pub snippet: String,
    /// What matched in it.
    pub matches: Vec<MatchRange>,
    /// Whether text stands before the piece.
    pub cut_before: bool,
    /// Whether text stands behind the piece.
    pub cut_after: bool,
    /// Where the message lies in its source.
    pub position: Position,
    /// Where the source is or was.
    pub source_path: String,
    /// Whether the source is still there; null for one of another machine. Its bytes are in the
    /// mirror either way.
    pub source_exists: Option<bool>,
    /// Messages of the session around it. Only with `--context`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextBlock>,
}

/// The names of all fields of a hit.
pub const FIELDS: [&str; 23] = [
    "rank",
    "score_milli",
    "session_id",
    "native_id",
    "provider",
    "source_id",
    "title",
    "workspace",
    "message_id",
    "number",
    "view_argv",
    "role",
    "kind",
    "time",
    "tool_name",
    "snippet",
    "matches",
    "cut_before",
    "cut_after",
    "position",
    "source_path",
    "source_exists",
    "context",
];

/// A range of a snippet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MatchRange {
    /// First character (Unicode scalar value), counted from 0.
    pub start: u64,
    /// The character behind the last one.
    pub end: u64,
}

/// Where a message lies in its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Position {
    /// Source key.
    pub source: String,
    /// Capture in which it was first seen.
    pub seq: u64,
    /// First byte of its record, after decompression.
    pub offset: u64,
    /// Bytes of its record.
    pub len: u64,
    /// Line of its record, counted from 1.
    pub line: u64,
    /// Which message of the record it is, counted from 0.
    pub part: u64,
}

/// Messages around a hit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContextBlock {
    /// The ones before, in the order of the session.
    pub before: Vec<ContextMessage>,
    /// The ones behind.
    pub after: Vec<ContextMessage>,
}

/// A message near a hit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ContextMessage {
    /// Id of the message.
    pub message_id: String,
    /// Who speaks.
    pub role: Role,
    /// What it is.
    pub kind: MessageKind,
    /// Time stamp, RFC 3339.
    pub time: Option<String>,
    /// Its text, up to 400 characters.
    pub text: String,
    /// Whether the text goes on.
    pub cut: bool,
}

impl From<&PlacedMessage> for ContextMessage {
    fn from(m: &PlacedMessage) -> ContextMessage {
        let text = &m.message.message.text;
        let end = text
            .char_indices()
            .nth(CONTEXT_CHARS)
            .map_or(text.len(), |(at, _)| at);
        ContextMessage {
            message_id: message_id(&m.message.record_hash, m.message.occurrence, m.message.part),
            role: m.message.message.role,
            kind: m.message.message.kind,
            time: m.message.time_ms.and_then(rfc3339),
            text: text.get(..end).unwrap_or_default().to_owned(),
            cut: end < text.len(),
        }
    }
}

impl SearchHit {
    /// The hit in message `m`.
    #[must_use]
    pub fn new(m: PlacedMessage, snippet: Snippet, score: f64) -> SearchHit {
        let n = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let (c, a) = (m.conversation, m.message);
        SearchHit {
            rank: 0,
            // BM25 is negative, the better the smaller.
            #[allow(clippy::cast_possible_truncation)]
            score_milli: (score * -1000.0).round() as i64,
            session_id: c.id,
            native_id: c.native_id,
            provider: c.provider,
            source_id: c.source_id,
            title: c.title,
            workspace: c.workspace,
            message_id: message_id(&a.record_hash, a.occurrence, a.part),
            number: None,
            view_argv: None,
            role: a.message.role,
            kind: a.message.kind,
            time: a.time_ms.and_then(rfc3339),
            tool_name: a.message.tool_name,
            matches: snippet
                .matches
                .iter()
                .map(|(start, end)| MatchRange {
                    start: n(*start),
                    end: n(*end),
                })
                .collect(),
            snippet: snippet.text,
            cut_before: snippet.cut_before,
            cut_after: snippet.cut_after,
            position: Position {
                source: a.source.to_string(),
                seq: a.seq,
                offset: a.span.offset,
                len: a.span.len,
                line: m.line,
                part: a.part,
            },
            source_path: PathText::new(&m.source.path).path,
            source_exists: None,
            context: None,
        }
    }
}

/// What to say where the index can't answer. `noticed` is false where only this command saw it, so
/// that a plain `index` would not.
#[must_use]
pub fn unavailable(state: &State) -> Error {
    let what = match state {
        State::Ready | State::Stale { .. } => "can't be asked".to_owned(),
        State::Missing => "is not there".to_owned(),
        State::Building { .. } => "is not finished".to_owned(),
        State::Outdated { why } => format!("can't be used: {why}"),
        State::Hollow { found, expected } => {
            format!("is incomplete: it holds {found} of {expected} messages")
        }
        State::Corrupt { why } => format!("is damaged: {why}"),
    };
    Error::new(
        ErrorKind::LexicalUnavailable,
        format!("the search index {what}"),
    )
    .with_hint("Nothing is lost: it is made again from the archive.")
}

/// The document, from what was found. `error`: why the index gave nothing; `cure` puts it right;
/// `more` is the next page.
#[must_use]
pub fn search_report(
    body: SearchBody,
    error: Option<&Error>,
    cure: Next,
    more: Option<Next>,
    site: &Site,
) -> Report<SearchBody> {
    let (status, kind, behind) = match body.lexical.state {
        LexicalState::Ready => (Status::Ok, OutcomeKind::OkNoActionNeeded, false),
        _ => (Status::Warn, OutcomeKind::OkReadOnlyDiagnosed, true),
    };
    let outcome = OperationOutcome::new(kind, ExitCodeKind::Success);
    let ill = behind || error.is_some();
    let next: Vec<Next> = ill.then_some(cure).into_iter().chain(more).collect();
    let mut report = Report::new(status, outcome, body).recommending(&next, site);
    if ill {
        report.risk_level = RiskLevel::Low;
    } else {
        // A useful command, and still nothing that has to be done.
        report.recommended_action = NextId::None;
    }
    match error {
        None => report,
        Some(e) => {
            let mut report = report.failing_keeping_next(e, site);
            report.risk_level = RiskLevel::Low;
            report
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_has_its_name_in_the_list() {
        let mut generator = schemars::generate::SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator();
        let schema = SearchHit::json_schema(&mut generator).to_value();
        let mut names: Vec<&str> = schema["properties"]
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut list = FIELDS;
        names.sort_unstable();
        list.sort_unstable();
        assert_eq!(names, list);
    }
}
