//! The tokens of a text: one definition for the index, for queries and for marking what matched.
//!
//! FTS5's own tokenizer sees only what comes out of here, split at spaces. A text becomes a
//! sequence of *parts*: words, lower-cased and without diacritics, identifiers cut into the words
//! they are made of, and scripts that are written without spaces as overlapping pairs of
//! characters plus each run's last one. Beside them stand the *wholes*: every identifier of
//! several parts as one word, so that `getUserName` is found as `getusername` too. They have a
//! column of their own, so that they never stand between two words of a phrase.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use crate::model::record::MessageKind;

/// Changes with every change of what [`walk`] gives, and of how much of a text it is given: an index
/// of another number is made again.
pub const VERSION: i64 = 2;

/// Bytes of a message that are indexed. What is behind them is not found; such messages are counted,
/// and every search says how many.
pub const MAX_TEXT: usize = 64 << 20;
/// Characters of a word that count; a longer one is found by its beginning.
pub const MAX_WORD: usize = 64;

/// How a text is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As it is read.
    Plain,
    /// As JSON text, so that `\n` is a line end and no `n`.
    Json,
}

impl Form {
    /// The form of a message's text: the input of a tool call is JSON text, mostly.
    #[must_use]
    pub fn of(kind: MessageKind, text: &str) -> Form {
        if kind == MessageKind::ToolCall && text.starts_with(['{', '[', '"']) {
            Form::Json
        } else {
            Form::Plain
        }
    }
}

/// Takes the tokens of a text, in order. Places are bytes of the text.
pub trait Sink {
    /// A word, a part of an identifier, or a pair of characters.
    fn part(&mut self, token: &str, from: usize, to: usize);
    /// The last character of a run of a script without spaces; `pairs` tells whether pairs came
    /// before it.
    fn last(&mut self, token: &str, from: usize, to: usize, pairs: bool);
    /// An identifier of several parts as one word, behind its parts.
    fn whole(&mut self, token: &str, from: usize, to: usize);
}

/// The part of `text` that is indexed.
#[must_use]
pub fn indexed(text: &str) -> &str {
    first_bytes(text, MAX_TEXT)
}

fn first_bytes(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

/// Gives every token of `text` to `sink`.
pub fn walk(text: &str, form: Form, sink: &mut dyn Sink) {
    let bytes = text.as_bytes();
    let mut run = Run::default();
    let mut word = String::new();
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        if b == b'\\' && form == Form::Json {
            at = escape(text, at, &mut run, sink);
            continue;
        }
        if b < 0x80 && run.units.is_empty() {
            // Most of what agents say is ASCII: whole words of it need no table.
            if !is_ascii_word(b) && bytes.get(at + 1).is_none_or(|n| *n < 0x80) {
                at += 1;
                continue;
            }
            let len = bytes
                .get(at..)
                .unwrap_or_default()
                .iter()
                .take_while(|b| is_ascii_word(**b))
                .count();
            // A mark or an escape behind it may belong to it.
            let ends = |n: &u8| *n < 0x80 && (form == Form::Plain || *n != b'\\');
            if len > 0 && bytes.get(at + len).is_none_or(ends) {
                let run = text.get(at..at + len).unwrap_or_default();
                ascii(run, at, &mut word, sink);
                at += len;
                continue;
            }
        }
        at = cluster(text, at, &mut run, sink);
    }
    run.end(sink);
}

/// Reads an escape of JSON text, and gives the place behind it.
fn escape(text: &str, at: usize, run: &mut Run, sink: &mut dyn Sink) -> usize {
    let unit = |at: usize| -> Option<u32> {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(digits, 16).ok()
    };
    match unit(at) {
        Some(high @ 0xD800..=0xDBFF) => {
            let low = unit(at + 6).filter(|low| (0xDC00..0xE000).contains(low));
            let c = low.and_then(|low| {
                char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00))
            });
            match c {
                Some(c) => {
                    one(c, at, at + 12, run, sink);
                    at + 12
                }
                None => {
                    run.end(sink);
                    at + 6
                }
            }
        }
        Some(c) => {
            match char::from_u32(c) {
                Some(c) => one(c, at, at + 6, run, sink),
                None => run.end(sink),
            }
            at + 6
        }
        None => {
            run.end(sink);
            // The sign behind the backslash belongs to it; it may be longer than a byte.
            let behind = text.get(at + 1..).unwrap_or_default();
            at + 1 + behind.chars().next().map_or(0, char::len_utf8)
        }
    }
}

fn is_ascii_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// A run of ASCII letters, digits and underscores.
fn ascii(run: &str, at: usize, word: &mut String, sink: &mut dyn Sink) {
    let bytes = run.as_bytes();
    let splits = bytes.len() <= MAX_WORD || bytes.contains(&b'_');
    word.clear();
    let (mut parts, mut begin) = (0, 0);
    for (i, &b) in bytes.iter().enumerate() {
        let here = if b == b'_' {
            true
        } else {
            splits
                && b.is_ascii_uppercase()
                && i > begin
                && camel(
                    i.checked_sub(1)
                        .and_then(|p| bytes.get(p))
                        .map_or(Case::None, |p| Case::of_byte(*p)),
                    bytes.get(i + 1).map_or(Case::None, |n| Case::of_byte(*n)),
                )
        };
        if here {
            parts += usize::from(ascii_part(run, begin, i, at, word, sink));
            begin = if b == b'_' { i + 1 } else { i };
        }
    }
    parts += usize::from(ascii_part(run, begin, bytes.len(), at, word, sink));
    if parts > 1 {
        word.clear();
        let letters = bytes.iter().filter(|b| **b != b'_').take(MAX_WORD);
        word.extend(letters.map(|b| char::from(b.to_ascii_lowercase())));
        sink.whole(word, at, at + run.len());
    }
}

fn ascii_part(
    run: &str,
    from: usize,
    to: usize,
    at: usize,
    word: &mut String,
    sink: &mut dyn Sink,
) -> bool {
    let part = run.get(from..to).unwrap_or_default();
    if part.is_empty() {
        return false;
    }
    word.clear();
    word.push_str(part.get(..MAX_WORD).unwrap_or(part));
    word.make_ascii_lowercase();
    sink.part(word, at + from, at + to);
    true
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Case {
    Upper,
    Lower,
    Digit,
    None,
}

impl Case {
    fn of_byte(b: u8) -> Case {
        match b {
            b'A'..=b'Z' => Case::Upper,
            b'a'..=b'z' => Case::Lower,
            b'0'..=b'9' => Case::Digit,
            _ => Case::None,
        }
    }

    fn of(c: char) -> Case {
        if c.is_uppercase() {
            Case::Upper
        } else if c.is_lowercase() {
            Case::Lower
        } else if c.is_numeric() {
            Case::Digit
        } else {
            Case::None
        }
    }
}

/// Whether an upper-case letter between these two begins a new part: `userName`, `HTTPServer`,
/// `base64Encode`; and not `E0308`, `ECONNREFUSED`, `0x8007F005`.
fn camel(before: Case, behind: Case) -> bool {
    match before {
        Case::Lower => true,
        Case::Upper | Case::Digit => behind == Case::Lower,
        Case::None => false,
    }
}

/// One character as it is compared, with the place it came from.
#[derive(Debug, Clone, Copy)]
struct Unit {
    /// Lower case, without diacritics; `_` separates parts.
    c: char,
    case: Case,
    from: usize,
    to: usize,
}

/// Characters that belong together: a word, or a run of a script without spaces.
#[derive(Debug, Default)]
struct Run {
    units: Vec<Unit>,
    dense: bool,
}

impl Run {
    fn push(&mut self, unit: Unit, dense: bool, sink: &mut dyn Sink) {
        if self.dense != dense {
            self.end(sink);
            self.dense = dense;
        }
        self.units.push(unit);
    }

    fn end(&mut self, sink: &mut dyn Sink) {
        if self.dense {
            pairs(&self.units, sink);
        } else {
            parts(&self.units, sink);
        }
        self.units.clear();
    }
}

fn pairs(units: &[Unit], sink: &mut dyn Sink) {
    let mut token = String::new();
    for pair in units.windows(2) {
        token.clear();
        token.extend(pair.iter().map(|u| u.c));
        if let [a, b] = pair {
            sink.part(&token, a.from, b.to);
        }
    }
    if let Some(u) = units.last() {
        token.clear();
        token.push(u.c);
        sink.last(&token, u.from, u.to, units.len() > 1);
    }
}

fn parts(units: &[Unit], sink: &mut dyn Sink) {
    let splits = units.len() <= MAX_WORD || units.iter().any(|u| u.c == '_');
    let (mut count, mut begin) = (0, 0);
    let mut part = |from: usize, to: usize, sink: &mut dyn Sink| {
        let units = units.get(from..to).unwrap_or_default();
        let (Some(first), Some(last)) = (units.first(), units.last()) else {
            return;
        };
        count += 1;
        let token: String = units.iter().take(MAX_WORD).map(|u| u.c).collect();
        sink.part(&token, first.from, last.to);
    };
    for (i, unit) in units.iter().enumerate() {
        let of = |n: Option<usize>| n.and_then(|n| units.get(n)).map_or(Case::None, |u| u.case);
        if unit.c == '_' {
            part(begin, i, sink);
            begin = i + 1;
        } else if splits
            && unit.case == Case::Upper
            && i > begin
            && camel(of(i.checked_sub(1)), of(Some(i + 1)))
        {
            part(begin, i, sink);
            begin = i;
        }
    }
    part(begin, units.len(), sink);
    if let (true, Some(first), Some(last)) = (count > 1, units.first(), units.last()) {
        let letters = units.iter().filter(|u| u.c != '_').take(MAX_WORD);
        let token: String = letters.map(|u| u.c).collect();
        sink.whole(&token, first.from, last.to);
    }
}

/// Reads a character and the marks that belong to it, and gives the place behind them.
fn cluster(text: &str, at: usize, run: &mut Run, sink: &mut dyn Sink) -> usize {
    let mut chars = text.get(at..).unwrap_or_default().chars();
    let Some(first) = chars.next() else {
        return text.len();
    };
    let mut to = at + first.len_utf8();
    let mut alone = true;
    for c in chars {
        if !joins(c) {
            break;
        }
        alone = false;
        to += c.len_utf8();
    }
    if first.is_ascii() && alone {
        one(first, at, to, run, sink);
    } else {
        // Composed first: a voiced kana or a Hangul syllable is one character, however it is
        // written.
        for c in text.get(at..to).unwrap_or_default().nfkc() {
            one(c, at, to, run, sink);
        }
    }
    to
}

/// Whether `c` may become one character with those before it.
fn joins(c: char) -> bool {
    !c.is_ascii()
        && (is_combining_mark(c) || matches!(c, '\u{1160}'..='\u{11FF}' | '\u{FF9E}' | '\u{FF9F}'))
}

fn one(c: char, from: usize, to: usize, run: &mut Run, sink: &mut dyn Sink) {
    if is_dense(c) {
        let unit = Unit {
            c,
            case: Case::None,
            from,
            to,
        };
        return run.push(unit, true, sink);
    }
    if c.is_ascii() {
        if is_ascii_word(c as u8) {
            let unit = Unit {
                c: c.to_ascii_lowercase(),
                case: Case::of(c),
                from,
                to,
            };
            return run.push(unit, false, sink);
        }
        return run.end(sink);
    }
    if !c.is_alphanumeric() && !is_combining_mark(c) {
        return run.end(sink);
    }
    let case = Case::of(c);
    decompose_compatible(c, |c| {
        if is_diacritic(c) {
            return;
        }
        for c in c.to_lowercase().filter(|c| !is_diacritic(*c)) {
            let c = if c == 'ς' { 'σ' } else { c };
            run.push(Unit { c, case, from, to }, false, sink);
        }
    });
}

/// Marks that people leave out when they type. Marks of Indic scripts are vowels and stay.
fn is_diacritic(c: char) -> bool {
    matches!(c,
        '\u{0300}'..='\u{036F}' | '\u{0483}'..='\u{0487}' | '\u{0591}'..='\u{05C7}'
        | '\u{0610}'..='\u{061A}' | '\u{064B}'..='\u{065F}' | '\u{0670}'
        | '\u{1AB0}'..='\u{1AFF}' | '\u{1DC0}'..='\u{1DFF}' | '\u{20D0}'..='\u{20FF}'
        | '\u{FE00}'..='\u{FE0F}' | '\u{FE20}'..='\u{FE2F}')
}

/// Scripts without spaces between words, and Hangul, whose words carry their endings.
fn is_dense(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1100}'..='\u{11FF}'
        | '\u{1780}'..='\u{17D3}' | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}'
        | '\u{3021}'..='\u{302F}' | '\u{3031}'..='\u{3035}' | '\u{3041}'..='\u{3096}'
        | '\u{3099}'..='\u{309A}' | '\u{309D}'..='\u{309F}' | '\u{30A1}'..='\u{30FA}'
        | '\u{30FC}'..='\u{30FF}' | '\u{3105}'..='\u{312F}' | '\u{3131}'..='\u{318E}'
        | '\u{31A0}'..='\u{31BF}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{A960}'..='\u{A97C}' | '\u{AC00}'..='\u{D7FB}'
        | '\u{F900}'..='\u{FAFF}' | '\u{1B000}'..='\u{1B16F}' | '\u{20000}'..='\u{3FFFD}')
}

/// Whether `token` is one character of a script without spaces.
pub(super) fn is_lone(token: &str) -> bool {
    let mut chars = token.chars();
    chars.next().is_some_and(is_dense) && chars.next().is_none()
}

/// What the index holds of a text: both columns, their tokens separated by spaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// The parts, in the order of the text.
    pub parts: String,
    /// The wholes.
    pub wholes: String,
}

impl Columns {
    /// The columns of the part of `text` that is indexed.
    #[must_use]
    pub fn of(text: &str, form: Form) -> Columns {
        let text = indexed(text);
        let mut columns = Columns {
            parts: String::with_capacity(text.len() + text.len() / 8),
            wholes: String::new(),
        };
        walk(text, form, &mut columns);
        columns
    }
}

impl Sink for Columns {
    fn part(&mut self, token: &str, _from: usize, _to: usize) {
        self.parts.push_str(token);
        self.parts.push(' ');
    }

    fn last(&mut self, token: &str, from: usize, to: usize, _pairs: bool) {
        self.part(token, from, to);
    }

    fn whole(&mut self, token: &str, _from: usize, _to: usize) {
        self.wholes.push_str(token);
        self.wholes.push(' ');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(text: &str) -> (String, String) {
        let c = Columns::of(text, Form::Plain);
        (
            c.parts.trim_end().to_owned(),
            c.wholes.trim_end().to_owned(),
        )
    }

    #[test]
    fn words_identifiers_and_codes() {
        for (text, parts, wholes) in [
            ("Hello, World!", "hello world", ""),
            ("getUserName", "get user name", "getusername"),
            ("get_user_name", "get user name", "getusername"),
            ("HTTPServer", "http server", "httpserver"),
            ("base64Encode", "base64 encode", "base64encode"),
            ("get-user.name", "get user name", ""),
            ("src/store/archive.rs", "src store archive rs", ""),
            (
                "error[E0308] ECONNREFUSED 0x8007F005",
                "error e0308 econnrefused 0x8007f005",
                "",
            ),
            ("SQLITE_BUSY", "sqlite busy", "sqlitebusy"),
            ("__init__ _ __", "init", ""),
            ("don't", "don t", ""),
            ("naïve Ärger Éa_b", "naive arger ea b", "eab"),
            ("ΣΊΣΥΦΟΣ σίσυφος", "σισυφοσ σισυφοσ", ""),
            ("größeÄnderung", "große anderung", "großeanderung"),
            ("ｆｕｌｌ ﬁne", "full fine", ""),
        ] {
            assert_eq!(
                columns(text),
                (parts.to_owned(), wholes.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn scripts_without_spaces_are_pairs_and_each_runs_last_character() {
        for (text, parts) in [
            ("中文字", "中文 文字 字"),
            ("字", "字"),
            ("使用Rust编写，好", "使用 用 rust 编写 写 好"),
            ("データ", "デー ータ タ"),
            ("한국어 말", "한국 국어 어 말"),
            // The same, decomposed.
            (
                "\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}",
                "한국 국",
            ),
            ("\u{304b}\u{3099}く", "がく く"),
            ("ﾃﾞｰﾀ", "デー ータ タ"),
        ] {
            assert_eq!(columns(text).0, parts, "{text}");
        }
    }

    #[test]
    fn escapes_of_json_are_what_they_stand_for() {
        let of = |text: &str| Columns::of(text, Form::Json).parts.trim_end().to_owned();
        assert_eq!(
            of(r#"{"a":"x\n\tcontent\\new \"q\""}"#),
            "a x content new q"
        );
        assert_eq!(
            of(r"caf\u00e9 \u4e2d\u6587 \ud842\udfb7 \ud800x \u12"),
            "cafe 中文 文 𠮷 x 12"
        );
        assert_eq!(of("\\"), "");
        assert_eq!(Columns::of(r"C:\new", Form::Plain).parts, "c new ");
    }

    #[test]
    fn composed_or_not_it_is_the_same_word() {
        assert_eq!(columns("caf\u{e9}"), columns("cafe\u{301}"));
        assert_eq!(columns("CAFE\u{301}x"), columns("CAF\u{c9}x"));
        assert_eq!(columns("e\u{301}"), columns("e"));
    }

    #[test]
    fn a_long_word_counts_by_its_beginning_and_a_long_text_up_to_its_limit() {
        let long = "aB".repeat(50_000);
        let (parts, wholes) = columns(&long);
        assert_eq!((parts.len(), wholes.len()), (MAX_WORD, 0));
        assert_eq!(first_bytes("éé", 3), "é");
    }

    #[derive(Default)]
    struct Places(Vec<(String, usize, usize)>);

    impl Sink for Places {
        fn part(&mut self, token: &str, from: usize, to: usize) {
            self.0.push((token.to_owned(), from, to));
        }
        fn last(&mut self, token: &str, from: usize, to: usize, _pairs: bool) {
            self.part(token, from, to);
        }
        fn whole(&mut self, token: &str, from: usize, to: usize) {
            self.part(token, from, to);
        }
    }

    proptest::proptest! {
        #[test]
        fn every_place_is_text_and_no_token_holds_a_sign(text in "\\PC*|[a-zA-Z_é中가\u{301}\u{1161} .0]{0,40}") {
            let mut places = Places::default();
            for form in [Form::Plain, Form::Json] {
                walk(&text, form, &mut places);
            }
            for (token, from, to) in places.0 {
                assert!(!text.get(from..to).unwrap().is_empty());
                assert!(!token.is_empty());
                assert!(token.chars().all(|c| c != ' ' && c != '"' && (!c.is_ascii() || c.is_ascii_alphanumeric())), "{token:?}");
            }
        }
    }
}
