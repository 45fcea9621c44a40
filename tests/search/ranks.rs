//! What the order of a list is, and what its total means, in an index so large that not every match
//! is scored.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::sandbox::{Ran, Sandbox};
use super::talk::id;

/// Messages of the large session: more than are ranked.
const MANY: usize = 10_500;

/// A session in which every message holds `common`, every second one less one `half`, every 50th
/// `rare`, and the third last `seldom` many times.
fn large(s: &Sandbox) {
    let mut lines = String::new();
    for n in 0..MANY {
        let mut text = format!("common words m{n}");
        if n % 2 == 0 && n > 2 {
            text.push_str(" half");
        }
        if n % 50 == 0 {
            text.push_str(" rare");
        }
        if n == 50 {
            text.push_str(" rare rare rare");
        }
        let session = id(1);
        writeln!(
            lines,
            r#"{{"type":"user","sessionId":"{session}","uuid":"u{n}","cwd":"/w","timestamp":"2026-01-02T03:04:05.000Z","message":{{"role":"user","content":"{text}"}}}}"#
        )
        .unwrap();
    }
    s.put(
        &format!(".claude/projects/-p/{}.jsonl", id(1)),
        lines.as_bytes(),
    );
    s.run(&["index"]).expect(0);
}

fn numbers(run: &Ran) -> Vec<u64> {
    let hits = run.at("/hits").as_array().unwrap();
    hits.iter().map(|h| h["number"].as_u64().unwrap()).collect()
}

#[test]
fn common_words_bring_the_newest_and_rare_words_the_best() {
    let s = Sandbox::new();
    large(&s);
    let all = MANY as u64;

    // Every message holds it: the newest come first, and the total says that it is none.
    let run = s.run(&["search", "common", "--limit", "5"]).expect(0);
    assert_eq!(run.text("/ranking/rule"), "newest");
    assert_eq!(run.number("/total"), 10_000);
    assert_eq!(run.at("/total_is_lower_bound"), true);
    assert_eq!(run.number("/ranking/total_estimate"), all);
    assert_eq!(run.at("/ranking/unweighed/0"), "\"common\"");
    let newest: Vec<u64> = (0..5).map(|n| all - n).collect();
    assert_eq!(numbers(&run), newest);

    // A rare word beside it: all that match are counted and scored, by the rare word.
    let both = s
        .run(&["search", "common", "rare", "--limit", "300"])
        .expect(0);
    assert_eq!(both.text("/ranking/rule"), "best");
    assert_eq!(both.number("/total"), all / 50);
    assert_eq!(both.at("/total_is_lower_bound"), false);
    assert_eq!(both.at("/ranking/unweighed").as_array().unwrap().len(), 1);
    assert_eq!(numbers(&both)[0], 51);
    let alone = s.run(&["search", "rare", "--limit", "300"]).expect(0);
    assert_eq!(numbers(&both), numbers(&alone));
    assert_eq!(alone.at("/ranking/unweighed").as_array().unwrap().len(), 0);

    // A word of less than half of them is scored as ever, and the words can't be told apart by it.
    let half = s.run(&["search", "half", "--limit", "3"]).expect(0);
    assert_eq!(half.text("/ranking/rule"), "best");
    assert_eq!(half.number("/total"), all / 2 - 2);

    // Phrases and beginnings of common words.
    let phrase = s.run(&["search", "\"common words\"", "m77*"]).expect(0);
    assert_eq!(phrase.number("/total"), 111);
    let people = s
        .command(&["search", "common", "--explain"])
        .output()
        .unwrap();
    let text = String::from_utf8(people.stdout).unwrap();
    assert!(
        text.contains("More than 10000 messages match, about 10500"),
        "{text}"
    );
    assert!(text.contains("no weight \"common\""), "{text}");
}

#[test]
fn pages_of_common_words_neither_repeat_nor_leave_out() {
    let s = Sandbox::new();
    large(&s);
    let (mut seen, mut last, mut cursor) = (BTreeSet::new(), u64::MAX, String::new());
    let mut pages = 0;
    loop {
        let mut words = vec!["search", "common", "--limit", "1000", "--fields", "number"];
        if pages > 0 {
            words.extend(["--cursor", &cursor]);
        }
        let run = s.run(&words).expect(0);
        pages += 1;
        for n in numbers(&run) {
            assert!(n < last && seen.insert(n));
            last = n;
        }
        match run.at("/next_cursor").as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
        if pages == 3 {
            // Newer ones come: they belong to no page of this list.
            s.put(
                &format!(".claude/projects/-p/{}.jsonl", id(2)),
                format!(r#"{{"type":"user","sessionId":"{}","uuid":"x","cwd":"/w","timestamp":"2026-01-03T03:04:05.000Z","message":{{"role":"user","content":"common"}}}}"#, id(2)).as_bytes(),
            );
            s.run(&["index"]).expect(0);
        }
    }
    assert_eq!((pages, seen.len()), (10, 10_000));
}
