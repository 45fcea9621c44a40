//! What the plan of a repair says of what can't be brought back.

use std::collections::BTreeMap;

use super::beside::Losses;
use crate::model::plan::{Gate, GateResult, GateVerdict, Lost, LostWhat, Missing};
use crate::model::plural::count;

/// What is missing of each harness: how many records of how many conversations. The plan lists every
/// conversation.
fn by_harness(missing: &[Missing]) -> String {
    let mut of: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    for m in missing {
        let harness = m.provider.map_or("harness unknown", |p| p.as_str());
        let (records, conversations) = of.entry(harness).or_default();
        *records += m.records.0;
        *conversations += 1;
    }
    let told: Vec<String> = of
        .into_iter()
        .map(|(harness, (records, conversations))| {
            format!(
                "{harness}: {} of {}",
                count(records, "record", "records"),
                count(conversations, "conversation", "conversations")
            )
        })
        .collect();
    told.join(", ")
}

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
                "up to {} of {} can't be read anywhere ({}); the plan lists them, and the outgoing \
                 archive is kept; where a harness still has them, run `cass index` first: it \
                 captures them, and the plan then needs less",
                count(records, "record", "records"),
                count(missing.len(), "conversation", "conversations"),
                by_harness(missing)
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
            "{} can't be given back, with up to {} that the archive lacks; the plan lists them and \
             puts them on record as lost; not a byte is changed or removed, and what comes back is \
             used as before",
            count(losses.captures.len(), "capture", "captures"),
            count(records, "record", "records")
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
             the {} that the mirror has, and {} of {} are put on record as lost; what is left of the \
             old archive is kept; `cass index` captures what the harnesses still have, and --from \
             takes an archive that lies elsewhere: try both first",
            count(captures, "capture", "captures"),
            count(records, "record", "records"),
            count(missing.len(), "conversation", "conversations")
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
pub(in crate::doctor) fn places(lost: &[Lost]) -> Option<GateResult> {
    let strays = lost.iter().filter(|l| l.what == LostWhat::Place);
    let (places, rows) = strays.fold((0u64, 0u64), |(places, rows), l| {
        (places + 1, rows + l.count.map_or(0, |n| n.0))
    });
    (places > 0).then(|| GateResult {
        gate: Gate::Coverage,
        verdict: GateVerdict::Warn,
        reason: format!(
            "up to {} of {} are left without the row that says where they belong: what nothing else \
             places comes under conversations that are named unknown/conversation-..., or at the \
             end of its own, and the plan lists them",
            count(rows, "row", "rows"),
            count(places, "conversation", "conversations")
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
                "the outgoing archive is the only holder of {}: they are copied, and its sealed \
                 generation is kept until another holder exists",
                count(sole, "conversation", "conversations")
            ),
        }
    }
}
