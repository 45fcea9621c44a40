//! `cass doctor backups list`, `cass doctor backups verify`

use super::args::{BackupsListArgs, BackupsVerifyArgs};
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count, size};
use super::{parse, place};
use crate::doctor::backups::{self, Entry};
use crate::error::Result;
use crate::model::next::Next;
use crate::model::verdict::{ArtifactState, BackupKind, BackupState};
use crate::report::backups::{
    BackupEntry, BackupsListBody, BackupsVerifyBody, Verification, backups_list_report,
    backups_verify_report,
};
use crate::report::envelope::Report;

pub(super) fn list(ctx: &Context, args: &BackupsListArgs) -> Result<Report<BackupsListBody>> {
    let root = place::with_anything(&ctx.env)?;
    let all = backups::list(&root)?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let commands = |e: &Entry| commands(ctx, e);
    Ok(backups_list_report(&all, limit, &commands, &ctx.site))
}

pub(super) fn verify(ctx: &Context, args: &BackupsVerifyArgs) -> Result<Report<BackupsVerifyBody>> {
    let root = place::with_anything(&ctx.env)?;
    let compared = backups::verify(&root, &args.id, args.deep, &ctx.interrupt)?;
    let commands = |e: &Entry| commands(ctx, e);
    Ok(backups_verify_report(
        &compared, args.deep, &commands, &ctx.site,
    ))
}

/// What verifies it and what rehearses a restore, as far as this program reads such words.
fn commands(ctx: &Context, e: &Entry) -> (Option<Vec<String>>, Option<Vec<String>>) {
    let verify = Next::BackupsVerify {
        id: e.id.clone(),
        deep: false,
    };
    let rehearse = ["cass", "doctor", "backups", "restore", e.id.as_str()].map(str::to_owned);
    let reads = |argv: Vec<String>| ctx.site.argv(argv).filter(|argv| parse::reads(argv));
    let believed = e.state != BackupState::Unreadable;
    (
        reads(verify.argv()),
        reads(rehearse.to_vec()).filter(|_| believed),
    )
}

fn kind(e: &BackupEntry) -> &'static str {
    match e.kind {
        BackupKind::Operator => "backup",
        BackupKind::SealedGeneration => "sealed",
    }
}

/// One line of at most 80 columns, with the words that people give last.
fn line(e: &BackupEntry) -> String {
    let at = e.created_at.as_deref().and_then(|t| t.get(..16));
    let at = at.map_or_else(|| "-".to_owned(), |t| t.replace('T', " "));
    let commit = e.commit.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let words = e.label.as_deref().or(e.reason.as_deref()).unwrap_or("");
    format!(
        "{}  {}  {at:<16}  {:>8}  commit {commit:>6}  {words}",
        e.backup_id,
        kind(e),
        e.bytes.map_or_else(|| "-".to_owned(), size)
    )
}

impl Human for BackupsListBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        for e in &r.body.backups {
            if let Some(problem) = &e.problem {
                page.anomaly(Mark::Warn, &format!("{}: {problem}", e.backup_id));
            }
            page.fact(&line(e));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let b = &r.body;
        if b.total == 0 {
            return "No backup was made, and no generation is sealed.".to_owned();
        }
        format!(
            "{} and {}, {}; none is removed by itself.",
            count(b.operator_total, "backup", "backups"),
            count(b.sealed_total, "sealed generation", "sealed generations"),
            size(b.total_bytes)
        )
    }
}

impl Human for BackupsVerifyBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        for f in &b.artifact_manifest.files {
            if f.status != ArtifactState::Matched {
                let mark = match f.status {
                    ArtifactState::ExtraFile => Mark::Warn,
                    _ => Mark::Error,
                };
                let problem = f.problem.as_deref().unwrap_or("");
                page.anomaly(mark, &format!("{} {problem}", f.name));
            }
        }
        for finding in b.rows.iter().flat_map(|rows| &rows.findings) {
            page.anomaly(Mark::Error, finding);
        }
        page.fact(&line(&b.backup));
        for f in &b.artifact_manifest.files {
            if let (Some(bytes), Some(hash)) = (f.bytes, &f.blake3) {
                let short = hash.get(..16).unwrap_or(hash);
                page.fact(&format!("  {:<20} {:>8}  {short}", f.name, size(bytes)));
            }
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let b = &r.body;
        let id = &b.backup.backup_id;
        match (b.backup_verification, b.rows.is_some()) {
            (Verification::Verified, true) => {
                format!("Every file of {id} is as it was, and every row of its archive agrees.")
            }
            (Verification::Verified, false) => format!("Every file of {id} is as it was."),
            (Verification::Failed, _) if b.restore_rehearsal_allowed => {
                format!("{id} is whole, and something lies in it that is not part of it.")
            }
            (Verification::Failed, _) => format!("{id} is not as it was made."),
        }
    }
}
