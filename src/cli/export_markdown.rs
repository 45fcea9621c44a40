//! A session as Markdown.
//!
//! What people and the model said is Markdown already and stays so, inside a quotation: whatever it
//! leaves open ends with the quotation. Tags and pictures in it are shown as text. What tools said
//! is not Markdown and goes between fences.

use std::io::{self, Write};

use super::export_page::{Setting, damaged, facts, moment, title};
use super::page::count;
use super::reading::Totals;
use super::sanitise::{readable, visible};
use super::view::speaker;
use crate::model::conversation::{ArchivedMessage, Conversation};
use crate::model::record::{MessageKind, Role};
use crate::report::view::ViewDamage;

/// Sets a session as Markdown.
#[derive(Debug)]
pub(super) struct Markdown;

impl Setting for Markdown {
    fn head(&self, out: &mut dyn Write, s: &Conversation) -> io::Result<()> {
        writeln!(out, "# {}\n", inline(title(s)))?;
        for (key, value) in facts(s) {
            writeln!(out, "- {key}: {}", inline(&value))?;
        }
        Ok(())
    }

    fn message(&self, out: &mut dyn Write, number: u64, m: &ArchivedMessage) -> io::Result<()> {
        write!(out, "\n## {number}. {}", speaker(m))?;
        if let Some(tool) = &m.message.tool_name {
            write!(out, " {}", inline(tool))?;
        }
        if m.message.is_error == Some(true) {
            out.write_all(b" (failed)")?;
        }
        if let Some(time) = moment(m.time_ms) {
            write!(out, " ({time})")?;
        }
        out.write_all(b"\n\n")?;
        let text = readable(&m.message.text);
        let tool = matches!(
            m.message.kind,
            MessageKind::ToolCall | MessageKind::ToolResult
        );
        if tool || matches!(m.message.role, Role::Meta | Role::System) {
            let json = m.message.kind == MessageKind::ToolCall && text.starts_with('{');
            fenced(out, &text, if json { "json" } else { "" })
        } else {
            quoted(out, &text)
        }
    }

    fn damage(&self, out: &mut dyn Write, d: &ViewDamage) -> io::Result<()> {
        writeln!(out, "\n**Damage:** {}", inline(&damaged(d)))
    }

    fn end(&self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        writeln!(
            out,
            "\n---\n\n{}, {}. Exported by cass {}.",
            count(totals.messages, "message", "messages"),
            count(totals.damage, "damaged place", "damaged places"),
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// `text` inside a line, with nothing in it that Markdown would read there: what means something
/// only where a line begins stays as it is. An address becomes no link.
fn inline(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let address = c == ':' && chars.peek() == Some(&'/');
        if address || "\\`*_{}[]()<>&!~|$#@^=".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// `text` between fences that are longer than any in it.
fn fenced(out: &mut dyn Write, text: &str, info: &str) -> io::Result<()> {
    let (mut longest, mut run) = (0, 0);
    for b in text.bytes() {
        run = if b == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(3.max(longest + 1));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    writeln!(out, "{fence}{info}")?;
    out.write_all(text.as_bytes())?;
    writeln!(out, "{end}{fence}")
}

/// A line that begins or ends a block of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    sign: char,
    len: usize,
}

fn fence(line: &str) -> Option<Fence> {
    let sign = line.chars().next().filter(|c| "`~".contains(*c))?;
    let len = line.chars().take_while(|c| *c == sign).count();
    (len >= 3).then_some(Fence { sign, len })
}

/// `text` as a quotation.
fn quoted(out: &mut dyn Write, text: &str) -> io::Result<()> {
    // Fences that stand in lists or are moved to the right end by rules that are not followed here.
    // A text with such a fence has no code for us: in doubt a tag is shown as text once too often.
    let in_order = text.split('\n').all(|line| {
        let bare = line.trim_start_matches(|c: char| {
            c.is_ascii_digit() || c.is_whitespace() || ">*+-.)".contains(c)
        });
        fence(bare).is_none() || bare.len() == line.len()
    });
    let mut open: Option<Fence> = None;
    let mut spans = true;
    for line in text.trim_end().split('\n') {
        let found = fence(line).filter(|_| in_order);
        let rest = line.trim_start_matches(['`', '~']);
        let shown = match (open, found) {
            (Some(o), Some(f)) if f.sign == o.sign && f.len >= o.len && rest.trim().is_empty() => {
                open = None;
                line.to_owned()
            }
            (Some(_), _) => line.to_owned(),
            (None, Some(f)) if f.sign == '~' || !rest.contains('`') => {
                open = Some(f);
                spans = true;
                text_line(line, &mut false)
            }
            (None, _) => {
                spans |= line.trim().is_empty();
                text_line(line, &mut spans)
            }
        };
        writeln!(out, "> {shown}")?;
    }
    Ok(())
}

/// A line outside of blocks of code: tags and pictures become text, but not in a code span.
/// `spans` is cleared when a span may go on in the next line.
fn text_line(line: &str, spans: &mut bool) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    // A cell of a table ends a span.
    let spans_here = *spans && !line.contains('|');
    while let Some(c) = rest.chars().next() {
        let behind = rest.get(c.len_utf8()..).unwrap_or_default();
        match c {
            '\\' => {
                out.push(c);
                // Of an escaped sign only a tag's is looked at, below.
                match behind.chars().next() {
                    Some(next) if next.is_ascii_punctuation() && next != '<' => {
                        out.push(next);
                        rest = behind.get(1..).unwrap_or_default();
                    }
                    _ => rest = behind,
                }
                continue;
            }
            '`' => {
                let run = rest.len() - rest.trim_start_matches('`').len();
                let inside = rest.get(run..).unwrap_or_default();
                match closing(inside, run).filter(|_| spans_here) {
                    Some(end) => {
                        let whole = run + end + run;
                        out.push_str(rest.get(..whole).unwrap_or(rest));
                        rest = rest.get(whole..).unwrap_or_default();
                    }
                    None => {
                        *spans = false;
                        out.push_str(rest.get(..run).unwrap_or_default());
                        // What follows may be a span that began here: it is no code for us.
                        out.push_str(&no_tags(inside));
                        return out;
                    }
                }
                continue;
            }
            _ => {}
        }
        push_text(&mut out, c, behind);
        rest = behind;
    }
    out
}

fn no_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        push_text(
            &mut out,
            c,
            text.get(at + c.len_utf8()..).unwrap_or_default(),
        );
    }
    out
}

/// One character of a text, in a form in which it begins neither a tag nor a picture.
fn push_text(out: &mut String, c: char, behind: &str) {
    match c {
        '<' => out.push_str("&lt;"),
        '!' if behind.starts_with('[') => out.push_str("&#33;"),
        c => out.push(c),
    }
}

/// Where the first run of exactly `len` backticks begins.
fn closing(text: &str, len: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(found) = text.get(at..)?.find('`') {
        let start = at + found;
        let rest = text.get(start..)?;
        let run = rest.len() - rest.trim_start_matches('`').len();
        if run == len {
            return Some(start);
        }
        at = start + run;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quote(text: &str) -> String {
        let mut out = Vec::new();
        quoted(&mut out, text).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn code_stays_and_tags_do_not() {
        for (text, want) in [
            ("a <b>", "> a &lt;b>\n"),
            ("`<b>` <b>", "> `<b>` &lt;b>\n"),
            ("``a`<b>``", "> ``a`<b>``\n"),
            ("\\`<b>`", "> \\`&lt;b>`\n"),
            ("`a\nb` <b> `c", "> `a\n> b` &lt;b> `c\n"),
            ("| ` | <b> ` |", "> | ` | &lt;b> ` |\n"),
            ("![x](y)", "> &#33;[x](y)\n"),
            (
                "```html\n<b>\n```\n<b>",
                "> ```html\n> <b>\n> ```\n> &lt;b>\n",
            ),
            (
                "~~~\n<b>\n```\n<i>\n~~~\n<u>",
                "> ~~~\n> <b>\n> ```\n> <i>\n> ~~~\n> &lt;u>\n",
            ),
            (
                "- ```\n  <b>\n  ```\n<b>",
                "> - ```\n>   &lt;b>\n>   ```\n> &lt;b>\n",
            ),
            ("``` a`b\n<b>", "> ``` a`b\n> &lt;b>\n"),
            ("\\<b>", "> \\&lt;b>\n"),
        ] {
            assert_eq!(quote(text), want, "{text:?}");
        }
    }

    #[test]
    fn a_fence_is_longer_than_any_inside() {
        for text in ["", "a", "```\nx\n```", "a ````` b", "~~~"] {
            let mut out = Vec::new();
            fenced(&mut out, text, "").unwrap();
            let out = String::from_utf8(out).unwrap();
            let lines: Vec<&str> = out.lines().collect();
            let fence = lines[0];
            assert_eq!(lines.last(), Some(&fence));
            assert!(lines[1..lines.len() - 1].iter().all(|l| !l.contains(fence)));
        }
    }

    #[test]
    fn a_title_is_text() {
        assert_eq!(inline("a\n# <b>"), "a\\\\n\\# \\<b\\>");
    }
}
