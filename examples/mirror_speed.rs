//! Captures files into a new mirror and checks it, with times.
//!
//! `cargo run --release --example mirror_speed -- DATA_DIR FILE...`

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

use cass::disk::{Capture, Root, WriterLock};
use cass::model::provider::Provider;
use cass::store::mirror::{CaptureMeta, MirrorReader, MirrorWriter, Shape, SourceIdent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let dir = args.next().ok_or("name a data directory")?;
    let files: Vec<PathBuf> = args.collect();
    let mut out = io::stdout().lock();
    let lock = WriterLock::acquire(Root::open_or_create(&dir)?, "mirror-speed", 0)?;
    let begun = Instant::now();
    let mut writer = MirrorWriter::open(Capture::new(&lock), 0)?;
    let mut bytes = 0;
    for path in &files {
        let ident = SourceIdent::new("local", Provider::Claude, path.clone());
        let mut file = std::fs::File::open(path)?;
        bytes += writer
            .add_stream(&ident, &mut file, Shape::Text, CaptureMeta::default())?
            .len;
    }
    writer.finish()?;
    let rate = |begun: Instant| bytes as f64 / begun.elapsed().as_secs_f64() / 1e6;
    writeln!(
        out,
        "capture: {} files, {bytes} bytes, {:.2} s, {:.0} MB/s",
        files.len(),
        begun.elapsed().as_secs_f64(),
        rate(begun)
    )?;
    let begun = Instant::now();
    let mut writer = MirrorWriter::open(Capture::new(&lock), 0)?;
    let mut heads = 0u64;
    writer.for_each_head(&mut |_| {
        heads += 1;
        Ok(())
    })?;
    drop(writer);
    writeln!(
        out,
        "open and read {heads} heads: {:.1} ms",
        begun.elapsed().as_secs_f64() * 1e3
    )?;
    let begun = Instant::now();
    let root = lock.root();
    let reader = MirrorReader::open(root)?.ok_or("no mirror")?;
    let summary = reader.verify(true, &mut || false, &mut |_| {})?;
    writeln!(
        out,
        "verify deep: {:.2} s, {:.0} MB/s, {} objects, {} problems",
        begun.elapsed().as_secs_f64(),
        rate(begun),
        summary.objects,
        summary.problems
    )?;
    Ok(())
}
