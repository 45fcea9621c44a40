//! Ids of conversations: derived from what the harness says, never from row numbers.

use crate::model::digest::Digest;
use crate::model::path::hex;
use crate::model::provider::Provider;

/// The id of the conversation that `provider` on machine `source_id` calls `native_id`.
#[must_use]
pub fn conversation_id(source_id: &str, provider: Provider, native_id: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(source_id.as_bytes());
    hasher.update(&[0]);
    hasher.update(provider.as_str().as_bytes());
    hasher.update(&[0]);
    hasher.update(native_id.as_bytes());
    short(&hasher)
}

/// The id of a branch: its parent's id, the last record that both share, and the hash of its first
/// own record.
pub(super) fn branch_id(parent: &str, at: Option<&Digest>, first: &Digest) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"branch\0");
    hasher.update(parent.as_bytes());
    hasher.update(&at.map_or([0; 32], |d| d.0));
    hasher.update(&first.0);
    short(&hasher)
}

fn short(hasher: &blake3::Hasher) -> String {
    hex(&hasher.finalize().as_bytes()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_id_cannot_be_shifted_into_each_other() {
        let a = conversation_id("local", Provider::Claude, "x");
        assert_eq!(a.len(), 32);
        assert_ne!(a, conversation_id("local", Provider::Codex, "x"));
        assert_ne!(a, conversation_id("other", Provider::Claude, "x"));
        assert_ne!(
            branch_id(&a, None, &Digest::of(b"1")),
            branch_id(&a, None, &Digest::of(b"2"))
        );
        assert_ne!(
            branch_id(&a, Some(&Digest::of(b"0")), &Digest::of(b"1")),
            branch_id(&a, None, &Digest::of(b"1"))
        );
    }
}
