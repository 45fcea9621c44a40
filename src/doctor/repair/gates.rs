//! What the plan of a repair says of what can't be brought back.

use super::beside::Losses;
use crate::model::plan::{Gate, GateResult, GateVerdict, Lost, LostWhat, Missing};

/// Records that nothing that is read can bring back.
pub(super) fn coverage(missing: &[Missing]) -> GateResult {
    let records: u64 = missing.iter().map(|m| m.records.0).sum();
    if missing.is_empty() {
        GateResult {
            gate: Gate::Coverage,
            verdict: GateVerdict::Pass,
            reason: "everything that was promised can be read".to_owned(),
        }
    } else {
        GateResult {
            gate: Gate::Coverage,
            verdict: GateVerdict::Warn,
            reason: format!(
                "up to {records} records of {} conversations can't be read anywhere; the plan lists \
                 them, and the outgoing archive is kept; where a harness still has them, run `cass \
                 index` first: it captures them, and the plan then needs less",
                missing.len()
            ),
        }
    }
}

/// Losses beside a sound archive, which can only be accepted.
pub(super) fn accepting(losses: &Losses) -> GateResult {
    let records: u64 = losses.missing.iter().map(|m| m.records.0).sum();
    GateResult {
        gate: Gate::Coverage,
        verdict: GateVerdict::Warn,
        reason: format!(
            "{} captures can't be given back, with up to {records} records that the archive lacks; the \
             plan lists them and puts them on record as lost; not a byte is changed or removed, and what \
             comes back is used as before",
            losses.captures.len()
        ),
    }
}

/// An archive that is begun anew.
pub(super) fn begin(missing: &[Missing], captures: u64) -> GateResult {
    let records: u64 = missing.iter().map(|m| m.records.0).sum();
    GateResult {
        gate: Gate::Coverage,
        verdict: GateVerdict::Warn,
        reason: format!(
            "neither the archive, nor the mirror, nor a backup gives a row: a new archive is begun with \
             the {captures} captures that the mirror has, and {records} records of {} conversations are \
             put on record as lost; what is left of the old archive is kept; `cass index` captures what \
             the harnesses still have, and --from takes an archive that lies elsewhere: try both first",
            missing.len()
        ),
    }
}

/// Messages whose own row is damaged, and that nothing else has.
pub(in crate::doctor) fn damage(lost: &[Lost]) -> Option<GateResult> {
    let damaged = lost.iter().filter(|l| l.what == LostWhat::Messages).count();
    (damaged > 0).then(|| GateResult {
        gate: Gate::Coverage,
        verdict: GateVerdict::Warn,
        reason: format!(
            "{damaged} damaged messages of the archive have no other copy: their records come \
             without these texts, and the plan lists them; the outgoing archive is kept"
        ),
    })
}

/// Rows that are left of conversations and records whose own row is lost.
pub(super) fn places(lost: &[Lost]) -> Option<GateResult> {
    let strays = lost.iter().filter(|l| l.what == LostWhat::Place);
    let (count, rows) = strays.fold((0u64, 0u64), |(count, rows), l| {
        (count + 1, rows + l.count.map_or(0, |n| n.0))
    });
    (count > 0).then(|| GateResult {
        gate: Gate::Coverage,
        verdict: GateVerdict::Warn,
        reason: format!(
            "up to {rows} rows of {count} conversations are left without the row that says where \
             they belong: what nothing else places comes under conversations that are named \
             unknown/conversation-..., or at the end of its own, and the plan lists them"
        ),
    })
}

/// Conversations of which the outgoing archive is the only holder.
pub(super) fn sole(sole: u64) -> GateResult {
    if sole == 0 {
        GateResult {
            gate: Gate::SoleCopy,
            verdict: GateVerdict::Pass,
            reason: "no conversation has the outgoing archive as its only holder".to_owned(),
        }
    } else {
        GateResult {
            gate: Gate::SoleCopy,
            verdict: GateVerdict::Warn,
            reason: format!(
                "the outgoing archive is the only holder of {sole} conversations: they are copied, \
                 and its sealed generation is kept until another holder exists"
            ),
        }
    }
}
