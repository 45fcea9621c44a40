//! What the coverage ledger promises of each conversation, by id, some thousand at a time: the
//! ledger is read once for each part, so that what is held never grows with it.

use std::collections::BTreeMap;

use crate::disk::Root;
use crate::error::Result;
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::model::source::SourceKey;
use crate::store::accepted::{Acceptance, Accepted};
use crate::store::coverage::{self, Line};

/// Conversations of one part.
const PART: usize = 4096;
/// Sources kept of a conversation that no archive row tells of.
const SOURCES: usize = 16;

/// The newest promise about one conversation.
#[derive(Debug, Clone, Default)]
pub(super) struct Promise {
    /// Records.
    pub(super) records: u64,
    /// Sum over them.
    pub(super) sum: Digest,
    /// The sources that brought them: the newest capture that was read, and how many records it and
    /// those before it brought. Only where it was asked for.
    pub(super) brought: Vec<(SourceKey, u64, u64)>,
}

/// The promises in the order of the conversations' ids.
pub(super) struct Promises<'a> {
    root: &'a Root,
    len: u64,
    interrupt: &'a Interrupt,
    with_sources: bool,
    part: std::collections::btree_map::IntoIter<String, Promise>,
    next: Option<(String, Promise)>,
    /// Whether the part that is read ends before the ledger's conversations do.
    cut: bool,
    /// Lines that can't be read.
    pub(super) damaged: u64,
    /// Losses that are no promise of the lines before.
    accepted: Vec<Acceptance>,
}

impl<'a> Promises<'a> {
    /// The promises in the first `len` bytes of the ledger.
    pub(super) fn new(
        root: &'a Root,
        len: u64,
        with_sources: bool,
        interrupt: &'a Interrupt,
    ) -> Result<Self> {
        let mut all = Promises {
            root,
            len,
            interrupt,
            with_sources,
            part: BTreeMap::new().into_iter(),
            next: None,
            cut: false,
            damaged: 0,
            accepted: Accepted::read(root)?.in_force,
        };
        all.load(None)?;
        Ok(all)
    }

    fn load(&mut self, after: Option<&str>) -> Result<()> {
        let mut part: BTreeMap<String, Promise> = BTreeMap::new();
        // Conversations from this id on are left for the next part.
        let mut end: Option<String> = None;
        let mut damaged = 0;
        let (with_sources, interrupt) = (self.with_sources, self.interrupt);
        let accepted = &self.accepted;
        coverage::for_each_linked_within(
            self.root,
            self.len,
            &mut |number, line, link| {
                if number % 256 == 0 {
                    interrupt.check()?;
                }
                let Line::Commit(line) = line else {
                    forget(accepted, link, &mut part);
                    return Ok(());
                };
                for (id, records, sum) in line.conversations {
                    if after.is_some_and(|after| id.as_str() <= after)
                        || end.as_ref().is_some_and(|end| id >= *end)
                    {
                        continue;
                    }
                    let promise = part.entry(id).or_default();
                    if with_sources {
                        let added = records.saturating_sub(promise.records);
                        bring(&mut promise.brought, &line.captures, added);
                    }
                    (promise.records, promise.sum) = (records, sum);
                    if part.len() > PART {
                        end = part.pop_last().map(|(id, _)| id);
                    }
                }
                forget(accepted, link, &mut part);
                Ok(())
            },
            &mut |_| {
                damaged += 1;
                Ok(())
            },
        )?;
        self.damaged = damaged;
        self.cut = end.is_some();
        self.part = part.into_iter();
        self.next = self.part.next();
        Ok(())
    }

    /// The id of the next promise.
    pub(super) fn peek(&self) -> Option<&str> {
        self.next.as_ref().map(|(id, _)| id.as_str())
    }

    /// The next promise.
    pub(super) fn take(&mut self) -> Result<Option<(String, Promise)>> {
        let Some(taken) = self.next.take() else {
            return Ok(None);
        };
        self.next = self.part.next();
        if self.next.is_none() && self.cut {
            self.load(Some(&taken.0))?;
        }
        Ok(Some(taken))
    }
}

/// Takes back what was accepted as lost behind this line.
fn forget(accepted: &[Acceptance], link: &str, part: &mut BTreeMap<String, Promise>) {
    for lost in accepted
        .iter()
        .filter(|a| a.link.as_deref() == Some(link))
        .flat_map(|a| &a.conversations)
    {
        if lost.held == 0 {
            part.remove(&lost.conversation);
        } else if let Some(promise) = part.get_mut(&lost.conversation) {
            (promise.records, promise.sum) = (lost.held, lost.sum);
        }
    }
}

fn bring(brought: &mut Vec<(SourceKey, u64, u64)>, captures: &[(SourceKey, u64)], added: u64) {
    // A commit reads one source.
    let Some((key, seq)) = captures.first() else {
        return;
    };
    if let Some(known) = brought.iter_mut().find(|(k, ..)| k == key) {
        known.1 = *seq;
        known.2 += added;
    } else if brought.len() < SOURCES {
        brought.push((*key, *seq, added));
    }
}
