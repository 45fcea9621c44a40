//! How far a long operation has come, told to whoever shows it.

/// Takes reports of progress, from any thread. Showing them must never fail the operation.
pub trait Progress: Sync {
    /// A new phase begins; `total` is the number of its steps, when known.
    fn phase(&self, name: &'static str, total: Option<u64>);
    /// `steps` more steps are done, with `bytes` more bytes.
    fn advance(&self, steps: u64, bytes: u64);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&self, _name: &'static str, _total: Option<u64>) {}
    fn advance(&self, _steps: u64, _bytes: u64) {}
}
