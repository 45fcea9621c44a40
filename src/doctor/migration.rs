//! The plan by which an archive of an older schema becomes one of the present schema: its rows, every one
//! verified, are put into a new archive beside it. `cass index` carries it out without asking, because
//! nothing is lost by it and it can be undone.

use super::repair::{SPARE, Survey, archive_state, marker_state, promise_state};
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{Action, Body, Draft, Notes, PlanKind, Recipe};
use crate::plan::{Ground, Planner};
use crate::store::archive::SCHEMA_VERSION;
use crate::store::layout;
use crate::store::run::MarkerState;

/// Plans the migration of the live archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MigrationPlanner;

impl Planner for MigrationPlanner {
    fn kind(&self) -> PlanKind {
        PlanKind::Migrate
    }

    fn plan(&self, ground: &Ground<'_>) -> Result<Draft> {
        let Some(root) = ground.root() else {
            return Err(Error::new(
                ErrorKind::NotInitialized,
                "there is no archive to migrate",
            ));
        };
        let watch = ground.watch();
        let marker = marker_state(root)?;
        // Before every row is read: each index asks.
        refuse_repeat(&marker)?;
        let survey = Survey::take(root, watch)?;
        let mut body = Body::new(self.kind(), archive_state(root, &survey, watch)?);
        let Some(live) = survey.at_hand.as_ref().filter(|g| g.manifest.is_older()) else {
            return Ok(Draft {
                body,
                gates: Vec::new(),
                notes: Notes::default(),
            });
        };
        let from = live.manifest.schema_version;
        if !survey.is_sound() {
            return Err(damaged(from, &survey.reasons));
        }
        body.promises = survey.promises.as_ref().map(promise_state);
        body.marker = marker.digest().map(|d| d.to_hex());
        let db = layout::archive_db(live.id.as_str());
        let notes = Notes {
            required_bytes: db_bytes(root, &db)? * 2 + SPARE,
            coverage: survey.coverage,
            reasons: vec![format!(
                "the archive is of schema {from}, and this version writes schema {SCHEMA_VERSION}"
            )],
            ..Notes::default()
        };
        body.actions = vec![
            Action::StageCandidate {
                recipe: Recipe::Migrate {
                    generation: live.id.to_string(),
                    old_schema: number(from),
                    new_schema: number(SCHEMA_VERSION),
                },
            },
            Action::PromoteCandidate,
        ];
        Ok(Draft {
            body,
            gates: Vec::new(),
            notes,
        })
    }
}

fn number(version: i64) -> u32 {
    u32::try_from(version).unwrap_or(0)
}

fn db_bytes(root: &Root, db: &str) -> Result<u64> {
    let wal = root.file_len(&format!("{db}-wal"))?.unwrap_or(0);
    Ok(root.file_len(db)?.unwrap_or(0) + wal)
}

fn damaged(from: i64, reasons: &[String]) -> Error {
    let why = reasons
        .first()
        .map_or_else(String::new, |r| format!(": {r}"));
    Error::new(
        ErrorKind::ArchiveCorrupt,
        format!("the archive of schema {from} is damaged and can't be migrated as it is{why}"),
    )
    .with_hint("What is new is captured. A repair makes an archive of the present schema:")
    .with_hint_argv(["cass", "doctor", "repair"])
}

/// A migration that failed is not tried again before somebody looked: each try copies the archive. A
/// repair that failed is no reason: the archive is sound. Nor is a damaged marker: should this fail too,
/// it leaves one that is whole.
fn refuse_repeat(marker: &MarkerState) -> Result<()> {
    let run = match marker {
        MarkerState::Present { marker, .. } if marker.kind == PlanKind::Migrate => &marker.run_id,
        MarkerState::Absent | MarkerState::Present { .. } | MarkerState::Corrupt { .. } => {
            return Ok(());
        }
    };
    Err(Error::new(
        ErrorKind::Blocked,
        format!(
            "the archive is of an older schema and is not migrated: its migration failed, which \
             doctor/failures/{run}.json tells of"
        ),
    )
    .with_context("gate", "repair-marker")
    .with_hint(
        "What is new is captured, and the archive is read as it is. This plans to clear the marker; \
         the next index then tries again:",
    )
    .with_hint_argv(["cass", "doctor", "repair", "--allow-repeated-repair"]))
}
