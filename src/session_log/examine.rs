//! From the bytes of a log to what is said of it.

use std::io;

use super::bytes::ReadAt;
use super::closers;
use super::fault::{Fault, FaultKind};
use super::frame::{self, Found};
use super::header::{self, BYTE_ORDER_MARK, Header, HeaderFault};
use super::lines::Lines;
use super::mend::decode;
use super::name::Form;
use super::verdict::{Candidate, Diagnosis, Edit, Finding, FirstBad, Repair, Verdict};
use super::walk::{Choice, Dead, Walk};

/// Choices that are looked at the other way round.
const MAX_CHOICES: usize = 64;

/// Reads a log once and says what is wrong with it. Where rows come twice, parts are read again.
/// Nothing is written, and no more than a few buffers are held, however long the log is.
///
/// # Errors
/// What the medium says, and a line that is too long to be read.
pub fn examine<S: ReadAt + ?Sized>(source: &S, form: Form) -> io::Result<Diagnosis> {
    Examination::new(source, form).run()
}

struct Examination<'s, S: ?Sized> {
    source: &'s S,
    form: Form,
    findings: Vec<Finding>,
    remarks: Vec<String>,
}

/// How the lines ended.
struct End {
    stop: Option<super::lines::Stop>,
    torn: Option<(u64, u64)>,
    zeros: Option<(u64, bool)>,
    unchecked: bool,
    first_frame: Option<u64>,
    /// What is left without a newline: where it begins and ends.
    fragment: Option<(u64, u64)>,
}

/// The header's line.
struct HeaderLine {
    bytes: Vec<u8>,
    text_to: u64,
}

impl<'s, S: ReadAt + ?Sized> Examination<'s, S> {
    fn new(source: &'s S, form: Form) -> Self {
        Examination {
            source,
            form,
            findings: Vec::new(),
            remarks: Vec::new(),
        }
    }

    fn find(&mut self, verdict: Verdict, what: impl Into<String>) {
        self.findings.push(Finding {
            verdict,
            what: what.into(),
        });
    }

    fn run(mut self) -> io::Result<Diagnosis> {
        let packed = self.form.packed;
        let mut lines = Lines::new(self.source, packed);
        let first = match lines.next()? {
            Some(line) if line.whole => HeaderLine {
                text_to: line.bytes.len() as u64 + 1,
                bytes: line.bytes.to_vec(),
            },
            _ => return self.headless(&mut lines),
        };
        let bom = first.bytes.strip_prefix(BYTE_ORDER_MARK);
        let plain = bom.unwrap_or(&first.bytes);
        match header::read(plain, self.form.generation) {
            Ok(header) => {
                if bom.is_some() {
                    self.find(
                        Verdict::HeaderInvalid,
                        "a byte order mark stands before the header",
                    );
                }
                let bom = bom.is_some();
                self.rows(lines, &first, header, bom)
            }
            Err(HeaderFault::Version { number, newer }) => {
                let named = number.map_or_else(String::new, |n| format!(" {n}"));
                let by = if newer {
                    "written by something newer"
                } else {
                    "below every version"
                };
                let newest = super::vocabulary::NEWEST;
                self.find(
                    Verdict::UnsupportedVersion,
                    format!(
                        "the log is of version{named} of the format, {by}; versions up to {newest} \
                         are known"
                    ),
                );
                let mut d = self.counted(&mut lines, 0)?;
                d.foreign_version = number;
                Ok(d)
            }
            Err(HeaderFault::Invalid(why)) => {
                let frames = !packed && first.bytes.starts_with(&frame::MAGIC);
                let no_header = why.contains("no session header");
                let what = if frames {
                    "the file holds zstd frames, and its name says that it does not".to_owned()
                } else {
                    why
                };
                self.find(Verdict::HeaderInvalid, what);
                if frames {
                    let mut inner = Lines::new(self.source, true);
                    return self.counted_frames(&mut inner);
                }
                self.counted(&mut lines, u64::from(no_header))
            }
        }
    }

    /// A log without a header that ends.
    fn headless(mut self, lines: &mut Lines<'_, S>) -> io::Result<Diagnosis> {
        while lines.next()?.is_some() {}
        if let Some(stop) = lines.stop.clone() {
            self.find(
                Verdict::FrameCorrupt,
                format!("at byte {}, frame {}: {}", stop.at, stop.frame, stop.why),
            );
            let mut text = Lines::new(self.source, false);
            text.next()?;
            return self.counted(&mut text, 0);
        }
        self.find(
            Verdict::EmptyLog,
            "there is no header that ends with a newline, so this is no session",
        );
        Ok(self.told(0, None, None))
    }

    fn counted_frames(self, lines: &mut Lines<'_, S>) -> io::Result<Diagnosis> {
        lines.next()?;
        self.counted(lines, 0)
    }

    /// Counts the rows of a log whose header is not to be believed.
    fn counted(self, lines: &mut Lines<'_, S>, more: u64) -> io::Result<Diagnosis> {
        let mut rows = more;
        while let Some(line) = lines.next()? {
            rows += u64::from(line.whole);
        }
        Ok(self.told(rows, None, None))
    }

    /// Walks the rows behind a sound header.
    fn rows(
        mut self,
        lines: Lines<'_, S>,
        first: &HeaderLine,
        header: Header,
        bom: bool,
    ) -> io::Result<Diagnosis> {
        let plain = first.bytes.strip_prefix(BYTE_ORDER_MARK);
        let plain = plain.unwrap_or(&first.bytes).to_vec();
        let (mut walk, end) = self.walk(lines, &plain, &header, None)?;
        self.look_at_end(&mut walk, &end, first);
        let settled = walk.dead.is_none() && !walk.unsettled();
        if walk.dead.is_none() && walk.unsettled() {
            walk.dead = Some(Dead::Fork);
            walk.fork = choices(&walk.choices);
            let what = "rows that closed a turn and rows that went on with it lie among each other, \
                        and some of them are missing";
            self.find(Verdict::ForkedLog, what);
        } else if walk.dead == Some(Dead::Fork) {
            let what = "the same event numbers are there with different content, and none of it \
                        follows from the rest";
            self.find(Verdict::ForkedLog, what);
        }
        let overlaps = walk.repeated + walk.synthetic > 0;
        if settled && overlaps {
            self.overlap(&mut walk, &end, &plain, &header)?;
        }
        self.row_findings(&walk, &end);
        if std::str::from_utf8(&plain).is_err() {
            self.find(
                Verdict::InvalidUtf8,
                "the header holds bytes that are no UTF-8; it can be read, not rewritten",
            );
        }
        let seeds = (header.seeded, walk.replay.state.inherited);
        let unseeded = header.version >= 2 && seeds.0 != seeds.1 && walk.dead.is_none();
        if unseeded {
            let what = if seeds.0 {
                "the header says that events were inherited, and no marker says which"
            } else {
                "a marker says that events were inherited, and the header that none were"
            };
            self.find(Verdict::HeaderInvalid, what);
        }
        let repair = self.repair(&mut walk, &end, first, bom);
        let mut told = self.assemble(walk, &end, header, repair);
        if unseeded {
            told.refuse();
        }
        Ok(told)
    }

    fn walk(
        &self,
        mut lines: Lines<'_, S>,
        plain: &[u8],
        header: &Header,
        flip: Option<(usize, Choice)>,
    ) -> io::Result<(Walk<'s, S>, End)> {
        let of = (header.version, header.seed_length);
        let mut walk = Walk::new(self.source, self.form.packed, of, plain, flip);
        let mut fragment = None;
        while let Some(line) = lines.next()? {
            if line.whole {
                walk.line(line.bytes, line.spot)?;
            } else {
                let from = line.spot.text;
                fragment = Some((from, from + line.bytes.len() as u64));
            }
            if flip.is_some() && walk.dead.is_some() {
                break;
            }
        }
        let end = End {
            stop: lines.stop.take(),
            torn: lines.torn,
            zeros: lines.zeros,
            unchecked: lines.unchecked,
            first_frame: lines.first_frame,
            fragment,
        };
        Ok((walk, end))
    }

    /// What the frames and the end of the file say.
    fn look_at_end(&mut self, walk: &mut Walk<'s, S>, end: &End, first: &HeaderLine) {
        if let Some(stop) = &end.stop {
            let (frames, rows) = frames_behind(self.source, stop.at).unwrap_or_default();
            if frames > 0 {
                self.remarks.push(format!(
                    "{frames} whole frames with {rows} rows lie behind the damaged one; they can be \
                     read, and nothing says that nothing is missing before them"
                ));
            }
            self.find(
                Verdict::FrameCorrupt,
                format!(
                    "at byte {}, frame {}: {}; rows before it can be read",
                    stop.at, stop.frame, stop.why
                ),
            );
        }
        let alone = end.first_frame == Some(first.text_to);
        if self.form.packed && end.stop.is_none() && !alone {
            self.find(
                Verdict::FrameLayoutInvalid,
                "the first frame holds more than the header, or less",
            );
        }
        if let Some((at, false)) = end.zeros {
            self.find(
                Verdict::NulPadding,
                format!("zero bytes lie between two frames, from byte {at} on"),
            );
        }
        if walk.dead == Some(Dead::Hole) || walk.waiting.is_some_and(|w| w.turn_end_behind) {
            walk.dead = Some(Dead::Hole);
            let zeros = walk.waiting.is_some_and(|w| w.zeros);
            if zeros {
                self.find(
                    Verdict::NulPadding,
                    "zero bytes stand where events were, and these are nowhere else",
                );
            }
            if !zeros || walk.first_bad.as_ref().is_some_and(|f| f.got.is_some()) {
                let what = match &walk.first_bad {
                    Some(FirstBad {
                        expected: Some(e),
                        got: Some(g),
                        ..
                    }) if g > e => format!(
                        "event {e} is due and event {g} comes: what is between them is gone, and \
                         nothing in the file can bring it back"
                    ),
                    _ => "an event can't be read and is nowhere else in the file".to_owned(),
                };
                self.find(Verdict::MissingMiddle, what);
            }
        }
    }

    /// Whether exactly one way of putting the log together replays.
    fn overlap(
        &mut self,
        walk: &mut Walk<'s, S>,
        end: &End,
        plain: &[u8],
        header: &Header,
    ) -> io::Result<()> {
        if end.stop.is_some() {
            return Ok(());
        }
        if walk.replay.fault().is_some() {
            walk.dead = Some(Dead::Fork);
            walk.fork = choices(&walk.choices);
            self.find(
                Verdict::ForkedLog,
                "rows come twice, and no choice between them gives a log that can be replayed",
            );
            return Ok(());
        }
        if walk.choices.len() > MAX_CHOICES {
            walk.dead = Some(Dead::Fork);
            let what = format!("there are more than {MAX_CHOICES} places with two versions");
            self.find(Verdict::ForkedLog, what);
            return Ok(());
        }
        for (n, choice) in walk.choices.clone().into_iter().enumerate() {
            let mut lines = Lines::new(self.source, self.form.packed);
            lines.next()?;
            let (other, _) = self.walk(lines, plain, header, Some((n, choice)))?;
            let lost = other.waiting.is_some_and(|w| w.turn_end_behind);
            let sound = other.dead.is_none() && !lost && other.replay.fault().is_none();
            if sound {
                walk.dead = Some(Dead::Fork);
                walk.fork = choices(&[choice]);
                self.find(
                    Verdict::ForkedLog,
                    format!(
                        "of events {} to {} there are two versions, and the log can be replayed \
                         with either",
                        choice.events.0, choice.events.1
                    ),
                );
                return Ok(());
            }
        }
        Ok(())
    }

    fn row_findings(&mut self, walk: &Walk<'s, S>, end: &End) {
        if walk.headers.1 > 0 {
            self.find(
                Verdict::HeaderInvalid,
                "a second header says something else: perhaps two logs ran together",
            );
        } else if walk.headers.0 > 0 {
            self.find(
                Verdict::HeaderInvalid,
                "the header is there more than once, each time the same",
            );
        }
        if walk.synthetic > 0 && walk.dead.is_none() {
            self.find(
                Verdict::SyntheticCloserOverlap,
                format!(
                    "{} rows that only closed a turn, or marked a resume, have the numbers of rows \
                     that went on with it",
                    walk.synthetic
                ),
            );
        }
        if walk.repeated > 0 && walk.dead.is_none() {
            self.find(
                Verdict::ReappendedDuplicates,
                format!(
                    "{} events are there again, equal but for the time",
                    walk.repeated
                ),
            );
        }
        // Behind a hole or a fork, what replays badly says nothing of its own.
        let judged = walk.dead.is_none();
        if let Some(fault) = walk.replay.fault().filter(|_| judged) {
            let verdict = match fault.kind {
                FaultKind::ToolIdentity => Verdict::ToolIdentityMismatch,
                FaultKind::Lifecycle => Verdict::LifecycleInvalid,
                FaultKind::Message | FaultKind::UnknownEvent => Verdict::MessageInvalid,
            };
            self.find(verdict, fault.what.clone());
        }
        if let Some(unknown) = walk.replay.unknown() {
            self.find(Verdict::UnknownRequiredEvent, unknown.what.clone());
        }
        if walk.zeros > 0 && walk.dead != Some(Dead::Hole) {
            self.find(
                Verdict::NulPadding,
                "zero bytes stand between rows, and every event is there",
            );
        }
        if walk.welded > 0 && walk.dead != Some(Dead::Hole) {
            self.find(
                Verdict::TornFragmentThenAppend,
                "a row was cut off and written again whole behind it",
            );
        }
        if let Some(row) = walk.not_utf8 {
            self.find(
                Verdict::InvalidUtf8,
                format!("row {row} holds bytes that are no UTF-8; it can be read, not rewritten"),
            );
        }
        if walk.replay.passed_over() > 0 {
            self.remarks.push(format!(
                "{} events of unknown types say that they may be passed over",
                walk.replay.passed_over()
            ));
        }
        if walk.carriage_returns > 0 {
            self.remarks.push(format!(
                "{} lines end with a carriage return, which is white space",
                walk.carriage_returns
            ));
        }
        if end.unchecked {
            self.remarks
                .push("some frames have no checksum, which readers do not need".to_owned());
        }
        if walk.dead == Some(Dead::Hole) {
            return;
        }
        if end.torn.is_some() {
            self.find(
                Verdict::TornTailRecoverable,
                "the last frame is cut off; its whole rows can be kept",
            );
        } else if end.fragment.is_some() && end.stop.is_none() {
            self.find(
                Verdict::TornTailRecoverable,
                "the last line has no newline: it was cut off, or the one who writes it is not done",
            );
        } else if matches!(end.zeros, Some((_, true))) {
            self.find(
                Verdict::TornTailRecoverable,
                "zero bytes stand at the end of the file",
            );
        }
        if walk.waiting.is_some() {
            self.find(
                Verdict::TornTailRecoverable,
                "the last rows can't be read, and no whole turn ends behind them",
            );
        }
        if judged && walk.replay.state.turn.is_some() {
            if walk.replay.state.is_compacting() {
                self.remarks.push(
                    "a compaction is open, so the turn can't be closed by a repair".to_owned(),
                );
            }
            self.find(
                Verdict::InterruptedTurnRecoverable,
                "a turn is open at the end: it was interrupted, or is going on",
            );
        }
    }

    /// What would be done on a copy, whether or not it may be.
    fn repair(&self, walk: &mut Walk<'s, S>, end: &End, first: &HeaderLine, bom: bool) -> Repair {
        let mut edits = std::mem::take(&mut walk.edits);
        if bom {
            edits.push(Edit {
                from: 0,
                to: BYTE_ORDER_MARK.len() as u64,
                with: Vec::new(),
            });
        }
        if let Some((from, to)) = end.fragment {
            edits.push(Edit {
                from,
                to,
                with: Vec::new(),
            });
        }
        edits.sort_by_key(|e| e.from);
        edits.dedup_by(|later, before| {
            let join = before.to == later.from && before.with.is_empty() && later.with.is_empty();
            if join {
                before.to = later.to;
            }
            join
        });
        let mut dropped = std::mem::take(&mut walk.dropped);
        dropped.sort_unstable();
        dropped.dedup_by(|later, before| {
            let join = before.1 + 1 == later.0;
            if join {
                before.1 = later.1;
            }
            join
        });
        let torn = self.has(Verdict::TornTailRecoverable);
        let wanted = torn || self.verdict() == Verdict::InterruptedTurnRecoverable;
        // No turn ends inside of a compaction, so nothing that follows from what is open closes it.
        let closers = if wanted && !walk.replay.state.is_compacting() {
            closers::closers(&walk.replay.state)
        } else {
            Vec::new()
        };
        let rows_dropped = dropped.iter().map(|(a, b)| b - a + 1).sum();
        let cut = match (end.torn, end.zeros) {
            (Some(torn), _) => Some(torn),
            (None, Some((at, true))) => Some((at, u64::MAX)),
            _ => None,
        };
        Repair {
            edits,
            cut,
            gaps: matches!(end.zeros, Some((_, false))),
            reframe: (self.form.packed && end.first_frame != Some(first.text_to))
                .then_some(first.text_to),
            events: walk.count() + closers.len() as u64,
            closers,
            rows_dropped,
            rows_kept: walk.rows.saturating_sub(rows_dropped + walk.rewritten),
            rows_rewritten: walk.rewritten,
            dropped,
        }
    }

    fn has(&self, verdict: Verdict) -> bool {
        self.findings.iter().any(|f| f.verdict == verdict)
    }

    fn verdict(&self) -> Verdict {
        let all = self.findings.iter().map(|f| f.verdict);
        all.min().unwrap_or(Verdict::Clean)
    }

    fn assemble(
        mut self,
        walk: Walk<'s, S>,
        end: &End,
        header: Header,
        repair: Repair,
    ) -> Diagnosis {
        let verdict = self.verdict();
        self.findings.sort_by_key(|f| f.verdict);
        let foreign_header = walk.headers.1 > 0;
        let lost = matches!(verdict, Verdict::NulPadding) && walk.dead == Some(Dead::Hole);
        let refused = self.findings.iter().any(|f| f.verdict.always_refused());
        let must_refuse = refused || foreign_header || lost || walk.dead.is_some();
        let optional = matches!(
            verdict,
            Verdict::HeaderInvalid
                | Verdict::FrameLayoutInvalid
                | Verdict::NulPadding
                | Verdict::TornFragmentThenAppend
                | Verdict::InterruptedTurnRecoverable
        ) || repair.rows_rewritten > 0;
        let fault = walk
            .replay
            .fault()
            .filter(|_| walk.dead.is_none())
            .or(walk.replay.unknown())
            .cloned();
        let by_rule = matches!(
            verdict,
            Verdict::ToolIdentityMismatch
                | Verdict::LifecycleInvalid
                | Verdict::MessageInvalid
                | Verdict::UnknownRequiredEvent
        );
        let frames_lost = matches!(end.zeros, Some((_, false))) || end.stop.is_some();
        let first_bad = match (&fault, by_rule) {
            (Some(fault), true) => Some(of_fault(fault)),
            _ if frames_lost => None,
            _ => walk.first_bad.clone(),
        };
        // A number is given where rows could be counted up to the first failure.
        let header_alone = verdict == Verdict::HeaderInvalid && walk.first_bad.is_none();
        let uncounted = by_rule || frames_lost || header_alone;
        let valid_prefix_events = (!uncounted).then(|| {
            let bad = walk.first_bad.as_ref().and_then(|f| f.expected);
            bad.unwrap_or_else(|| walk.count())
        });
        let last_turn_end = match walk.first_bad {
            Some(_) => walk.last_turn_end,
            None => walk.replay.state.last_turn_end,
        };
        let nothing = verdict == Verdict::InterruptedTurnRecoverable && repair.closers.is_empty();
        let needed = verdict != Verdict::Clean && !must_refuse && !nothing;
        let mut told = self.told(walk.rows, valid_prefix_events, first_bad);
        told.fault = fault;
        told.header = Some(header);
        told.candidates = walk.fork;
        told.last_turn_end = last_turn_end;
        told.committed = walk.committed;
        told.must_refuse = must_refuse;
        told.repair_optional = optional && needed;
        told.repair = needed.then_some(repair);
        told
    }

    /// A diagnosis without a repair.
    fn told(
        mut self,
        rows_total: u64,
        valid_prefix_events: Option<u64>,
        first_bad: Option<FirstBad>,
    ) -> Diagnosis {
        self.findings.sort_by_key(|f| f.verdict);
        let verdict = self.verdict();
        let reason = self
            .findings
            .first()
            .map_or_else(|| "nothing is wrong".to_owned(), |f| f.what.clone());
        Diagnosis {
            verdict,
            reason,
            first_bad,
            rows_total,
            valid_prefix_events,
            findings: self.findings,
            remarks: self.remarks,
            header: None,
            foreign_version: None,
            fault: None,
            candidates: Vec::new(),
            last_turn_end: None,
            committed: false,
            repair: None,
            must_refuse: verdict != Verdict::Clean,
            repair_optional: false,
        }
    }
}

/// Whole frames behind a damaged one whose length is known, and the rows in them.
fn frames_behind<S: ReadAt + ?Sized>(source: &S, at: u64) -> io::Result<(u64, u64)> {
    let (mut frames, mut rows) = (0, 0);
    let Found::Frame { mut to, .. } = frame::look(source, at)? else {
        return Ok((0, 0));
    };
    while let Found::Frame { to: end, .. } = frame::look(source, to)? {
        let mut own = 0;
        let decoded = decode(source, to, end, false, &mut |piece| {
            own += memchr::memchr_iter(b'\n', piece).count() as u64;
            Ok(())
        });
        if decoded.is_err() {
            break;
        }
        frames += 1;
        rows += own;
        to = end;
    }
    Ok((frames, rows))
}

fn of_fault(fault: &Fault) -> FirstBad {
    FirstBad {
        row: fault.row,
        spot: fault.spot,
        expected: None,
        got: None,
        what: fault.what.clone(),
    }
}

fn choices(choices: &[Choice]) -> Vec<Candidate> {
    let candidate = |row: u64, events: (u64, u64), what: &str| Candidate {
        rows: (row, row),
        events,
        what: what.to_owned(),
    };
    choices
        .iter()
        .take(16)
        .flat_map(|c| {
            [
                candidate(
                    c.stored_row,
                    c.events,
                    "the version that comes first in the file",
                ),
                candidate(c.row, c.events, "the version that comes later"),
            ]
        })
        .collect()
}

/// A diagnosis that holds one finding, of rows that were not looked at.
pub(super) fn nothing_but(finding: Finding, rows_total: u64) -> Diagnosis {
    let examination = Examination {
        source: &[][..],
        form: Form::NAMELESS,
        findings: vec![finding],
        remarks: Vec::new(),
    };
    examination.told(rows_total, None, None)
}
