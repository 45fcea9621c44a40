//! One file, read where it lies.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::class::{Anomaly, Class, HealthVerdict};
use super::observe::{Counts, Known, Observer, Told};
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::parse::{self, Beginning, Container, SourceName};
use crate::model::digest::Digest;
use crate::model::finding::Severity;
use crate::model::provider::Provider;
use crate::model::record::{Piece, Span};
use crate::sources::database::member_path;
use crate::sources::file::Base;
use crate::store::foreign::{self, ForeignDb};
use crate::store::mirror;

/// Bytes of the beginning of a file beside the one that is read.
const SIBLING_BYTES: u64 = 64 << 10;
/// Bytes of a span that are looked at again.
const MAX_SPAN: u64 = 16 << 20;
/// Levels that most decoders read.
const MAX_DEPTH: u32 = 128;
/// Places of text that is nested too deep.
const MAX_DEEP: usize = 1000;
/// How long after its last change a file may be one that is being written.
const LIVE_MS: i64 = 60_000;
const BLOCK: usize = 256 << 10;

/// What was read, so that it can be told from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of them, in hex.
    pub sha256: String,
    /// BLAKE3 of them.
    pub hash: Digest,
    /// When it was last changed, milliseconds since the Unix epoch.
    pub modified_ms: i64,
    /// Whether it changed while it was read.
    pub moved: bool,
}

/// What a file is and holds.
#[derive(Debug, Clone)]
pub struct Health {
    /// How its bytes are read.
    pub container: Container,
    /// Whether it is compressed: offsets are of its plain bytes.
    pub packed: bool,
    /// The harness's id of the session of its first record.
    pub session: Option<String>,
    /// Records read.
    pub records: u64,
    /// Messages in them.
    pub messages: u64,
    /// Records of types that are not known.
    pub unknown: u64,
    /// Bytes that hold no record, separators and NUL bytes left out.
    pub lost_bytes: u64,
    /// Times of the first and the last record.
    pub times: (Option<i64>, Option<i64>),
    /// Whether it was changed a moment ago.
    pub live: bool,
    /// Findings, in file order.
    pub found: Vec<Anomaly>,
    /// What is known of all of them.
    pub told: Told,
    /// What was read.
    pub proof: Proof,
}

impl Health {
    /// The verdict on the file alone.
    #[must_use]
    pub fn verdict(&self) -> HealthVerdict {
        match self.told.worst {
            _ if self.proof.bytes == 0 => HealthVerdict::Empty,
            _ if self.records == 0 && !self.live => HealthVerdict::Unreadable,
            Some(Severity::Error) => HealthVerdict::Damaged,
            Some(Severity::Warn) if self.told.loses => HealthVerdict::Damaged,
            Some(Severity::Warn) => HealthVerdict::Recovered,
            _ if self.told.pending => HealthVerdict::LiveTail,
            Some(Severity::Info) => HealthVerdict::Noted,
            None => HealthVerdict::Clean,
        }
    }
}

/// Opens a file as a regular one; its folder may be reached through links.
pub(super) fn open(path: &Path) -> Result<File> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Base::open(folder)?.open_regular(Path::new(path.file_name().unwrap_or_default()))
}

/// The beginning of a file.
///
/// # Errors
/// `not-found`, `unsupported` when it is no regular file; `permission-denied`, `io`.
pub(super) fn head(path: &Path) -> Result<Vec<u8>> {
    beginning(path, parse::MAX_HEAD as u64)
}

fn beginning(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?
        .take(limit)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io("read", path, e))?;
    Ok(bytes)
}

/// What a pass over the bytes gives.
struct Pass {
    bytes: u64,
    sha256: String,
    hash: Digest,
    deep: Vec<u64>,
}

/// Where text is nested too deep, line by line.
#[derive(Default)]
struct Depth {
    level: u32,
    in_string: bool,
    escaped: bool,
    told: bool,
}

impl Depth {
    /// Whether the text gets too deep at this byte.
    fn on(&mut self, byte: u8) -> bool {
        match byte {
            b'\n' => *self = Depth::default(),
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            b'{' | b'[' if !self.in_string => {
                self.level += 1;
                if self.level > MAX_DEPTH && !self.told {
                    self.told = true;
                    return true;
                }
            }
            b'}' | b']' if !self.in_string => self.level = self.level.saturating_sub(1),
            _ => {}
        }
        false
    }
}

fn pass(file: &File, path: &Path, stop: &dyn Fn() -> Result<()>) -> Result<Pass> {
    let (mut sha256, mut hash, mut depth) =
        (Sha256::new(), blake3::Hasher::new(), Depth::default());
    let (mut at, mut deep) = (0u64, Vec::new());
    let mut block = vec![0; BLOCK];
    loop {
        stop()?;
        let n = match file.read_at(&mut block, at) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::io("read", path, e)),
        };
        let got = block.get(..n).unwrap_or_default();
        sha256.update(got);
        hash.update(got);
        for (n, byte) in got.iter().enumerate() {
            if depth.on(*byte) && deep.len() < MAX_DEEP {
                deep.push(at + n as u64);
            }
        }
        at += n as u64;
    }
    Ok(Pass {
        bytes: at,
        sha256: sha256
            .finalize()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect(),
        hash: Digest::from(hash.finalize()),
        deep,
    })
}

/// Plain bytes of a compressed file that may be looked at again: what came since the last record.
#[derive(Default)]
pub(super) struct Plain {
    from: u64,
    bytes: Vec<u8>,
    depth: Depth,
    deep: Vec<u64>,
}

impl Plain {
    fn take(&mut self, bytes: &[u8]) {
        let at = self.from + self.bytes.len() as u64;
        for (n, byte) in bytes.iter().enumerate() {
            if self.depth.on(*byte) && self.deep.len() < MAX_DEEP {
                self.deep.push(at + n as u64);
            }
        }
        self.bytes.extend_from_slice(bytes);
        // A longer record is not looked at again.
        if self.bytes.len() as u64 > 2 * MAX_SPAN {
            self.drop_to(at.saturating_sub(MAX_SPAN));
        }
    }

    /// Nothing before `to` is looked at again.
    fn forget(&mut self, to: u64) {
        // Bytes are moved seldom.
        if to.saturating_sub(self.from) > BLOCK as u64 {
            self.drop_to(to);
        }
    }

    fn drop_to(&mut self, to: u64) {
        let n = usize::try_from(to.saturating_sub(self.from)).unwrap_or(usize::MAX);
        self.bytes.drain(..n.min(self.bytes.len()));
        self.from = to;
    }

    fn get(&self, span: Span) -> Option<Vec<u8>> {
        let at = |offset: u64| usize::try_from(offset.checked_sub(self.from)?).ok();
        let bytes = self.bytes.get(at(span.offset)?..at(span.end())?)?;
        Some(bytes.to_vec())
    }
}

/// A reader that keeps what may be looked at again.
struct Kept<'p, R> {
    inner: R,
    plain: Option<&'p RefCell<Plain>>,
}

impl<R: Read> Read for Kept<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(buf)?;
        if let (Some(plain), Some(got)) = (self.plain, buf.get(..n)) {
            plain.borrow_mut().take(got);
        }
        Ok(n)
    }
}

/// Whether the first `len` bytes of a file have this digest.
pub(super) fn begins_with(path: &Path, len: u64, want: Digest) -> Result<bool> {
    mirror::begins_with(&mut open(path)?, len, want).map_err(|e| Error::io("read", path, e))
}

/// Bytes that are read as a source.
pub(super) trait Content: Read + Seek {}
impl<T: Read + Seek> Content for T {}

/// Reads a log, document or transcript to its end as the index does. What breaks a compressed file
/// is returned in words; what may be looked at again of one is kept in `plain`.
pub(super) fn pieces<'r>(
    name: SourceName<'_>,
    container: Container,
    siblings: &BTreeMap<PathBuf, Vec<u8>>,
    head: &[u8],
    mut content: Box<dyn Content + 'r>,
    plain: Option<&RefCell<Plain>>,
    each: &mut dyn FnMut(Piece) -> Result<()>,
) -> Result<Option<String>> {
    let packed = parse::is_packed(name.path, head);
    let method = |head: &[u8]| {
        let beginning = Beginning {
            name,
            head,
            siblings,
        };
        parse::method(&beginning, None)
    };
    content
        .seek(SeekFrom::Start(0))
        .map_err(|e| Error::io("read", name.path, e))?;
    let result = match container {
        Container::Document => parse::document(name, method(head), &mut content, each).0,
        Container::Text => parse::text(name, method(head), &mut content, each).0,
        Container::Log if packed => {
            let mut plain_head = Vec::new();
            let mut decoded = parse::decoded(name.path, Box::new(content))?;
            let broken = (&mut decoded)
                .take(parse::MAX_HEAD as u64)
                .read_to_end(&mut plain_head)
                .err();
            let method = method(&plain_head);
            let inner = std::io::Cursor::new(plain_head).chain(decoded);
            let whole = Kept { inner, plain };
            let result = parse::log(name, method, Box::new(whole), None, each).0;
            if let (Ok(()), Some(e)) = (&result, broken) {
                return Ok(Some(e.to_string()));
            }
            result
        }
        Container::Log => {
            let content = Box::new(BufReader::with_capacity(BLOCK, content));
            parse::log(name, method(head), content, None, each).0
        }
        Container::Database => Ok(()),
    };
    match result {
        Err(e) if packed && e.kind() == ErrorKind::Io => Ok(Some(e.message().to_owned())),
        Err(e) => Err(e),
        Ok(()) => Ok(None),
    }
}

/// Reads the file at `path`, a source of `provider` that an index knows as `source`.
///
/// # Errors
/// As [`head`]; `unsupported` for a large database with changes in its WAL; what `stop` returns.
pub fn examine(
    provider: Provider,
    source: &Path,
    path: &Path,
    now_ms: i64,
    stop: &dyn Fn() -> Result<()>,
) -> Result<Health> {
    let file = open(path)?;
    let failed = |e| Error::io("read", path, e);
    let before = file.metadata().map_err(failed)?;
    let name = SourceName {
        provider,
        path: source,
    };
    let head = head(path)?;
    let packed = parse::is_packed(source, &head);
    let siblings = siblings(name, &head);
    let beginning = Beginning {
        name,
        head: &head,
        siblings: &siblings,
    };
    let container = parse::container(&beginning, packed);
    let seen = pass(&file, path, stop)?;
    let modified_ms = before.mtime() * 1000 + before.mtime_nsec() / 1_000_000;
    let live = (0..LIVE_MS).contains(&(now_ms - modified_ms));
    let plain = RefCell::new(Plain::default());
    let bytes = |span: Span| {
        if packed {
            return plain.borrow().get(span);
        }
        let len = usize::try_from(span.len).ok();
        let mut out = vec![0; len.filter(|_| span.len <= MAX_SPAN)?];
        file.read_exact_at(&mut out, span.offset).ok()?;
        Some(out)
    };
    let deep = |n: usize| match packed {
        true => plain.borrow().deep.get(n).copied(),
        false => seen.deep.get(n).copied(),
    };
    let mut observer = Observer::new(Known {
        provider,
        container,
        live,
        bytes: &bytes,
        deep: &deep,
    });
    if container == Container::Database {
        let method = parse::method(&beginning, None);
        database(path, &file, method, &mut observer)?;
    } else {
        let content = Box::new(file.try_clone().map_err(failed)?);
        let again = packed.then_some(&plain);
        let mut each = |piece: Piece| {
            stop()?;
            observer.piece(&piece);
            // Behind every record comes the end of its line.
            if let Piece::Separator(span) | Piece::Skipped { span, .. } = piece {
                let to = observer.pending().unwrap_or(span.end());
                plain.borrow_mut().forget(to);
            }
            Ok(())
        };
        let broken = pieces(name, container, &siblings, &head, content, again, &mut each)?;
        if let Some(why) = broken {
            let what = format!("the compressed file is cut short or damaged: {why}");
            observer.push(Anomaly::whole(Class::ContainerDamaged, what));
        }
    }
    let after = file.metadata().map_err(failed)?;
    let state = |m: &std::fs::Metadata| (m.len(), m.mtime(), m.mtime_nsec());
    let (found, told, counts) = observer.end();
    let Counts {
        records,
        messages,
        unknown,
        lost_bytes,
        session,
        first_ms,
        last_ms,
    } = counts;
    Ok(Health {
        container,
        packed,
        session,
        records,
        messages,
        unknown,
        lost_bytes,
        times: (first_ms, last_ms),
        live,
        found,
        told,
        proof: Proof {
            moved: state(&before) != state(&after) || seen.bytes != after.len(),
            bytes: seen.bytes,
            sha256: seen.sha256,
            hash: seen.hash,
            modified_ms,
        },
    })
}

/// Beginnings of the files that say something about the sessions of this one, as they are now.
fn siblings(name: SourceName<'_>, head: &[u8]) -> BTreeMap<PathBuf, Vec<u8>> {
    parse::siblings(name, head)
        .into_iter()
        .filter_map(|path| {
            let bytes = beginning(&path, SIBLING_BYTES).ok()?;
            Some((path, bytes))
        })
        .collect()
}

/// A database, as an image or where it lies: nothing is made or changed.
fn database(
    path: &Path,
    file: &File,
    method: parse::Method,
    observer: &mut Observer<'_>,
) -> Result<()> {
    let log = match open(&member_path(path, "-wal")) {
        Ok(log) => Some(log),
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let opened = match foreign::image(path, file, log.as_ref())? {
        Some(image) => ForeignDb::from_image(&image, path),
        None => ForeignDb::open_still(path),
    };
    let malformed = |what: &str| Anomaly::whole(Class::DatabaseMalformed, what.to_owned());
    let db = match opened {
        Ok(db) => db,
        Err(e) if e.kind() == ErrorKind::SourcesFailed => {
            observer.push(malformed(e.message()));
            return Ok(());
        }
        Err(e) => return Err(e),
    };
    let rows = parse::database(method, &db, &mut |piece| {
        observer.piece(&piece);
        Ok(())
    })?;
    if let Some(first) = rows.first_damage {
        let mut found = malformed(&first);
        found.count = rows.damaged;
        found.lost = rows.damaged;
        observer.push(found);
    }
    Ok(())
}
