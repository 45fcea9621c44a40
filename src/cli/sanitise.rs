//! The one function that all text for people passes through.
//!
//! Titles, paths and error texts come from session files. A terminal must not act on them, and
//! they must not look like something else.

/// `text` with every character that a terminal might act on, or that hides or reorders text,
/// written as a visible escape. Tabs and line ends too: a value must not begin a line of its own.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts_or_hides(c) {
            out.extend(c.escape_unicode_short());
        } else {
            out.push(c);
        }
    }
    out
}

/// The same for text of the program itself that holds values (help, messages of the argument
/// parser): tabs and line ends stay.
#[must_use]
pub fn visible_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if acts_or_hides(c) && c != '\n' && c != '\t' {
            out.extend(c.escape_unicode_short());
        } else {
            out.push(c);
        }
    }
    out
}

/// Text of a session for a page that no terminal shows: line ends and tabs stay, and so does what
/// joins or shapes letters. What acts on a reader or turns the direction of text is made visible.
#[must_use]
pub fn readable(text: &str) -> String {
    let shapes = |c: char| {
        matches!(
            c,
            '\n' | '\t' | '\u{00AD}' | '\u{200C}' | '\u{200D}' | '\u{FE00}'..='\u{FE0F}'
        )
    };
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\r' && chars.peek() == Some(&'\n') {
            continue;
        }
        if acts_or_hides(c) && !shapes(c) {
            out.extend(c.escape_unicode_short());
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether `c` is a control character (C0, DEL, C1), invisible, or changes the direction of text.
#[must_use]
pub fn acts_or_hides(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}'
            | '\u{17B5}' | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}'
            | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF9}'..='\u{FFFB}'
            | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}')
}

trait EscapeShort {
    fn escape_unicode_short(self) -> std::vec::IntoIter<char>;
}

impl EscapeShort for char {
    /// `\n`, `\t`, `\r`, `\x1b` up to U+00FF, `\u{202e}` beyond.
    fn escape_unicode_short(self) -> std::vec::IntoIter<char> {
        let text = match self {
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            c if u32::from(c) <= 0xFF => format!("\\x{:02x}", u32::from(c)),
            c => format!("\\u{{{:x}}}", u32::from(c)),
        };
        text.chars().collect::<Vec<_>>().into_iter()
    }
}

/// `argv` as one line to paste into a shell: quoted where needed, and nothing in it that a
/// terminal would act on.
#[must_use]
pub fn shell_line(argv: &[String]) -> String {
    argv.iter()
        .map(|word| quote(word))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with('=') {
        return word.to_owned();
    }
    if !word.chars().any(acts_or_hides) {
        return format!("'{}'", word.replace('\'', "'\\''"));
    }
    let mut out = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if acts_or_hides(c) => {
                let mut bytes = [0u8; 4];
                for b in c.encode_utf8(&mut bytes).bytes() {
                    // Three octal digits: a digit that follows can't become part of the escape.
                    out.push_str(&format!("\\{b:03o}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// Columns that `text` takes in a terminal: wide characters take two.
#[must_use]
pub fn columns(text: &str) -> usize {
    text.chars().map(width).sum()
}

fn width(c: char) -> usize {
    match u32::from(c) {
        0x0300..=0x036F | 0x20D0..=0x20FF => 0,
        0x1100..=0x11FF
        | 0x2E80..=0xA4CF
        | 0xAC00..=0xD7A3
        | 0xF900..=0xFAFF
        | 0xFE30..=0xFE4F
        | 0xFF00..=0xFF60
        | 0xFFE0..=0xFFE6
        | 0x1F300..=0x1FAFF
        | 0x20000..=0x3FFFD => 2,
        _ => 1,
    }
}

/// `text` with spaces behind it, so that it takes `width` columns.
#[must_use]
pub fn padded(text: &str, width: usize) -> String {
    let spaces = width.saturating_sub(columns(text));
    format!("{text}{:spaces$}", "")
}

/// `text` in at most `max` columns, with a sign where it was cut.
#[must_use]
pub fn fit(text: &str, max: usize) -> String {
    if columns(text) <= max {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        if used + width(c) > max.saturating_sub(1) {
            break;
        }
        used += width(c);
        out.push(c);
    }
    out.push('…');
    out
}

/// The end of `text` in at most `max` columns, with a sign where it was cut: what tells paths that
/// begin alike apart.
#[must_use]
pub fn ending(text: &str, max: usize) -> String {
    if columns(text) <= max {
        return text.to_owned();
    }
    let (mut used, mut from) = (1, text.len());
    for (at, c) in text.char_indices().rev() {
        used += width(c);
        if used > max {
            break;
        }
        from = at;
    }
    format!("…{}", text.get(from..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 500 hostile strings: every control character and escape sequence kind, alone, in text, and
    /// behind what a cutter might split.
    fn hostile() -> Vec<String> {
        let mut seeds: Vec<String> = (0u32..0x20)
            .chain(0x7F..0xA0)
            .chain(0x200B..=0x200F)
            .chain(0x2028..=0x202E)
            .chain(0x2060..=0x206F)
            .chain([
                0xFEFF, 0xAD, 0x61C, 0x180E, 0xFFF9, 0xE0001, 0xE0041, 0xFE0F,
            ])
            .filter_map(char::from_u32)
            .map(String::from)
            .collect();
        seeds.extend(
            [
                "\x1b[31m",
                "\x1b[2J\x1b[H",
                "\x1b]0;title\x07",
                "\x1b]52;c;aGk=\x07",
                "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
                "\x1bP+q544e\x1b\\",
                "\x1b_G\x1b\\",
                "\u{9b}31m",
                "\u{9d}0;t\u{9c}",
                "\u{90}q\u{9c}",
                "\r\nok: all is well\n",
                "\x1bc",
                "\x1b(0",
                "\x08\x08\x08",
                "a\x00b",
                "\x1b[?1049h",
                "\x1b[6n",
            ]
            .map(str::to_owned),
        );
        let wraps: [fn(&str) -> String; 5] = [
            |s| s.to_owned(),
            |s| format!("title {s} tail"),
            |s| s.repeat(40),
            |s| format!("日本{s}語"),
            |s| format!("{}{s}", "x".repeat(79)),
        ];
        seeds
            .iter()
            .flat_map(|s| wraps.iter().map(move |w| w(s)))
            .collect()
    }

    #[test]
    fn no_hostile_string_reaches_a_terminal() {
        let strings = hostile();
        assert!(strings.len() >= 500, "{}", strings.len());
        for s in &strings {
            for shown in [
                visible(s),
                fit(&visible(s), 40),
                ending(&visible(s), 40),
                shell_line(&[s.clone(), "b".into()]),
            ] {
                assert!(!shown.chars().any(acts_or_hides), "{s:?} -> {shown:?}");
            }
            let lines = visible_lines(s);
            assert!(
                !lines
                    .chars()
                    .any(|c| acts_or_hides(c) && c != '\n' && c != '\t')
            );
            assert!(columns(&fit(&visible(s), 40)) <= 40);
            assert!(columns(&ending(&visible(s), 40)) <= 40);
        }
    }

    #[test]
    fn a_shell_reads_the_pasted_line_as_the_same_words() {
        let shell = std::path::Path::new("/bin/bash");
        if !shell.exists() {
            return;
        }
        let mut words: Vec<String> = hostile()
            .into_iter()
            .filter(|s| !s.contains('\0'))
            .collect();
        words.extend(
            [
                "", "a b", "it's", "$HOME", "`id`", "a;b", "\\", "=x", "~", "!x",
                "\x01", /* then a digit */
                "\x017",
            ]
            .map(str::to_owned),
        );
        for chunk in words.chunks(50) {
            let mut argv = vec!["printf".to_owned(), "%s\\0".to_owned()];
            argv.extend(chunk.iter().cloned());
            let out = std::process::Command::new(shell)
                .args(["--norc", "-c", &shell_line(&argv)])
                .env("LC_ALL", "C.UTF-8")
                .output()
                .unwrap();
            let read: Vec<&[u8]> = out.stdout.split(|b| *b == 0).collect();
            assert_eq!(read.len(), chunk.len() + 1, "{chunk:?}");
            for (word, got) in chunk.iter().zip(read) {
                assert_eq!(got, word.as_bytes());
            }
        }
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["plain", "Größe 日本語 emoji 🎉", "a/b-c_d.e"] {
            assert_eq!(visible(text), text);
        }
    }
}
