//! Of many applies of one plan at the same time, one applies. `CASS_PLAN=long`: of every kind of plan.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::place::{Place, each};
use super::states::{CREATE, KINDS, REPAIR, RESTORE, RESTORE_KEEP, State, UNDO};

const RACERS: usize = 20;

#[test]
fn of_twenty_racing_applies_of_each_kind_one_applies() {
    let some: [&State; 5] = [&REPAIR, &CREATE, &RESTORE, &RESTORE_KEEP, &UNDO];
    let kinds: Vec<&State> = if super::is_long() {
        KINDS.iter().map(|k| &**k.state).collect()
    } else {
        some.to_vec()
    };
    each(kinds.len(), 2, |i| {
        let state = kinds[i];
        let kind = state.words.join(" ");
        let p = Place::copy_of(&state.path());
        let words = state.words_at(&p, &state.apply);
        let ends = Mutex::new(BTreeMap::new());
        each(RACERS, RACERS, |_| {
            loop {
                let ran = p.run(&words);
                let end = match ran.code {
                    0 => ran.text("/status").to_owned(),
                    _ => ran.text("/err/kind").to_owned(),
                };
                if end == "lock-busy" {
                    assert!(ran.number("/err/retry_after_ms") > 0);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    continue;
                }
                *ends.lock().unwrap().entry(end).or_insert(0) += 1;
                break;
            }
        });
        let ends = ends.into_inner().unwrap();
        let expected =
            [("applied", 1), ("already-applied", RACERS - 1)].map(|(end, n)| (end.to_owned(), n));
        assert_eq!(ends, BTreeMap::from(expected), "{kind}");
        // And on disk there is one receipt of it.
        let runs = p.run(&["doctor", "runs", "list"]).expect(0);
        let applied = runs
            .at("/runs")
            .as_array()
            .unwrap()
            .iter()
            .filter(|r| {
                r["plan_fingerprint"] == state.fingerprint.as_str() && r["status"] == "applied"
            })
            .count();
        assert_eq!(applied, 1, "{kind}: {}", runs.stdout);
    });
    println!(
        "torture | plans that twenty apply at once | {0} | {0} | 0 |",
        kinds.len()
    );
}
