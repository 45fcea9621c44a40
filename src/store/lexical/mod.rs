//! The lexical index: derived from the archive, in a database of its own under `derived/lexical/`.
//!
//! It holds no text: tokens, and beside them what filters need. Whatever happens to it, the archive
//! is whole, and `index` makes it again.

mod build;
mod cursor;
mod query;
mod schema;
mod search;
mod snippet;
mod state;
mod tokens;

pub use build::{Cause, Refreshed, refresh, renew};
pub use cursor::Cursor;
pub use query::Query;
pub use schema::Served;
pub use search::{Filter, LexicalReader, Page, RANKED, Ranking, Rule, SMALL, Scored};
pub use snippet::{Snippet, snippet};
pub use state::{Looked, State, Survey, look, look_until, verify};
pub use tokens::{Form, MAX_TEXT};
