//! A session of 64 MB is read, set and put back in the memory that a small one needs.

use std::cell::Cell;
use std::io::Read;
use std::process::{Child, Stdio};

use crate::sandbox::Sandbox;

const ID: &str = "11111111-2222-4333-8444-555555555555";

/// A session of about `mb` megabytes, indexed; in turns of a person, a tool call and its result.
fn session(mb: usize) -> Sandbox {
    let sandbox = Sandbox::in_memory();
    let words = "some words of a line that goes on for a while ".repeat(40);
    let mut text = String::with_capacity(mb << 20);
    let mut n = 0;
    while text.len() < mb << 20 {
        n += 1;
        let common = format!(
            "\"sessionId\":\"{ID}\",\"cwd\":\"/w\",\"timestamp\":\"2026-01-02T03:04:05.000Z\""
        );
        text.push_str(&format!(
            "{{\"type\":\"user\",\"uuid\":\"u{n}\",{common},\"message\":{{\"role\":\"user\",\
             \"content\":\"{n} {words}\"}}}}\n\
             {{\"type\":\"assistant\",\"uuid\":\"a{n}\",{common},\"message\":{{\"role\":\"assistant\",\
             \"content\":[{{\"type\":\"tool_use\",\"id\":\"t{n}\",\"name\":\"Bash\",\
             \"input\":{{\"n\":\"{n}\",\"w\":\"{words}\"}}}}]}}}}\n"
        ));
    }
    sandbox.put(&format!(".claude/projects/-w/{ID}.jsonl"), text.as_bytes());
    drop(text);
    sandbox.run(&["index"]).expect(0);
    sandbox
}

fn high_water(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Peak in KiB, and how much was printed. The pipe holds the command back, so that the last look
/// comes when nearly all is done.
fn peak(sandbox: &Sandbox, args: &[&str]) -> (u64, u64) {
    let mut child = sandbox
        .command(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let (mut peak, mut printed) = (0, 0);
    let mut buf = vec![0u8; 1 << 16];
    loop {
        let n = stdout.read(&mut buf).unwrap();
        peak = peak.max(high_water(&child).unwrap_or(0));
        if n == 0 {
            break;
        }
        printed += n as u64;
    }
    let out = child.wait_with_output().unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    (peak, printed)
}

/// Peak in KiB of a command that prints little: of three runs the highest that was seen, since a
/// short run may end between two looks.
fn peak_of_work(sandbox: &Sandbox, run: &dyn Fn(&Sandbox) -> Child) -> u64 {
    (0..3).map(|_| peak_of_run(run(sandbox))).max().unwrap()
}

fn peak_of_run(mut child: Child) -> u64 {
    let mut peak = 0;
    loop {
        peak = peak.max(high_water(&child).unwrap_or(0));
        if let Some(status) = child.try_wait().unwrap() {
            assert!(status.success());
            return peak;
        }
        std::thread::yield_now();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn memory_does_not_grow_with_the_session() {
    let (small, large) = (session(8), session(64));
    // A session is never put over what is there.
    let count = Cell::new(0);
    let to = |sandbox: &Sandbox| {
        count.set(count.get() + 1);
        let to = sandbox.path().join(format!("to {}", count.get()));
        to.to_str().unwrap().to_owned()
    };
    let mut figures = Vec::new();
    for args in [
        &["export", ID, "--format", "html"][..],
        &["export", ID, "--format", "markdown"],
        &["view", ID, "--raw", "--count", "1000000"],
    ] {
        let ((few, _), (many, printed)) = (peak(&small, args), peak(&large, args));
        assert!(printed > 48 << 20, "{args:?}: {printed}");
        figures.push((args[1..].join(" "), few, many));
    }
    for args in [
        &["sessions", "restore", ID, "--to"][..],
        &["stats"],
        &["view", ID, "--from", "90000"],
    ] {
        let run = |sandbox: &Sandbox| {
            let mut words = args.to_vec();
            let to = to(sandbox);
            if args.last() == Some(&"--to") {
                words.push(&to);
            }
            let command = sandbox.command(&words).stdout(Stdio::null()).spawn();
            command.unwrap()
        };
        let few = peak_of_work(&small, &run);
        figures.push((args.join(" "), few, peak_of_work(&large, &run)));
    }
    for (what, few, many) in &figures {
        println!("{what}: {few} KiB at 8 MB, {many} KiB at 64 MB");
    }
    for (what, few, many) in figures {
        assert!(
            many < few + (12 << 10) && many < 64 << 10,
            "{what}: {few} {many}"
        );
    }
}
