//! Who is told how far a run is, and who may end it.

use crate::model::interrupt::Interrupt;
use crate::model::progress::Progress;

/// What a long run reports to and listens to.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Told of every step.
    pub progress: &'a dyn Progress,
    /// Asked between steps whether to end.
    pub interrupt: &'a Interrupt,
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("interrupt", self.interrupt)
            .finish_non_exhaustive()
    }
}
