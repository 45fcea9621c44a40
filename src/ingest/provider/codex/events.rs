//! What the person saw: events, and the completed items of newer versions.

use serde_json::value::RawValue;

use super::items::{self, add_line, call_id, push};
use super::{Found, Payload};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::parse::payload;
use crate::ingest::provider::message;
use crate::model::record::{Message, MessageKind, Role};

/// Kinds of events that hold nothing to read, or nothing that other records do not hold.
const SILENT: &[&str] = &[
    "account/rateLimits/updated",
    "agent_message_delta",
    "agent_reasoning_section_break",
    "background_event",
    "codex/event/raw_item",
    "collab_agent_interaction_end",
    "collab_agent_spawn_end",
    "collab_close_end",
    "collab_resume_end",
    "collab_waiting_end",
    "context_compacted",
    "entered_review_mode",
    "exec_command_begin",
    "exited_review_mode",
    "guardian_assessment",
    "item_started",
    "mcp_tool_call_begin",
    "patch_apply_begin",
    "plan_update",
    "session_configured",
    "sub_agent_activity",
    "task_complete",
    "task_started",
    "thread_goal_updated",
    "thread_name_updated",
    "thread_rolled_back",
    "thread_settings_applied",
    "token_count",
    "turn.completed",
    "turn_aborted",
    "turn_complete",
    "turn_diff",
    "turn_started",
    "undo_completed",
    "view_image_tool_call",
    "web_search_begin",
];

raw_object! {
    struct McpResult { ok = "Ok", err = "Err", content = "content", is_error = "isError" }
}

raw_object! {
    struct Extra { error = "error", results = "results", status = "status", summary_text = "summary_text", raw_content = "raw_content" }
}

/// The messages of an event.
pub(super) fn event(kind: &str, event: &Payload<'_>) -> Found {
    let mut out = Vec::new();
    match kind {
        "user_message" => {
            push(&mut out, Role::User, MessageKind::Text, event.message);
            for raw in json::items(event.images).unwrap_or_default() {
                let url = json::text(Some(raw)).unwrap_or_default();
                out.push(message(
                    Role::User,
                    MessageKind::Attachment,
                    payload::describe_url("image", &url),
                ));
            }
        }
        "agent_message" => push(&mut out, Role::Assistant, MessageKind::Text, event.message),
        "agent_reasoning" | "agent_reasoning_raw_content" => {
            push(
                &mut out,
                Role::Assistant,
                MessageKind::Reasoning,
                event.text,
            );
        }
        "exec_command_end" => executed(call_id(event), event, &mut out),
        "patch_apply_end" => {
            let failed = json::boolean(event.success).map(|ok| !ok);
            printed(call_id(event), event, failed, &mut out);
        }
        "mcp_tool_call_end" => mcp(call_id(event), event.result, None, &mut out),
        "web_search_end" => out.push(items::web_search(event.action.or(event.query))),
        "dynamic_tool_call_request" => out.push(Message {
            tool_name: json::owned(event.tool),
            call_id: call_id(event),
            ..message(
                Role::Assistant,
                MessageKind::ToolCall,
                items::input_text(event.arguments),
            )
        }),
        "dynamic_tool_call_response" => {
            let failed = json::boolean(event.success).map(|ok| !ok);
            items::result(call_id(event), event.content_items, failed, &mut out);
        }
        "image_generation_end" => items::picture(event, event.call_id, &mut out),
        "error" | "warning" | "stream_error" => {
            push(&mut out, Role::System, MessageKind::Text, event.message);
        }
        kind if SILENT.contains(&kind) => return Found::Silent,
        _ => return Found::Unknown,
    }
    Found::Messages(out)
}

/// The messages of a completed item, whose fields are `item`.
pub(super) fn item(kind: &str, item: &Payload<'_>, extra: Option<&RawValue>) -> Found {
    let extra = json::object::<Extra<'_>>(extra).unwrap_or_default();
    let id = || json::owned(item.id);
    let mut out = Vec::new();
    match kind {
        "UserMessage" => items::parts(item.content, Role::User, &mut out),
        "AgentMessage" => items::parts(item.content, Role::Assistant, &mut out),
        "Plan" => push(&mut out, Role::Assistant, MessageKind::Text, item.text),
        "Reasoning" => {
            items::reasoning(extra.summary_text, &mut out);
            items::reasoning(extra.raw_content, &mut out);
        }
        "CommandExecution" => executed(id(), item, &mut out),
        "FileChange" => {
            let failed = json::text(extra.status).map(|s| s == "failed");
            printed(id(), item, failed, &mut out);
        }
        "McpToolCall" => mcp(id(), item.result, extra.error, &mut out),
        "Extension" | "WebSearch" => {
            items::result(id(), extra.results, None, &mut out);
            if let Some(found) = out.first_mut()
                && found.text.is_empty()
            {
                add_line(&mut found.text, json::text(item.query));
            }
        }
        "ContextCompaction"
        | "ImageView"
        | "CollabAgentToolCall"
        | "SubAgentActivity"
        | "EnteredReviewMode"
        | "ExitedReviewMode"
        | "HookPrompt" => return Found::Silent,
        _ => return Found::Unknown,
    }
    Found::Messages(out)
}

fn executed(id: Option<String>, event: &Payload<'_>, out: &mut Vec<Message>) {
    let failed = event.exit_code.map(|code| code.get() != "0");
    match json::text(event.aggregated_output) {
        Some(_) => items::result(id, event.aggregated_output, failed, out),
        None => printed(id, event, failed, out),
    }
}

/// A result that is what a program printed.
fn printed(
    id: Option<String>,
    event: &Payload<'_>,
    is_error: Option<bool>,
    out: &mut Vec<Message>,
) {
    let mut text = String::new();
    add_line(&mut text, json::text(event.stdout));
    add_line(&mut text, json::text(event.stderr));
    out.push(Message {
        call_id: id,
        is_error,
        ..message(Role::Tool, MessageKind::ToolResult, text)
    });
}

/// The result of a call to a tool server.
fn mcp(
    id: Option<String>,
    result: Option<&RawValue>,
    error: Option<&RawValue>,
    out: &mut Vec<Message>,
) {
    let fields = json::object::<McpResult<'_>>(result).unwrap_or_default();
    let inner = json::object::<McpResult<'_>>(fields.ok).unwrap_or(fields);
    let error = json::present(fields.err).or(json::present(error));
    let failed = Some(error.is_some() || json::is_true(inner.is_error));
    match error {
        Some(_) => items::result(id, error, failed, out),
        None => items::result(id, inner.content.or(json::present(result)), failed, out),
    }
}
