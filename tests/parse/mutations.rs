//! Any bytes at all: no panic, and every byte in exactly one piece.

use std::path::Path;

use cass::model::provider::Provider;
use proptest::prelude::*;

use crate::support::*;

fn both(bytes: &[u8]) {
    for provider in Provider::ALL {
        let path = Path::new("/s/7c9e6679-7425-40de-944b-e07fc1f90ae7.jsonl");
        let whole = parse(provider, path, bytes);
        let grown = parse_growing(provider, path, bytes, [bytes.len() / 3, bytes.len() / 2]);
        check_tiles(&grown, 0, bytes, 1);
        assert_eq!(records(&grown).len(), records(&whole).len());
    }
}

/// Bytes that matter to the ladder come often.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        3 => prop::sample::select(b"\n\0 \r\t{}[]\",:\\u0d8\xef\xbb\xbf".to_vec()),
        1 => any::<u8>(),
    ]
}

fn token() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{\"type\":\"user\",\"message\":{\"content\":\"",
        "{\"timestamp\":\"2026-01-01T00:00:00Z\",\"type\":\"response_item\",\"payload\":{",
        "{\"type\":\"",
        "message\",\"role\":\"user\",\"content\":[",
        "\"}}",
        "}",
        "]}}",
        "{}",
        "\n",
        "\r\n",
        "\0\0",
        "\\",
        "\\ud83d",
        "\"",
        "text",
        " ",
        "12",
        "null",
        "\u{feff}",
        "ü",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(byte(), 0..400)) {
        both(&bytes);
    }

    #[test]
    fn any_row_of_tokens(tokens in prop::collection::vec(token(), 0..40)) {
        both(tokens.concat().as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_change_of_a_real_file(
        which in 0usize..46,
        start in 0.0f64..1.0,
        changes in prop::collection::vec((0.0f64..1.0, 0usize..6, byte()), 1..12),
    ) {
        let all = samples();
        let s = &all[which];
        // Some lines of it are enough.
        let from = (s.bytes.len() as f64 * start) as usize;
        let mut bytes = s.bytes[from..s.bytes.len().min(from + 60_000)].to_vec();
        for (place, len, with) in changes {
            let at = (bytes.len() as f64 * place) as usize;
            let end = bytes.len().min(at + len);
            bytes.splice(at..end, std::iter::repeat_n(with, len / 2));
        }
        let pieces = parse(s.provider, &s.path, &bytes);
        check_tiles(&pieces, 0, &bytes, 1);
    }
}
