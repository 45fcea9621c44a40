//! Going through a session as people read it: its messages in order, and between them the places
//! where its files are damaged.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::model::conversation::{ArchivedMessage, ArchivedSkip, Conversation};
use crate::model::interrupt::Interrupt;
use crate::model::path::PathText;
use crate::model::source::SourceKey;
use crate::report::view::ViewDamage;
use crate::store::archive::ArchiveReader;

/// Places of damage that are kept in mind; the others are counted.
const MAX_DAMAGE: usize = 100;

/// Which messages are wanted.
#[derive(Debug, Clone, Copy)]
pub struct Selection {
    /// Number of the first, from 1.
    pub from: u64,
    /// How many at most.
    pub count: u64,
    /// Superseded versions too.
    pub all: bool,
}

impl Selection {
    /// Every message that was not superseded.
    pub const WHOLE: Selection = Selection {
        from: 1,
        count: u64::MAX,
        all: false,
    };
}

/// What is met on the way.
#[derive(Debug)]
pub enum Item {
    /// A message with its number.
    Message(u64, Box<ArchivedMessage>),
    /// Bytes that no parser could read.
    Damage(ViewDamage),
}

/// What was met in all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages that can be read.
    pub messages: u64,
    /// Number of the first message behind what was taken.
    pub next: Option<u64>,
    /// Places of damage.
    pub damage: u64,
}

/// One place of damage, before it is known what follows it.
struct Spot {
    key: SourceKey,
    path: PathBuf,
    skip: ArchivedSkip,
}

impl Spot {
    fn before(self, number: Option<u64>) -> ViewDamage {
        ViewDamage {
            before: number,
            key: self.key.to_string(),
            path: PathText::new(&self.path),
            line: self.skip.line,
            offset: self.skip.span.offset,
            len: self.skip.span.len,
            reason: self.skip.reason,
        }
    }
}

/// Goes through the selected part. `f` says whether it took what it was given; from the first
/// message on that it did not take, the rest is only counted.
///
/// # Errors
/// `archive-corrupt`, `io`, `interrupted` or `terminated`, and whatever `f` returns.
pub fn read(
    interrupt: &Interrupt,
    archive: &ArchiveReader,
    session: &Conversation,
    selection: Selection,
    f: &mut dyn FnMut(Item) -> Result<bool>,
) -> Result<Totals> {
    let (mut spots, damage) = damage(archive, session)?;
    let mut totals = Totals {
        damage,
        ..Totals::default()
    };
    let behind = selection.from.saturating_add(selection.count);
    archive.reading(session, &mut |place| {
        interrupt.check()?;
        if place.superseded && !selection.all {
            return Ok(());
        }
        totals.messages += 1;
        let number = totals.messages;
        if totals.next.is_some() {
            return Ok(());
        }
        if number >= behind {
            totals.next = Some(number);
            return Ok(());
        }
        let wanted = number >= selection.from;
        if let Some(of_source) = spots.get_mut(&place.source) {
            // The last is the one that comes first.
            while let Some(spot) = of_source.pop_if(|s| s.skip.span.offset < place.offset) {
                if wanted {
                    f(Item::Damage(spot.before(Some(number))))?;
                }
            }
        }
        if wanted {
            let message = Box::new(archive.message_at(place)?);
            if !f(Item::Message(number, message))? {
                totals.next = Some(number);
            }
        }
        Ok(())
    })?;
    if totals.next.is_none() {
        let mut rest: Vec<Spot> = spots.into_values().flatten().collect();
        rest.sort_by(|a, b| (&a.path, a.skip.span.offset).cmp(&(&b.path, b.skip.span.offset)));
        for spot in rest {
            f(Item::Damage(spot.before(None)))?;
        }
    }
    Ok(totals)
}

/// The numbers of messages, given by their rows, among those that were not superseded; ends with the
/// last of them. A row that is not read has none.
///
/// # Errors
/// `archive-corrupt`, `io`, `interrupted` or `terminated`.
pub fn numbers(
    interrupt: &Interrupt,
    archive: &ArchiveReader,
    session: &Conversation,
    rows: &BTreeSet<i64>,
) -> Result<BTreeMap<i64, u64>> {
    let (mut found, mut number) = (BTreeMap::new(), 0);
    let walked = archive.reading(session, &mut |place| {
        interrupt.check()?;
        if !place.superseded {
            number += 1;
            if rows.contains(&place.row) {
                found.insert(place.row, number);
            }
        }
        if found.len() < rows.len() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Internal, "the rest is not wanted"))
    });
    match walked {
        Err(e) if found.len() < rows.len() => Err(e),
        _ => Ok(found),
    }
}

/// The damage in the session's files, by the row of the source, the last first; and how many
/// places there are.
fn damage(
    archive: &ArchiveReader,
    session: &Conversation,
) -> Result<(HashMap<i64, Vec<Spot>>, u64)> {
    let mut spots: HashMap<i64, Vec<Spot>> = HashMap::new();
    let (mut kept, mut total) = (0, 0);
    for source in archive.sources_of(&session.id)? {
        if source.accounting.skip_count == 0 && source.accounting.tail.is_none() {
            continue;
        }
        let Some(row) = archive.source_row(source.key)? else {
            continue;
        };
        archive.skips(source.key, &mut |skip| {
            // Places in a version that was rewritten since would point to other bytes.
            if skip.epoch != source.epoch {
                return Ok(());
            }
            total += 1;
            if kept < MAX_DAMAGE {
                kept += 1;
                spots.entry(row).or_default().push(Spot {
                    key: source.key,
                    path: source.path.clone(),
                    skip,
                });
            }
            Ok(())
        })?;
    }
    for list in spots.values_mut() {
        list.sort_by_key(|s| std::cmp::Reverse(s.skip.span.offset));
    }
    Ok((spots, total))
}
