//! What is left of each conversation without the row that says where it belongs.

use std::collections::{BTreeMap, BTreeSet};

use super::Stray;
use crate::error::Result;
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::model::source::SourceKey;
use crate::store::archive::rescue::{RecordRow, Rescued};

/// What is counted of one conversation.
#[derive(Debug)]
pub(super) struct Left {
    pub records: u64,
    pub messages: u64,
    /// The first of what is left.
    pub first: Digest,
    /// Row ids of sources that its records were read from.
    pub sources: BTreeSet<i64>,
}

impl Left {
    fn beginning_with(first: Digest) -> Left {
        Left {
            records: 0,
            messages: 0,
            first,
            sources: BTreeSet::new(),
        }
    }
}

impl Rescued<'_> {
    /// Rows whose conversation's or record's row is lost, by conversation; records of the sources
    /// that are `wanted` and of those whose row is lost.
    ///
    /// # Errors
    /// `interrupted`, `io`.
    pub fn strays(
        &self,
        wanted: &dyn Fn(SourceKey) -> bool,
        interrupt: &Interrupt,
    ) -> Result<Vec<Stray>> {
        let left = self.left(wanted, interrupt)?;
        let made_up = self.made_up(&left)?;
        let stray = |(id, left): (&i64, &Left)| {
            let (known, is_made_up) = match self.conversations.get(id) {
                Some(known) => (known, false),
                None => (made_up.get(id)?, true),
            };
            Some(Stray::of(known, is_made_up, (left.records, left.messages)))
        };
        Ok(left.iter().filter_map(stray).collect())
    }

    /// By the conversation's row id.
    pub(super) fn left(
        &self,
        wanted: &dyn Fn(SourceKey) -> bool,
        interrupt: &Interrupt,
    ) -> Result<BTreeMap<i64, Left>> {
        let mut all: BTreeMap<i64, Left> = BTreeMap::new();
        self.records(0, &mut |r| {
            let source = self.sources.get(&r.source);
            if self.is_stray(&r)
                && !r.is_taken_back()
                && source.is_none_or(|s| wanted(s.source.key))
            {
                let left = all
                    .entry(r.conversation)
                    .or_insert_with(|| Left::beginning_with(r.hash));
                left.records += 1;
                left.sources.insert(r.source);
            }
            Ok(true)
        })?;
        self.orphans(interrupt, &mut |orphan| {
            let left = all
                .entry(orphan.conversation)
                .or_insert_with(|| Left::beginning_with(orphan.said.digest()));
            left.messages += 1;
            Ok(())
        })?;
        Ok(all)
    }

    /// Whether a record's conversation is told neither by its row nor by the indexes.
    pub(super) fn is_stray(&self, r: &RecordRow) -> bool {
        !r.is_run() && !self.conversations.contains_key(&r.conversation)
    }
}
