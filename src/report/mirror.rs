//! The documents of `mirror verify`, `mirror list` and `mirror get`.

use schemars::JsonSchema;
use serde::Serialize;

use super::check::MirrorBlock;
use super::envelope::{Body, OperationOutcome, OutcomeKind, Report, Site};
use crate::error::{Error, ErrorKind};
use crate::exit::ExitCodeKind;
use crate::model::interrupt::Signal;
use crate::model::next::{Next, NextId};
use crate::model::path::PathText;
use crate::model::provider::Provider;
use crate::model::verdict::MirrorState;

/// Whether the mirror keeps what its ledgers promise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MirrorVerifyBody {
    /// Whether every byte was read.
    pub deep: bool,
    /// The mirror.
    pub raw_mirror: MirrorBlock,
    /// Objects whose presence was verified.
    pub objects: u64,
    /// Stored bytes that were read and verified.
    pub verified_bytes: u64,
    /// Whether everything that was asked for was looked at.
    pub complete: bool,
    /// Problems, in the order of pack, position, source and capture; at most 20.
    pub problems: Vec<MirrorProblemEntry>,
    /// How many problems there are.
    pub problems_total: u64,
    /// How many of them are damage; the rest is what a crash leaves, and no loss.
    pub damage_total: u64,
    /// Whether `problems` leaves some out.
    pub problems_truncated: bool,
}

impl Body for MirrorVerifyBody {
    const NAME: &'static str = "mirror-verify";
}

/// How many problems a document lists.
pub const MAX_PROBLEMS: usize = 20;

/// One problem of the mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MirrorProblemEntry {
    /// What it is, kebab-case and stable.
    pub code: String,
    /// Whether it is damage; otherwise it is what a crash leaves, and no loss.
    pub damage: bool,
    /// Whether a capture is not readable because of it.
    pub loses_capture: bool,
    /// One sentence for people.
    pub message: String,
    /// File, relative to the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Position in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Digest of the object, hex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Source key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Number of the capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// The captures of one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MirrorListBody {
    /// The source.
    pub source: MirrorSource,
    /// Captures, the newest first.
    pub captures: Vec<CaptureEntry>,
    /// How many captures there are.
    pub total: u64,
    /// Whether `captures` leaves some out.
    pub truncated: bool,
    /// The command that shows all; null when this document does.
    pub detail_argv: Option<Vec<String>>,
}

impl Body for MirrorListBody {
    const NAME: &'static str = "mirror-list";
}

/// One source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MirrorSource {
    /// Source key.
    pub key: String,
    /// Machine it comes from.
    pub source_id: String,
    /// The harness.
    pub provider: Provider,
    /// Where it is or was.
    #[serde(flatten)]
    pub path: PathText,
}

/// One capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CaptureEntry {
    /// Its number.
    pub seq: u64,
    /// When it was captured, RFC 3339.
    pub at: Option<String>,
    /// Bytes.
    pub length: u64,
    /// BLAKE3 of the content, hex.
    pub blake3: String,
    /// Whether the source was still moving when it was read, or a file beside it could not be read.
    pub moving: bool,
    /// Files captured with it, by name (`-wal`, `-journal`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberEntry>,
}

/// A file captured with another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MemberEntry {
    /// What its name adds to that of the first file.
    pub name: String,
    /// Bytes.
    pub length: u64,
    /// BLAKE3 of the content, hex.
    pub blake3: String,
}

/// A capture that was handed out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MirrorGetBody {
    /// The source.
    pub source: MirrorSource,
    /// Number of the capture.
    pub seq: u64,
    /// The file of the group; null for the first.
    pub member: Option<String>,
    /// Where it was written.
    pub output: PathText,
    /// Bytes.
    pub bytes: u64,
    /// BLAKE3 of the content, hex; verified while it was written.
    pub blake3: String,
}

impl Body for MirrorGetBody {
    const NAME: &'static str = "mirror-get";
}

/// The document, from what was found and the signal that ended it early.
#[must_use]
pub fn mirror_verify_report(
    mut body: MirrorVerifyBody,
    interrupted: Option<Signal>,
    site: &Site,
) -> Report<MirrorVerifyBody> {
    let listed = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let damage = body.problems.iter().filter(|p| p.damage).count();
    body.damage_total = body.damage_total.max(listed(damage));
    body.problems_total = body.problems_total.max(listed(body.problems.len()));
    // What costs a capture comes first, so that a cut list still shows it.
    body.problems.sort_by_key(|p| {
        let place = (p.file.clone(), p.offset, p.source.clone(), p.seq);
        (
            !p.loses_capture,
            !p.damage,
            place,
            p.code.clone(),
            p.message.clone(),
        )
    });
    body.problems.truncate(MAX_PROBLEMS);
    body.problems_truncated = listed(body.problems.len()) < body.problems_total;
    for problem in &mut body.problems {
        problem.message = site.redact(&problem.message);
    }
    let lost = body.raw_mirror.status == MirrorState::Corrupt;
    let (damage, problems, deep) = (body.damage_total, body.problems_total, body.deep);
    let complete = body.complete;
    let mut report = Report::ok(body);
    if damage > 0 {
        let error = Error::new(
            ErrorKind::MirrorDamaged,
            if lost {
                "a captured version can't be read"
            } else {
                "the mirror is damaged; no captured version is known to be lost"
            },
        )
        .with_hint("Sources that still exist heal it: index them again, then verify again.")
        .with_hint_argv(Next::IndexFull.argv())
        .with_context("damage", damage.to_string());
        return report
            .recommending(&[Next::IndexFull, Next::CheckDeep], site)
            .failing_keeping_next(&error, site);
    }
    if !complete {
        let ended = interrupted.unwrap_or(Signal::Int).error();
        return report.failing(&ended, false, site);
    }
    if problems > 0 {
        report.operation_outcome =
            OperationOutcome::new(OutcomeKind::OkReadOnlyDiagnosed, ExitCodeKind::Success);
        report = report.recommending(&[Next::Index], site);
    } else if !deep {
        report = report.recommending(&[Next::MirrorVerifyDeep], site);
        // Worth running one day, and nothing that has to be done.
        report.recommended_action = NextId::None;
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::check::MirrorBlock;
    use crate::report::envelope::Status;

    fn body(problems: Vec<MirrorProblemEntry>, complete: bool) -> MirrorVerifyBody {
        MirrorVerifyBody {
            deep: true,
            raw_mirror: MirrorBlock {
                status: MirrorState::Ok,
                sources: Some(1),
                captures: Some(1),
                packs: Some(1),
                stored_bytes: None,
                last_verified: None,
            },
            objects: 1,
            verified_bytes: 1,
            complete,
            problems,
            problems_total: 0,
            damage_total: 0,
            problems_truncated: false,
        }
    }

    fn problem(damage: bool, loses_capture: bool) -> MirrorProblemEntry {
        MirrorProblemEntry {
            code: "x".to_owned(),
            damage,
            loses_capture,
            message: String::new(),
            file: None,
            offset: None,
            object: None,
            source: None,
            seq: None,
        }
    }

    #[test]
    fn damage_exits_23_and_what_a_crash_leaves_exits_0() {
        let exit = |b| {
            mirror_verify_report(b, None, &Site::plain())
                .operation_outcome
                .exit_code
        };
        assert_eq!(exit(body(vec![], true)), 0);
        assert_eq!(exit(body(vec![problem(false, false)], true)), 0);
        assert_eq!(exit(body(vec![problem(true, false)], true)), 23);
        assert_eq!(exit(body(vec![problem(true, true)], false)), 23);
    }

    #[test]
    fn an_early_end_is_never_a_clean_mirror() {
        let r = mirror_verify_report(body(vec![], false), Some(Signal::Term), &Site::plain());
        assert_eq!(
            (r.status, r.operation_outcome.exit_code),
            (Status::Error, 143)
        );
    }

    #[test]
    fn lost_captures_are_listed_before_all_others() {
        let mut all: Vec<_> = (0..100).map(|_| problem(true, false)).collect();
        all.push(problem(true, true));
        let r = mirror_verify_report(body(all, true), None, &Site::plain());
        assert!(r.body.problems[0].loses_capture);
        assert_eq!(
            (r.body.problems.len(), r.body.problems_total),
            (MAX_PROBLEMS, 101)
        );
        assert!(r.body.problems_truncated);
    }
}
