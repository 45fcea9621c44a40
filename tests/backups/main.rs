//! What can be gone back to: made, listed, compared, and never believed when it is not what it
//! says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    missing_debug_implementations
)]

#[path = "../journey/sandbox.rs"]
#[allow(dead_code)]
mod sandbox;

mod hostile;
mod making;
mod sealing;
mod tampering;

use std::path::PathBuf;

use cass::disk::{Capture, Root, WriterLock};
use cass::error::Result;
use cass::model::interrupt::Interrupt;
use cass::store::backup::{self, Backup, Making};
use cass::store::generation::{Generation, Live, locate};

use sandbox::Sandbox;

/// A session of `n` messages.
pub fn session(n: usize) -> String {
    (0..n)
        .map(|n| {
            format!(
                "{{\"type\":\"user\",\"sessionId\":\"S\",\"uuid\":\"u{n}\",\"cwd\":\"/w\",\
                 \"timestamp\":\"2026-01-02T03:04:05.000Z\",\"message\":{{\"role\":\"user\",\
                 \"content\":\"message {n}\"}}}}\n"
            )
        })
        .collect()
}

/// An archive of one session.
pub fn indexed() -> Sandbox {
    let sandbox = Sandbox::in_memory();
    sandbox.put(".claude/projects/-p/S.jsonl", session(20).as_bytes());
    sandbox.run(&["index"]).expect(0);
    sandbox
}

pub fn root(sandbox: &Sandbox) -> Root {
    Root::open(&sandbox.data()).unwrap().unwrap()
}

/// Does something as the holder of the writer lock.
pub fn locked<T>(sandbox: &Sandbox, f: impl FnOnce(Capture<'_>) -> T) -> T {
    let lock = WriterLock::acquire(root(sandbox), "test", 0).unwrap();
    f(Capture::new(&lock))
}

pub fn live(root: &Root) -> Generation {
    match locate(root).unwrap() {
        Live::Present(live) => live,
        Live::Never { .. } => panic!("no archive"),
    }
}

pub fn back_up(sandbox: &Sandbox) -> Result<Backup> {
    locked(sandbox, |cap| {
        let making = Making {
            generation: &live(cap.root()),
            label: Some("before the trip"),
            run_id: None,
            now_ms: 1_700_000_000_000,
        };
        backup::create(cap, &making, &Interrupt::new())
    })
}

/// A file of the first backup.
pub fn file(sandbox: &Sandbox, name: &str) -> PathBuf {
    sandbox.data().join("backups/b00000001").join(name)
}
