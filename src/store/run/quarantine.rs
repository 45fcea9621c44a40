//! The quarantine: what runs put aside, under the paths that it had, so that each move can be taken
//! back.

use super::RunId;
use super::receipt::Moved;
use crate::disk::{Capture, Root};
use crate::error::Result;
use crate::store::layout;

/// Folders whose entries are put aside one by one.
const PLACES: [&str; 4] = ["", layout::GENERATIONS, layout::FAILURES, layout::INTENTS];

/// Moves a file or folder to the quarantine of `run`: one rename, durable when this returns.
///
/// # Errors
/// `target-exists` when the run has put something of that name aside; `no-space`, `io`.
pub fn put_aside(cap: Capture<'_>, run: &RunId, rel: &str) -> Result<Moved> {
    let to = format!("{}/{rel}", layout::quarantine(run.as_str()));
    if let Some((folder, _)) = to.rsplit_once('/') {
        cap.create_dir(folder)?;
    }
    cap.move_aside(rel, &to)?;
    Ok(Moved {
        from: rel.to_owned(),
        to,
    })
}

/// Moves something back to where it was.
///
/// # Errors
/// `target-exists` when the place is taken; `io`.
pub fn put_back(cap: Capture<'_>, moved: &Moved) -> Result<Moved> {
    cap.move_aside(&moved.to, &moved.from)?;
    Ok(Moved {
        from: moved.to.clone(),
        to: moved.from.clone(),
    })
}

/// What a run has put aside and is still there.
///
/// # Errors
/// `io` or `permission-denied`.
pub fn moved_by(root: &Root, run: &RunId) -> Result<Vec<Moved>> {
    let base = layout::quarantine(run.as_str());
    let mut all = Vec::new();
    for place in PLACES {
        let folder = if place.is_empty() {
            base.clone()
        } else {
            format!("{base}/{place}")
        };
        for entry in root.list(&folder)?.unwrap_or_default() {
            let from = if place.is_empty() {
                entry.name.clone()
            } else {
                format!("{place}/{}", entry.name)
            };
            let is_place = PLACES
                .iter()
                .any(|p| *p == from || p.starts_with(&format!("{from}/")));
            if !is_place {
                all.push(Moved {
                    to: format!("{base}/{from}"),
                    from,
                });
            }
        }
    }
    Ok(all)
}
