//! `cass health`

use std::time::Duration;

use super::context::Context;
use super::emit::Human;
use super::page::{Mark, Page};
use crate::disk::{ArchiveShared, Root, writer_owner};
use crate::error::{Error, ErrorKind, Result};
use crate::report::check::OwnerBlock;
use crate::report::envelope::Report;
use crate::report::health::{
    ArchiveHealth, CommitsHealth, ConfigHealth, DataDirState, HealthBody, MirrorHealth,
    health_report,
};
use crate::sources::config::Config;
use crate::store::archive::{ArchiveReader, unnamed_generation};
use crate::store::{coverage, layout};

/// How long a checkpoint may keep it waiting: it promises an answer in 50 ms.
const PATIENCE: Duration = Duration::from_millis(20);

pub(super) fn run(ctx: &Context) -> Result<Report<HealthBody>> {
    let mut body = HealthBody {
        healthy: false,
        data_dir: DataDirState::Absent,
        generation: None,
        archive: ArchiveHealth::Absent,
        commits: CommitsHealth::None,
        mirror: MirrorHealth::Absent,
        config: match Config::load(ctx.env.config_dir(), ctx.env.home()) {
            Ok(_) => ConfigHealth::Ok,
            Err(_) => ConfigHealth::Invalid,
        },
        writer_active: false,
        owner: None,
    };
    let failed = match Root::open(ctx.env.data_dir()) {
        Ok(None) => None,
        Ok(Some(root)) => look(ctx, &root, &mut body).err(),
        Err(e) => Some(e),
    };
    if failed.is_some() {
        body.data_dir = DataDirState::Unreadable;
    }
    Ok(health_report(body, failed.as_ref(), &ctx.site))
}

fn look(ctx: &Context, root: &Root, body: &mut HealthBody) -> Result<()> {
    let has = |rel: &str| -> Result<bool> { root.exists(rel) };
    // Before and behind the rest: what a writer had begun when it was looked at is no damage, also
    // when it took its lock, or ended, in between.
    let before = writer_owner(root)?;
    // The ledger is begun after `CURRENT` has named an archive.
    let promised = has(layout::COVERAGE)?;
    let mirror = has(layout::MIRROR)?;
    body.generation = current(root)?;
    let used = body.generation.is_some() || promised || mirror || has(layout::GENERATIONS)?;
    body.data_dir = if used {
        DataDirState::Present
    } else if has(layout::ARCHIVE_DB)? {
        DataDirState::Foreign
    } else {
        DataDirState::Empty
    };
    if mirror {
        body.mirror = match root.read(layout::MIRROR_FORMAT, 256) {
            Ok(Some(text)) => mirror_format(&text),
            _ => MirrorHealth::Unreadable,
        };
    }
    if body.generation.is_some() {
        (body.archive, body.commits) = core(root);
        // Of nothing no row was made: a folder that is not there is gone.
        let whole = has(layout::PACKS)? && has(layout::LEDGERS)?;
        if body.commits != CommitsHealth::None
            && matches!(body.mirror, MirrorHealth::Absent | MirrorHealth::Present)
            && !whole
        {
            body.mirror = MirrorHealth::Missing;
        }
    } else if promised || unnamed_generation(root)?.is_some() {
        (body.archive, body.commits) = (ArchiveHealth::Missing, CommitsHealth::Unknown);
    }
    let Some(owner) = before.or(writer_owner(root)?) else {
        return Ok(());
    };
    if body.generation.is_none() && body.archive == ArchiveHealth::Absent {
        body.archive = ArchiveHealth::Building;
        if body.mirror == MirrorHealth::Unreadable && !has(layout::MIRROR_FORMAT)? {
            body.mirror = MirrorHealth::Absent;
        }
    }
    body.writer_active = true;
    let held = match owner.since_ms {
        0 => 0,
        since => u64::try_from(ctx.env.now_ms().saturating_sub(since)).unwrap_or(0),
    };
    body.owner = Some(OwnerBlock {
        pid: owner.pid,
        command: owner.command,
        held_for_ms: held,
    });
    Ok(())
}

/// The archive by the open path of every reading command, and its last commit against the
/// coverage ledger's last line. A few rows are read, at any size.
fn core(root: &Root) -> (ArchiveHealth, CommitsHealth) {
    // Held until the reader has its own, which would wait for longer.
    let lock = ArchiveShared::acquire(root, PATIENCE);
    let opened = lock.and_then(|_held| match ArchiveReader::open(root)? {
        Some(reader) => reader.head().map(|head| Some((reader, head))),
        None => Ok(None),
    });
    let (reader, head) = match opened {
        Ok(Some(found)) => found,
        Ok(None) => return (ArchiveHealth::Absent, CommitsHealth::None),
        Err(e) => {
            let health = match e.kind() {
                ErrorKind::ArchiveMissing => ArchiveHealth::Missing,
                ErrorKind::SchemaTooNew => ArchiveHealth::TooNew,
                ErrorKind::LockBusy => ArchiveHealth::Unknown,
                _ => ArchiveHealth::Unreadable,
            };
            return (health, CommitsHealth::Unknown);
        }
    };
    let commits = match coverage::tail(root) {
        Err(_) => CommitsHealth::Unknown,
        Ok(None) if head.commit == 0 => CommitsHealth::None,
        Ok(None) => CommitsHealth::LedgerBehind,
        Ok(Some(tail)) => {
            let (_, promised, promised_head) = tail.line.promise();
            match reader.holds_commit(promised, promised_head) {
                Ok(true) if head.commit > promised => CommitsHealth::LedgerBehind,
                Ok(true) => CommitsHealth::Equal,
                Ok(false) => CommitsHealth::Lost,
                Err(_) => CommitsHealth::Unknown,
            }
        }
    };
    (ArchiveHealth::Opens, commits)
}

/// The generation that `CURRENT` names, if it names one in the form that this program writes.
fn current(root: &Root) -> Result<Option<String>> {
    let bytes = root
        .read(layout::CURRENT, 256)
        .or_else(|e| match e.kind() {
            // A CURRENT that is no small file names nothing; the check says what it is.
            crate::error::ErrorKind::UnsafeTarget | crate::error::ErrorKind::Io => Ok(None),
            _ => Err::<Option<Vec<u8>>, Error>(e),
        })?;
    Ok(bytes
        .and_then(|b| String::from_utf8(b).ok())
        .map(|t| t.trim_end().to_owned())
        .filter(|id| {
            id.len() == 9 && id.starts_with('g') && id[1..].bytes().all(|b| b.is_ascii_digit())
        }))
}

fn mirror_format(text: &[u8]) -> MirrorHealth {
    let version = std::str::from_utf8(text)
        .ok()
        .and_then(|t| t.trim_end().strip_prefix("cass-mirror "))
        .and_then(|n| n.parse::<u32>().ok());
    match version {
        Some(1) => MirrorHealth::Present,
        Some(n) if n > 1 => MirrorHealth::TooNew,
        _ => MirrorHealth::Unreadable,
    }
}

impl Human for HealthBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        if b.archive == ArchiveHealth::Missing {
            page.anomaly(Mark::Error, "an archive was made here and is gone");
        }
        if b.archive == ArchiveHealth::Unreadable {
            page.anomaly(Mark::Error, "the archive can't be opened");
        }
        if b.commits == CommitsHealth::Lost {
            page.anomaly(Mark::Error, "the archive has lost commits");
        }
        if b.data_dir == DataDirState::Foreign {
            page.anomaly(Mark::Error, "the data directory belongs to another program");
        }
        if b.data_dir == DataDirState::Unreadable {
            page.anomaly(Mark::Warn, "the data directory can't be read");
        }
        match b.mirror {
            MirrorHealth::Missing => {
                page.anomaly(
                    Mark::Error,
                    "the mirror is gone: only the archive's rows are left",
                );
            }
            MirrorHealth::Unreadable => {
                page.anomaly(Mark::Error, "the mirror's FORMAT can't be read");
            }
            _ => {}
        }
        if b.config == ConfigHealth::Invalid {
            page.anomaly(
                Mark::Error,
                "config.toml can't be used: nothing is captured until it is corrected",
            );
        }
        page.fact(&format!(
            "archive   {}",
            b.generation.as_deref().unwrap_or("none")
        ));
        if let Some(o) = &b.owner {
            page.fact(&format!("writer    cass {} (pid {})", o.command, o.pid));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        use crate::report::envelope::Status;
        match r.status {
            Status::Ok => "Healthy, as far as this looks.".to_owned(),
            Status::Warn => {
                "Sources are captured, and no archive was made of them yet. Go on with:".to_owned()
            }
            Status::NotInitialized if r.body.archive == ArchiveHealth::Building => {
                "The first index is at work; nothing to do.".to_owned()
            }
            Status::Unknown if r.err.is_some() => "Not known: nothing could be read.".to_owned(),
            Status::NotInitialized => "Nothing was ever indexed here. Begin with:".to_owned(),
            Status::Unknown => "Not known; the check looks closer:".to_owned(),
            _ => "Not healthy; the check says more:".to_owned(),
        }
    }
}
