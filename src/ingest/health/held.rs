//! What the archive holds beyond the file as it is now.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::class::{Anomaly, Class};
use super::read::{Health, begins_with, open, pieces};
use super::whose::Whose;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::parse::{Beginning, Container, MAX_HEAD, SourceName, is_packed, method};
use crate::model::digest::Digest;
use crate::model::finding::Severity;
use crate::model::plural::count;
use crate::model::record::{Disposition, ParsedRecord, Piece};
use crate::model::source::{LOCAL, SourceKey};
use crate::store::archive::{ArchiveReader, conversation_id};
use crate::store::mirror::{self, CaptureLine, ContentReader, MirrorReader};

/// Bytes of captures that are read for one file; beyond, the answer is not complete.
const MAX_READ: u64 = 1 << 30;

/// How the file stands to its newest capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HeldState {
    /// It was never captured.
    NeverCaptured,
    /// It is what was captured.
    AsCaptured,
    /// What was captured, with more behind it.
    Longer,
    /// The begin of what was captured.
    Shrunk,
    /// Something else than what was captured.
    Rewritten,
    /// It has no bytes any more.
    Emptied,
    /// It is gone.
    Gone,
}

/// What the archive has of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// How the file stands to the newest capture.
    pub state: HeldState,
    /// Names the source in the mirror.
    pub key: SourceKey,
    /// Captures of the file.
    pub captures: u64,
    /// Number, size and time of the newest one.
    pub newest: Option<(u64, u64, i64)>,
    /// Records in captures that the file has no longer; `None` where records can't be compared.
    pub records_beyond: Option<u64>,
    /// Bytes of these records; for a file whose records can't be compared, by how much the newest
    /// capture is longer.
    pub bytes_beyond: u64,
    /// The capture that holds most of them.
    pub richest: Option<u64>,
    /// Whether every capture was compared that may hold more.
    pub complete: bool,
    /// The archive's id of the session.
    pub session: Option<String>,
}

impl Held {
    /// Whether the archive holds what the file has no longer.
    #[must_use]
    pub fn is_more(&self) -> bool {
        self.bytes_beyond > 0 || self.records_beyond.is_some_and(|n| n > 0)
    }

    /// The finding that it leads to.
    #[must_use]
    pub fn found(&self) -> Option<Anomaly> {
        let kept = match self.records_beyond {
            Some(n) => count(n, "record", "records"),
            None => count(self.bytes_beyond, "byte", "bytes"),
        };
        let kept = format!("the archive holds {kept} more");
        let (class, what) = match self.state {
            HeldState::NeverCaptured | HeldState::AsCaptured | HeldState::Longer => {
                if !self.is_more() {
                    return None;
                }
                (
                    Class::Rewritten,
                    format!("the file was another before; {kept}"),
                )
            }
            HeldState::Shrunk => (Class::Shrunk, format!("the file was cut short; {kept}")),
            HeldState::Rewritten => (
                Class::Rewritten,
                format!("the file is another than was captured; {kept}"),
            ),
            HeldState::Emptied => (Class::Emptied, format!("the file was emptied; {kept}")),
            HeldState::Gone => (Class::Missing, format!("the file is gone; {kept}")),
        };
        let mut found = Anomaly::whole(class, what);
        found.severity = match self.state {
            HeldState::Gone => Severity::Warn,
            _ if self.is_more() => Severity::Error,
            _ => Severity::Info,
        };
        found.len = self.bytes_beyond;
        Some(found)
    }
}

/// Records by what names them: how often, and their bytes.
type Records = HashMap<u64, (u64, u64)>;

/// Counts a record. A newer version takes the place of the one before it, which is no loss: a
/// record that has an id is known by it and its type. Of what is written anew as a whole only messages count,
/// since the rest changes every time.
fn add(records: &mut Records, container: Container, r: &ParsedRecord) {
    if container != Container::Log && !matches!(r.disposition, Disposition::Messages(_)) {
        return;
    }
    let name = match &r.native_id {
        Some(id) => Digest::of(format!("{}\0{id}", r.record_type).as_bytes()),
        None => r.hash,
    };
    let Digest([a, b, c, d, e, f, g, h, ..]) = name;
    let key = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
    let times = &mut records.entry(key).or_insert((0, r.span.len)).0;
    *times = if r.native_id.is_some() { 1 } else { *times + 1 };
}

/// The records of a content.
fn records_of(
    whose: &Whose,
    container: Container,
    head: &[u8],
    content: Box<dyn super::read::Content + '_>,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Records> {
    let name = SourceName {
        provider: whose.provider,
        path: &whose.source,
    };
    let mut records = Records::new();
    pieces(
        name,
        container,
        &BTreeMap::new(),
        head,
        content,
        None,
        &mut |piece| {
            stop()?;
            if let Piece::Record(r) = piece {
                add(&mut records, container, &r);
            }
            Ok(())
        },
    )?;
    Ok(records)
}

/// What is compared, and how much was read for it.
struct Comparison<'a, 'm> {
    whose: &'a Whose,
    mirror: &'a MirrorReader<'m>,
    stop: &'a dyn Fn() -> Result<()>,
    read: u64,
    complete: bool,
}

impl<'m> Comparison<'_, 'm> {
    /// The content of a capture; `None` where the mirror can't give it or enough was read.
    fn content(&mut self, line: &CaptureLine) -> Result<Option<ContentReader<'m>>> {
        self.read = self.read.saturating_add(line.len);
        if self.read > MAX_READ {
            self.complete = false;
            return Ok(None);
        }
        match self.mirror.open_content(line.recipe, line.len) {
            Ok(content) => Ok(Some(content)),
            Err(e) if is_damage(&e) => {
                self.complete = false;
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Whether the content begins with `len` bytes of this digest.
    fn begins_with(&mut self, line: &CaptureLine, len: u64, want: Digest) -> Result<bool> {
        (self.stop)()?;
        let Some(mut content) = self.content(line)? else {
            return Ok(false);
        };
        Ok(
            mirror::begins_with(&mut content, len, want).unwrap_or_else(|_| {
                self.complete = false;
                false
            }),
        )
    }

    /// The captures that are not the begin of the next one, oldest first.
    fn peaks(&mut self, all: &[CaptureLine]) -> Result<Vec<CaptureLine>> {
        let mut out = Vec::new();
        for (n, line) in all.iter().enumerate() {
            let grew = match all.get(n + 1) {
                Some(next) if next.len >= line.len => {
                    self.begins_with(next, line.len, line.hash)?
                }
                _ => false,
            };
            if !grew {
                out.push(line.clone());
            }
        }
        Ok(out)
    }

    fn records(&mut self, line: &CaptureLine) -> Result<Told> {
        let Some(mut content) = self.content(line)? else {
            return Ok(Told::Nothing);
        };
        let mut head = Vec::new();
        if (&mut content)
            .take(MAX_HEAD as u64)
            .read_to_end(&mut head)
            .is_err()
        {
            self.complete = false;
            return Ok(Told::Nothing);
        }
        let container = container(self.whose, &head);
        if container == Container::Database {
            return Ok(Told::Tables);
        }
        match records_of(self.whose, container, &head, Box::new(content), self.stop) {
            Ok(records) => Ok(Told::Records(records)),
            Err(e) if is_damage(&e) || e.is_caused_by::<Error>() => {
                self.complete = false;
                Ok(Told::Nothing)
            }
            Err(e) => Err(e),
        }
    }
}

/// What the content of a capture is.
enum Told {
    Records(Records),
    /// Rows, which change in place: there is no telling what is gone.
    Tables,
    /// It can't be read.
    Nothing,
}

fn is_damage(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::VerifyFailed | ErrorKind::MirrorDamaged | ErrorKind::Io
    )
}

fn container(whose: &Whose, head: &[u8]) -> Container {
    if is_packed(&whose.source, head) {
        return Container::Log;
    }
    let beginning = Beginning {
        name: SourceName {
            provider: whose.provider,
            path: &whose.source,
        },
        head,
        siblings: &BTreeMap::new(),
    };
    method(&beginning, None).container()
}

/// Compares a file with what was captured of it. `health` is `None` for one that is gone.
///
/// # Errors
/// Errors of the mirror or the archive as a whole; what `stop` returns.
pub fn held(
    whose: &Whose,
    path: &Path,
    health: Option<&Health>,
    mirror: &MirrorReader<'_>,
    archive: Option<&ArchiveReader>,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Held> {
    let key = SourceKey::derive(LOCAL, whose.provider, &whose.source);
    let mut captures = Vec::new();
    mirror.captures(key, &mut |line| {
        captures.push(line);
        Ok(())
    })?;
    let mut out = Held {
        state: HeldState::NeverCaptured,
        key,
        captures: captures.len() as u64,
        newest: captures.last().map(|l| (l.seq, l.len, l.at_ms)),
        records_beyond: None,
        bytes_beyond: 0,
        richest: None,
        complete: true,
        session: session(whose, key, archive)?,
    };
    let Some(newest) = captures.last().cloned() else {
        return Ok(out);
    };
    let mut look = Comparison {
        whose,
        mirror,
        stop,
        read: 0,
        complete: true,
    };
    let now = health.map(|h| &h.proof);
    out.state = match now {
        None => HeldState::Gone,
        Some(p) if p.bytes == 0 && newest.len > 0 => HeldState::Emptied,
        Some(p) if (p.bytes, p.hash) == (newest.len, newest.hash) => HeldState::AsCaptured,
        Some(p) if p.bytes > newest.len => {
            if begins_with(path, newest.len, newest.hash)? {
                HeldState::Longer
            } else {
                HeldState::Rewritten
            }
        }
        Some(p) if p.bytes < newest.len && look.begins_with(&newest, p.bytes, p.hash)? => {
            HeldState::Shrunk
        }
        Some(_) => HeldState::Rewritten,
    };
    let is_newest = matches!(out.state, HeldState::AsCaptured | HeldState::Longer);
    if is_newest && captures.len() == 1 {
        out.records_beyond = Some(0);
        return Ok(out);
    }
    let mut here = match health {
        Some(h) if h.container == Container::Database => None,
        Some(h) if h.proof.bytes > 0 => {
            let head = super::read::head(path)?;
            let content = Box::new(open(path)?);
            Some(records_of(whose, h.container, &head, content, stop)?)
        }
        _ => Some(Records::new()),
    };
    let peaks = look.peaks(&captures)?;
    let (mut beyond, mut best) = (0u64, 0u64);
    for line in peaks
        .iter()
        .filter(|l| !is_newest || l.seq != newest.seq)
        .rev()
    {
        let records = match look.records(line)? {
            Told::Records(records) => records,
            Told::Tables => {
                here = None;
                break;
            }
            Told::Nothing => continue,
        };
        let Some(known) = here.as_mut() else { break };
        let mut more = 0;
        for (hash, (times, len)) in records {
            let at = known.entry(hash).or_insert((0, len));
            let extra = times.saturating_sub(at.0);
            more += extra;
            out.bytes_beyond += extra.saturating_mul(len);
            at.0 = at.0.max(times);
        }
        beyond += more;
        if more > best {
            best = more;
            out.richest = Some(line.seq);
        }
    }
    if here.is_some() {
        out.records_beyond = Some(beyond);
    } else if !is_newest {
        let size = now.map_or(0, |p| p.bytes);
        out.bytes_beyond = newest.len.saturating_sub(size);
        out.richest = Some(newest.seq);
    }
    out.complete = look.complete;
    Ok(out)
}

/// The archive's id of the session that the source's first record belongs to.
fn session(
    whose: &Whose,
    key: SourceKey,
    archive: Option<&ArchiveReader>,
) -> Result<Option<String>> {
    let Some(source) = archive.map(|a| a.source(key)).transpose()?.flatten() else {
        return Ok(None);
    };
    let native = source.main_session.filter(|native| !native.is_empty());
    Ok(native.map(|native| conversation_id(LOCAL, whose.provider, &native)))
}
