//! One capture, read to pieces: on a thread of its own, while the caller writes what comes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use crossbeam_channel::{Receiver, Sender};

use crate::disk::Capture;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::beside::Beginnings;
use crate::ingest::jobs::Job;
use crate::ingest::parse::{self, Beginning, Container, Method, SourceName};
use crate::ingest::provider::is_session_document;
use crate::ingest::scratch;
use crate::model::provider::Provider;
use crate::model::record::{Piece, ResumePoint};
use crate::model::source::SourceKey;
use crate::store::archive::SourceKind;
use crate::store::foreign::ForeignDb;
use crate::store::mirror::{CaptureLine, ContentReader, MirrorWriter, SourceIdent};

/// How much of a source's beginning the parser may look at.
pub(super) const HEAD_BYTES: u64 = 256 << 10;
/// How much of another file's beginning it may look at.
const SIBLING_BYTES: u64 = 64 << 10;
/// Pieces handed over at once, and hand-overs in flight: bounds the memory between the threads.
const BATCH: usize = 256;
const IN_FLIGHT: usize = 8;

/// A capture, open and looked at.
#[derive(Debug)]
pub(super) struct Opened<'m> {
    content: ContentReader<'m>,
    head: Vec<u8>,
    siblings: BTreeMap<PathBuf, Vec<u8>>,
    packed: bool,
    container: Container,
    /// The copy of a database.
    copy: Option<PathBuf>,
}

impl Opened<'_> {
    /// Beginnings of the files beside the source, as captured last.
    pub(super) fn siblings(&self) -> &BTreeMap<PathBuf, Vec<u8>> {
        &self.siblings
    }

    /// How the harness writes the source.
    pub(super) fn kind(&self, provider: Provider) -> SourceKind {
        match self.container {
            Container::Log => SourceKind::Log,
            Container::Document if is_session_document(provider) => SourceKind::Document,
            Container::Document | Container::Text | Container::Database => SourceKind::Store,
        }
    }
}

/// How reading a capture ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Where to go on.
    pub(super) resume: ResumePoint,
    /// What of the content could not be read, in words: what was read before or beside it stands.
    pub(super) damage: Option<String>,
}

/// Opens a capture and what else says something about it.
///
/// # Errors
/// `mirror-damaged`, `verify-failed`; `no-space` when there is no room for a copy of a database.
pub(super) fn open<'m>(
    cap: Capture<'_>,
    mirror: &mut MirrorWriter<'m>,
    job: &Job,
) -> Result<Opened<'m>> {
    let name = name_of(&job.ident);
    let mut content = mirror.open_content(job.line.recipe, job.line.len)?;
    let mut head = Vec::new();
    (&mut content)
        .take(HEAD_BYTES)
        .read_to_end(&mut head)
        .map_err(|e| unreadable(&job.line, e))?;
    let packed = parse::is_packed(&job.ident.path, &head);
    let mut siblings = BTreeMap::new();
    if !packed {
        for path in parse::siblings(name, &head) {
            if let Some(bytes) = sibling(mirror, job, &path)? {
                siblings.insert(path, bytes);
            }
        }
    }
    let beginning = Beginning {
        name,
        head: &head,
        siblings: &siblings,
    };
    let container = parse::container(&beginning, packed);
    let copy = match container {
        Container::Database => Some(scratch::copy(cap, mirror, &job.line)?),
        Container::Log | Container::Document | Container::Text => None,
    };
    Ok(Opened {
        content,
        head,
        siblings,
        packed,
        container,
        copy,
    })
}

/// The beginning of the newest capture of another file; `None` when it was never captured.
fn sibling(
    mirror: &mut MirrorWriter<'_>,
    job: &Job,
    path: &std::path::Path,
) -> Result<Option<Vec<u8>>> {
    let key = SourceKey::derive(&job.ident.source_id, job.ident.provider, path);
    let Some(head) = mirror.head(key)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let content = mirror.open_content(head.recipe, head.len)?;
    // What can't be read of it is not needed to read the source itself.
    let read = content.take(SIBLING_BYTES).read_to_end(&mut bytes);
    Ok(read.is_ok().then_some(bytes))
}

pub(super) fn name_of(ident: &SourceIdent) -> SourceName<'_> {
    SourceName {
        provider: ident.provider,
        path: &ident.path,
    }
}

/// What the files beside a source began with before their newest capture, of those whose keys are
/// in `changed`.
///
/// # Errors
/// Errors of the mirror as a whole.
pub(super) fn earlier(
    mirror: &mut MirrorWriter<'_>,
    job: &Job,
    siblings: &BTreeMap<PathBuf, Vec<u8>>,
    changed: &BTreeSet<SourceKey>,
) -> Result<Beginnings> {
    let mut all = Beginnings::new();
    for path in siblings.keys() {
        let key = SourceKey::derive(&job.ident.source_id, job.ident.provider, path);
        if !changed.contains(&key) {
            continue;
        }
        let (mut before, mut newest) = (None, None);
        mirror.captures(key, &mut |line| {
            before = newest.replace(line);
            Ok(())
        })?;
        let mut bytes = None;
        if let Some(line) = before {
            let mut read = Vec::new();
            let content = mirror.open_content(line.recipe, line.len)?;
            let ended = content.take(SIBLING_BYTES).read_to_end(&mut read);
            bytes = ended.is_ok().then_some(read);
        }
        all.insert(path.clone(), bytes);
    }
    Ok(all)
}

/// The title that the source's beginning says of each session first, with these files beside it;
/// a database is asked as a whole.
///
/// # Errors
/// What stops a database from being read.
pub(super) fn titles(
    job: &Job,
    opened: &Opened<'_>,
    siblings: &BTreeMap<PathBuf, Vec<u8>>,
) -> Result<BTreeMap<String, String>> {
    let name = name_of(&job.ident);
    let beginning = Beginning {
        name,
        head: &opened.head,
        siblings,
    };
    let method = parse::method(&beginning, None);
    let mut titles = BTreeMap::new();
    let mut content = std::io::Cursor::new(&opened.head);
    let mut each = |piece: Piece| {
        if let Piece::Record(record) = piece
            && let Some(title) = record.facts.title
        {
            titles.entry(record.session).or_insert(title);
        }
        Ok(())
    };
    let (read, _) = match (opened.container, &opened.copy) {
        (Container::Database, Some(copy)) => match ForeignDb::open(copy) {
            Ok(db) => (
                parse::database(method, &db, &mut each).map(drop),
                parse::at_the_begin(),
            ),
            Err(e) => (Err(e), parse::at_the_begin()),
        },
        (Container::Document, _) => parse::document(name, method, &mut content, &mut each),
        (Container::Log, _) => parse::log(name, method, Box::new(content), None, &mut each),
        // Nothing stands beside a transcript.
        (Container::Text | Container::Database, _) => (Ok(()), parse::at_the_begin()),
    };
    match read {
        Err(e) if e.kind() != ErrorKind::SourcesFailed => Err(e),
        _ => Ok(titles),
    }
}

/// Reads the capture; the pieces come to `each` in order.
///
/// # Errors
/// What `each` returns; `mirror-damaged` when a stored object can't be read.
pub(super) fn read(
    job: &Job,
    opened: Opened<'_>,
    each: &mut dyn FnMut(&Piece) -> Result<()>,
) -> Result<Ended> {
    let (send, receive) = crossbeam_channel::bounded(IN_FLIGHT);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut sink = Sink {
                send,
                pieces: Vec::with_capacity(BATCH),
            };
            let ended = to_pieces(job, opened, &mut |piece| sink.piece(piece));
            sink.end(ended);
        });
        drain(&receive, each)
    })
}

/// What the parsing thread sends for a job, in this order: batches, then an end.
enum Parsed {
    Batch(Vec<Piece>),
    End(Result<Ended>),
}

/// The sending side.
struct Sink {
    send: Sender<Parsed>,
    pieces: Vec<Piece>,
}

impl Sink {
    fn piece(&mut self, piece: Piece) -> Result<()> {
        self.pieces.push(piece);
        if self.pieces.len() < BATCH {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.pieces, Vec::with_capacity(BATCH));
        // The writer gave up and says why itself; this error is never seen.
        self.send
            .send(Parsed::Batch(batch))
            .map_err(|_| Error::new(ErrorKind::Internal, "the writer gave up"))
    }

    fn end(self, ended: Result<Ended>) {
        if self.send.send(Parsed::Batch(self.pieces)).is_ok() {
            let _ = self.send.send(Parsed::End(ended));
        }
    }
}

fn drain(receive: &Receiver<Parsed>, each: &mut dyn FnMut(&Piece) -> Result<()>) -> Result<Ended> {
    for parsed in receive {
        match parsed {
            Parsed::Batch(pieces) => {
                for piece in &pieces {
                    each(piece)?;
                }
            }
            Parsed::End(ended) => return ended,
        }
    }
    Err(Error::new(
        ErrorKind::Internal,
        "the parser ended without a result",
    ))
}

fn to_pieces(
    job: &Job,
    opened: Opened<'_>,
    each: &mut dyn FnMut(Piece) -> Result<()>,
) -> Result<Ended> {
    let Opened {
        mut content,
        head,
        siblings,
        packed,
        container,
        copy,
    } = opened;
    let name = name_of(&job.ident);
    let method = |head: &[u8]| -> Method {
        let beginning = Beginning {
            name,
            head,
            siblings: &siblings,
        };
        let before = job.before.as_ref().filter(|_| container == Container::Text);
        parse::method(&beginning, job.from.as_ref().or(before))
    };
    let (result, resume) = match (container, copy) {
        (Container::Database, Some(copy)) => {
            let db = match ForeignDb::open(&copy) {
                Ok(db) => db,
                Err(e) if e.kind() == ErrorKind::SourcesFailed => {
                    return Ok(Ended {
                        resume: parse::at_the_begin(),
                        damage: Some(e.message().to_owned()),
                    });
                }
                Err(e) => return Err(e),
            };
            let rows = parse::database(method(&head), &db, each)?;
            let damage = rows.first_damage.map(|first| match rows.damaged {
                0 | 1 => first,
                n => format!("{first}; and {} more", n - 1),
            });
            return Ok(Ended {
                resume: rows.resume,
                damage,
            });
        }
        (Container::Document, _) => {
            content
                .seek(SeekFrom::Start(0))
                .map_err(|e| unreadable(&job.line, e))?;
            parse::document(name, method(&head), &mut content, each)
        }
        (Container::Text, _) => parse::text(name, method(&head), &mut content, each),
        _ => {
            let at = job.from.as_ref().map_or(0, |f| f.offset);
            content
                .seek(SeekFrom::Start(if packed { 0 } else { at }))
                .map_err(|e| unreadable(&job.line, e))?;
            if packed {
                let (plain_head, plain) = unpacked(job, content, at)?;
                parse::log(name, method(&plain_head), plain, job.from.clone(), each)
            } else {
                let content = Box::new(content);
                parse::log(name, method(&head), content, job.from.clone(), each)
            }
        }
    };
    match result {
        Ok(()) => Ok(Ended {
            resume,
            damage: None,
        }),
        // The container is damaged, not the mirror: everything whole was handed out.
        Err(e) if packed && e.kind() == ErrorKind::Io && !is_of_the_mirror(&e) => Ok(Ended {
            resume,
            damage: Some(format!(
                "the compressed file is cut short or damaged: {}",
                e.message()
            )),
        }),
        Err(e) if is_of_the_mirror(&e) => Err(of_capture(&job.line, &e).with_source(e)),
        Err(e) => Err(e),
    }
}

/// The plain bytes of a compressed capture from `at` on, and the beginning of them when that is 0.
/// Offsets count decoded bytes: what was read before is decoded again and passed over.
fn unpacked<'c>(
    job: &Job,
    content: ContentReader<'c>,
    at: u64,
) -> Result<(Vec<u8>, Box<dyn Read + 'c>)> {
    let mut plain = parse::decoded(&job.ident.path, Box::new(content))?;
    let mut head = Vec::new();
    if at > 0 {
        std::io::copy(&mut (&mut plain).take(at), &mut std::io::sink())
            .map_err(|e| unreadable(&job.line, e))?;
        return Ok((head, plain));
    }
    // What decodes before the container breaks is read; the break is met again behind it.
    let broken = (&mut plain).take(HEAD_BYTES).read_to_end(&mut head).err();
    let rest: Box<dyn Read + 'c> = match broken {
        Some(e) => Box::new(Broken(Some(e))),
        None => plain,
    };
    let whole = std::io::Cursor::new(head.clone()).chain(rest);
    Ok((head, Box::new(whole)))
}

pub(super) fn unreadable(line: &CaptureLine, e: std::io::Error) -> Error {
    of_capture(line, &e).with_source(e)
}

fn of_capture(line: &CaptureLine, why: &dyn std::fmt::Display) -> Error {
    Error::new(
        ErrorKind::MirrorDamaged,
        format!("capture {} can't be read: {why}", line.seq),
    )
}

/// Whether a read failed because of the mirror, not because of what is in the capture.
fn is_of_the_mirror(e: &Error) -> bool {
    e.is_caused_by::<Error>()
}

/// Fails with the error that was met before.
struct Broken(Option<std::io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(self
            .0
            .take()
            .unwrap_or_else(|| std::io::Error::other("the content ended in an error")))
    }
}
