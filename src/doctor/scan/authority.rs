//! What would be believed, and why the others would not: verified readability first, then class.

use crate::model::scan::{ScanPart, Verdict};
use crate::model::verdict::AuthorityLevel;

use super::Scanned;
use super::state::{ArchiveSeen, MirrorSeen};

/// One candidate of the ladder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What it is.
    pub authority: &'static str,
    /// What it would be believed as.
    pub level: AuthorityLevel,
    /// Whether it is taken.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
}

/// Of a holder that may be whole.
const CUT_OFF: &str = "not looked at to its end";

/// The ladder, the best first.
pub(super) fn ladder(s: &Scanned) -> Vec<Candidate> {
    let mut out = Vec::new();
    let mut put = |authority, level, usable: Result<String, String>| {
        let taken = out
            .iter()
            .any(|c: &Candidate| c.verdict == Verdict::Selected);
        let (verdict, reason) = match usable {
            Ok(_) if s.stopped.is_some() => (Verdict::Rejected, CUT_OFF.to_owned()),
            Ok(why) if !taken => (Verdict::Selected, why),
            Ok(why) => (Verdict::Available, why),
            Err(why) => (Verdict::Rejected, why),
        };
        out.push(Candidate {
            authority,
            level,
            verdict,
            reason,
        });
    };
    let t = &s.totals;
    put(
        "archive",
        AuthorityLevel::VerifiedArchive,
        match &s.archive {
            ArchiveSeen::Never => Err("no archive was ever made here".to_owned()),
            ArchiveSeen::Lost(why) | ArchiveSeen::Unknown(why) => Err(why.clone()),
            ArchiveSeen::Open {
                disagrees: Some(why),
            } => Err(why.clone()),
            ArchiveSeen::Open { .. } if t.archive_complete < t.conversations => Err(format!(
                "it lacks promised records of {} of {} sessions",
                t.conversations - t.archive_complete,
                t.conversations
            )),
            ArchiveSeen::Open { .. } => Ok(
                "it opens, and every session has the records that the coverage ledger promises"
                    .to_owned(),
            ),
        },
    );
    put(
        "mirror",
        AuthorityLevel::VerifiedMirror,
        match &s.mirror {
            MirrorSeen::Never => Err("nothing was ever captured here".to_owned()),
            MirrorSeen::Gone => Err("the mirror that the archive was read from is gone".to_owned()),
            MirrorSeen::Unknown(why) => Err(why.clone()),
            MirrorSeen::Open if s.unfinished.contains(&ScanPart::KnownSources) => {
                Err(CUT_OFF.to_owned())
            }
            MirrorSeen::Open if s.captured == 0 => Err("it holds no capture".to_owned()),
            MirrorSeen::Open if s.captures_unreadable >= s.captured => {
                Err("no newest capture of it can be read".to_owned())
            }
            MirrorSeen::Open if s.captures_unreadable > 0 => Ok(format!(
                "readable in part: {} of {} newest captures can't be read",
                s.captures_unreadable, s.captured
            )),
            MirrorSeen::Open if s.deep => {
                Ok("every newest capture was read and verified".to_owned())
            }
            MirrorSeen::Open => Ok(
                "every newest capture has its ledger line and all of its objects in place"
                    .to_owned(),
            ),
        },
    );
    put("backup", AuthorityLevel::VerifiedBackup, s.kept.verdict());
    put(
        "salvage",
        AuthorityLevel::Salvage,
        match &s.archive {
            ArchiveSeen::Open { disagrees: Some(_) } => {
                Ok("rows of the archive can be read one by one".to_owned())
            }
            ArchiveSeen::Open { .. } if t.archive_complete < t.conversations => {
                Ok("rows of the archive can be read one by one".to_owned())
            }
            ArchiveSeen::Open { .. } if s.stopped.is_some() => Err(CUT_OFF.to_owned()),
            ArchiveSeen::Open { .. } => Err("the archive is whole: nothing to salvage".to_owned()),
            ArchiveSeen::Lost(_) if s.kept.database => Ok(
                "a repair reads what still verifies of its rows, one by one; how many that are was \
                 not counted here"
                    .to_owned(),
            ),
            ArchiveSeen::Lost(_) => Err("there is no database file to read rows from".to_owned()),
            ArchiveSeen::Unknown(_) => Err("the archive could not be looked at".to_owned()),
            ArchiveSeen::Never => Err("no archive was ever made here".to_owned()),
        },
    );
    put(
        "live-source",
        AuthorityLevel::LiveSource,
        if s.visible.0 == 0 && s.unfinished.contains(&ScanPart::KnownSources) {
            Err(CUT_OFF.to_owned())
        } else if s.visible.0 == 0 {
            Err("no source is there".to_owned())
        } else {
            Ok(format!(
                "{} files are there; they are captured before anything is made of them",
                s.visible.0
            ))
        },
    );
    put(
        "remote-copy",
        AuthorityLevel::RemoteCopy,
        Err("no other machine is set up".to_owned()),
    );
    for authority in ["derived", "support-bundle"] {
        put(
            authority,
            AuthorityLevel::None,
            Err("made from the others: never believed".to_owned()),
        );
    }
    out
}
