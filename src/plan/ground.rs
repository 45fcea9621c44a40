//! What a planner may look at.

use crate::disk::Root;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::model::plan::{Body, Draft, PlanKind};
use crate::model::watch::Watch;
use crate::plan::fingerprint::Fingerprint;
use crate::store::generation;
use crate::store::layout;
use crate::store::run::{self, RunStatus};

/// The state that is planned for: reading is all that it can be used for.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'a> {
    env: &'a Env,
    root: Option<&'a Root>,
    watch: Watch<'a>,
}

impl<'a> Ground<'a> {
    /// Opens the data directory, if there is one.
    ///
    /// # Errors
    /// `permission-denied`, `unsafe-target`, `io`.
    pub(super) fn open(env: &'a Env, watch: Watch<'a>) -> Result<OpenGround<'a>> {
        Ok(OpenGround {
            env,
            root: Root::open(env.data_dir())?,
            watch,
        })
    }

    /// The ground where there is no data directory.
    pub(super) fn nowhere(env: &'a Env, watch: Watch<'a>) -> Self {
        Ground {
            env,
            root: None,
            watch,
        }
    }

    /// The ground under the writer lock.
    pub(super) fn under(env: &'a Env, root: &'a Root, watch: Watch<'a>) -> Self {
        Ground {
            env,
            root: Some(root),
            watch,
        }
    }

    /// Clock, folders, variables.
    #[must_use]
    pub fn env(&self) -> &'a Env {
        self.env
    }

    /// The data directory; `None` when there is none.
    #[must_use]
    pub fn root(&self) -> Option<&'a Root> {
        self.root
    }

    /// Whether exactly this plan was applied once, be it undone since.
    ///
    /// # Errors
    /// `permission-denied`, `io`.
    pub fn was_applied(&self, body: &Body) -> Result<bool> {
        let Some(root) = self.root else {
            return Ok(false);
        };
        let fingerprint = Fingerprint::of(body)?;
        Ok(run::receipts(root)?
            .into_iter()
            .filter_map(|(_, receipt)| receipt)
            .any(|r| r.status == RunStatus::Applied && r.fingerprint == fingerprint.as_str()))
    }

    /// Who is told of progress and who may end it.
    #[must_use]
    pub fn watch(&self) -> Watch<'a> {
        self.watch
    }
}

/// Refuses a data directory of another program, and one in which something has the place of a
/// folder: what should lie there is neither read nor can anything be put there, so that no plan
/// could be trusted.
pub(super) fn refuse_unsafe(root: &Root) -> Result<()> {
    match generation::locate(root) {
        Err(e) if e.kind() == ErrorKind::ForeignArchive => return Err(e),
        _ => {}
    }
    layout::FOLDERS
        .iter()
        .try_for_each(|folder| root.require_folder(folder))
}

/// Where nothing was ever made, nothing can be applied.
pub(super) fn nothing_there(env: &Env) -> Error {
    Error::new(
        ErrorKind::NotInitialized,
        format!("there is nothing in {}", env.data_dir().display()),
    )
    .with_hint("Name the data directory with --data-dir if it lies elsewhere, or begin one:")
    .with_hint_argv(["cass", "index"])
}

/// The ground of a dry run, which owns its data directory.
#[derive(Debug)]
pub(super) struct OpenGround<'a> {
    env: &'a Env,
    root: Option<Root>,
    watch: Watch<'a>,
}

impl OpenGround<'_> {
    pub(super) fn ground(&self) -> Ground<'_> {
        Ground {
            env: self.env,
            root: self.root.as_ref(),
            watch: self.watch,
        }
    }
}

/// Says what one command would do. It looks and never writes, and it says the same of the same
/// state, whoever asks, whenever and wherever.
pub trait Planner {
    /// Which command it plans for.
    fn kind(&self) -> PlanKind;

    /// Whether the plan stands without a data directory, which is made when it is applied.
    fn begins(&self) -> bool {
        false
    }

    /// The plan for the state as it is.
    ///
    /// # Errors
    /// When the state can't be planned for: a foreign or newer archive, nothing of that name, a
    /// file that can't be read.
    fn plan(&self, ground: &Ground<'_>) -> Result<Draft>;
}
