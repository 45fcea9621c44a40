//! Writes repaired session logs: captured first, made beside their place, read again and examined
//! before they get their names.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use crate::disk::{Capture, PutBack, PutBackFile, Root, SessionLock, open_elsewhere};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::ingest::capture::capture_named;
use crate::model::plan::{CaptureName, FileState, LogMake, LogPlace, LogWrite};
use crate::model::provider::Provider;
use crate::model::source::SourceKey;
use crate::model::watch::Watch;
use crate::session_log::{self, Entry, Kind, LogName, ReadAt, Seeking};
use crate::store::foreign;
use crate::store::mirror::{CaptureLine, ContentReader, MirrorWriter};
use crate::store::run::{RunId, temp_of};
use crate::store::wal;

/// How long nothing may move of a log whose writer takes no lock.
const QUIET: Duration = Duration::from_secs(2);
const PIECE: usize = 256 << 10;

/// What writing a log needs.
pub(super) struct Logs<'r> {
    pub(super) env: &'r Env,
    pub(super) cap: Capture<'r>,
    pub(super) run: &'r RunId,
    pub(super) close_turn: bool,
    pub(super) watch: Watch<'r>,
}

/// A file that was written and has no name yet.
struct Written<'w>(&'w PutBackFile);

impl ReadAt for Written<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buf, offset)
    }
}

impl Logs<'_> {
    /// Captures the log and writes what the plan says of it.
    pub(super) fn write(&self, log: &LogWrite) -> Result<String> {
        let path = Path::new(&log.log);
        let failed = |e: io::Error| broken(path, e);
        let entry = session_log::look(path)
            .map_err(|e| Error::io("look at", path, e))?
            .entries
            .into_iter()
            .next()
            .ok_or_else(|| moved(path))?;
        let in_place = log.place == LogPlace::InPlace;
        let held = in_place.then(|| self.lock(path)).transpose()?;
        let mut mirror = MirrorWriter::open(self.cap, self.env.now_ms())?;
        let (added, _) = capture_named(self.env, &mut mirror, Provider::Dsh, path)?;
        let key = SourceKey::derive(crate::model::source::LOCAL, Provider::Dsh, path);
        let line = mirror
            .capture(key, added.seq)?
            .ok_or_else(|| Error::new(ErrorKind::MirrorDamaged, "the capture is not found"))?;
        if !is(&line, &log.source) {
            return Err(moved(path));
        }
        self.watch.interrupt.check()?;
        let (folder, rel) = log.target();
        let mut place = PutBack::below(Path::new(folder))?;
        let mut file = place.begin_as(Path::new(rel), &temp_of(self.run))?;
        match &log.make {
            LogMake::Rebuild {
                capture,
                blake3,
                len,
                taken,
                from,
            } => {
                let older = captured(&mut mirror, capture)?;
                if older.hash.to_hex() != *blake3 || older.len != len.0 {
                    return Err(Error::new(
                        ErrorKind::VerifyFailed,
                        "the captured version is not the one of the plan",
                    ));
                }
                let content = mirror.open_content(older.recipe, older.len)?;
                copy(&mut content.take(taken.0), &mut file).map_err(failed)?;
                let mut content = mirror.open_content(line.recipe, line.len)?;
                io::Seek::seek(&mut content, io::SeekFrom::Start(from.0)).map_err(failed)?;
                copy(&mut content, &mut file).map_err(failed)?;
            }
            LogMake::Repair if entry.kind == Kind::Store => {
                let image = self.store(&mut mirror, &line, path)?;
                file.write_all(&image).map_err(failed)?;
            }
            LogMake::Repair => {
                let form = entry.form().ok_or_else(|| moved(path))?;
                let content = Seeking::new(mirror.open_content(line.recipe, line.len)?);
                let diagnosis = session_log::examine(&content, form).map_err(failed)?;
                let repair = diagnosis
                    .wanted(self.close_turn)
                    .ok_or_else(|| moved(path))?;
                let mut out = io::BufWriter::with_capacity(PIECE, &mut file);
                session_log::mend(&content, form, repair, &mut out).map_err(failed)?;
                out.flush().map_err(failed)?;
            }
        }
        file.rewind().map_err(failed)?;
        verify(&file, &entry, &log.result, path)?;
        mirror.finish()?;
        self.watch.interrupt.check()?;
        if in_place {
            let old = open(path)?;
            place.replace(file, &old, &|| self.quiet(&old, &log.source, path))?;
        } else {
            place.publish(file)?;
        }
        place.keep();
        drop(held);
        Ok(format!(
            "capture {} of source {key} holds the log as it was; {} is written, of {} events",
            line.seq,
            Path::new(folder).join(rel).display(),
            log.events.0
        ))
    }

    /// Writes the captured log over the one that was made of it.
    pub(super) fn put_back(&self, log: &LogWrite, capture: &CaptureName) -> Result<String> {
        let path = Path::new(&log.log);
        let failed = |e: io::Error| broken(path, e);
        let held = self.lock(path)?;
        let mut mirror = MirrorWriter::open(self.cap, self.env.now_ms())?;
        let line = captured(&mut mirror, capture)?;
        let (folder, rel) = log.target();
        let mut place = PutBack::below(Path::new(folder))?;
        let mut file = place.begin_as(Path::new(rel), &temp_of(self.run))?;
        let mut content = mirror.open_content(line.recipe, line.len)?;
        copy(&mut content, &mut file).map_err(failed)?;
        file.rewind().map_err(failed)?;
        same(&Written(&file), &log.source, path)?;
        self.watch.interrupt.check()?;
        let old = open(path)?;
        place.replace(file, &old, &|| self.quiet(&old, &log.result, path))?;
        place.keep();
        drop(held);
        Ok(format!("{} is what it was", path.display()))
    }

    /// Takes our lock of the session and its harness's, and waits for neither.
    fn lock(&self, path: &Path) -> Result<SessionLock> {
        let folder = path.parent().unwrap_or(path);
        let project = folder.parent().unwrap_or(folder);
        let root = project.parent().unwrap_or(project);
        let sessions = Root::open(root)?.ok_or_else(|| moved(path))?;
        let name = |p: &Path| -> Result<String> {
            let name = p.file_name().and_then(|n| n.to_str());
            name.map(str::to_owned).ok_or_else(|| moved(path))
        };
        let (project, session) = (name(project)?, name(folder)?);
        let now = Duration::ZERO;
        let mut lock = SessionLock::acquire(self.cap.root(), &sessions, &session, now)?;
        lock.beside(&sessions, &format!("{project}/{session}"), now)?;
        Ok(lock)
    }

    /// Whether the log is still what was planned for, and, where its writer takes no lock, whether
    /// nobody has it open and nothing moves.
    fn quiet(&self, old: &File, planned: &FileState, path: &Path) -> Result<()> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if LogName::of(&name).is_none_or(|n| n.generation == 0) {
            let pids = open_elsewhere(old);
            if !pids.is_empty() {
                let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
                return Err(Error::new(
                    ErrorKind::LockBusy,
                    format!(
                        "{} is open in process {}; nothing was changed",
                        path.display(),
                        pids.join(", ")
                    ),
                )
                .with_hint("End the harness and run the same command again."));
            }
            same(old, planned, path)?;
            std::thread::sleep(QUIET);
        }
        same(old, planned, path)
    }

    /// The image of a captured store with its sessions repaired.
    fn store(
        &self,
        mirror: &mut MirrorWriter<'_>,
        line: &CaptureLine,
        path: &Path,
    ) -> Result<Vec<u8>> {
        let mut image = whole(mirror.open_content(line.recipe, line.len)?, path)?;
        let member = line.group.iter().find(|m| m.name == "-wal");
        let log = match member {
            Some(m) => whole(mirror.open_content(m.recipe, m.len)?, path)?,
            None => Vec::new(),
        };
        wal::fold(&mut image, &log);
        let conn = foreign::open_image(&image, path)?;
        let sessions = session_log::sessions(&conn, &|| false)
            .map_err(|e| broken(path, io::Error::other(e)))?;
        drop(conn);
        let repairs = session_log::store_repairs(&sessions, self.close_turn);
        foreign::changed_image(&image, path, &|conn| {
            session_log::mend_store(conn, &repairs)
        })
    }
}

fn open(path: &Path) -> Result<File> {
    let place = PutBack::below(path.parent().unwrap_or(path))?;
    let name = path.file_name().unwrap_or_default();
    place.look(Path::new(name))?.ok_or_else(|| moved(path))
}

fn captured(mirror: &mut MirrorWriter<'_>, name: &CaptureName) -> Result<CaptureLine> {
    let none = || {
        Error::new(
            ErrorKind::MirrorDamaged,
            format!(
                "the mirror has no capture {} of {}",
                name.seq.0, name.source
            ),
        )
    };
    let key: SourceKey = name.source.parse().map_err(|_| none())?;
    mirror.capture(key, name.seq.0)?.ok_or_else(none)
}

fn is(line: &CaptureLine, state: &FileState) -> bool {
    line.len == state.len.0 && line.hash.to_hex() == state.blake3
}

/// Whether what was written is what was planned, and the harness can go on with it.
fn verify(file: &PutBackFile, entry: &Entry, result: &FileState, path: &Path) -> Result<()> {
    let file = Written(file);
    let unlike = |what: String| {
        Error::new(
            ErrorKind::VerifyFailed,
            format!("what was made of {} {what}", path.display()),
        )
    };
    let (len, _, blake3) = session_log::digests(&file).map_err(|e| broken(path, e))?;
    if (len, &blake3) != (result.len.0, &result.blake3) {
        return Err(unlike("is not what was planned".to_owned()));
    }
    // A store was examined as an image, session by session, when it was planned; its bytes are those.
    let Some(form) = entry.form() else {
        return Ok(());
    };
    let diagnosis = session_log::examine(&file, form).map_err(|e| broken(path, e))?;
    if !diagnosis.is_sound() {
        return Err(unlike(format!("is {}", diagnosis.verdict.name())));
    }
    Ok(())
}

/// Whether a file is what was planned for.
fn same<S: ReadAt + ?Sized>(file: &S, planned: &FileState, path: &Path) -> Result<()> {
    let (len, _, blake3) = session_log::digests(file).map_err(|e| broken(path, e))?;
    if (len, &blake3) == (planned.len.0, &planned.blake3) {
        return Ok(());
    }
    Err(moved(path))
}

fn moved(path: &Path) -> Error {
    Error::new(
        ErrorKind::PlanMismatch,
        format!(
            "{} changed since the plan was made; it was left as it is",
            path.display()
        ),
    )
    .with_hint("Run the command without --yes and read the new plan.")
}

fn broken(path: &Path, e: io::Error) -> Error {
    match ContentReader::cause(&e) {
        Some(cause) => Error::new(cause.kind(), cause.message().to_owned()),
        None => Error::io("write", path, e),
    }
}

fn whole(mut content: ContentReader<'_>, path: &Path) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    content.read_to_end(&mut out).map_err(|e| broken(path, e))?;
    Ok(out)
}

fn copy(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<()> {
    io::copy(from, to).map(drop)
}
