//! Signals: the first asks for an end, the second ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::model::interrupt::{Interrupt, Signal};

/// Once set, the next signal ends the process at once.
#[derive(Debug, Clone, Default)]
pub struct Armed(Arc<AtomicBool>);

impl Armed {
    /// From here on nobody looks at the flag any more: a signal must end the process, or one that
    /// comes while stdout is full would wait for the reader.
    pub fn arm(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Makes SIGINT and SIGTERM set the flag. Without it (which no supported system refuses) a signal
/// ends the process without a document.
#[must_use]
pub fn install() -> (Interrupt, Armed) {
    let interrupt = Interrupt::new();
    let armed = Armed::default();
    for (number, signal) in [(SIGINT, Signal::Int), (SIGTERM, Signal::Term)] {
        // In this order: the default action sees the state before this signal armed it.
        let _ = signal_hook::flag::register_conditional_default(number, Arc::clone(&armed.0));
        let _ = signal_hook::flag::register(number, Arc::clone(&armed.0));
        let _ = signal_hook::flag::register_usize(number, interrupt.flag(), signal.flag());
    }
    (interrupt, armed)
}
