//! What every test here needs: the sample files, a parse, and the checks that hold for any input.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use cass::ingest::parse::{MAX_HEAD, SourceName, SourceParser, decoded, open};
use cass::model::provider::Provider;
use cass::model::record::{
    Disposition, Message, MessageKind, ParsedRecord, Piece, Recovery, ResumePoint, SkipReason,
};

#[path = "../../fuzz/tiles.rs"]
mod tiles;
pub use tiles::{check_tiles, merged, slice, span};

pub struct Sample {
    pub provider: Provider,
    pub path: PathBuf,
    /// Path below the folder of all samples.
    pub name: String,
    /// Plain bytes.
    pub bytes: Vec<u8>,
}

pub fn samples() -> Vec<Sample> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sessions");
    let mut out = Vec::new();
    for provider in Provider::ALL {
        // Amp keeps its sessions on a server, and DSH has logs of its own elsewhere.
        if !root.join(provider.as_str()).is_dir() {
            continue;
        }
        for entry in walkdir::WalkDir::new(root.join(provider.as_str())).sort_by_file_name() {
            let entry = entry.unwrap();
            let path = entry.path();
            let name = path.to_str().unwrap();
            if !(name.ends_with(".jsonl") || name.ends_with(".jsonl.zst")) {
                continue;
            }
            let mut bytes = Vec::new();
            let file = std::fs::File::open(path).unwrap();
            decoded(path, Box::new(file))
                .unwrap()
                .read_to_end(&mut bytes)
                .unwrap();
            let name = path
                .strip_prefix(&root)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            out.push(Sample {
                provider,
                path: path.to_owned(),
                name,
                bytes,
            });
        }
    }
    assert!(out.len() >= 46, "samples are missing: {}", out.len());
    out
}

pub fn sample(part: &str) -> Sample {
    samples()
        .into_iter()
        .find(|s| s.name.contains(part))
        .unwrap()
}

pub fn parser<'r>(
    provider: Provider,
    path: &Path,
    bytes: &'r [u8],
    from: Option<ResumePoint>,
) -> SourceParser<'r> {
    let head = &bytes[..bytes.len().min(MAX_HEAD)];
    let at = from
        .as_ref()
        .map_or(0, |p| usize::try_from(p.offset).unwrap());
    // Small reads at odd places: nothing may depend on how the bytes arrive.
    let content = Odd {
        inner: Cursor::new(&bytes[at..]),
        n: at,
    };
    open(SourceName { provider, path }, Box::new(content), head, from)
}

struct Odd<'a> {
    inner: Cursor<&'a [u8]>,
    n: usize,
}

impl Read for Odd<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.n = self.n.wrapping_mul(31).wrapping_add(17);
        let most = if self.n.is_multiple_of(3) {
            1 + self.n % 7
        } else {
            4096 + self.n % 8192
        };
        let len = buf.len().min(most);
        self.inner.read(&mut buf[..len])
    }
}

pub fn drain(parser: &mut SourceParser<'_>) -> Vec<Piece> {
    let mut out = Vec::new();
    while let Some(piece) = parser.next().unwrap() {
        out.push(piece);
    }
    out
}

/// Parses the whole, and checks what holds for any input.
pub fn parse(provider: Provider, path: &Path, bytes: &[u8]) -> Vec<Piece> {
    let mut parser = parser(provider, path, bytes, None);
    let pieces = drain(&mut parser);
    check_tiles(&pieces, 0, bytes, 1);
    assert_eq!(parser.total(), u64::try_from(bytes.len()).unwrap());
    let torn = pieces.last().and_then(torn_start);
    assert_eq!(parser.resume().offset, torn.unwrap_or(parser.total()));
    pieces
}

pub fn parse_as(provider: Provider, bytes: &[u8]) -> Vec<Piece> {
    parse(provider, Path::new("/s/x.jsonl"), bytes)
}

pub fn torn_start(piece: &Piece) -> Option<u64> {
    match piece {
        Piece::Skipped {
            span,
            reason: SkipReason::TornTail,
            ..
        } => Some(span.offset),
        _ => None,
    }
}

pub fn records(pieces: &[Piece]) -> Vec<&ParsedRecord> {
    pieces
        .iter()
        .filter_map(|p| match p {
            Piece::Record(r) => Some(&**r),
            _ => None,
        })
        .collect()
}

pub fn messages(pieces: &[Piece]) -> Vec<&Message> {
    records(pieces)
        .into_iter()
        .filter_map(|r| match &r.disposition {
            Disposition::Messages(m) => Some(m),
            _ => None,
        })
        .flatten()
        .collect()
}

pub fn count(pieces: &[Piece], kind: MessageKind) -> usize {
    messages(pieces).iter().filter(|m| m.kind == kind).count()
}

/// Parses a source that grows: read when it ends at each of `ends`, each time from where the last
/// time said.
pub fn parse_growing(
    provider: Provider,
    path: &Path,
    bytes: &[u8],
    ends: impl IntoIterator<Item = usize>,
) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut from: Option<ResumePoint> = None;
    let named_by_id = path.to_str().unwrap().contains("-4") || provider == Provider::Codex;
    for end in ends {
        let at = from
            .as_ref()
            .map_or(0, |p| usize::try_from(p.offset).unwrap());
        let head = if named_by_id { &bytes[..end] } else { bytes };
        let content = Cursor::new(&bytes[at..end]);
        let mut parser = open(
            SourceName { provider, path },
            Box::new(content),
            head,
            from.take(),
        );
        let mut pieces = drain(&mut parser);
        let resume = parser.resume();
        if pieces.last().is_some_and(|p| torn_start(p).is_some()) {
            pieces.pop();
        }
        let end_of_pieces = pieces.last().map_or(at as u64, |p| span(p).end());
        assert_eq!(end_of_pieces, resume.offset);
        assert!(resume.state.len() < 16 * 1024, "{}", resume.state.len());
        out.extend(pieces);
        from = Some(resume);
    }
    let from = from.unwrap();
    let content = Cursor::new(&bytes[usize::try_from(from.offset).unwrap()..]);
    let mut last = open(
        SourceName { provider, path },
        Box::new(content),
        bytes,
        Some(from),
    );
    out.extend(drain(&mut last));
    out
}

/// The pieces that are not separators, each as its kind and its text.
pub fn outline(bytes: &[u8], pieces: &[Piece]) -> Vec<(String, String)> {
    pieces
        .iter()
        .filter_map(|piece| {
            let kind = match piece {
                Piece::Record(r) if r.recovery == Recovery::Clean => "record".to_owned(),
                Piece::Record(r) => format!("{:?}", r.recovery),
                Piece::Separator(_) => return None,
                Piece::Skipped { reason, .. } => format!("{reason:?}!"),
            };
            Some((
                kind,
                String::from_utf8_lossy(slice(bytes, &span(piece))).into_owned(),
            ))
        })
        .collect()
}
