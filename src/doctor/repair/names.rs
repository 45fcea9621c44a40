//! What harnesses call the conversations that a plan lists.

use std::collections::BTreeMap;

use crate::model::plan::{Lost, Missing};
use crate::model::provider::Provider;

/// By public id.
pub(super) type Names = BTreeMap<String, (Provider, String)>;

/// Gives each entry the name of its conversation, where it is known.
pub(super) fn give(names: &Names, missing: &mut [Missing], lost: &mut [Lost]) {
    let of = |id: &String| names.get(id).cloned().unzip();
    for m in missing {
        (m.provider, m.native_id) = of(&m.conversation);
    }
    for l in lost {
        (l.provider, l.native_id) = l.conversation.as_ref().map_or((None, None), of);
    }
}
