//! Ledgers: one file a source, one line a capture, each line sealed and chained to the one before.
//!
//! The first line says which source it is. Each line ends in `"sum"`, the start of the BLAKE3 of
//! what precedes it in the line, so damage of any line is seen in that line; `"prev"` is the start
//! of the BLAKE3 of the previous line, so a line can't vanish. Lines are short: every capture
//! pays for one.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use serde::{Deserialize, Serialize};

use super::types::{CaptureLine, GroupMember, SourceIdent};
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::path::{PathText, hex};
use crate::model::provider::Provider;
use crate::model::source::SourceKey;
use crate::store::layout;
use crate::store::version::{is_newer, too_new};

/// What the first line says of itself.
const VERSION: i64 = 1;
/// No ledger line is longer; a longer one is damage.
pub(super) const MAX_LINE: u64 = 1 << 20;
/// `,"sum":"01234567"}`
const SUM_LEN: usize = 18;

#[derive(Serialize, Deserialize)]
struct First {
    ledger: i64,
    key: SourceKey,
    source_id: String,
    provider: String,
    #[serde(flatten)]
    path: PathText,
    archive: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    recipe: Digest,
    len: u64,
    hash: Digest,
    id: String,
    mtime: i64,
    at: i64,
    #[serde(default, skip_serializing_if = "is_false")]
    moving: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    group: Vec<Member>,
    prev: String,
}

#[derive(Serialize, Deserialize)]
struct Member {
    name: String,
    recipe: Digest,
    len: u64,
    hash: Digest,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn is_false(b: &bool) -> bool {
    !*b
}

/// The start of the BLAKE3 of a line without its newline, as the next line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LineHash(pub [u8; 16]);

impl LineHash {
    pub(super) fn of(line: &[u8]) -> Self {
        let mut out = LineHash::default();
        out.0.copy_from_slice(&blake3::hash(line).as_bytes()[..16]);
        out
    }
}

fn seal(value: &impl Serialize) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value).map_err(|e| {
        Error::new(ErrorKind::Internal, "a ledger line can't be written").with_source(e)
    })?;
    line.pop();
    let sum = sum_of(&line);
    line.extend_from_slice(sum.as_bytes());
    Ok(line)
}

fn sum_of(line: &[u8]) -> String {
    format!(
        ",\"sum\":\"{}\"}}",
        hex(&blake3::hash(line).as_bytes()[..4])
    )
}

/// The first line of a ledger, without newline.
pub(super) fn first_line(ident: &SourceIdent) -> Result<(Vec<u8>, LineHash)> {
    let line = seal(&First {
        ledger: VERSION,
        key: ident.key,
        source_id: ident.source_id.clone(),
        provider: ident.provider.to_string(),
        path: PathText::new(&ident.path),
        archive: None,
    })?;
    let hash = LineHash::of(&line);
    Ok((line, hash))
}

/// The line of a capture, without newline.
pub(super) fn capture_line(capture: &CaptureLine, prev: LineHash) -> Result<(Vec<u8>, LineHash)> {
    let line = seal(&Line {
        seq: capture.seq,
        recipe: capture.recipe,
        len: capture.len,
        hash: capture.hash,
        id: capture.id.clone(),
        mtime: capture.mtime_ns,
        at: capture.at_ms,
        moving: capture.moving,
        group: capture
            .group
            .iter()
            .map(|m| Member {
                name: m.name.clone(),
                recipe: m.recipe,
                len: m.len,
                hash: m.hash,
            })
            .collect(),
        prev: hex(&prev.0),
    })?;
    let hash = LineHash::of(&line);
    Ok((line, hash))
}

/// What a ledger says at one place.
#[derive(Debug)]
pub(super) enum Entry {
    /// The first line.
    Ident(SourceIdent),
    /// A capture.
    Capture(CaptureLine),
    /// A damaged line or a broken chain.
    Damage(&'static str),
}

/// What was found at the end of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct End {
    /// Bytes up to and with the last newline.
    pub whole_len: u64,
    /// Bytes behind it: a line without its end.
    pub torn: u64,
    /// The hash of the last whole line.
    pub last: LineHash,
    /// The highest number of a capture.
    pub seq: u64,
}

/// Reads a ledger from its start; `each` gets what it says and the offset of the line.
pub(super) fn scan(
    root: &Root,
    key: SourceKey,
    file: File,
    each: &mut dyn FnMut(Entry, u64) -> Result<()>,
) -> Result<End> {
    let failed = |e: io::Error| {
        Error::new(
            ErrorKind::Io,
            format!("the ledger of source {key} can't be read: {e}"),
        )
        .with_source(e)
    };
    let mut input = BufReader::with_capacity(64 << 10, file);
    let mut end = End::default();
    let mut line = Vec::new();
    let mut number = 0u64;
    // A damaged line breaks the chain of the next too; that is one finding, not two.
    let mut after_damage = false;
    loop {
        line.clear();
        let n = (&mut input)
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .map_err(failed)?;
        if n == 0 {
            break;
        }
        let offset = end.whole_len;
        if line.last() != Some(&b'\n') {
            if n as u64 == MAX_LINE {
                // Not a line of ours; step over it.
                let mut skipped = n as u64;
                let ended = loop {
                    line.clear();
                    let n = (&mut input)
                        .take(MAX_LINE)
                        .read_until(b'\n', &mut line)
                        .map_err(failed)?;
                    skipped += n as u64;
                    if n == 0 || line.last() == Some(&b'\n') {
                        break n != 0;
                    }
                };
                each(
                    Entry::Damage("a line is longer than any that is written"),
                    offset,
                )?;
                after_damage = true;
                if ended {
                    end.whole_len += skipped;
                    number += 1;
                    continue;
                }
                end.torn = skipped;
                break;
            }
            end.torn = n as u64;
            break;
        }
        line.pop();
        let found = if number == 0 {
            parse_first(key, &line)
        } else {
            parse_line(&line)
        };
        match found {
            Ok(Parsed::First(ident)) => {
                each(Entry::Ident(ident), offset)?;
                after_damage = false;
            }
            // Its line is whole, so it says what was meant.
            Ok(Parsed::Newer(found)) => {
                let kind = ErrorKind::MirrorTooNew;
                let path = root.full(&layout::ledger(key)).display().to_string();
                return Err(too_new(kind, &path, "ledger", found, VERSION));
            }
            Ok(Parsed::Line(capture, prev)) => {
                if !after_damage && prev != hex(&end.last.0) {
                    each(
                        Entry::Damage(
                            "the chain is broken: a line before it was changed or removed",
                        ),
                        offset,
                    )?;
                } else if !after_damage && capture.seq != end.seq + 1 {
                    each(
                        Entry::Damage("the numbers of the captures do not follow each other"),
                        offset,
                    )?;
                }
                after_damage = false;
                end.seq = end.seq.max(capture.seq);
                each(Entry::Capture(capture), offset)?;
            }
            Err(why) => {
                each(Entry::Damage(why), offset)?;
                after_damage = true;
            }
        }
        end.last = LineHash::of(&line);
        end.whole_len += n as u64;
        number += 1;
    }
    Ok(end)
}

enum Parsed {
    First(SourceIdent),
    Newer(i64),
    Line(CaptureLine, String),
}

fn sealed(line: &[u8]) -> Result<(), &'static str> {
    let at = line.len().checked_sub(SUM_LEN).ok_or("a line is damaged")?;
    if sum_of(&line[..at]).as_bytes() == &line[at..] {
        Ok(())
    } else {
        Err("a line is damaged: its sum does not match")
    }
}

fn parse_first(key: SourceKey, line: &[u8]) -> Result<Parsed, &'static str> {
    sealed(line)?;
    // The version comes first: the rest of a newer line may be anything.
    #[derive(Deserialize)]
    struct Versioned {
        ledger: i64,
    }
    const NAMELESS: &str = "the first line names no source";
    match serde_json::from_slice(line).map_err(|_| NAMELESS)? {
        Versioned { ledger: VERSION } => {}
        Versioned { ledger } if is_newer(ledger, VERSION) => return Ok(Parsed::Newer(ledger)),
        _ => return Err("the first line has a version that none writes"),
    }
    let first: First = serde_json::from_slice(line).map_err(|_| NAMELESS)?;
    let provider: Provider = first
        .provider
        .parse()
        .map_err(|_| "the first line names an unknown provider")?;
    let path = first
        .path
        .to_path()
        .ok_or("the first line's path is damaged")?;
    let ident = SourceIdent::new(&first.source_id, provider, path);
    if ident.key != key || first.key != key {
        return Err("the ledger belongs to another source than its name says");
    }
    Ok(Parsed::First(ident))
}

fn parse_line(line: &[u8]) -> Result<Parsed, &'static str> {
    sealed(line)?;
    let l: Line = serde_json::from_slice(line).map_err(|_| "a line is no capture")?;
    let capture = CaptureLine {
        seq: l.seq,
        recipe: l.recipe,
        len: l.len,
        hash: l.hash,
        id: l.id,
        mtime_ns: l.mtime,
        at_ms: l.at,
        moving: l.moving,
        group: l
            .group
            .into_iter()
            .map(|m| GroupMember {
                name: m.name,
                recipe: m.recipe,
                len: m.len,
                hash: m.hash,
            })
            .collect(),
    };
    Ok(Parsed::Line(capture, l.prev))
}

/// `device:inode`, as a ledger line has it.
pub(super) fn id_text(dev: u64, ino: u64) -> String {
    let mut out = String::new();
    let _ = write!(out, "{dev}:{ino}");
    out
}

/// Device and inode of such a text.
pub(super) fn id_numbers(id: &str) -> Option<(u64, u64)> {
    let (dev, ino) = id.split_once(':')?;
    Some((dev.parse().ok()?, ino.parse().ok()?))
}

/// One digest over the other files of a capture, to tell whether any changed; zero for none.
pub(super) fn group_digest(group: &[GroupMember]) -> Digest {
    if group.is_empty() {
        return Digest::default();
    }
    let mut hasher = blake3::Hasher::new();
    for member in group {
        hasher.update(&(member.name.len() as u64).to_le_bytes());
        hasher.update(member.name.as_bytes());
        hasher.update(&member.len.to_le_bytes());
        hasher.update(&member.hash.0);
    }
    hasher.finalize().into()
}
