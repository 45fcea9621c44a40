//! The known kinds of damage, each made from sound records: what is kept, what is skipped, why.

use cass::model::provider::Provider;
use cass::model::record::{Disposition, Piece, Recovery, Role, SkipReason};

use crate::support::*;

const A: &str =
    r#"{"type":"user","sessionId":"s","uuid":"a","message":{"role":"user","content":"first ünï"}}"#;
const B: &str = r#"{"parentUuid":"a","type":"assistant","sessionId":"s","uuid":"b","message":{"role":"assistant","content":[{"type":"text","text":"second"}]}}"#;
const C: &str =
    r#"{"type":"user","sessionId":"s","uuid":"c","message":{"role":"user","content":"third"}}"#;

/// Kinds and texts of the pieces of a Claude file, separators left out.
fn of(text: impl AsRef<[u8]>) -> Vec<(String, String)> {
    let text = text.as_ref();
    outline(text, &parse_as(Provider::Claude, text))
}

fn expect(text: impl AsRef<[u8]>, expected: &[(&str, &str)]) {
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(k, t)| ((*k).to_owned(), (*t).to_owned()))
        .collect();
    assert_eq!(of(text), expected);
}

#[test]
fn d01_nul_block_at_the_end() {
    let zeros = "\0".repeat(4096);
    expect(
        format!("{A}\n{B}\n{zeros}"),
        &[("record", A), ("record", B), ("NulBlock!", &zeros)],
    );
    // The record before is complete, its line feed is not there any more.
    expect(
        format!("{A}\n{B}{zeros}"),
        &[("record", A), ("record", B), ("NulBlock!", &zeros)],
    );
    // The record before was cut by the crash.
    expect(
        format!("{A}\n{}{zeros}", &B[..40]),
        &[
            ("record", A),
            ("Fragment!", &B[..40]),
            ("NulBlock!", &zeros),
        ],
    );
}

#[test]
fn d02_nul_block_in_the_middle() {
    let zeros = "\0".repeat(700);
    let after = [
        ("record", A),
        ("NulBlock!", &*zeros),
        ("NulTrimmed", B),
        ("record", C),
    ];
    expect(format!("{A}\n{zeros}{B}\n{C}\n"), &after);
    expect(
        format!("{A}{zeros}\n{B}\n"),
        &[("record", A), ("NulBlock!", &zeros), ("record", B)],
    );
    expect(
        format!("{A}\n \0 \0\n{B}\n"),
        &[
            ("record", A),
            ("NulBlock!", "\0"),
            ("NulBlock!", "\0"),
            ("record", B),
        ],
    );
    // In the middle of a line: what is before is lost, what is behind is not.
    expect(
        format!("{}{zeros}{B}\n{C}\n", &A[..50]),
        &[
            ("Fragment!", &A[..50]),
            ("NulBlock!", &zeros),
            ("Glued", B),
            ("record", C),
        ],
    );
}

#[test]
fn d03_truncated_last_line() {
    for cut in [1, 37, B.len() - 1] {
        let torn = &B[..B.len() - cut];
        expect(
            format!("{A}\n{torn}"),
            &[("record", A), ("TornTail!", torn)],
        );
    }
    // Complete, only the line feed is missing: a record.
    expect(format!("{A}\n{B}"), &[("record", A), ("record", B)]);
    // Somebody went on behind it.
    let torn = &B[..60];
    expect(
        format!("{A}\n{torn}\n{C}\n"),
        &[("record", A), ("Fragment!", torn), ("record", C)],
    );
    // Half of a number is a number: only the line feed says that it is whole.
    expect("12", &[("TornTail!", "12")]);
    expect("12\n", &[("record", "12")]);
}

#[test]
fn d04_glued_records() {
    expect(
        format!("{A}{B}{C}\n"),
        &[("record", A), ("Glued", B), ("Glued", C)],
    );
    expect(
        format!("{A} {B}\n{C}\n"),
        &[("record", A), ("Glued", B), ("record", C)],
    );
    let cut = &A[..A.len() * 6 / 10];
    expect(
        format!("{cut}{B}\n{C}\n"),
        &[("Fragment!", cut), ("Glued", B), ("record", C)],
    );
    expect(
        format!("{cut}{B}{C}\n{A}\n"),
        &[
            ("Fragment!", cut),
            ("Glued", B),
            ("Glued", C),
            ("record", A),
        ],
    );
    // Two cut ones before a whole one.
    let both = format!("{cut}{}", &B[..70]);
    expect(
        format!("{both}{C}\n"),
        &[("Fragment!", &both), ("Glued", C)],
    );
    // A whole one before a cut one.
    expect(
        format!("{A}{}\n{C}\n", &B[..70]),
        &[("record", A), ("Fragment!", &B[..70]), ("record", C)],
    );
}

#[test]
fn d04_a_part_of_a_record_is_not_taken_for_one() {
    // The inner object is whole and looks like a record; the line around it is cut behind it.
    let inner = r#"{"type":"user","message":{"content":"x"}}"#;
    for cut in [
        format!(r#"{{"type":"progress","data":{{"message":{inner},"more":1"#),
        r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x"}"#.to_owned(),
    ] {
        expect(
            format!("{cut}\n{C}\n"),
            &[("Fragment!", &cut), ("record", C)],
        );
    }
    // Cut right behind it, nothing tells it from a glued record: it is kept as one.
    let outer = r#"{"type":"progress","data":{"message":"#;
    expect(
        format!("{outer}{inner}\n"),
        &[("Fragment!", outer), ("Glued", inner)],
    );
    // An item of a Codex record looks like the bare records of old versions; it is none here.
    let cut = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"response_item","payload":{"type":"message","role":"user","content":[]}"#;
    let text = format!("{cut}\n");
    let pieces = parse_as(Provider::Codex, text.as_bytes());
    assert_eq!(
        outline(text.as_bytes(), &pieces),
        [("Fragment!".to_owned(), cut.to_owned())]
    );
}

#[test]
fn d05_raw_line_feed_inside_a_string() {
    let torn = C.replace("third", "th\nir\n\n{\"d");
    let torn = torn.replace("{\"d", "d");
    expect(
        format!("{A}\n{torn}\n{B}\n"),
        &[("record", A), ("Multiline", &torn), ("record", B)],
    );
    let text = format!("{A}\n{torn}\r\n{B}\n");
    let pieces = parse_as(Provider::Claude, text.as_bytes());
    let joined = records(&pieces)[1];
    let Disposition::Messages(m) = &joined.disposition else {
        panic!()
    };
    assert_eq!(m[0].text, "th\nir\n\nd");
    assert_eq!((joined.line, records(&pieces)[2].line), (2, 6));
    // Other raw control characters in a string are the same damage.
    let tab = C.replace("third", "th\tird");
    expect(format!("{tab}\n"), &[("Multiline", &tab)]);
}

#[test]
fn d05_lines_are_joined_to_a_record_or_not_at_all() {
    let head = &C[..C.len() - 5];
    // No end within reach: each line stands alone, and nothing behind is lost.
    let many: Vec<String> = (0..40).map(|n| format!("line {n}")).collect();
    let text = format!("{A}\n{head}\n{}\n{B}\n", many.join("\n"));
    let found = of(&text);
    assert_eq!(found.first().unwrap().1, A);
    assert_eq!(found.last().unwrap(), &("record".to_owned(), B.to_owned()));
    assert_eq!(found.len(), 43);
    // Joined, it would be an object, but no record.
    expect(
        "{\"type\":\"x\ny\"}\n1\n",
        &[
            ("Fragment!", "{\"type\":\"x"),
            ("Fragment!", "y\"}"),
            ("record", "1"),
        ],
    );
    // At the end of what is there it can't be said yet.
    let open = format!("{head}\nline\n");
    expect(
        format!("{A}\n{open}"),
        &[("record", A), ("TornTail!", &open)],
    );
}

#[test]
fn d06_unicode_line_ends_are_text() {
    let text = C.replace("third", "a\u{2028}b\u{2029}c\u{85}d");
    expect(
        format!("{text}\n{A}\n"),
        &[("record", &text), ("record", A)],
    );
}

#[test]
fn d07_invalid_utf8() {
    let mut bad = C.as_bytes().to_vec();
    let at = C.find("third").unwrap();
    bad[at] = 0xe6;
    let mut file = format!("{A}\n").into_bytes();
    file.extend_from_slice(&bad);
    file.extend_from_slice(format!("\n{B}\n").as_bytes());
    let pieces = parse_as(Provider::Claude, &file);
    let all = records(&pieces);
    assert_eq!(all.len(), 3);
    assert_eq!(all[1].recovery, Recovery::InvalidUtf8);
    assert_eq!(slice(&file, &all[1].span), bad);
    let Disposition::Messages(m) = &all[1].disposition else {
        panic!()
    };
    assert_eq!(m[0].text, "\u{fffd}hird");

    // A record that was cut inside a character, then a line feed.
    let cut = A.find('ü').unwrap() + 1;
    let mut file = A.as_bytes()[..cut].to_vec();
    file.extend_from_slice(format!("\n{B}\n").as_bytes());
    let pieces = parse_as(Provider::Claude, &file);
    assert!(matches!(
        pieces[0],
        Piece::Skipped { span, line: 1, reason: SkipReason::Fragment } if span.len as usize == cut
    ));
    assert_eq!(records(&pieces).len(), 1);
    // Bad bytes behind a whole record leave it whole.
    let mut file = A.as_bytes().to_vec();
    file.extend_from_slice(b"\xff\xfe\n");
    let pieces = parse_as(Provider::Claude, &file);
    assert_eq!(records(&pieces)[0].recovery, Recovery::Clean);
}

#[test]
fn d07_a_character_across_the_border_of_a_read_is_no_damage() {
    let pad = "x".repeat(256 * 1024 - 40);
    for shift in 0..4 {
        let line = C.replace("third", &format!("{}{pad}ünï漢字🚀", "y".repeat(shift)));
        expect(
            format!("{line}\n{line}\n"),
            &[("record", &line), ("record", &line)],
        );
    }
}

#[test]
fn d08_byte_order_mark_and_crlf() {
    expect(
        format!("\u{feff}{A}\r\n{B}\r\n"),
        &[("record", A), ("record", B)],
    );
    let text = format!("\u{feff}{A}\r\n");
    let pieces = parse_as(Provider::Claude, text.as_bytes());
    assert_eq!(span(&pieces[0]).len, 3);
    // Elsewhere it is no mark.
    expect(
        format!("{A}\n\u{feff}{B}\n"),
        &[("record", A), ("Fragment!", "\u{feff}"), ("Glued", B)],
    );
}

#[test]
fn d09_lone_surrogates() {
    let lone = C.replace("third", r"\ud83d x \ud83d\ude00 \\ud83d");
    expect(
        format!("{A}\n{lone}\n{B}\n"),
        &[("record", A), ("LoneSurrogate", &lone), ("record", B)],
    );
    let pieces = parse_as(Provider::Claude, lone.as_bytes());
    assert_eq!(messages(&pieces)[0].text, "\u{fffd} x 😀 \\ud83d");
    let pair = C.replace("third", r"\uD83D\uDE00");
    expect(&pair, &[("record", &pair)]);
    // In a key, and in a part that nobody reads.
    let key = C.replace("\"uuid\"", r#""\udfff":{"x":["\ud800"]},"uuid""#);
    expect(format!("{key}\n"), &[("LoneSurrogate", &key)]);
}

#[test]
fn d11_depth_and_numbers_are_no_reason_to_lose_a_record() {
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let line = format!(
        r#"{{"type":"assistant","uuid":"d","x":{deep},"n":123456789012345678901234567890,"message":{{"content":[{{"type":"tool_use","id":"t","name":"T","input":{{"a":{deep}}}}}]}}}}"#
    );
    let text = format!("{line}\n{A}\n");
    let pieces = parse_as(Provider::Claude, text.as_bytes());
    assert_eq!(records(&pieces).len(), 2);
    assert_eq!(messages(&pieces)[0].text, format!(r#"{{"a":{deep}}}"#));
    // Not JSON at all; what follows is.
    let nan = r#"{"type":"user","x":NaN}"#;
    expect(
        format!("{nan}\n{A}\n"),
        &[("Fragment!", nan), ("record", A)],
    );
}

#[test]
fn d12_values_that_are_no_records_are_kept() {
    let file = "42\n[1]\n\"x\"\nnull\n{}\n{\"type\":\"novel\"}\n{\"type\":7}\n";
    let pieces = parse_as(Provider::Claude, file.as_bytes());
    assert_eq!(records(&pieces).len(), 7);
    assert!(
        records(&pieces)
            .iter()
            .all(|r| r.disposition == Disposition::Unknown)
    );
    assert_eq!(records(&pieces)[5].record_type, "novel");
    let pieces = parse_as(Provider::Codex, file.as_bytes());
    assert_eq!(records(&pieces).len(), 7);
    assert!(
        records(&pieces)
            .iter()
            .all(|r| r.disposition == Disposition::Unknown)
    );
    expect(
        "nonsense\n{]\n",
        &[("Fragment!", "nonsense"), ("Fragment!", "{]")],
    );
}

#[test]
fn d14_the_same_record_twice_is_held_once() {
    let other = C.replace("third", "another");
    let text = format!("{A}\n{C}\n{A}\n{other}\n{A}\n");
    let pieces = parse_as(Provider::Claude, text.as_bytes());
    let all = records(&pieces);
    assert_eq!(all[2].disposition, Disposition::DuplicateOf { offset: 0 });
    assert_eq!(all[4].disposition, Disposition::DuplicateOf { offset: 0 });
    // Other bytes under the same id are another version.
    assert!(matches!(all[3].disposition, Disposition::Messages(_)));
    assert_eq!(all[3].native_id, all[1].native_id);
    // Records without an id of their own may well say the same again.
    let mode = r#"{"type":"mode","mode":"normal","sessionId":"s"}"#;
    let text = format!("{mode}\n{mode}\n");
    let pieces = parse_as(Provider::Claude, text.as_bytes());
    assert!(
        records(&pieces)
            .iter()
            .all(|r| r.disposition == Disposition::Known)
    );
    // The same id in another session is another record.
    let fork = A.replace("\"s\"", "\"t\"");
    let text = format!("{A}\n{fork}\n");
    let pieces = parse_as(Provider::Claude, text.as_bytes());
    assert_eq!(records(&pieces)[1].session, "t");
    assert!(matches!(
        records(&pieces)[1].disposition,
        Disposition::Messages(_)
    ));
}

#[test]
fn d17_ordinals_do_not_order_or_drop_records() {
    let s = sample("harness-0.171.0/sessions/2026/11/29");
    let text = String::from_utf8(s.bytes.clone()).unwrap();
    let sound = parse(s.provider, &s.path, &s.bytes);
    let strip = |l: &str| {
        let Some(at) = l.find("\"ordinal\":") else {
            return l.to_owned();
        };
        let end = at + l[at..].find(',').unwrap() + 1;
        format!("{}{}", &l[..at], &l[end..])
    };
    let last = text.lines().count() - 1;
    for damaged in [
        text.lines()
            .enumerate()
            .map(|(n, l)| if n == last { strip(l) } else { l.to_owned() } + "\n")
            .collect::<String>(),
        text.replace("\"ordinal\":9,", "\"ordinal\":8,"),
    ] {
        assert_ne!(damaged, text);
        let pieces = parse(s.provider, &s.path, damaged.as_bytes());
        assert_eq!(messages(&pieces), messages(&sound));
    }
}

#[test]
fn d19_broken_or_missing_header() {
    let s = sample("harness-0.171.0/sessions/2026/11/29");
    let sound = parse(s.provider, &s.path, &s.bytes);
    let id = records(&sound)[0].session.clone();
    assert!(s.name.contains(&id));
    let second = s.bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    for damaged in [&s.bytes[30..], &s.bytes[second..]] {
        let pieces = parse(s.provider, &s.path, damaged);
        assert!(records(&pieces).iter().all(|r| r.session == id));
        assert_eq!(messages(&pieces), messages(&sound));
    }
    let cut = parse(s.provider, &s.path, &s.bytes[30..]);
    assert!(matches!(
        cut[0],
        Piece::Skipped {
            reason: SkipReason::Fragment,
            ..
        }
    ));

    let s = sample("86cc3044");
    let second = s.bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    let whole = parse(s.provider, &s.path, &s.bytes);
    let cut = parse(s.provider, &s.path, &s.bytes[second - 20..]);
    assert_eq!(records(&cut).len() + 1, records(&whole).len());
    assert!(messages(&cut).iter().any(|m| m.role == Role::User));
}

#[test]
fn each_class_of_damage_in_real_files_loses_no_record_but_the_damaged_one() {
    for s in samples().iter().filter(|s| s.bytes.len() < 200_000) {
        let whole = parse(s.provider, &s.path, &s.bytes);
        let all = records(&whole);
        if all.len() < 4 {
            continue;
        }
        let hashes = |p: &[Piece]| records(p).iter().map(|r| r.hash).collect::<Vec<_>>();
        let sound = hashes(&whole);
        let n = all.len() / 2;
        let at = usize::try_from(all[n].span.offset).unwrap();
        let end = usize::try_from(all[n].span.end()).unwrap();
        let splice =
            |from: usize, to: usize, with: &[u8]| [&s.bytes[..from], with, &s.bytes[to..]].concat();
        // Zeros before a record, zeros behind it.
        for with in [splice(at, at, &[0; 700]), splice(end, end, &[0; 700])] {
            assert_eq!(
                hashes(&parse(s.provider, &s.path, &with)),
                sound,
                "{}",
                s.name
            );
        }
        // The line feed behind it lost.
        if s.bytes.get(end) == Some(&b'\n') {
            let with = splice(end, end + 1, b"");
            assert_eq!(
                hashes(&parse(s.provider, &s.path, &with)),
                sound,
                "{}",
                s.name
            );
        }
        // Its second half lost, with and without the line feed.
        let mut less = sound.clone();
        less.remove(n);
        let with = splice(at + (end - at) * 6 / 10, end, b"");
        assert_eq!(
            hashes(&parse(s.provider, &s.path, &with)),
            less,
            "{}",
            s.name
        );
        if n + 1 < sound.len() && s.bytes.get(end) == Some(&b'\n') {
            let with = splice(at + (end - at) * 6 / 10, end + 1, b"");
            assert_eq!(
                hashes(&parse(s.provider, &s.path, &with)),
                less,
                "{}",
                s.name
            );
        }
    }
}
