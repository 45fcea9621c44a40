//! What a killed run left of a session log that it was writing.

use std::io::Read;
use std::path::Path;

use super::RunId;
use super::intent::Intent;
use crate::disk::PutBack;
use crate::model::plan::{Action, FileState};

/// The name that a log has beside its place before it is whole.
#[must_use]
pub fn temp_of(run: &RunId) -> String {
    format!(".{run}.cass-tmp")
}

/// Whether a run that had a log to write has written it; what it had begun is removed. The file
/// decides: it has the bytes that the plan says, or the run had no effect.
#[must_use]
pub fn was_written(intent: &Intent) -> bool {
    let mut all = false;
    for action in &intent.actions {
        let (log, wanted) = match action {
            Action::WriteSessionLog { log } => (log, &log.result),
            Action::PutBackSessionLog { log, .. } => (log, &log.source),
            _ => return false,
        };
        let (folder, rel) = log.target();
        // A folder that is gone or can't be opened keeps no other run from being finished.
        let Ok(place) = PutBack::below(Path::new(folder)) else {
            return false;
        };
        let _ = place.remove_temp(Path::new(rel), &temp_of(&intent.run_id));
        all = is(&place, rel, wanted);
        if !all {
            return false;
        }
    }
    all
}

fn is(place: &PutBack, rel: &str, wanted: &FileState) -> bool {
    let Ok(Some(mut file)) = place.look(Path::new(rel)) else {
        return false;
    };
    let mut hasher = blake3::Hasher::new();
    let mut buf = vec![0; 64 << 10];
    let mut len = 0;
    loop {
        match file.read(&mut buf) {
            Ok(0) => break,
            Ok(n) => {
                len += n as u64;
                hasher.update(buf.get(..n).unwrap_or_default());
            }
            Err(_) => return false,
        }
    }
    len == wanted.len.0 && hasher.finalize().to_hex().as_str() == wanted.blake3
}
