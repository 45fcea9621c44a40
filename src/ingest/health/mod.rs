//! What the index will make of a session file, said beforehand: every class of damage with its
//! place, and what the archive holds beyond the file. The file is read where it lies, by the parser
//! that the index uses, and nothing is written anywhere.

mod class;
mod find;
mod graph;
mod held;
mod observe;
mod read;
mod whose;

pub use class::{Anomaly, Class, HealthVerdict};
pub use find::{Found, Passed, find, gone};
pub use held::{Held, HeldState, held};
pub use observe::Told;
pub use read::{Health, Proof, examine};
pub use whose::{KnownBy, Surroundings, Whose};
