//! `cass export`

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::args::{ExportArgs, Format};
use super::context::Context;
use super::emit::{Human, Output};
use super::export_json::JsonExport;
use super::page::{Page, count, size};
use super::place;
use crate::disk::{HandOut, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::path::PathText;
use crate::report::envelope::Report;
use crate::report::export::{ExportBody, ExportFormat, ExportedFile, MAX_FILES};

pub(super) fn run(ctx: &Context, args: &ExportArgs, out: &Output) -> u8 {
    match (args.format, &args.output) {
        (Format::Raw, _) => out.finish(raw(ctx, args), true, &ctx.site),
        (Format::Json, Some(file)) => out.finish(json_file(ctx, args, file), true, &ctx.site),
        (Format::Json, None) => json_stdout(ctx, args, out),
    }
}

fn raw(ctx: &Context, args: &ExportArgs) -> Result<Report<ExportBody>> {
    let root = place::with_archive(&ctx.env)?;
    let mut body = raw_core(ctx, &root, args)?;
    body.files.sort_by(|a, b| a.path.cmp(&b.path));
    body.files_total = body
        .files_total
        .max(u64::try_from(body.files.len()).unwrap_or(u64::MAX));
    body.files.truncate(MAX_FILES);
    Ok(Report::ok(body))
}

/// CALL SITE: export --format raw. Hands the newest capture of every source of the session out
/// below `args.output` (a folder named by the session's id when absent), each file under its own
/// name, through `disk::HandOut`. `ctx.interrupt.check()?` between files.
fn raw_core(_ctx: &Context, _root: &Root, _args: &ExportArgs) -> Result<ExportBody> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "export --format raw is not part of this build",
    ))
}

/// CALL SITE: export --format json. Calls `sink.session` once, then `sink.message` for each
/// message in order. `ctx.interrupt.check()?` now and then. `not-found` before the first call.
fn json_core<W: std::io::Write>(
    _ctx: &Context,
    _root: &Root,
    _args: &ExportArgs,
    _sink: &mut JsonExport<W>,
) -> Result<()> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "export --format json is not part of this build",
    ))
}

fn json_file(ctx: &Context, args: &ExportArgs, file: &Path) -> Result<Report<ExportBody>> {
    let root = place::with_archive(&ctx.env)?;
    let target: PathBuf = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let mut sink = JsonExport::new(HandOut::create(&target)?);
    // A document of a file is whole or not there: an error drops the unpublished file.
    json_core(ctx, &root, args, &mut sink)?;
    let id = sink.id().to_owned();
    let (hand_out, bytes, digest) = sink
        .end(None, &ctx.site)
        .map_err(|e| Error::io("write", &target, e))?;
    hand_out.publish()?;
    let path = PathText::new(&target);
    Ok(Report::ok(ExportBody {
        id,
        format: ExportFormat::Json,
        output: path.clone(),
        files: vec![ExportedFile {
            path,
            bytes,
            blake3: digest,
            source: None,
            seq: None,
        }],
        files_total: 1,
        bytes_total: bytes,
    }))
}

fn json_stdout(ctx: &Context, args: &ExportArgs, out: &Output) -> u8 {
    let root = match place::with_archive(&ctx.env) {
        Ok(root) => root,
        Err(error) => return out.fail(&error, false, &ctx.site),
    };
    let mut sink = JsonExport::new(BufWriter::with_capacity(1 << 16, out.stream()));
    let result = json_core(ctx, &root, args, &mut sink);
    if !sink.has_begun() {
        return match result {
            Err(error) => out.fail(&error, false, &ctx.site),
            Ok(()) => out.fail(
                &Error::new(ErrorKind::Internal, "the export gave no session"),
                false,
                &ctx.site,
            ),
        };
    }
    let error = result.err();
    if let Some(e) = sink.take_io_error() {
        return Output::not_written(&e, 0);
    }
    let code = error.as_ref().map_or(0, |e| e.kind().exit().code());
    // What follows the last message is short; a signal may end it.
    out.arm();
    match sink.end(error.as_ref(), &ctx.site) {
        Ok(_) => code,
        Err(e) => Output::not_written(&e, code),
    }
}

impl Human for ExportBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        for file in &r.body.files {
            page.fact(&format!("{:>8}  {}", size(file.bytes), file.path.path));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        format!(
            "{} handed out, {}.",
            count(r.body.files_total, "file", "files"),
            size(r.body.bytes_total)
        )
    }
}
