//! From the parser's pieces to findings.

use std::collections::BTreeMap;

use super::class::{Anomaly, Class};
use super::graph::{Graph, Places};
use crate::ingest::parse::{Container, MAX_LINE};
use crate::model::finding::Severity;
use crate::model::provider::Provider;
use crate::model::record::{Disposition, ParsedRecord, Piece, Recovery, SkipReason, Span};

/// Findings that are kept; all are counted.
const MAX_FOUND: usize = 1000;
/// Unknown types that are told apart.
const MAX_TYPES: usize = 32;

/// Gives the bytes of a span, where they can be had.
pub(super) type Bytes<'a> = dyn Fn(Span) -> Option<Vec<u8>> + 'a;

/// What is known of the file before it is read.
pub(super) struct Known<'a> {
    pub(super) provider: Provider,
    pub(super) container: Container,
    /// Whether it may be being written.
    pub(super) live: bool,
    pub(super) bytes: &'a Bytes<'a>,
    /// The n-th place where the text is nested too deep, as far as it was read.
    pub(super) deep: &'a dyn Fn(usize) -> Option<u64>,
}

/// Records of a file.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) records: u64,
    pub(super) messages: u64,
    pub(super) unknown: u64,
    pub(super) lost_bytes: u64,
    pub(super) session: Option<String>,
    pub(super) first_ms: Option<i64>,
    pub(super) last_ms: Option<i64>,
}

/// What is known of all findings, those that are not kept too.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// How many there are.
    pub total: u64,
    /// The worst of all.
    pub worst: Option<Severity>,
    /// Whether any of them costs a record.
    pub loses: bool,
    /// Whether one is a last line that may be being written.
    pub pending: bool,
}

/// Gathers findings over a file's pieces, in order.
pub(super) struct Observer<'a> {
    known: Known<'a>,
    found: Vec<Anomaly>,
    told: Told,
    counts: Counts,
    graph: Graph,
    unknown: BTreeMap<String, Places>,
    nul: Option<(Span, u64)>,
    fragment: Option<(Span, u64)>,
    glued: Option<Anomaly>,
    /// The line of the last record.
    last_line: u64,
    /// What comes first is no record.
    broken_head: Option<(Span, u64)>,
    begun: bool,
    has_header: bool,
    deep: usize,
}

/// The types of the record that a log of the harness begins with; empty where there is none.
const fn headers(provider: Provider) -> &'static [&'static str] {
    match provider {
        Provider::Codex => &["session_meta"],
        Provider::Copilot => &["session.start"],
        Provider::Droid => &["session_start"],
        Provider::OpenClaw | Provider::Pi => &["session"],
        _ => &[],
    }
}

impl<'a> Observer<'a> {
    pub(super) fn new(known: Known<'a>) -> Self {
        Observer {
            known,
            found: Vec::new(),
            told: Told::default(),
            counts: Counts::default(),
            graph: Graph::default(),
            unknown: BTreeMap::new(),
            nul: None,
            fragment: None,
            glued: None,
            last_line: 0,
            broken_head: None,
            begun: false,
            has_header: false,
            deep: 0,
        }
    }

    pub(super) fn push(&mut self, found: Anomaly) {
        let told = &mut self.told;
        told.total += 1;
        told.worst = told.worst.max(Some(found.severity));
        told.loses |= found.lost > 0;
        told.pending |= found.class == Class::TailPending;
        if self.found.len() < MAX_FOUND {
            self.found.push(found);
        }
    }

    pub(super) fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Separator(_) => {}
            Piece::Record(r) => self.record(r),
            Piece::Skipped { span, line, reason } => {
                if *reason != SkipReason::NulBlock {
                    self.nul(false);
                    if !self.begun {
                        self.broken_head = Some((*span, *line));
                    }
                    self.begun = true;
                    self.counts.lost_bytes += span.len;
                }
                self.skipped(*span, *line, *reason);
            }
        }
    }

    fn skipped(&mut self, span: Span, line: u64, reason: SkipReason) {
        match (reason, &mut self.fragment) {
            (SkipReason::Fragment, Some((before, at)))
                if *at == line && before.end() == span.offset =>
            {
                before.len += span.len;
                return;
            }
            _ => self.broken(),
        }
        if self.glued.as_ref().is_some_and(|g| g.line != Some(line)) {
            self.unglued();
        }
        match reason {
            SkipReason::NulBlock => match &mut self.nul {
                Some((before, _)) => before.len = span.end() - before.offset,
                None => self.nul = Some((span, line)),
            },
            SkipReason::Fragment => self.fragment = Some((span, line)),
            SkipReason::TornTail if span.len > MAX_LINE as u64 => self.oversized(span, line),
            SkipReason::TornTail => {
                self.unglued();
                let class = if self.known.live {
                    Class::TailPending
                } else {
                    Class::TailTruncated
                };
                let what = match class {
                    Class::TailPending => "the last line is unfinished; it may be being written",
                    _ => "the last line is cut off; it is kept as bytes",
                };
                self.lost(Anomaly::at(
                    class,
                    span.offset,
                    line,
                    span.len,
                    what.to_owned(),
                ));
            }
            SkipReason::Oversized => self.oversized(span, line),
        }
    }

    fn oversized(&mut self, span: Span, line: u64) {
        let what = format!(
            "a record of more than {} MiB; it is kept as bytes and not parsed",
            MAX_LINE >> 20
        );
        self.lost(Anomaly::at(
            Class::OversizedRecord,
            span.offset,
            line,
            span.len,
            what,
        ));
    }

    fn lost(&mut self, mut found: Anomaly) {
        found.lost = 1;
        self.push(found);
    }

    /// The NUL bytes before this place, which has something behind it or is the end.
    fn nul(&mut self, is_end: bool) {
        let Some((Span { offset, len }, line)) = self.nul.take() else {
            return;
        };
        let (class, what) = if is_end {
            (Class::NulTail, format!("the file ends in {len} NUL bytes"))
        } else {
            let what = format!("{len} NUL bytes in the middle; they are passed over");
            (Class::NulHole, what)
        };
        self.push(Anomaly::at(class, offset, line, len, what));
    }

    /// Where what may be looked at again begins, if anything may.
    pub(super) fn pending(&self) -> Option<u64> {
        self.fragment.map(|(span, _)| span.offset)
    }

    /// What was no record stays one.
    fn broken(&mut self) {
        let Some((span, line)) = self.fragment.take() else {
            return;
        };
        if let Some(glued) = self.glued.as_mut().filter(|g| g.line == Some(line)) {
            glued.lost += 1;
            glued.len = span.end().saturating_sub(glued.offset.unwrap_or(0));
            return;
        }
        let is_log = self.known.container == Container::Log;
        if is_log && self.last_line == line {
            let what = "a record with something behind it on its line that is none; the harness \
                        reads neither";
            let mut glued = Anomaly::at(Class::Glued, span.offset, line, span.len, what.to_owned());
            glued.kept = 1;
            self.lost(glued);
            return;
        }
        let bytes = (self.known.bytes)(span);
        let (class, what) = match bytes {
            _ if !is_log => (
                Class::DocumentDamaged,
                "a part that is no record; it is kept as bytes",
            ),
            Some(bytes) if std::str::from_utf8(&bytes).is_err() => (
                Class::InvalidUtf8,
                "bytes that are no UTF-8, in a line that is no record; it is kept as bytes",
            ),
            _ => (
                Class::Fragment,
                "a line that is no record; it is kept as bytes",
            ),
        };
        self.lost(Anomaly::at(
            class,
            span.offset,
            line,
            span.len,
            what.to_owned(),
        ));
    }

    fn unglued(&mut self) {
        if let Some(mut glued) = self.glued.take() {
            glued.what = format!(
                "{} on one line{}; the harness reads none of them",
                match glued.kept {
                    1 => "a record and a broken one".to_owned(),
                    n => format!("{n} records"),
                },
                match (glued.kept, glued.lost) {
                    (1, _) | (_, 0) => String::new(),
                    (_, n) => format!(" and {n} broken"),
                }
            );
            self.push(glued);
        }
    }

    fn record(&mut self, r: &ParsedRecord) {
        self.nul(false);
        let span = r.span;
        let same_line = self.fragment.is_some_and(|(_, line)| line == r.line);
        if r.recovery == Recovery::Glued || same_line {
            self.glue(r);
        } else {
            self.broken();
            self.unglued();
        }
        match r.recovery {
            Recovery::InvalidUtf8 => self.kept(
                Class::InvalidUtf8,
                r,
                "bytes that are no UTF-8, read as U+FFFD",
            ),
            Recovery::LoneSurrogate => self.kept(
                Class::LoneSurrogate,
                r,
                "half of a surrogate pair, read as U+FFFD",
            ),
            Recovery::Multiline => {
                let torn = (self.known.bytes)(span).is_none_or(|b| b.contains(&b'\n'));
                if torn {
                    self.kept(
                        Class::Multiline,
                        r,
                        "a record over several lines, joined to one",
                    );
                } else {
                    self.kept(
                        Class::ControlCharacter,
                        r,
                        "a raw control character in a string, read as it is",
                    );
                }
            }
            _ => {}
        }
        self.depth(r);
        self.last_line = r.line;
        self.begun = true;
        self.has_header |= headers(self.known.provider).contains(&r.record_type.as_str());
        self.counts.records += 1;
        if self.counts.session.is_none() && !r.session.is_empty() {
            self.counts.session = Some(r.session.clone());
        }
        if let Some(ms) = r.time_ms {
            let c = &mut self.counts;
            c.first_ms = Some(c.first_ms.map_or(ms, |f| f.min(ms)));
            c.last_ms = Some(c.last_ms.map_or(ms, |l| l.max(ms)));
        }
        match &r.disposition {
            Disposition::Messages(m) => self.counts.messages += m.len() as u64,
            Disposition::Unknown => {
                self.counts.unknown += 1;
                if self.unknown.len() < MAX_TYPES || self.unknown.contains_key(&r.record_type) {
                    self.unknown
                        .entry(r.record_type.clone())
                        .or_default()
                        .add(span, r.line);
                }
            }
            _ => {}
        }
        self.graph.record(self.known.provider, r);
        if self.known.provider == Provider::Codex && self.known.container == Container::Log {
            self.ordinal(r);
        }
    }

    /// A record on a line that has another before it.
    fn glue(&mut self, r: &ParsedRecord) {
        let fragment = self.fragment.take_if(|(_, line)| *line == r.line);
        match &mut self.glued {
            Some(glued) if glued.line == Some(r.line) => {
                glued.kept += 1;
                glued.lost += u64::from(fragment.is_some());
                glued.len = r.span.end().saturating_sub(glued.offset.unwrap_or(0));
            }
            _ => {
                self.unglued();
                let begins = fragment.map_or(r.span.offset, |(span, _)| span.offset);
                let len = r.span.end() - begins;
                let mut glued = Anomaly::at(Class::Glued, begins, r.line, len, String::new());
                // Where no broken one comes first, a whole record does.
                glued.kept = 1 + u64::from(fragment.is_none());
                glued.lost = u64::from(fragment.is_some());
                self.glued = Some(glued);
            }
        }
    }

    fn kept(&mut self, class: Class, r: &ParsedRecord, what: &str) {
        let mut found = Anomaly::at(class, r.span.offset, r.line, r.span.len, what.to_owned());
        found.kept = 1;
        self.push(found);
    }

    fn depth(&mut self, r: &ParsedRecord) {
        let mut deep = false;
        while let Some(at) = (self.known.deep)(self.deep).filter(|at| *at < r.span.end()) {
            deep |= at >= r.span.offset;
            self.deep += 1;
        }
        if deep {
            self.kept(
                Class::TooDeep,
                r,
                "nested deeper than 128 levels; it is kept as bytes",
            );
        }
    }

    fn ordinal(&mut self, r: &ParsedRecord) {
        #[derive(serde::Deserialize)]
        struct Numbered {
            ordinal: Option<u64>,
        }
        let read = (self.known.bytes)(r.span)
            .and_then(|bytes| serde_json::from_slice::<Numbered>(&bytes).ok());
        match read {
            // What is not the harness's own has no number, and none is due.
            Some(Numbered { ordinal: None }) if r.disposition == Disposition::Unknown => {}
            Some(numbered) => self.graph.ordinal(numbered.ordinal, r),
            None => self.graph.unnumbered(),
        }
    }

    /// What was found in a file of `len` bytes.
    pub(super) fn end(mut self) -> (Vec<Anomaly>, Told, Counts) {
        self.broken();
        self.unglued();
        self.nul(true);
        let is_log = self.known.container == Container::Log;
        if let Some((span, line)) = self.broken_head
            && is_log
            && !headers(self.known.provider).is_empty()
            && !self.has_header
            && self.counts.records > 0
        {
            let what = "the record that the log begins with can't be read; the id is taken from \
                        the name, or from later records";
            let found = Anomaly::at(
                Class::HeaderMissing,
                span.offset,
                line,
                span.len,
                what.to_owned(),
            );
            self.push(found);
        }
        for (name, places) in std::mem::take(&mut self.unknown) {
            let found = places.found(Class::UnknownRecord, |n| {
                format!(
                    "{n} {} of the type {name:?}, which this version does not know; kept as {}",
                    if n == 1 { "record" } else { "records" },
                    if n == 1 { "it is" } else { "they are" },
                )
            });
            if let Some(found) = found {
                self.push(found);
            }
        }
        let mut of_graph = Vec::new();
        std::mem::take(&mut self.graph).end(&mut of_graph);
        for found in of_graph {
            self.push(found);
        }
        self.found
            .sort_by_key(|f| (f.offset.is_none(), f.offset, f.class));
        (self.found, self.told, self.counts)
    }
}
