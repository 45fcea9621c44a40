//! Where VS Code and the editors made from it keep the data of their user.

use std::path::PathBuf;

use crate::env::Env;

/// Editors, by the folder that bears their name.
const EDITORS: &[&str] = &[
    "Code",
    "Code - Insiders",
    "VSCodium",
    "Cursor",
    "Windsurf",
    "Antigravity",
    "Trae",
];

/// Their servers on a remote machine, below its home folder.
const SERVERS: &[&str] = &[
    ".vscode-server",
    ".vscode-server-insiders",
    ".vscodium-server",
    ".cursor-server",
    ".windsurf-server",
];

/// The `User` folder of the editor of this name: below `~/Library/Application Support` on macOS,
/// else below the folder for settings of the XDG rules; none without a home.
pub(super) fn user_folder(env: &Env, editor: &str) -> Option<PathBuf> {
    let home = env.home();
    let base = if cfg!(target_os = "macos") {
        home.join("Library/Application Support")
    } else {
        match env.var("XDG_CONFIG_HOME").map(PathBuf::from) {
            Some(dir) if dir.is_absolute() => dir,
            _ => home.join(".config"),
        }
    };
    base.is_absolute().then(|| base.join(editor).join("User"))
}

/// The `User` folders of all editors.
pub(super) fn user_folders(env: &Env) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = EDITORS
        .iter()
        .filter_map(|editor| user_folder(env, editor))
        .collect();
    if env.home().is_absolute() {
        all.extend(
            SERVERS
                .iter()
                .map(|server| env.home().join(server).join("data/User")),
        );
    }
    all
}
