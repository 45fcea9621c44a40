//! The folders in which each harness keeps its files.

use std::path::PathBuf;

use crate::env::Env;
use crate::model::provider::Provider;
use crate::sources::config::Config;

/// One root of a harness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRoot {
    /// The harness.
    pub provider: Provider,
    /// The folder, as named; it may be a link.
    pub path: PathBuf,
    /// Whether a setting or variable named it: a missing one is then worth a word.
    pub named: bool,
}

/// The roots in force: the harness's own variable first, else its home default, then the extra
/// roots of the settings. Sorted by provider, then in that order; no path twice.
#[must_use]
pub fn roots(env: &Env, config: &Config) -> Vec<ProviderRoot> {
    let mut found: Vec<ProviderRoot> = Vec::new();
    for provider in Provider::ALL {
        let (variable, default) = match provider {
            Provider::Claude => ("CLAUDE_CONFIG_DIR", ".claude"),
            Provider::Codex => ("CODEX_HOME", ".codex"),
        };
        let own = match env.var(variable) {
            Some(dir) => Some(ProviderRoot {
                provider,
                path: PathBuf::from(dir),
                named: true,
            }),
            None if env.home().as_os_str().is_empty() => None,
            None => Some(ProviderRoot {
                provider,
                path: env.home().join(default),
                named: false,
            }),
        };
        let extra = config
            .roots()
            .iter()
            .filter(|(p, _)| *p == provider)
            .map(|(_, path)| ProviderRoot {
                provider,
                path: path.clone(),
                named: true,
            });
        for mut root in own.into_iter().chain(extra) {
            root.path = std::path::absolute(&root.path).unwrap_or(root.path);
            if !found
                .iter()
                .any(|f| f.provider == provider && f.path == root.path)
            {
                found.push(root);
            }
        }
    }
    found
}
