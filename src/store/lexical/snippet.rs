//! Where a message holds what was asked for, found in the archive's own text by the rules of the
//! index, and the piece of it that is shown.

use super::query::{Clause, Query};
use super::tokens::{Form, Sink, indexed, is_lone, walk};

/// Places that are looked for in one text.
const MAX_PLACES: usize = 2000;
/// Bytes of text shown before the first match.
const BEFORE: usize = 60;

/// A piece of a text with what matched in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The piece, as it stands in the text.
    pub text: String,
    /// Where something matched: first and end, as characters (Unicode scalar values) of `text`.
    pub matches: Vec<(usize, usize)>,
    /// Whether text stands before it.
    pub cut_before: bool,
    /// Whether text stands behind it.
    pub cut_after: bool,
}

struct Part {
    token: String,
    from: usize,
    to: usize,
}

#[derive(Default)]
struct Tokens {
    parts: Vec<Part>,
    wholes: Vec<Part>,
}

impl Sink for Tokens {
    fn part(&mut self, token: &str, from: usize, to: usize) {
        let token = token.to_owned();
        self.parts.push(Part { token, from, to });
    }

    fn last(&mut self, token: &str, from: usize, to: usize, _pairs: bool) {
        self.part(token, from, to);
    }

    fn whole(&mut self, token: &str, from: usize, to: usize) {
        let token = token.to_owned();
        self.wholes.push(Part { token, from, to });
    }
}

/// Where `text` holds the clauses of `query`: bytes, and the clause's number, by place. Empty when
/// a clause is nowhere.
#[must_use]
pub fn places(query: &Query, text: &str, form: Form) -> Vec<(usize, usize, usize)> {
    let mut tokens = Tokens::default();
    walk(indexed(text), form, &mut tokens);
    let mut found = Vec::new();
    for (n, clause) in query.clauses().iter().enumerate() {
        let before = found.len();
        // A single character of a script without spaces is the beginning of a pair: the pair's
        // second one was not asked for.
        let lone = match clause.tokens.last() {
            Some(t) if clause.prefix && is_lone(t) => t.len(),
            _ => 0,
        };
        clause_places(clause, &tokens, &mut |from, last, to| {
            let piece = text.get(last..to).unwrap_or_default();
            let to = match piece.chars().next() {
                Some(c) if lone > 0 && c.len_utf8() == lone => last + lone,
                _ => to,
            };
            if found.len() - before < MAX_PLACES {
                found.push((from, to, n));
            }
        });
        if found.len() == before {
            return Vec::new();
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

fn clause_places(clause: &Clause, tokens: &Tokens, found: &mut dyn FnMut(usize, usize, usize)) {
    let same = |wanted: &str, token: &str, open: bool| {
        token == wanted || (open && token.starts_with(wanted))
    };
    let n = clause.tokens.len();
    for window in tokens.parts.windows(n.max(1)) {
        let fits = window
            .iter()
            .zip(&clause.tokens)
            .enumerate()
            .all(|(i, (part, wanted))| same(wanted, &part.token, clause.prefix && i + 1 == n));
        if let (true, Some(first), Some(last)) = (fits, window.first(), window.last()) {
            found(first.from, last.from, last.to.max(first.to));
        }
    }
    let word = match (&clause.whole, clause.tokens.as_slice()) {
        (Some(whole), _) => whole,
        (None, [one]) => one,
        _ => return,
    };
    for part in tokens
        .parts
        .iter()
        .filter(|_| clause.whole.is_some())
        .chain(&tokens.wholes)
    {
        if same(word, &part.token, clause.prefix) {
            found(part.from, part.from, part.to);
        }
    }
}

/// The piece of `text` of about `width` bytes that holds most of what was asked for.
#[must_use]
pub fn snippet(query: &Query, text: &str, form: Form, width: usize) -> Snippet {
    let places = places(query, text, form);
    let mut best = (0, 0);
    let mut end = 0;
    for (i, (from, ..)) in places.iter().enumerate() {
        while places
            .get(end)
            .is_some_and(|(_, to, _)| *to <= from + width.saturating_sub(BEFORE))
        {
            end += 1;
        }
        let mut kinds: Vec<usize> = places
            .get(i..end.max(i + 1))
            .unwrap_or_default()
            .iter()
            .map(|p| p.2)
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.len() > best.1 {
            best = (i, kinds.len());
        }
    }
    let first = places.get(best.0).map_or(0, |p| p.0);
    let from = word_start(text, first.saturating_sub(BEFORE), first);
    let mut to = (from + width).min(text.len());
    if let Some((_, end, _)) = places.get(best.0) {
        // A long phrase is shown up to four times the width.
        to = to.max((*end).min(from + 4 * width)).min(text.len());
    }
    while !text.is_char_boundary(to) {
        to -= 1;
    }
    let piece = text.get(from..to).unwrap_or_default();
    let chars = |at: usize| piece.get(..at - from).map_or(0, |t| t.chars().count());
    let mut matches: Vec<(usize, usize)> = Vec::new();
    for (a, b, _) in places.iter().filter(|(a, b, _)| *a >= from && *b <= to) {
        match matches.last_mut() {
            Some((_, end)) if *a <= *end => *end = (*end).max(*b),
            _ => matches.push((*a, *b)),
        }
    }
    Snippet {
        matches: matches
            .into_iter()
            .map(|(a, b)| (chars(a), chars(b)))
            .collect(),
        cut_before: from > 0,
        cut_after: to < text.len(),
        text: piece.to_owned(),
    }
}

/// The start of a word near `at`, at or before `limit`.
fn word_start(text: &str, at: usize, limit: usize) -> usize {
    let mut at = at;
    while !text.is_char_boundary(at) {
        at += 1;
    }
    if at == 0 {
        return 0;
    }
    let piece = text.get(at..limit).unwrap_or_default();
    piece
        .find(char::is_whitespace)
        .map_or(at, |i| {
            let space = piece
                .get(i..)
                .and_then(|t| t.chars().next())
                .map_or(1, char::len_utf8);
            at + i + space
        })
        .min(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(query: &str, text: &str) -> Vec<String> {
        let s = snippet(&Query::parse(query), text, Form::Plain, 160);
        let chars: Vec<char> = s.text.chars().collect();
        s.matches
            .iter()
            .map(|(a, b)| chars[*a..*b].iter().collect())
            .collect()
    }

    #[test]
    fn what_matched_is_marked_as_it_stands_in_the_text() {
        for (query, text, marks) in [
            ("cafe", "Ein Café!", vec!["Café"]),
            ("username", "a getUserName b userName", vec!["userName"]),
            (
                "get_user",
                "getUser get-user GETUSER",
                vec!["getUser", "get-user", "GETUSER"],
            ),
            ("\"b c\"", "a b, c d", vec!["b, c"]),
            ("文字", "中文字です", vec!["文字"]),
            ("中", "日中と中", vec!["中", "中"]),
            (
                "auth*",
                "authentication, Author",
                vec!["authentication", "Author"],
            ),
            ("missing word", "a word", vec![]),
        ] {
            assert_eq!(marked(query, text), marks, "{query}");
        }
    }

    #[test]
    fn the_piece_with_most_words_is_shown() {
        let text = format!(
            "alpha {} alpha beta end {}",
            "x ".repeat(500),
            "y ".repeat(500)
        );
        let s = snippet(&Query::parse("alpha beta"), &text, Form::Plain, 160);
        assert!(
            s.text.contains("alpha beta") && s.cut_before && s.cut_after,
            "{s:?}"
        );
        assert!(s.text.len() <= 160);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_cut_at_characters(query in "\\PC{0,20}", text in "\\PC*", width in 1usize..300) {
            let s = snippet(&Query::parse(&query), &text, Form::Plain, width);
            assert!(text.contains(&s.text));
            let n = s.text.chars().count();
            assert!(s.matches.iter().all(|(a, b)| a < b && *b <= n));
        }
    }
}
