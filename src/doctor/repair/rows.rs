//! From which archives rows are taken for what the mirror can't give, and what is missing all the same.

use std::collections::BTreeMap;

use super::evidence::Evidence;
use super::gates;
use super::holders::Holder;
use super::ladder::Remedy;
use super::lost::{Sought, lost};
use super::planner::{SPARE, Site, Sketch};
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{AuthorityClass, Listed, Recipe, RowAuthority};
use crate::model::plural::count;
use crate::sources::reach::Reach;
use crate::store::named::NamedArchive;

/// What a candidate can be built from.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) site: &'a Site<'a>,
    /// The archive that was named.
    pub(super) from: Option<&'a NamedArchive>,
    /// What the mirror can give.
    pub(super) evidence: &'a Evidence,
    /// Every archive that may give rows.
    pub(super) all: &'a [&'a Holder],
}

impl Rows<'_> {
    /// Binds the plan to the files of the named archive.
    pub(super) fn take_named(&self, sketch: &mut Sketch) -> Result<()> {
        let Some(from) = self.from else {
            return Ok(());
        };
        let named = self.all.iter().find(|h| h.class == AuthorityClass::Named);
        let Some(named) = named.filter(|h| h.rows > 0) else {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "nothing in {} can be read as rows of an archive",
                    from.path.display()
                ),
            )
            .with_hint(
                "--from takes a data directory of cass or a database file of its archive.",
            ));
        };
        let kept = |h: &&&Holder| h.class != AuthorityClass::Named && h.files == named.files;
        if let Some(same) = self.all.iter().find(kept) {
            return Err(Error::new(
                ErrorKind::Usage,
                format!(
                    "{} has the very bytes of {}, which is here already",
                    from.path.display(),
                    same.name
                ),
            )
            .with_hint("Leave --from out: what is here is read anyway.")
            .with_hint_argv(["cass", "doctor", "repair"]));
        }
        sketch.body.inputs.extend(named.files.clone());
        Ok(())
    }

    /// The cheapest recipe that is sufficient.
    pub(super) fn choose(&self, mut sketch: Sketch) -> Result<Sketch> {
        let (site, evidence, all) = (self.site, self.evidence, self.all);
        let unpromised = site.is_unpromised();
        let Sketch {
            body,
            notes,
            gates,
            known,
            ..
        } = &mut sketch;
        let mirror_gives = site.given(evidence) > 0;
        let mut useful: Vec<&Holder> = all
            .iter()
            .copied()
            .filter(|h| {
                h.class == AuthorityClass::Named || unpromised || !evidence.unreadable.is_empty()
            })
            .filter(|h| h.rows > 0)
            .collect();
        // A record keeps the place that the first archive gives it: whole ones come first.
        useful.sort_by_key(|h| !h.is_whole);
        let mut missing = evidence.missing(&held(&useful, &evidence.touched));
        let archive_gives = useful.iter().any(|h| h.class == AuthorityClass::Archive);
        known.mirror = if evidence.mirror {
            "the mirror gives none of what was promised, and the archive no verified row".to_owned()
        } else {
            "there is no mirror, and the archive gives no verified row".to_owned()
        };
        known.backups = "there is no backup that verifies".to_owned();
        let sole = useful
            .iter()
            .filter(|h| h.class == AuthorityClass::Archive)
            .flat_map(|h| h.coverage.keys())
            .filter(|id| {
                evidence.touched.contains_key(*id)
                    && !all
                        .iter()
                        .filter(|h| h.class == AuthorityClass::Backup && !h.is_spare)
                        .any(|h| h.coverage.contains_key(*id))
            })
            .count() as u64;
        for holder in &useful {
            *notes
                .authorities
                .entry(word(holder.class).to_owned())
                .or_insert(0) += holder.coverage.len() as u64;
        }
        known.salvage = salvage(&useful, evidence.unreadable.len());
        let rows: Vec<RowAuthority> = useful.iter().map(|h| h.authority()).collect();
        let unreadable = evidence.names();
        notes.required_bytes = site.archive_bytes(body)?.max(evidence.mirror_bytes * 4) * 2 + SPARE;
        let whole = all
            .iter()
            .filter(|h| h.class == AuthorityClass::Backup && h.is_whole)
            .max_by_key(|h| (!h.is_spare, h.rows));
        let remedy = if mirror_gives || archive_gives || self.from.is_some() {
            Remedy::Candidate(Recipe::Rebuild {
                rows,
                unreadable: Listed::of(&unreadable),
            })
        } else if let Some(backup) = whole {
            Remedy::Candidate(Recipe::Restore {
                backup: backup.name.clone(),
                keep_newer: true,
                rows: rows.into_iter().filter(|r| r.name != backup.name).collect(),
                unreadable: Listed::of(&unreadable),
            })
        } else if all.iter().all(|h| h.rows == 0) {
            Remedy::Candidate(Recipe::Begin {
                unreadable: Listed::of(&unreadable),
            })
        } else if rows.is_empty() {
            Remedy::Nothing
        } else {
            Remedy::Candidate(Recipe::Rebuild {
                rows,
                unreadable: Listed::of(&unreadable),
            })
        };
        if remedy != Remedy::Nothing {
            let sought = Sought {
                root: site.root,
                from: self.from,
                evidence,
                rows: &useful,
                all: unpromised,
                reach: &Reach::of(site.env),
                watch: site.watch,
            };
            notes.lost = lost(&sought, &mut missing)?;
            gates.push(match remedy {
                Remedy::Candidate(Recipe::Begin { .. }) => {
                    gates::begin(&missing, evidence.captures)
                }
                _ => gates::coverage(&missing),
            });
            notes.accepted = evidence.lost_for_good(&missing);
            gates.extend(gates::damage(&notes.lost));
            gates.extend(gates::places(&notes.lost));
            gates.push(gates::sole(sole));
        }
        notes.sole_copies = sole;
        body.missing = Listed::of(&missing);
        notes.missing = missing;
        notes.unreadable = unreadable;
        sketch.remedy = remedy;
        Ok(sketch)
    }
}

/// How rows of the archive fill what the mirror can't give, or why they don't.
fn salvage(useful: &[&Holder], unreadable: usize) -> std::result::Result<String, String> {
    let gives = |h: &&&Holder| h.class == AuthorityClass::Archive || h.by_pages;
    let by_pages = useful.iter().filter(gives).any(|h| h.by_pages);
    let rows: u64 = useful.iter().filter(gives).map(|h| h.rows).sum();
    if rows > 0 {
        let how = if by_pages { ", page by page" } else { "" };
        return Ok(format!(
            "the mirror can't give {}; verified and salvaged{how}: {}",
            count(unreadable, "capture", "captures"),
            count(rows, "row", "rows")
        ));
    }
    Err(if unreadable == 0 {
        "the mirror gives everything that was promised".to_owned()
    } else {
        "no row of the damaged archive verifies".to_owned()
    })
}

fn word(class: AuthorityClass) -> &'static str {
    match class {
        AuthorityClass::Archive => "archive",
        AuthorityClass::Mirror => "mirror",
        AuthorityClass::Backup => "backup",
        AuthorityClass::Named => "named",
    }
}

/// How many records of each conversation the best of the holders has.
fn held<V>(holders: &[&Holder], of: &BTreeMap<String, V>) -> BTreeMap<String, u64> {
    let mut best: BTreeMap<String, u64> = BTreeMap::new();
    for holder in holders {
        for (id, count) in &holder.coverage {
            if of.contains_key(id) {
                let known = best.entry(id.clone()).or_insert(0);
                *known = (*known).max(*count);
            }
        }
    }
    best
}
