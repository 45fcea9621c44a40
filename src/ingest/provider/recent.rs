//! What the newest records of a log said, so that one that says it again is known as such.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::short;
use crate::model::digest::Digest;

/// How many are remembered.
const REMEMBERED: usize = 128;

/// Short hashes of what was said, with the offsets of the records that said it; the newest last.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Recent(VecDeque<(u64, u64)>);

impl Recent {
    /// The offset of the record that said it.
    pub(super) fn find(&self, said: &str) -> Option<u64> {
        let hash = short(&Digest::of(said.as_bytes()));
        let newest = self.0.iter().rev();
        newest.copied().find(|s| s.0 == hash).map(|s| s.1)
    }

    /// The same, the oldest first; what was found counts no longer.
    pub(super) fn take(&mut self, said: &str) -> Option<u64> {
        let hash = short(&Digest::of(said.as_bytes()));
        let at = self.0.iter().position(|s| s.0 == hash)?;
        self.0.remove(at).map(|s| s.1)
    }

    /// Remembers that the record at `offset` said it.
    pub(super) fn add(&mut self, said: &str, offset: u64) {
        if self.0.len() >= REMEMBERED {
            self.0.pop_front();
        }
        self.0
            .push_back((short(&Digest::of(said.as_bytes())), offset));
    }

    /// Whether nothing is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_found_and_may_be_taken_once() {
        let mut recent = Recent::default();
        assert!(recent.is_empty());
        recent.add("a", 1);
        recent.add("a", 2);
        assert_eq!(recent.find("a"), Some(2));
        assert_eq!(recent.take("a"), Some(1));
        assert_eq!(recent.take("a"), Some(2));
        assert_eq!(recent.take("a"), None);
        for n in 0..10_000 {
            recent.add(&n.to_string(), n);
        }
        assert_eq!(recent.find("0"), None);
        assert_eq!(recent.find("9999"), Some(9999));
    }
}
