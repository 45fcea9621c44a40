//! A harness whose files are not looked for.

use std::path::Path;

use super::{Area, Harness, Home};
use crate::env::Env;
use crate::sources::usage::FileUse;

pub(super) struct None;

impl Harness for None {
    fn homes(&self, _: &Env) -> Vec<Home> {
        Vec::new()
    }

    fn areas(&self) -> &'static [Area] {
        &[]
    }

    fn usage(&self, _: &Path) -> Option<FileUse> {
        Option::None
    }
}
