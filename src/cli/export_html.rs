//! A session as one HTML file: no script, no network, nothing of the session's text as markup.

use std::io::{self, Write};

use super::export_page::{Setting, damaged, facts, moment, title};
use super::page::count;
use super::reading::Totals;
use super::sanitise::{readable, visible};
use super::view::speaker;
use crate::model::conversation::{ArchivedMessage, Conversation};
use crate::model::record::{MessageKind, Role};
use crate::report::view::ViewDamage;

/// Sets a session as HTML.
#[derive(Debug)]
pub(super) struct Html;

/// Nothing may be loaded and nothing run, whatever the text holds: the second lock behind the
/// escapes.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
<meta name=\"referrer\" content=\"no-referrer\">\n\
<meta name=\"color-scheme\" content=\"light dark\">\n";

const STYLE: &str = "<style>\n\
:root{--ground:#fff;--ink:#1b1b1b;--soft:#666;--line:#ddd;--user:#eef4ff;--tool:#f5f5f5;--bad:#b00020}\n\
@media (prefers-color-scheme:dark){:root{--ground:#161616;--ink:#e6e6e6;--soft:#9a9a9a;\
--line:#333;--user:#1c2536;--tool:#202020;--bad:#ff7a8a}}\n\
*{box-sizing:border-box}\n\
body{margin:0;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\n\
main{max-width:52rem;margin:0 auto;padding:1rem}\n\
h1{font-size:1.4rem;overflow-wrap:anywhere}\n\
h2{font-size:.8rem;margin:0 0 .3rem;color:var(--soft);font-weight:600}\n\
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .8rem;font-size:.85rem;color:var(--soft)}\n\
dd{margin:0;overflow-wrap:anywhere}\n\
article{border-top:1px solid var(--line);padding:.7rem .5rem}\n\
.user{background:var(--user)}\n\
.text{white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:plaintext}\n\
pre{margin:.3rem 0 0;padding:.5rem;background:var(--tool);white-space:pre-wrap;overflow-wrap:anywhere;\
font:.8rem/1.4 ui-monospace,monospace}\n\
summary{cursor:pointer;font-size:.8rem;color:var(--soft);font-weight:600;overflow-wrap:anywhere}\n\
.aside{color:var(--soft);font-size:.9rem}\n\
.bad{color:var(--bad)}\n\
footer{border-top:1px solid var(--line);padding:.7rem .5rem;color:var(--soft);font-size:.8rem}\n\
@media print{body{font-size:11pt}article{break-inside:auto}\
details::details-content{content-visibility:visible;block-size:auto}}\n\
</style>\n";

/// Lines of a tool's text that are shown unfolded.
const OPEN_LINES: usize = 12;

impl Setting for Html {
    fn head(&self, out: &mut dyn Write, s: &Conversation) -> io::Result<()> {
        let name = escape(&visible(title(s)));
        write!(
            out,
            "{HEAD}<title>{name}</title>\n{STYLE}</head>\n<body>\n<main>\n<header>\n\
             <h1 dir=\"auto\">{name}</h1>\n<dl>\n"
        )?;
        for (key, value) in facts(s) {
            writeln!(out, "<dt>{key}</dt><dd>{}</dd>", escape(&visible(&value)))?;
        }
        out.write_all(b"</dl>\n</header>\n")
    }

    fn message(&self, out: &mut dyn Write, number: u64, m: &ArchivedMessage) -> io::Result<()> {
        let mut caption = format!("{number}. {}", speaker(m));
        if let Some(tool) = &m.message.tool_name {
            caption.push_str(&format!(" {}", escape(&visible(tool))));
        }
        if m.message.is_error == Some(true) {
            caption.push_str(" <span class=\"bad\">failed</span>");
        }
        if let Some(time) = moment(m.time_ms) {
            caption.push_str(&format!(" <time>{time}</time>"));
        }
        let text = readable(&m.message.text);
        let (class, folded) = match (m.message.kind, m.message.role) {
            (MessageKind::ToolCall | MessageKind::ToolResult, _) => ("tool", true),
            (MessageKind::Reasoning, _) | (_, Role::Meta | Role::System) => ("aside", true),
            (_, Role::User) => ("user", false),
            _ => ("assistant", false),
        };
        writeln!(out, "<article class=\"{class}\" id=\"m{number}\">")?;
        if folded {
            let few = text.split('\n').take(OPEN_LINES + 1).count() <= OPEN_LINES;
            let open = if few && text.len() < 2000 {
                " open"
            } else {
                ""
            };
            write!(
                out,
                "<details{open}><summary>{caption}</summary>\n<pre dir=\"auto\">"
            )?;
            write_escaped(out, &text)?;
            out.write_all(b"</pre></details>\n</article>\n")
        } else {
            write!(out, "<h2>{caption}</h2>\n<div class=\"text\" dir=\"auto\">")?;
            write_escaped(out, &text)?;
            out.write_all(b"</div>\n</article>\n")
        }
    }

    fn damage(&self, out: &mut dyn Write, d: &ViewDamage) -> io::Result<()> {
        let text = escape(&visible(&damaged(d)));
        writeln!(
            out,
            "<article class=\"bad\"><h2>damage</h2>{text}</article>"
        )
    }

    fn end(&self, out: &mut dyn Write, totals: &Totals) -> io::Result<()> {
        write!(
            out,
            "<footer>{}, {}. Exported by cass {}.</footer>\n\
             </main>\n</body>\n</html>\n",
            count(totals.messages, "message", "messages"),
            count(totals.damage, "damaged place", "damaged places"),
            env!("CARGO_PKG_VERSION")
        )
    }
}

/// `text` as characters of a page, in an element or in a quoted attribute.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match entity(c) {
            Some(entity) => out.push_str(entity),
            None => out.push(c),
        }
    }
    out
}

/// As [`escape`], without a second copy of a long text.
fn write_escaped(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let mut rest = text;
    while let Some(at) = rest.find(|c| entity(c).is_some()) {
        let (plain, behind) = rest.split_at(at);
        out.write_all(plain.as_bytes())?;
        let mut chars = behind.chars();
        if let Some(entity) = chars.next().and_then(entity) {
            out.write_all(entity.as_bytes())?;
        }
        rest = chars.as_str();
    }
    out.write_all(rest.as_bytes())
}

/// How a character is written that could end a text or an attribute or begin something else.
fn entity(c: char) -> Option<&'static str> {
    Some(match c {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '"' => "&quot;",
        '\'' => "&#39;",
        '`' => "&#96;",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_escape_give_the_same() {
        for text in ["", "a", "<b>&'\"`", "é<日>", "<<", "x&amp;"] {
            let mut out = Vec::new();
            write_escaped(&mut out, text).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), escape(text));
            assert!(!escape(text).contains(['<', '>', '"', '\'', '`']));
        }
    }
}
