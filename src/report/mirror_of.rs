//! From what the mirror holds to its documents.

use super::mirror::{CaptureEntry, MemberEntry, MirrorProblemEntry, MirrorSource};
use super::time::rfc3339;
use crate::model::path::PathText;
use crate::store::mirror::{CaptureLine, GroupMember, MirrorProblem, SourceIdent};

impl From<&SourceIdent> for MirrorSource {
    fn from(s: &SourceIdent) -> MirrorSource {
        MirrorSource {
            key: s.key.to_string(),
            source_id: s.source_id.clone(),
            provider: s.provider,
            path: PathText::new(&s.path),
        }
    }
}

impl From<&CaptureLine> for CaptureEntry {
    fn from(c: &CaptureLine) -> CaptureEntry {
        CaptureEntry {
            seq: c.seq,
            at: rfc3339(c.at_ms),
            length: c.len,
            blake3: c.hash.to_hex(),
            moving: c.moving,
            members: c.group.iter().map(MemberEntry::from).collect(),
        }
    }
}

impl From<&GroupMember> for MemberEntry {
    fn from(m: &GroupMember) -> MemberEntry {
        MemberEntry {
            name: m.name.clone(),
            length: m.len,
            blake3: m.hash.to_hex(),
        }
    }
}

impl From<MirrorProblem> for MirrorProblemEntry {
    fn from(p: MirrorProblem) -> MirrorProblemEntry {
        MirrorProblemEntry {
            code: p.kind.code().to_owned(),
            damage: !p.kind.harmless(),
            loses_capture: p.kind.loses_capture(),
            message: p.message,
            file: Some(p.file),
            offset: p.offset,
            object: p.object.map(|d| d.to_hex()),
            source: p.capture.map(|(key, _)| key.to_string()),
            seq: p.capture.map(|(_, seq)| seq).filter(|seq| *seq > 0),
        }
    }
}
