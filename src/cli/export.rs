//! `cass export`

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::args::{ExportArgs, Format};
use super::context::Context;
use super::emit::{Human, Output};
use super::export_json::JsonExport;
use super::page::{Page, count, size};
use super::sanitise::{ending, visible};
use super::write_out::written_out;
use super::{export_page, place, session_name};
use crate::disk::{HandOut, HandOutSet, Root, is_folder};
use crate::error::{Error, ErrorKind, Result};
use crate::model::path::PathText;
use crate::report::envelope::Report;
use crate::report::export::{
    ExportBody, ExportFormat, ExportMessage, ExportSession, ExportedFile, MAX_FILES,
};
use crate::store::mirror::MirrorReader;
use crate::store::session_files::{SessionFile, session_files};

pub(super) fn run(ctx: &Context, args: &ExportArgs, out: &Output) -> u8 {
    match (args.format, &args.output) {
        (Format::Raw, _) => out.finish(raw(ctx, args), true, &ctx.site),
        (Format::Markdown | Format::Html, Some(file)) => {
            out.finish(export_page::file(ctx, args, file), true, &ctx.site)
        }
        (Format::Markdown | Format::Html, None) => export_page::stdout(ctx, args, out),
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
    let session = session_name::session(&ctx.env, &archive, &args.id)?;
    let mirror = place::mirror(root)?;
    let files = session_files(&archive, &mirror, &session)?;
    let folder = args
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(&session.id));
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    place::hand_out_target(&ctx.env, &folder)?;
    let targets: Vec<PathBuf> = names(&files).iter().map(|n| folder.join(n)).collect();
    all_free(&folder, &targets)?;
    let mut body = ExportBody {
        id: session.id,
        format: ExportFormat::Raw,
        output: PathText::new(&folder),
        files: Vec::new(),
        files_total: 0,
        bytes_total: 0,
    };
    let mut set = HandOutSet::default();
    let result = write_all(ctx, &mirror, &folder, &files, &targets, &mut set);
    if let Err(error) = result {
        let left = set.take_back();
        return Err(if left.is_empty() {
            error
        } else {
            let left: Vec<_> = left.iter().map(|p| p.display().to_string()).collect();
            error
                .with_hint("Some files are complete and could not be taken back: see the context.")
                .with_context("complete_files", left.join("\n"))
        });
    }
    set.keep();
    for (file, target) in files.iter().zip(&targets) {
        body.bytes_total += file.capture.len;
        body.files.push(ExportedFile {
            path: PathText::new(target),
            bytes: file.capture.len,
            blake3: file.capture.hash.to_hex(),
            source: Some(file.source.key.to_string()),
            seq: Some(file.capture.seq),
        });
    }
    Ok(body)
}

/// Looks at every name before the first is taken, so that a refusal leaves nothing behind.
fn all_free(folder: &Path, targets: &[PathBuf]) -> Result<()> {
    if !is_folder(folder)? {
        // Nothing can be in the way in a folder that is not there.
        return Ok(());
    }
    for target in targets {
        match target.parent() {
            Some(parent) if parent != folder && !is_folder(parent)? => {}
            _ => HandOut::check(target)?,
        }
    }
    Ok(())
}

fn write_all(
    ctx: &Context,
    mirror: &MirrorReader<'_>,
    folder: &Path,
    files: &[SessionFile],
    targets: &[PathBuf],
    set: &mut HandOutSet,
) -> Result<()> {
    set.create_dir(folder)?;
    for (file, target) in files.iter().zip(targets) {
        ctx.interrupt.check()?;
        if let Some(parent) = target.parent() {
            set.create_dir(parent)?;
        }
        let promised = &file.capture;
        let content = mirror.open_content(promised.recipe, promised.len)?;
        let out = written_out(content, target, promised.len, promised.hash, &ctx.interrupt)?;
        set.publish(out)?;
    }
    Ok(())
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
    let session = session_name::session(&ctx.env, &archive, &args.id)?;
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
    let failed = |e: std::io::Error| Error::io("write", &target, e);
    if let Err(error) = json_core(ctx, &root, args, &mut sink) {
        return Err(sink.take_io_error().map_or(error, failed));
    }
    let id = sink.id().to_owned();
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
        let files = &r.body.files;
        let folder = |f: &ExportedFile| Path::new(&f.path.path).parent().map(Path::to_path_buf);
        // Files of one folder are told apart by their names; its own is said once.
        let one = files.first().and_then(folder).filter(|_| files.len() > 1);
        let one = one.filter(|one| files.iter().all(|f| folder(f).as_ref() == Some(one)));
        for file in files {
            let path = match &one {
                Some(_) => file.path.path.rsplit('/').next().unwrap_or_default(),
                None => &file.path.path,
            };
            page.fact(&format!(
                "{:>8}  {}",
                size(file.bytes),
                ending(&visible(path), 70)
            ));
        }
        if let Some(folder) = one {
            page.fact(&format!("folder    {}", folder.display()));
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
