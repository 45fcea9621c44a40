//! What is wrong beside a sound archive: the mirror, its index, the coverage ledger.

use std::collections::BTreeMap;

use super::holders::holders;
use super::names::{Names, give};
use super::survey::{Soundness, Survey};
use crate::disk::Root;
use crate::doctor::losses::{Capture, Ground, Holding, Loss, Seen, losses};
use crate::env::Env;
use crate::error::Result;
use crate::model::interrupt::Interrupt;
use crate::model::next::Next;
use crate::model::plan::{
    AuthorityClass, CaptureName, Count, Lost, LostWhat, Missing, MissingReason, Notes,
};
use crate::model::plural::count;
use crate::model::watch::Watch;
use crate::sources::reach::Reach;
use crate::store::archive::ArchiveReader;
use crate::store::mirror::{MirrorReader, ProblemKind};

/// What is wrong with a mirror's index, and which captures its structure says are lost. Without
/// `deep`, packs are read only where the index may lie.
pub(super) fn structure(
    mirror: &MirrorReader<'_>,
    deep: bool,
    interrupt: &Interrupt,
) -> Result<(Option<String>, Seen)> {
    let (mut index, mut seen) = (None, Seen::default());
    // Only the packs themselves tell an index that lies from a pack that is damaged.
    for deep in [false, true].into_iter().skip(usize::from(deep)) {
        seen = Seen::default();
        let mut lost = 0u64;
        mirror.verify(
            deep,
            &mut || interrupt.pending().is_some(),
            &mut |problem| {
                seen.add(&problem);
                lost += u64::from(problem.kind.loses_capture());
                if problem.kind == ProblemKind::Index {
                    index.get_or_insert(problem.message);
                }
            },
        )?;
        interrupt.check()?;
        if lost == 0 || index.is_some() {
            break;
        }
    }
    Ok((index, seen))
}

/// What was found.
#[derive(Default)]
pub(super) struct Beside {
    /// Whether the mirror's index contradicts packs and ledgers.
    pub(super) index_damaged: bool,
    /// What nothing that can be read holds any more.
    pub(super) losses: Option<Losses>,
}

/// Losses that can only be accepted.
pub(super) struct Losses {
    pub(super) captures: Vec<(CaptureName, Option<String>)>,
    pub(super) missing: Vec<Missing>,
    pub(super) lost: Vec<Lost>,
}

/// Looks at all of it, where a repair of the archive is no help.
pub(super) fn beside(
    root: &Root,
    env: &Env,
    survey: &Survey,
    watch: Watch<'_>,
    notes: &mut Notes,
) -> Result<Beside> {
    let mut out = Beside::default();
    let Soundness::Sound { head } = survey.soundness else {
        return Ok(out);
    };
    if survey.promises.is_none() && head.commit > 0 {
        notes.reasons.push(
            "the coverage ledger is gone or empty; the next index writes it anew from the archive"
                .to_owned(),
        );
        notes.then = Some(Next::Index);
    }
    let mirror = MirrorReader::open(root)?;
    watch.progress.phase("verify mirror", None);
    let (index, seen) = match &mirror {
        Some(mirror) => structure(mirror, true, watch.interrupt)?,
        None => (None, Seen::default()),
    };
    out.index_damaged = index.is_some();
    // What an index that lies says of packs is worth nothing.
    if out.index_damaged {
        return Ok(out);
    }
    let archive = ArchiveReader::open(root)?;
    let ground = Ground {
        root,
        mirror: mirror.as_ref(),
        archive: archive.as_ref(),
        reach: &Reach::of(env),
        all_promised: true,
    };
    let mut all = losses(&ground, &seen)?;
    drop(archive);
    drop(mirror);
    all.retain(|_, loss| !matches!(loss.holding, Holding::Accepted(_)));
    let held_by = |holding: &Holding| all.values().filter(|l| l.holding == *holding).count();
    let (there, held) = (held_by(&Holding::Source), held_by(&Holding::Archive));
    if there > 0 {
        notes.reasons.push(format!(
            "the mirror can't give back {} whose sources are still there: a full index captures them \
             again",
            count(there, "capture", "captures")
        ));
        notes.then = Some(Next::IndexFull);
    }
    if held > 0 {
        notes.reasons.push(format!(
            "the mirror can't give back {}, and nothing can make them again; the archive still has \
             every row of their records",
            count(held, "capture", "captures")
        ));
    }
    let lost: BTreeMap<Capture, Loss> = all
        .into_iter()
        .filter(|(_, l)| l.holding == Holding::Nothing)
        .collect();
    if lost.is_empty() {
        return Ok(out);
    }
    let lacking = lacking(&lost);
    if let Some(backup) = elsewhere(root, survey, watch, &lacking)? {
        notes.reasons.push(format!(
            "the archive lacks records that {backup} still has: a restore that keeps what is newer \
             brings them back"
        ));
        notes.then = Some(Next::BackupsRestore {
            id: backup,
            keep_newer: true,
        });
        return Ok(out);
    }
    notes.reasons.push(format!(
        "the mirror can't give back {}, and nothing else that can be read holds what they held",
        count(lost.len(), "capture", "captures")
    ));
    if let Some(obstacle) = lost.values().find_map(|l| l.obstacle.as_ref()) {
        let more = lost.values().filter(|l| l.obstacle.is_some()).count() - 1;
        let more = match more {
            0 => String::new(),
            n => format!(" (and {n} more like it)"),
        };
        let told = obstacle.told();
        notes.reasons.push(format!(
            "before it is accepted: {told}; that brings it back{more}"
        ));
    }
    let mut listed = listed(&lost, &lacking);
    named(root, &mut listed)?;
    out.losses = Some(listed);
    Ok(out)
}

/// A loss is put on record beside an archive, so where none was made yet the next index comes first:
/// it makes one of what can be read.
pub(super) fn before_any_archive(root: &Root, watch: Watch<'_>, notes: &mut Notes) -> Result<()> {
    let Some(mirror) = MirrorReader::open(root)? else {
        return Ok(());
    };
    let (_, seen) = structure(&mirror, false, watch.interrupt)?;
    if !seen.is_empty() {
        notes.reasons.push(
            "the mirror lost captures and no archive was made yet: an index makes one of what can be \
             read, and a repair then puts the rest on record as lost"
                .to_owned(),
        );
        notes.then = Some(Next::Index);
    }
    Ok(())
}

/// What the harnesses call the conversations, as far as the archive has them.
fn named(root: &Root, losses: &mut Losses) -> Result<()> {
    let Some(archive) = ArchiveReader::open(root)?.filter(|_| !losses.missing.is_empty()) else {
        return Ok(());
    };
    let mut names = Names::new();
    archive.each_conversation(&mut |c| {
        if losses.missing.iter().any(|m| m.conversation == c.id) {
            names.insert(c.id, (c.provider, c.native_id));
        }
    })?;
    give(&names, &mut losses.missing, &mut losses.lost);
    Ok(())
}

/// By conversation, how many records the archive lacks.
fn lacking(lost: &BTreeMap<Capture, Loss>) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<String, u64> = BTreeMap::new();
    for (id, records) in lost.values().flat_map(|l| l.lacking.iter()) {
        let known = all.entry(id.clone()).or_insert(0);
        *known = (*known).max(*records);
    }
    all
}

/// A backup or sealed generation whose verified rows hold more of a conversation than the live archive.
fn elsewhere(
    root: &Root,
    survey: &Survey,
    watch: Watch<'_>,
    lacking: &BTreeMap<String, u64>,
) -> Result<Option<String>> {
    if lacking.is_empty() {
        return Ok(None);
    }
    let all = holders(root, survey, None, watch)?;
    let live = all.iter().find(|h| h.class == AuthorityClass::Archive);
    let more = |id: &String, of: &BTreeMap<String, u64>| {
        let here = live.and_then(|l| l.coverage.get(id)).copied().unwrap_or(0);
        of.get(id).copied().unwrap_or(0) > here
    };
    Ok(all
        .iter()
        .filter(|h| h.class == AuthorityClass::Backup && h.is_whole)
        .find(|h| lacking.keys().any(|id| more(id, &h.coverage)))
        .map(|h| h.name.clone()))
}

fn listed(lost: &BTreeMap<Capture, Loss>, lacking: &BTreeMap<String, u64>) -> Losses {
    let reason = |loss: &Loss| match loss.hash {
        Some(_) => MissingReason::CaptureUnreadable,
        None => MissingReason::CaptureMissing,
    };
    let mut out = Losses {
        captures: Vec::new(),
        missing: Vec::new(),
        lost: Vec::new(),
    };
    for (id, records) in lacking {
        let of = lost
            .values()
            .find(|l| l.lacking.iter().any(|(lacks, _)| lacks == id));
        out.missing.push(Missing {
            conversation: id.clone(),
            provider: None,
            native_id: None,
            records: Count(*records),
            reason: of.map_or(MissingReason::CaptureMissing, reason),
        });
    }
    for ((key, seq), loss) in lost {
        let name = CaptureName {
            source: key.to_string(),
            seq: Count(*seq),
        };
        let hash = loss.hash.map(|h| h.to_hex());
        let of = |conversation: Option<&String>, count: Option<u64>, what| Lost {
            conversation: conversation.cloned(),
            provider: None,
            native_id: None,
            what,
            count: count.map(Count),
            source: Some(name.source.clone()),
            seq: Some(name.seq),
            lines: None,
            bytes: loss.len.map(|len| (Count(0), Count(len))),
            hash: hash.clone(),
            reason: reason(loss),
        };
        if loss.lacking.is_empty() {
            out.lost.push(of(None, None, LostWhat::Capture));
        }
        for (id, records) in &loss.lacking {
            out.lost
                .push(of(Some(id), Some(*records), LostWhat::Records));
        }
        out.captures.push((name, hash));
    }
    out
}
