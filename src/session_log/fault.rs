//! What is wrong with an event that has its place.

use super::lines::Spot;

/// Which rules an event breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// Calls, executions and results do not belong together.
    ToolIdentity,
    /// Turns, steps, queues or pairs do not.
    Lifecycle,
    /// The event itself is not what its type says.
    Message,
    /// A type that is not known and may not be passed over.
    UnknownEvent,
}

/// Where one call was met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Announced in an answer.
    Call,
    /// Recorded as started.
    Execution,
    /// Answered.
    Result,
    /// In the pieces of the answer, as they were streamed.
    Streamed,
}

impl Role {
    /// Its word in documents.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Role::Call => "call",
            Role::Execution => "execution",
            Role::Result => "result",
            Role::Streamed => "streamed",
        }
    }
}

/// One of the places in which a call is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallPlace {
    /// What the place is.
    pub role: Role,
    /// Its event.
    pub seq: u64,
    /// Its row, from 1.
    pub row: u64,
    /// The id that it has there.
    pub id: String,
    /// The tool's name, where the place has one.
    pub name: Option<String>,
}

/// The first event that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which rules.
    pub kind: FaultKind,
    /// The event's number.
    pub seq: u64,
    /// The row, from 1 behind the header.
    pub row: u64,
    /// Where the row begins.
    pub spot: Spot,
    /// What is wrong, without any text of the session.
    pub what: String,
    /// Where the call is named: the call, its execution, its result.
    pub places: Vec<CallPlace>,
}
