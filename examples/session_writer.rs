//! A harness that writes its session through `cass`: it appends behind what it read, and reads
//! again when somebody else was first.
//!
//! ```text
//! cargo run --example session_writer -- DATA_DIR SESSIONS_ROOT SESSION_ID TURNS
//! ```
//!
//! Run it twice at once on the same session: the turns of both are there, in one dense log.

#![allow(clippy::print_stdout, clippy::print_stderr)] // it speaks to a person

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use cass::session_writer::{Refusal, Revision, SessionLog, Sessions, WriteError};

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("session_writer: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [data, root, id, turns] = args.as_slice() else {
        return Err("usage: session_writer DATA_DIR SESSIONS_ROOT SESSION_ID TURNS".into());
    };
    let turns: u64 = turns.parse()?;
    let sessions = Sessions::open(Path::new(data), Path::new(root), Duration::from_secs(30))?;
    let (log, mut known) = begin(&sessions, id)?;
    let mut last_turn = 0;
    count_turns(&log, &mut last_turn)?;

    for _ in 0..turns {
        loop {
            let batch = turn(known.next_seq, last_turn + 1);
            match log.append(&known, batch.as_bytes()) {
                Ok(now) => {
                    known = now;
                    last_turn += 1;
                    break;
                }
                // Somebody was first. What this harness knew must still be there; it takes what
                // came behind it into its own state, and only then decides what to say.
                Err(WriteError::Refused(Refusal::Changed { .. })) => {
                    known = log.since(&known, &mut |line| last_turn += u64::from(starts(line)))?;
                }
                Err(e) => return Err(e.into()),
            }
        }
    }
    println!("{} events in {}", known.next_seq, log.path().display());
    Ok(())
}

/// Finds the session, or publishes it. Of two that publish at once one finds the other's.
fn begin<'s>(
    sessions: &'s Sessions,
    id: &str,
) -> Result<(SessionLog<'s>, Revision), Box<dyn Error>> {
    if sessions.find(id)?.is_none() {
        let header = format!(
            r#"{{"type":"session","version":1,"id":{id:?},"createdAt":0,"cwd":"/w","delegationDepth":0}}"#
        );
        match sessions.create(false, header.as_bytes(), b"") {
            Ok(made) => return Ok(made),
            Err(WriteError::Unreached(e)) if e.kind() == cass::error::ErrorKind::TargetExists => {}
            Err(e) => return Err(e.into()),
        }
    }
    let log = sessions.find(id)?.ok_or("the session is gone")?;
    let known = log.revision()?;
    Ok((log, known))
}

fn count_turns(log: &SessionLog<'_>, turns: &mut u64) -> Result<(), Box<dyn Error>> {
    for line in std::fs::read(log.path())?.split(|b| *b == b'\n') {
        *turns += u64::from(starts(line));
    }
    Ok(())
}

fn starts(line: &[u8]) -> bool {
    line.starts_with(br#"{"type":"turn/start""#)
}

fn turn(seq: u64, turn: u64) -> String {
    format!(
        "{{\"type\":\"turn/start\",\"seq\":{seq},\"time\":0,\"data\":{{\"turn\":{turn}}}}}\n\
         {{\"type\":\"turn/end\",\"seq\":{},\"time\":0,\"data\":{{\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}}}}}\n",
        seq + 1
    )
}
