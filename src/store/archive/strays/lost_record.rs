//! Records of which only messages are left.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use rusqlite::types::ValueRef;

use crate::error::Result;
use crate::model::digest::Digest;
use crate::model::record::{
    Disposition, Facts, Message, ParsedRecord, Recovery, ResumePoint, Span,
};
use crate::model::source::SourceKey;
use crate::store::archive::append::{CaptureRef, SourceKind};
use crate::store::archive::place::Place;
use crate::store::archive::replay::conversation;
use crate::store::archive::rescue::{Known, Rescued};
use crate::store::archive::row_hash::RowHasher;
use crate::store::archive::writer::ArchiveWriter;
use crate::store::archive::{PART_BITS, PART_MASK, failed, names};

/// Type of such a record.
pub(super) const LOST_RECORD: &str = "lost-record";
/// Path of what such records lie in.
const RECORDS: &str = "unknown/records";

/// Puts messages at the end of a conversation, those of one record as one, in one commit.
pub(super) fn put_messages(
    archive: &mut ArchiveWriter<'_>,
    rescued: &Rescued<'_>,
    known: &Known,
    ids: &[i64],
    now_ms: i64,
) -> Result<()> {
    let c = &known.row.public;
    let path = PathBuf::from(RECORDS);
    let key = SourceKey::derive(&c.source_id, c.provider, &path);
    let before = archive.cursor(key)?;
    let mut append = archive.begin(CaptureRef {
        key,
        source_id: &c.source_id,
        provider: c.provider,
        path: &path,
        seq: before.as_ref().map_or(1, |b| b.parsed_seq + 1),
        len: 0,
        hash: Digest::default(),
        restart: false,
        parser_version: 0,
        kind: SourceKind::Store,
    })?;
    // It is about no session: what a file of one lacks is no other way taken.
    append.source.source.main_session = Some(String::new());
    append.source.set_gap();
    let conn = append.conn;
    let fail = |e| failed(conn, "append to", e);
    let at = conversation(&mut append, rescued, known).map_err(fail)?;
    let mut line = before.map_or(1, |b| b.resume.line);
    let mut parts: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    for id in ids {
        let of = parts.entry(id >> PART_BITS).or_default();
        of.insert(id & PART_MASK);
    }
    for (record, parts) in parts {
        let (all, _) = rescued.messages(record)?;
        let messages: Vec<Message> = all
            .into_iter()
            .filter(|(part, _)| parts.contains(part))
            .map(|(_, message)| message)
            .collect();
        let hash = hash_of(&messages);
        let occurrence = append.most_occurrences(at, &hash).map_err(fail)? + 1;
        let record = ParsedRecord {
            // No byte of it is left.
            span: Span {
                offset: append.expected,
                len: 0,
            },
            line,
            hash,
            recovery: Recovery::Clean,
            session: c.native_id.clone(),
            native_id: None,
            native_parent: None,
            record_type: LOST_RECORD.to_owned(),
            time_ms: None,
            disposition: Disposition::Messages(messages),
            facts: Facts::default(),
        };
        append
            .put_record(at, &record, occurrence, Place::New)
            .map_err(fail)?;
        line += 1;
    }
    let resume = ResumePoint {
        offset: append.expected,
        line,
        state: Vec::new(),
    };
    append.finish(resume, now_ms).map(drop)
}

/// Stands for the hash of a record of which only these messages are left.
pub(super) fn hash_of(messages: &[Message]) -> Digest {
    let mut hasher = RowHasher::default();
    hasher.begin_digest(LOST_RECORD);
    for m in messages {
        for part in [
            names::role(m.role),
            names::kind(m.kind),
            &m.text,
            m.tool_name.as_deref().unwrap_or_default(),
            m.call_id.as_deref().unwrap_or_default(),
            m.model.as_deref().unwrap_or_default(),
        ] {
            hasher.value(ValueRef::Text(part.as_bytes()));
        }
        hasher.value(ValueRef::Integer(m.is_error.map_or(-1, i64::from)));
    }
    hasher.digest()
}
