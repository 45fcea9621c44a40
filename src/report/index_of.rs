//! From what an index run did to its document.

use std::collections::BTreeMap;

use super::index::{
    IndexArchived, IndexBody, IndexCaptured, IndexFailure, IndexLexical, IndexMigrated, IndexNote,
    IndexProvider, IndexSources, LexicalDone, MAX_FAILURES,
};
use crate::ingest::capture::Problem;
use crate::ingest::index::{IndexOutcome, LexicalOutcome};
use crate::model::path::PathText;
use crate::model::provider::Provider;
use crate::store::lexical::Cause;
use crate::store::run::path_of;

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl From<&IndexOutcome> for IndexBody {
    fn from(outcome: &IndexOutcome) -> IndexBody {
        let c = &outcome.capture;
        let capture_errors = count(c.problems.len());
        let captured = count(c.captured.len());
        let seen = c.found + c.excluded;
        let mut providers: BTreeMap<&'static str, IndexProvider> = BTreeMap::new();
        let of = |provider: Provider| -> IndexProvider {
            IndexProvider {
                provider,
                seen: 0,
                captured: 0,
                messages: 0,
                failed: 0,
            }
        };
        for (root, _, files) in &c.roots {
            providers
                .entry(root.provider.as_str())
                .or_insert_with(|| of(root.provider))
                .seen += files;
        }
        for made in &c.captured {
            providers
                .entry(made.provider.as_str())
                .or_insert_with(|| of(made.provider))
                .captured += 1;
        }
        let feed_problems: &[Problem] = outcome.feed.as_ref().map_or(&[], |f| &f.problems);
        let mut failures = Vec::new();
        for (problem, captured) in c
            .problems
            .iter()
            .map(|p| (p, false))
            .chain(feed_problems.iter().map(|p| (p, true)))
        {
            providers
                .entry(problem.provider.as_str())
                .or_insert_with(|| of(problem.provider))
                .failed += 1;
            failures.push(IndexFailure {
                provider: problem.provider,
                path: PathText::new(&problem.path),
                kind: problem.kind,
                message: problem.message.clone(),
                captured,
            });
        }
        if let Some(feed) = &outcome.feed {
            for (provider, messages) in &feed.messages_by {
                providers
                    .entry(provider.as_str())
                    .or_insert_with(|| of(*provider))
                    .messages += messages;
            }
        }
        let fed = outcome.feed.iter().flat_map(|f| &f.notes);
        let notes: Vec<IndexNote> = c
            .notes
            .iter()
            .chain(fed)
            .map(|n| IndexNote {
                severity: n.code.severity(),
                code: n.code,
                provider: n.provider,
                path: PathText::new(&n.path),
                message: n.code.text().to_owned(),
            })
            .collect();
        IndexBody {
            sources: IndexSources {
                seen,
                unchanged: c.unchanged + c.reread,
                captured,
                excluded: c.excluded,
                deferred: c.deferred,
                failed: capture_errors,
                not_reached: c.not_reached,
                gone: c.gone,
                out_of_sight: c.out_of_sight,
            },
            captured: IndexCaptured {
                captures: captured,
                content_bytes: c.captured.iter().map(|m| m.len).sum(),
                stored_bytes: c.bytes_stored,
                moving: count(c.captured.iter().filter(|m| m.moving).count()),
                healed: c.healed,
                mirror_damage: outcome
                    .mirror_problems
                    .iter()
                    .filter(|p| !p.kind.harmless())
                    .take(MAX_FAILURES)
                    .map(|p| format!("{}: {}", p.file, p.message))
                    .collect(),
            },
            migrated: outcome.migrated.as_ref().map(|m| IndexMigrated {
                old_schema: m.old_schema,
                new_schema: m.new_schema,
                run_id: m.receipt.run_id.to_string(),
                receipt: path_of(&m.receipt.run_id),
                backup_id: m.receipt.backup_id.clone(),
            }),
            archived: outcome.feed.as_ref().map(|f| IndexArchived {
                generation: f.generation.clone(),
                created: f.created,
                commits: f.commits,
                backfilled: f.backfilled,
                conversations_added: f.conversations_added,
                conversations_grown: f.conversations_grown,
                records: f.records,
                messages: f.messages,
                skipped: f.skipped,
                commit: f.commit,
                head: f.head.clone(),
            }),
            lexical: lexical(&outcome.lexical),
            providers: providers.into_values().collect(),
            failures_total: count(failures.len()),
            failures,
            notes_total: count(notes.len()),
            notes,
            ..IndexBody::default()
        }
    }
}

fn lexical(outcome: &LexicalOutcome) -> IndexLexical {
    match outcome {
        LexicalOutcome::Skipped => IndexLexical::default(),
        LexicalOutcome::Failed(e) => IndexLexical {
            outcome: LexicalDone::Failed,
            problem: Some(e.message().to_owned()),
            ..IndexLexical::default()
        },
        LexicalOutcome::Refreshed(done) => IndexLexical {
            outcome: match done.rebuilt {
                None if done.changed() => LexicalDone::Updated,
                None => LexicalDone::Unchanged,
                Some(Cause::Missing | Cause::Asked) => LexicalDone::Built,
                Some(Cause::Unfinished) => LexicalDone::Resumed,
                Some(Cause::Outdated) => LexicalDone::RebuiltOutdated,
                Some(Cause::Hollow) => LexicalDone::RebuiltHollow,
                Some(Cause::Corrupt) => LexicalDone::RebuiltCorrupt,
            },
            documents: done.served.documents,
            added: done.added,
            removed: done.removed,
            unreadable: done.served.unreadable,
            cut: done.served.cut,
            problem: None,
        },
    }
}
