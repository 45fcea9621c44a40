//! The walk over the rows of a log: which of them make up the log, which are there twice, and which
//! of two versions of an event was made up when a turn was closed.
//!
//! Every row is held against the number that is due. A row that comes again is compared with the
//! one that is kept, which is read a second time; nothing of the log is held. A choice is only made
//! between a row that follows from what was open (see `closers`) and one that does not.

use std::io;

use super::bytes::ReadAt;
use super::closers::{self, Closer};
use super::event::{self, Event, Packed, Row};
use super::json;
use super::kept::{Again, Kept, MAX_SPANS, without_zeros};
use super::lines::Spot;
use super::replay::{At, Mark, Replay};
use super::verdict::{Candidate, Edit, FirstBad};

/// Why a log can't be put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dead {
    /// Events are gone.
    Hole,
    /// Two versions of the same events.
    Fork,
}

/// A row in the file.
#[derive(Debug, Clone, Copy)]
struct Place {
    row: u64,
    /// Where what is kept of it begins.
    spot: Spot,
    /// Behind its newline.
    text_to: u64,
}

/// Rows at the end of what is kept that are exactly what would close what was open.
#[derive(Debug)]
struct Run {
    /// The divergence that it belongs to, if one is known.
    of: Option<usize>,
    expected: Vec<Closer>,
    rows: Vec<RunRow>,
    flipped: bool,
}

#[derive(Debug, Clone)]
struct RunRow {
    seq: u64,
    mark: Mark,
    place: Place,
    marker: bool,
}

/// A place at which one process closed the turn and another went on with it.
#[derive(Debug)]
struct Divergence {
    from: u64,
    expected: Vec<Closer>,
    seen: Vec<bool>,
    marker: bool,
}

/// Where one of two versions was chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub(super) stored_row: u64,
    pub(super) row: u64,
    pub(super) events: (u64, u64),
}

/// A row that could not be read and whose event may come yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) zeros: bool,
    pub(super) turn_end_behind: bool,
}

/// What is known of the rows so far.
#[derive(Debug)]
pub(super) struct Walk<'s, S: ?Sized> {
    version: u64,
    header: Vec<u8>,
    pub(super) replay: Replay,
    kept: Kept,
    again: Again<'s, S>,
    run: Option<Run>,
    open: Vec<Divergence>,
    flip: Option<(usize, Choice)>,
    before: Option<(Replay, Place)>,
    pub(super) rows: u64,
    last_row: u64,
    pub(super) choices: Vec<Choice>,
    pub(super) waiting: Option<Waiting>,
    pub(super) dead: Option<Dead>,
    pub(super) fork: Vec<Candidate>,
    pub(super) first_bad: Option<FirstBad>,
    pub(super) edits: Vec<Edit>,
    pub(super) dropped: Vec<(u64, u64)>,
    pub(super) rewritten: u64,
    /// Events that were there already.
    pub(super) repeated: u64,
    /// Rows that closed a turn that went on, and markers.
    pub(super) synthetic: u64,
    /// Rows behind a fragment, rows that were written again whole.
    pub(super) welded: u64,
    /// Rows with zero bytes around them.
    pub(super) zeros: u64,
    /// Headers behind the first: equal, and others.
    pub(super) headers: (u64, u64),
    pub(super) not_utf8: Option<u64>,
    pub(super) carriage_returns: u64,
    /// The last `turn/end` before the first failure, and whether one comes behind it.
    pub(super) last_turn_end: Option<u64>,
    pub(super) committed: bool,
}

fn interrupted(event: &Event<'_>) -> bool {
    let holds = |needle: &[u8]| {
        event
            .data
            .is_some_and(|d| memchr::memmem::find(d, needle).is_some())
    };
    match &*event.kind {
        b"step/end" => true,
        b"turn/end" => holds(b"interrupted"),
        b"tool/result" => holds(b"interrupted-tool-result-"),
        _ => event.is_marker(),
    }
}

impl<'s, S: ReadAt + ?Sized> Walk<'s, S> {
    /// Begins behind a header. `flip` makes one choice the other way round.
    pub(super) fn new(
        source: &'s S,
        packed: bool,
        (version, seed_length): (u64, u64),
        header: &[u8],
        flip: Option<(usize, Choice)>,
    ) -> Self {
        let mut form = Vec::new();
        json::canonical(header.trim_ascii(), &mut form);
        Walk {
            version,
            header: form,
            replay: Replay::new(version, seed_length),
            kept: Kept::default(),
            again: Again::new(source, packed, version),
            run: None,
            open: Vec::new(),
            flip,
            before: None,
            rows: 0,
            last_row: 0,
            choices: Vec::new(),
            waiting: None,
            dead: None,
            fork: Vec::new(),
            first_bad: None,
            edits: Vec::new(),
            dropped: Vec::new(),
            rewritten: 0,
            repeated: 0,
            synthetic: 0,
            welded: 0,
            zeros: 0,
            headers: (0, 0),
            not_utf8: None,
            carriage_returns: 0,
            last_turn_end: None,
            committed: false,
        }
    }

    /// The number that is due.
    pub(super) fn count(&self) -> u64 {
        self.replay.state.count
    }

    /// Takes the next whole line.
    pub(super) fn line(&mut self, bytes: &[u8], spot: Spot) -> io::Result<()> {
        self.rows += 1;
        if self.not_utf8.is_none() && std::str::from_utf8(bytes).is_err() {
            self.not_utf8 = Some(self.rows);
        }
        self.carriage_returns += u64::from(bytes.ends_with(b"\r"));
        let place = Place {
            row: self.rows,
            spot,
            text_to: spot.text + bytes.len() as u64 + 1,
        };
        match event::decode(bytes, self.version) {
            Row::Event(event) => self.event(place, &event),
            Row::Packed(packed) => self.packed(place, &packed),
            Row::Header => {
                let mut form = Vec::new();
                json::canonical(bytes.trim_ascii(), &mut form);
                let same = form == self.header;
                self.anomaly(place, None, "a second header");
                if same {
                    self.headers.0 += 1;
                } else {
                    self.headers.1 += 1;
                }
                self.drop_row(place);
                Ok(())
            }
            Row::Bad(why) => self.bad(place, bytes, why),
        }
    }

    fn anomaly(&mut self, place: Place, got: Option<u64>, what: &str) {
        if self.first_bad.is_some() {
            return;
        }
        self.last_turn_end = self.replay.state.last_turn_end;
        self.first_bad = Some(FirstBad {
            row: place.row,
            spot: place.spot,
            expected: Some(self.count()),
            got,
            what: what.to_owned(),
        });
    }

    /// Leaves a row out.
    fn drop_row(&mut self, place: Place) {
        self.edit(place.spot.text, place.text_to, Vec::new());
        match self.dropped.last_mut() {
            Some(last) if last.1 + 1 == place.row => last.1 = place.row,
            _ => self.dropped.push((place.row, place.row)),
        }
        if self.dropped.len() > MAX_SPANS || self.kept.len() > MAX_SPANS {
            self.dead.get_or_insert(Dead::Fork);
        }
    }

    fn edit(&mut self, from: u64, to: u64, with: Vec<u8>) {
        match self.edits.last_mut() {
            Some(last) if last.to == from && last.with.is_empty() && with.is_empty() => {
                last.to = to;
            }
            _ => self.edits.push(Edit { from, to, with }),
        }
    }

    /// A row that is nothing: perhaps with zero bytes around an event, perhaps behind a fragment.
    fn bad(&mut self, mut place: Place, bytes: &[u8], why: &'static str) -> io::Result<()> {
        let zeros = memchr::memchr(0, bytes).is_some();
        if self.dead.is_some() {
            return Ok(());
        }
        let begin = place.spot.text;
        if zeros {
            self.anomaly(place, None, "zero bytes in a row");
            let (cut, rest) = without_zeros(bytes);
            let row = event::decode(rest, self.version);
            if self.fits(&row) {
                self.zeros += 1;
                place.spot.text = begin + cut as u64;
                if cut > 0 {
                    self.edit(begin, place.spot.text, Vec::new());
                }
                if cut + rest.len() < bytes.len() {
                    // What is kept of the row ends where the zero bytes begin.
                    let end = place.spot.text + rest.len() as u64;
                    self.edit(end, place.text_to - 1, Vec::new());
                }
                return self.row(place, &row);
            }
        } else if let Some((cut, row)) = self.behind_fragment(bytes) {
            self.anomaly(
                place,
                None,
                "a fragment of a row, and a whole row on the same line",
            );
            self.welded += 1;
            place.spot.text = begin + cut as u64;
            self.edit(begin, place.spot.text, Vec::new());
            return self.row(place, &row);
        }
        self.anomaly(place, None, why);
        self.drop_row(place);
        let waiting = self.waiting.get_or_insert(Waiting {
            zeros,
            turn_end_behind: false,
        });
        waiting.zeros |= zeros;
        Ok(())
    }

    /// Whether a row is the one that is due.
    fn fits(&self, row: &Row<'_>) -> bool {
        match row {
            Row::Event(e) => e.seq == self.count(),
            Row::Packed(p) => p.first == self.count(),
            _ => false,
        }
    }

    /// The whole row that is due, behind a fragment on the same line.
    fn behind_fragment<'b>(&self, bytes: &'b [u8]) -> Option<(usize, Row<'b>)> {
        memchr::memmem::find_iter(bytes, b"{\"")
            .filter(|at| *at > 0)
            .take(4096)
            .find_map(|at| {
                let rest = bytes.get(at..)?;
                // Most of what begins like an object is a part of one.
                memchr::memmem::find(rest.get(..200.min(rest.len()))?, b"\"type\"")?;
                let row = event::decode(rest, self.version);
                self.fits(&row).then_some((at, row))
            })
    }

    fn row(&mut self, place: Place, row: &Row<'_>) -> io::Result<()> {
        match row {
            Row::Event(event) => self.event(place, event),
            Row::Packed(packed) => self.packed(place, packed),
            _ => Ok(()),
        }
    }

    fn event(&mut self, place: Place, event: &Event<'_>) -> io::Result<()> {
        if *event.kind == *b"turn/end" {
            self.committed |= self.first_bad.is_some();
            if let Some(waiting) = &mut self.waiting {
                waiting.turn_end_behind = true;
            }
        }
        if self.dead.is_some() {
            return Ok(());
        }
        let count = self.count();
        if event.seq > count {
            return self.ahead(place, event.seq, Some(event));
        }
        if event.seq < count {
            self.anomaly(place, Some(event.seq), "a number that was there before");
            let stored = self.again.form(&self.kept, event.seq)?;
            if stored == Some(event.canonical().as_slice()) {
                self.repeated += 1;
                self.drop_row(place);
                return Ok(());
            }
            return self.conflict(place, event.seq, Incoming::Event(event));
        }
        self.append(place, event);
        Ok(())
    }

    fn packed(&mut self, place: Place, packed: &Packed<'_>) -> io::Result<()> {
        if self.dead.is_some() {
            return Ok(());
        }
        let count = self.count();
        if packed.first > count {
            return self.ahead(place, packed.first, None);
        }
        let mut from = packed.first;
        if packed.first < count {
            self.anomaly(place, Some(packed.first), "a number that was there before");
            let end = count.min(packed.first + packed.len());
            let forms = packed.canonical_members();
            for (seq, form) in (packed.first..end).zip(&forms) {
                if self.again.form(&self.kept, seq)? != Some(form.as_slice()) {
                    return self.conflict(place, seq, Incoming::Packed(packed));
                }
            }
            self.repeated += end - packed.first;
            if packed.first + packed.len() <= count {
                self.drop_row(place);
                return Ok(());
            }
            let with = packed.without_first(count - packed.first);
            self.edit(place.spot.text, place.text_to - 1, with);
            self.rewritten += 1;
            from = count;
        }
        self.append_packed(place, packed, from);
        Ok(())
    }

    fn ahead(&mut self, place: Place, seq: u64, event: Option<&Event<'_>>) -> io::Result<()> {
        if let Some(event) = event
            && self.belongs_to_closed(event)
        {
            self.synthetic += 1;
            self.drop_row(place);
            return Ok(());
        }
        self.anomaly(place, Some(seq), "a number ahead of the one that is due");
        self.dead = Some(Dead::Hole);
        Ok(())
    }

    /// Whether an event is one that closes a turn which is known to have gone on.
    fn belongs_to_closed(&mut self, event: &Event<'_>) -> bool {
        let version = self.version;
        for d in &mut self.open {
            let Some(n) = event
                .seq
                .checked_sub(d.from)
                .and_then(|n| usize::try_from(n).ok())
            else {
                continue;
            };
            match d.expected.get(n) {
                Some(closer) if closers::matches(event, closer, version) => {
                    if let Some(seen) = d.seen.get_mut(n) {
                        *seen = true;
                    }
                    return true;
                }
                None if n == d.expected.len() && n > 0 && !d.marker && event.is_marker() => {
                    d.marker = true;
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    fn settle(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            // The row came again whole.
            if waiting.zeros {
                self.zeros += 1;
            } else {
                self.welded += 1;
            }
        }
    }

    fn append_packed(&mut self, place: Place, packed: &Packed<'_>, from: u64) {
        self.settle();
        self.run = None;
        self.kept
            .push(from, packed.first + packed.len(), place.spot, place.text_to);
        let at = At {
            row: place.row,
            spot: place.spot,
        };
        self.replay.packed(packed, from, at);
        self.last_row = place.row;
    }

    fn append(&mut self, place: Place, event: &Event<'_>) {
        self.settle();
        if self.flip.is_some_and(|(_, c)| c.stored_row == place.row) {
            self.before = Some((self.replay.clone(), place));
        }
        let continued = self.continues(event);
        let mark = (continued || interrupted(event)).then(|| self.replay.mark());
        if !continued {
            self.run = None;
        }
        if let Some(mark) = mark {
            self.extend_run(place, event, mark);
        }
        self.kept
            .push(event.seq, event.seq + 1, place.spot, place.text_to);
        let at = At {
            row: place.row,
            spot: place.spot,
        };
        self.replay.event(event, at);
        self.last_row = place.row;
    }

    /// Whether an event goes on with the run.
    fn continues(&self, event: &Event<'_>) -> bool {
        let Some(run) = &self.run else {
            return false;
        };
        match run.expected.get(run.rows.len()) {
            Some(closer) => closers::matches(event, closer, self.version),
            None => {
                run.rows.len() == run.expected.len()
                    && !run.expected.is_empty()
                    && event.is_marker()
            }
        }
    }

    /// Adds an event to the run, or begins one with it.
    fn extend_run(&mut self, place: Place, event: &Event<'_>, mark: Mark) {
        let marker = event.is_marker();
        let row = RunRow {
            seq: event.seq,
            mark,
            place,
            marker,
        };
        if let Some(run) = &mut self.run {
            run.rows.push(row);
            return;
        }
        // The other process's next event of a divergence that is known.
        let known = self.open.iter().position(|d| {
            let n = event.seq.checked_sub(d.from);
            n.and_then(|n| d.expected.get(usize::try_from(n).ok()?))
                .is_some_and(|c| closers::matches(event, c, self.version))
        });
        let (of, expected) = match known.and_then(|d| Some((d, self.open.get(d)?))) {
            Some((n, d)) => {
                let passed = usize::try_from(event.seq - d.from).unwrap_or(usize::MAX);
                (
                    Some(n),
                    d.expected.get(passed..).unwrap_or_default().to_vec(),
                )
            }
            None if marker => (None, Vec::new()),
            None => {
                let expected = closers::closers(&row.mark.state);
                let begins = expected
                    .first()
                    .is_some_and(|c| closers::matches(event, c, self.version));
                if !begins {
                    return;
                }
                (None, expected)
            }
        };
        self.run = Some(Run {
            of,
            expected,
            rows: vec![row],
            flipped: false,
        });
    }

    /// An event that is there in another version.
    fn conflict(&mut self, place: Place, seq: u64, incoming: Incoming<'_, '_>) -> io::Result<()> {
        let count = self.count();
        let (first, len) = match incoming {
            Incoming::Event(e) => (e.seq, 1),
            Incoming::Packed(p) => (p.first, p.len()),
        };
        let stored_row = self.again.line.saturating_sub(1);
        let choice = Choice {
            stored_row,
            row: place.row,
            events: (seq, count.min(first + len) - 1),
        };
        let within = first + len <= count;
        let begins = self
            .run
            .as_ref()
            .and_then(|r| r.rows.first())
            .map(|r| r.seq);
        if begins.is_some_and(|b| b <= seq) && seq == first {
            let chosen = self.choices.len();
            let flip = self.flip.is_some_and(|(n, _)| n == chosen);
            if let Some(run) = self.run.as_mut().filter(|r| r.flipped || flip) {
                // The other way round: what was made up stays.
                if !run.flipped {
                    run.flipped = true;
                    self.choices.push(choice);
                }
                if within {
                    self.drop_row(place);
                } else {
                    self.dead = Some(Dead::Fork);
                }
                return Ok(());
            }
            self.choices.push(choice);
            self.give_way(seq);
            match incoming {
                Incoming::Event(e) => self.append(place, e),
                Incoming::Packed(p) => self.append_packed(place, p, p.first),
            }
            return Ok(());
        }
        if let Incoming::Event(event) = incoming {
            if self.belongs_to_closed(event) {
                self.synthetic += 1;
                self.drop_row(place);
                return Ok(());
            }
            if event.is_marker() {
                let flip = self.flip.is_some_and(|(n, _)| n == self.choices.len());
                self.choices.push(choice);
                if flip {
                    self.marker_instead(place, event, count);
                } else {
                    self.synthetic += 1;
                    self.drop_row(place);
                }
                return Ok(());
            }
        }
        self.fork = vec![
            Candidate {
                rows: (stored_row, stored_row),
                events: choice.events,
                what: "the version that comes first in the file".to_owned(),
            },
            Candidate {
                rows: (place.row, place.row),
                events: choice.events,
                what: "the version that comes later".to_owned(),
            },
        ];
        self.dead = Some(Dead::Fork);
        Ok(())
    }

    /// Takes back what was made up from event `seq` on.
    fn give_way(&mut self, seq: u64) {
        let Some(mut run) = self.run.take() else {
            return;
        };
        let n = run.rows.partition_point(|r| r.seq < seq);
        let gone = run.rows.split_off(n.min(run.rows.len()));
        let Some(begin) = gone.first() else {
            return;
        };
        self.kept.truncate(seq, begin.place.spot.text);
        self.again.reset();
        self.replay.back_to(&begin.mark);
        self.synthetic += gone.len() as u64;
        gone.iter().for_each(|r| self.drop_row(r.place));
        let closers = gone.iter().filter(|r| !r.marker).count();
        let marker = gone.iter().any(|r| r.marker);
        match run.of.and_then(|d| self.open.get_mut(d)) {
            Some(d) => {
                let from = usize::try_from(seq - d.from).unwrap_or(usize::MAX);
                d.seen
                    .iter_mut()
                    .skip(from)
                    .take(closers)
                    .for_each(|s| *s = true);
                d.marker |= marker;
            }
            None => {
                let expected = run.expected.get(n..).unwrap_or_default().to_vec();
                if !expected.is_empty() && closers > 0 {
                    let seen = (0..expected.len()).map(|k| k < closers).collect();
                    self.open.push(Divergence {
                        from: seq,
                        expected,
                        seen,
                        marker,
                    });
                }
            }
        }
        if !run.rows.is_empty() {
            self.run = Some(run);
        }
    }

    /// The other way round: a marker in the place of the event before it.
    fn marker_instead(&mut self, place: Place, event: &Event<'_>, count: u64) {
        match self.before.take() {
            Some((replay, before)) if event.seq + 1 == count => {
                self.replay = replay;
                self.kept.truncate(event.seq, before.spot.text);
                self.again.reset();
                self.run = None;
                self.drop_row(before);
                self.append(place, event);
            }
            _ => self.dead = Some(Dead::Fork),
        }
    }

    /// Whether some of what closed a turn is missing, or is left over at the end.
    pub(super) fn unsettled(&self) -> bool {
        let partial = self.open.iter().any(|d| !d.seen.iter().all(|s| *s));
        let left = self.run.as_ref().is_some_and(|r| r.of.is_some());
        partial || left
    }
}

/// A row that is held against one that is kept.
#[derive(Debug, Clone, Copy)]
enum Incoming<'e, 'a> {
    Event(&'e Event<'a>),
    Packed(&'e Packed<'a>),
}
