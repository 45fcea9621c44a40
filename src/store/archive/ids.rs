//! Hashing of keys that are evenly spread already, or small and dense: one step instead of a
//! keyed hash.

use std::hash::{BuildHasherDefault, Hasher};

/// For maps whose keys are row ids or parts of digests.
pub(super) type ById = BuildHasherDefault<IdHasher>;

#[derive(Default, Clone, Copy)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.write_u64(u64::from(*b));
        }
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(26);
    }

    fn write_i64(&mut self, n: i64) {
        self.write_u64(n.cast_unsigned());
    }
}
