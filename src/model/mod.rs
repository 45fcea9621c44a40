//! Plain data: identities, digests, findings. No input or output.

pub mod conversation;
pub mod digest;
pub mod path;
pub mod provider;
pub mod record;
pub mod source;
