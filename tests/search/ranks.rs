//! What the order of a list is, and what its total means, in an index so large that not every match
//! is scored.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::sandbox::{Ran, Sandbox};
use super::talk::id;

/// Messages of the large session: more than are in the newest part of an index, and so many that
/// windows of 2,000 matches of `often` lie in it, across its beginning and before it.
const MANY: usize = 20_500;
/// So few that all matches are ranked together.
const FEW: usize = 9_900;

/// A session in which every message holds `common`, two of five `often` (those early in the session
/// twice), every 50th `rare`, and one `rare` many times.
fn session(s: &Sandbox, messages: usize) {
    let mut lines = String::new();
    for n in 0..messages {
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

/// All pages of a list, or those behind `first`; and what is done behind the third one.
fn pages(s: &Sandbox, word: &str, first: Option<&Ran>, mut behind: impl FnMut()) -> Vec<Ran> {
    let mut pages: Vec<Ran> = Vec::new();
    loop {
        let last = pages.last().or(first);
        let next = last.and_then(|p: &Ran| p.at("/next_cursor").as_str());
        let mut words = vec!["search", word, "--limit", "1000"];
        words.extend(["--fields", "number,rank"]);
        match next {
            Some(cursor) => words.extend(["--cursor", cursor]),
            None if last.is_none() => {}
            None => return pages,
        }
        let page = s.run(&words).expect(0);
        pages.push(page);
        if pages.len() == 3 {
            behind();
        }
    }
}

/// Everything is ranked together while there is little; a list that was begun then goes on without
/// a repetition or a gap when the index has become large.
fn small_and_then_large(s: &Sandbox) {
    session(s, FEW);
    let words = ["search", "often", "--limit", "1000", "--fields", "number"];
    let first = s.run(&words).expect(0);
    let all = FEW as u64 / 5 * 2;
    assert_eq!(first.text("/ranking/rule"), "best");
    assert_eq!(first.number("/total"), all);
    assert_eq!(first.at("/total_is_lower_bound"), false);
    let mut shown: BTreeSet<u64> = numbers(&first).into_iter().collect();
    // Those that hold it twice, which are the oldest.
    assert!(shown.len() == 1000 && shown.iter().all(|n| *n <= 2_500));

    session(s, MANY);
    let rest = pages(s, "often", Some(&first), || {});
    assert_eq!(rest[0].text("/ranking/rule"), "best-of-newest");
    assert_eq!(rest[0].number("/hits/0/rank"), 1001);
    let last = rest.last().unwrap();
    assert_eq!(last.number("/total"), all);
    assert_eq!(last.at("/total_is_lower_bound"), false);
    for n in rest.iter().flat_map(numbers) {
        assert!(n <= FEW as u64 && shown.insert(n), "{n} comes twice");
    }
    assert_eq!(shown.len() as u64, all);
}

#[test]
fn in_a_large_index_common_words_bring_the_newest_and_rare_words_the_best() {
    let s = Sandbox::new();
    small_and_then_large(&s);
    let all = MANY as u64;

    // Every message holds it: the newest come first, and the total says that it is none.
    let run = s.run(&["search", "common", "--limit", "5"]).expect(0);
    assert_eq!(run.text("/ranking/rule"), "newest");
    assert_eq!(run.number("/total"), 2_000);
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
        text.contains("More than 2000 messages match, about 20500"),
        "{text}"
    );
    assert!(text.contains("no weight \"common\""), "{text}");
    assert!(page(&["search", "often"]).contains("2,000 at a time"));

    let late = format!(".claude/projects/-p/{}.jsonl", id(2));
    let put_late = |text: &str| {
        s.put(
            &late,
            format!(r#"{{"type":"user","sessionId":"{}","uuid":"x","cwd":"/w","timestamp":"2026-01-03T03:04:05.000Z","message":{{"role":"user","content":"{text}"}}}}"#, id(2)).as_bytes(),
        );
        s.run(&["index"]).expect(0)
    };
    // Pages of everything, 2,000 ranked at a time. Newer messages belong to no page of this list.
    let list = pages(&s, "common", None, || drop(put_late("common often")));
    let shown: Vec<u64> = list.iter().flat_map(numbers).collect();
    assert!(shown.iter().copied().eq((1..=all).rev()));
    let totals: Vec<u64> = list.iter().map(|p| p.number("/total")).collect();
    let expected = (0..20).map(|n| (n / 2 + 1) * 2_000).chain([all]);
    assert_eq!(totals, expected.collect::<Vec<_>>());
    let last = list.last().unwrap();
    assert_eq!(last.at("/total_is_lower_bound"), false);
    assert_eq!(last.number("/ranking/total_estimate"), all);
    assert_eq!(last.number("/hits/499/rank"), all);
    assert_eq!(last.text("/ranking/rule"), "newest");

    often_in_windows(&pages(&s, "often", None, || {}));

    // A message of the newest part that is written again leaves it.
    let run = put_late("common seldom");
    assert_eq!(run.number("/lexical/removed"), 1);
    assert_eq!(s.run(&["search", "seldom"]).expect(0).number("/total"), 1);
    let list = pages(&s, "often", None, || {});
    let of = |list: &[Ran]| list.iter().flat_map(numbers).collect::<Vec<_>>();
    assert_eq!(of(&list).len() as u64, all / 5 * 2);

    // A newest part that lost documents is seen, and the index made anew at once answers the same.
    let index = std::fs::read_dir(s.data().join("derived/lexical")).unwrap();
    let mut index = index.map(|e| e.unwrap().path()).filter(|p| p.is_dir());
    let db = index.next().unwrap().join("index.db");
    let conn = rusqlite::Connection::open(db).unwrap();
    conn.execute_batch("DELETE FROM newest WHERE rowid>20000")
        .unwrap();
    drop(conn);
    let run = s.run(&["search", "often"]).expect(8);
    assert_eq!(run.text("/lexical/state"), "hollow");
    s.run(&["index"]).expect(0);
    let again = pages(&s, "often", None, || {});
    assert_eq!(of(&again), of(&list));
}

/// Two of five hold it: the best of the newest 2,000, which are not the best of all, and then the
/// older ones, best first again.
fn often_in_windows(list: &[Ran]) {
    let all = MANY as u64 / 5 * 2 + 1;
    assert_eq!(list[0].text("/ranking/rule"), "best-of-newest");
    assert_eq!(list[0].number("/total"), 2_000);
    assert_eq!(list.len(), 9);
    let estimate = list[0].number("/ranking/total_estimate");
    assert!(estimate.abs_diff(all) < 10, "{estimate}");
    let shown: Vec<u64> = list.iter().flat_map(numbers).collect();
    // The shortest message with it, the only one of the second session, is the best.
    assert_eq!(shown[0], 1);
    assert!(shown[1..2_000].iter().all(|n| *n > 15_000));
    // Those that hold it twice.
    assert!(shown[6_000..6_799].iter().all(|n| *n <= 2_500));
    assert!(shown[6_799..8_000].iter().all(|n| *n > 2_500));
    let older = &list[8];
    assert_eq!(older.text("/ranking/rule"), "best");
    assert_eq!(older.number("/total"), all);
    assert_eq!(older.number("/hits/0/rank"), 8_001);
    assert!(numbers(older).iter().all(|n| *n < 600));
    let distinct: BTreeSet<u64> = shown.iter().copied().collect();
    // The message of the second session has a number that one of the first has too.
    assert_eq!(shown.len() as u64, all);
    assert_eq!(distinct.len() as u64, all - 1);
}
