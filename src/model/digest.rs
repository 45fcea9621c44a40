//! BLAKE3 digests and the 256-bit sums made of them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A BLAKE3 digest: 32 bytes, written as 64 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Digest(*blake3::hash(bytes).as_bytes())
    }

    /// The 64 hex digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Digest(*hash.as_bytes())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_hex())
    }
}

/// A text that is not 64 lowercase hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a digest: expected 64 lowercase hex digits")]
pub struct ParseDigestError;

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if s.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(ParseDigestError);
        }
        blake3::Hash::from_hex(s)
            .map(Digest::from)
            .map_err(|_| ParseDigestError)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Digest".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

/// A sum of digests modulo 2^256: the digest of a multiset, independent of order. Adding an
/// element and removing it again gives the sum back.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct DigestSum {
    limbs: [u64; 4],
}

impl DigestSum {
    /// The sum of nothing.
    pub const ZERO: DigestSum = DigestSum { limbs: [0; 4] };

    /// Adds one digest, read as a little-endian 256-bit number.
    pub fn add(&mut self, digest: &Digest) {
        let mut carry = false;
        for (limb, bytes) in self.limbs.iter_mut().zip(digest.0.chunks_exact(8)) {
            let mut le = [0u8; 8];
            le.copy_from_slice(bytes);
            let (sum, c1) = limb.overflowing_add(u64::from_le_bytes(le));
            let (sum, c2) = sum.overflowing_add(u64::from(carry));
            *limb = sum;
            carry = c1 || c2;
        }
    }

    /// The sum as 32 little-endian bytes.
    #[must_use]
    pub fn to_digest(self) -> Digest {
        let mut out = [0u8; 32];
        for (slot, limb) in out.chunks_exact_mut(8).zip(self.limbs) {
            slot.copy_from_slice(&limb.to_le_bytes());
        }
        Digest(out)
    }

    /// The sum whose bytes are `digest`.
    #[must_use]
    pub fn from_digest(digest: &Digest) -> Self {
        let mut sum = DigestSum::ZERO;
        sum.add(digest);
        sum
    }
}

impl fmt::Debug for DigestSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sum:{}", self.to_digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_does_not_depend_on_order_and_carries_over_all_limbs() {
        let a = Digest([0xff; 32]);
        let mut one = [0u8; 32];
        one[0] = 1;
        let mut sum = DigestSum::from_digest(&a);
        sum.add(&Digest(one));
        assert_eq!(sum, DigestSum::ZERO);

        let (x, y) = (Digest::of(b"x"), Digest::of(b"y"));
        let mut xy = DigestSum::from_digest(&x);
        xy.add(&y);
        let mut yx = DigestSum::from_digest(&y);
        yx.add(&x);
        assert_eq!(xy, yx);
        assert_eq!(DigestSum::from_digest(&xy.to_digest()), xy);
    }

    #[test]
    fn hex_is_lowercase_only() {
        let d = Digest::of(b"cass");
        assert_eq!(d.to_hex().parse::<Digest>(), Ok(d));
        assert!(d.to_hex().to_uppercase().parse::<Digest>().is_err());
        assert!("abc".parse::<Digest>().is_err());
    }
}
