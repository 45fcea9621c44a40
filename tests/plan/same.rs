//! I7: the same state and request give the same document, however many ask at once.

use std::collections::BTreeSet;
use std::sync::Mutex;

use super::place::{Place, each};
use super::states::{CREATE, ORPHANS, REPAIR, REPAIR_ROWS, State, UNDO};

#[test]
fn many_dry_runs_at_once_print_one_document() {
    let (runs, at_once) = if super::is_long() {
        (200, 16)
    } else {
        (32, 16)
    };
    for state in [&*REPAIR, &*REPAIR_ROWS, &*ORPHANS, &*CREATE, &*UNDO] {
        let state: &State = state;
        let p = Place::copy_of(&state.path());
        let before = p.bytes();
        let seen = Mutex::new(BTreeSet::new());
        each(runs, at_once, |_| {
            let out = p
                .command()
                .args(&state.words)
                .arg("--deterministic")
                .output()
                .unwrap();
            assert!(out.status.success());
            let text = String::from_utf8(out.stdout).unwrap();
            seen.lock().unwrap().insert(text);
        });
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.len(), 1, "{seen:#?}");
        assert!(seen.first().unwrap().contains(&state.fingerprint));
        assert_eq!(before, p.bytes());
    }
}
