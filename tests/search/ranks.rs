//! What the order of a list is, and what its total means, in an index so large that not every match
//! is scored.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::sandbox::{Ran, Sandbox};
use super::talk::id;

/// Messages of the large session: so many that 10,000 are less than half of those with `often`.
const MANY: usize = 25_500;

/// A session in which every message holds `common`, two of five `often` (those early in the session
/// twice), every 50th `rare`, and one `rare` many times.
fn large(s: &Sandbox) {
    let mut lines = String::new();
    for n in 0..MANY {
        let mut text = format!("common words m{n}");
        if n % 5 < 2 {
            text.push_str(if n < 2_500 { " often often" } else { " often" });
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
    let position = |h: &serde_json::Value| h["number"].as_u64().unwrap();
    hits.iter().map(position).collect()
}

/// All pages of a list, and what is done behind the third one.
fn pages(s: &Sandbox, word: &str, mut behind: impl FnMut()) -> Vec<Ran> {
    let mut pages: Vec<Ran> = Vec::new();
    loop {
        let next = pages
            .last()
            .and_then(|p: &Ran| p.at("/next_cursor").as_str());
        let mut words = vec!["search", word, "--limit", "1000"];
        words.extend(["--fields", "number,rank"]);
        match next {
            Some(cursor) => words.extend(["--cursor", cursor]),
            None if pages.is_empty() => {}
            None => return pages,
        }
        let page = s.run(&words).expect(0);
        pages.push(page);
        if pages.len() == 3 {
            behind();
        }
    }
}

#[test]
fn in_a_large_index_common_words_bring_the_newest_and_rare_words_the_best() {
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
        .run(&["search", "common", "rare", "--limit", "600"])
        .expect(0);
    assert_eq!(both.text("/ranking/rule"), "best");
    assert_eq!(both.number("/total"), all / 50);
    assert_eq!(both.at("/total_is_lower_bound"), false);
    assert_eq!(both.at("/ranking/unweighed").as_array().unwrap().len(), 1);
    assert_eq!(numbers(&both)[0], 51);
    let alone = s.run(&["search", "rare", "--limit", "600"]).expect(0);
    assert_eq!(numbers(&both), numbers(&alone));
    assert_eq!(alone.at("/ranking/unweighed").as_array().unwrap().len(), 0);

    // Phrases and beginnings of common words.
    let phrase = s.run(&["search", "\"common words\"", "m77*"]).expect(0);
    assert_eq!(phrase.number("/total"), 111);

    // An older message is found by its time or its other words at once, whatever is common.
    let old = s.run(&["search", "common", "m7"]).expect(0);
    assert_eq!(numbers(&old), [8]);

    let page = |args: &[&str]| {
        let out = s.command(args).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let text = page(&["search", "common", "--explain"]);
    assert!(
        text.contains("More than 10000 messages match, about 25500"),
        "{text}"
    );
    assert!(text.contains("no weight \"common\""), "{text}");
    assert!(page(&["search", "often"]).contains("10,000 at a time"));

    // Pages of everything, 10,000 ranked at a time. Newer messages belong to no page of this list.
    let list = pages(&s, "common", || {
        s.put(
            &format!(".claude/projects/-p/{}.jsonl", id(2)),
            format!(r#"{{"type":"user","sessionId":"{}","uuid":"x","cwd":"/w","timestamp":"2026-01-03T03:04:05.000Z","message":{{"role":"user","content":"common often"}}}}"#, id(2)).as_bytes(),
        );
        s.run(&["index"]).expect(0);
    });
    let shown: Vec<u64> = list.iter().flat_map(numbers).collect();
    assert!(shown.iter().copied().eq((1..=all).rev()));
    let totals: Vec<u64> = list.iter().map(|p| p.number("/total")).collect();
    assert_eq!(totals[..10], [10_000; 10]);
    assert_eq!(totals[10..20], [20_000; 10]);
    assert_eq!(totals[20..], [all; 6]);
    let last = list.last().unwrap();
    assert_eq!(last.at("/total_is_lower_bound"), false);
    assert_eq!(last.number("/ranking/total_estimate"), all);
    assert_eq!(last.number("/hits/499/rank"), all);

    assert_eq!(last.text("/ranking/rule"), "newest");

    // Two of five hold it: the best of the newest 10,000, which are not the best of all, and then
    // the older ones, best first again.
    let list = pages(&s, "often", || {});
    assert_eq!(list[0].text("/ranking/rule"), "best-of-newest");
    assert_eq!(list[0].number("/total"), 10_000);
    assert_eq!(list.len(), 11);
    let shown: Vec<u64> = list.iter().flat_map(numbers).collect();
    let older = &list[10];
    assert_eq!(older.text("/ranking/rule"), "best");
    assert_eq!(older.number("/total"), all / 5 * 2 + 1);
    assert_eq!(older.number("/hits/0/rank"), 10_001);
    assert!(numbers(older).iter().all(|n| *n < 600));
    // Those that hold it twice.
    assert!(shown[..700].iter().all(|n| *n <= 2_500));
    let distinct: BTreeSet<u64> = shown.iter().copied().collect();
    // The message of the second session has a number that one of the first has too.
    assert_eq!(shown.len() as u64, all / 5 * 2 + 1);
    assert_eq!(distinct.len() as u64, all / 5 * 2);
}
