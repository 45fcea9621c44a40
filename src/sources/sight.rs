//! What a walk could see: only what was looked for, in a folder that could be listed, and not met
//! there is gone.

use std::path::{Path, PathBuf};

use crate::sources::roots::ProviderRoot;
use crate::sources::walk::{Met, Oddity, RootState};

/// The folders that were looked into, and the places in them that were not.
#[derive(Debug, Default)]
pub struct Sight {
    looked: Vec<PathBuf>,
    blind: Vec<PathBuf>,
}

impl Sight {
    /// Notes what a walk met.
    pub fn note(&mut self, met: &Met) {
        if let Met::Odd {
            path,
            kind: Oddity::Unreadable | Oddity::Excluded,
            ..
        } = met
        {
            self.blind.push(path.clone());
        }
    }

    /// Notes how the walk of a root ended. A root that a setting names and that is not there may be
    /// a disk that is not mounted or a name with a slip: it tells nothing of what lay in it. A
    /// harness's own folder that is not there was removed.
    pub fn end(&mut self, root: &ProviderRoot, state: RootState) {
        self.looked.push(root.path.clone());
        let told_nothing = match state {
            RootState::Present => false,
            RootState::Absent => root.named,
            RootState::Unreadable => true,
        };
        if told_nothing {
            self.blind.push(root.path.clone());
        }
    }

    /// Whether a file at `path` would have been met.
    #[must_use]
    pub fn reaches(&self, path: &Path) -> bool {
        self.looked.iter().any(|root| path.starts_with(root))
            && !self.blind.iter().any(|place| path.starts_with(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::Provider;

    #[test]
    fn only_what_was_looked_for_is_reached() {
        let root = |path: &str, named| ProviderRoot {
            provider: Provider::Claude,
            path: path.into(),
            named,
        };
        let mut sight = Sight::default();
        sight.end(&root("/a", true), RootState::Present);
        sight.end(&root("/b", true), RootState::Absent);
        sight.end(&root("/c", false), RootState::Absent);
        sight.end(&root("/d", false), RootState::Unreadable);
        sight.note(&Met::Odd {
            path: "/a/private".into(),
            kind: Oddity::Excluded,
            message: None,
        });
        for (path, reached) in [
            ("/a/x", true),
            ("/a/private/x", false),
            ("/b/x", false),
            ("/c/x", true),
            ("/d/x", false),
            ("/e/x", false),
        ] {
            assert_eq!(sight.reaches(Path::new(path)), reached, "{path}");
        }
    }
}
