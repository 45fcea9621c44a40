//! Building a candidate in a generation folder of its own, and proving it before anything depends on
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::sealed::Plan;
use crate::disk::{ArchiveShared, Capture, Root};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::rebuild::Replay;
use crate::model::plan::{ArchiveState, AuthorityClass, LostWhat, Recipe, RowAuthority};
use crate::model::source::SourceKey;
use crate::model::watch::Watch;
use crate::store::accepted::Accepted;
use crate::store::archive::{
    ArchiveReader, ArchiveWriter, Head, PromiseStanding, Rescued, SCHEMA_VERSION, Standing,
    missing, proven, replay_rows, replay_strays, standing, unequal, verify_generation,
};
use crate::store::backup::BackupId;
use crate::store::file_state::file_state;
use crate::store::generation::{self, Generation, GenerationId, Manifest, Provenance};
use crate::store::mirror::MirrorWriter;
use crate::store::named::NamedArchive;
use crate::store::promises::Promises;
use crate::store::{backup, layout};

const PATIENCE: Duration = Duration::from_secs(5);
/// Findings about a candidate that are kept for the failure context.
const KEPT: usize = 50;

/// A candidate that was built and verified.
#[derive(Debug)]
pub(super) struct Staged {
    /// The candidate.
    pub generation: Generation,
    /// BLAKE3 of its database, hex.
    pub digest: String,
    /// What it holds, as one sentence.
    pub detail: String,
}

/// Why there is no candidate.
#[derive(Debug)]
pub(super) struct StageFailed {
    /// What happened.
    pub error: Error,
    /// What is wrong with what was built.
    pub findings: Vec<String>,
}

impl From<Error> for StageFailed {
    fn from(error: Error) -> Self {
        StageFailed {
            error,
            findings: Vec::new(),
        }
    }
}

/// What building takes.
struct Builder<'b> {
    env: &'b Env,
    cap: Capture<'b>,
    plan: &'b Plan,
    id: &'b GenerationId,
    watch: Watch<'b>,
    provenance: Provenance,
    /// Records of each conversation of the candidate, as far as it was told who gave them.
    held: BTreeMap<String, u64>,
    /// Conversations of which, right behind the promised captures, exactly what was promised was there.
    proven: BTreeSet<String>,
}

/// Builds the candidate `id` as the recipe says, and verifies it: every row, sum, chain and page, and
/// that nothing is missing but what the plan lists.
///
/// # Errors
/// What kept it from being built, or what is wrong with it; the caller removes what is there.
pub(super) fn stage(
    env: &Env,
    cap: Capture<'_>,
    plan: &Plan,
    recipe: &Recipe,
    id: &GenerationId,
    watch: Watch<'_>,
) -> Result<Staged, StageFailed> {
    let mut builder = Builder {
        env,
        cap,
        plan,
        id,
        watch,
        provenance: Provenance::default(),
        held: BTreeMap::new(),
        proven: BTreeSet::new(),
    };
    let (generation, head) = match recipe {
        Recipe::Recover { generation } => builder.recover(generation)?,
        Recipe::Rebuild { rows, .. } => builder.rebuild(rows)?,
        Recipe::Begin { .. } => builder.rebuild(&[])?,
        Recipe::Migrate { generation, .. } => builder.migrate(generation)?,
        Recipe::Restore {
            backup,
            keep_newer,
            rows,
            ..
        } => builder.restore(backup, *keep_newer, rows)?,
    };
    let proven = builder.proven;
    verify(cap.root(), plan, recipe, &generation, proven, watch)?;
    let digest = file_state(
        cap.root(),
        &layout::archive_db(id.as_str()),
        watch.interrupt,
    )?
    .map_or_else(String::new, |f| f.blake3);
    Ok(Staged {
        detail: format!("{id} is built and verified, up to commit {}", head.commit),
        generation,
        digest,
    })
}

impl Builder<'_> {
    /// Rung 1.
    fn recover(&mut self, of: &str) -> Result<(Generation, Head)> {
        let root = self.cap.root();
        let of = GenerationId::parse(of)
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a plan recovers no generation"))?;
        let manifest = generation::manifest(root, &of)?.ok_or_else(|| {
            Error::new(
                ErrorKind::ArchiveMissing,
                format!("{of} has no manifest to copy"),
            )
        })?;
        let mut archive = self.taken_over(&layout::archive_db(of.as_str()), &manifest)?;
        self.provenance.kind = "copied".to_owned();
        self.gave(&archive, AuthorityClass::Archive)?;
        self.replay(&mut archive, false)?;
        archive.finish_staged(self.cap, Some(self.provenance.clone()))
    }

    fn migrate(&mut self, of: &str) -> Result<(Generation, Head)> {
        let id = GenerationId::parse(of).ok_or_else(|| gone(of))?;
        let manifest = generation::manifest(self.cap.root(), &id)?.ok_or_else(|| gone(of))?;
        let archive = self.taken_over(&layout::archive_db(id.as_str()), &manifest)?;
        self.provenance.kind = "migrated".to_owned();
        self.gave(&archive, AuthorityClass::Archive)?;
        archive.finish_staged(self.cap, Some(self.provenance.clone()))
    }

    /// Rung 4.
    fn rebuild(&mut self, rows: &[RowAuthority]) -> Result<(Generation, Head)> {
        let archive_id = self.archive_id(rows)?;
        let mut archive = ArchiveWriter::stage(self.cap, self.id, &archive_id, self.env.now_ms())?;
        self.provenance.kind = "rebuilt".to_owned();
        self.rows(&mut archive, rows)?;
        self.replay(&mut archive, true)?;
        self.strays(&mut archive, rows)?;
        archive.finish_staged(self.cap, Some(self.provenance.clone()))
    }

    /// Rung 5, and what an operator restores.
    fn restore(
        &mut self,
        id: &str,
        keep_newer: bool,
        rows: &[RowAuthority],
    ) -> Result<(Generation, Head)> {
        let root = self.cap.root();
        let (db, manifest) = match BackupId::parse(id) {
            Some(id) => {
                let backup = backup::read(root, &id)?.ok_or_else(|| gone(id.as_str()))?;
                let manifest = backup::generation_manifest(root, &backup)?;
                (backup::database_of(&id), manifest)
            }
            None => {
                let id = GenerationId::parse(id).ok_or_else(|| gone(id))?;
                let manifest = generation::manifest(root, &id)?.ok_or_else(|| gone(id.as_str()))?;
                (layout::archive_db(id.as_str()), manifest)
            }
        };
        let mut archive = self.taken_over(&db, &manifest)?;
        self.provenance.kind = "restored".to_owned();
        self.gave(&archive, AuthorityClass::Backup)?;
        if keep_newer {
            self.rows(&mut archive, rows)?;
            self.replay(&mut archive, true)?;
            self.strays(&mut archive, rows)?;
        }
        archive.finish_staged(self.cap, Some(self.provenance.clone()))
    }

    /// A candidate that holds what the archive at `db` does: its bytes, or its rows where it is of an
    /// older schema.
    fn taken_over<'w>(&self, db: &str, of: &Manifest) -> Result<ArchiveWriter<'w>>
    where
        Self: 'w,
    {
        if !of.is_older() {
            return ArchiveWriter::open_staged(self.cap, &self.copy(db, of)?);
        }
        let root = self.cap.root();
        let lock = ArchiveShared::acquire(root, PATIENCE)?;
        let rescued = Rescued::open(root, db, &lock)?.ok_or_else(|| gone(db))?;
        let now = self.env.now_ms();
        let mut archive = ArchiveWriter::stage(self.cap, self.id, &of.archive_id, now)?;
        self.watch.progress.phase("migrate rows", None);
        let done = replay_rows(&mut archive, &rescued, &|_| true, now, self.watch.interrupt)?;
        // Records that lost messages in an earlier repair come as they are.
        let lacking = done.unplaced + done.unnamed + unequal((&archive).into(), &rescued)?;
        if lacking > 0 {
            return Err(Error::new(
                ErrorKind::RepairFailed,
                format!(
                    "{lacking} rows or conversations of {} don't come out the same in an archive \
                     of schema {SCHEMA_VERSION}",
                    root.full(db).display()
                ),
            ));
        }
        Ok(archive)
    }

    /// A database and its WAL, copied into the candidate's folder.
    fn copy(&self, db: &str, of: &Manifest) -> Result<Generation> {
        let root = self.cap.root();
        self.cap
            .create_dir(&format!("{}/{}", layout::GENERATIONS, self.id))?;
        let target = layout::archive_db(self.id.as_str());
        self.watch.progress.phase("copy archive", None);
        let go_on = || self.watch.interrupt.check();
        self.cap.copy_new(root, db, &target, &go_on)?;
        let wal = format!("{db}-wal");
        if root.file_len(&wal)?.is_some_and(|len| len > 0) {
            self.cap
                .copy_new(root, &wal, &format!("{target}-wal"), &go_on)?;
        }
        Ok(Generation {
            id: self.id.clone(),
            manifest: Manifest::copied(self.id, of, self.env.now_ms()),
        })
    }

    fn archive_id(&self, rows: &[RowAuthority]) -> Result<String> {
        let body = self.plan.body();
        if let Some(promises) = &body.promises {
            return Ok(promises.archive_id.clone());
        }
        if let ArchiveState::Verified { archive_id, .. } = &body.archive {
            return Ok(archive_id.clone());
        }
        let root = self.cap.root();
        for authority in rows {
            if let Some(id) = GenerationId::parse(&authority.name)
                && let Ok(Some(manifest)) = generation::manifest(root, &id)
            {
                return Ok(manifest.archive_id);
            }
            if let Some(id) = BackupId::parse(&authority.name)
                && let Ok(Some(manifest)) = backup::read(root, &id)
            {
                return Ok(manifest.archive_id);
            }
        }
        Ok(uuid::Uuid::now_v7().to_string())
    }

    /// Verified rows for what the mirror can't give.
    fn rows(&mut self, archive: &mut ArchiveWriter<'_>, rows: &[RowAuthority]) -> Result<()> {
        for authority in rows {
            let lock = ArchiveShared::acquire(self.cap.root(), PATIENCE)?;
            let Some(rescued) = self.rescued(authority, &lock)? else {
                continue;
            };
            self.watch.progress.phase("take over rows", None);
            let done = replay_rows(
                archive,
                &rescued,
                &self.wanted(authority, &rescued),
                self.env.now_ms(),
                self.watch.interrupt,
            )?;
            let of_class = self.provenance.captures.entry(word(authority.class));
            *of_class.or_insert(0) += done.sources;
            self.gave(archive, authority.class)?;
        }
        Ok(())
    }

    /// Counts the conversations that have more records than when it was last asked, as ones that the
    /// class gave.
    fn gave(&mut self, archive: &ArchiveWriter<'_>, class: AuthorityClass) -> Result<()> {
        let held = &mut self.held;
        let mut given = 0;
        archive.for_each_coverage(&mut |conversation, records, _| {
            match held.get_mut(conversation) {
                Some(before) if *before >= records => return Ok(()),
                Some(before) => *before = records,
                None => _ = held.insert(conversation.to_owned(), records),
            }
            given += 1;
            Ok(())
        })?;
        if given > 0 {
            let of_class = self.provenance.conversations.entry(word(class));
            *of_class.or_insert(0) += given;
        }
        Ok(())
    }

    /// What is left of lost conversations and records, behind everything that may tell their place.
    fn strays(&mut self, archive: &mut ArchiveWriter<'_>, rows: &[RowAuthority]) -> Result<()> {
        let notes = self.plan.notes();
        if !notes.lost.iter().any(|l| l.what == LostWhat::Place) {
            return Ok(());
        }
        let missing: BTreeSet<&str> = notes
            .missing
            .iter()
            .map(|m| m.conversation.as_str())
            .collect();
        let listed: BTreeSet<&str> = notes
            .lost
            .iter()
            .filter(|l| l.what == LostWhat::Place)
            .filter_map(|l| l.conversation.as_deref())
            .collect();
        for authority in rows {
            let lock = ArchiveShared::acquire(self.cap.root(), PATIENCE)?;
            let Some(mut rescued) = self.rescued(authority, &lock)? else {
                continue;
            };
            self.watch.progress.phase("take over rows", None);
            let all = self.takes_all(authority);
            let wanted = self.wanted(authority, &rescued);
            let put = replay_strays(
                archive,
                &mut rescued,
                &wanted,
                &|conversation| {
                    listed.contains(conversation) && (all || missing.contains(conversation))
                },
                self.env.now_ms(),
                self.watch.interrupt,
            )?;
            for stray in put {
                let rows = self.provenance.strays.entry(stray.conversation);
                *rows.or_insert(0) += stray.records + stray.messages;
            }
        }
        Ok(())
    }

    /// What can be read of an archive, which is the one that was approved.
    fn rescued<'l>(
        &self,
        authority: &RowAuthority,
        lock: &'l ArchiveShared,
    ) -> Result<Option<Rescued<'l>>> {
        let (elsewhere, db) = self.place_of(authority)?;
        let root = elsewhere.as_ref().unwrap_or(self.cap.root());
        self.unchanged(root, &db, authority)?;
        Rescued::open(root, &db, lock)
    }

    /// Whether rows of every source are taken, not only of those that the mirror can't give.
    fn takes_all(&self, authority: &RowAuthority) -> bool {
        let body = self.plan.body();
        authority.class == AuthorityClass::Named
            || body
                .promises
                .as_ref()
                .is_none_or(|p| p.conversations.0 == 0)
            || matches!(body.options.get("keep-newer"), Some(keep) if keep == "true")
    }

    /// Of which sources rows are taken. One whose own row is lost, or was in an earlier repair, goes by
    /// a key that no capture has.
    fn wanted(
        &self,
        authority: &RowAuthority,
        rescued: &Rescued<'_>,
    ) -> impl Fn(SourceKey) -> bool + use<> {
        let unreadable = self.plan.notes().unreadable.iter();
        let lacking: BTreeSet<String> = unreadable.map(|c| c.source.clone()).collect();
        let captured = rescued.sources().filter(|s| !s.is_made_up());
        let named: BTreeSet<SourceKey> = captured.map(|s| s.key).collect();
        let all = self.takes_all(authority);
        move |key| all || !named.contains(&key) || lacking.contains(&key.to_string())
    }

    fn place_of(&self, authority: &RowAuthority) -> Result<(Option<Root>, String)> {
        if authority.class == AuthorityClass::Named {
            let path = self.plan.notes().named.clone().ok_or_else(|| {
                Error::new(ErrorKind::Internal, "a plan names an archive and no path")
            })?;
            let (root, db) = NamedArchive { path }.locate()?;
            return Ok((Some(root), db));
        }
        Ok((
            None,
            match BackupId::parse(&authority.name) {
                Some(id) => backup::database_of(&id),
                None => layout::archive_db(&authority.name),
            },
        ))
    }

    /// What was approved is what is read, whoever else can write to it.
    fn unchanged(&self, root: &Root, db: &str, authority: &RowAuthority) -> Result<()> {
        let mut found = Vec::new();
        for rel in [db.to_owned(), format!("{db}-wal")] {
            let state = file_state(root, &rel, self.watch.interrupt)?;
            found.extend(state.filter(|f| f.len.0 > 0).map(|f| f.blake3));
        }
        let approved: Vec<String> = authority.files.iter().map(|f| f.blake3.clone()).collect();
        if found == approved {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::RepairFailed,
            format!(
                "{} changed while the plan was applied",
                root.full(db).display()
            ),
        ))
    }

    /// What the mirror holds: what was promised, in ledger order, then what came later.
    fn replay(&mut self, archive: &mut ArchiveWriter<'_>, beyond: bool) -> Result<()> {
        let root = self.cap.root();
        if !root.exists(layout::MIRROR_FORMAT)? && !root.exists(layout::LEDGERS)? {
            return Ok(());
        }
        self.watch.progress.phase("replay", None);
        let mut mirror = MirrorWriter::open(self.cap, self.env.now_ms())?;
        let mut replay = Replay::begin(self.env, self.cap, &mut mirror, archive, self.watch)?;
        replay.promised(&mut mirror, archive)?;
        // Now, before anything newer is in it, a sum that agrees proves every promised record.
        if let Some(promises) = Promises::read(root)? {
            let equal = &mut self.proven;
            standing((&*archive).into(), &promises, &BTreeSet::new(), &mut |s| {
                if s.standing == Standing::Equal {
                    equal.insert(s.conversation);
                }
                Ok(())
            })?;
        }
        if beyond {
            replay.rest(&mut mirror, archive)?;
        }
        let done = replay.end(archive)?;
        self.watch.interrupt.check()?;
        if done.read.stopped {
            return Err(Error::new(
                ErrorKind::RepairFailed,
                "the replay of the mirror ended before its end",
            ));
        }
        let accepted = Accepted::read(root)?;
        let expected: BTreeSet<(String, u64)> = self
            .plan
            .notes()
            .unreadable
            .iter()
            .map(|c| (c.source.clone(), c.seq.0))
            // The ledger's lines still name what was accepted as lost.
            .chain(accepted.captures().map(|(key, seq)| (key.to_string(), seq)))
            .collect();
        let unexpected = done.unread.iter().find(|u| {
            u.promised && u.held_by.is_none() && !expected.contains(&(u.key.to_string(), u.seq))
        });
        if let Some(unread) = unexpected {
            return Err(Error::new(
                ErrorKind::RepairFailed,
                format!(
                    "capture {} of source {} was promised and can't be read",
                    unread.seq, unread.key
                ),
            ));
        }
        let of_mirror = self.provenance.captures.entry(word(AuthorityClass::Mirror));
        *of_mirror.or_insert(0) += done.promised + done.beyond;
        self.gave(archive, AuthorityClass::Mirror)?;
        // What was read is safe in the candidate; the mirror itself gained nothing.
        mirror.finish()
    }
}

/// The class as the candidate's manifest names it.
fn word(class: AuthorityClass) -> String {
    match class {
        AuthorityClass::Archive => "archive",
        AuthorityClass::Mirror => "mirror",
        AuthorityClass::Backup => "backup",
        AuthorityClass::Named => "named",
    }
    .to_owned()
}

fn gone(id: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("there is no backup {id:?}"))
}

/// Every row, sum, chain and page of the candidate; then that it holds what it must.
fn verify(
    root: &Root,
    plan: &Plan,
    recipe: &Recipe,
    generation: &Generation,
    proven: BTreeSet<String>,
    watch: Watch<'_>,
) -> Result<(), StageFailed> {
    watch.progress.phase("verify candidate", None);
    let mut findings = Vec::new();
    let summary = verify_generation(
        root,
        generation,
        &|| watch.interrupt.pending().is_some(),
        &mut |f| {
            if findings.len() < KEPT {
                findings.push(format!("{} {}: {}", f.table, f.row.unwrap_or(0), f.what));
            }
        },
    )?;
    watch.interrupt.check()?;
    if !findings.is_empty() || !summary.complete {
        return Err(StageFailed {
            error: Error::new(
                ErrorKind::RepairFailed,
                format!("the candidate {} does not verify", generation.id),
            ),
            findings,
        });
    }
    let allowed: BTreeMap<&str, u64> = plan
        .notes()
        .missing
        .iter()
        .map(|m| (m.conversation.as_str(), m.records.0))
        .collect();
    let findings = lacking(root, plan, recipe, generation, proven, &allowed)?;
    if findings.is_empty() {
        return Ok(());
    }
    Err(StageFailed {
        error: Error::new(
            ErrorKind::RepairFailed,
            format!(
                "the candidate {} lacks records that can be read today, and the plan does not list \
                 them",
                generation.id
            ),
        )
        .with_hint(
            "Nothing was promoted and nothing is lost. The failure context names the sessions.",
        ),
        findings,
    })
}

/// What the candidate lacks of what can be read in the outgoing archive or was promised, beyond what
/// the plan lists.
fn lacking(
    root: &Root,
    plan: &Plan,
    recipe: &Recipe,
    generation: &Generation,
    mut proven: BTreeSet<String>,
    allowed: &BTreeMap<&str, u64>,
) -> Result<Vec<String>> {
    let lock = ArchiveShared::acquire(root, PATIENCE)?;
    let mut findings = Vec::new();
    let candidate = ArchiveReader::open_aside(
        root,
        &layout::archive_db(generation.id.as_str()),
        &generation.manifest,
    )?;
    let mut find = |conversation: &str, records: u64, why: &str| {
        let listed = allowed.get(conversation).copied().unwrap_or(0);
        if records > listed && findings.len() < KEPT {
            findings.push(format!("{conversation}: {records} records {why}"));
        }
    };
    let outgoing = outgoing(root, plan)?;
    let rescued = match &outgoing {
        Some(id) => Rescued::open(root, &layout::archive_db(id.as_str()), &lock)?,
        None => None,
    };
    if let Some(rescued) = &rescued {
        missing((&candidate).into(), rescued, &mut |m| {
            find(&m.conversation, m.records, "of the outgoing archive");
            Ok(())
        })?;
    }
    // What the archive lacks of the promises it lacked before, whether that is on record or not.
    if matches!(recipe, Recipe::Migrate { .. }) {
        return Ok(findings);
    }
    let Some(promises) = Promises::read(root)? else {
        return Ok(findings);
    };
    if let (Some(rescued), Some(id)) = (&rescued, &outgoing) {
        proven.extend(self::proven((&candidate).into(), &promises, rescued, id)?);
    }
    let mut compared = compare(&candidate, &promises, &proven)?;
    // Whoever gave rows can show what came with them, and is asked only where that is in doubt.
    for name in givers(recipe) {
        if compared.iter().all(|s| s.standing != Standing::Differs) {
            break;
        }
        let Some((db, of)) = kept(root, name)? else {
            continue;
        };
        if let Some(rescued) = Rescued::open(root, &db, &lock)? {
            proven.extend(self::proven((&candidate).into(), &promises, &rescued, &of)?);
            compared = compare(&candidate, &promises, &proven)?;
        }
    }
    let all_read = plan.notes().unreadable.is_empty();
    for s in compared {
        let lacks = match s.standing {
            Standing::Equal | Standing::AtLeast => 0,
            // Every promised capture was read to its end, and no less came out of them.
            Standing::Differs if all_read && s.held >= s.promised => 0,
            Standing::Less | Standing::Differs => s.promised.saturating_sub(s.held).max(1),
        };
        find(&s.conversation, lacks, "that were promised");
    }
    Ok(findings)
}

/// How the candidate stands to the promises that it doesn't hold as they are.
fn compare(
    candidate: &ArchiveReader,
    promises: &Promises,
    proven: &BTreeSet<String>,
) -> Result<Vec<PromiseStanding>> {
    let mut all = Vec::new();
    standing(candidate.into(), promises, proven, &mut |s| {
        if !matches!(s.standing, Standing::Equal | Standing::AtLeast) {
            all.push(s);
        }
        Ok(())
    })?;
    Ok(all)
}

/// The kept archives that a candidate is made of.
pub(super) fn givers(recipe: &Recipe) -> Vec<&str> {
    let (backup, rows) = match recipe {
        Recipe::Rebuild { rows, .. } => (None, rows.as_slice()),
        Recipe::Restore { backup, rows, .. } => (Some(backup.as_str()), rows.as_slice()),
        Recipe::Recover { .. } | Recipe::Begin { .. } | Recipe::Migrate { .. } => {
            (None, [].as_slice())
        }
    };
    let kept = rows.iter().filter(|r| r.class != AuthorityClass::Named);
    backup
        .into_iter()
        .chain(kept.map(|r| r.name.as_str()))
        .collect()
}

/// The database of a backup or a generation, and the generation that it is of.
fn kept(root: &Root, name: &str) -> Result<Option<(String, GenerationId)>> {
    if let Some(id) = BackupId::parse(name) {
        let backup = backup::read(root, &id)?;
        return Ok(backup.map(|b| (backup::database_of(&id), b.generation)));
    }
    Ok(GenerationId::parse(name).map(|id| (layout::archive_db(id.as_str()), id)))
}

/// The generation that is live, or would be.
pub(super) fn outgoing(root: &Root, plan: &Plan) -> Result<Option<GenerationId>> {
    if let Some(id) = crate::store::generation::current_or_none(root)? {
        return Ok(Some(id));
    }
    Ok(plan
        .body()
        .promises
        .as_ref()
        .and_then(|p| GenerationId::parse(&p.generation)))
}
