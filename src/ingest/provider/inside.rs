//! What the person said inside a text to which the harness added its own.

use super::{blocks, message};
use crate::model::record::{Message, MessageKind, Role};

/// Elements by which a harness marks the parts of a text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    /// What is inside is the person's; what stands beside it in the same text is not.
    pub(super) said: &'static [&'static str],
    /// What is inside is the harness's.
    pub(super) injected: &'static [&'static str],
}

impl Marks {
    /// `messages` with the person's texts taken apart.
    pub(super) fn apart(&self, messages: Vec<Message>) -> Vec<Message> {
        let mut out = Vec::with_capacity(messages.len());
        for one in messages {
            if one.role == Role::User && one.kind == MessageKind::Text {
                self.text(&one.text, &mut out);
            } else {
                out.push(one);
            }
        }
        out
    }

    /// The messages of a text that stands in the person's mouth.
    pub(super) fn text(&self, text: &str, out: &mut Vec<Message>) {
        let marked = Find { names: self.said }.any(text);
        let names: Vec<&str> = self.said.iter().chain(self.injected).copied().collect();
        let find = Find { names: &names };
        let begun = out.len();
        let mut rest = text;
        while let Some(found) = find.next(rest) {
            beside(rest.get(..found.begin).unwrap_or_default(), marked, out);
            if self.said.contains(&found.name) {
                let inside = rest.get(found.inside.clone()).unwrap_or_default();
                said(inside, out);
            } else {
                let element = rest.get(found.begin..found.end).unwrap_or_default();
                push(Role::Meta, element, out);
            }
            rest = rest.get(found.end..).unwrap_or_default();
        }
        if out.len() == begun && rest.len() == text.len() {
            if !text.is_empty() {
                let role = blocks::speaker(text).0;
                out.push(message(role, MessageKind::Text, text.to_owned()));
            }
            return;
        }
        beside(rest, marked, out);
    }
}

fn beside(text: &str, marked: bool, out: &mut Vec<Message>) {
    if marked {
        push(Role::Meta, text, out);
    } else {
        said(text, out);
    }
}

fn said(text: &str, out: &mut Vec<Message>) {
    let text = text.trim();
    if !text.is_empty() {
        push(blocks::speaker(text).0, text, out);
    }
}

fn push(role: Role, text: &str, out: &mut Vec<Message>) {
    let text = text.trim();
    if !text.is_empty() {
        out.push(message(role, MessageKind::Text, text.to_owned()));
    }
}

/// Looks for elements that begin a line.
struct Find<'n> {
    names: &'n [&'n str],
}

struct Found<'n> {
    name: &'n str,
    begin: usize,
    inside: std::ops::Range<usize>,
    end: usize,
}

impl<'n> Find<'n> {
    fn any(&self, text: &str) -> bool {
        self.next(text).is_some()
    }

    fn next(&self, text: &str) -> Option<Found<'n>> {
        for begin in memchr::memchr_iter(b'<', text.as_bytes()) {
            let before = text.get(..begin)?.trim_end_matches([' ', '\t']);
            if !before.is_empty() && !before.ends_with(['\n', '>']) {
                continue;
            }
            let tag = text.get(begin + 1..)?;
            let Some(name) = self.names.iter().copied().find(|name| {
                tag.strip_prefix(*name)
                    .is_some_and(|after| after.starts_with(['>', ' ', '\n']))
            }) else {
                continue;
            };
            let from = begin + 1 + tag.find('>')? + 1;
            let close = format!("</{name}>");
            // One without an end goes to the end of the text.
            let body = text.get(from..)?;
            let (inside, end) = match body.find(&close) {
                Some(at) => (from..from + at, from + at + close.len()),
                None => (from..text.len(), text.len()),
            };
            return Some(Found {
                name,
                begin,
                inside,
                end,
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKS: Marks = Marks {
        said: &["task", "user_input"],
        injected: &["details"],
    };

    fn read(text: &str) -> Vec<String> {
        let mut out = Vec::new();
        MARKS.text(text, &mut out);
        out.iter()
            .map(|m| format!("{:?} {}", m.role, m.text))
            .collect()
    }

    #[test]
    fn the_inside_is_the_persons_and_the_rest_is_not() {
        assert_eq!(read("<task>\nSay hello\n</task>"), ["User Say hello"]);
        assert_eq!(
            read("<user_input mode=\"yolo\">fix\n<b>it</b></user_input>"),
            ["User fix\n<b>it</b>"]
        );
        assert_eq!(
            read("[ask] Result:\n<task>yes</task>\n<details>x</details>"),
            [
                "Meta [ask] Result:",
                "User yes",
                "Meta <details>x</details>"
            ]
        );
        assert_eq!(
            read("do it\n\n<details>\nx\n</details>"),
            ["User do it", "Meta <details>\nx\n</details>"]
        );
        assert_eq!(
            read("  plain <task>x</task> "),
            ["User   plain <task>x</task> "]
        );
        assert_eq!(read("<task>no end"), ["User no end"]);
        assert_eq!(read("<details>no end"), ["Meta <details>no end"]);
        assert_eq!(read("<task"), ["User <task"]);
        assert_eq!(read("<task></task>"), Vec::<String>::new());
        assert_eq!(read(""), Vec::<String>::new());
        assert_eq!(
            read("<system-reminder>x</system-reminder>"),
            ["Meta <system-reminder>x</system-reminder>"]
        );
    }
}
