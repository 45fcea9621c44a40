//! Plain data: identities, digests, findings. No input or output.

pub mod check;
pub mod conversation;
pub mod digest;
pub mod finding;
pub mod interrupt;
pub mod next;
pub mod note;
pub mod path;
pub mod plan;
pub mod plural;
pub mod progress;
pub mod provider;
pub mod record;
pub mod row;
pub mod scan;
pub mod source;
pub mod verdict;
pub mod watch;
