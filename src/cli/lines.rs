//! Text of a session as lines of a terminal.

use super::sanitise::{columns, fit, visible};

/// Lines of `text`, each at most `max` columns wide and with nothing in it that a terminal would
/// act on. At most `limit` of them; the number says how many lines of the text were left out.
#[must_use]
pub fn lines(text: &str, max: usize, limit: usize) -> (Vec<String>, usize) {
    let mut out = Vec::new();
    let mut source = text.trim_end().split('\n');
    while let Some(line) = source.next() {
        let line = shown(line);
        let mut rest = line.as_str();
        loop {
            if out.len() == limit {
                return (out, 1 + source.count());
            }
            let (first, behind) = broken(rest, max);
            out.push(first.to_owned());
            if behind.is_empty() {
                break;
            }
            rest = behind;
        }
    }
    (out, 0)
}

/// One line of a text, safe to print.
#[must_use]
pub fn shown(line: &str) -> String {
    let line = line.strip_suffix('\r').unwrap_or(line);
    visible(&line.replace('\t', "    "))
}

/// As much of `line` as fits into `max` columns, broken between words where that is possible, and
/// the rest.
fn broken(line: &str, max: usize) -> (&str, &str) {
    if columns(line) <= max {
        return (line, "");
    }
    // What `fit` keeps, without its sign; at least one character, so that the loop ends.
    let kept = fit(line, max).len().saturating_sub('…'.len_utf8());
    let first = line.chars().next().map_or(0, char::len_utf8);
    let hard = kept.max(first);
    let head = line.get(..hard).unwrap_or(line);
    match head.rfind(' ').filter(|at| *at > max / 2) {
        Some(at) => (
            head.get(..at).unwrap_or(head),
            line.get(at + 1..).unwrap_or_default(),
        ),
        None => (head, line.get(head.len()..).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_say_what_they_leave_out() {
        let text = format!(
            "one\r\ntwo\tx\n{}\n日本語 {}\n\n",
            "word ".repeat(40),
            "é".repeat(90)
        );
        let (all, hidden) = lines(&text, 20, 1000);
        assert_eq!(hidden, 0);
        assert!(all.iter().all(|l| columns(l) <= 20), "{all:#?}");
        assert_eq!(&all[..2], ["one", "two    x"]);
        assert_eq!(all.concat().matches("word").count(), 40);
        assert_eq!(all.concat().matches('é').count(), 90);
        let (some, hidden) = lines(&text, 20, 3);
        assert_eq!((some.len(), hidden), (3, 2));
        assert_eq!(lines("", 20, 3), (vec![String::new()], 0));
        assert_eq!(lines("a\x1b[2J", 20, 3).0, ["a\\x1b[2J"]);
    }
}
