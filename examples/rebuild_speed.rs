//! Makes a candidate archive from the mirror of a data directory, with times. The candidate stays.
//!
//! `cargo run --release --example rebuild_speed -- DATA_DIR`

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use cass::disk::{Capture, Root, WriterLock};
use cass::env::Env;
use cass::ingest::rebuild::replay;
use cass::model::interrupt::Interrupt;
use cass::model::progress::Silent;
use cass::model::watch::Watch;
use cass::store::archive::ArchiveWriter;
use cass::store::generation::{Live, locate, next_id};
use cass::store::mirror::MirrorWriter;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args_os().nth(1).map(PathBuf::from);
    let dir = dir.ok_or("name a data directory")?;
    let env = Env::from_process(Some(dir.clone()))?;
    let root = Root::open(&dir)?.ok_or("no data directory")?;
    let Live::Present(live) = locate(&root)? else {
        return Err("no archive".into());
    };
    let id = next_id(&root)?;
    let lock = WriterLock::acquire(root, "rebuild-speed", 0)?;
    let cap = Capture::new(&lock);
    let mut mirror = MirrorWriter::open(cap, 0)?;
    let interrupt = Interrupt::default();
    let watch = Watch {
        progress: &Silent,
        interrupt: &interrupt,
    };
    let begun = Instant::now();
    let mut archive = ArchiveWriter::stage(cap, &id, &live.manifest.archive_id, 0)?;
    let rebuilt = replay(&env, cap, &mut mirror, &mut archive, watch)?;
    let replayed = begun.elapsed().as_secs_f64();
    archive.finish_staged(cap, None)?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|l| l.starts_with("VmHWM"));
    writeln!(
        io::stdout().lock(),
        "{} messages of {} captures in {replayed:.2} s, finished after {:.2} s; unread {}; {}",
        rebuilt.read.messages,
        rebuilt.read.parsed,
        begun.elapsed().as_secs_f64(),
        rebuilt.unread.len(),
        peak.unwrap_or("peak unknown"),
    )?;
    Ok(())
}
