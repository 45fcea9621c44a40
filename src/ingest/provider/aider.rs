//! Aider: one Markdown file a repository, appended; run after run.
//!
//! A run begins with a heading that tells when, in local time without a zone: it is taken as UTC,
//! so a time may be some hours off, and every record of a run has the time of its begin. A line
//! that begins with `#### ` is the person's, one with `> ` is Aider's own or a tool's, everything
//! else is the model's answer. What an answer shows inside a fence is the answer's, whatever it
//! begins with; but Aider ends its own lines with two spaces, and one that stands behind a blank
//! line shows that the fence was never closed.

use std::collections::HashMap;
use std::path::Path;

use super::{Part, Reading, TextReader, known, message};
use crate::ingest::parse::payload;
use crate::model::digest::Digest;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};

/// What a run begins with.
const HEADING: &str = "# aider chat started at ";
/// Stamps that are remembered to tell runs apart that began in the same second.
const REMEMBERED: usize = 1 << 16;

const RUN: &str = "run";
const USER: &str = "user";
const TOOL: &str = "tool";
const ASSISTANT: &str = "assistant";

/// Reads one history.
#[derive(Debug)]
pub(super) struct AiderReader {
    path: String,
    workspace: Option<String>,
    lines: Lines,
    run: Run,
    /// How often a stamp was seen, by its first 64 bits.
    stamps: HashMap<u64, u32>,
}

/// The run at hand.
#[derive(Debug)]
struct Run {
    session: String,
    begun_ms: Option<i64>,
    model: Option<String>,
    blocks: u64,
}

impl AiderReader {
    pub(super) fn new(path: &Path) -> Self {
        let text = path.to_string_lossy().into_owned();
        AiderReader {
            workspace: path
                .parent()
                .map(|folder| folder.to_string_lossy().into_owned()),
            lines: Lines::default(),
            run: Run {
                // What stands before the first heading.
                session: session(&text, "", 0),
                begun_ms: None,
                model: None,
                blocks: 0,
            },
            stamps: HashMap::new(),
            path: text,
        }
    }

    fn begin(&mut self, stamp: &str) {
        let key = super::short(&Digest::of(stamp.as_bytes()));
        let seen = match self.stamps.get_mut(&key) {
            Some(seen) => {
                *seen += 1;
                *seen
            }
            None => {
                if self.stamps.len() < REMEMBERED {
                    self.stamps.insert(key, 0);
                }
                0
            }
        };
        self.run = Run {
            session: session(&self.path, stamp, seen),
            begun_ms: time_ms(stamp),
            model: None,
            blocks: 0,
        };
    }

    /// What Aider's own lines say about the run.
    fn note(&mut self, text: &str, facts: &mut Facts) {
        for line in text.lines() {
            if let Some(version) = line.strip_prefix("Aider v") {
                facts.harness_version = Some(version.trim().to_owned());
            }
            let model = ["Model: ", "Main model: ", "Models: "]
                .iter()
                .find_map(|mark| line.strip_prefix(mark));
            if let Some(model) = model {
                let name = model.split([' ', ',']).next().unwrap_or_default();
                self.run.model = (!name.is_empty()).then(|| name.to_owned());
            }
        }
    }
}

impl TextReader for AiderReader {
    fn part(&mut self, line: &str) -> Part {
        self.lines.part(line)
    }

    fn read(&mut self, kind: &'static str, text: &str) -> Reading {
        let mut facts = Facts::default();
        let mut out = Vec::new();
        let begins = kind == RUN;
        let without = |prefix: &str| -> String {
            let lines: Vec<&str> = text
                .lines()
                .map(|l| l.strip_prefix(prefix).unwrap_or_default().trim_end())
                .collect();
            lines.join("\n").trim_matches('\n').to_owned()
        };
        let said = |role, kind, text: String| -> Message {
            message(role, kind, payload::described_in(text.into()))
        };
        match kind {
            RUN => {
                let stamp = text.trim_start_matches('\u{feff}').trim_end();
                let stamp = stamp.strip_prefix(HEADING).unwrap_or(stamp).to_owned();
                self.begin(&stamp);
                facts.workspace.clone_from(&self.workspace);
            }
            USER => out.push(said(Role::User, MessageKind::Text, without("####"))),
            TOOL => {
                let text = without(">");
                self.note(&trimmed_lines(&text), &mut facts);
                out.push(said(Role::Tool, MessageKind::ToolResult, text));
            }
            _ => {
                let text = text.trim_matches(['\n', '\r', '\u{feff}']);
                out.push(Message {
                    model: self.run.model.clone(),
                    ..said(Role::Assistant, MessageKind::Text, text.to_owned())
                });
            }
        }
        for message in &mut out {
            message.text = unindented(&message.text, kind);
        }
        out.retain(|message| !message.text.trim().is_empty());
        if self.run.blocks == 0 && self.run.begun_ms.is_none() && !begins {
            facts.workspace.clone_from(&self.workspace);
        }
        let block = self.run.blocks;
        self.run.blocks += 1;
        Reading {
            session: self.run.session.clone(),
            native_id: Some(block.to_string()),
            native_parent: None,
            record_type: kind.to_owned(),
            time_ms: self.run.begun_ms,
            disposition: if begins {
                Disposition::Known
            } else {
                known(out)
            },
            facts,
        }
    }
}

/// The one space that stands behind a prefix, taken off every line.
fn unindented(text: &str, kind: &str) -> String {
    if kind == ASSISTANT {
        return text.to_owned();
    }
    let lines: Vec<&str> = text
        .split('\n')
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    lines.join("\n")
}

fn trimmed_lines(text: &str) -> String {
    let lines: Vec<&str> = text.split('\n').map(str::trim).collect();
    lines.join("\n")
}

/// The id of the run in the history at `path` that began at `stamp`, as the `seen`-th of that
/// second.
fn session(path: &str, stamp: &str, seen: u32) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [path, stamp] {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.update(&seen.to_le_bytes());
    let hex = hasher.finalize().to_hex();
    hex.get(..32).unwrap_or(&hex).to_owned()
}

/// Milliseconds since the Unix epoch of `YYYY-MM-DD HH:MM:SS`, as if it were UTC.
fn time_ms(stamp: &str) -> Option<i64> {
    let stamp = stamp.trim();
    if stamp.len() != 19 {
        return None;
    }
    let time: jiff::Timestamp = format!("{stamp}Z").parse().ok()?;
    Some(time.as_millisecond())
}

/// Which block a line belongs to.
#[derive(Debug)]
struct Lines {
    kind: Option<&'static str>,
    after_blank: bool,
    /// The fence that is open: its character and its length.
    fence: Option<(char, usize)>,
}

impl Default for Lines {
    fn default() -> Self {
        Lines {
            kind: None,
            after_blank: true,
            fence: None,
        }
    }
}

impl Lines {
    fn part(&mut self, line: &str) -> Part {
        let after_blank = std::mem::replace(&mut self.after_blank, line.trim().is_empty());
        if self.after_blank {
            return Part::Goes(self.kind.unwrap_or(ASSISTANT));
        }
        let kind = self.kind_of(line, after_blank);
        if kind != ASSISTANT {
            self.fence = None;
        }
        let same = self.kind.replace(kind) == Some(kind);
        // An answer may hold blank lines; what the person or Aider says ends with one.
        let goes_on = match kind {
            ASSISTANT => same,
            RUN => false,
            _ => same && !after_blank,
        };
        if kind == ASSISTANT {
            self.see_fence(line);
        }
        if goes_on {
            Part::Goes(kind)
        } else {
            Part::Begins(kind)
        }
    }

    fn kind_of(&self, line: &str, after_blank: bool) -> &'static str {
        let kind = if line.starts_with("#### ") || line == "####" {
            USER
        } else if line.starts_with("> ") || line == ">" {
            TOOL
        } else if is_heading(line) {
            RUN
        } else {
            return ASSISTANT;
        };
        // Inside a fence, only what Aider alone writes that way is no part of the answer.
        let own = after_blank && (kind == RUN || line.ends_with("  "));
        if self.fence.is_none() || own {
            kind
        } else {
            ASSISTANT
        }
    }

    fn see_fence(&mut self, line: &str) {
        let inner = line.trim_start_matches(' ');
        if line.len() - inner.len() > 3 {
            return;
        }
        let Some(mark) = inner.chars().next().filter(|c| matches!(c, '`' | '~')) else {
            return;
        };
        let len = inner.chars().take_while(|c| *c == mark).count();
        let rest = inner.get(len..).unwrap_or_default();
        self.fence = match self.fence {
            Some((open, least)) if mark == open && len >= least && rest.trim().is_empty() => None,
            // Three marks around a word on one line are no fence.
            None if len >= 3 && !rest.contains('`') => Some((mark, len)),
            as_it_was => as_it_was,
        };
    }
}

/// Whether a line is the heading of a run: the words alone may come from anyone.
fn is_heading(line: &str) -> bool {
    line.strip_prefix(HEADING)
        .is_some_and(|stamp| time_ms(stamp).is_some())
}
