//! Where a message holds what was asked for, found in the archive's own text by the rules of the
//! index, and the piece of it that is shown.

use std::collections::VecDeque;

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

/// A token of a text and its place.
#[derive(Debug, Default)]
struct Part {
    token: String,
    from: usize,
    to: usize,
}

/// Looks for the clauses of a query while the tokens of a text go by. Of the tokens it keeps as many
/// as the longest phrase has: a text may have millions.
struct Finder<'a> {
    text: &'a str,
    clauses: &'a [Clause],
    recent: VecDeque<Part>,
    longest: usize,
    found: Vec<(usize, usize, usize)>,
    /// For each clause how often it was found.
    times: Vec<usize>,
}

impl<'a> Finder<'a> {
    fn new(query: &'a Query, text: &'a str) -> Finder<'a> {
        let clauses = query.clauses();
        Finder {
            text,
            clauses,
            recent: VecDeque::new(),
            longest: clauses.iter().map(|c| c.tokens.len()).max().unwrap_or(0),
            found: Vec::new(),
            times: vec![0; clauses.len()],
        }
    }

    fn found(&mut self, n: usize, from: usize, last: usize, to: usize) {
        let (Some(times), Some(clause)) = (self.times.get_mut(n), self.clauses.get(n)) else {
            return;
        };
        if *times == MAX_PLACES {
            return;
        }
        *times += 1;
        // A single character of a script without spaces is the beginning of a pair: the pair's
        // second one was not asked for.
        let lone = match clause.tokens.last() {
            Some(t) if clause.prefix && is_lone(t) => t.len(),
            _ => 0,
        };
        let piece = self.text.get(last..to).unwrap_or_default();
        let to = match piece.chars().next() {
            Some(c) if lone > 0 && c.len_utf8() == lone => last + lone,
            _ => to,
        };
        self.found.push((from, to, n));
    }

    /// Looks for phrases that end with the newest token.
    fn phrases(&mut self) {
        for (n, clause) in self.clauses.iter().enumerate() {
            let len = clause.tokens.len();
            let Some(skipped) = self.recent.len().checked_sub(len) else {
                continue;
            };
            let phrase = self.recent.iter().skip(skipped).zip(&clause.tokens);
            // From the end: most differ there.
            let fits = phrase
                .rev()
                .enumerate()
                .all(|(i, (part, wanted))| same(wanted, &part.token, clause.prefix && i == 0));
            if let (true, Some(first), Some(last)) =
                (fits, self.recent.get(skipped), self.recent.back())
            {
                let (from, at, to) = (first.from, last.from, last.to.max(first.to));
                self.found(n, from, at, to);
            }
        }
    }

    /// Looks for clauses of one word, the word being an identifier in the text if `whole`, and a
    /// part otherwise.
    fn words(&mut self, token: &str, from: usize, to: usize, whole: bool) {
        for (n, clause) in self.clauses.iter().enumerate() {
            let word = match (&clause.whole, clause.tokens.as_slice()) {
                (Some(word), _) => word,
                (None, [word]) if whole => word,
                _ => continue,
            };
            if same(word, token, clause.prefix) {
                self.found(n, from, from, to);
            }
        }
    }
}

fn same(wanted: &str, token: &str, open: bool) -> bool {
    token == wanted || (open && token.starts_with(wanted))
}

impl Sink for Finder<'_> {
    fn part(&mut self, token: &str, from: usize, to: usize) {
        let mut part = match self.recent.len() >= self.longest {
            true => self.recent.pop_front().unwrap_or_default(),
            false => Part::default(),
        };
        part.token.clear();
        part.token.push_str(token);
        (part.from, part.to) = (from, to);
        self.recent.push_back(part);
        self.phrases();
        self.words(token, from, to, false);
    }

    fn last(&mut self, token: &str, from: usize, to: usize, _pairs: bool) {
        self.part(token, from, to);
    }

    fn whole(&mut self, token: &str, from: usize, to: usize) {
        self.words(token, from, to, true);
    }
}

/// Where `text` holds the clauses of `query`: bytes, and the clause's number, by place. Empty when
/// a clause is nowhere.
fn places(query: &Query, text: &str, form: Form) -> Vec<(usize, usize, usize)> {
    let mut finder = Finder::new(query, text);
    walk(indexed(text), form, &mut finder);
    if finder.times.contains(&0) {
        return Vec::new();
    }
    let mut found = finder.found;
    found.sort_unstable();
    found.dedup();
    found
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
