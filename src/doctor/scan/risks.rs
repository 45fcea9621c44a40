//! What the settings hide or leave out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use walkdir::WalkDir;

use crate::env::Env;
use crate::model::finding::Severity;
use crate::model::provider::Provider;
use crate::model::scan::{ConfigRisk, RiskKind};
use crate::sources::config::Config;
use crate::sources::roots::{ProviderRoot, overlapping};
use crate::sources::usage::{FileUse, usage};

/// Names below one excluded folder that are counted.
const NAMES: usize = 20_000;

/// The risks found so far: excludes by rule.
#[derive(Debug, Default)]
pub(super) struct Risks {
    captured: BTreeMap<(String, Provider), u64>,
    live: BTreeMap<(String, Provider), u64>,
    other: BTreeSet<ConfigRisk>,
}

fn rule(config: &Config, path: &Path) -> String {
    match config.rule_for(path) {
        Some(rule) => rule.to_owned(),
        // A link leads there, and a rule is about its real name.
        None => path.display().to_string(),
    }
}

impl Risks {
    /// A captured source that a rule hides now.
    pub(super) fn excluded_captured(&mut self, config: &Config, provider: Provider, path: &Path) {
        *self
            .captured
            .entry((rule(config, path), provider))
            .or_default() += 1;
    }

    /// A file or folder that a rule kept the walk out of. Session files below it are counted by
    /// their names; nothing of them is opened.
    pub(super) fn excluded_live(
        &mut self,
        config: &Config,
        root: &ProviderRoot,
        path: &Path,
        each: &mut dyn FnMut(&Path),
    ) {
        let mut sessions = 0u64;
        let names = WalkDir::new(path).follow_links(false).into_iter();
        for entry in names.filter_map(Result::ok).take(NAMES) {
            let rel = entry.path().strip_prefix(&root.path);
            if entry.file_type().is_file()
                && rel.is_ok_and(|rel| usage(root.provider, rel) == Some(FileUse::Session))
            {
                sessions += 1;
                each(entry.path());
            }
        }
        if sessions > 0 {
            *self
                .live
                .entry((rule(config, path), root.provider))
                .or_default() += sessions;
        }
    }

    /// A root that a setting names and that is not there.
    pub(super) fn root_missing(&mut self, root: &ProviderRoot) {
        self.other.insert(ConfigRisk {
            risk_kind: RiskKind::NamedRootMissing,
            severity: Severity::Warn,
            subject: root.path.display().to_string(),
            provider: Some(root.provider),
            sources: 0,
            message: "a setting or variable names this folder and nothing is there: what was \
                      captured from it is out of sight, and what is new there is not captured"
                .to_owned(),
        });
    }

    /// Roots in one another, and a data directory in one of them.
    pub(super) fn places(&mut self, env: &Env, config: &Config, roots: &[&ProviderRoot]) {
        for inner in roots {
            for outer in roots {
                if inner.provider == outer.provider
                    && inner.path != outer.path
                    && inner.path.starts_with(&outer.path)
                {
                    self.other.insert(ConfigRisk {
                        risk_kind: RiskKind::RootsNested,
                        severity: Severity::Warn,
                        subject: inner.path.display().to_string(),
                        provider: Some(inner.provider),
                        sources: 0,
                        message: format!("this root lies in the root {}", outer.path.display()),
                    });
                }
            }
        }
        if let Some(root) = overlapping(env, config, env.data_dir()) {
            self.other.insert(ConfigRisk {
                risk_kind: RiskKind::DataDirInRoot,
                severity: Severity::Warn,
                subject: env.data_dir().display().to_string(),
                provider: None,
                sources: 0,
                message: format!(
                    "the data directory and the harness's folder {} lie in one another",
                    root.display()
                ),
            });
        }
    }

    /// All of them, the worst first.
    pub(super) fn into_list(self) -> Vec<ConfigRisk> {
        let excludes = |map: BTreeMap<(String, Provider), u64>, risk_kind, severity, what: &str| {
            map.into_iter()
                .map(|((subject, provider), sources)| ConfigRisk {
                    risk_kind,
                    severity,
                    subject,
                    provider: Some(provider),
                    sources,
                    message: what.to_owned(),
                })
                .collect::<Vec<_>>()
        };
        let mut list = excludes(
            self.captured,
            RiskKind::ExcludeHidesCaptured,
            Severity::Warn,
            "the rule covers sources that were captured before it: their captures are kept, and \
             what the harness adds is not captured any more",
        );
        list.extend(excludes(
            self.live,
            RiskKind::ExcludeHidesLive,
            Severity::Info,
            "the rule keeps session files that are there now out of the mirror, as it says",
        ));
        list.extend(self.other);
        list.sort_by(|a, b| (b.severity, &a.risk_kind, a).cmp(&(a.severity, &b.risk_kind, b)));
        list
    }
}
