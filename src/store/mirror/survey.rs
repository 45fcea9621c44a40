//! What is on disk: packs, ledgers, and what a walk over the unknown part of a pack finds.
//! Reads only; the writer's recovery and the reader share it.

use super::index::SourceRow;
use super::ledger::{self, Entry, LineHash};
use super::pack::{self, Event, Loc, PACK_HEADER, Walk};
use super::types::{CaptureLine, Head, MirrorProblem, ProblemKind, SourceIdent, StatGate};
use crate::disk::{EntryKind, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::source::SourceKey;
use crate::store::layout;
use crate::store::version::{is_newer, too_new};

/// The only content of `FORMAT` this version writes.
pub(super) const FORMAT_TEXT: &[u8] = b"cass-mirror 1\n";

/// What `FORMAT` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Nothing is there.
    Absent,
    /// This version.
    Ours,
    /// Something that no version wrote.
    Damaged,
}

/// Refuses a mirror that a later version wrote. Makes and takes nothing, so a writer asks before it
/// takes its lock.
///
/// # Errors
/// `mirror-too-new`; `io`.
pub fn refuse_newer(root: &Root) -> Result<()> {
    format(root).map(drop)
}

/// Looks at `FORMAT`.
///
/// # Errors
/// `mirror-too-new`; `io`.
pub(super) fn format(root: &Root) -> Result<Format> {
    let Some(bytes) = root.read(layout::MIRROR_FORMAT, 4096)? else {
        return Ok(Format::Absent);
    };
    if bytes == FORMAT_TEXT {
        return Ok(Format::Ours);
    }
    let version = std::str::from_utf8(&bytes)
        .ok()
        .and_then(|t| t.strip_prefix("cass-mirror "))
        .and_then(|t| t.trim_end().parse::<i64>().ok());
    let path = root.full(layout::MIRROR_FORMAT).display().to_string();
    match version {
        Some(n) if is_newer(n, 1) => Err(too_new(
            ErrorKind::MirrorTooNew,
            &path,
            "mirror format",
            n,
            1,
        )),
        _ => Ok(Format::Damaged),
    }
}

/// Number and length of every pack, by number; `stray` hears of everything else in the folder.
pub(super) fn packs(root: &Root, stray: &mut dyn FnMut(String)) -> Result<Vec<(u32, u64)>> {
    let mut out = Vec::new();
    for entry in root.list(layout::PACKS)?.unwrap_or_default() {
        match pack::number(&entry.name) {
            Some(n) if entry.kind == EntryKind::File => {
                // Gone between the two calls can't be: nothing removes packs.
                if let Some(len) = root.file_len(&layout::pack(n))? {
                    out.push((n, len));
                }
            }
            _ => stray(format!("{}/{}", layout::PACKS, entry.name)),
        }
    }
    Ok(out)
}

/// Missing packs that are named one by one.
const GAP_NAMED: u32 = 64;

/// Reports the packs from `from` to before `to`. A pack with a wrong name may claim any number, so
/// only the first are named.
pub(super) fn gap(from: u32, to: u32, report: &mut dyn FnMut(MirrorProblem)) {
    let named = to.min(from.saturating_add(GAP_NAMED));
    for n in from..named {
        report(problem(
            ProblemKind::Pack,
            layout::pack(n),
            None,
            "the pack is missing",
        ));
    }
    if named < to {
        report(problem(
            ProblemKind::Pack,
            layout::pack(named),
            None,
            format!(
                "{} packs from this one on are missing, or the next one has a wrong name",
                to - named
            ),
        ));
    }
}

/// The highest number of a pack whose header agrees with its name: others may be called anything.
pub(super) fn newest_sound(root: &Root, packs: &[(u32, u64)]) -> Result<u32> {
    for (n, _) in packs.iter().rev() {
        // A torn tail may have been dropped since they were measured.
        let len = root.file_len(&layout::pack(*n))?.unwrap_or(0);
        let scan = scan_pack(root, *n, 0, len.min(PACK_HEADER), &mut |_, _| Ok(()))?;
        if scan.header != HeaderState::Foreign {
            return Ok(*n);
        }
    }
    Ok(0)
}

/// The key of every ledger, sorted; `stray` hears of everything else in the folder.
pub(super) fn ledgers(root: &Root, stray: &mut dyn FnMut(String)) -> Result<Vec<SourceKey>> {
    let mut out: Vec<SourceKey> = Vec::new();
    let mut strays = Vec::new();
    // No list of names beside the list of keys: there is one a source.
    root.for_each_entry(layout::LEDGERS, &mut |entry| {
        let key = entry
            .name
            .strip_suffix(".jsonl")
            .and_then(|k| k.parse().ok());
        match key {
            Some(key) if entry.kind == EntryKind::File => out.push(key),
            _ => strays.push(entry.name),
        }
    })?;
    out.sort_unstable();
    strays.sort_unstable();
    for name in strays {
        stray(format!("{}/{name}", layout::LEDGERS));
    }
    Ok(out)
}

/// What SQLite may add to the name of the derived index.
pub(super) const INDEX_SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// What has the place of the derived index, of its folder or of a file beside it and is no such
/// thing: it can't be opened, and nothing of ours is in it.
pub(super) fn in_the_way(root: &Root) -> Result<Vec<String>> {
    match root.kind(layout::MIRROR_INDEX)? {
        Some(EntryKind::Dir) => {}
        None => return Ok(Vec::new()),
        Some(_) => return Ok(vec![layout::MIRROR_INDEX.to_owned()]),
    }
    let mut found = Vec::new();
    for suffix in INDEX_SUFFIXES {
        let rel = format!("{}{suffix}", layout::MIRROR_INDEX_DB);
        if !matches!(root.kind(&rel)?, None | Some(EntryKind::File)) {
            found.push(rel);
        }
    }
    Ok(found)
}

/// Tells of everything in the mirror's folder and in that of the index that is none of its parts.
/// What has the place of one is told by who needs it.
pub(super) fn beside(root: &Root, stray: &mut dyn FnMut(String)) -> Result<()> {
    const PARTS: [&str; 5] = ["FORMAT", ".FORMAT.tmp", "packs", "sources", "index"];
    for entry in root.list(layout::MIRROR)?.unwrap_or_default() {
        if !PARTS.contains(&entry.name.as_str()) {
            stray(format!("{}/{}", layout::MIRROR, entry.name));
        }
    }
    if root.kind(layout::MIRROR_INDEX)? != Some(EntryKind::Dir) {
        return Ok(());
    }
    for entry in root.list(layout::MIRROR_INDEX)?.unwrap_or_default() {
        let ours = INDEX_SUFFIXES
            .iter()
            .any(|s| entry.name.strip_suffix(s) == Some("mirror.db"));
        if !ours {
            stray(format!("{}/{}", layout::MIRROR_INDEX, entry.name));
        }
    }
    Ok(())
}

/// What a walk over a pack found.
#[derive(Debug, Default)]
pub(super) struct PackScan {
    /// The end of the last commit record.
    pub committed: u64,
    /// Whole records behind it.
    pub leftover: Vec<(Digest, Loc)>,
    /// Damaged ranges.
    pub damage: Vec<(u64, u64)>,
    /// A commit record follows the first damage, so it is not a torn tail.
    pub damage_inside: bool,
    /// The pack's own header is whole.
    pub header: HeaderState,
    /// Bytes walked.
    pub bytes: u64,
}

/// What the first bytes of a pack are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum HeaderState {
    /// As written.
    #[default]
    Whole,
    /// A part of it, or zeros: what a crash leaves of a new pack.
    Torn,
    /// Something else.
    Foreign,
}

/// Walks pack `n` from `from` (0 for all of it) to `len`. `object` gets every record of every
/// ended batch.
pub(super) fn scan_pack(
    root: &Root,
    n: u32,
    from: u64,
    len: u64,
    object: &mut dyn FnMut(&Digest, Loc) -> Result<()>,
) -> Result<PackScan> {
    let rel = layout::pack(n);
    let failed = |e| Error::io("read", &root.full(&rel), e);
    let mut scan = PackScan::default();
    let Some(file) = root.open_file(&rel)? else {
        return Ok(scan);
    };
    if from < PACK_HEADER {
        use std::os::unix::fs::FileExt;
        let mut head = vec![0u8; usize::try_from(len.min(PACK_HEADER)).unwrap_or(0)];
        file.read_exact_at(&mut head, 0).map_err(failed)?;
        scan.header = if head == pack::header(n) {
            HeaderState::Whole
        } else if head == pack::header(n)[..head.len()] || head.iter().all(|b| *b == 0) {
            HeaderState::Torn
        } else {
            HeaderState::Foreign
        };
    }
    scan.committed = from.max(PACK_HEADER).min(len);
    let mut walk = Walk::new(&file, scan.committed, len);
    while let Some(event) = walk.next().map_err(failed)? {
        match event {
            Event::Record(header, offset) => {
                let loc = Loc {
                    pack: n,
                    offset,
                    stored_len: header.stored_len,
                    plain_len: header.plain_len,
                    kind: header.kind,
                };
                scan.leftover.push((header.digest, loc));
            }
            Event::Damage { from, to } => scan.damage.push((from, to)),
            Event::Commit { end, whole } => {
                if !whole && scan.damage.is_empty() {
                    scan.damage.push((scan.committed, end));
                }
                scan.damage_inside = !scan.damage.is_empty();
                scan.committed = end;
                for (digest, loc) in scan.leftover.drain(..) {
                    object(&digest, loc)?;
                }
            }
        }
    }
    scan.bytes = len.saturating_sub(from);
    Ok(scan)
}

/// What a ledger says, without its captures.
#[derive(Debug, Default)]
pub(super) struct LedgerState {
    /// Which source it is; `None` when the first line is damaged.
    pub ident: Option<SourceIdent>,
    /// The newest capture.
    pub newest: Option<CaptureLine>,
    /// How it ends.
    pub end: ledger::End,
    /// Its damage.
    pub damage: Vec<(u64, &'static str)>,
}

impl LedgerState {
    /// The index row that follows from it.
    pub(super) fn row(&self) -> Option<SourceRow> {
        let (ident, line) = (self.ident.as_ref()?, self.newest.as_ref()?);
        let (dev, ino) = ledger::id_numbers(&line.id).unwrap_or_default();
        let gate = if line.group.is_empty() && !line.moving {
            StatGate {
                dev,
                ino,
                size: line.len,
                mtime_ns: line.mtime_ns,
                extra: String::new(),
            }
        } else {
            // The sizes of the other files are not in the ledger: read them again.
            StatGate::default()
        };
        Some(SourceRow {
            head: Head {
                ident: ident.clone(),
                seq: line.seq,
                recipe: line.recipe,
                len: line.len,
                hash: line.hash,
                gate,
                at_ms: line.at_ms,
                moving: line.moving,
            },
            grouped: ledger::group_digest(&line.group),
            line_hash: self.end.last,
            ledger_len: self.end.whole_len,
        })
    }
}

/// Reads a ledger; `capture` gets every line of it. `None` when there is none.
pub(super) fn ledger(
    root: &Root,
    key: SourceKey,
    capture: &mut dyn FnMut(&CaptureLine) -> Result<()>,
) -> Result<Option<LedgerState>> {
    let Some(file) = root.open_file(&layout::ledger(key))? else {
        return Ok(None);
    };
    let mut state = LedgerState::default();
    state.end = ledger::scan(root, key, file, &mut |entry, offset| {
        match entry {
            Entry::Ident(ident) => state.ident = Some(ident),
            Entry::Capture(line) => {
                capture(&line)?;
                state.newest = Some(line);
            }
            Entry::Damage(why) => state.damage.push((offset, why)),
        }
        Ok(())
    })?;
    Ok(Some(state))
}

/// The hash of the last line of a ledger of `len` bytes; of nothing when that can't be read.
pub(super) fn last_line(root: &Root, key: SourceKey, len: u64) -> Result<LineHash> {
    use std::os::unix::fs::FileExt;
    let rel = layout::ledger(key);
    let Some(file) = root.open_file(&rel)? else {
        return Ok(LineHash::default());
    };
    // Nearly all lines fit into the first try.
    for window in [4096, ledger::MAX_LINE] {
        let from = len.saturating_sub(window);
        let mut end = vec![0u8; usize::try_from(len - from).unwrap_or(0)];
        file.read_exact_at(&mut end, from)
            .map_err(|e| Error::io("read", &root.full(&rel), e))?;
        let Some((b'\n', lines)) = end.split_last() else {
            break;
        };
        let start = memchr::memrchr(b'\n', lines);
        if let Some(line) = start.map_or((from == 0).then_some(lines), |at| lines.get(at + 1..)) {
            return Ok(LineHash::of(line));
        }
    }
    Ok(LineHash::default())
}

/// A problem in one file.
pub(super) fn problem(
    kind: ProblemKind,
    file: impl Into<String>,
    offset: Option<u64>,
    message: impl Into<String>,
) -> MirrorProblem {
    MirrorProblem {
        kind,
        file: file.into(),
        offset,
        object: None,
        capture: None,
        message: message.into(),
    }
}
