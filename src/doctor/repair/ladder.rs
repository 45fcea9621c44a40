//! The ladder: the cheapest rung that is sufficient, and for each other one why it is not taken.

use crate::model::plan::{Recipe, Rung};

/// What is done about the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Nothing: it is sound.
    None,
    /// Rung 0.
    RePoint,
    /// Rungs 1, 3, 4, 5 or 6.
    Candidate(Recipe),
    /// There is nothing to build from.
    Nothing,
}

impl Remedy {
    fn rung(&self, known: &Known) -> Option<u32> {
        match self {
            Remedy::None | Remedy::Nothing | Remedy::Candidate(Recipe::Migrate { .. }) => None,
            Remedy::RePoint => Some(0),
            Remedy::Candidate(Recipe::Recover { .. }) => Some(1),
            Remedy::Candidate(Recipe::Rebuild { .. }) if known.salvage.is_ok() => Some(3),
            Remedy::Candidate(Recipe::Rebuild { .. }) => Some(4),
            Remedy::Candidate(Recipe::Restore { .. }) => Some(5),
            Remedy::Candidate(Recipe::Begin { .. }) => Some(6),
        }
    }
}

/// What is known about each rung.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// Why rung 0 is not enough.
    pub re_point: String,
    /// Why rung 1 is not enough.
    pub recover: String,
    /// Whether derived data is made anew, and what of it.
    pub derived: Vec<String>,
    /// How rows fill what the mirror can't give, or why they are not needed.
    pub salvage: Result<String, String>,
    /// What the mirror lacks.
    pub mirror: String,
    /// What backups there are.
    pub backups: String,
}

impl Default for Known {
    fn default() -> Self {
        Known {
            re_point: String::new(),
            recover: String::new(),
            derived: Vec::new(),
            salvage: Err("the mirror gives everything that was promised".to_owned()),
            mirror: String::new(),
            backups: String::new(),
        }
    }
}

/// Every rung, with its reason.
pub(super) fn rungs(remedy: &Remedy, known: Known) -> Vec<Rung> {
    let taken = remedy.rung(&known);
    let (salvage, no_salvage) = match known.salvage {
        Ok(why) => (why, String::new()),
        Err(why) => (String::new(), why),
    };
    let rung = |rung: u32, why: &str, not: String| Rung {
        rung,
        taken: taken == Some(rung),
        reason: if taken == Some(rung) {
            why.to_owned()
        } else if taken.is_some_and(|t| t < rung) {
            "a cheaper rung is sufficient".to_owned()
        } else if *remedy == Remedy::None {
            "the archive is sound".to_owned()
        } else {
            not
        },
    };
    let derived = Rung {
        rung: 2,
        taken: !known.derived.is_empty(),
        reason: if known.derived.is_empty() {
            "derived data is as it should be, or is made again by the next index".to_owned()
        } else {
            known.derived.join("; ")
        },
    };
    vec![
        rung(
            0,
            "the generation of the ledger's last line is there and verifies",
            known.re_point,
        ),
        rung(
            1,
            "every row verifies; the commits that the WAL lost are read again from the mirror",
            known.recover,
        ),
        derived,
        rung(3, &salvage, no_salvage),
        rung(
            4,
            "the archive is made again from the mirror and, for what it lacks, rows that are kept elsewhere",
            known.mirror,
        ),
        rung(5, "a backup is all that can be read", known.backups),
        rung(
            6,
            "no row of the archive can be read anywhere: a new one is begun, and what was promised is \
             put on record as lost",
            "there is something to build from".to_owned(),
        ),
    ]
}
