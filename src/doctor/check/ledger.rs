//! The coverage ledger against the archive: its end always, every line with `--deep`.

use super::context::Context;
use super::findings::which;
use crate::error::{Error, ErrorKind, Result};
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason};
use crate::model::next::Next;
use crate::store::archive::{ArchiveReader, Head};
use crate::store::coverage::{self, CommitLine, Line, Tail};
use crate::store::layout;

const ID: CheckId = CheckId::ArchiveCommits;
/// Commits that a writer acknowledges together at most: so many lines can be missing after a
/// crash or while it runs, and more can't.
const BATCH: u64 = 64;

/// The end of the ledger. Read it before the archive is opened: a line is written after its
/// commit, so what this promises is then in the archive, whoever writes meanwhile.
pub(super) fn end(cx: &Context) -> Result<Option<Tail>> {
    match &cx.root {
        Some(root) => coverage::tail(root),
        None => Ok(None),
    }
}

fn finding(code: &'static str, severity: Severity, message: impl Into<String>) -> Finding {
    Finding::new(ID, code, severity, layout::COVERAGE, message)
}

/// `archive.commits`
pub(super) fn commits(
    cx: &mut Context,
    reader: &ArchiveReader,
    head: Head,
    end: Result<Option<Tail>>,
) -> CheckResult {
    let mut found = Vec::new();
    match end {
        Ok(Some(tail)) => {
            compare(cx, reader, head, &tail, &mut found);
            if tail.torn_len > 0 {
                let message = format!(
                    "{} bytes of a line without its end, as a crash or a running writer leaves them",
                    tail.torn_len
                );
                found.push(finding("ledger-torn", Severity::Info, message).with_next(Next::Index));
            }
        }
        Ok(None) if head.commit == 0 => cx.commits_agree = true,
        Ok(None) => {
            let message = "the coverage ledger is gone or empty; the next index writes it anew from the archive";
            found.push(finding("ledger-missing", Severity::Error, message).with_next(Next::Index));
        }
        Err(e) => found.push(finding("ledger-damaged", Severity::Error, e.message())),
    }
    if !cx.request.deep {
        return CheckResult::ran(ID, found);
    }
    match walk(cx, reader, head, &mut found) {
        Ok(true) => {}
        Ok(false) => return CheckResult::unknown(ID, cx.stop_reason(), found),
        // Not a line of it can be read: the end said so already.
        Err(_) if !found.is_empty() => {}
        Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => {
            cx.archive_damaged = true;
            found.push(finding("archive-corrupt", Severity::Error, e.message()));
        }
        Err(e) => found.push(finding("ledger-damaged", Severity::Error, e.message())),
    }
    cx.commits_agree &= !found.iter().any(|f| f.severity == Severity::Error);
    CheckResult::ran(ID, found)
}

fn compare(
    cx: &mut Context,
    reader: &ArchiveReader,
    head: Head,
    tail: &Tail,
    found: &mut Vec<Finding>,
) {
    let manifest = &reader.generation().manifest;
    if tail.line.archive() != manifest.archive_id {
        let message = "the coverage ledger and generations/…/manifest.json name different archives";
        found.push(finding("ledger-foreign", Severity::Error, message));
        return;
    }
    let (generation, promised, promised_head) = tail.line.promise();
    if generation != &manifest.generation {
        let message = format!(
            "the coverage ledger ends in generation {generation}, the archive is {}",
            manifest.generation
        );
        found.push(finding("ledger-elsewhere", Severity::Error, message));
        return;
    }
    match reader.holds_commit(promised, promised_head) {
        Ok(true) => {
            cx.commits_agree = true;
            let behind = head.commit.saturating_sub(promised);
            if behind > 0 {
                let (code, severity, why) = if behind > BATCH {
                    ("ledger-cut", Severity::Error, "more than a crash can leave")
                } else {
                    ("ledger-behind", Severity::Info, "as a crash leaves it")
                };
                let message = format!(
                    "the coverage ledger is {behind} {} behind, {why}",
                    which(behind, "commit", "commits")
                );
                found.push(finding(code, severity, message).with_next(Next::Index));
            }
        }
        Ok(false) => {
            cx.commits_lost = true;
            let message = format!(
                "the archive is at commit {}, the coverage ledger promises commit {promised}; \
                 the captures are in the mirror",
                head.commit
            );
            found.push(finding("lost-commits", Severity::Error, message));
        }
        Err(e) => {
            cx.archive_damaged = true;
            found.push(finding("archive-corrupt", Severity::Error, e.message()));
        }
    }
}

/// Every line: its link to the line before, and its promise. The last line has no line behind it
/// that would tell of a change, so it is compared with the archive's rows word by word. `false`
/// when it was told to stop.
fn walk(
    cx: &Context,
    reader: &ArchiveReader,
    head: Head,
    found: &mut Vec<Finding>,
) -> Result<bool> {
    let Some(root) = &cx.root else {
        return Ok(true);
    };
    let live = &reader.generation().id;
    let mut wrong: Option<(u64, u64)> = None;
    let mut damaged: Option<(u64, u64, String)> = None;
    let mut last: Option<CommitLine> = None;
    let mut lines = 0u64;
    let mut stopped = false;
    let read = coverage::for_each(
        root,
        &mut |number, line| {
            lines = number;
            if number.is_multiple_of(64) && cx.should_stop() {
                stopped = true;
                return Err(Error::new(ErrorKind::BudgetExhausted, "stopped"));
            }
            let (generation, commit, promised) = line.promise();
            // Behind the snapshot that is read here lies what a running writer added, or what
            // was lost; the end of the ledger tells.
            let here = generation == live && commit <= head.commit;
            if here && !reader.holds_commit(commit, promised)? {
                wrong = Some(wrong.map_or((number, 1), |(first, n)| (first, n + 1)));
            }
            last = None;
            if let (Line::Commit(line), true) = (line, here) {
                last = Some(line);
            }
            Ok(())
        },
        &mut |p| {
            let so_far = damaged.take();
            damaged = Some(match so_far {
                Some((first, n, what)) => (first, n + 1, what),
                None => (p.line, 1, p.what),
            });
            Ok(())
        },
    );
    match read {
        Err(_) if stopped => return Ok(false),
        read => read?,
    };
    if let Some((line, n, what)) = damaged {
        let message = format!("line {line} of {lines} {what}");
        found.push(finding("ledger-damaged", Severity::Error, message).with_count(n));
    }
    if let Some((line, n)) = wrong {
        let message = format!("line {line} promises a commit that the archive does not hold so");
        found.push(finding("ledger-wrong", Severity::Error, message).with_count(n));
    } else if let Some(last) = last {
        let mut expected = reader.commit_line(last.commit)?;
        expected.prev.clone_from(&last.prev);
        if expected != last {
            let message = "the last line is not what the archive committed";
            found.push(finding("ledger-wrong", Severity::Error, message));
        }
    }
    Ok(true)
}

/// Nothing to compare.
pub(super) fn skipped(reason: SkipReason) -> CheckResult {
    CheckResult::skipped(ID, reason, None)
}
