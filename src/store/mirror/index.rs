//! The derived index: where each object lies and what each source's head is. Everything in it
//! can be made again from packs and ledgers, and nothing in it is believed over them.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::ledger::LineHash;
use super::pack::Loc;
use super::record::{Kind, short};
use super::types::{Head, SourceIdent, StatGate};
use crate::error::{Error, ErrorKind, Result};
use crate::model::digest::Digest;
use crate::model::provider::Provider;
use crate::model::source::SourceKey;
use crate::store::sqlite;

/// Changes with every change of the tables: another number means "make it again".
const VERSION: i64 = 1;

const SCHEMA: &str = "
CREATE TABLE object(
  digest BLOB PRIMARY KEY, pack INTEGER NOT NULL, offset INTEGER NOT NULL,
  stored_len INTEGER NOT NULL, plain_len INTEGER NOT NULL, kind INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE pack(
  n INTEGER PRIMARY KEY, verified_len INTEGER NOT NULL, file_len INTEGER NOT NULL,
  closed INTEGER NOT NULL
) STRICT;
CREATE TABLE source(
  key BLOB PRIMARY KEY, source_id TEXT NOT NULL, provider TEXT NOT NULL, path BLOB NOT NULL,
  seq INTEGER NOT NULL, recipe BLOB NOT NULL, len INTEGER NOT NULL, hash BLOB NOT NULL,
  dev INTEGER NOT NULL, ino INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL,
  extra TEXT NOT NULL, at_ms INTEGER NOT NULL, moving INTEGER NOT NULL, grouped BLOB NOT NULL,
  line_hash BLOB NOT NULL, ledger_len INTEGER NOT NULL, row_check BLOB NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Page cache of a reader in KiB: it looks up single rows, and what a check holds must not grow
/// with the number of sources.
const READ_CACHE_KIB: i64 = 512;

const COLUMNS: &str = "key, source_id, provider, path, seq, recipe, len, hash, dev, ino, size, \
     mtime_ns, extra, at_ms, moving, grouped, line_hash, ledger_len, row_check";

/// A pack as the index knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PackRow {
    pub n: u32,
    /// Up to here its objects are in the index.
    pub verified_len: u64,
    /// Its length when it was looked at; longer than `verified_len` only where damage was kept.
    pub file_len: u64,
    /// Nothing is appended to it any more.
    pub closed: bool,
}

/// A source as the index knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceRow {
    pub head: Head,
    /// Over the other files of the newest capture.
    pub grouped: Digest,
    pub line_hash: LineHash,
    pub ledger_len: u64,
}

impl SourceRow {
    fn check(&self) -> [u8; 8] {
        use std::os::unix::ffi::OsStrExt;
        let h = &self.head;
        let mut hasher = blake3::Hasher::new();
        hasher.update(&h.ident.key.0);
        for text in [
            h.ident.source_id.as_bytes(),
            h.ident.provider.as_str().as_bytes(),
            h.ident.path.as_os_str().as_bytes(),
            h.gate.extra.as_bytes(),
        ] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text);
        }
        for n in [
            h.seq,
            h.len,
            h.gate.dev,
            h.gate.ino,
            h.gate.size,
            u64::from(h.moving),
            self.ledger_len,
        ] {
            hasher.update(&n.to_le_bytes());
        }
        for n in [h.gate.mtime_ns, h.at_ms] {
            hasher.update(&n.to_le_bytes());
        }
        hasher.update(&h.recipe.0);
        hasher.update(&h.hash.0);
        hasher.update(&self.grouped.0);
        hasher.update(&self.line_hash.0);
        short(&hasher.finalize())
    }
}

/// The open index.
#[derive(Debug)]
pub(super) struct Index {
    conn: Connection,
    path: PathBuf,
}

// SQLite has signed numbers only; the bits are what matters.
fn signed(n: u64) -> i64 {
    n.cast_signed()
}

fn unsigned(n: i64) -> u64 {
    n.cast_unsigned()
}

impl Index {
    /// Opens the index for writing, made new when nothing is there.
    pub(super) fn open_write(path: &Path) -> Result<Index> {
        let conn = sqlite::open_write(path, true)?;
        let index = Index {
            conn,
            path: path.to_path_buf(),
        };
        // No sync per commit: what a power cut takes away is found by the lengths of the files.
        index.sql(
            "open",
            index.conn.pragma_update(None, "synchronous", "NORMAL"),
        )?;
        let version: i64 = index.sql(
            "open",
            index
                .conn
                .query_row("PRAGMA user_version", [], |r| r.get(0)),
        )?;
        if version == 0 {
            let make =
                format!("BEGIN IMMEDIATE; {SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;");
            index.sql("make", index.conn.execute_batch(&make))?;
        } else if version != VERSION {
            return Err(index.corrupt("it has another version"));
        }
        Ok(index)
    }

    /// Opens the index for reading; `None` when nothing is there.
    pub(super) fn open_read(path: &Path) -> Result<Option<Index>> {
        let Some(conn) = sqlite::open_read(path)? else {
            return Ok(None);
        };
        let index = Index {
            conn,
            path: path.to_path_buf(),
        };
        index.sql(
            "read",
            index
                .conn
                .pragma_update(None, "cache_size", -READ_CACHE_KIB),
        )?;
        let version: i64 = index.sql(
            "read",
            index
                .conn
                .query_row("PRAGMA user_version", [], |r| r.get(0)),
        )?;
        if version != VERSION {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "the derived index has another version",
            ));
        }
        Ok(Some(index))
    }

    /// Whether the schema text is the one this version writes; SQLite keeps it as it was given.
    pub(super) fn schema_is_ours(&self) -> Result<bool> {
        let read = || -> rusqlite::Result<bool> {
            let mut statement = self
                .conn
                .prepare("SELECT sql, name, tbl_name FROM sqlite_schema WHERE sql IS NOT NULL")?;
            let mut rows = statement.query([])?;
            let mut tables = 0;
            while let Some(row) = rows.next()? {
                tables += 1;
                let sql: String = row.get(0)?;
                let (name, of): (String, String) = (row.get(1)?, row.get(2)?);
                let begin = format!("CREATE TABLE {name}(");
                if name != of || !sql.starts_with(&begin) || !SCHEMA.contains(&sql) {
                    return Ok(false);
                }
            }
            Ok(tables == SCHEMA.matches("CREATE TABLE").count())
        };
        self.sql("read", read())
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.conn
    }

    fn sql<T>(&self, doing: &str, result: rusqlite::Result<T>) -> Result<T> {
        result.map_err(|e| sqlite::failed(doing, &self.path, e))
    }

    fn corrupt(&self, why: &str) -> Error {
        Error::new(
            ErrorKind::ArchiveCorrupt,
            format!(
                "the derived index {} can't be used: {why}",
                self.path.display()
            ),
        )
    }

    pub(super) fn begin(&self) -> Result<()> {
        self.sql("write", self.conn.execute_batch("BEGIN IMMEDIATE"))
    }

    pub(super) fn commit(&self) -> Result<()> {
        self.sql("write", self.conn.execute_batch("COMMIT"))
    }

    pub(super) fn put_object(&self, digest: &Digest, loc: &Loc) -> Result<()> {
        let put = || {
            self.conn
                .prepare_cached("INSERT OR REPLACE INTO object VALUES (?1,?2,?3,?4,?5,?6)")?
                .execute(params![
                    &digest.0[..],
                    loc.pack,
                    signed(loc.offset),
                    loc.stored_len,
                    loc.plain_len,
                    loc.kind.code()
                ])
        };
        self.sql("write", put()).map(drop)
    }

    pub(super) fn object(&self, digest: &Digest) -> Result<Option<Loc>> {
        let get = || {
            self.conn
                .prepare_cached(
                    "SELECT pack, offset, stored_len, plain_len, kind FROM object WHERE digest = ?1",
                )?
                .query_row([&digest.0[..]], |r| {
                    let code: u8 = r.get(4)?;
                    Ok(Loc {
                        pack: r.get(0)?,
                        offset: unsigned(r.get(1)?),
                        stored_len: r.get(2)?,
                        plain_len: r.get(3)?,
                        kind: Kind::from_code(code)
                            .ok_or(rusqlite::Error::IntegralValueOutOfRange(4, code.into()))?,
                    })
                })
                .optional()
        };
        self.sql("read", get())
    }

    pub(super) fn object_count(&self) -> Result<u64> {
        self.sql(
            "read",
            self.conn
                .query_row("SELECT count(*) FROM object", [], |r| r.get::<_, i64>(0)),
        )
        .map(unsigned)
    }

    pub(super) fn source_count(&self) -> Result<u64> {
        self.sql(
            "read",
            self.conn
                .query_row("SELECT count(*) FROM source", [], |r| r.get::<_, i64>(0)),
        )
        .map(unsigned)
    }

    pub(super) fn packs(&self) -> Result<Vec<PackRow>> {
        let get = || {
            self.conn
                .prepare_cached("SELECT n, verified_len, file_len, closed FROM pack ORDER BY n")?
                .query_map([], |r| {
                    Ok(PackRow {
                        n: r.get(0)?,
                        verified_len: unsigned(r.get(1)?),
                        file_len: unsigned(r.get(2)?),
                        closed: r.get(3)?,
                    })
                })?
                .collect::<rusqlite::Result<Vec<_>>>()
        };
        self.sql("read", get())
    }

    pub(super) fn put_pack(&self, row: &PackRow) -> Result<()> {
        let put = || {
            self.conn
                .prepare_cached("INSERT OR REPLACE INTO pack VALUES (?1,?2,?3,?4)")?
                .execute(params![
                    row.n,
                    signed(row.verified_len),
                    signed(row.file_len),
                    row.closed
                ])
        };
        self.sql("write", put()).map(drop)
    }

    pub(super) fn put_source(&self, row: &SourceRow) -> Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let h = &row.head;
        let put = || {
            self.conn
                .prepare_cached(
                    "INSERT OR REPLACE INTO source VALUES \
                     (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19)",
                )?
                .execute(params![
                    &h.ident.key.0[..],
                    h.ident.source_id,
                    h.ident.provider.as_str(),
                    h.ident.path.as_os_str().as_bytes(),
                    signed(h.seq),
                    &h.recipe.0[..],
                    signed(h.len),
                    &h.hash.0[..],
                    signed(h.gate.dev),
                    signed(h.gate.ino),
                    signed(h.gate.size),
                    h.gate.mtime_ns,
                    h.gate.extra,
                    h.at_ms,
                    h.moving,
                    &row.grouped.0[..],
                    &row.line_hash.0[..],
                    signed(row.ledger_len),
                    &row.check()[..],
                ])
        };
        self.sql("write", put()).map(drop)
    }

    pub(super) fn remove_source(&self, key: SourceKey) -> Result<()> {
        self.sql(
            "write",
            self.conn
                .execute("DELETE FROM source WHERE key = ?1", [&key.0[..]]),
        )
        .map(drop)
    }

    pub(super) fn source(&self, key: SourceKey) -> Result<Option<SourceRow>> {
        let sql = format!("SELECT {COLUMNS} FROM source WHERE key = ?1");
        let get = || {
            self.conn
                .prepare_cached(&sql)?
                .query_row([&key.0[..]], |r| Ok(read_source(r)))
                .optional()
        };
        self.sql("read", get())?
            .map(|row| self.believed(row))
            .transpose()
    }

    /// Every source by key, in one pass.
    pub(super) fn for_each_source(
        &self,
        each: &mut dyn FnMut(SourceRow) -> Result<()>,
    ) -> Result<()> {
        self.for_sources_after(None, u32::MAX, each)
    }

    /// At most `limit` sources behind `after`, by key.
    pub(super) fn for_sources_after(
        &self,
        after: Option<SourceKey>,
        limit: u32,
        each: &mut dyn FnMut(SourceRow) -> Result<()>,
    ) -> Result<()> {
        let sql = format!("SELECT {COLUMNS} FROM source WHERE key > ?1 ORDER BY key LIMIT ?2");
        let after = after.map_or(Vec::new(), |key| key.0.to_vec());
        let mut statement = self.sql("read", self.conn.prepare_cached(&sql))?;
        let mut rows = self.sql("read", statement.query(params![after, limit]))?;
        while let Some(row) = self.sql("read", rows.next())? {
            each(self.believed(read_source(row))?)?;
        }
        Ok(())
    }

    fn believed(&self, row: rusqlite::Result<Option<SourceRow>>) -> Result<SourceRow> {
        match row {
            Ok(Some(row)) => Ok(row),
            Ok(None) => Err(self.corrupt("a row of it is damaged")),
            Err(e) => Err(sqlite::failed("read", &self.path, e)),
        }
    }
}

fn blob<const N: usize>(r: &Row<'_>, i: usize) -> rusqlite::Result<[u8; N]> {
    let bytes = r.get_ref(i)?.as_blob()?;
    bytes.try_into().map_err(|_| {
        rusqlite::Error::FromSqlConversionFailure(
            i,
            rusqlite::types::Type::Blob,
            "wrong length".into(),
        )
    })
}

/// `None` when the row's own check does not match.
fn read_source(r: &Row<'_>) -> rusqlite::Result<Option<SourceRow>> {
    use std::os::unix::ffi::OsStringExt;
    let provider: String = r.get(2)?;
    let Ok(provider) = provider.parse::<Provider>() else {
        return Ok(None);
    };
    let path: Vec<u8> = r.get(3)?;
    let row = SourceRow {
        head: Head {
            ident: SourceIdent {
                key: SourceKey(blob(r, 0)?),
                source_id: r.get(1)?,
                provider,
                path: PathBuf::from(std::ffi::OsString::from_vec(path)),
            },
            seq: unsigned(r.get(4)?),
            recipe: Digest(blob(r, 5)?),
            len: unsigned(r.get(6)?),
            hash: Digest(blob(r, 7)?),
            gate: StatGate {
                dev: unsigned(r.get(8)?),
                ino: unsigned(r.get(9)?),
                size: unsigned(r.get(10)?),
                mtime_ns: r.get(11)?,
                extra: r.get(12)?,
            },
            at_ms: r.get(13)?,
            moving: r.get(14)?,
        },
        grouped: Digest(blob(r, 15)?),
        line_hash: LineHash(blob(r, 16)?),
        ledger_len: unsigned(r.get(17)?),
    };
    Ok((row.check() == blob::<8>(r, 18)?).then_some(row))
}
