//! What decides whether a source is read: the cheap gate, and `--full` for when metadata lies.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::sandbox::Sandbox;

const REL: &str = ".claude/projects/-p/s.jsonl";

fn line(text: &str) -> Vec<u8> {
    format!("{{\"type\":\"user\",\"uuid\":\"{text}\",\"message\":{{\"content\":\"{text}\"}}}}\n")
        .into_bytes()
}

fn set_time(path: &Path, time: SystemTime) {
    std::fs::File::open(path)
        .unwrap()
        .set_modified(time)
        .unwrap();
}

/// The files and folders below the folders of `dirs` that are opened while `during` runs.
#[cfg(target_os = "linux")]
fn opened(dirs: &[PathBuf], during: impl FnOnce()) -> Vec<String> {
    use rustix::fs::inotify;
    let watch =
        inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
    for dir in dirs {
        inotify::add_watch(
            &watch,
            dir,
            inotify::WatchFlags::OPEN | inotify::WatchFlags::ACCESS,
        )
        .unwrap();
    }
    during();
    let mut seen = Vec::new();
    let mut buf = [std::mem::MaybeUninit::uninit(); 8192];
    let mut events = inotify::Reader::new(&watch, &mut buf);
    while let Ok(event) = events.next() {
        assert!(!event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW));
        // A folder has to be opened to be listed.
        if !event.events().contains(inotify::ReadFlags::ISDIR) {
            seen.push(
                event
                    .file_name()
                    .map_or(String::new(), |n| n.to_string_lossy().into_owned()),
            );
        }
    }
    seen
}

#[test]
#[cfg(target_os = "linux")]
fn ten_thousand_unchanged_sources_are_a_no_op_that_opens_none() {
    let sandbox = Sandbox::in_memory();
    let mut dirs = Vec::new();
    for project in 0..100 {
        let dir = sandbox
            .home()
            .join(format!(".claude/projects/-src-{project:03}"));
        std::fs::create_dir_all(&dir).unwrap();
        for n in 0..100 {
            let name = format!("{project:03}-{n:03}");
            std::fs::write(dir.join(format!("{name}.jsonl")), line(&name)).unwrap();
            set_time(
                &dir.join(format!("{name}.jsonl")),
                SystemTime::UNIX_EPOCH + Duration::from_secs(n),
            );
        }
        dirs.push(dir);
    }
    // The watch sees an opened file when there is one.
    let one = dirs[7].join("007-007.jsonl");
    assert!(!opened(&dirs, || drop(std::fs::read(&one).unwrap())).is_empty());

    let first = sandbox.run(&["index"]).expect(0);
    assert_eq!(first.number("/sources/captured"), 10_000);
    assert_eq!(first.number("/archived/messages"), 10_000);

    let seen = opened(&dirs, || {
        let second = sandbox.run(&["index"]).expect(0);
        assert_eq!(second.text("/status"), "no-op");
        assert_eq!(second.number("/sources/seen"), 10_000);
        assert_eq!(second.number("/sources/unchanged"), 10_000);
    });
    assert!(
        seen.is_empty(),
        "{} opened, among them {:?}",
        seen.len(),
        seen.first()
    );

    // One of them changed: it alone is opened.
    std::fs::write(&one, [line("007-007"), line("more")].concat()).unwrap();
    let mut seen = opened(&dirs, || {
        let third = sandbox.run(&["index"]).expect(0);
        assert_eq!(third.number("/sources/captured"), 1);
        assert_eq!(third.number("/archived/messages"), 1);
    });
    seen.sort();
    seen.dedup();
    assert_eq!(seen, ["007-007.jsonl"]);
}

#[test]
fn other_bytes_behind_the_same_size_and_time_need_full() {
    let sandbox = Sandbox::new();
    let path = sandbox.put(REL, &line("before"));
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    sandbox.run(&["index"]).expect(0);

    std::fs::write(&path, line("behind")).unwrap();
    set_time(&path, time);
    let missed = sandbox.run(&["index"]).expect(0);
    assert_eq!(missed.text("/status"), "no-op");
    assert_eq!(sandbox.captures(&path).len(), 1);

    let full = sandbox.run(&["index", "--full"]).expect(0);
    assert_eq!(full.number("/sources/captured"), 1);
    assert!(sandbox.get(&path, 2) == line("behind"));
    assert!(sandbox.get(&path, 1) == line("before"));
    let again = sandbox.run(&["index", "--full"]).expect(0);
    assert_eq!(again.text("/status"), "no-op");
    assert_eq!(sandbox.captures(&path).len(), 2);
}

#[test]
fn a_time_from_the_future_or_before_all_time_hides_nothing_and_costs_nothing() {
    let now = SystemTime::now();
    for time in [
        now + Duration::from_secs(86_400 * 400),
        SystemTime::UNIX_EPOCH - Duration::from_secs(5),
    ] {
        let sandbox = Sandbox::new();
        let path = sandbox.put(REL, &line("one"));
        set_time(&path, time);
        sandbox.run(&["index"]).expect(0);
        let idle = sandbox.run(&["index"]).expect(0);
        assert_eq!(idle.text("/status"), "no-op");

        // The same time, another size.
        std::fs::write(&path, [line("one"), line("two")].concat()).unwrap();
        set_time(&path, time);
        let grown = sandbox.run(&["index"]).expect(0);
        assert_eq!(
            (
                grown.number("/sources/captured"),
                grown.number("/archived/messages")
            ),
            (1, 1)
        );

        // The same size, another time and other bytes.
        std::fs::write(&path, [line("one"), line("owt")].concat()).unwrap();
        set_time(&path, time + Duration::from_secs(1));
        let rewritten = sandbox.run(&["index"]).expect(0);
        assert_eq!(rewritten.number("/sources/captured"), 1);
        assert_eq!(sandbox.captures(&path).len(), 3);
    }
}

#[test]
fn a_new_time_alone_is_no_new_version() {
    let sandbox = Sandbox::new();
    let path = sandbox.put(REL, &line("one"));
    sandbox.run(&["index"]).expect(0);
    set_time(&path, SystemTime::now() - Duration::from_secs(60));
    let touched = sandbox.run(&["index"]).expect(0);
    assert_eq!(touched.text("/status"), "no-op");
    assert_eq!(sandbox.captures(&path).len(), 1);
}
