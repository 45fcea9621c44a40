//! Aider: one Markdown file a repository, appended; run after run.
//!
//! A run begins with a heading that tells when, in local time without a zone: it is taken as UTC,
//! so a time may be some hours off, and every record of a run has the time of its begin. A line
//! that begins with `#### ` is the person's, one with `> ` is Aider's own or a tool's, everything
//! else is the model's answer. What an answer shows inside a fence is the answer's, whatever it
//! begins with; but Aider ends its own lines with two spaces, and one that stands behind a blank
//! line shows that the fence was never closed.
//!
//! A run has no id. Those of one second are numbered in the order in which they were first seen,
//! and known again by what they begin with: another one may come to stand before them.

use std::collections::HashMap;
use std::path::Path;

use super::{Part, Reading, TextReader, known, message};
use crate::ingest::parse::payload;
use crate::model::digest::Digest;
use crate::model::record::{Disposition, Facts, Message, MessageKind, Role};

/// What a run begins with.
const HEADING: &str = "# aider chat started at ";
/// Runs that are remembered to tell those of one second apart: 50 bytes each.
const REMEMBERED: usize = 1 << 14;

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
    /// The runs that were ever seen in this history.
    seen: Vec<Seen>,
    /// The runs of this capture, in their order; those read so far when it is read.
    runs: Vec<Found>,
    read: usize,
    /// Whether the history is passed over for its runs, and not read.
    passes_over: bool,
}

/// A run that was seen: its stamp by its first 64 bits, its number among the runs of that second,
/// and the length and the first 64 bits of the digest of what it begins with.
type Seen = (u64, u32, u64, u64);

/// A run of this capture.
#[derive(Debug)]
struct Found {
    stamp: u64,
    number: u32,
    /// Length and digest of its first block.
    first: (u64, u64),
    /// The runs seen before that it may be, by place.
    may_be: Vec<usize>,
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
    pub(super) fn new(path: &Path, state: Option<serde_json::Value>) -> Self {
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
            seen: state
                .and_then(|s| serde_json::from_value(s).ok())
                .unwrap_or_default(),
            runs: Vec::new(),
            read: 0,
            passes_over: true,
            path: text,
        }
    }

    /// Takes note of a block while the history is passed over.
    fn pass(&mut self, kind: &'static str, text: &str) {
        if kind == RUN {
            self.runs.push(Found {
                stamp: super::short(&Digest::of(stamp_of(text).as_bytes())),
                number: 0,
                first: (0, 0),
                may_be: Vec::new(),
            });
            self.run.blocks = 0;
        }
        self.run.blocks += 1;
        let Some(run) = self.runs.last_mut().filter(|_| self.run.blocks == 2) else {
            return;
        };
        let bytes = text.trim_end().as_bytes();
        let digest = |bytes: &[u8]| super::short(&Digest::of(bytes));
        run.first = (bytes.len() as u64, digest(bytes));
        // What was the end of the history then may go on now.
        let is_begin = |(stamp, _, len, hash): &Seen| {
            let begin = usize::try_from(*len).ok().and_then(|n| bytes.get(..n));
            *stamp == run.stamp && *len > 0 && begin.is_some_and(|b| digest(b) == *hash)
        };
        run.may_be = (0..self.seen.len())
            .filter(|n| self.seen.get(*n).is_some_and(is_begin))
            .collect();
        run.may_be
            .sort_by_key(|n| self.seen.get(*n).map(|s| std::cmp::Reverse(s.2)));
    }

    /// Numbers the runs: first those that begin as they did, then those that had not begun, then
    /// the new ones. One whose begin was changed is known where it is the only one of its second.
    fn number(&mut self) {
        let mut left: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut next: HashMap<u64, u32> = HashMap::new();
        // How often a stamp was seen, and how often it is here.
        let mut times: HashMap<u64, (u32, u32)> = HashMap::new();
        for run in &self.runs {
            times.entry(run.stamp).or_default().1 += 1;
        }
        for (n, (stamp, number, ..)) in self.seen.iter().enumerate() {
            left.entry(*stamp).or_default().push(n);
            times.entry(*stamp).or_default().0 += 1;
            let next = next.entry(*stamp).or_default();
            *next = (*next).max(number.saturating_add(1));
        }
        let mut is: Vec<Option<usize>> = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let left = left.entry(run.stamp).or_default();
            let found = run.may_be.iter().find(|n| left.contains(n)).copied();
            left.retain(|n| Some(*n) != found);
            is.push(found);
        }
        for (run, is) in self.runs.iter_mut().zip(is) {
            let left = left.entry(run.stamp).or_default();
            let alone = times.get(&run.stamp) == Some(&(1, 1));
            let may_be = |n: &usize| {
                let begun = self.seen.get(*n).is_some_and(|seen| seen.2 > 0);
                alone || !begun
            };
            let is = is.or_else(|| left.iter().copied().find(may_be));
            left.retain(|n| Some(*n) != is);
            match is.and_then(|n| self.seen.get_mut(n)) {
                Some(seen) => {
                    run.number = seen.1;
                    (seen.2, seen.3) = run.first;
                }
                None => {
                    let next = next.entry(run.stamp).or_default();
                    run.number = *next;
                    *next = next.saturating_add(1);
                    if self.seen.len() < REMEMBERED {
                        let (len, hash) = run.first;
                        self.seen.push((run.stamp, run.number, len, hash));
                    }
                }
            }
        }
    }

    fn begin(&mut self, stamp: &str) {
        let number = self.runs.get(self.read).map_or(0, |run| run.number);
        self.read += 1;
        self.run = Run {
            session: session(&self.path, stamp, number),
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

    fn looks_ahead(&self) -> bool {
        true
    }

    fn begin_again(&mut self) {
        self.number();
        self.passes_over = false;
        self.lines = Lines::default();
        self.run.blocks = 0;
    }

    fn state(&self) -> Option<serde_json::Value> {
        serde_json::to_value(&self.seen).ok()
    }

    fn read(&mut self, kind: &'static str, text: &str) -> Reading {
        if self.passes_over {
            self.pass(kind, text);
            return Reading {
                session: String::new(),
                native_id: None,
                native_parent: None,
                record_type: String::new(),
                time_ms: None,
                disposition: Disposition::Known,
                facts: Facts::default(),
            };
        }
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
                self.begin(stamp_of(text));
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

/// When a run began, as its heading says.
fn stamp_of(heading: &str) -> &str {
    let line = heading.trim_start_matches('\u{feff}').trim_end();
    line.strip_prefix(HEADING).unwrap_or(line)
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

/// The id of the run in the history at `path` that began at `stamp`, with this number among those
/// of that second.
fn session(path: &str, stamp: &str, number: u32) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [path, stamp] {
        hasher.update(part.as_bytes());
        hasher.update(&[0]);
    }
    hasher.update(&number.to_le_bytes());
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
