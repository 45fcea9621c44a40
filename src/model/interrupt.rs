//! A request to stop, handed down to everything that may run for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::error::{Error, ErrorKind, Result};

/// The signal that asked for an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: a person pressed the key.
    Int,
    /// SIGTERM: a program asks.
    Term,
}

impl Signal {
    /// The value that the flag takes; 0 means none.
    #[must_use]
    pub const fn flag(self) -> usize {
        match self {
            Signal::Int => 1,
            Signal::Term => 2,
        }
    }

    /// The error of an operation that ended because of it.
    #[must_use]
    pub fn error(self) -> Error {
        let (kind, name) = match self {
            Signal::Int => (ErrorKind::Interrupted, "SIGINT"),
            Signal::Term => (ErrorKind::Terminated, "SIGTERM"),
        };
        Error::new(
            kind,
            format!("ended by {name}; what was finished before it is kept"),
        )
        .with_hint("Run the same command again: it goes on where it stopped.")
    }
}

/// Whether an end was asked for. Cheap to clone and to poll, from any thread.
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    flag: Arc<AtomicUsize>,
}

impl Interrupt {
    /// A flag that nothing has set.
    #[must_use]
    pub fn new() -> Self {
        Interrupt::default()
    }

    /// The flag itself, for the signal handler.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.flag)
    }

    /// The signal that came, if any.
    #[must_use]
    pub fn pending(&self) -> Option<Signal> {
        match self.flag.load(Ordering::Relaxed) {
            1 => Some(Signal::Int),
            2 => Some(Signal::Term),
            _ => None,
        }
    }

    /// Goes on, or ends with the signal's error.
    ///
    /// # Errors
    /// `interrupted` or `terminated` when a signal came.
    pub fn check(&self) -> Result<()> {
        match self.pending() {
            None => Ok(()),
            Some(signal) => Err(signal.error()),
        }
    }

    /// Asks for an end, as the signal would.
    pub fn raise(&self, signal: Signal) {
        self.flag.store(signal.flag(), Ordering::Relaxed);
    }
}
/// How long a work may go on: until a signal comes or its time is up. By default for ever.
#[derive(Debug, Clone, Default)]
pub struct Until {
    interrupt: Interrupt,
    deadline: Option<Instant>,
}

impl Until {
    /// Until `interrupt` is set or `deadline` has come.
    #[must_use]
    pub fn new(interrupt: &Interrupt, deadline: Option<Instant>) -> Until {
        Until {
            interrupt: interrupt.clone(),
            deadline,
        }
    }

    /// Whether the work should end now.
    #[must_use]
    pub fn reached(&self) -> bool {
        self.interrupt.pending().is_some() || self.deadline.is_some_and(|d| Instant::now() >= d)
    }
}
