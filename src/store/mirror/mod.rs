//! The raw mirror: every captured byte, as it was, in append-only files.
//!
//! ```text
//! raw-mirror/FORMAT              "cass-mirror 1\n"
//! raw-mirror/packs/<n>.pack      objects (chunks and recipes) in batches, appended     (record, pack)
//! raw-mirror/sources/<key>.jsonl one line a capture, hash-chained; the promises        (ledger)
//! raw-mirror/index/mirror.db     derived: where objects lie, what each source's head is (index)
//! ```
//!
//! An object is named by the BLAKE3 of its plain bytes. A recipe (an object too) says from which
//! pieces of which objects a content is made. A ledger line names a recipe, so it promises a
//! content. Order of a batch: records and commit record, sync of the pack; ledger lines, sync of
//! each ledger; derived index. A promise is therefore never durable before what it promises.
//!
//! Writing is the [`MirrorWriter`]'s, which lives under the writer lock. Reading without a trace
//! is the [`MirrorReader`]'s; never open one in a process that has a writer open: the writer hands
//! out contents itself.

mod build;
mod chunk;
mod content;
mod index;
mod ledger;
mod pack;
mod prefix;
mod reader;
mod recipe;
mod record;
mod recover;
mod store;
mod survey;
mod types;
mod verify;
mod writer;

pub use content::ContentReader;
pub use prefix::begins_with;
pub use reader::MirrorReader;
pub use survey::refuse_newer;
pub use types::{
    Added, CaptureLine, CaptureMeta, GroupMember, Head, MirrorProblem, ProblemKind, Shape,
    SourceIdent, StatGate, VerifySummary,
};
pub use writer::{MirrorWriter, PREPARE_LIMIT, Prepared};

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // they damage files on purpose
mod tests;
