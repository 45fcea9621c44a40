//! Why a session was not written.

use std::fmt;
use std::io;

use crate::error::Error;
use crate::session_log::{AppendError, Refusal};

/// Why a session was not written. Unless it says [`WriteError::Torn`], nothing of the batch is there.
#[derive(Debug)]
pub enum WriteError {
    /// The session can't be reached: locked, not there, there already, no permission.
    Unreached(Error),
    /// The batch was refused.
    Refused(Refusal),
    /// Writing failed, and what was written was taken back: the same batch can be tried again.
    TakenBack(io::Error),
    /// A writer without lock wrote at the same time. What it wrote is untouched: read again.
    Overtaken,
    /// Writing failed, and a part of the batch may be in the log: it is checked and repaired next.
    Torn(io::Error),
    /// SQLite failed; the transaction was rolled back.
    Store(rusqlite::Error),
}

impl WriteError {
    pub(super) fn unread(e: io::Error) -> WriteError {
        WriteError::TakenBack(e)
    }
}

impl From<Error> for WriteError {
    fn from(e: Error) -> Self {
        WriteError::Unreached(e)
    }
}

impl From<Refusal> for WriteError {
    fn from(why: Refusal) -> Self {
        WriteError::Refused(why)
    }
}

impl From<rusqlite::Error> for WriteError {
    fn from(e: rusqlite::Error) -> Self {
        WriteError::Store(e)
    }
}

impl From<AppendError> for WriteError {
    fn from(e: AppendError) -> Self {
        match e {
            AppendError::Refused(why) => WriteError::Refused(why),
            // Nothing was written.
            AppendError::Unread(e) | AppendError::TakenBack(e) => WriteError::TakenBack(e),
            AppendError::Overtaken => WriteError::Overtaken,
            AppendError::Torn(e) => WriteError::Torn(e),
        }
    }
}

fn refusal(why: &Refusal, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match why {
        Refusal::Changed { expected, found } => write!(
            f,
            "the session is not what was read: {} bytes up to event {} were expected, {} bytes up \
             to event {} are there; read it again",
            expected.bytes, expected.next_seq, found.bytes, found.next_seq
        ),
        Refusal::Damaged(verdict) => write!(
            f,
            "the session is damaged ({}): cass doctor session-log check says how",
            verdict.name()
        ),
        Refusal::Stale { first, next } => write!(
            f,
            "the batch begins with event {first}, and {next} is due: read the session again"
        ),
        Refusal::Gap { first, next } => {
            write!(f, "the batch begins with event {first}, and {next} is due")
        }
        Refusal::NotDense { got, due } => {
            write!(f, "event {got} of the batch comes where {due} is due")
        }
        Refusal::NoEvent(why) => write!(f, "a line of the batch is no event: {why}"),
        Refusal::Empty => write!(f, "the batch is empty"),
        Refusal::Breaks(fault) => write!(f, "an event of the batch breaks a rule: {fault:?}"),
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::Unreached(e) => write!(f, "{e}"),
            WriteError::Refused(why) => refusal(why, f),
            WriteError::TakenBack(e) => write!(f, "nothing was written: {e}"),
            WriteError::Overtaken => write!(
                f,
                "another writer, which holds no lock, wrote at the same time; nothing was added"
            ),
            WriteError::Torn(e) => write!(f, "a part of the batch may be in the log: {e}"),
            WriteError::Store(e) => write!(f, "the store could not be written: {e}"),
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Unreached(e) => Some(e),
            WriteError::TakenBack(e) | WriteError::Torn(e) => Some(e),
            WriteError::Store(e) => Some(e),
            WriteError::Refused(_) | WriteError::Overtaken => None,
        }
    }
}
