use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::sandbox::Sandbox;

/// Every message of every sample, exported; words taken from all over them; each must be found
/// exactly where a plain loop over the exported texts finds it.
#[test]
fn search_finds_what_a_scan_of_the_exports_finds() {
    let s = Sandbox::new();
    s.lay_out_samples();
    s.run(&["index"]);
    let mut texts: BTreeMap<(String, String), (String, String)> = BTreeMap::new();
    for session in s.sessions() {
        let id = session["id"].as_str().unwrap();
        for m in s.messages(id) {
            if m["superseded"] == Value::Bool(true) {
                continue;
            }
            let kind = m["kind"].as_str().unwrap().to_owned();
            let text = m["text"].as_str().unwrap().to_owned();
            let key = (id.to_owned(), m["id"].as_str().unwrap().to_owned());
            texts.insert(key, (kind, text));
        }
    }
    assert!(texts.len() > 500);
    // Plain lower-case words between spaces: what they match needs no rule of tokens.
    let mut count: BTreeMap<&str, u32> = BTreeMap::new();
    for (_, text) in texts.values() {
        for word in text.split(' ') {
            if word.len() > 2 && word.bytes().all(|b| b.is_ascii_lowercase()) {
                *count.entry(word).or_default() += 1;
            }
        }
    }
    let words: Vec<&str> = count.keys().copied().step_by(count.len() / 40).collect();
    assert!(words.len() >= 40);
    for word in words {
        let expected: BTreeSet<(String, String)> = texts
            .iter()
            .filter(|(_, (kind, text))| holds(text, word, kind == "tool-call"))
            .map(|(key, _)| key.clone())
            .collect();
        let run = s.run(&["search", word, "--limit", "1000"]).expect(0);
        let found: BTreeSet<(String, String)> = run
            .at("/hits")
            .as_array()
            .unwrap()
            .iter()
            .map(|h| {
                (
                    h["session_id"].as_str().unwrap().to_owned(),
                    h["message_id"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        if run.number("/total") <= 1000 {
            let missing: Vec<_> = expected.difference(&found).map(|k| &texts[k]).collect();
            let more: Vec<_> = found.difference(&expected).map(|k| texts.get(k)).collect();
            assert!(
                missing.is_empty() && more.is_empty(),
                "{word}: missing {missing:?}, more {more:?}"
            );
        }
    }
}

/// Whether `text` holds `word` as a word of its own or as a part of an identifier, by a loop of
/// its own over characters.
fn holds(text: &str, word: &str, json: bool) -> bool {
    let text: String = if json {
        text.replace("\\\\", "  ")
            .replace("\\n", "  ")
            .replace("\\t", "  ")
            .replace("\\r", "  ")
    } else {
        text.to_owned()
    };
    let lower = text.to_ascii_lowercase();
    lower.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let mut behind = text[at + word.len()..].chars();
        let (next, after) = (behind.next(), behind.next());
        let first = text[at..].chars().next().unwrap();
        let last = text[..at + word.len()].chars().next_back().unwrap();
        let begins = match before {
            None => true,
            Some(c) if !c.is_alphanumeric() => true,
            Some(c) => {
                first.is_uppercase()
                    && (c.is_lowercase()
                        || text[at + first.len_utf8()..]
                            .chars()
                            .next()
                            .is_some_and(char::is_lowercase))
            }
        };
        let ends = match next {
            None => true,
            Some(c) if !c.is_alphanumeric() => true,
            Some(c) => {
                c.is_uppercase() && (last.is_lowercase() || after.is_some_and(char::is_lowercase))
            }
        };
        // A whole identifier is found as one word too: `tool_use` as `tooluse`; here the text has
        // it without its underscores only by luck.
        begins && ends || whole(&text, word)
    }) || whole(&text, word)
}

fn whole(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|run| run.replace('_', "").to_lowercase() == word)
}
