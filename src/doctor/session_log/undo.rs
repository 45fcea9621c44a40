//! Taking back a repair in place: the capture of what was there is written over what was made of it.

use std::path::Path;

use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{
    Action, CaptureName, Count, Gate, GateResult, GateVerdict, LogPlace, LogWrite,
};
use crate::model::provider::Provider;
use crate::model::source::{LOCAL, SourceKey};
use crate::session_log;
use crate::store::mirror::MirrorReader;
use crate::store::run::{self, Receipt};

use super::read;

/// The step that takes the run's repair back; `None` where it wrote over no log.
pub(in crate::doctor) fn action(root: &Root, receipt: &Receipt) -> Result<Option<Action>> {
    if !receipt.replaced_log {
        return Ok(None);
    }
    let intent = run::read_intent(root, &receipt.run_id)?;
    let log = intent
        .into_iter()
        .flat_map(|i| i.actions)
        .find_map(|a| match a {
            Action::WriteSessionLog { log } if log.place == LogPlace::InPlace => Some(log),
            _ => None,
        });
    let Some(log) = log else {
        return Ok(None);
    };
    let capture = capture(root, &log)?.ok_or_else(|| {
        Error::new(
            ErrorKind::VerifyFailed,
            format!("the mirror has no capture of {} as it was", log.log),
        )
        .with_hint("An undo puts back exactly what was there, or nothing.")
    })?;
    Ok(Some(Action::PutBackSessionLog { log, capture }))
}

fn capture(root: &Root, log: &LogWrite) -> Result<Option<CaptureName>> {
    let Some(mirror) = MirrorReader::open(root)? else {
        return Ok(None);
    };
    let key = SourceKey::derive(LOCAL, Provider::Dsh, Path::new(&log.log));
    let mut found = None;
    mirror.captures(key, &mut |line| {
        if line.len == log.source.len.0 && line.hash.to_hex() == log.source.blake3 {
            found = Some(CaptureName {
                source: key.to_string(),
                seq: Count(line.seq),
            });
        }
        Ok(())
    })?;
    Ok(found)
}

/// Whether the log is still what the run made of it: what was added since would be lost.
pub(in crate::doctor) fn gate(action: &Action) -> GateResult {
    let same = match action {
        Action::PutBackSessionLog { log, .. } => read::open(Path::new(&log.log))
            .ok()
            .and_then(|f| session_log::digests(&f).ok())
            .is_some_and(|(len, _, blake3)| {
                (len, &blake3) == (log.result.len.0, &log.result.blake3)
            }),
        _ => true,
    };
    let (verdict, reason) = if same {
        (GateVerdict::Pass, "the log is what the run made of it")
    } else {
        (
            GateVerdict::Block,
            "the log moved on since the run; an undo would drop what was added. The mirror still has \
             what was there before",
        )
    };
    GateResult {
        gate: Gate::NothingSince,
        verdict,
        reason: reason.to_owned(),
    }
}
