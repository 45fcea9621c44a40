//! The one door for writes. Nothing outside this module creates, changes, renames or removes a
//! file (SQLite's own files apart, which `store::sqlite` opens).
//!
//! Everything below the data directory is reached through one descriptor, part by part and
//! without following links, so a folder that is swapped for a link can't lead a write elsewhere.
//! Reading functions are open to all; writing functions need a [`Capture`], which only the holder
//! of the writer lock has.

mod append;
mod capture;
mod copy;
mod handout;
mod journal;
mod lock;
mod openers;
mod publish;
mod put_back;
mod room;
mod root;
mod session_file;
mod session_lock;

pub use append::AppendFile;
pub use capture::Capture;
pub use copy::Copied;
pub use handout::{HandOut, HandOutSet, is_folder};
pub use journal::Journal;
pub use lock::{ArchiveExclusive, ArchiveShared, LockOwner, WriterLock, writer_owner};
pub use openers::open_elsewhere;
pub use put_back::{PutBack, PutBackFile};
pub use room::is_full;
pub use root::{Entry, EntryKind, Root};
pub use session_file::SessionFile;
pub use session_lock::SessionLock;
