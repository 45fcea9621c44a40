//! Conversations that are made up for what is left of those whose row is lost.

use std::collections::BTreeMap;

use super::left::Left;
use crate::error::Result;
use crate::model::path::hex;
use crate::model::provider::Provider;
use crate::store::archive::identity;
use crate::store::archive::rescue::{Known, Rescued};
use crate::store::archive::state::ConversationRow;

/// What the native id of such a conversation begins with; its row id and the first of what is left
/// follow.
pub(super) const MADE_UP: &str = "unknown/conversation-";
/// The machine where nothing tells it.
const NO_MACHINE: &str = "unknown";

impl Rescued<'_> {
    /// One for each that no row names, by its row id. Two archives may have lost one of the same row
    /// id: the first of what is left tells them apart.
    pub(super) fn made_up(&self, left: &BTreeMap<i64, Left>) -> Result<BTreeMap<i64, Known>> {
        let is_unknown = |id: i64| left.contains_key(&id) && !self.conversations.contains_key(&id);
        if !left.keys().any(|id| is_unknown(*id)) {
            return Ok(BTreeMap::new());
        }
        let committed = self.committed_from(&is_unknown)?;
        let machines = self.machines()?;
        let mut made_up = BTreeMap::new();
        for (id, left) in left.iter().filter(|(id, _)| is_unknown(**id)) {
            let committed = committed.get(id).into_iter().flatten();
            let machine = left
                .sources
                .iter()
                .chain(committed)
                .find_map(|s| machines.get(s));
            let (source_id, provider) = match machine {
                Some((source_id, provider)) => (source_id.as_str(), *provider),
                None => (NO_MACHINE, Provider::Unknown),
            };
            let first = hex(&left.first.0[..6]);
            let native = format!("{MADE_UP}{id}-{first}");
            let public = identity::conversation_id(source_id, provider, &native);
            made_up.insert(
                *id,
                Known {
                    row: ConversationRow::bare(*id, public, source_id, provider, native),
                    verified: false,
                },
            );
        }
        Ok(made_up)
    }

    /// Machine and harness of each source, by its row id: by its own row, else by a conversation in
    /// it, since all that are in one source are of one harness.
    fn machines(&self) -> Result<BTreeMap<i64, (String, Provider)>> {
        let mut machines: BTreeMap<i64, (String, Provider)> = self
            .sources
            .iter()
            .map(|(id, s)| (*id, (s.source.source_id.clone(), s.source.provider)))
            .collect();
        self.records(0, &mut |r| {
            if let Some(known) = self.conversations.get(&r.conversation) {
                let c = &known.row.public;
                machines
                    .entry(r.source)
                    .or_insert_with(|| (c.source_id.clone(), c.provider));
            }
            Ok(true)
        })?;
        Ok(machines)
    }
}
