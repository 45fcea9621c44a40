//! The wire logs of both programs: what went between the agent, the model and the person.

use serde_json::value::RawValue;

use super::{Entry, KimiReader, Origin};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::provider::chat::{self, Chat};
use crate::ingest::provider::{Reading, known, message, push_text};
use crate::model::record::{Disposition, Message, MessageKind, Role};

raw_object! {
    /// A line of kimi-cli's log.
    pub(super) struct Sent { kind = "type", payload = "payload" }
}

raw_object! {
    struct Payload {
        input = "user_input",
        call_id = "tool_call_id",
        value = "return_value",
        result = "result",
        task = "task_tool_call_id",
        parent_call = "parent_tool_call_id",
        agent_id = "agent_id",
        event = "event",
        text = "text",
        message = "message",
    }
}

raw_object! {
    struct Answer {
        output = "output",
        message = "message",
        is_error = "is_error",
        camel_is_error = "isError",
        error = "error",
    }
}

raw_object! {
    /// An event of kimi-code's loop.
    struct Event {
        kind = "type",
        uuid = "uuid",
        parent = "parentUuid",
        step = "stepUuid",
        part = "part",
        call_id = "toolCallId",
        name = "name",
        args = "args",
        result = "result",
    }
}

raw_object! {
    struct Spoken { origin = "origin", role = "role", content = "content" }
}

/// Lines of kimi-code that say nothing of their own.
const SILENT: &[&str] = &[
    "config.update",
    "context.clear",
    "context.rewind",
    "full_compaction.begin",
    "full_compaction.cancel",
    "full_compaction.complete",
    "llm.request",
    "llm.tools_snapshot",
    "metadata",
    "permission.record_approval_result",
    "permission.set_mode",
    "plan_mode.enter",
    "plan_mode.exit",
    "profile.bind",
    "runtime.set_binding",
    "token_counting.measured",
    "token_counting.turn_recorded",
    "tools.set_active_tools",
    "turn.cancel",
    "turn.ended",
    "usage.record",
];

/// Messages of kimi-cli that say nothing of their own, or in part what others say whole.
const SILENT_SENT: &[&str] = &[
    "ApprovalRequest",
    "ApprovalRequestResolved",
    "ApprovalResponse",
    "CompactionBegin",
    "CompactionEnd",
    "StatusUpdate",
    "StepBegin",
    "StepInterrupted",
    "ToolCallPart",
    "ToolCallRequest",
    "TurnEnd",
];

/// The prompt that a line gives, if it does.
pub(super) fn prompt(entry: &Entry<'_>) -> Option<String> {
    if json::text(entry.kind).is_some_and(|k| k == "turn.prompt") {
        return Some(chat::joined(entry.input));
    }
    let sent = json::object::<Sent<'_>>(entry.message)?;
    if json::text(sent.kind)? != "TurnBegin" {
        return None;
    }
    let payload = json::object::<Payload<'_>>(sent.payload)?;
    Some(chat::joined(payload.input))
}

/// Who speaks where a prompt has this origin.
fn spoken(origin: Option<&RawValue>) -> Role {
    match json::object::<Origin<'_>>(origin).and_then(|o| json::text(o.kind)) {
        Some(kind) if kind != "user" => Role::Meta,
        _ => Role::User,
    }
}

impl KimiReader {
    /// A line of kimi-code's wire log.
    pub(super) fn wire(&mut self, entry: &Entry<'_>, offset: u64, reading: &mut Reading) {
        let mut out = Vec::new();
        match reading.record_type.as_str() {
            "turn.prompt" | "turn.steer" => {
                self.prompts.add(&chat::joined(entry.input), offset);
                chat::content(entry.input, spoken(entry.origin), &mut out);
            }
            "context.append_message" => {
                let said = json::object::<Spoken<'_>>(entry.message).unwrap_or_default();
                let by_user = json::text(said.role).is_some_and(|r| r == "user");
                if by_user && let Some(first) = self.prompts.take(&chat::joined(said.content)) {
                    reading.disposition = Disposition::DuplicateOf { offset: first };
                    return;
                }
                let chat = json::object::<Chat<'_>>(entry.message).unwrap_or_default();
                if !chat::messages(&chat, spoken(said.origin), &mut out) {
                    return;
                }
            }
            "context.append_loop_event" => {
                let event = json::object::<Event<'_>>(entry.event).unwrap_or_default();
                if !self.event(&event, reading, &mut out) {
                    return;
                }
            }
            "context.apply_compaction" => {
                push_text(&mut out, Role::Meta, MessageKind::Summary, entry.summary);
            }
            "plugin.session_start" => {
                push_text(&mut out, Role::Meta, MessageKind::Text, entry.content);
            }
            kind if SILENT.contains(&kind) => {
                if kind == "llm.request" {
                    self.model = json::owned(entry.model).or_else(|| self.model.take());
                }
                let disclosed = json::object::<Origin<'_>>(entry.disclosure).unwrap_or_default();
                reading.facts.workspace =
                    json::owned(entry.cwd).or_else(|| json::owned(disclosed.cwd));
            }
            _ => return,
        }
        reading.disposition = known(out);
    }

    /// An event of the loop; false when its type is not known. Ids of calls are unique only in
    /// their step, and a step's end bears the id of its begin.
    fn event(&self, event: &Event<'_>, reading: &mut Reading, out: &mut Vec<Message>) -> bool {
        let kind = json::owned(event.kind).unwrap_or_default();
        reading.record_type = format!("{}/{kind}", reading.record_type);
        match kind.as_str() {
            "step.begin" => reading.native_id = json::owned(event.uuid),
            "step.end" => {}
            "content.part" => {
                reading.native_id = json::owned(event.uuid);
                reading.native_parent = json::owned(event.step);
                let part = json::object::<chat::Part<'_>>(event.part).unwrap_or_default();
                chat::part(&part, Role::Assistant, out);
            }
            "tool.call" => {
                let step = json::owned(event.step);
                reading.native_id = step
                    .as_ref()
                    .zip(json::owned(event.uuid))
                    .map(|(step, call)| format!("{step}/{call}"));
                reading.native_parent = step;
                let call = chat::Call {
                    call_id: event.call_id,
                    name: event.name,
                    args: event.args,
                    ..chat::Call::default()
                };
                chat::call(&call, out);
            }
            "tool.result" => out.push(answer(event.call_id, event.result)),
            _ => return false,
        }
        for message in out.iter_mut().filter(|m| m.role == Role::Assistant) {
            message.model.clone_from(&self.model);
        }
        true
    }

    /// A line of kimi-cli's wire log.
    pub(super) fn sent(&self, sent: &Sent<'_>, reading: &mut Reading) {
        let mut out = Vec::new();
        let mut inner = *sent;
        let mut payload = json::object::<Payload<'_>>(sent.payload).unwrap_or_default();
        reading.record_type = json::owned(sent.kind).unwrap_or_default();
        if reading.record_type == "SubagentEvent" {
            let agent = [payload.agent_id, payload.task, payload.parent_call]
                .into_iter()
                .find_map(json::owned);
            if let Some(agent) = agent {
                let own = format!("{}/{agent}", reading.session);
                let parent = std::mem::replace(&mut reading.session, own);
                reading.facts.parent_session = Some(parent);
                reading.facts.title = None;
            }
            inner = json::object(payload.event).unwrap_or_default();
            payload = json::object(inner.payload).unwrap_or_default();
            let kind = json::text(inner.kind).unwrap_or_default();
            reading.record_type = format!("SubagentEvent/{kind}");
        }
        match json::text(inner.kind).as_deref() {
            Some("TurnBegin" | "SteerInput") => {
                chat::content(payload.input, Role::User, &mut out);
            }
            Some("ContentPart" | "TextPart" | "ThinkPart") => {
                let part = json::object::<chat::Part<'_>>(inner.payload).unwrap_or_default();
                chat::part(&part, Role::Assistant, &mut out);
            }
            Some("ToolCall") => {
                let call = json::object::<chat::Call<'_>>(inner.payload).unwrap_or_default();
                chat::call(&call, &mut out);
            }
            Some("ToolResult") => {
                out.push(answer(payload.call_id, payload.value.or(payload.result)));
            }
            Some("Notification") => {
                push_text(&mut out, Role::Meta, MessageKind::Text, payload.message);
                push_text(&mut out, Role::Meta, MessageKind::Text, payload.text);
            }
            Some(kind) if SILENT_SENT.contains(&kind) => {}
            _ => return,
        }
        reading.disposition = known(out);
    }
}

/// A tool's result: its output, else what is said about it.
fn answer(call_id: Option<&RawValue>, raw: Option<&RawValue>) -> Message {
    let body = json::object::<Answer<'_>>(raw).unwrap_or_default();
    let mut text = chat::joined(body.output);
    if text.is_empty() {
        text = [body.message, body.error]
            .into_iter()
            .find_map(json::owned)
            .unwrap_or_default();
    }
    if text.is_empty() && body.output.is_none() {
        text = chat::joined(raw);
    }
    Message {
        call_id: json::owned(call_id),
        is_error: json::boolean(body.is_error).or_else(|| json::boolean(body.camel_is_error)),
        ..message(Role::Tool, MessageKind::ToolResult, text)
    }
}
