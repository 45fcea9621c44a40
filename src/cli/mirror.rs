//! `cass mirror verify`, `cass mirror list`, `cass mirror get`

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::args::{MirrorGetArgs, MirrorListArgs, MirrorVerifyArgs};
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count, size};
use super::place;
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::report::envelope::Report;
use crate::report::mirror::{
    MirrorGetBody, MirrorListBody, MirrorVerifyBody, mirror_verify_report,
};

pub(super) fn verify(ctx: &Context, args: &MirrorVerifyArgs) -> Result<Report<MirrorVerifyBody>> {
    let root = place::with_mirror(&ctx.env)?;
    let body = verify_core(ctx, &root, args)?;
    ctx.progress.end();
    Ok(mirror_verify_report(
        body,
        ctx.interrupt.pending(),
        &ctx.site,
    ))
}

/// CALL SITE: mirror verify. Fills everything; problems may be more than the document lists (the
/// caller cuts), but need not be all, if `problems_total` counts them. `complete` is false when
/// `ctx.interrupt` ended it early. A damaged object is a problem, never an `Err`.
fn verify_core(_ctx: &Context, _root: &Root, _args: &MirrorVerifyArgs) -> Result<MirrorVerifyBody> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "mirror verify is not part of this build",
    ))
}

pub(super) fn list(ctx: &Context, args: &MirrorListArgs) -> Result<Report<MirrorListBody>> {
    let root = place::with_mirror(&ctx.env)?;
    let mut body = list_core(ctx, &root, args)?;
    body.truncated = u64::try_from(body.captures.len()).unwrap_or(u64::MAX) < body.total;
    if body.truncated {
        let argv = [
            "cass",
            "mirror",
            "list",
            &body.source.key,
            "--limit",
            &body.total.to_string(),
        ]
        .map(str::to_owned)
        .to_vec();
        body.detail_argv = ctx.site.argv(argv);
    }
    Ok(Report::ok(body))
}

/// CALL SITE: mirror list. `args.source` is a key or a path; `ambiguous-name` (keys in the context)
/// when several sources have the path. Fills `captures` (newest first, at most `args.limit`) and
/// `total`.
fn list_core(_ctx: &Context, _root: &Root, _args: &MirrorListArgs) -> Result<MirrorListBody> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "mirror list is not part of this build",
    ))
}

pub(super) fn get(ctx: &Context, args: &MirrorGetArgs) -> Result<Report<MirrorGetBody>> {
    let wanted = Wanted::read(&args.source, args.seq)?;
    let root = place::with_mirror(&ctx.env)?;
    get_core(ctx, &root, &wanted, args).map(Report::ok)
}

/// CALL SITE: mirror get. Writes `args.output` through `disk::HandOut`, verifies the content's
/// BLAKE3 before it publishes (`verify-failed` otherwise: nothing is left).
fn get_core(
    _ctx: &Context,
    _root: &Root,
    _wanted: &Wanted,
    _args: &MirrorGetArgs,
) -> Result<MirrorGetBody> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "mirror get is not part of this build",
    ))
}

/// `SOURCE[@SEQ]`, read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(dead_code)] // read by the core
pub(super) struct Wanted {
    /// Path or key.
    pub(super) source: OsString,
    /// Number of the capture; the newest when absent.
    pub(super) seq: Option<u64>,
}

impl Wanted {
    /// `text@12` is capture 12 of `text`. With `seq` given, `text` is taken as it is.
    fn read(text: &OsStr, seq: Option<u64>) -> Result<Wanted> {
        let bytes = text.as_bytes();
        let at = bytes.iter().rposition(|b| *b == b'@');
        let number = at.map(|at| &bytes[at + 1..]);
        let (Some(at), Some(number), None) = (at, number, seq) else {
            return Ok(Wanted {
                source: text.to_owned(),
                seq,
            });
        };
        if number.is_empty() || !number.iter().all(u8::is_ascii_digit) || at == 0 {
            return Ok(Wanted {
                source: text.to_owned(),
                seq: None,
            });
        }
        let seq = std::str::from_utf8(number)
            .ok()
            .and_then(|n| n.parse::<u64>().ok());
        match seq {
            Some(seq) if seq > 0 => Ok(Wanted {
                source: OsString::from_vec(bytes[..at].to_vec()),
                seq: Some(seq),
            }),
            _ => Err(Error::new(ErrorKind::Usage, "captures are numbered from 1")
                .with_hint("Where @ belongs to the path, name the capture with --seq.")
                .with_hint_argv(["cass", "mirror", "get", "--help"])),
        }
    }
}

impl Human for MirrorVerifyBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        for p in &b.problems {
            let mark = if p.loses_capture {
                Mark::Error
            } else {
                Mark::Warn
            };
            let place = match (&p.file, p.offset) {
                (Some(file), Some(offset)) => format!(" [{file} at {offset}]"),
                (Some(file), None) => format!(" [{file}]"),
                _ => String::new(),
            };
            page.anomaly(mark, &format!("{} {}{place}", p.code, p.message));
        }
        if b.problems_truncated {
            page.anomaly(Mark::Error, &count(b.problems_total, "problem", "problems"));
        }
        let m = &b.raw_mirror;
        for (name, n) in [
            ("sources", m.sources),
            ("captures", m.captures),
            ("packs", m.packs),
        ] {
            if let Some(n) = n {
                page.fact(&format!("{name:<9} {n}"));
            }
        }
        page.fact(&format!(
            "objects   {}, {} read",
            b.objects,
            size(b.verified_bytes)
        ));
    }

    fn verdict(r: &Report<Self>) -> String {
        let b = &r.body;
        match (b.complete, b.problems_total, b.deep) {
            (false, ..) => "Not everything was looked at.".to_owned(),
            (true, 0, true) => "Every captured byte is there and is right.".to_owned(),
            (true, 0, false) => "Everything promised is there; bytes were not read.".to_owned(),
            (true, n, _) => format!("The mirror has {}.", count(n, "problem", "problems")),
        }
    }
}

impl Human for MirrorListBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        for c in &r.body.captures {
            let moving = if c.moving { "  moving" } else { "" };
            page.fact(&format!(
                "{:>6}  {:<24} {:>8}  {}{moving}",
                c.seq,
                c.at.as_deref().unwrap_or("-"),
                size(c.length),
                c.blake3.get(..16).unwrap_or(&c.blake3)
            ));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        format!(
            "{} of {} ({}).",
            count(r.body.total, "capture", "captures"),
            r.body.source.path.path,
            r.body.source.key
        )
    }
}

impl Human for MirrorGetBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        page.fact(&format!("{}  {}", size(r.body.bytes), r.body.output.path));
        page.fact(&format!("blake3  {}", r.body.blake3));
    }

    fn verdict(r: &Report<Self>) -> String {
        format!("Capture {} handed out, verified.", r.body.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_behind_the_last_at_names_the_capture() {
        let read = |text: &str, seq| {
            Wanted::read(OsStr::new(text), seq)
                .map(|w| (w.source.to_string_lossy().into_owned(), w.seq))
                .map_err(|e| e.kind())
        };
        assert_eq!(
            read("/a/b.jsonl@3", None),
            Ok(("/a/b.jsonl".into(), Some(3)))
        );
        assert_eq!(read("/a@b/c", None), Ok(("/a@b/c".into(), None)));
        assert_eq!(read("/a@3", Some(7)), Ok(("/a@3".into(), Some(7))));
        assert_eq!(read("/a@2@3", None), Ok(("/a@2".into(), Some(3))));
        assert_eq!(read("/a@", None), Ok(("/a@".into(), None)));
        assert_eq!(read("@3", None), Ok(("@3".into(), None)));
        assert_eq!(read("/a@0", None), Err(ErrorKind::Usage));
        assert_eq!(read("/a@99999999999999999999", None), Err(ErrorKind::Usage));
    }
}
