//! `config.parse`: whether the settings can be used.

use super::context::Context;
use crate::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason};
use crate::sources::config::{Config, FILE};

pub(super) fn parse(cx: &mut Context) -> Vec<CheckResult> {
    let id = CheckId::ConfigParse;
    let dir = cx.env.config_dir();
    match Config::load(dir, cx.env.home()) {
        Ok(_) if !dir.join(FILE).exists() => Context::skip(&[id], SkipReason::NotConfigured, None),
        Ok(_) => vec![CheckResult::ran(id, Vec::new())],
        Err(e) => {
            // Nothing is captured while a rule is not understood.
            let f = Finding::new(id, "config-invalid", Severity::Error, FILE, e.message());
            vec![CheckResult::ran(id, vec![f])]
        }
    }
}
