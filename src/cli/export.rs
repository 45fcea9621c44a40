//! `cass export`

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::args::{ExportArgs, Format};
use super::context::Context;
use super::emit::{Human, Output};
use super::export_json::JsonExport;
use super::page::{Page, count, size};
use super::place;
use super::write_out::hand_out;
use crate::disk::{HandOut, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::path::PathText;
use crate::report::envelope::Report;
use crate::report::export::{
    ExportBody, ExportFormat, ExportMessage, ExportSession, ExportedFile, MAX_FILES,
};
use crate::store::session_files::{SessionFile, session_files};

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

fn raw_core(ctx: &Context, root: &Root, args: &ExportArgs) -> Result<ExportBody> {
    let archive = place::archive(root)?;
    let session = place::session(&archive, &args.id)?;
    let mirror = place::mirror(root)?;
    let files = session_files(&archive, &mirror, &session)?;
    let folder = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(&session.id));
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    place::hand_out_target(&ctx.env, &folder)?;
    let mut body = ExportBody {
        id: session.id,
        format: ExportFormat::Raw,
        output: PathText::new(&folder),
        files: Vec::new(),
        files_total: 0,
        bytes_total: 0,
    };
    for (file, name) in files.iter().zip(names(&files)) {
        ctx.interrupt.check()?;
        let target = folder.join(&name);
        if let Some(parent) = target.parent() {
            HandOut::create_dir(parent)?;
        }
        let content = mirror.open_content(file.capture.recipe, file.capture.len)?;
        let promised = &file.capture;
        hand_out(
            content,
            &target,
            promised.len,
            promised.hash,
            &ctx.interrupt,
        )?;
        body.bytes_total += file.capture.len;
        body.files.push(ExportedFile {
            path: PathText::new(&target),
            bytes: file.capture.len,
            blake3: file.capture.hash.to_hex(),
            source: Some(file.source.key.to_string()),
            seq: Some(file.capture.seq),
        });
    }
    Ok(body)
}

/// Where each file goes below the folder: under its own name. Two of one name go into folders
/// named by their source's key, and an older version of a rewritten file carries its number.
fn names(files: &[SessionFile]) -> Vec<PathBuf> {
    let plain: Vec<PathBuf> = files
        .iter()
        .map(|f| {
            let mut name = f.source.path.file_name().unwrap_or_default().to_owned();
            if f.superseded {
                name.push(format!(".capture-{}", f.capture.seq));
            }
            PathBuf::from(name)
        })
        .collect();
    plain
        .iter()
        .zip(files)
        .map(
            |(name, file)| match plain.iter().filter(|n| *n == name).count() {
                1 => name.clone(),
                _ => PathBuf::from(file.source.key.to_string()).join(name),
            },
        )
        .collect()
}

fn json_core<W: std::io::Write>(
    ctx: &Context,
    root: &Root,
    args: &ExportArgs,
    sink: &mut JsonExport<W>,
) -> Result<()> {
    let archive = place::archive(root)?;
    let session = place::session(&archive, &args.id)?;
    sink.session(&ExportSession::from(&session))?;
    archive.messages(&session.id, &mut |message| {
        ctx.interrupt.check()?;
        sink.message(&ExportMessage::from(message))
    })
}

fn json_file(ctx: &Context, args: &ExportArgs, file: &Path) -> Result<Report<ExportBody>> {
    let root = place::with_archive(&ctx.env)?;
    let target: PathBuf = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    place::hand_out_target(&ctx.env, &target)?;
    let mut sink = JsonExport::new(BufWriter::with_capacity(1 << 16, HandOut::create(&target)?));
    // A document of a file is whole or not there: an error drops the unpublished file.
    json_core(ctx, &root, args, &mut sink)?;
    let id = sink.id().to_owned();
    let failed = |e: std::io::Error| Error::io("write", &target, e);
    let (buffer, bytes, digest) = sink.end(None, &ctx.site).map_err(failed)?;
    buffer
        .into_inner()
        .map_err(|e| failed(e.into_error()))?
        .publish()?;
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
