//! Stdout that writes all of it, and that a signal ends only where nobody reads.
//!
//! A document whose reader reads is always finished: it says what was done, and the exit is the
//! one that it names. A blocking write into a full pipe would keep a signal waiting for the reader,
//! so a write begins only when there is room.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;

use crate::model::interrupt::{Interrupt, Signal};

/// What a pipe that is ready takes without blocking: one page, elsewhere POSIX's least PIPE_BUF.
const ROOM: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };
/// How often the flag is looked at while there is no room. A signal wakes the wait by itself; this
/// is for the one that came just before it.
const TICK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 50_000_000,
};
/// How long a reader may take no byte after a signal. Most documents fit into a pipe and never
/// wait; a second signal ends the wait at once.
const GRACE: Duration = Duration::from_secs(2);

/// Stdout of one run.
#[derive(Debug)]
pub struct Stdout {
    interrupt: Interrupt,
    begun: AtomicBool,
    /// Set when a signal ended a write: nothing is tried again.
    ended: AtomicBool,
}

/// A signal came and nobody read.
#[derive(Debug)]
struct Ended(Signal);

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads it, and a signal asked for an end")
    }
}

impl std::error::Error for Ended {}

/// The signal that ended the write, if one did.
#[must_use]
pub fn ended_by(e: &io::Error) -> Option<Signal> {
    let ended = e.get_ref()?.downcast_ref::<Ended>()?;
    Some(ended.0)
}

impl Stdout {
    /// Writes nothing yet.
    #[must_use]
    pub fn new(interrupt: Interrupt) -> Self {
        Stdout {
            interrupt,
            begun: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }
    }

    /// Whether anything was written.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Waits until there is room; an error when a signal came and there was none for `GRACE`.
    fn wait(&self, stdout: &io::Stdout) -> io::Result<()> {
        let mut asked: Option<Instant> = None;
        loop {
            let mut fds = [PollFd::new(stdout, PollFlags::OUT)];
            match poll(&mut fds, Some(&TICK)) {
                // No room, or a signal: both look at the flag.
                Ok(0) | Err(Errno::INTR) => {}
                // Ready, or what can't be waited for: the write says which.
                Ok(_) | Err(_) => return Ok(()),
            }
            let Some(signal) = self.interrupt.pending() else {
                continue;
            };
            if self.ended.load(Ordering::SeqCst) || asked.is_some_and(|at| at.elapsed() >= GRACE) {
                self.ended.store(true, Ordering::SeqCst);
                return Err(io::Error::other(Ended(signal)));
            }
            asked.get_or_insert_with(Instant::now);
        }
    }
}

impl Write for &Stdout {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.begun.store(true, Ordering::SeqCst);
        // The descriptor itself: the standard library's buffer would write when it likes.
        let stdout = io::stdout();
        let is_file = fstat(&stdout).is_ok_and(|s| FileType::from_raw_mode(s.st_mode).is_file());
        let part = match buf.get(..ROOM) {
            Some(part) if !is_file => part,
            _ => buf,
        };
        loop {
            if !is_file {
                self.wait(&stdout)?;
            }
            match rustix::io::write(&stdout, part) {
                Err(Errno::INTR) => {}
                // Another writer took the room.
                Err(Errno::AGAIN) => {}
                other => return Ok(other?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
