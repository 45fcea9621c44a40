//! `cass export` as a page that people read: written as it is read, message by message, so that a
//! session may be larger than memory.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::args::{ExportArgs, Format};
use super::context::Context;
use super::emit::Output;
use super::export_html::Html;
use super::export_markdown::Markdown;
use super::reading::{Item, Selection, Totals, read};
use super::{place, session_name};
use crate::disk::{HandOut, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::conversation::{ArchivedMessage, Conversation};
use crate::model::path::{PathText, hex};
use crate::report::envelope::Report;
use crate::report::export::{ExportBody, ExportFormat, ExportedFile};
use crate::report::view::ViewDamage;

/// One way to set a session.
pub(super) trait Setting {
    /// What comes before the messages.
    fn head(&self, out: &mut dyn Write, session: &Conversation) -> io::Result<()>;
    /// One message.
    fn message(&self, out: &mut dyn Write, number: u64, m: &ArchivedMessage) -> io::Result<()>;
    /// Bytes that no parser could read.
    fn damage(&self, out: &mut dyn Write, damage: &ViewDamage) -> io::Result<()>;
    /// What comes last.
    fn end(&self, out: &mut dyn Write, totals: &Totals) -> io::Result<()>;
}

fn setting(format: Format) -> (&'static dyn Setting, ExportFormat) {
    match format {
        Format::Html => (&Html, ExportFormat::Html),
        _ => (&Markdown, ExportFormat::Markdown),
    }
}

/// Counts and hashes what goes through it, and keeps the error that the writer gave.
struct Page<W> {
    out: W,
    hasher: blake3::Hasher,
    begun: bool,
}

impl<W: Write> Write for Page<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.begun = true;
        let n = self.out.write(buf)?;
        self.hasher.update(buf.get(..n).unwrap_or(buf));
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Page<W> {
    fn new(out: W) -> Self {
        Page {
            out,
            hasher: blake3::Hasher::new(),
            begun: false,
        }
    }
}

/// Why a page ended early: the session could not be read, or the page not written.
enum Ended {
    Reading(Error),
    Writing(io::Error),
}

fn write(
    ctx: &Context,
    root: &Root,
    args: &ExportArgs,
    out: &mut dyn Write,
) -> std::result::Result<String, Ended> {
    let (setting, _) = setting(args.format);
    let archive = place::archive(root).map_err(Ended::Reading)?;
    let session = session_name::session(&ctx.env, &archive, &args.id).map_err(Ended::Reading)?;
    setting.head(out, &session).map_err(Ended::Writing)?;
    let mut failed = None;
    let totals = read(
        &ctx.interrupt,
        &archive,
        &session,
        Selection::WHOLE,
        &mut |item| {
            let written = match &item {
                Item::Message(number, m) => setting.message(out, *number, m),
                Item::Damage(d) => setting.damage(out, d),
            };
            written.map(|()| true).map_err(|e| {
                let error = Error::new(ErrorKind::of(&e), format!("the page: {e}"));
                failed = Some(e);
                error
            })
        },
    );
    match (failed, totals) {
        (Some(e), _) => Err(Ended::Writing(e)),
        (None, Err(e)) => Err(Ended::Reading(e)),
        (None, Ok(totals)) => {
            setting
                .end(out, &totals)
                .and_then(|()| out.flush())
                .map_err(Ended::Writing)?;
            Ok(session.id)
        }
    }
}

pub(super) fn file(ctx: &Context, args: &ExportArgs, file: &Path) -> Result<Report<ExportBody>> {
    let root = place::with_archive(&ctx.env)?;
    let target: PathBuf = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    place::hand_out_target(&ctx.env, &target)?;
    let buffer = BufWriter::with_capacity(1 << 16, HandOut::create(&target)?);
    let mut page = Page::new(buffer);
    let failed = |e: io::Error| Error::io("write", &target, e);
    // A page of a file is whole or not there: an error drops the unpublished file.
    let id = write(ctx, &root, args, &mut page).map_err(|ended| match ended {
        Ended::Reading(error) => error,
        Ended::Writing(e) => failed(e),
    })?;
    let bytes = page.hasher.count();
    let blake3 = hex(page.hasher.finalize().as_bytes());
    let out = page.out.into_inner().map_err(|e| failed(e.into_error()))?;
    out.publish()?;
    let path = PathText::new(&target);
    Ok(Report::ok(ExportBody {
        id,
        format: setting(args.format).1,
        output: path.clone(),
        files: vec![ExportedFile {
            path,
            bytes,
            blake3,
            source: None,
            seq: None,
        }],
        files_total: 1,
        bytes_total: bytes,
    }))
}

pub(super) fn stdout(ctx: &Context, args: &ExportArgs, out: &Output) -> u8 {
    if out.is_json() {
        let error = Error::new(
            ErrorKind::Usage,
            "a page on stdout and one JSON document exclude each other",
        )
        .with_hint("Name a file with -o, or leave --json out.");
        return out.fail(&error, false, &ctx.site);
    }
    let root = match place::with_archive(&ctx.env) {
        Ok(root) => root,
        Err(error) => return out.fail(&error, false, &ctx.site),
    };
    let mut page = BufWriter::with_capacity(1 << 16, out.stream());
    match write(ctx, &root, args, &mut page) {
        Ok(_) => 0,
        Err(Ended::Writing(e)) => Output::not_written(&e, 0),
        // What was read before stays written; the exit and stderr say that it is not all.
        Err(Ended::Reading(error)) => match page.flush() {
            Ok(()) => out.fail(&error, false, &ctx.site),
            Err(e) => Output::not_written(&e, error.kind().exit().code()),
        },
    }
}

/// The day and time of a message, to the second.
pub(super) fn moment(ms: Option<i64>) -> Option<String> {
    let text = crate::report::time::rfc3339(ms?)?;
    let text: String = text.chars().take(19).collect();
    Some(text.replace('T', " "))
}

/// What is known of a session, as pairs of name and value.
pub(super) fn facts(s: &Conversation) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("agent", s.provider.display_name().to_owned()),
        ("session", s.native_id.clone()),
    ];
    let more = [
        ("workspace", s.workspace.clone()),
        ("started", moment(s.started_ms)),
        ("ended", moment(s.ended_ms)),
        ("agent version", s.harness_version.clone()),
        ("parent", s.parent_session.clone()),
        ("branches off", s.branch_of.clone()),
    ];
    facts.extend(more.into_iter().filter_map(|(k, v)| Some((k, v?))));
    facts
}

/// The heading of a session.
pub(super) fn title(s: &Conversation) -> &str {
    s.title.as_deref().unwrap_or(&s.native_id)
}

/// What is said of damage.
pub(super) fn damaged(d: &ViewDamage) -> String {
    format!(
        "{} bytes at line {} of {} could be read as no record; they are in the mirror.",
        d.len, d.line, d.path.path
    )
}
