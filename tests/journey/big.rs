//! Memory does not grow with a source. The source of 500 MB that the budget speaks of is indexed
//! by `scripts/bench.sh`; this one is as long as a debug build has time for.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::process::Stdio;

use crate::sandbox::{Sandbox, ran};

const MIB: u64 = 1 << 20;

/// Runs with `--json`; also returns the most memory it ever had, which the kernel keeps count of.
fn peak(sandbox: &Sandbox, args: &[&str]) -> (crate::sandbox::Ran, u64) {
    let mut command = sandbox.command(args);
    command
        .arg("--json")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        // Gone once the process has ended; until then it never falls.
        let now = std::fs::read_to_string(&status).unwrap_or_default();
        let line = now.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        if let Some(kib) = line.and_then(|l| l.trim().strip_suffix(" kB")) {
            most = kib.parse::<u64>().unwrap() * 1024;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(most > MIB, "the memory of the process was never seen");
    (ran(child.wait_with_output().unwrap()), most)
}

/// Lines of about a kilobyte, no two alike, up to `len` bytes; returns the number of lines.
fn write(path: &std::path::Path, len: u64) -> u64 {
    let mut out = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path).unwrap());
    let mut hash = blake3::Hasher::new().finalize_xof();
    let (mut lines, mut bytes) = (0u64, 0);
    let mut body = [0u8; 800];
    while bytes < len {
        hash.fill(&mut body);
        // Letters that a JSON string holds as they are, and not too many, so that it compresses.
        body.iter_mut().for_each(|b| *b = b'a' + (*b & 15));
        let text = std::str::from_utf8(&body).unwrap();
        let line = format!(
            "{{\"parentUuid\":null,\"sessionId\":\"big\",\"type\":\"assistant\",\"uuid\":\"u{lines}\",\
             \"timestamp\":\"2026-01-01T00:00:00.000Z\",\"message\":{{\"role\":\"assistant\",\
             \"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}\n"
        );
        out.write_all(line.as_bytes()).unwrap();
        bytes += line.len() as u64;
        lines += 1;
    }
    out.into_inner().unwrap();
    lines
}

#[test]
fn a_source_of_120_megabytes_is_indexed_within_256_mib() {
    let sandbox = Sandbox::new();
    let path = sandbox.put(".claude/projects/-p/big.jsonl", b"");
    let lines = write(&path, 120_000_000);
    let (indexed, most) = peak(&sandbox, &["index"]);
    let indexed = indexed.expect(0);
    println!("index: {} MiB", most / MIB);
    assert_eq!(indexed.number("/archived/messages"), lines);
    assert!(most <= 256 * MIB, "{} MiB", most / MIB);

    // What grew is read on from where it was, and costs as little.
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    file.write_all(b"{\"type\":\"user\",\"sessionId\":\"big\",\"uuid\":\"last\",\"message\":{\"content\":\"x\"}}\n").unwrap();
    drop(file);
    let (grown, most) = peak(&sandbox, &["index"]);
    assert_eq!(grown.expect(0).number("/archived/messages"), 1);
    assert!(most <= 256 * MIB, "{} MiB", most / MIB);

    let out = sandbox.path().join("out");
    let get = [
        "mirror",
        "get",
        path.to_str().unwrap(),
        "-o",
        out.to_str().unwrap(),
    ];
    let (got, most) = peak(&sandbox, &get);
    got.expect(0);
    assert!(most <= 256 * MIB, "{} MiB", most / MIB);
    let hash = |p: &std::path::Path| {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update_reader(std::fs::File::open(p).unwrap())
            .unwrap();
        hasher.finalize()
    };
    assert_eq!(hash(&out), hash(&path));
}
