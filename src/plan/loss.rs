//! Puts on record what a plan listed as lost.

use std::collections::BTreeMap;
use std::time::Duration;

use super::sealed::Plan;
use super::stage::Staged;
use crate::disk::{ArchiveShared, Capture, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::plural::count;
use crate::model::source::SourceKey;
use crate::store::accepted::{self, Acceptance, LostCapture, LostConversation};
use crate::store::archive::ArchiveReader;
use crate::store::coverage::{self, Line};
use crate::store::layout;
use crate::store::run::Intent;

const PATIENCE: Duration = Duration::from_secs(5);

/// Writes the record of the run. What stays promised of each conversation is what the archive holds
/// that is live behind the run: the candidate, where there is one.
pub(super) fn accept(
    cap: Capture<'_>,
    plan: &Plan,
    intent: &Intent,
    staged: Option<&Staged>,
    now_ms: i64,
) -> Result<String> {
    let root = cap.root();
    let mut captures: BTreeMap<SourceKey, Vec<LostCapture>> = BTreeMap::new();
    for (name, hash) in &plan.notes().accepted {
        let bad = || Error::new(ErrorKind::Internal, "a plan accepts the loss of no capture");
        let key: SourceKey = name.source.parse().map_err(|_| bad())?;
        let hash: Option<Digest> = match hash {
            Some(hex) => Some(hex.parse().map_err(|_| bad())?),
            None => None,
        };
        let seq = name.seq.0;
        captures.entry(key).or_default().push(LostCapture {
            seq,
            hash,
            rows: false,
        });
    }
    let lock = ArchiveShared::acquire(root, PATIENCE)?;
    let reader = match staged {
        Some(staged) => Some(ArchiveReader::open_aside(
            root,
            &layout::archive_db(staged.generation.id.as_str()),
            &staged.generation.manifest,
        )?),
        None => ArchiveReader::open(root)?,
    };
    let mut conversations = Vec::new();
    for missing in &plan.notes().missing {
        let held = match &reader {
            Some(reader) => reader.held_coverage(&missing.conversation)?,
            None => None,
        };
        let (held, sum) = held.unwrap_or_default();
        conversations.push(LostConversation {
            conversation: missing.conversation.clone(),
            promised: held.saturating_add(missing.records.0),
            held,
            sum,
        });
    }
    if let Some(reader) = &reader {
        with_rows(cap.root(), reader, &mut captures)?;
    }
    drop(reader);
    drop(lock);
    let acceptance = Acceptance {
        format: accepted::FORMAT,
        run_id: intent.run_id.clone(),
        fingerprint: intent.fingerprint.clone(),
        at_ms: now_ms,
        // A damaged one is begun anew, and promises nothing of this then.
        link: coverage::tail(root).ok().flatten().map(|t| t.link),
        captures,
        conversations,
        lost: plan.notes().lost.clone(),
    };
    let (n, m) = (acceptance.capture_count(), acceptance.record_count());
    let path = accepted::write(cap, acceptance)?;
    Ok(format!(
        "on record as lost: {} and {}, in {path}",
        count(n, "capture", "captures"),
        count(m, "record", "records")
    ))
}

/// Finds the captures that were part of a conversation of which rows are held.
fn with_rows(
    root: &Root,
    reader: &ArchiveReader,
    captures: &mut BTreeMap<SourceKey, Vec<LostCapture>>,
) -> Result<()> {
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    coverage::for_each(
        root,
        &mut |_, line| {
            let Line::Commit(commit) = line else {
                return Ok(());
            };
            for (key, seq) in &commit.captures {
                let lost = captures.get_mut(key);
                let Some(lost) = lost.and_then(|l| l.iter_mut().find(|c| c.seq == *seq)) else {
                    continue;
                };
                for (id, ..) in &commit.conversations {
                    let held = match known.get(id) {
                        Some(held) => *held,
                        None => reader.held_coverage(id)?.is_some_and(|h| h.0 > 0),
                    };
                    known.insert(id.clone(), held);
                    lost.rows |= held;
                }
            }
            Ok(())
        },
        &mut |_| Ok(()),
    )
    .map(drop)
}
