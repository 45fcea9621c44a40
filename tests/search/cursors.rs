use std::collections::BTreeSet;

use super::sandbox::{Ran, Sandbox};
use super::talk::{id, texts};

fn ids(run: &Ran) -> Vec<String> {
    run.at("/hits")
        .as_array()
        .unwrap()
        .iter()
        .map(|h| h["message_id"].as_str().unwrap().to_owned())
        .collect()
}

fn fill(s: &Sandbox, session: u32, n: u32) {
    let all: Vec<String> = (0..n)
        .map(|i| format!("needle {session} {i} {}", "pad ".repeat((i % 7) as usize)))
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    texts(s, &id(session), &all);
    s.run(&["index"]).expect(0);
}

fn page(s: &Sandbox, cursor: Option<&str>) -> Ran {
    let mut words = vec!["search", "needle", "--limit", "9"];
    if let Some(cursor) = cursor {
        words.extend(["--cursor", cursor]);
    }
    s.run(&words).expect(0)
}

#[test]
fn pages_are_the_whole_list_cut() {
    let s = Sandbox::new();
    fill(&s, 1, 40);
    let whole = ids(&s.run(&["search", "needle", "--limit", "100"]).expect(0));
    assert_eq!(whole.len(), 40);
    let (mut paged, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let run = page(&s, cursor.as_deref());
        assert_eq!(run.number("/total"), 40);
        assert_eq!(run.number("/hits/0/rank"), paged.len() as u64 + 1);
        paged.extend(ids(&run));
        match run.at("/next_cursor").as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    assert_eq!(paged, whole);
}

/// Rows are added after each page, and once the index is made anew: every message that there was
/// at the first page comes once, and no other.
#[test]
fn no_hit_comes_twice_or_is_left_out_while_rows_are_added() {
    let s = Sandbox::new();
    fill(&s, 1, 40);
    let whole: BTreeSet<String> = ids(&s.run(&["search", "needle", "--limit", "100"]).expect(0))
        .into_iter()
        .collect();
    let mut run = page(&s, None);
    let mut paged = ids(&run);
    let mut session = 2;
    while let Some(cursor) = run.at("/next_cursor").as_str().map(str::to_owned) {
        fill(&s, session, 15);
        session += 1;
        if session == 4 {
            std::fs::remove_dir_all(s.data().join("derived")).unwrap();
            s.run(&["index"]).expect(0);
        }
        run = page(&s, Some(&cursor));
        paged.extend(ids(&run));
    }
    assert!(session > 4);
    assert_eq!(paged.len(), 40);
    assert_eq!(paged.into_iter().collect::<BTreeSet<_>>(), whole);
}

#[test]
fn a_cursor_of_something_else_is_refused() {
    let s = Sandbox::new();
    fill(&s, 1, 20);
    let cursor = page(&s, None).text("/next_cursor").to_owned();
    for words in [
        &["search", "needle", "pad", "--cursor", &cursor][..],
        &["search", "needle", "--role", "user", "--cursor", &cursor],
        &["search", "needle", "--cursor", "nonsense"],
        &["search", "needle", "--cursor", &cursor[1..]],
    ] {
        let run = s.run(words).expect(2);
        assert_eq!(run.text("/err/kind"), "usage");
    }
}
