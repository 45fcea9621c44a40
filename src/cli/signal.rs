//! Signals: the first asks for an end, the second ends.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::model::interrupt::{Interrupt, Signal};

/// Makes SIGINT and SIGTERM set the flag. Without it (which no supported system refuses) a signal
/// ends the process without a document.
#[must_use]
pub fn install() -> Interrupt {
    let interrupt = Interrupt::new();
    let second = Arc::new(AtomicBool::new(false));
    for (number, signal) in [(SIGINT, Signal::Int), (SIGTERM, Signal::Term)] {
        // In this order: the default action sees the state before this signal armed it.
        let _ = signal_hook::flag::register_conditional_default(number, Arc::clone(&second));
        let _ = signal_hook::flag::register(number, Arc::clone(&second));
        let _ = signal_hook::flag::register_usize(number, interrupt.flag(), signal.flag());
    }
    interrupt
}
