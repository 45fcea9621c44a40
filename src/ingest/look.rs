//! What lies in the roots now, looked at by a thread of its own: the walk and the mirror's heads
//! are the two long parts of a run that finds nothing new, and neither needs the other.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::env::Env;
use crate::error::Result;
use crate::ingest::group;
use crate::ingest::read::RACY_NS;
use crate::model::provider::Provider;
use crate::sources::config::Config;
use crate::sources::database::is_database_name;
use crate::sources::file::Stat;
use crate::sources::roots::{ProviderRoot, roots};
use crate::sources::walk::{FoundFile, Met, RootState, walk};
use crate::store::mirror::StatGate;

/// Things handed over at once, and hand-overs in flight: bounds the memory between the threads,
/// and lets a walk of many thousand files end before anybody listens.
const BATCH: usize = 256;
const IN_FLIGHT: usize = 128;

/// One thing that the walk met, in its order.
#[derive(Debug)]
pub enum Look {
    /// A file with its gate of that moment, or why there is none.
    File(FoundFile, Result<StatGate>),
    /// Something else.
    Odd(Provider, Met),
    /// The end of a root.
    End(ProviderRoot, RootState),
}

/// A walk that is under way.
#[derive(Debug)]
pub struct Looks {
    /// The roots that are walked, in order.
    pub roots: Vec<ProviderRoot>,
    receive: Receiver<Vec<Look>>,
}

impl Looks {
    /// Begins the walk. It ends with `scope`; if nobody listens any more, for nothing.
    pub fn begin<'scope, 'e>(
        scope: &'scope std::thread::Scope<'scope, 'e>,
        env: &'e Env,
        config: &'e Config,
    ) -> Looks {
        let roots = roots(env, config);
        let (send, receive) = bounded(IN_FLIGHT);
        let mine = roots.clone();
        scope.spawn(move || look(mine, env, config, &send));
        Looks { roots, receive }
    }

    /// Hands over what the walk meets, to its end.
    pub fn for_each(self, each: &mut dyn FnMut(Look)) {
        self.receive.into_iter().flatten().for_each(each);
    }
}

fn look(roots: Vec<ProviderRoot>, env: &Env, config: &Config, send: &Sender<Vec<Look>>) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut hand_over = |look: Look| {
        batch.push(look);
        let last = matches!(batch.last(), Some(Look::End(..)));
        if last || batch.len() == BATCH {
            // Nobody listens when the run failed; it says why itself.
            let _ = send.send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH)));
        }
    };
    for root in roots {
        let state = walk(&root, config, &mut |met| {
            hand_over(match met {
                Met::File(found) => {
                    let gate = gate(&found, env);
                    Look::File(found, gate)
                }
                odd @ Met::Odd { .. } => Look::Odd(root.provider, odd),
            });
        });
        hand_over(Look::End(root, state));
    }
}

fn gate(found: &FoundFile, env: &Env) -> Result<StatGate> {
    // By the clock of now: the walk itself may take longer than a tick.
    let mut gate = gate_of(found.stat, env.now_ms());
    if is_database_name(&found.path) {
        gate.extra = group::members_gate(found)?;
    }
    Ok(gate)
}

/// The gate of a source as it looked at `now_ms`. One that changed shortly before may change again
/// within the same tick of the file system's clock; its gate is not trusted once.
#[must_use]
pub fn gate_of(stat: Stat, now_ms: i64) -> StatGate {
    let racy = now_ms
        .saturating_mul(1_000_000)
        .saturating_sub(stat.mtime_ns)
        < RACY_NS
        && stat.mtime_ns <= now_ms.saturating_mul(1_000_000);
    StatGate {
        dev: stat.dev,
        ino: stat.ino,
        size: stat.size,
        mtime_ns: stat.mtime_ns,
        extra: if racy {
            "racy".to_owned()
        } else {
            String::new()
        },
    }
}
