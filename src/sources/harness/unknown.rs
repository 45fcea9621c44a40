//! No harness: of what a damaged archive gave without what tells its harness, no file is known.

use std::path::Path;

use super::{Area, Harness, Home};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct Unknown;

impl Harness for Unknown {
    fn homes(&self, _env: &Env) -> Vec<Home> {
        Vec::new()
    }

    fn areas(&self) -> &'static [Area] {
        &[]
    }

    fn belongs(&self, _rel: &Path, _native: &str, _own: &Path) -> bool {
        false
    }

    fn usage(&self, _rel: &Path) -> Option<FileUse> {
        None
    }
}
