//! What was said already, so that a message that is written on several channels is held once.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::model::record::{Message, MessageKind, Role};

/// Messages of a turn, and calls and results of a file, that are remembered.
const REMEMBERED: usize = 128;

/// A result that is so many bytes longer than the held one of its call says more: the held one was
/// cut or came before the command had ended.
const SAYS_MORE: u64 = 1024;

/// On which way a message was written. Each way writes it once.
#[derive(Debug, Clone, Copy)]
pub(super) enum Channel {
    Response = 1,
    Event = 2,
    Item = 4,
    Compacted = 8,
}

/// The memory: bounded, and a part of the resume point.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Said {
    /// Key, offset of the record that holds it, channels it was seen on.
    texts: VecDeque<(u64, u64, u8)>,
    /// Key of call id and kind, offset of the record that holds it, bytes of its text.
    calls: VecDeque<(u64, u64, u64)>,
}

impl Said {
    /// A new turn: what was said in the last one may be said again.
    pub(super) fn new_turn(&mut self) {
        self.texts.clear();
    }

    /// Takes from `messages` what an earlier record holds and remembers the rest as held by the
    /// record at `offset`. The offset of an earlier record when nothing is left.
    pub(super) fn again(
        &mut self,
        messages: &mut Vec<Message>,
        channel: Channel,
        offset: u64,
    ) -> Option<u64> {
        let mut first = None;
        if let Some(whole) = whole_text(messages) {
            // Blocks on one channel, one text on the other.
            first = self.text(key("t", &whole), channel, offset);
            if first.is_some() {
                messages.retain(|m| m.kind != MessageKind::Text || m.role != Role::User);
            }
        }
        messages.retain(|message| {
            let held = match (message.kind, &message.call_id) {
                (MessageKind::ToolCall, Some(id)) => self.call(key("c", id), &message.text, offset),
                (MessageKind::ToolResult, Some(id)) => {
                    self.call(key("r", id), &message.text, offset)
                }
                (kind, _) => self.text(
                    key(speech(kind, message.role), &message.text),
                    channel,
                    offset,
                ),
            };
            if first.is_none() {
                first = held;
            }
            held.is_none()
        });
        first.filter(|_| messages.is_empty())
    }

    /// The offset of the record that holds the text, if another channel wrote it and this one did
    /// not yet; else it is remembered as held here.
    fn text(&mut self, key: u64, channel: Channel, offset: u64) -> Option<u64> {
        let bit = channel as u8;
        if let Some(entry) = self.texts.iter_mut().find(|e| e.0 == key && e.2 & bit == 0) {
            entry.2 |= bit;
            return Some(entry.1);
        }
        push(&mut self.texts, (key, offset, bit));
        None
    }

    fn call(&mut self, key: u64, text: &str, offset: u64) -> Option<u64> {
        let len = u64::try_from(text.len()).unwrap_or(u64::MAX);
        match self.calls.iter_mut().find(|e| e.0 == key) {
            Some(entry) if len > entry.2.saturating_add(SAYS_MORE) => {
                (entry.1, entry.2) = (offset, len);
                None
            }
            Some(entry) => Some(entry.1),
            None => {
                push(&mut self.calls, (key, offset, len));
                None
            }
        }
    }
}

/// What keeps equal texts apart that were not said by the same side in the same way.
fn speech(kind: MessageKind, role: Role) -> &'static str {
    match (kind, role) {
        (MessageKind::Text, Role::User | Role::Meta) => "t",
        (MessageKind::Text, Role::Assistant) => "m",
        (MessageKind::Text, Role::System | Role::Tool) => "y",
        (MessageKind::Reasoning, _) => "g",
        (MessageKind::ToolCall | MessageKind::ToolResult, _) => "a",
        (MessageKind::Summary, _) => "s",
        (MessageKind::Attachment, _) => "i",
    }
}

fn push<T>(queue: &mut VecDeque<T>, entry: T) {
    if queue.len() >= REMEMBERED {
        queue.pop_front();
    }
    queue.push_back(entry);
}

/// The user's words in a record of several blocks, as one text.
fn whole_text(messages: &[Message]) -> Option<String> {
    let words: Vec<&str> = messages
        .iter()
        .filter(|m| m.kind == MessageKind::Text && m.role == Role::User)
        .map(|m| m.text.as_str())
        .collect();
    (words.len() > 1).then(|| words.concat())
}

fn key(kind: &str, text: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(kind.as_bytes());
    hasher.update(b"\0");
    hasher.update(text.trim().as_bytes());
    super::super::short(&hasher.finalize().into())
}
