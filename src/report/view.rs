//! The document of `view`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Body;
use super::export::ExportMessage;
use super::sessions::SessionRow;
use crate::model::path::PathText;
use crate::model::record::SkipReason;

/// A page of one session, in reading order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ViewBody {
    /// The session.
    pub session: SessionRow,
    /// Number of the first message that was asked for, from 1.
    pub from: u64,
    /// The messages of this page.
    pub messages: Vec<ViewMessage>,
    /// How many messages can be read; superseded versions only with `--all`.
    pub messages_total: u64,
    /// Number of the first message behind this page; null when there is none.
    pub next_from: Option<u64>,
    /// Where bytes between the messages of this page could be read as no record; at most 100.
    pub damage: Vec<ViewDamage>,
    /// How many such places the session's files have.
    pub damage_total: u64,
}

impl Body for ViewBody {
    const NAME: &'static str = "view";
}

/// One message of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ViewMessage {
    /// Its place in the session, from 1.
    pub position: u64,
    /// Bytes of the whole text.
    pub text_bytes: u64,
    /// Whether `text` is only the beginning; `--raw` gives the whole.
    pub shortened: bool,
    /// The message.
    #[serde(flatten)]
    pub message: ExportMessage,
}

/// Bytes that no parser could read. They are in the mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ViewDamage {
    /// Number of the message that follows; null behind the last one.
    pub before: Option<u64>,
    /// Source key.
    pub key: String,
    /// The file.
    #[serde(flatten)]
    pub path: PathText,
    /// Line of the first byte, counted from 1.
    pub line: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Why.
    pub reason: SkipReason,
}
