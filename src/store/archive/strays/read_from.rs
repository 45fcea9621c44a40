//! Which sources a conversation was read from.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::model::conversation::ArchivedSource;
use crate::store::archive::rescue::{Rescued, TableTally};
use crate::store::archive::schema::COMMIT_CONVERSATIONS;

/// Row ids of sources, by the row id of the conversation that was read from them.
pub(super) type ReadFrom = BTreeMap<i64, BTreeSet<i64>>;

impl Rescued<'_> {
    /// The sources that conversations were read from, by public id; one of which a source can't be
    /// told is left out.
    ///
    /// # Errors
    /// `io`.
    pub fn sources_of(
        &self,
        wanted: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<ArchivedSource>>> {
        let wanted: BTreeMap<i64, &str> = self
            .conversations
            .iter()
            .map(|(id, known)| (*id, known.row.public.id.as_str()))
            .filter(|(_, public)| wanted.contains(*public))
            .collect();
        let is_wanted = |id: i64| wanted.contains_key(&id);
        let mut read_from = self.committed_from(&is_wanted)?;
        self.records(0, &mut |r| {
            if is_wanted(r.conversation) {
                let sources = read_from.entry(r.conversation).or_default();
                sources.insert(r.source);
            }
            Ok(true)
        })?;
        let source = |id: &i64| self.sources.get(id).map(|s| s.source.clone());
        Ok(read_from
            .iter()
            .filter_map(|(id, sources)| {
                let sources: Option<Vec<ArchivedSource>> = sources.iter().map(source).collect();
                Some(((*wanted.get(id)?).to_owned(), sources?))
            })
            .collect())
    }

    /// As the rows of the commits say.
    pub(super) fn committed_from(&self, wanted: &dyn Fn(i64) -> bool) -> Result<ReadFrom> {
        let mut read_from = ReadFrom::new();
        self.verified(
            &COMMIT_CONVERSATIONS,
            (i64::MIN, i64::MAX),
            &mut |c| {
                if let (Some(conversation), Some(source)) = (c.int(2), c.int(3))
                    && wanted(conversation)
                {
                    read_from.entry(conversation).or_default().insert(source);
                }
                Ok(true)
            },
            &mut TableTally::default(),
        )?;
        Ok(read_from)
    }
}
