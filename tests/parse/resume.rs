//! A source that is read while it grows gives what it gives when it is read at once.

use std::path::Path;

use cass::model::provider::Provider;
use proptest::prelude::*;

use crate::support::*;

#[test]
fn growing_line_by_line_changes_nothing() {
    for s in samples() {
        let whole = merged(parse(s.provider, &s.path, &s.bytes));
        for shift in [0, 1] {
            // Before the line feed, and behind it.
            let ends = memchr::memchr_iter(b'\n', &s.bytes).map(|at| at + shift);
            let grown = merged(parse_growing(s.provider, &s.path, &s.bytes, ends));
            assert_eq!(grown.len(), whole.len(), "{}", s.name);
            for (a, b) in grown.iter().zip(&whole) {
                assert_eq!(a, b, "{}", s.name);
            }
        }
    }
}

#[test]
fn growing_byte_by_byte_through_damage_changes_nothing() {
    let a = r#"{"type":"user","uuid":"a","message":{"content":"x ü \ud83d"}}"#;
    let b = r#"{"type":"user","uuid":"b","message":{"content":"y"}}"#;
    let torn = &a[..a.len() - 12];
    let zeros = "\0\0\0";
    let text = format!(
        "\u{feff}{a}\r\n{zeros}{b}\n{a}{b}{zeros}\n\n{torn}{b}\n{torn}\n more\"}}}}\n{torn}\n{b}\n  12\n{a}junk\n{torn}{zeros}{b}\n{torn}\nx\ny\n{b}{zeros}{zeros}"
    );
    for provider in Provider::ALL {
        let path = Path::new("/s/7c9e6679-7425-40de-944b-e07fc1f90ae7.jsonl");
        let whole = merged(parse(provider, path, text.as_bytes()));
        for step in 1..5 {
            let ends = (0..text.len()).step_by(step);
            let grown = parse_growing(provider, path, text.as_bytes(), ends);
            assert_eq!(merged(grown), whole, "step {step}");
        }
        for cut in 0..text.len() {
            let grown = parse_growing(provider, path, text.as_bytes(), [cut]);
            assert_eq!(merged(grown), whole, "cut at {cut}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn growing_by_any_steps_changes_nothing(which in 0usize..46, cuts in prop::collection::vec(0.0f64..1.0, 1..8)) {
        let all = samples();
        let s = &all[which];
        let whole = merged(parse(s.provider, &s.path, &s.bytes));
        let mut ends: Vec<usize> =
            cuts.iter().map(|c| (s.bytes.len() as f64 * c) as usize).collect();
        ends.sort_unstable();
        let grown = merged(parse_growing(s.provider, &s.path, &s.bytes, ends));
        prop_assert!(grown == whole, "{}", s.name);
    }
}

#[test]
fn a_state_that_cannot_be_read_is_started_anew() {
    let text = b"{\"type\":\"user\",\"message\":{\"content\":\"x\"}}\n";
    for provider in Provider::ALL {
        for state in [&b"\xff"[..], b"{}", b"[]", b"{\"reader\":[1,\"x\"]}"] {
            let from = cass::model::record::ResumePoint {
                offset: 0,
                line: 1,
                state: state.to_vec(),
            };
            let mut p = parser(provider, Path::new("/s/x.jsonl"), text, Some(from));
            assert_eq!(records(&drain(&mut p)).len(), 1);
        }
    }
}
