//! `cass mirror verify`, `cass mirror list`, `cass mirror get`

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::args::{MirrorGetArgs, MirrorListArgs, MirrorVerifyArgs};
use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page, count, size};
use super::place;
use crate::disk::{HandOut, Root};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::next::Next;
use crate::model::path::PathText;
use crate::model::progress::Progress;
use crate::model::source::SourceKey;
use crate::model::verdict::MirrorState;
use crate::report::check::MirrorBlock;
use crate::report::envelope::Report;
use crate::report::mirror::{
    CaptureEntry, MAX_PROBLEMS, MemberEntry, MirrorGetBody, MirrorListBody, MirrorProblemEntry,
    MirrorSource, MirrorVerifyBody, mirror_verify_report,
};
use crate::report::time::rfc3339;
use crate::store::mirror::{
    CaptureLine, ContentReader, MirrorProblem, MirrorReader, ProblemKind, SourceIdent,
};

pub(super) fn verify(ctx: &Context, args: &MirrorVerifyArgs) -> Result<Report<MirrorVerifyBody>> {
    let root = place::with_mirror(&ctx.env)?;
    let body = look(ctx, &root, args)?;
    ctx.progress.end();
    Ok(mirror_verify_report(
        body,
        ctx.interrupt.pending(),
        &ctx.site,
    ))
}

fn look(ctx: &Context, root: &Root, args: &MirrorVerifyArgs) -> Result<MirrorVerifyBody> {
    let reader = reader(root)?;
    let mut problems: Vec<MirrorProblemEntry> = Vec::new();
    let (mut damage_total, mut lost) = (0u64, false);
    let mut others = 0;
    let mut note = |p: MirrorProblem| {
        let entry = problem(p);
        damage_total += u64::from(entry.damage);
        lost |= entry.loses_capture;
        // A mirror may hold more damage than memory: enough of each kind is kept to fill the list.
        if entry.loses_capture || others < MAX_PROBLEMS {
            others += usize::from(!entry.loses_capture);
            if problems.len() < 2 * MAX_PROBLEMS {
                problems.push(entry);
            }
        }
    };
    ctx.progress.phase("verify", None);
    let mut deadline = || ctx.interrupt.pending().is_some();
    let seen = reader.verify(args.deep, &mut deadline, &mut note)?;
    let status = match (lost, damage_total > 0, args.deep && seen.complete) {
        (true, ..) => MirrorState::Corrupt,
        (false, true, _) => MirrorState::Degraded,
        (false, false, true) => MirrorState::Ok,
        (false, false, false) => MirrorState::Unverified,
    };
    Ok(MirrorVerifyBody {
        deep: args.deep,
        raw_mirror: MirrorBlock {
            status,
            sources: Some(seen.sources),
            captures: Some(seen.captures),
            packs: Some(seen.packs),
            stored_bytes: None,
            last_verified: None,
        },
        objects: seen.objects,
        verified_bytes: seen.bytes,
        complete: seen.complete,
        problems,
        problems_total: seen.problems,
        damage_total,
        problems_truncated: false,
    })
}

fn reader(root: &Root) -> Result<MirrorReader<'_>> {
    MirrorReader::open(root)?.ok_or_else(|| {
        Error::new(ErrorKind::NotInitialized, "nothing was ever captured here")
            .with_hint("Index first.")
            .with_hint_argv(["cass", "index"])
    })
}

fn problem(p: MirrorProblem) -> MirrorProblemEntry {
    let (code, loses_capture) = match p.kind {
        ProblemKind::Format => ("mirror-format", false),
        ProblemKind::Pack => ("pack-damaged", false),
        ProblemKind::Object => ("object-damaged", false),
        ProblemKind::TornPack => ("pack-torn-tail", false),
        // What the lost lines promised is not known any more.
        ProblemKind::Ledger => ("ledger-damaged", true),
        ProblemKind::TornLedger => ("ledger-torn-tail", false),
        ProblemKind::Promise => ("capture-unreadable", true),
        ProblemKind::IndexStale => ("mirror-index-stale", false),
        ProblemKind::Index => ("mirror-index-wrong", false),
        ProblemKind::Stray => ("stray-file", false),
    };
    MirrorProblemEntry {
        code: code.to_owned(),
        damage: !p.kind.harmless(),
        loses_capture,
        message: p.message,
        file: Some(p.file),
        offset: p.offset,
        object: p.object.map(|d| d.to_string()),
        source: p.capture.map(|(key, _)| key.to_string()),
        seq: p.capture.map(|(_, seq)| seq).filter(|seq| *seq > 0),
    }
}

/// The source that `name`, a key or a path, stands for.
fn resolve(reader: &MirrorReader<'_>, name: &OsStr) -> Result<SourceIdent> {
    if let Some(key) = name
        .to_str()
        .and_then(|text| text.parse::<SourceKey>().ok())
        && let Some(head) = reader.head(key)?
    {
        return Ok(head.ident);
    }
    let path = std::path::absolute(name).unwrap_or_else(|_| name.into());
    let mut found = reader.resolve_path(&path)?;
    found.sort_by_key(|ident| ident.key);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(Error::new(
            ErrorKind::NotFound,
            format!("no source was captured from {}", path.display()),
        )
        .with_hint("The sessions name their sources; name one by its path or its key.")
        .with_hint_argv(["cass", "sessions", "list"])),
        n => {
            let keys: Vec<String> = found.iter().map(|ident| ident.key.to_string()).collect();
            let error = Error::new(
                ErrorKind::AmbiguousName,
                format!("{n} sources were captured from {}", path.display()),
            );
            Err(error
                .with_hint("Name one of them by its key.")
                .with_context("keys", keys.join(", ")))
        }
    }
}

fn source(ident: &SourceIdent) -> MirrorSource {
    MirrorSource {
        key: ident.key.to_string(),
        source_id: ident.source_id.clone(),
        provider: ident.provider,
        path: PathText::new(&ident.path),
    }
}

pub(super) fn list(ctx: &Context, args: &MirrorListArgs) -> Result<Report<MirrorListBody>> {
    let root = place::with_mirror(&ctx.env)?;
    let mut body = captures(ctx, &root, args)?;
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

fn captures(ctx: &Context, root: &Root, args: &MirrorListArgs) -> Result<MirrorListBody> {
    let reader = reader(root)?;
    let ident = resolve(&reader, &args.source)?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    // Ledgers are read from the oldest on; only the newest are kept.
    let mut newest = VecDeque::new();
    let mut total = 0;
    reader.captures(ident.key, &mut |line| {
        ctx.interrupt.check()?;
        total += 1;
        newest.push_front(entry(line));
        newest.truncate(limit);
        Ok(())
    })?;
    Ok(MirrorListBody {
        source: source(&ident),
        captures: newest.into(),
        total,
        truncated: false,
        detail_argv: None,
    })
}

fn entry(line: CaptureLine) -> CaptureEntry {
    let mut members: Vec<MemberEntry> = line
        .group
        .into_iter()
        .map(|m| MemberEntry {
            name: m.name,
            length: m.len,
            blake3: m.hash.to_string(),
        })
        .collect();
    members.sort_by(|a, b| a.name.cmp(&b.name));
    CaptureEntry {
        seq: line.seq,
        at: rfc3339(line.at_ms),
        length: line.len,
        blake3: line.hash.to_string(),
        moving: line.moving,
        members,
    }
}

pub(super) fn get(ctx: &Context, args: &MirrorGetArgs) -> Result<Report<MirrorGetBody>> {
    let wanted = Wanted::read(&args.source, args.seq)?;
    let root = place::with_mirror(&ctx.env)?;
    hand_out(ctx, &root, &wanted, args).map(Report::ok)
}

fn hand_out(
    ctx: &Context,
    root: &Root,
    wanted: &Wanted,
    args: &MirrorGetArgs,
) -> Result<MirrorGetBody> {
    let reader = reader(root)?;
    let ident = resolve(&reader, &wanted.source)?;
    let missing = |what: String| {
        Error::new(ErrorKind::NotFound, what)
            .with_hint("The list shows what was captured.")
            .with_hint_argv(Next::MirrorList(ident.key).argv())
    };
    let seq = match wanted.seq {
        Some(seq) => seq,
        None => {
            reader
                .head(ident.key)?
                .ok_or_else(|| missing(format!("source {} has no capture", ident.key)))?
                .seq
        }
    };
    let line = reader
        .capture(ident.key, seq)?
        .ok_or_else(|| missing(format!("source {} has no capture {seq}", ident.key)))?;
    let (recipe, len, hash) = match &args.member {
        None => (line.recipe, line.len, line.hash),
        Some(name) => line
            .group
            .iter()
            .find(|m| m.name == *name)
            .map(|m| (m.recipe, m.len, m.hash))
            .ok_or_else(|| missing(format!("capture {seq} has no file {name}")))?,
    };
    let target = std::path::absolute(&args.output).unwrap_or_else(|_| args.output.clone());
    let mut out = HandOut::create(&target)?;
    copy(
        ctx,
        &mut reader.open_content(recipe, len)?,
        &mut out,
        len,
        hash,
        &target,
    )?;
    out.publish()?;
    Ok(MirrorGetBody {
        source: source(&ident),
        seq,
        member: args.member.clone(),
        output: PathText::new(&target),
        bytes: len,
        blake3: hash.to_string(),
    })
}

/// Copies a content and compares it with what the ledger promises.
fn copy(
    ctx: &Context,
    content: &mut ContentReader<'_>,
    out: &mut HandOut,
    len: u64,
    hash: Digest,
    target: &Path,
) -> Result<()> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0u8; 1 << 17];
    let mut copied = 0u64;
    ctx.progress.phase("copy", None);
    loop {
        ctx.interrupt.check()?;
        let n = match content.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(unreadable(&e)),
        };
        let part = &buffer[..n];
        hasher.update(part);
        out.write_all(part)
            .map_err(|e| Error::io("write", target, e))?;
        let n = u64::try_from(n).unwrap_or(u64::MAX);
        copied = copied.saturating_add(n);
        ctx.progress.advance(0, n);
    }
    ctx.progress.end();
    if copied != len || *hasher.finalize().as_bytes() != hash.0 {
        return Err(Error::new(
            ErrorKind::VerifyFailed,
            "the content is not what the ledger promises; nothing was handed out",
        )
        .with_hint("Verify the mirror.")
        .with_hint_argv(Next::MirrorVerifyDeep.argv()));
    }
    Ok(())
}

/// The mirror's own error inside an error of `Read`.
fn unreadable(e: &std::io::Error) -> Error {
    let (kind, message) = match ContentReader::cause(e) {
        Some(cause) => (cause.kind(), cause.message().to_owned()),
        None => (ErrorKind::Io, format!("the mirror can't be read: {e}")),
    };
    Error::new(kind, message)
        .with_hint("Nothing was handed out. Verify the mirror.")
        .with_hint_argv(Next::MirrorVerifyDeep.argv())
}

/// `SOURCE[@SEQ]`, read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    /// Path or key.
    source: OsString,
    /// Number of the capture; the newest when absent.
    seq: Option<u64>,
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
