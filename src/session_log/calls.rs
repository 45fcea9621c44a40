//! The tool calls of one step: announced, started, answered.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::closers;
use super::event::Event;
use super::fault::{CallPlace, Role};
use super::json::{self, Object};

/// One call.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The id, as it is spelled between its quotes.
    pub(super) spelled: Vec<u8>,
    id: Vec<u8>,
    name: Vec<u8>,
    arguments: blake3::Hash,
    seq: u64,
    row: u64,
    /// The event that recorded its start.
    pub(super) started: Option<u64>,
    started_row: u64,
    pub(super) answered: bool,
}

/// The calls of the open step, in the order in which they were announced.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
    /// Ids that pieces of the answer hold.
    streamed: Vec<Vec<u8>>,
}

/// Why an event does not belong to the calls, and where the call is named.
pub(super) type Mismatch = (String, Vec<CallPlace>);

const STREAMED: usize = 64;

fn shown(id: &[u8]) -> String {
    String::from_utf8_lossy(id).into_owned()
}

impl Calls {
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.streamed.clear();
    }

    /// Calls without an answer.
    pub(super) fn pending(&self) -> impl Iterator<Item = &Call> {
        self.list.iter().filter(|c| !c.answered)
    }

    /// Remembers an id that a piece of the answer holds.
    pub(super) fn stream(&mut self, id: &[u8]) {
        if self.streamed.len() < STREAMED && !self.streamed.iter().any(|s| s == id) {
            self.streamed.push(id.to_vec());
        }
    }

    /// Takes the calls that an answer announces.
    pub(super) fn announce(&mut self, content: &[u8], seq: u64, row: u64) -> Result<(), Mismatch> {
        for block in json::elements(content).unwrap_or_default() {
            let Some(block) = Object::within(block) else {
                continue;
            };
            if !json::is_text(block.get("type"), "tool-call") {
                continue;
            }
            let (Some(id), Some(spelled)) = (block.text("id"), block.get("id")) else {
                return Err(("an announced call has no id".to_owned(), Vec::new()));
            };
            let call = Call {
                spelled: inner(spelled).to_vec(),
                id: id.into_owned(),
                name: block.text("name").unwrap_or_default().into_owned(),
                arguments: blake3::hash(&block.text("arguments").unwrap_or_default()),
                seq,
                row,
                started: None,
                started_row: 0,
                answered: false,
            };
            if let Some(other) = self.list.iter().find(|c| c.id == call.id) {
                let places = vec![other.place(), call.place()];
                let what = format!(
                    "the call id {} is announced twice in one step",
                    shown(&call.id)
                );
                return Err((what, places));
            }
            self.list.push(call);
        }
        Ok(())
    }

    /// Takes the record that a call was started.
    pub(super) fn start(&mut self, data: &Object<'_>, seq: u64, row: u64) -> Result<(), Mismatch> {
        let id = data.text("callId").unwrap_or_default().into_owned();
        let name = data.text("name").unwrap_or_default().into_owned();
        let arguments = blake3::hash(&data.text("arguments").unwrap_or_default());
        let own = CallPlace {
            role: Role::Execution,
            seq,
            row,
            id: shown(&id),
            name: Some(shown(&name)),
        };
        let texts = ["callId", "name", "arguments"];
        let whole = texts.iter().all(|key| data.text(key).is_some());
        let why = match self.list.iter_mut().find(|c| c.id == id) {
            _ if !whole => "the start of a call lacks its id, its name or its arguments",
            None => "no answer of this step announced the call that is started here",
            Some(call) if call.started.is_some() => "the call was started before",
            Some(call) if call.answered => "the call was answered before it was started",
            Some(call) if call.name != name => "the call was announced with another tool's name",
            Some(call) if call.arguments != arguments => {
                "the call was announced with other arguments"
            }
            Some(call) => {
                call.started = Some(seq);
                call.started_row = row;
                return Ok(());
            }
        };
        Err((why.to_owned(), self.places(&id, own)))
    }

    /// Takes an answer.
    pub(super) fn answer(
        &mut self,
        event: &Event<'_>,
        row: u64,
        version: u64,
        result: &ResultParts<'_>,
    ) -> Result<(), Mismatch> {
        let own = CallPlace {
            role: Role::Result,
            seq: event.seq,
            row,
            id: shown(&result.block_id),
            name: None,
        };
        let why = match self.list.iter_mut().find(|c| *c.id == *result.block_id) {
            None => "no answer of this step announced the call that is answered here",
            Some(call) if call.answered => "the call was answered before",
            Some(call) => {
                let unstarted = call.started.is_none();
                if unstarted && !closers::is_not_started(event, version, result, &call.id) {
                    "the call is answered and was never started"
                } else {
                    call.answered = true;
                    return Ok(());
                }
            }
        };
        Err((why.to_owned(), self.places(&result.block_id, own)))
    }

    /// Where calls are named that may be the one that is meant.
    pub(super) fn places(&self, id: &[u8], own: CallPlace) -> Vec<CallPlace> {
        let mut out = Vec::new();
        // Another id is shown only where the call is not to be found under its own.
        let known = self.list.iter().any(|c| c.id == id);
        for call in self.list.iter().filter(|c| !known || c.id == id).take(16) {
            out.push(call.place());
            if let Some(seq) = call.started {
                out.push(CallPlace {
                    role: Role::Execution,
                    seq,
                    row: call.started_row,
                    id: shown(&call.id),
                    name: Some(shown(&call.name)),
                });
            }
        }
        let (seq, row) = (own.seq, own.row);
        out.push(own);
        for streamed in self.streamed.iter().filter(|s| *s != id).take(16) {
            if !known || id.is_empty() {
                out.push(CallPlace {
                    role: Role::Streamed,
                    seq,
                    row,
                    id: shown(streamed),
                    name: None,
                });
            }
        }
        out
    }
}

impl Call {
    fn place(&self) -> CallPlace {
        CallPlace {
            role: Role::Call,
            seq: self.seq,
            row: self.row,
            id: shown(&self.id),
            name: Some(shown(&self.name)),
        }
    }
}

fn inner(spelled: &[u8]) -> &[u8] {
    spelled
        .strip_prefix(b"\"")
        .and_then(|s| s.strip_suffix(b"\""))
        .unwrap_or(spelled)
}

/// What a `tool/result` is made of.
#[derive(Debug, Clone)]
pub(super) struct ResultParts<'a> {
    pub(super) message_id: Cow<'a, [u8]>,
    pub(super) source_id: Cow<'a, [u8]>,
    pub(super) block_id: Cow<'a, [u8]>,
    pub(super) failed: bool,
    pub(super) content: Option<&'a [u8]>,
    pub(super) error: Option<Object<'a>>,
}

impl<'a> ResultParts<'a> {
    /// Takes a result apart; why it is none, otherwise.
    pub(super) fn read(data: &Object<'a>, version: u64) -> Result<ResultParts<'a>, &'static str> {
        let message = data.object("message").ok_or("the result has no message")?;
        let source = message
            .object("source")
            .filter(|s| json::is_text(s.get("kind"), "tool"))
            .ok_or("the result's source is no tool")?;
        let role = if version >= 4 { "tool" } else { "user" };
        if !json::is_text(message.get("role"), role) {
            return Err("the result's message has another role");
        }
        let block = if version >= 4 {
            message.clone()
        } else {
            let blocks = message.get("content").and_then(json::elements);
            match blocks.as_deref() {
                Some([one]) => Object::within(one)
                    .filter(|b| json::is_text(b.get("type"), "tool-result"))
                    .ok_or("the result's block is no tool result")?,
                _ => return Err("the result does not have exactly one block"),
            }
        };
        let error = data.object("error");
        let failed = block.get("isError") == Some(b"true");
        if version >= 4 && error.is_some() && !failed {
            return Err("the result has an error and does not say so");
        }
        Ok(ResultParts {
            message_id: message.text("id").unwrap_or_default(),
            source_id: source.text("callId").unwrap_or_default(),
            block_id: block.text("toolCallId").unwrap_or_default(),
            failed,
            content: block.get("content"),
            error,
        })
    }
}

/// A digest of everything in a result but its content: what another one in its place must have, too.
pub(super) fn frame(data: &Object<'_>, version: u64) -> u64 {
    let mut out = Vec::new();
    let mut put = |object: &Object<'_>, but: &str| {
        let members: BTreeMap<_, _> = object.iter().collect();
        for (key, value) in members.iter().filter(|(k, _)| ***k != *but.as_bytes()) {
            out.extend_from_slice(&(key.len() as u64).to_le_bytes());
            out.extend_from_slice(key);
            json::canonical(value, &mut out);
        }
        out.push(0);
    };
    put(data, "message");
    let message = data.object("message").unwrap_or_default();
    put(&message, "content");
    let blocks = message.get("content").and_then(json::elements);
    if version < 4
        && let Some(block) = blocks.and_then(|b| Object::within(b.first()?))
    {
        put(&block, "content");
    }
    let [a, b, c, d, e, f, g, h, ..] = *blake3::hash(&out).as_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}
