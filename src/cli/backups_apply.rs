//! `cass doctor backups create|restore`

use super::args::{BackupsCreateArgs, BackupsRestoreArgs};
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count};
use super::place;
use super::planned::{self, Came};
use crate::doctor::backup_plan::{BackupPlanner, RestorePlanner};
use crate::error::Result;
use crate::model::watch::Watch;
use crate::plan::{Ended, Rehearsal, rehearse};
use crate::report::envelope::{Report, Status};
use crate::report::mutation::{BackupCreateBody, Mode, RestoreArchiveBody, RestoreRehearsal};
use crate::store::run::path_of;

pub(super) fn create(ctx: &Context, args: &BackupsCreateArgs) -> Result<Report<BackupCreateBody>> {
    let planner = BackupPlanner {
        label: args.label.clone(),
    };
    let mut words = ["doctor", "backups", "create"].map(str::to_owned).to_vec();
    if let Some(label) = &args.label {
        words.push(format!("--label={label}"));
    }
    let approval = planned::approval(&args.apply, &words)?;
    let came = planned::come(ctx, &planner, approval.as_ref(), &words)?;
    let showing = planned::showing(ctx, &args.apply, &words);
    Ok(planned::document(
        ctx,
        showing,
        &came,
        |backup_plan, mutation| BackupCreateBody {
            backup_id: mutation.receipt.as_ref().and_then(|r| r.backup_id.clone()),
            backup_plan,
            mutation,
        },
    ))
}

pub(super) fn restore(
    ctx: &Context,
    args: &BackupsRestoreArgs,
) -> Result<Report<RestoreArchiveBody>> {
    let planner = RestorePlanner {
        id: args.id.clone(),
        keep_newer: args.keep_newer,
    };
    let mut words = ["doctor", "backups", "restore"].map(str::to_owned).to_vec();
    if args.keep_newer {
        words.push("--keep-newer".to_owned());
    }
    words.extend(["--".to_owned(), args.id.clone()]);
    let showing = planned::showing(ctx, &args.apply, &words);
    let Some(approval) = planned::approval(&args.apply, &words)? else {
        return rehearsed(ctx, args, &planner, showing);
    };
    let came = planned::come(ctx, &planner, Some(&approval), &words)?;
    let before = match &came {
        Came::Applied(done) => match &done.ended {
            Ended::Applied { receipt } | Ended::AlreadyApplied { receipt } => {
                receipt.backup_id.clone()
            }
            _ => None,
        },
        Came::Plan(_) => None,
    };
    Ok(planned::document(
        ctx,
        showing,
        &came,
        |restore_plan, mutation| RestoreArchiveBody {
            backup_id: args.id.clone(),
            restore_plan,
            restore_rehearsal: RestoreRehearsal {
                status: "not-run".to_owned(),
                gained_records: 0,
                lost_records: 0,
                error: None,
            },
            rehearsal_receipt: None,
            restore_apply_allowed: true,
            pre_restore_backup_id: before,
            mutation,
        },
    ))
}

/// Without `--yes`, a candidate is built and verified in isolation, and removed again.
fn rehearsed(
    ctx: &Context,
    args: &BackupsRestoreArgs,
    planner: &RestorePlanner,
    showing: crate::report::mutation_of::Showing<'_>,
) -> Result<Report<RestoreArchiveBody>> {
    drop(place::wait_for_checkpoint(&ctx.env, &ctx.interrupt)?);
    let watch = Watch {
        progress: &ctx.progress,
        interrupt: &ctx.interrupt,
    };
    let Rehearsal {
        plan,
        receipt,
        gained,
        lost,
        error,
    } = rehearse(&ctx.env, planner, watch)?;
    ctx.progress.end();
    let allowed = error.is_none() && plan.blocked().is_none();
    let came = Came::Plan(plan);
    let mut report = planned::document(ctx, showing, &came, |restore_plan, mut mutation| {
        mutation.mode = Mode::Rehearsal;
        RestoreArchiveBody {
            backup_id: args.id.clone(),
            restore_plan,
            restore_rehearsal: RestoreRehearsal {
                status: if error.is_none() {
                    "verified"
                } else {
                    "failed"
                }
                .to_owned(),
                gained_records: gained,
                lost_records: lost,
                error: error.as_ref().map(|e| e.message().to_owned()),
            },
            rehearsal_receipt: Some(path_of(&receipt.run_id)),
            restore_apply_allowed: allowed,
            pre_restore_backup_id: None,
            mutation,
        }
    });
    if let Some(error) = &error {
        report = report.failing(error, true, &ctx.site);
    }
    Ok(report)
}

impl Human for BackupCreateBody {
    fn page(report: &Report<Self>, page: &mut Page) {
        planned::page(&report.body.backup_plan, &report.body.mutation, page);
    }

    fn verdict(report: &Report<Self>) -> String {
        match report.status {
            Status::Applied => {
                "Done: the backup is made and verified. To see how things stand:".to_owned()
            }
            _ => planned::verdict(report, "backup"),
        }
    }
}

impl Human for RestoreArchiveBody {
    fn page(report: &Report<Self>, page: &mut Page) {
        let b = &report.body;
        let r = &b.restore_rehearsal;
        if let Some(error) = &r.error {
            page.anomaly(Mark::Error, &format!("the rehearsal failed: {error}"));
        }
        planned::page(&b.restore_plan, &b.mutation, page);
        if let Some(receipt) = &b.rehearsal_receipt {
            page.fact(&format!(
                "rehearsed {}, {} gained, {} lost",
                r.status,
                count(r.gained_records, "record", "records"),
                r.lost_records
            ));
            page.fact(&format!("receipt   {receipt}"));
        }
    }

    fn verdict(report: &Report<Self>) -> String {
        planned::verdict(report, "restore")
    }
}
