//! What was shown to the person.

use std::borrow::Cow;

use super::{Entry, model_of};
use crate::ingest::parse::json::{self, Element, raw_object};
use crate::ingest::parse::payload;
use crate::ingest::provider::{known, message, push_text};
use crate::model::record::{Disposition, Message, MessageKind, Role};

raw_object! {
    struct Inside {
        question = "question",
        response = "response",
        tool = "tool",
        summary = "summary",
    }
}

/// Who speaks, and what it is; `None` for a type that holds nothing to read.
enum Kind {
    Says(Role, MessageKind),
    Failed,
    Silent,
    Unknown,
}

fn kind_of(ask: bool, kind: &str, first: bool) -> Kind {
    use MessageKind::{Reasoning, Summary, Text, ToolCall, ToolResult};
    match kind {
        // The first text is the task, in versions that have no type for it.
        "text" if first => Kind::Says(Role::User, Text),
        "task" | "user_feedback" | "user_feedback_diff" | "user_edit_todos" => {
            Kind::Says(Role::User, Text)
        }
        "text"
        | "followup"
        | "plan_mode_respond"
        | "act_mode_respond"
        | "make_plan"
        | "qna_respond"
        | "completion_result"
        | "subtask_result"
        | "generate_explanation" => Kind::Says(Role::Assistant, Text),
        "reasoning" => Kind::Says(Role::Assistant, Reasoning),
        "tool"
        | "command"
        | "browser_action"
        | "browser_action_launch"
        | "use_mcp_server"
        | "new_task"
        | "use_subagents" => Kind::Says(Role::Assistant, ToolCall),
        "command_output"
        | "browser_action_result"
        | "mcp_server_response"
        | "codebase_search_result"
        | "inspect_site_result" => Kind::Says(Role::Tool, ToolResult),
        "condense_context" | "summarize_task" | "condense" => Kind::Says(Role::Meta, Summary),
        "image" => Kind::Says(Role::Assistant, Text),
        "error"
        | "error_retry"
        | "diff_error"
        | "clineignore_error"
        | "rooignore_error"
        | "condense_context_error"
        | "command_permission_denied"
        | "api_req_failed"
        | "mistake_limit_reached" => Kind::Failed,
        "info"
        | "mcp_notification"
        | "shell_integration_warning"
        | "shell_integration_warning_with_suggestion"
        | "too_many_tools_warning"
        | "auto_approval_max_req_reached"
        | "sliding_window_truncation"
        | "payment_required_prompt"
        | "task_progress" => Kind::Says(Role::System, Text),
        // Counts, marks of checkpoints, questions that have no text of their own.
        "api_req_started"
        | "api_req_finished"
        | "api_req_retried"
        | "api_req_retry_delayed"
        | "api_req_rate_limit_wait"
        | "api_req_deleted"
        | "deleted_api_reqs"
        | "checkpoint_created"
        | "checkpoint_saved"
        | "mcp_server_request_started"
        | "load_mcp_documentation"
        | "browser_session_status"
        | "hook_status"
        | "hook_output_stream"
        | "conditional_rules_applied"
        | "subagent_usage"
        | "report_bug" => Kind::Silent,
        "resume_task" | "resume_completed_task" if ask => Kind::Silent,
        _ => Kind::Unknown,
    }
}

/// The type of an entry and what it says; `first` for the first of the task.
pub(super) fn read(entry: &Entry<'_>, first: bool) -> (String, Disposition) {
    let ask = json::text(entry.kind).map_or(entry.say.is_none(), |k| k == "ask");
    let kind = if ask { entry.ask } else { entry.say };
    let kind = json::text(kind).unwrap_or_default();
    let record_type = format!("{}/{kind}", if ask { "ask" } else { "say" });
    let mut out = Vec::new();
    let text = json::text(entry.text).filter(|t| !t.is_empty());
    let reasoning = |out: &mut Vec<Message>| {
        push_text(
            out,
            Role::Assistant,
            MessageKind::Reasoning,
            entry.reasoning,
        );
    };
    let role = match kind_of(ask, &kind, first) {
        Kind::Unknown => return (record_type, Disposition::Unknown),
        Kind::Silent => return (record_type, Disposition::Known),
        Kind::Failed => {
            if let Some(text) = text {
                let text = payload::described_in(text);
                out.push(Message {
                    is_error: Some(true),
                    ..message(Role::System, MessageKind::Text, text)
                });
            }
            Role::System
        }
        Kind::Says(role, what) => {
            reasoning(&mut out);
            if let Some(text) = text {
                out.push(said(&kind, role, what, text));
            }
            role
        }
    };
    for element in json::elements::<Inside<'_>>(entry.images) {
        if let Element::Text(url) = element {
            let line = payload::describe_url("image", &url);
            out.push(message(role, MessageKind::Attachment, line));
        }
    }
    let model = model_of(entry);
    for message in out.iter_mut().filter(|m| m.role == Role::Assistant) {
        message.model.clone_from(&model);
    }
    (record_type, known(out))
}

/// One message. Questions and answers may be wrapped in JSON together with the choices.
fn said(kind: &str, role: Role, what: MessageKind, text: Cow<'_, str>) -> Message {
    let inside = serde_json::from_str::<Inside<'_>>(&text).unwrap_or_default();
    let mut tool_name = None;
    let shown = match kind {
        "followup" | "plan_mode_respond" | "act_mode_respond" | "qna_respond" => {
            json::owned(inside.question).or_else(|| json::owned(inside.response))
        }
        "condense_context" => json::owned(inside.summary),
        "tool" => {
            tool_name = json::owned(inside.tool);
            None
        }
        "command" | "browser_action" | "browser_action_launch" | "use_mcp_server" => {
            tool_name = Some(kind.to_owned());
            None
        }
        _ => None,
    };
    Message {
        tool_name,
        ..message(
            role,
            what,
            shown.unwrap_or_else(|| payload::described_in(text)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str, first: bool) -> String {
        let entry: Entry<'_> = serde_json::from_str(text).unwrap();
        let (kind, disposition) = read(&entry, first);
        match disposition {
            Disposition::Messages(all) => all
                .iter()
                .map(|m| format!("{kind} {:?} {:?} {}", m.role, m.kind, m.text))
                .collect::<Vec<_>>()
                .join("; "),
            other => format!("{kind} {other:?}"),
        }
    }

    #[test]
    fn every_type_has_its_speaker() {
        for (text, first, want) in [
            (
                r#"{"type":"say","say":"text","text":"x"}"#,
                true,
                "say/text User Text x",
            ),
            (
                r#"{"type":"say","say":"text","text":"x","reasoning":"r"}"#,
                false,
                "say/text Assistant Reasoning r; say/text Assistant Text x",
            ),
            (
                r#"{"type":"say","say":"user_feedback","text":"x","images":["data:image/png;base64,aGVsbG8="]}"#,
                false,
                &format!(
                    "say/user_feedback User Text x; say/user_feedback User Attachment [image/png, 5 bytes, blake3 {}]",
                    blake3::hash(b"hello")
                ),
            ),
            (
                r#"{"type":"ask","ask":"followup","text":"{\"question\":\"why?\",\"options\":[]}"}"#,
                false,
                "ask/followup Assistant Text why?",
            ),
            (
                r#"{"type":"say","say":"api_req_started","text":"{\"tokensIn\":1}"}"#,
                false,
                "say/api_req_started Known",
            ),
            (
                r#"{"type":"ask","ask":"command","text":"ls"}"#,
                false,
                "ask/command Assistant ToolCall ls",
            ),
            (
                r#"{"type":"say","say":"error","text":"x"}"#,
                false,
                "say/error System Text x",
            ),
            (
                r#"{"type":"say","say":"later","text":"x"}"#,
                false,
                "say/later Unknown",
            ),
            (r#"{"say":"task","text":7}"#, false, "say/task Known"),
            (r#"{"type":[],"say":{}}"#, false, "say/ Unknown"),
        ] {
            assert_eq!(one(text, first), want, "{text}");
        }
    }
}
