//! Tests on real files, with records that are built by hand.
#![allow(clippy::disallowed_methods)]

mod commits;
mod damage;
mod flips;
mod generations;
mod identity;
mod reading;
mod rescue;

use std::path::{Path, PathBuf};

use super::*;
use crate::disk::{Capture, Root, WriterLock};
use crate::error::Result;
use crate::model::conversation::Conversation;
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::record::{
    Disposition, Facts, Message, MessageKind, ParsedRecord, Piece, Recovery, ResumePoint, Role,
    SkipReason, Span,
};
use crate::model::source::{LOCAL, SourceKey};
use crate::store::coverage::CommitLine;

/// One raw line and what a parser makes of it.
#[derive(Debug, Clone)]
pub struct Raw {
    session: String,
    native: Option<String>,
    text: Option<String>,
    salt: String,
    time_ms: Option<i64>,
    title: Option<String>,
}

/// A message with an id.
pub fn msg(session: &str, native: &str, text: &str) -> Raw {
    Raw {
        session: session.into(),
        native: Some(native.into()),
        text: Some(text.into()),
        salt: String::new(),
        time_ms: None,
        title: None,
    }
}

/// A message without an id.
pub fn plain(session: &str, text: &str) -> Raw {
    Raw {
        native: None,
        ..msg(session, "", text)
    }
}

/// A known record without messages and without an id.
pub fn fact(session: &str, title: &str) -> Raw {
    Raw {
        native: None,
        text: None,
        title: Some(title.into()),
        ..msg(session, "", "")
    }
}

impl Raw {
    fn salted(mut self, salt: &str) -> Raw {
        self.salt = salt.into();
        self
    }

    fn at(mut self, ms: i64) -> Raw {
        self.time_ms = Some(ms);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        format!("{self:?}").into_bytes()
    }
}

/// The pieces of a file that consists of `lines`, from line `skip` on, and where parsing goes on.
pub fn pieces(lines: &[Raw], skip: usize, torn: Option<&str>) -> (Vec<Piece>, ResumePoint) {
    let (mut out, mut offset, mut line) = (Vec::new(), 0u64, 1u64);
    for (i, raw) in lines.iter().enumerate() {
        let bytes = raw.bytes();
        let span = Span {
            offset,
            len: bytes.len() as u64,
        };
        let disposition = match &raw.text {
            Some(text) => Disposition::Messages(vec![Message {
                role: Role::User,
                kind: MessageKind::Text,
                text: text.clone(),
                tool_name: None,
                call_id: Some("call".into()),
                model: Some("model".into()),
                is_error: Some(false),
            }]),
            None => Disposition::Known,
        };
        if i >= skip {
            out.push(Piece::Record(Box::new(ParsedRecord {
                span,
                line,
                hash: Digest::of(&bytes),
                recovery: Recovery::Clean,
                session: raw.session.clone(),
                native_id: raw.native.clone(),
                native_parent: None,
                record_type: "user".into(),
                time_ms: raw.time_ms,
                disposition,
                facts: Facts {
                    title: raw.title.clone(),
                    ..Facts::default()
                },
            })));
            out.push(Piece::Separator(Span {
                offset: span.end(),
                len: 1,
            }));
        }
        offset = span.end() + 1;
        line += 1;
    }
    if let Some(torn) = torn {
        let span = Span {
            offset,
            len: torn.len() as u64,
        };
        out.push(Piece::Skipped {
            span,
            line,
            reason: SkipReason::TornTail,
        });
    }
    (
        out,
        ResumePoint {
            offset,
            line,
            state: b"state".to_vec(),
        },
    )
}

/// A data directory.
pub struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Lab {
        Lab {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn root(&self) -> Root {
        Root::open_or_create(&self.path()).unwrap()
    }

    pub fn db(&self) -> PathBuf {
        let id = std::fs::read_to_string(self.path().join("CURRENT")).unwrap();
        self.path()
            .join("generations")
            .join(id.trim_end())
            .join("agent_search.db")
    }

    /// Runs `f` with the archive open for writing.
    pub fn writing<T>(&self, f: impl FnOnce(&mut ArchiveWriter<'_>) -> T) -> T {
        self.try_writing(f).unwrap()
    }

    pub fn try_writing<T>(&self, f: impl FnOnce(&mut ArchiveWriter<'_>) -> T) -> Result<T> {
        let lock = WriterLock::acquire(self.root(), "test", 0).unwrap();
        let mut writer = ArchiveWriter::open_or_create(Capture::new(&lock), 7)?;
        Ok(f(&mut writer))
    }

    /// Brings `name` to the state `lines`, going on where it was left.
    pub fn index(&self, name: &str, lines: &[Raw]) -> Option<CommitLine> {
        self.writing(|w| feed(w, name, lines, false).unwrap())
    }

    /// Replaces `name` by `lines`.
    pub fn rewrite(&self, name: &str, lines: &[Raw]) -> Option<CommitLine> {
        self.writing(|w| feed(w, name, lines, true).unwrap())
    }

    pub fn checkpoint(&self) {
        let lock = WriterLock::acquire(self.root(), "test", 0).unwrap();
        let mut writer = ArchiveWriter::open_or_create(Capture::new(&lock), 7).unwrap();
        assert!(writer.checkpoint_if_free(&lock).unwrap());
    }

    pub fn reader(&self) -> ArchiveReader {
        ArchiveReader::open(&self.root()).unwrap().unwrap()
    }

    pub fn list(&self) -> Vec<Conversation> {
        let mut found = Vec::new();
        self.reader()
            .conversations(&Listing::default(), &mut |c| {
                found.push(c);
                Ok(())
            })
            .unwrap();
        found
    }

    /// The texts of a conversation's messages.
    pub fn texts(&self, id: &str) -> Vec<String> {
        let mut found = Vec::new();
        self.reader()
            .messages(id, &mut |m| {
                found.push(m.message.text);
                Ok(())
            })
            .unwrap();
        found
    }

    pub fn findings(&self) -> Vec<ArchiveFinding> {
        let mut found = Vec::new();
        let summary = verify_deep(&self.root(), &|| false, &mut |f| found.push(f)).unwrap();
        assert!(summary.unwrap().complete);
        found
    }

    /// Every conversation verifies, and its coverage sum is what adding up anew gives.
    pub fn assert_sound(&self) {
        assert_eq!(self.findings(), vec![]);
        for c in self.list() {
            let mut keys = std::collections::BTreeMap::new();
            self.reader()
                .records(&c.id, &mut |r| {
                    *keys.entry((r.hash.0, r.occurrence)).or_insert(0u32) += u32::from(r.counted);
                    Ok(())
                })
                .unwrap();
            // Schoolbook addition, byte by byte, of a number written out by other means.
            let mut sum = [0u8; 32];
            for ((hash, occurrence), counted) in &keys {
                assert_eq!(*counted, 1, "a key is counted once");
                let mut element = hash.to_vec();
                element.extend(occurrence.to_le_bytes());
                let mut carry = 0u16;
                for (slot, byte) in sum.iter_mut().zip(blake3::hash(&element).as_bytes()) {
                    carry += u16::from(*slot) + u16::from(*byte);
                    *slot = (carry & 0xff) as u8;
                    carry >>= 8;
                }
            }
            assert_eq!(c.coverage_sum.0, sum);
            assert_eq!(c.record_count, keys.len() as u64);
        }
    }
}

pub fn key(name: &str) -> SourceKey {
    SourceKey::derive(LOCAL, Provider::Claude, Path::new(name))
}

/// Appends to `name` what `lines` hold behind the cursor.
pub fn feed(
    w: &mut ArchiveWriter<'_>,
    name: &str,
    lines: &[Raw],
    restart: bool,
) -> Result<Option<CommitLine>> {
    let cursor = w.cursor(key(name))?;
    let offset = cursor
        .as_ref()
        .filter(|_| !restart)
        .map_or(0, |c| c.resume.offset);
    let mut at = 0;
    let skip = lines
        .iter()
        .take_while(|l| {
            let before = at;
            at += l.bytes().len() as u64 + 1;
            before < offset
        })
        .count();
    let len = lines.iter().map(|l| l.bytes().len() as u64 + 1).sum();
    let seq = match &cursor {
        None => 1,
        Some(c) if c.len == len && !restart => c.parsed_seq,
        Some(c) => c.parsed_seq + 1,
    };
    let mut append = w.begin(capture(name, seq, len, restart))?;
    let (pieces, resume) = pieces(lines, skip, None);
    for piece in &pieces {
        append.piece(piece)?;
    }
    append.finish(resume, 1000)
}

pub fn capture(name: &str, seq: u64, len: u64, restart: bool) -> CaptureRef<'_> {
    CaptureRef {
        key: key(name),
        source_id: LOCAL,
        provider: Provider::Claude,
        path: Path::new(name),
        seq,
        len,
        hash: Digest::of(&seq.to_le_bytes()),
        restart,
        parser_version: 1,
        kind: super::SourceKind::Log,
    }
}

/// A connection without any of the archive's care.
pub fn raw(path: &Path) -> rusqlite::Connection {
    rusqlite::Connection::open(path).unwrap()
}

/// The one session that a name means.
pub fn named(reader: &ArchiveReader, name: &str) -> Option<Conversation> {
    match reader.named(name.as_ref(), &[]).unwrap() {
        Named::One(session) => Some(*session),
        _ => None,
    }
}
