//! The event log: one line for each step of each run, each holding the hash of the line before.

use std::io::{BufRead, BufReader, Read};

use serde::{Deserialize, Serialize};

use super::RunId;
use crate::disk::{AppendFile, Capture, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::store::layout;

const NO_PREV: &str = "00000000000000000000000000000000";
const MAX_LINE: u64 = 1 << 20;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The run.
    pub run_id: RunId,
    /// When, milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// What happened, as one word.
    pub what: String,
    /// More about it, without text of a session.
    pub detail: String,
    /// First 32 hex digits of the BLAKE3 of the line before, without its newline.
    pub prev: String,
}

/// The log, open for the holder of the writer lock.
#[derive(Debug)]
pub struct EventLog {
    file: AppendFile,
    link: String,
}

fn link(line: &[u8]) -> String {
    let mut hex = Digest::of(line).to_hex();
    hex.truncate(32);
    hex
}

impl EventLog {
    /// Opens the log, makes it when missing, and drops a torn last line.
    ///
    /// # Errors
    /// `no-space`, `permission-denied`, `io`.
    pub fn open(cap: Capture<'_>) -> Result<EventLog> {
        let root = cap.root();
        let (mut last, mut whole) = (None, 0u64);
        each_line(root, &mut |line| {
            whole += line.len() as u64 + 1;
            last = Some(link(line));
            Ok(())
        })?;
        if root
            .file_len(layout::EVENT_LOG)?
            .is_some_and(|len| len > whole)
        {
            cap.drop_torn_tail(layout::EVENT_LOG, whole)?;
        }
        cap.create_dir(layout::EVENTS)?;
        let (mut file, made) = cap.append(layout::EVENT_LOG)?;
        if made {
            cap.sync_dir(layout::EVENTS)?;
        }
        file.sync()?;
        Ok(EventLog {
            file,
            link: last.unwrap_or_else(|| NO_PREV.to_owned()),
        })
    }

    /// Adds one line, durable when this returns.
    ///
    /// # Errors
    /// `no-space`, `io`; the log is then of no use any more.
    pub fn add(&mut self, run: &RunId, at_ms: i64, what: &str, detail: &str) -> Result<()> {
        let event = Event {
            run_id: run.clone(),
            at_ms,
            what: what.to_owned(),
            detail: detail.to_owned(),
            prev: self.link.clone(),
        };
        let mut bytes = serde_json::to_vec(&event).map_err(|e| {
            Error::new(ErrorKind::Internal, "an event can't be written as JSON").with_source(e)
        })?;
        self.link = link(&bytes);
        bytes.push(b'\n');
        self.file.append(&bytes)?;
        self.file.sync()
    }
}

fn each_line(root: &Root, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let Some(file) = root.open_file(layout::EVENT_LOG)? else {
        return Ok(());
    };
    let mut reader = BufReader::new(file);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        (&mut reader)
            .take(MAX_LINE)
            .read_until(b'\n', &mut bytes)
            .map_err(|e| Error::io("read", &root.full(layout::EVENT_LOG), e))?;
        if bytes.pop() != Some(b'\n') {
            return Ok(());
        }
        each(&bytes)?;
    }
}

/// Every event, oldest first, and how many lines are damaged or don't follow the line before.
///
/// # Errors
/// `io`, and what `each` returns.
pub fn events(root: &Root, each: &mut dyn FnMut(Event) -> Result<()>) -> Result<u64> {
    let mut prev = NO_PREV.to_owned();
    let mut bad = 0;
    each_line(root, &mut |line| {
        match serde_json::from_slice::<Event>(line) {
            Ok(event) => {
                bad += u64::from(event.prev != prev);
                each(event)?;
            }
            Err(_) => bad += 1,
        }
        prev = link(line);
        Ok(())
    })?;
    Ok(bad)
}
