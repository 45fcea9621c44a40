//! What records say of one another: ids, parents, tool calls, ordinals. A record costs a few dozen
//! bytes here.

use std::collections::HashMap;

use super::class::{Anomaly, Class};
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::record::{Disposition, MessageKind, ParsedRecord, Span};

/// Records that are followed; one log with more is checked as far.
const MAX: usize = 4_000_000;

/// A short name of a text.
fn short(text: &str) -> u64 {
    let Digest([a, b, c, d, e, f, g, h, ..]) = Digest::of(text.as_bytes());
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Several places of one kind: how many, and the first of them.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Places {
    pub(super) count: u64,
    pub(super) bytes: u64,
    first: Option<(u64, u64)>,
}

impl Places {
    pub(super) fn add(&mut self, span: Span, line: u64) {
        self.count += 1;
        self.bytes += span.len;
        self.first.get_or_insert((span.offset, line));
    }

    /// The finding that stands for them, if there are any.
    pub(super) fn found(self, class: Class, what: impl FnOnce(u64) -> String) -> Option<Anomaly> {
        let (offset, line) = self.first?;
        let mut found = Anomaly::at(class, offset, line, self.bytes, what(self.count));
        found.count = self.count;
        found.kept = self.count;
        Some(found)
    }
}

/// One record, as others name it.
#[derive(Debug, Clone, Copy)]
struct Node {
    parent: Option<u64>,
    content: u64,
}

/// The records of one file.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<u64, Node>,
    /// Records that name a parent: parent, place, line, length.
    named: Vec<(u64, Span, u64)>,
    last: Option<u64>,
    repeated: Places,
    changed: Places,
    calls: HashMap<u64, (Span, u64)>,
    answered: HashMap<u64, ()>,
    ordinal: Option<u64>,
    gaps: Places,
    reused: Places,
}

/// Whether the harness gives every record one id that none other has. Others write a record anew
/// under its id whenever it changes.
const fn has_unique_ids(provider: Provider) -> bool {
    matches!(
        provider,
        Provider::Claude
            | Provider::Copilot
            | Provider::Droid
            | Provider::Iflow
            | Provider::OpenClaw
            | Provider::Pi
            | Provider::Qwen
    )
}

impl Graph {
    pub(super) fn record(&mut self, provider: Provider, r: &ParsedRecord) {
        if self.nodes.len() >= MAX || self.calls.len() >= MAX {
            return;
        }
        if has_unique_ids(provider) {
            self.node(r);
        }
        let Disposition::Messages(messages) = &r.disposition else {
            return;
        };
        for m in messages {
            let Some(id) = &m.call_id else { continue };
            match m.kind {
                MessageKind::ToolCall if !self.answered.contains_key(&short(id)) => {
                    self.calls.entry(short(id)).or_insert((r.span, r.line));
                }
                MessageKind::ToolResult => {
                    self.calls.remove(&short(id));
                    self.answered.insert(short(id), ());
                }
                _ => {}
            }
        }
    }

    fn node(&mut self, r: &ParsedRecord) {
        let parent = r.native_parent.as_deref().map(short);
        if let Some(parent) = parent {
            self.named.push((parent, r.span, r.line));
        }
        let Some(id) = &r.native_id else { return };
        let id = short(id);
        let Digest([a, b, c, d, e, f, g, h, ..]) = r.hash;
        let content = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        match self.nodes.get(&id) {
            Some(known) if known.content == content => self.repeated.add(r.span, r.line),
            Some(_) => self.changed.add(r.span, r.line),
            None => {}
        }
        self.nodes.insert(id, Node { parent, content });
        self.last = Some(id);
    }

    /// A Codex record with its `ordinal`, or none.
    pub(super) fn ordinal(&mut self, ordinal: Option<u64>, r: &ParsedRecord) {
        match (self.ordinal, ordinal) {
            (None, Some(_)) => {}
            (Some(before), Some(now)) if now <= before => self.reused.add(r.span, r.line),
            (Some(before), Some(now)) if now > before + 1 => self.gaps.add(r.span, r.line),
            (Some(_), None) => {
                self.gaps.add(r.span, r.line);
                return;
            }
            _ => {}
        }
        self.ordinal = ordinal.max(self.ordinal);
    }

    /// A record whose number can't be told: what comes behind it says nothing of a gap.
    pub(super) fn unnumbered(&mut self) {
        self.ordinal = None;
    }

    /// Records on the way from the last one to the begin.
    fn reachable(&self) -> u64 {
        let mut seen = std::collections::HashSet::new();
        let mut at = self.last;
        while let Some(id) = at.filter(|id| self.nodes.contains_key(id)) {
            if !seen.insert(id) {
                break;
            }
            at = self.nodes.get(&id).and_then(|n| n.parent);
        }
        seen.len() as u64
    }

    pub(super) fn end(self, out: &mut Vec<Anomaly>) {
        let mut dangling = Places::default();
        for (parent, span, line) in &self.named {
            if !self.nodes.contains_key(parent) {
                dangling.add(*span, *line);
            }
        }
        let (reachable, all) = (self.reachable(), self.nodes.len());
        out.extend(dangling.found(Class::DanglingParent, |n| {
            format!(
                "{n} {} a parent that is not in the file; from the last record {reachable} of {all} \
                 can be reached, and all are read",
                if n == 1 { "record names" } else { "records name" }
            )
        }));
        out.extend(self.repeated.found(Class::DuplicateId, |n| {
            format!("{n} more with the id and the bytes of a record before; folded into it")
        }));
        out.extend(self.changed.found(Class::DuplicateId, |n| {
            format!(
                "{n} more with the id of a record before and other bytes; all are kept, the newest \
                 is shown"
            )
        }));
        let mut open = Places::default();
        let mut left: Vec<_> = self.calls.into_values().collect();
        left.sort_by_key(|(span, _)| span.offset);
        for (span, line) in left {
            open.add(span, line);
        }
        out.extend(open.found(Class::OpenToolCall, |n| {
            format!(
                "{n} tool {} without a result",
                if n == 1 { "call" } else { "calls" }
            )
        }));
        out.extend(self.gaps.found(Class::OrdinalGap, |n| {
            format!("{n} without the ordinal that is due; codex will refuse to resume")
        }));
        out.extend(self.reused.found(Class::OrdinalReused, |n| {
            format!("{n} with an ordinal that was there before; codex will refuse to resume")
        }));
    }
}
