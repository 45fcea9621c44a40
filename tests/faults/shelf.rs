//! States that are prepared once for all tests that run at the same time.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::harness::Call;
use super::works::{Bench, Plan, changing};

/// Benches that are not in use, and the calls of their works: tests that run at the same time
/// prepare each state once. Emptied with the last of them.
#[derive(Default)]
pub struct Shelf {
    idle: Mutex<BTreeMap<Plan, Vec<Bench>>>,
    calls: Mutex<BTreeMap<Plan, Vec<Call>>>,
}

/// A bench in the state that its plan is for, until it goes back to the shelf.
pub struct Held {
    bench: Option<Bench>,
    shelf: Arc<Shelf>,
}

static SHELF: Mutex<Weak<Shelf>> = Mutex::new(Weak::new());

impl Shelf {
    pub fn shared() -> Arc<Shelf> {
        let mut shared = SHELF.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let shelf = Arc::new(Shelf::default());
            *shared = Arc::downgrade(&shelf);
            shelf
        })
    }

    pub fn take(self: &Arc<Shelf>, plan: Plan) -> Held {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = idle.get_mut(&plan).and_then(Vec::pop);
        drop(idle);
        let bench = ready.unwrap_or_else(|| Bench::new(plan));
        bench.put_back();
        Held {
            bench: Some(bench),
            shelf: Arc::clone(self),
        }
    }

    /// Every call of a plan's work that can change something; `None` where nothing can be traced.
    pub fn changes(self: &Arc<Shelf>, plan: Plan) -> Option<Vec<Call>> {
        Some(changing(self.calls(plan)?))
    }

    /// Every call of a plan's work.
    pub fn calls(self: &Arc<Shelf>, plan: Plan) -> Option<Vec<Call>> {
        let known = || self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = known().get(&plan) {
            return Some(calls.clone());
        }
        let bench = self.take(plan);
        let calls = bench.calls(bench.work())?;
        known().insert(plan, calls.clone());
        Some(calls)
    }
}

impl Deref for Held {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        self.bench.as_ref().expect("held until it is dropped")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut idle = self
            .shelf
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        idle.entry(self.plan).or_default().extend(self.bench.take());
    }
}
