//! How a candidate archive is made: nothing promises what it holds, and nothing names it, before it
//! is finished, verified and promoted.

use std::collections::HashSet;
use std::marker::PhantomData;

use rusqlite::Connection;

use super::failed;
use super::rows::{get_digest, get_u64};
use super::writer::{
    ArchiveWriter, Head, NextIds, Shared, WriterState, check_header, check_origin, read_head,
    write_schema,
};
use crate::disk::Capture;
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::store::generation::{self, Generation, GenerationId, Manifest, Provenance};
use crate::store::{layout, sqlite};

/// Writes one page and changes nothing.
const TOUCH: &str = "UPDATE meta SET value=value WHERE id=1";

impl<'l> ArchiveWriter<'l> {
    /// Begins a new archive in `generations/<id>/`, empty. It is written without syncs, writes no
    /// coverage line and touches neither `CURRENT` nor the coverage ledger; without
    /// [`ArchiveWriter::finish_staged`] it is worth nothing.
    ///
    /// # Errors
    /// `target-exists` when a database or manifest is there; `no-space`, `permission-denied`, `io`.
    pub fn stage(
        cap: Capture<'l>,
        id: &GenerationId,
        archive_id: &str,
        now_ms: i64,
    ) -> Result<Self> {
        let db = layout::archive_db(id.as_str());
        for rel in [db.clone(), layout::manifest(id.as_str())] {
            if cap.root().exists(&rel)? {
                return Err(Error::new(
                    ErrorKind::TargetExists,
                    format!("{} is there already", cap.root().full(&rel).display()),
                ));
            }
        }
        cap.create_dir(&format!("{}/{id}", layout::GENERATIONS))?;
        let manifest = Manifest::made(id, archive_id, now_ms);
        let mut conn = sqlite::open_staged(&cap.root().full(&db), true)?;
        write_schema(&mut conn, &manifest)?;
        staged(
            conn,
            Generation {
                id: id.clone(),
                manifest,
            },
        )
    }

    /// The same for a database that lies in the folder of `generation` already, maybe with a WAL:
    /// a copy of another generation's ([`Manifest::copied`]), or a candidate that was finished
    /// before. What the WAL holds is folded in. The manifest need not be written yet.
    ///
    /// # Errors
    /// `archive-corrupt` when it is damaged or not the database that the manifest tells of;
    /// `archive-missing`, `no-space`, `permission-denied`, `io`.
    pub fn open_staged(cap: Capture<'l>, generation: &Generation) -> Result<Self> {
        let path = cap.root().full(&layout::archive_db(generation.id.as_str()));
        let conn = sqlite::open_staged(&path, false)?;
        check_header(&conn, &generation.manifest)?;
        check_origin(&conn, &generation.manifest)?;
        staged(conn, generation.clone())
    }

    /// Makes the candidate durable: database without sidecars, manifest, folder. Returns what to
    /// verify and promote.
    ///
    /// # Errors
    /// `no-space`, `io`: the candidate is then worth nothing. `internal` for an archive that is
    /// not staged.
    pub fn finish_staged(
        self,
        cap: Capture<'_>,
        provenance: Option<Provenance>,
    ) -> Result<(Generation, Head)> {
        let head = self.head();
        let mut generation = self.generation().clone();
        generation.manifest.provenance = provenance;
        if self.shared.coverage.is_some() {
            return Err(Error::new(ErrorKind::Internal, "the archive is not staged"));
        }
        sqlite::end_staging(&self.conn, TOUCH)?;
        drop(self);
        sqlite::closed_clean(&cap.root().full(&layout::archive_db(generation.id.as_str())))?;
        generation::write_manifest(cap, &generation.manifest)?;
        cap.sync_dir(&format!("{}/{}", layout::GENERATIONS, generation.id))?;
        Ok((generation, head))
    }

    /// What every conversation covers: public id, coverage keys, coverage sum. As
    /// [`CommitLine`](crate::store::coverage::CommitLine) promises them.
    ///
    /// # Errors
    /// `archive-corrupt`, `io`, or what `each` returns.
    pub fn for_each_coverage(
        &self,
        each: &mut dyn FnMut(&str, u64, Digest) -> Result<()>,
    ) -> Result<()> {
        let fail = |e| failed(&self.conn, "read", e);
        let mut statement = self
            .conn
            .prepare("SELECT public_id, record_count, coverage_sum FROM conversations ORDER BY id")
            .map_err(fail)?;
        let mut rows = statement.query([]).map_err(fail)?;
        while let Some(row) = rows.next().map_err(fail)? {
            let id: String = row.get(0).map_err(fail)?;
            let (count, sum) = (
                get_u64(row, 1).map_err(fail)?,
                get_digest(row, 2).map_err(fail)?,
            );
            each(&id, count, sum)?;
        }
        Ok(())
    }
}

fn staged<'l>(conn: Connection, generation: Generation) -> Result<ArchiveWriter<'l>> {
    let head = read_head(&conn)?;
    let next = NextIds::read(&conn)?;
    Ok(ArchiveWriter {
        conn,
        shared: Shared {
            lock: PhantomData,
            generation,
            coverage: None,
            head,
            next,
            found: WriterState::default(),
            incomplete: HashSet::new(),
            batch: 1,
            unacknowledged: Vec::new(),
        },
    })
}
