//! Progress on stderr: how far, how fast, how long still.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::args::ProgressHow;
use crate::model::progress::Progress;

/// Shows progress on stderr, or nothing.
#[derive(Debug)]
pub struct Shown {
    how: How,
    state: Mutex<Option<Phase>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Nothing,
    Lines,
    OneLine,
}

#[derive(Debug)]
struct Phase {
    name: &'static str,
    total: Option<u64>,
    steps: u64,
    bytes: u64,
    begun: Instant,
    said: Instant,
}

impl Shown {
    /// `auto` shows one line that is rewritten, and only on a terminal.
    #[must_use]
    pub fn new(how: ProgressHow, quiet: bool) -> Self {
        let how = match how {
            _ if quiet => How::Nothing,
            ProgressHow::None => How::Nothing,
            ProgressHow::Plain => How::Lines,
            ProgressHow::Auto if std::io::stderr().is_terminal() => How::OneLine,
            ProgressHow::Auto => How::Nothing,
        };
        Shown {
            how,
            state: Mutex::new(None),
        }
    }

    /// Takes the rewritten line away, before anything else is printed.
    pub fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.close(state.take());
    }

    fn close(&self, phase: Option<Phase>) {
        let Some(phase) = phase else { return };
        match self.how {
            How::Nothing => {}
            How::Lines => say(&format!("{}\n", line(&phase, Instant::now()))),
            How::OneLine => say("\r\x1b[K"),
        }
    }
}

impl Progress for Shown {
    fn phase(&self, name: &'static str, total: Option<u64>) {
        if self.how == How::Nothing {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.close(state.take());
        let now = Instant::now();
        *state = Some(Phase {
            name,
            total,
            steps: 0,
            bytes: 0,
            begun: now,
            said: now,
        });
    }

    fn advance(&self, steps: u64, bytes: u64) {
        if self.how == How::Nothing {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(phase) = state.as_mut() else { return };
        phase.steps = phase.steps.saturating_add(steps);
        phase.bytes = phase.bytes.saturating_add(bytes);
        let now = Instant::now();
        let pause = match self.how {
            How::OneLine => Duration::from_millis(200),
            _ => Duration::from_secs(2),
        };
        if now.duration_since(phase.said) < pause {
            return;
        }
        phase.said = now;
        let text = line(phase, now);
        match self.how {
            How::OneLine => say(&format!("\r{text}\x1b[K")),
            _ => say(&format!("{text}\n")),
        }
    }
}

/// Progress must never fail the operation: a stderr that is gone is nobody's loss.
fn say(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

fn line(p: &Phase, now: Instant) -> String {
    let ms = u64::try_from(now.duration_since(p.begun).as_millis())
        .unwrap_or(u64::MAX)
        .max(1);
    let mut text = match p.total {
        Some(total) => format!("{}: {} of {}", p.name, p.steps, total),
        None => format!("{}: {}", p.name, p.steps),
    };
    text.push_str(&format!(", {}/s", p.steps.saturating_mul(1000) / ms));
    if p.bytes > 0 {
        let rate = p.bytes.saturating_mul(1000) / ms;
        text.push_str(&format!(
            ", {} MB, {} MB/s",
            p.bytes / 1_000_000,
            rate / 1_000_000
        ));
    }
    if let Some(total) = p.total
        && p.steps > 0
        && p.steps < total
    {
        let left_ms = (total - p.steps).saturating_mul(ms) / p.steps;
        text.push_str(&format!(", {} s left", left_ms.div_ceil(1000)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_rate_and_time_left() {
        let begun = Instant::now();
        let p = Phase {
            name: "capture",
            total: Some(100),
            steps: 25,
            bytes: 50_000_000,
            begun,
            said: begun,
        };
        let text = line(&p, begun + Duration::from_secs(5));
        assert_eq!(text, "capture: 25 of 100, 5/s, 50 MB, 10 MB/s, 15 s left");
    }
}
