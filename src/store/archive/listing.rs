//! Which conversations are meant.

use rusqlite::types::Value;

use super::rows::to_i64;
use crate::model::provider::Provider;

/// Which conversations to list or to count. Listed the newest first, by the time of their last
/// record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Only of this harness.
    pub provider: Option<Provider>,
    /// Only of this machine.
    pub source_id: Option<String>,
    /// Only with this working directory or one below it.
    pub workspace: Option<String>,
    /// Only with a record at this time or later, milliseconds since the Unix epoch.
    pub since_ms: Option<i64>,
    /// Only with a record before this time.
    pub until_ms: Option<i64>,
    /// Only the one with this id.
    pub id: Option<String>,
    /// How many at most.
    pub limit: Option<u64>,
    /// How many to leave out first.
    pub offset: u64,
}

/// The condition on rows of `conversations`; its parameters are [`Listing::params`]. A conversation
/// that was made up, and of which everything was read again under its name, is meant by its id alone.
pub(super) const WHERE: &str = "WHERE (?1 IS NULL OR provider=?1) AND (?2 IS NULL OR source_id=?2) \
     AND (?3 IS NULL OR workspace=?3 OR substr(workspace,1,length(?3)+1)=?3||'/') \
     AND (?4 IS NULL OR ended_ms>=?4) AND (?5 IS NULL OR started_ms<?5) \
     AND (?6 IS NULL AND NOT (substr(native_id,1,21)='unknown/conversation-' \
     AND NOT EXISTS (SELECT 1 FROM records r WHERE r.conversation=conversations.id \
     AND r.duplicate_of IS NULL \
     AND NOT EXISTS (SELECT 1 FROM records v WHERE v.supersedes=r.id))) OR public_id=?6)";

impl Listing {
    /// Whether every conversation is meant.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        let of = Listing {
            limit: self.limit,
            offset: self.offset,
            ..Listing::default()
        };
        *self == of
    }

    /// The parameters of [`WHERE`].
    pub(super) fn params(&self) -> Vec<Value> {
        let text = |t: Option<&str>| t.map_or(Value::Null, |t| Value::Text(t.to_owned()));
        let number = |n: Option<i64>| n.map_or(Value::Null, Value::Integer);
        let workspace = self.workspace.as_deref().map(|w| {
            if w.len() > 1 {
                w.trim_end_matches('/')
            } else {
                w
            }
        });
        [
            text(self.provider.map(Provider::as_str)),
            text(self.source_id.as_deref()),
            text(workspace),
            number(self.since_ms),
            number(self.until_ms),
            text(self.id.as_deref()),
        ]
        .into()
    }

    /// As [`Listing::params`], then limit and offset.
    pub(super) fn paged(&self) -> Vec<Value> {
        let mut params = self.params();
        let limit = self.limit.map_or(-1, to_i64);
        params.push(Value::Integer(limit));
        params.push(Value::Integer(to_i64(self.offset)));
        params
    }
}
