//! What could still help where a log can't be repaired, and whether it is there.

use std::path::{Path, PathBuf};

use crate::disk::{Root, open_elsewhere};
use crate::error::Result;
use crate::model::plan::{CaptureName, Count, FileState};
use crate::model::provider::Provider;
use crate::model::source::{LOCAL, SourceKey};
use crate::model::watch::Watch;
use crate::session_log::{
    self, Diagnosis, Entry, Form, Kind, ReadAt, Rebuilt, Seeking, Verdict, rebuild, session_folder,
};
use crate::store::layout;
use crate::store::mirror::{CaptureLine, MirrorReader};

use super::read::{MAX_IMAGE, open, whole};

/// Captured versions that are looked at, the newest first.
const VERSIONS: usize = 50;
/// Other sessions whose headers are read.
const SESSIONS: usize = 2_000;

/// A kind of evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvidenceKind {
    /// A log of the same session that an upgrade left beside it.
    OlderGeneration,
    /// A version of the log in the mirror.
    CapturedVersion,
    /// A backup of the archive, which holds what was read of the log.
    Backup,
    /// A session that was forked from this one and took its events over.
    ForkedChild,
    /// A process that has the session in its memory.
    LiveProcess,
}

/// One piece of evidence, or that there is none of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its kind.
    pub kind: EvidenceKind,
    /// Whether there is any.
    pub found: bool,
    /// Where it lies.
    pub path: Option<PathBuf>,
    /// The capture that it is.
    pub capture: Option<CaptureName>,
    /// The verdict on it, where it is a log.
    pub verdict: Option<Verdict>,
    /// Its sound events.
    pub events: Option<u64>,
    /// Whether the log can be made whole with it.
    pub completes: bool,
    /// What it is, or what to do to have it.
    pub what: String,
}

impl Found {
    fn of(kind: EvidenceKind, found: bool, what: String) -> Found {
        Found {
            kind,
            found,
            path: None,
            capture: None,
            verdict: None,
            events: None,
            completes: false,
            what,
        }
    }
}

/// A captured version with which the log is whole.
#[derive(Debug, Clone)]
pub(super) struct Older {
    pub(super) capture: CaptureName,
    pub(super) line: CaptureLine,
    pub(super) how: Rebuilt,
    /// The whole log.
    pub(super) bytes: Vec<u8>,
    pub(super) diagnosis: Diagnosis,
}

/// Whether what is wrong could be mended by bytes that are missing.
fn is_loss(diagnosis: &Diagnosis) -> bool {
    let loss = |v: Verdict| {
        matches!(
            v,
            Verdict::EmptyLog
                | Verdict::HeaderInvalid
                | Verdict::FrameCorrupt
                | Verdict::FrameLayoutInvalid
                | Verdict::NulPadding
                | Verdict::MissingMiddle
                | Verdict::TornFragmentThenAppend
                | Verdict::TornTailRecoverable
                | Verdict::InterruptedTurnRecoverable
        )
    };
    // What can be repaired from itself is.
    diagnosis.must_refuse
        && loss(diagnosis.verdict)
        && diagnosis.findings.iter().all(|f| loss(f.verdict))
}

/// Looks for evidence, and for a version that makes the log whole. Where two versions would make two
/// logs, none is taken.
pub(super) fn search(
    root: Option<&Root>,
    (entry, source): (&Entry, &FileState),
    diagnosis: &Diagnosis,
    watch: Watch<'_>,
) -> Result<(Vec<Found>, Option<Older>)> {
    let mut found = generations(entry);
    let (versions, older) = versions(root, (entry, source), diagnosis, watch)?;
    found.extend(versions);
    found.push(backups(root));
    found.extend(children(entry, diagnosis));
    found.push(live(entry));
    Ok((found, older))
}

/// The captured version with the most events, if it is sound and has more than `events`.
pub(super) fn longer(found: &[Found], events: u64) -> Option<&Found> {
    found
        .iter()
        .filter(|f| f.capture.is_some())
        .filter(|f| f.verdict.is_some_and(Verdict::is_sound))
        .filter(|f| f.events > Some(events))
        .max_by_key(|f| f.events)
}

fn generations(entry: &Entry) -> Vec<Found> {
    let kind = EvidenceKind::OlderGeneration;
    let mut out: Vec<Found> = entry
        .siblings
        .iter()
        .map(|sibling| {
            let path = entry.path.with_file_name(&sibling.name);
            let looked = open(&path)
                .ok()
                .and_then(|f| session_log::examine(&f, sibling.log.into()).ok());
            let mut one = Found::of(
                kind,
                true,
                "what the session was before an upgrade; never read in its place".to_owned(),
            );
            one.verdict = looked.as_ref().map(|d| d.verdict);
            one.events = looked.as_ref().and_then(|d| d.valid_prefix_events);
            one.path = Some(path);
            one
        })
        .collect();
    if out.is_empty() {
        let what = "no older generation lies beside the log".to_owned();
        out.push(Found::of(kind, false, what));
    }
    out
}

fn versions(
    root: Option<&Root>,
    (entry, source): (&Entry, &FileState),
    diagnosis: &Diagnosis,
    watch: Watch<'_>,
) -> Result<(Vec<Found>, Option<Older>)> {
    let kind = EvidenceKind::CapturedVersion;
    let none = |what: &str| vec![Found::of(kind, false, what.to_owned())];
    let Some(mirror) = root.map(MirrorReader::open).transpose()?.flatten() else {
        return Ok((none("there is no mirror here"), None));
    };
    let Some(form) = entry.form() else {
        return Ok((none("a store is not put together from versions"), None));
    };
    let mut lines = Vec::new();
    for key in sources(&mirror, &entry.path)? {
        mirror.captures(key, &mut |line| {
            lines.push((key, line));
            Ok(())
        })?;
    }
    lines.sort_by_key(|(_, line)| line.at_ms);
    let passed_over = lines.len().saturating_sub(VERSIONS);
    let log = if is_loss(diagnosis) && source.len.0 <= MAX_IMAGE {
        open(&entry.path).and_then(|f| whole(&entry.path, &f)).ok()
    } else {
        None
    };
    let mut out: Vec<Found> = Vec::new();
    let (mut older, mut differ): (Option<Older>, bool) = (None, false);
    for (key, line) in lines.into_iter().rev().take(VERSIONS) {
        watch.interrupt.check()?;
        if line.hash.to_hex() == source.blake3 {
            continue;
        }
        let capture = CaptureName {
            source: key.to_string(),
            seq: Count(line.seq),
        };
        let what = match is_loss(diagnosis) && source.len.0.max(line.len) > MAX_IMAGE {
            true => "a version of this log; it is too large to be compared",
            false => "a version of this log",
        };
        let mut one = Found::of(kind, true, what.to_owned());
        one.capture = Some(capture.clone());
        match mirror.open_content(line.recipe, line.len) {
            Ok(content) => {
                let content = Seeking::new(content);
                if let Ok(d) = session_log::examine(&content, form) {
                    one.verdict = Some(d.verdict);
                    one.events = d.valid_prefix_events;
                    if let Some(log) = log.as_deref().filter(|_| d.is_sound())
                        && let Some((how, bytes, diagnosis)) = made(log, &content, line.len, form)
                        && belongs(entry, &diagnosis)
                    {
                        one.completes = true;
                        one.what = "agrees with the log before and behind what it lost".to_owned();
                        // One log is held, however many versions give it.
                        match &older {
                            Some(first) => differ |= first.bytes != bytes,
                            None => {
                                older = Some(Older {
                                    capture,
                                    line,
                                    how,
                                    bytes,
                                    diagnosis,
                                });
                            }
                        }
                    }
                }
            }
            Err(e) => one.what = format!("can't be read from the mirror: {}", e.message()),
        }
        out.push(one);
    }
    if out.is_empty() {
        out = none("the mirror has no other version of this log");
    }
    if passed_over > 0 {
        let what = format!("{passed_over} older captured versions were not looked at");
        out.push(Found::of(kind, true, what));
    }
    if differ {
        for one in &mut out {
            one.completes = false;
        }
        let what = "versions of this log would make different logs of it: none is chosen";
        out.extend(none(what));
        older = None;
    }
    Ok((out, older))
}

/// The sources that may hold versions of a log: itself, and files of its name in a folder of its
/// session's name, elsewhere or on another machine. Only their bytes say whether they do.
fn sources(mirror: &MirrorReader<'_>, path: &Path) -> Result<Vec<SourceKey>> {
    let own = SourceKey::derive(LOCAL, Provider::Dsh, path);
    let names = |path: &Path| {
        let folder = path.parent().and_then(Path::file_name);
        (
            folder.map(ToOwned::to_owned),
            path.file_name().map(ToOwned::to_owned),
        )
    };
    let wanted = names(path);
    let mut out = vec![own];
    mirror.for_each_head(&mut |head| {
        let ident = head.ident;
        if ident.provider == Provider::Dsh && ident.key != own && names(&ident.path) == wanted {
            out.push(ident.key);
        }
        Ok(())
    })?;
    Ok(out)
}

/// The whole log, if this version, which is sound, makes it whole.
fn made<S: ReadAt>(
    log: &[u8],
    version: &S,
    len: u64,
    form: Form,
) -> Option<(Rebuilt, Vec<u8>, Diagnosis)> {
    let mut bytes = vec![0; usize::try_from(len).ok().filter(|_| len <= MAX_IMAGE)?];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|r| !r.is_empty()) {
        match version.read_at(rest, done as u64).ok()? {
            0 => return None,
            n => done += n,
        }
    }
    let how = rebuild(log, &bytes, form).ok()??;
    bytes.truncate(usize::try_from(how.taken).ok()?);
    bytes.extend_from_slice(log.get(usize::try_from(how.from).ok()?..)?);
    let diagnosis = session_log::examine(&bytes, form).ok()?;
    diagnosis.is_sound().then_some((how, bytes, diagnosis))
}

/// Whether the header, which may be the version's, is one of a log that lies there.
fn belongs(entry: &Entry, diagnosis: &Diagnosis) -> bool {
    let header = diagnosis.header.as_ref();
    header.is_some_and(|h| session_log::identity(entry, h).is_none())
}

fn backups(root: Option<&Root>) -> Found {
    let kind = EvidenceKind::Backup;
    let folders = root.and_then(|r| r.list(layout::BACKUPS).ok().flatten());
    let n = folders.map_or(0, |l| l.len());
    let what = match n {
        0 => "no backup of the archive is here. A copy of the log from any other backup counts once it \
              is captured, from a folder of the session's name below a root of its own"
            .to_owned(),
        n => format!(
            "{n} in the data directory hold what was read of the log, by messages: `cass view` \
             shows them, and no log is made of them"
        ),
    };
    Found::of(kind, n > 0, what)
}

/// Sessions below the same root that name this one as the one they were forked from.
fn children(entry: &Entry, diagnosis: &Diagnosis) -> Vec<Found> {
    let kind = EvidenceKind::ForkedChild;
    let own = entry.folders.as_ref().map(|(_, s)| s.clone());
    let own = own.or_else(|| diagnosis.header.as_ref().map(|h| session_folder(&h.id)));
    let root = entry.folders.as_ref().and(entry.path.ancestors().nth(3));
    let around = root.and_then(|r| session_log::look(r).ok());
    let others = || around.iter().flat_map(|l| &l.entries);
    let mut out = Vec::new();
    for other in others().take(SESSIONS) {
        if other.path == entry.path || !matches!(other.kind, Kind::Log(_)) {
            continue;
        }
        let Some((header, form)) = header_of(other) else {
            continue;
        };
        let parent = header.parent.as_deref().map(session_folder);
        if parent.is_none() || parent != own {
            continue;
        }
        let looked = open(&other.path)
            .ok()
            .and_then(|f| session_log::examine(&f, form).ok());
        let mut one = Found::of(
            kind,
            true,
            "a fork of the session: its first events are this log's, under the same numbers"
                .to_owned(),
        );
        one.path = Some(other.path.clone());
        one.verdict = looked.as_ref().map(|d| d.verdict);
        one.events = Some(header.seed_length).filter(|n| *n > 0);
        out.push(one);
    }
    if out.is_empty() {
        let what = "no session below the same root was forked from this one".to_owned();
        out.push(Found::of(kind, false, what));
    }
    let passed_over = others().count().saturating_sub(SESSIONS);
    if passed_over > 0 {
        let what = format!("{passed_over} sessions below the same root were not looked at");
        out.push(Found::of(kind, false, what));
    }
    out
}

fn header_of(entry: &Entry) -> Option<(session_log::Header, Form)> {
    let form = entry.form()?;
    let file = open(&entry.path).ok()?;
    let header = session_log::header_of(&file, form).ok().flatten()?;
    Some((header, form))
}

fn live(entry: &Entry) -> Found {
    let pids = open(&entry.path).map_or_else(|_| Vec::new(), |f| open_elsewhere(&f));
    let go_on = "a session that still runs holds all of it in memory. Stop prompting, let it come to \
                 rest, capture it (`cass index`), end it, and check the log as it lies then: it may \
                 work only until it is loaded again";
    let what = match pids.as_slice() {
        [] => format!("no process is seen that has the log open. {go_on}"),
        pids => {
            let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
            format!("process {} has the log open; {go_on}", pids.join(", "))
        }
    };
    Found::of(EvidenceKind::LiveProcess, !pids.is_empty(), what)
}
