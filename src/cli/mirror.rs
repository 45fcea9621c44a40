//! `cass mirror verify`, `cass mirror list`, `cass mirror get`

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::args::{MirrorGetArgs, MirrorListArgs, MirrorVerifyArgs};
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count, size};
use super::place;
use super::write_out::written_out;
use crate::disk::Root;
use crate::error::{Error, ErrorKind, Result};
use crate::model::path::PathText;
use crate::model::verdict::MirrorState;
use crate::report::check::MirrorBlock;
use crate::report::envelope::Report;
use crate::report::mirror::{
    CaptureEntry, MirrorGetBody, MirrorListBody, MirrorProblemEntry, MirrorSource,
    MirrorVerifyBody, mirror_verify_report,
};
use crate::sources::database::MEMBERS;
use crate::store::mirror::{CaptureLine, MirrorReader, SourceIdent};

/// Problems kept in full; more are counted.
const KEPT: usize = 1000;

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

fn verify_core(ctx: &Context, root: &Root, args: &MirrorVerifyArgs) -> Result<MirrorVerifyBody> {
    let mirror = place::mirror(root)?;
    let (mut problems, mut total, mut lost, mut damage) = (Vec::new(), 0u64, false, 0u64);
    let mut stop = || ctx.interrupt.pending().is_some();
    let summary = mirror.verify(args.deep, &mut stop, &mut |p| {
        total += 1;
        lost |= p.kind.loses_capture();
        damage += u64::from(!p.kind.harmless());
        // What costs a capture is kept before what does not.
        if problems.len() < KEPT || p.kind.loses_capture() && problems.len() < 2 * KEPT {
            problems.push(MirrorProblemEntry::from(p));
        }
    })?;
    let status = if lost {
        MirrorState::Corrupt
    } else if damage > 0 {
        MirrorState::Degraded
    } else if args.deep && summary.complete {
        MirrorState::Ok
    } else {
        MirrorState::Unverified
    };
    let mut raw_mirror = MirrorBlock::new(status);
    raw_mirror.sources = Some(summary.sources);
    raw_mirror.captures = Some(summary.captures);
    raw_mirror.packs = Some(summary.packs);
    Ok(MirrorVerifyBody {
        deep: args.deep,
        raw_mirror,
        objects: summary.objects,
        verified_bytes: summary.bytes,
        complete: summary.complete,
        problems,
        problems_total: total,
        damage_total: damage,
        problems_truncated: false,
    })
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

fn list_core(ctx: &Context, root: &Root, args: &MirrorListArgs) -> Result<MirrorListBody> {
    let mirror = place::mirror(root)?;
    let source = place::source(&mirror, &args.source)?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut newest: VecDeque<CaptureLine> = VecDeque::new();
    let mut total = 0;
    mirror.captures(source.key, &mut |line| {
        ctx.interrupt.check()?;
        total += 1;
        newest.push_front(line);
        newest.truncate(limit);
        Ok(())
    })?;
    Ok(MirrorListBody {
        source: MirrorSource::from(&source),
        captures: newest.iter().map(CaptureEntry::from).collect(),
        total,
        truncated: false,
        detail_argv: None,
    })
}

pub(super) fn get(ctx: &Context, args: &MirrorGetArgs) -> Result<Report<MirrorGetBody>> {
    let wanted = Wanted::read(&args.source, args.seq)?;
    let root = place::with_mirror(&ctx.env)?;
    get_core(ctx, &root, &wanted, args).map(Report::ok)
}

fn get_core(
    ctx: &Context,
    root: &Root,
    wanted: &Wanted,
    args: &MirrorGetArgs,
) -> Result<MirrorGetBody> {
    let mirror = place::mirror(root)?;
    let (source, member) = match place::source(&mirror, &wanted.source) {
        Ok(source) => (source, args.member.clone()),
        // The path of a sidecar names the member of its database's capture.
        Err(e) if e.kind() == ErrorKind::NotFound && args.member.is_none() => {
            by_sidecar(&mirror, &wanted.source).ok_or(e)?
        }
        Err(e) => return Err(e),
    };
    let gone = |what: String| {
        Error::new(ErrorKind::NotFound, what)
            .with_hint("List the captures.")
            .with_hint_argv(["cass", "mirror", "list", &source.key.to_string()])
    };
    let seq = match wanted.seq {
        Some(seq) => seq,
        None => mirror.head(source.key)?.map_or(1, |h| h.seq),
    };
    let line = mirror
        .capture(source.key, seq)?
        .ok_or_else(|| gone(format!("{} has no capture {seq}", source.path.display())))?;
    let (recipe, len, hash) = match &member {
        None => (line.recipe, line.len, line.hash),
        Some(name) => {
            let m = line.group.iter().find(|m| m.name == *name).ok_or_else(|| {
                gone(format!(
                    "capture {seq} of {} has no {name}",
                    source.path.display()
                ))
            })?;
            (m.recipe, m.len, m.hash)
        }
    };
    let target = std::path::absolute(&args.output).unwrap_or_else(|_| args.output.clone());
    place::hand_out_target(&ctx.env, &target)?;
    written_out(
        mirror.open_content(recipe, len)?,
        &target,
        len,
        hash,
        &ctx.interrupt,
    )?
    .publish()?;
    Ok(MirrorGetBody {
        source: MirrorSource::from(&source),
        seq,
        member,
        output: PathText::new(&target),
        bytes: len,
        blake3: hash.to_hex(),
    })
}

fn by_sidecar(mirror: &MirrorReader<'_>, name: &OsStr) -> Option<(SourceIdent, Option<String>)> {
    MEMBERS.iter().find_map(|suffix| {
        let base = name.as_bytes().strip_suffix(suffix.as_bytes())?;
        let source = place::source(mirror, OsStr::from_bytes(base)).ok()?;
        Some((source, Some((*suffix).to_owned())))
    })
}

/// `SOURCE[@SEQ]`, read.
#[derive(Debug, Clone, PartialEq, Eq)]
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
            let mark = match (p.loses_capture, p.damage) {
                (true, _) => Mark::Error,
                (false, true) => Mark::Warn,
                (false, false) => Mark::Info,
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
        match (b.complete, b.damage_total, b.deep) {
            (false, ..) => "Not everything was looked at.".to_owned(),
            (true, 0, true) => "Every captured byte is there and is right.".to_owned(),
            (true, 0, false) => "Everything promised is there; bytes were not read.".to_owned(),
            (true, n, _) => format!("The mirror is damaged in {}.", count(n, "place", "places")),
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
