//! What a mutating command leaves behind: an intent before its first effect, events as it goes, one
//! receipt after its last, and a failure context with a marker when it fails.
//!
//! All of it is written under the writer lock and only ever added to. The intent and the receipt of
//! a run have the same file name; an intent without a receipt is a run that was killed.

mod event;
mod failure;
mod finish;
mod intent;
mod log_file;
mod probe;
mod quarantine;
mod receipt;

pub use event::{Event, EventLog, events};
pub use failure::{
    FORMAT as FAILURE_FORMAT, Failure, Marker, MarkerState, clear_marker, marker, read_failure,
    record_failure,
};
pub use finish::{
    Attempt, Completed, Finished, close, complete_promotion, coverage_in, coverage_of,
    finish_interrupted, given_back,
};
pub use intent::{
    FORMAT as INTENT_FORMAT, Intent, Purpose, Target, open_intents, read_intent,
    write as write_intent,
};
pub use log_file::{temp_of, was_written};
pub use probe::{Probe, probe};
pub use quarantine::{moved_by, put_aside, put_back};
pub use receipt::{
    ActionOutcome, FORMAT as RECEIPT_FORMAT, Moved, OutcomeWord, Receipt, RunStatus, path_of,
    read_receipt, receipt_of, receipts, was_rehearsed, with_receipt, write_receipt,
};

use serde::{Deserialize, Serialize};

/// Names one run.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// A new one. Later ones sort behind earlier ones of the same clock.
    #[must_use]
    pub fn fresh() -> Self {
        RunId(format!("run-{}", uuid::Uuid::now_v7()))
    }

    /// The id, if `text` is one. Only such text becomes a file name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let uuid = text.strip_prefix("run-")?;
        let known = uuid.len() == 36
            && uuid
                .bytes()
                .all(|b| b == b'-' || b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        known.then(|| RunId(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn file(&self) -> String {
        format!("{}.json", self.0)
    }
}

impl std::fmt::Display for RunId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RunId {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        RunId::parse(&text).ok_or_else(|| format!("{text:?} is no run id"))
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> String {
        id.0
    }
}
