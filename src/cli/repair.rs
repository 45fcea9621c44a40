//! `cass doctor repair`, `cass doctor --fix`

use std::path::{Path, PathBuf};

use super::args::{ApplyArgs, Detail, DoctorArgs, RepairArgs};
use super::context::Context;
use super::emit::{Human, Output};
use super::page::Page;
use super::planned::{self, Came};
use crate::doctor::repair::{FixPlanner, RepairPlanner};
use crate::error::{Error, ErrorKind, Result};
use crate::model::next::{NextId, REPAIR};
use crate::model::plan::GateVerdict;
use crate::plan::{Approval, Ended};
use crate::report::envelope::{OutcomeKind, Report, Status};
use crate::report::mutation::{FixBody, RepairBody, RepairDryRunBody};
use crate::store::named::NamedArchive;

/// Runs the command; the dry run and the apply have documents of their own.
pub(super) fn run(ctx: &Context, args: &RepairArgs, out: &Output) -> u8 {
    let words = words(args);
    let came = repair(ctx, args, &words);
    let showing = planned::showing(ctx, &args.apply, &words);
    match came {
        Ok(came @ Came::Plan(_)) => {
            let report = planned::document(ctx, showing, &came, |repair_plan, mutation| {
                RepairDryRunBody {
                    repair_plan,
                    mutation,
                }
            });
            out.finish(Ok(report), true, &ctx.site)
        }
        Ok(came @ Came::Applied(_)) => {
            let report =
                planned::document(ctx, showing, &came, |repair_plan, mutation| RepairBody {
                    repair_plan,
                    mutation,
                });
            out.finish(Ok(report), true, &ctx.site)
        }
        Err(error) => out.fail(&error, true, &ctx.site),
    }
}

fn repair(ctx: &Context, args: &RepairArgs, words: &[String]) -> Result<Came> {
    if let Some(path) = args.from.as_ref().filter(|p| p.to_str().is_none()) {
        return Err(Error::new(
            ErrorKind::Usage,
            format!(
                "{} is no UTF-8: no command can be printed with it",
                path.display()
            ),
        )
        .with_hint("Name it by a link with another name."));
    }
    let planner = RepairPlanner {
        from: args.from.as_ref().map(|path| NamedArchive {
            path: absolute(path),
        }),
        allow_repeated: args.allow_repeated_repair,
    };
    let approval = planned::approval(&args.apply, words)?;
    planned::come(ctx, &planner, approval.as_ref(), words)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn words(args: &RepairArgs) -> Vec<String> {
    let mut words = ["doctor", "repair"].map(str::to_owned).to_vec();
    if let Some(from) = &args.from {
        // What is printed runs from any folder.
        words.push(format!("--from={}", absolute(from).display()));
    }
    if args.allow_repeated_repair {
        words.push("--allow-repeated-repair".to_owned());
    }
    words
}

/// `doctor --fix`
pub(super) fn fix(ctx: &Context, args: &DoctorArgs) -> Result<Report<FixBody>> {
    let planner = FixPlanner {
        force_rebuild: args.force_rebuild,
        allow_repeated: args.allow_repeated_repair,
    };
    // Nothing is locked or written where there is nothing that may be done.
    let mut came = planned::come(ctx, &planner, None, &[])?;
    if !came.plan().is_empty() && came.plan().blocked().is_none() {
        came = planned::come(ctx, &planner, Some(&Approval::Predeclared), &[])?;
    }
    let apply = ApplyArgs {
        dry_run: false,
        yes: false,
        plan_fingerprint: None,
        plan_file: None,
        detail: Detail::Brief,
        deterministic: args.check.deterministic,
    };
    let mut words = vec!["doctor", "--fix"];
    words.extend(args.force_rebuild.then_some("--force-rebuild"));
    words.extend(
        args.allow_repeated_repair
            .then_some("--allow-repeated-repair"),
    );
    let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
    let showing = planned::showing(ctx, &apply, &words);
    let refusals: Vec<String> = came
        .plan()
        .gates()
        .iter()
        .filter(|g| g.verdict == GateVerdict::Block)
        .map(|g| ctx.site.redact(&g.reason))
        .collect();
    let receipts = match &came {
        Came::Applied(done) => match &done.ended {
            Ended::Applied { receipt } => vec![crate::store::run::path_of(&receipt.run_id)],
            _ => Vec::new(),
        },
        Came::Plan(_) => Vec::new(),
    };
    let eligible = refusals.is_empty();
    let needs_repair = came.plan().notes().instead.is_some();
    let mut report = planned::document(ctx, showing, &came, |fix_plan, mutation| FixBody {
        safe_auto_eligibility: eligible,
        refusals,
        receipts,
        fix_plan,
        mutation,
    });
    if !eligible {
        report.operation_outcome.kind = OutcomeKind::AutoRunSkipped;
        if needs_repair {
            report = report.recommending(&[REPAIR], &ctx.site);
        } else {
            report.recommended_action = NextId::MakeRoom;
        }
    }
    Ok(report)
}

impl Human for RepairDryRunBody {
    fn page(report: &Report<Self>, page: &mut Page) {
        planned::page(&report.body.repair_plan, &report.body.mutation, page);
    }

    fn verdict(report: &Report<Self>) -> String {
        planned::verdict(report, "repair")
    }
}

impl Human for RepairBody {
    fn page(report: &Report<Self>, page: &mut Page) {
        planned::page(&report.body.repair_plan, &report.body.mutation, page);
    }

    fn verdict(report: &Report<Self>) -> String {
        planned::verdict(report, "repair")
    }
}

impl Human for FixBody {
    fn page(report: &Report<Self>, page: &mut Page) {
        planned::page(&report.body.fix_plan, &report.body.mutation, page);
    }

    fn verdict(report: &Report<Self>) -> String {
        match report.status {
            Status::NoOp => "Nothing to do: what is derived is as it should be.".to_owned(),
            Status::Applied => "Done: derived data was made anew.".to_owned(),
            _ => planned::verdict(report, "automatic fix"),
        }
    }
}
