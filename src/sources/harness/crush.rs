//! Crush: a folder `.crush` in each project. Its own list of projects says where they are; others
//! are named by the settings.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Area, Harness, Home, parts, shallow, xdg_data};
use crate::env::Env;
use crate::sources::file::read_small;
use crate::sources::usage::FileUse;

pub(super) struct Crush;

/// A longer list of projects is not read.
const LIMIT: u64 = 4 << 20;

impl Harness for Crush {
    fn homes(&self, env: &Env) -> Vec<Home> {
        let global = match env.var("CRUSH_GLOBAL_DATA") {
            Some(dir) => Home::named(dir),
            None => match xdg_data(env) {
                Some(data) => Home::usual(data.join("crush")),
                None => return Vec::new(),
            },
        };
        // A project may be gone since: that it is listed is no setting.
        let mut homes: Vec<Home> = projects(&global.path)
            .into_iter()
            .map(Home::usual)
            .collect();
        homes.insert(0, global);
        homes
    }

    fn areas(&self) -> &'static [Area] {
        // Where a project itself is named as a root.
        const AREAS: &[Area] = &[shallow(".crush", 1)];
        AREAS
    }

    fn usage(&self, rel: &Path) -> Option<FileUse> {
        match parts(rel).as_slice() {
            [b"crush.db"] | [b".crush", b"crush.db"] => Some(FileUse::Session),
            [b"projects.json"] => Some(FileUse::Evidence),
            _ => None,
        }
    }
}

/// The data folders in the list of projects.
fn projects(global: &Path) -> Vec<PathBuf> {
    #[derive(Deserialize)]
    struct List {
        projects: Vec<serde_json::Value>,
    }
    let list = read_small(&global.join("projects.json"), LIMIT)
        .ok()
        .and_then(|text| serde_json::from_str::<List>(&text).ok());
    let mut folders: Vec<PathBuf> = list
        .map(|l| l.projects)
        .unwrap_or_default()
        .iter()
        .filter_map(|project| {
            let project_dir = project.get("path").and_then(|p| p.as_str());
            let data_dir = project.get("data_dir").and_then(|p| p.as_str());
            match (project_dir, data_dir.filter(|d| !d.is_empty())) {
                (Some(dir), Some(data)) => Some(Path::new(dir).join(data)),
                (None, Some(data)) => Some(PathBuf::from(data)),
                (Some(dir), None) => Some(Path::new(dir).join(".crush")),
                (None, None) => None,
            }
        })
        .filter(|folder| folder.is_absolute())
        .collect();
    folders.sort();
    folders.dedup();
    folders
}
