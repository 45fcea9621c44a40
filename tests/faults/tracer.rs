//! A command under strace, with a fault at one of its calls.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// What asks for a kill at the entry of a call, as strace words it.
const KILL: &str = ":signal=SIGKILL:";
/// How a call is held instead until the process is killed; far longer than that takes.
const HOLD: &str = ":delay_enter=60s:";

/// How a run with a fault ended.
#[derive(Debug)]
pub struct Ended {
    pub out: Output,
    /// What the run wrote to its stdout.
    pub document: Vec<u8>,
    pub log: String,
    pub killed: bool,
}

/// Runs `command`, which is given the arguments of strace that go before its own; what it writes to
/// its stdout and the log are kept in `dir`.
///
/// The kernel's filter lets calls that are not traced pass without a stop, which takes a third of the
/// time. A signal that strace injects is lost there, so a call that is to be the first that did not
/// happen is held at its entry, and the process is killed from here.
pub fn under_strace(
    dir: &Path,
    options: &[String],
    command: impl FnOnce(&[String]) -> Command,
) -> Ended {
    let (log, document) = (dir.join("strace.log"), dir.join("out.json"));
    let _ = fs::remove_file(&log);
    let mut all: Vec<String> = ["--seccomp-bpf", "-f", "-y", "-qq", "-o"]
        .map(str::to_owned)
        .to_vec();
    all.push(log.to_string_lossy().into_owned());
    all.extend(options.iter().map(|o| o.replace(KILL, HOLD)));
    // A file, for a pipe has another name in each run.
    let stdout = fs::File::create(&document).expect("a file");
    let mut child = command(&all)
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn()
        .expect("strace starts");
    if let Some((name, k)) = options.iter().find_map(|o| killed_at(o)) {
        kill_when_held(&mut child, &log, name, k);
    }
    let out = child.wait_with_output().expect("strace ends");
    Ended {
        killed: out.status.signal() == Some(9) || out.status.code() == Some(137),
        document: fs::read(&document).unwrap_or_default(),
        log: read(&log),
        out,
    }
}

/// Name and number of the call at which an option asks for a kill.
fn killed_at(option: &str) -> Option<(&str, usize)> {
    let (name, when) = option.strip_prefix("inject=")?.split_once(KILL)?;
    let k = when.strip_prefix("when=")?.parse().ok()?;
    Some((name, k))
}

/// strace writes a call down at its entry, and counts in each thread by itself.
fn kill_when_held(child: &mut Child, log: &Path, name: &str, k: usize) {
    while child.try_wait().expect("a child").is_none() {
        let text = read(log);
        let mut came: BTreeMap<String, usize> = BTreeMap::new();
        for (thread, _) in text
            .lines()
            .filter_map(thread_name)
            .filter(|(_, n)| n == name)
        {
            let came = came.entry(thread.clone()).or_default();
            *came += 1;
            if *came == k {
                let process = process_of(&thread);
                let pid = process.parse().ok().and_then(Pid::from_raw);
                let _ = kill_process(pid.expect("its number"), Signal::KILL);
                // It would wait for the held call to go on.
                let _ = child.kill();
                while !is_gone(&process) {
                    std::thread::sleep(Duration::from_micros(200));
                }
                return;
            }
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// The process that a thread is of.
fn process_of(thread: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let group = status.lines().find_map(|l| l.strip_prefix("Tgid:"));
    group.map_or(thread, str::trim).to_owned()
}

/// Whether nothing of a process is left but, perhaps, its first thread as a zombie, which holds
/// neither files nor locks.
fn is_gone(process: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let state = status.lines().find_map(|l| l.strip_prefix("State:"));
    threads <= 1 && state.is_none_or(|s| s.trim().starts_with('Z'))
}

fn read(log: &Path) -> String {
    String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned()
}

/// Thread and name of the call that a line of strace begins with.
pub fn thread_name(line: &str) -> Option<(String, String)> {
    let (thread, rest) = line.split_once(' ')?;
    let (name, _) = rest.trim_start().split_once('(')?;
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (!name.is_empty() && name.bytes().all(is_name)).then(|| (thread.to_owned(), name.to_owned()))
}
