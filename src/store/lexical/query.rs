//! What a person typed, as what the index is asked. Nothing is ever a syntax error: signs that are
//! no quotes and no closing `*` are text, and so are the operators of FTS5.

use super::tokens::{Form, Sink, walk};

/// Clauses of a query that count, and words of a phrase; the rest is counted and left out.
const MAX_CLAUSES: usize = 64;
const MAX_TOKENS: usize = 64;

/// A query: a message must hold every clause.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    clauses: Vec<Clause>,
    left_out: usize,
}

/// Tokens that follow each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Clause {
    pub tokens: Vec<String>,
    /// Whether the last token is the beginning of one.
    pub prefix: bool,
    /// The same as one word, for an identifier.
    pub whole: Option<String>,
}

impl Query {
    /// Reads a query.
    #[must_use]
    pub fn parse(text: &str) -> Query {
        let mut query = Query::default();
        let pieces: Vec<&str> = text.split('"').collect();
        let last = pieces.len() - 1;
        for (n, piece) in pieces.iter().enumerate() {
            // Every second piece stands between quotes, unless the closing one is missing.
            if n % 2 == 1 && n < last {
                let open = pieces.get(n + 1).is_some_and(|next| next.starts_with('*'));
                query.add(piece, true, open);
            } else {
                for word in piece.split_whitespace() {
                    let prefix = word.len() > 1 && word.ends_with('*');
                    query.add(word, false, prefix);
                }
            }
        }
        query
    }

    fn add(&mut self, text: &str, quoted: bool, prefix: bool) {
        let mut read = Read::default();
        walk(text, Form::Plain, &mut read);
        let Some(clause) = read.clause(quoted, prefix) else {
            return;
        };
        if self.clauses.contains(&clause) {
            return;
        }
        if self.clauses.len() == MAX_CLAUSES {
            self.left_out += 1;
            return;
        }
        self.left_out += read.left_out;
        self.clauses.push(clause);
    }

    /// Whether it holds no word at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Words that were left out because there are too many.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The clauses as they are read, for people.
    #[must_use]
    pub fn explain(&self) -> Vec<String> {
        self.clauses.iter().map(Clause::expression).collect()
    }

    pub(super) fn clauses(&self) -> &[Clause] {
        &self.clauses
    }
}

/// The expression that FTS5 is asked for documents that hold every clause.
pub(super) fn all_of<'q>(clauses: impl IntoIterator<Item = &'q Clause>) -> String {
    let each: Vec<String> = clauses.into_iter().map(Clause::expression).collect();
    each.join(" AND ")
}

impl Clause {
    pub(super) fn expression(&self) -> String {
        // Tokens hold letters, digits and marks alone, so that quoting them needs no escape.
        let star = if self.prefix { " *" } else { "" };
        match (self.tokens.as_slice(), &self.whole) {
            ([one], _) => format!("\"{one}\"{star}"),
            (all, None) => format!("p : \"{}\"{star}", all.join(" ")),
            (all, Some(whole)) => {
                format!("(p : \"{}\"{star} OR \"{whole}\"{star})", all.join(" "))
            }
        }
    }
}

#[derive(Debug, Default)]
struct Read {
    tokens: Vec<String>,
    /// Whether the last token is a run's last character, and whether pairs came before it.
    last: Option<bool>,
    whole: Option<String>,
    wholes: usize,
    left_out: usize,
}

impl Read {
    fn take(&mut self, token: &str) {
        if self.tokens.len() < MAX_TOKENS {
            self.tokens.push(token.to_owned());
        } else {
            self.left_out += 1;
        }
    }

    fn clause(&mut self, quoted: bool, prefix: bool) -> Option<Clause> {
        let mut prefix = prefix;
        match self.last {
            // In a longer run the pair goes on; a single character begins any pair.
            Some(true) if self.left_out == 0 => {
                self.tokens.pop();
                prefix = false;
            }
            Some(false) => prefix = true,
            _ => {}
        }
        let tokens = std::mem::take(&mut self.tokens);
        // An identifier that is the whole word: what stands around it would be lost.
        let whole = match (quoted, self.wholes, self.whole.take()) {
            (false, 1, Some(whole)) if tokens.concat() == whole => Some(whole),
            _ => None,
        };
        (!tokens.is_empty()).then_some(Clause {
            tokens,
            prefix,
            whole,
        })
    }
}

impl Sink for Read {
    fn part(&mut self, token: &str, _from: usize, _to: usize) {
        self.last = None;
        self.take(token);
    }

    fn last(&mut self, token: &str, _from: usize, _to: usize, pairs: bool) {
        self.take(token);
        self.last = Some(pairs);
    }

    fn whole(&mut self, token: &str, _from: usize, _to: usize) {
        self.wholes += 1;
        self.whole = Some(token.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        all_of(Query::parse(text).clauses())
    }

    #[test]
    fn words_phrases_and_beginnings() {
        for (text, expression) in [
            ("Hello World", "\"hello\" AND \"world\""),
            ("\"hello, world\" x", "p : \"hello world\" AND \"x\""),
            ("\"hello world", "\"hello\" AND \"world\""),
            ("say \"\" \" \"", "\"say\""),
            ("auth*", "\"auth\" *"),
            ("\"foo ba\"*", "p : \"foo ba\" *"),
            ("getUserName", "(p : \"get user name\" OR \"getusername\")"),
            ("getUser*", "(p : \"get user\" * OR \"getuser\" *)"),
            ("a.getUser", "p : \"a get user\""),
            ("src/main.rs", "p : \"src main rs\""),
            (
                "AND OR NOT NEAR(a b)",
                "\"and\" AND \"or\" AND \"not\" AND p : \"near a\" AND \"b\"",
            ),
            ("-rf", "\"rf\""),
            ("中", "\"中\" *"),
            ("中文", "\"中文\""),
            ("中文字", "p : \"中文 文字\""),
            ("用Rust", "p : \"用 rust\""),
            ("使用Rust编写", "p : \"使用 用 rust 编写\""),
            ("rust编", "p : \"rust 编\" *"),
            ("* \" ( ) ^ : {", ""),
            ("", ""),
        ] {
            assert_eq!(read(text), expression, "{text}");
        }
    }

    #[test]
    fn a_huge_query_is_cut_and_counted() {
        let many: Vec<String> = (0..1000).map(|n| format!("w{n}")).collect();
        let query = Query::parse(&many.join(" "));
        assert_eq!((query.clauses.len(), query.left_out()), (64, 936));
        let query = Query::parse(&format!("\"{}\"", many.join(" ")));
        assert_eq!((query.clauses.len(), query.left_out()), (1, 936));
    }
}
