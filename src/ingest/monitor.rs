//! How long work tells how far it is, and hears that it should stop.

/// A stage of an index run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Looking for sources.
    Discover,
    /// Copying raw bytes into the mirror.
    Capture,
    /// Reading captures into the archive.
    Parse,
}

impl Stage {
    /// The word shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::Discover => "discover",
            Stage::Capture => "capture",
            Stage::Parse => "parse",
        }
    }
}

/// How far a stage is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The stage.
    pub stage: Stage,
    /// Sources done.
    pub done: u64,
    /// Sources in all.
    pub total: u64,
    /// Bytes done.
    pub bytes: u64,
    /// Bytes in all.
    pub bytes_total: u64,
}

/// Told of progress, asked whether to stop. Called often; must be cheap.
pub trait Monitor {
    /// How far the work is.
    fn progress(&mut self, _progress: Progress) {}
    /// Whether the work should end at the next safe point.
    fn stop(&mut self) -> bool {
        false
    }
}

/// Watches nothing.
#[derive(Debug, Default)]
pub struct Quiet;

impl Monitor for Quiet {}
