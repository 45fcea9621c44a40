//! The rules between events: turns, steps, messages, calls, queues. The first event that breaks one
//! is kept; whatever comes behind it is not judged.

use super::calls::{self, Calls, Mismatch, ResultParts};
use super::event::{self, Chunk, Event, Packed};
use super::fault::{CallPlace, Fault, FaultKind, Role};
use super::json::{self, Object};
use super::lines::Spot;
use super::queues::Queues;
use super::retries::Retries;
use super::surface::Surface;
use super::vocabulary;

/// Where a row lies: its number behind the header and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At {
    pub(super) row: u64,
    pub(super) spot: Spot,
}

/// What is open at a place. Small: it is copied where a turn may be about to close.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) version: u64,
    /// The number that the next event must have.
    pub(super) count: u64,
    /// The time of the last event.
    pub(super) time: i64,
    pub(super) turn: Option<u64>,
    pub(super) step: Option<u64>,
    pub(super) calls: Calls,
    /// The last turn that was closed, by the number of its `turn/end`.
    pub(super) last_turn_end: Option<u64>,
    last_turn: u64,
    next_step: u64,
    compaction: Option<Vec<u8>>,
    retries: Retries,
    commands: Vec<Vec<u8>>,
    fault: Option<Box<Fault>>,
    unknown: Option<Box<Fault>>,
    passed_over: u64,
    /// A marker said that what comes before it is inherited.
    pub(super) inherited: bool,
}

/// Replays events.
#[derive(Debug, Clone, Default)]
pub(super) struct Replay {
    pub(super) state: State,
    surface: Surface,
    queues: Queues,
    queue_fault: Option<Fault>,
    seed_length: u64,
}

/// A place to go back to.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) state: State,
    surface: usize,
}

impl State {
    pub(super) fn is_compacting(&self) -> bool {
        self.compaction.is_some()
    }
}

type Rule<T> = Result<T, (FaultKind, Mismatch)>;

fn broken<T>(kind: FaultKind, what: impl Into<String>) -> Rule<T> {
    Err((kind, (what.into(), Vec::new())))
}

impl Replay {
    pub(super) fn new(version: u64, seed_length: u64) -> Replay {
        Replay {
            state: State {
                version,
                ..State::default()
            },
            seed_length,
            ..Replay::default()
        }
    }

    pub(super) fn mark(&self) -> Mark {
        Mark {
            state: self.state.clone(),
            surface: self.surface.len(),
        }
    }

    /// Goes back to a mark behind which only closers and markers came.
    pub(super) fn back_to(&mut self, mark: &Mark) {
        self.state = mark.state.clone();
        self.surface.truncate(mark.surface);
    }

    /// The first event that breaks a rule. Of the queues only what a resume would replay counts.
    pub(super) fn fault(&self) -> Option<&Fault> {
        match (self.state.fault.as_deref(), self.queue_fault.as_ref()) {
            (Some(a), Some(b)) => Some(if a.seq <= b.seq { a } else { b }),
            (a, b) => a.or(b),
        }
    }

    /// The first event of a type that is not known and may not be passed over.
    pub(super) fn unknown(&self) -> Option<&Fault> {
        self.state.unknown.as_deref()
    }

    /// How many events of unknown types may be passed over.
    pub(super) fn passed_over(&self) -> u64 {
        self.state.passed_over
    }

    /// Takes the pieces of an answer from number `from` on.
    pub(super) fn packed(&mut self, packed: &Packed<'_>, from: u64, at: At) {
        let s = &mut self.state;
        s.count = packed.first + packed.len();
        s.time = packed.last_time();
        if s.fault.is_some() {
            return;
        }
        if s.turn != Some(packed.turn) || s.step != Some(packed.step) {
            let what = "pieces of an answer outside of an open turn and step";
            self.fail(
                FaultKind::Lifecycle,
                (what.to_owned(), Vec::new()),
                from,
                at,
            );
        } else if let Some(id) = packed.call_id() {
            s.calls.stream(&id);
        }
    }

    /// Takes one event.
    pub(super) fn event(&mut self, event: &Event<'_>, at: At) {
        self.state.count = event.seq + 1;
        self.state.time = event.time.unwrap_or(self.state.time);
        if self.state.fault.is_some() {
            return;
        }
        if let Err((kind, mismatch)) = self.rules(event, at) {
            self.fail(kind, mismatch, event.seq, at);
        }
    }

    fn fail(&mut self, kind: FaultKind, (what, places): Mismatch, seq: u64, at: At) {
        let fault = Fault {
            kind,
            seq,
            row: at.row,
            spot: at.spot,
            what,
            places,
        };
        let slot = match kind {
            FaultKind::UnknownEvent => &mut self.state.unknown,
            _ => &mut self.state.fault,
        };
        slot.get_or_insert_with(|| Box::new(fault));
    }

    fn rules(&mut self, event: &Event<'_>, at: At) -> Rule<()> {
        use FaultKind::{Lifecycle, Message, UnknownEvent};
        let version = self.state.version;
        if event.time.is_none() {
            return broken(Message, "its time is no whole number of milliseconds");
        }
        if event.odd_key {
            return broken(Message, "it has a key that events don't have");
        }
        if event.ignorable.is_some_and(|i| i != b"true") {
            return broken(Message, "its ignorable mark is not true");
        }
        // By far the most events of old logs.
        let piece = version <= 1 && *event.kind == *b"assistant/chunk";
        if !piece && !vocabulary::knows(version, &event.kind) {
            if event.ignorable.is_some() {
                self.state.passed_over += 1;
                return Ok(());
            }
            let name = String::from_utf8_lossy(&event.kind);
            let name: String = name.chars().take(80).collect();
            return broken(UnknownEvent, format!("its type {name} is not known"));
        }
        let Some(data) = &event.object else {
            return broken(Message, "its data are no object");
        };
        if let Some(keys) = vocabulary::data_keys(version, &event.kind)
            && !data.only(keys)
        {
            return broken(Message, "its data have a key that they must not have");
        }
        let surface = vocabulary::is_surface(version, &event.kind);
        let early = version == 0 && *event.kind == *b"steering/message";
        if !surface && !early && (event.sources.is_some() || event.operation.is_some()) {
            return broken(
                Message,
                "only what the model sees has sources or an operation",
            );
        }
        match &*event.kind {
            b"turn/start" => self.turn_start(data),
            b"turn/end" => self.turn_end(event, data),
            b"step/start" => self.step_start(data),
            b"step/end" => self.step_end(event, data, at),
            b"assistant/chunk" => {
                self.in_step(data, "a piece of an answer")?;
                match data.get("chunk").and_then(event::chunk) {
                    None => broken(Message, "a piece of an answer of no known kind"),
                    Some(Chunk::Call(id)) => {
                        self.state.calls.stream(&id);
                        Ok(())
                    }
                    Some(Chunk::Other) => Ok(()),
                }
            }
            b"assistant/attempt" => {
                self.in_step(data, "an attempt")?;
                self.stream(data)
            }
            b"tool/call" => {
                self.in_step(data, "a call")?;
                let started = self.state.calls.start(data, event.seq, at.row);
                started.map_err(|m| (FaultKind::ToolIdentity, m))
            }
            b"request/header" if json::is_text(data.get("reason"), "fallback") => broken(
                UnknownEvent,
                "its reason fallback is of a version that no reader converts",
            ),
            b"request/header" | b"request/context" if self.state.turn.is_none() => {
                broken(Lifecycle, "a request outside of a turn")
            }
            b"request/header" => request(data, version),
            b"llm/retry" | b"llm/retry-started" => {
                self.may_be_in_step(data, "a retry")?;
                let started = *event.kind == *b"llm/retry-started";
                let taken = self.state.retries.take(data, started);
                taken.map_err(|(kind, why)| (kind, (why.to_owned(), Vec::new())))
            }
            b"session/end-seed" => {
                self.state.compaction = None;
                // The first versions count what is inherited in the header.
                let inherited = data.get("inherited").filter(|_| version >= 2);
                if inherited.is_some_and(|i| i != b"true") {
                    return broken(Message, "its inherited mark is not true");
                }
                if inherited.is_some() {
                    self.state.inherited = true;
                    self.queues = Queues::default();
                    self.queue_fault = None;
                }
                Ok(())
            }
            b"agent/inbox/spliced" => {
                if event.seq >= self.seed_length
                    && self.queue_fault.is_none()
                    && let Err(why) = self.queues.splice(data)
                {
                    self.queue_fault = Some(Fault {
                        kind: Lifecycle,
                        seq: event.seq,
                        row: at.row,
                        spot: at.spot,
                        what: why.to_owned(),
                        places: Vec::new(),
                    });
                }
                Ok(())
            }
            b"compaction/start" | b"compaction/summary" | b"compaction/end" => {
                self.compaction(event, data)
            }
            b"command/run" | b"command/done" => self.command(event, data),
            b"steering/message" => {
                if json::is_text(event.operation, "append") {
                    self.surface.append(event.seq, None);
                }
                Ok(())
            }
            _ if surface => self.message(event, data, at),
            _ => Ok(()),
        }
    }

    fn turn_start(&mut self, data: &Object<'_>) -> Rule<()> {
        let s = &mut self.state;
        if s.turn.is_some() {
            return broken(FaultKind::Lifecycle, "a turn starts inside of a turn");
        }
        if s.compaction.is_some() {
            return broken(FaultKind::Lifecycle, "a turn starts inside of a compaction");
        }
        let turn = data.count("turn");
        if turn != Some(s.last_turn + 1) {
            let due = s.last_turn + 1;
            let got = turn.map_or_else(|| "no number".to_owned(), |t| t.to_string());
            return broken(
                FaultKind::Lifecycle,
                format!("turn {due} is due, and a turn starts with {got}"),
            );
        }
        s.turn = turn;
        s.last_turn += 1;
        s.next_step = 1;
        Ok(())
    }

    fn turn_end(&mut self, event: &Event<'_>, data: &Object<'_>) -> Rule<()> {
        let s = &mut self.state;
        if s.turn.is_none() || s.turn != data.count("turn") {
            return broken(FaultKind::Lifecycle, "a turn ends that is not open");
        }
        if s.step.is_some() {
            return broken(FaultKind::Lifecycle, "a turn ends inside of a step");
        }
        if s.compaction.is_some() {
            return broken(FaultKind::Lifecycle, "a turn ends inside of a compaction");
        }
        match data.object("reason") {
            None => return broken(FaultKind::Message, "a turn ends without a reason"),
            Some(reason) if !ends_a_turn(&reason, s.version) => {
                return broken(
                    FaultKind::Message,
                    "a turn ends for a reason of no known kind",
                );
            }
            Some(_) => {}
        }
        s.turn = None;
        s.last_turn_end = Some(event.seq);
        Ok(())
    }

    fn step_start(&mut self, data: &Object<'_>) -> Rule<()> {
        let s = &mut self.state;
        if s.turn.is_none() || s.turn != data.count("turn") {
            return broken(FaultKind::Lifecycle, "a step starts outside of its turn");
        }
        if s.step.is_some() {
            return broken(FaultKind::Lifecycle, "a step starts inside of a step");
        }
        if data.count("step") != Some(s.next_step) {
            let due = s.next_step;
            return broken(
                FaultKind::Lifecycle,
                format!("step {due} is due, and another number starts"),
            );
        }
        s.step = Some(s.next_step);
        s.next_step += 1;
        s.calls.clear();
        s.retries.clear();
        Ok(())
    }

    fn step_end(&mut self, event: &Event<'_>, data: &Object<'_>, at: At) -> Rule<()> {
        self.in_step(data, "the end of a step")?;
        let s = &mut self.state;
        if let Some(call) = s.calls.pending().next() {
            let id = String::from_utf8_lossy(&call.spelled).into_owned();
            let own = CallPlace {
                role: Role::Result,
                seq: event.seq,
                row: at.row,
                id: String::new(),
                name: None,
            };
            let what = format!("the step ends and call {id} has no result");
            let mut places = s.calls.places(b"", own);
            places.retain(|p| p.role != Role::Result);
            return Err((FaultKind::ToolIdentity, (what, places)));
        }
        s.step = None;
        s.calls.clear();
        Ok(())
    }

    fn in_step(&self, data: &Object<'_>, what: &str) -> Rule<()> {
        let s = &self.state;
        let fits = s.turn.is_some()
            && s.step.is_some()
            && s.turn == data.count("turn")
            && s.step == data.count("step");
        if fits {
            Ok(())
        } else {
            broken(
                FaultKind::Lifecycle,
                format!("{what} outside of an open turn and step"),
            )
        }
    }

    /// The same for an event that need not say in which turn and step it is.
    fn may_be_in_step(&self, data: &Object<'_>, what: &str) -> Rule<()> {
        let s = &self.state;
        let fits = |key: &str, open: Option<u64>| {
            open.is_some() && (data.get(key).is_none() || data.count(key) == open)
        };
        if fits("turn", s.turn) && fits("step", s.step) {
            return Ok(());
        }
        let what = format!("{what} outside of an open turn and step");
        broken(FaultKind::Lifecycle, what)
    }

    /// The stream that later versions keep with an answer or an attempt.
    fn stream(&mut self, data: &Object<'_>) -> Rule<()> {
        let parts = data.get("stream").and_then(json::elements);
        let Some(parts) = parts else {
            return broken(FaultKind::Message, "an answer without its stream");
        };
        for part in parts {
            let Some(part) = Object::within(part).filter(event::is_of_stream) else {
                return broken(FaultKind::Message, "a part of the stream of no known kind");
            };
            match part.get("chunk").and_then(event::chunk) {
                Some(Chunk::Call(id)) => self.state.calls.stream(&id),
                _ => part
                    .text("id")
                    .iter()
                    .for_each(|id| self.state.calls.stream(id)),
            }
        }
        Ok(())
    }

    fn compaction(&mut self, event: &Event<'_>, data: &Object<'_>) -> Rule<()> {
        let open = &mut self.state.compaction;
        let id = data.text("compactionId").map(std::borrow::Cow::into_owned);
        let Some(id) = id else {
            return broken(FaultKind::Message, "a compaction without an id");
        };
        match &*event.kind {
            b"compaction/start" if open.is_some() => {
                broken(FaultKind::Lifecycle, "a compaction starts inside of one")
            }
            b"compaction/start" => {
                *open = Some(id);
                Ok(())
            }
            _ if open.as_ref() != Some(&id) => {
                broken(FaultKind::Lifecycle, "a compaction that is not open")
            }
            b"compaction/end" => {
                *open = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn command(&mut self, event: &Event<'_>, data: &Object<'_>) -> Rule<()> {
        let open = &mut self.state.commands;
        let Some(id) = data.text("commandId") else {
            return broken(FaultKind::Message, "a command without an id");
        };
        let place = open.iter().position(|c| **c == *id);
        match (&*event.kind, place) {
            (b"command/run", None) => open.push(id.into_owned()),
            (b"command/run", Some(_)) => {
                return broken(FaultKind::Lifecycle, "a command runs that is running");
            }
            (_, Some(n)) => {
                open.swap_remove(n);
            }
            (_, None) => {
                return broken(FaultKind::Lifecycle, "a command is done that did not run");
            }
        }
        Ok(())
    }

    fn message(&mut self, event: &Event<'_>, data: &Object<'_>, at: At) -> Rule<()> {
        use FaultKind::{Message, ToolIdentity};
        let version = self.state.version;
        let replaces = match event.operation {
            None => return broken(Message, "it says nothing of where the model sees it"),
            Some(op) if json::is_text(Some(op), "append") => None,
            Some(op) => Some(replaced(op, version)?),
        };
        let sources = self.sources(event)?;
        let mut frame = None;
        match &*event.kind {
            b"tool/result" => {
                let mismatch = |what: &str| (ToolIdentity, (what.to_owned(), Vec::new()));
                let result = ResultParts::read(data, version).map_err(mismatch)?;
                if result.source_id != result.block_id || result.block_id.is_empty() {
                    let own = |id: &[u8]| CallPlace {
                        role: Role::Result,
                        seq: event.seq,
                        row: at.row,
                        id: String::from_utf8_lossy(id).into_owned(),
                        name: None,
                    };
                    let mut places = self
                        .state
                        .calls
                        .places(&result.block_id, own(&result.block_id));
                    places.push(own(&result.source_id));
                    let what = if result.source_id == result.block_id {
                        "the result names no call"
                    } else {
                        "source and block of the result name different calls"
                    };
                    return Err((ToolIdentity, (what.to_owned(), places)));
                }
                identified(&result.message_id, data.object("message").as_ref(), version)?;
                let named = |e: &Object<'_>| e.text("name").is_some() && e.text("code").is_some();
                if version >= 1
                    && data.get("error").is_some()
                    && !result.error.as_ref().is_some_and(named)
                {
                    return broken(Message, "the result's error has no name and code");
                }
                frame = Some(calls::frame(data, version));
                if replaces.is_none() {
                    self.in_step(data, "a result")?;
                    self.state
                        .calls
                        .answer(event, at.row, version, &result)
                        .map_err(|m| (ToolIdentity, m))?;
                }
            }
            b"assistant/message" => {
                self.in_step(data, "an answer")?;
                let Some(message) = data.object("message") else {
                    return broken(Message, "the answer has no message");
                };
                spoken(&message, "assistant", Some("model"), version)?;
                let source = message.object("source");
                let named = source
                    .is_some_and(|s| s.text("provider").is_some() && s.text("model").is_some());
                if version >= 1 && !named {
                    return broken(Message, "the answer's source names no provider and model");
                }
                if version >= 2 {
                    self.stream(data)?;
                }
                let content = message.get("content").unwrap_or_default();
                self.state
                    .calls
                    .announce(content, event.seq, at.row)
                    .map_err(|m| (ToolIdentity, m))?;
            }
            b"user/message" => spoken(data, "user", None, version)?,
            _ => {
                let role = match &*event.kind {
                    b"system/message" => "system",
                    _ => "developer",
                };
                let message = data.object("message").unwrap_or_else(|| data.clone());
                spoken(&message, role, None, version)?;
            }
        }
        match replaces {
            None => self.surface.append(event.seq, frame),
            Some(range) => {
                let named = |seq: u64| sources.iter().any(|(a, b)| (*a..=*b).contains(&seq));
                self.surface
                    .replace(event.seq, frame, range, &named)
                    .map_err(|why| (Message, (why.to_owned(), Vec::new())))?;
            }
        }
        Ok(())
    }

    /// The events that an event names as its sources, as runs.
    fn sources(&self, event: &Event<'_>) -> Rule<Vec<(u64, u64)>> {
        use FaultKind::Message;
        let version = self.state.version;
        let answer = *event.kind == *b"assistant/message";
        let Some(list) = event.sources else {
            return Ok(Vec::new());
        };
        if answer && version >= 2 {
            return broken(Message, "an answer of this version has no sources");
        }
        let Some(runs) = event::runs(list) else {
            return broken(Message, "its sources are no list of events");
        };
        if !event::has_sound_pairs(list) {
            return broken(
                Message,
                "a run in its list of sources is short or out of order",
            );
        }
        if runs.is_empty() && !answer {
            return broken(Message, "its list of sources is empty");
        }
        if let Some((_, last)) = runs.iter().find(|(_, last)| *last >= event.seq) {
            let own = event.seq;
            return broken(
                Message,
                format!("it names event {last} as a source, and is itself event {own}"),
            );
        }
        let mut sorted = runs.clone();
        sorted.sort_unstable();
        let twice = sorted
            .iter()
            .zip(sorted.iter().skip(1))
            .any(|(a, b)| a.1 >= b.0);
        if twice {
            return broken(Message, "it names a source twice");
        }
        Ok(runs)
    }
}

/// The range that an operation replaces.
fn replaced(operation: &[u8], version: u64) -> Rule<(u64, u64)> {
    let keys = if version >= 3 {
        ["op", "startSeq", "endSeq"]
    } else {
        ["op", "start", "end"]
    };
    let read = || -> Option<(u64, u64)> {
        let object = Object::within(operation)?;
        let sound = object.only(&keys) && json::is_text(object.get("op"), "replace");
        let [_, start, end] = keys;
        sound.then_some((object.count(start)?, object.count(end)?))
    };
    match read() {
        Some(range) => Ok(range),
        None => broken(FaultKind::Message, "its operation is not known"),
    }
}

/// A message with role, source, content and id.
fn spoken(message: &Object<'_>, role: &str, source: Option<&str>, version: u64) -> Rule<()> {
    use FaultKind::Message;
    identified(
        &message.text("id").unwrap_or_default(),
        Some(message),
        version,
    )?;
    if !json::is_text(message.get("role"), role) {
        return broken(Message, "the message has another role than its type");
    }
    let kind = message.object("source").and_then(|s| s.text("kind"));
    let fits = match (&kind, source) {
        (Some(kind), Some(source)) => **kind == *source.as_bytes(),
        (Some(_), None) => true,
        (None, _) => false,
    };
    if !fits {
        return broken(Message, "the message's source does not fit its type");
    }
    if message
        .get("content")
        .is_none_or(|c| c.first() != Some(&b'['))
    {
        return broken(Message, "the message's content is no list");
    }
    Ok(())
}

/// A message has an id. The first writers gave none; then its place is its id.
fn identified(id: &[u8], message: Option<&Object<'_>>, version: u64) -> Rule<()> {
    let legacy = version == 0 && message.is_some_and(|m| m.get("id").is_none());
    if id.is_empty() && !legacy {
        return broken(FaultKind::Message, "the message has no id");
    }
    Ok(())
}

/// Whether a turn can end for this reason. The first writers had more of them, and said less.
fn ends_a_turn(reason: &Object<'_>, version: u64) -> bool {
    let early = version == 0;
    match reason.text("kind").as_deref() {
        Some(b"completed" | b"blocked" | b"max-tokens" | b"interrupted") => true,
        Some(b"aborted") => early || reason.get("reason").is_some(),
        Some(b"error") => early || reason.get("error").is_some(),
        Some(b"disposed") => early,
        _ => false,
    }
}

/// What a request is made with.
fn request(data: &Object<'_>, version: u64) -> Rule<()> {
    const REASONS: [&str; 4] = ["initial", "resume", "change", "series"];
    let reason = data.get("reason");
    let known = REASONS.iter().any(|r| json::is_text(reason, r));
    if !known && (version >= 1 || reason.is_some()) {
        return broken(
            FaultKind::Message,
            "a request for a reason of no known kind",
        );
    }
    let header = data.object("header");
    if version >= 1 && header.is_none() {
        return broken(FaultKind::Message, "a request without a header");
    }
    if version >= 3 && header.is_some_and(|h| h.get("system").is_some()) {
        let what = "a request with a system text, which is a message in this version";
        return broken(FaultKind::Message, what);
    }
    Ok(())
}
