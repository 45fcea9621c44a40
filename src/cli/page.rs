//! Text for people: at most 40 lines of 80 columns, what is wrong first, one verdict last and
//! then one line to paste.

use super::sanitise::{columns, fit, shell_line, visible};

/// Lines of a page.
pub const MAX_LINES: usize = 40;
/// Columns of a line. Lines to paste are never cut.
pub const MAX_COLUMNS: usize = 80;

/// How a line is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Damaged, lost, failed.
    Error,
    /// Look at it.
    Warn,
    /// Normal.
    Info,
}

impl Mark {
    const fn word(self) -> &'static str {
        match self {
            Mark::Error => "error",
            Mark::Warn => "warn",
            Mark::Info => "info",
        }
    }

    const fn colour(self) -> &'static str {
        match self {
            Mark::Error => "\x1b[1;31m",
            Mark::Warn => "\x1b[33m",
            Mark::Info => "\x1b[36m",
        }
    }
}

const PLAIN: &str = "\x1b[0m";
const INDENT: usize = 7;
/// Columns of the name of a fact.
const NAME: usize = 10;

#[derive(Debug, Clone)]
struct Line {
    mark: Option<Mark>,
    text: String,
}

/// A page being written. All text given to it may hold anything.
#[derive(Debug, Clone, Default)]
pub struct Page {
    anomalies: Vec<Vec<Line>>,
    facts: Vec<Line>,
}

impl Page {
    /// Something that is wrong or worth a look: shown first, in the order given.
    pub fn anomaly(&mut self, mark: Mark, text: &str) {
        let lines = wrap(&visible(text), MAX_COLUMNS - INDENT)
            .into_iter()
            .enumerate()
            .map(|(n, text)| Line {
                mark: (n == 0).then_some(mark),
                text: pad(text, n),
            })
            .collect();
        self.anomalies.push(lines);
    }

    /// A fact: one line, shown behind what is wrong.
    pub fn fact(&mut self, text: &str) {
        self.facts.push(Line {
            mark: None,
            text: fit(&visible(text), MAX_COLUMNS),
        });
    }

    /// A fact under a name, on as many lines as it takes.
    pub fn told(&mut self, name: &str, text: &str) {
        for (n, line) in wrap(&visible(text), MAX_COLUMNS - NAME).iter().enumerate() {
            let name = if n == 0 { name } else { "" };
            self.fact(&format!("{name:<NAME$}{line}"));
        }
    }

    /// A path under a name, on one line. It is never cut.
    pub fn path(&mut self, name: &str, path: &str) {
        self.facts.push(Line {
            mark: None,
            text: format!("{name:<NAME$}{}", visible(path)),
        });
    }

    /// A command to paste, among the facts. It is never cut.
    pub fn command(&mut self, argv: &[String]) {
        self.facts.push(Line {
            mark: None,
            text: format!("  {}", shell_line(argv)),
        });
    }

    /// The finished page. `next` is the command to paste.
    #[must_use]
    pub fn render(self, verdict: &str, next: Option<&[String]>, colour: bool) -> String {
        let verdict = wrap(&visible(verdict), MAX_COLUMNS);
        let footer = verdict.len().min(4) + usize::from(next.is_some());
        // The facts leave at least half of the page to what is wrong.
        let room = MAX_LINES - footer;
        let wrong: usize = self.anomalies.iter().map(Vec::len).sum();
        let for_facts = room.saturating_sub(wrong.min(room / 2));
        let mut lines = Vec::new();
        let facts = cut(self.facts, for_facts);
        let for_wrong = room - facts.len();
        lines.extend(cut_groups(self.anomalies, for_wrong));
        lines.extend(facts);
        lines.extend(
            verdict
                .into_iter()
                .take(4)
                .map(|text| Line { mark: None, text }),
        );
        let mut out = String::new();
        for line in lines {
            if let Some(mark) = line.mark {
                let word = format!("{:<width$}", mark.word(), width = INDENT);
                if colour {
                    out.push_str(mark.colour());
                    out.push_str(&word);
                    out.push_str(PLAIN);
                } else {
                    out.push_str(&word);
                }
            }
            out.push_str(line.text.trim_end());
            out.push('\n');
        }
        if let Some(argv) = next {
            out.push_str("  ");
            out.push_str(&shell_line(argv));
            out.push('\n');
        }
        out
    }
}

fn pad(text: String, n: usize) -> String {
    if n == 0 {
        text
    } else {
        format!("{:INDENT$}{text}", "")
    }
}

fn left_out(n: usize) -> Line {
    Line {
        mark: None,
        text: format!("({n} more; --json shows more)"),
    }
}

fn cut(mut lines: Vec<Line>, room: usize) -> Vec<Line> {
    if lines.len() > room {
        let keep = room.saturating_sub(1);
        let rest = lines.len() - keep;
        lines.truncate(keep);
        if room > 0 {
            lines.push(left_out(rest));
        }
    }
    lines
}

/// Whole groups as long as they fit.
fn cut_groups(groups: Vec<Vec<Line>>, room: usize) -> Vec<Line> {
    let total: usize = groups.iter().map(Vec::len).sum();
    if total <= room {
        return groups.into_iter().flatten().collect();
    }
    let count = groups.len();
    let mut lines = Vec::new();
    let mut shown = 0;
    for group in groups {
        if lines.len() + group.len() + 1 > room {
            break;
        }
        lines.extend(group);
        shown += 1;
    }
    lines.push(left_out(count - shown));
    lines
}

/// `text` broken between words into lines of at most `max` columns.
fn wrap(text: &str, max: usize) -> Vec<String> {
    let mut lines: Vec<String> = broken(text, max).iter().map(|l| fit(l, max)).collect();
    // A long value must not push everything else off the page.
    if lines.len() > 4 {
        lines.truncate(4);
        if let Some(last) = lines.last_mut() {
            *last = format!("{} …", fit(last, max - 2));
        }
    }
    lines
}

/// Lines of at most `max` columns; a word that is longer stays whole, so that it can be copied.
#[must_use]
pub fn broken(text: &str, max: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > max {
            lines.push(std::mem::take(&mut line));
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

pub use crate::model::plural::count;

/// `bytes` in a unit that people read.
#[must_use]
pub fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        10_000_000..10_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::sanitise::acts_or_hides;

    #[test]
    fn a_page_never_grows_past_40_lines_of_80_columns() {
        for (wrong, facts) in [(0, 0), (1, 100), (100, 1), (100, 100), (3, 5)] {
            let mut page = Page::default();
            for n in 0..wrong {
                page.anomaly(Mark::Error, &format!("{n} \x1b[31m {}", "word ".repeat(50)));
            }
            for n in 0..facts {
                page.fact(&format!("{n} 日本語 {}", "x".repeat(200)));
            }
            let argv = ["cass".to_owned(), "index".to_owned()];
            let text = page.render(&"verdict ".repeat(30), Some(&argv), false);
            let lines: Vec<&str> = text.lines().collect();
            assert!(lines.len() <= MAX_LINES, "{wrong} {facts}: {}", lines.len());
            assert!(lines.iter().all(|l| columns(l) <= MAX_COLUMNS), "{text}");
            assert!(!text.chars().any(|c| c != '\n' && acts_or_hides(c)));
            assert_eq!(lines.last(), Some(&"  cass index"));
            if wrong > 0 {
                assert!(lines[0].starts_with("error  0"), "{text}");
            }
        }
    }

    #[test]
    fn colour_adds_escapes_and_changes_nothing_else() {
        let mut page = Page::default();
        page.anomaly(Mark::Warn, "look");
        let plain = page.clone().render("v", None, false);
        let colour = page.render("v", None, true);
        assert_eq!(colour.replace("\x1b[33m", "").replace(PLAIN, ""), plain);
    }

    #[test]
    fn broken_lines_fit_and_keep_every_word_whole() {
        let path = "/a/long/path".repeat(10);
        let text = format!("Free some room below {path} and run the same command again, please.");
        let lines = broken(&text, 30);
        assert_eq!(lines.join(" "), text);
        assert!(
            lines.iter().all(|l| columns(l) <= 30 || *l == path),
            "{lines:?}"
        );
    }
}
