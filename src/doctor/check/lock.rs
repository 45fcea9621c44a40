//! `lock.state`: who writes now.

use super::context::Context;
use crate::disk::writer_owner;
use crate::model::check::Owner;
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};

pub(super) fn state(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::LockState;
    let Some(root) = &cx.root else {
        return Context::skip(&[id], SkipReason::NoArchive, None);
    };
    vec![match writer_owner(root) {
        Ok(None) => CheckResult::ran(id, Vec::new()),
        Ok(Some(owner)) => {
            let age_s = cx.env.now_ms().saturating_sub(owner.since_ms).max(0) / 1000;
            let who = match owner.pid {
                0 => "another process".to_owned(),
                pid => format!("cass {} (pid {pid})", owner.command),
            };
            let message =
                format!("the writer lock is held by {who} for {age_s} s; reading is safe");
            cx.facts.operation.owner = Some(Owner {
                pid: owner.pid,
                command: owner.command,
                since_ms: owner.since_ms,
            });
            CheckResult::ran(
                id,
                vec![Finding::new(
                    id,
                    "writer-active",
                    Severity::Info,
                    "locks/writer.lock",
                    message,
                )],
            )
        }
        Err(e) => {
            let f = Finding::new(
                id,
                "lock-unreadable",
                Severity::Warn,
                "locks/writer.lock",
                e.message(),
            );
            CheckResult::unknown(id, UnknownReason::Unreadable, vec![f])
        }
    }]
}
