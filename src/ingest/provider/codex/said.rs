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
            match self.text(key("t", &whole), channel, offset) {
                Some(held) => {
                    first = Some(held);
                    messages.retain(|m| m.kind != MessageKind::Text || m.role == Role::Meta);
                }
                None => {
                    for message in messages.iter().filter(|m| m.role == Role::User) {
                        self.remember_text(key("t", &message.text), channel, offset);
                    }
                }
            }
            if first.is_none() {
                return None;
            }
        }
        let mut attached_to_held = first.is_some();
        messages.retain(|message| {
            let held = match message.kind {
                MessageKind::ToolCall | MessageKind::ToolResult => match &message.call_id {
                    Some(id) => {
                        let kind =
                            if message.kind == MessageKind::ToolCall { "c" } else { "r" };
                        let held = self.call(key(kind, id), &message.text, offset);
                        attached_to_held = held.is_some();
                        held
                    }
                    None => self.text(key("a", &message.text), channel, offset),
                },
                // What is attached comes and goes with what it is attached to.
                MessageKind::Attachment if attached_to_held => first,
                MessageKind::Attachment => None,
                MessageKind::Reasoning => self.text(key("g", &message.text), channel, offset),
                MessageKind::Summary => self.text(key("s", &message.text), channel, offset),
                MessageKind::Text => {
                    let who = match message.role {
                        Role::User | Role::Meta => "t",
                        Role::Assistant => "m",
                        Role::System | Role::Tool => "y",
                    };
                    let held = self.text(key(who, &message.text), channel, offset);
                    attached_to_held = held.is_some();
                    held
                }
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
        self.remember_text(key, channel, offset);
        None
    }

    fn remember_text(&mut self, key: u64, channel: Channel, offset: u64) {
        push(&mut self.texts, (key, offset, channel as u8));
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
