//! `CURRENT` is gone and the archive is damaged: the salvage is what names a generation again.

use super::harness::Call;
use super::is_long;
use super::shelf::Shelf;
use super::works::Plan;

/// Killed where `CURRENT` names the candidate and what it took the place of is not sealed yet: the next
/// run finishes it, and nothing of the outgoing archive is changed or left without a name.
#[test]
fn killed_between_current_and_the_seal() {
    let shelf = Shelf::shared();
    let Some(calls) = shelf.changes(Plan::SalvageUnnamed) else {
        return;
    };
    let at = |end: &str| {
        let is_it = |c: &Call| c.name.starts_with("rename") && c.path.ends_with(end);
        calls
            .iter()
            .position(is_it)
            .unwrap_or_else(|| panic!("no {end} in {calls:#?}"))
    };
    let (current, seal) = (at(".CURRENT.tmp"), at(".seal.json.tmp"));
    assert!(current < seal, "{calls:#?}");
    let between: Vec<&Call> = calls[current + 1..=seal]
        .iter()
        .filter(|c| !c.idle)
        .collect();
    let bench = shelf.take(Plan::SalvageUnnamed);
    let last = between.len() - 1;
    let mut done = 0;
    for (n, call) in between.into_iter().enumerate() {
        if is_long() || n == 0 || n == last {
            done += u32::from(bench.killed_at(call));
            assert_eq!(bench.current().as_deref(), Some("g00000002"), "{call}");
            let outgoing = bench.listed("generations/g00000001");
            assert!(outgoing.contains("seal.json"), "{call}: {outgoing:?}");
        }
    }
    assert!(done >= 2, "{done} kills");
}
