//! The document of `models status`.

use schemars::JsonSchema;
use serde::Serialize;

use super::envelope::Body;
use super::search::LexicalState;

/// Which models there are, and what searching falls back to without them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModelsStatusBody {
    /// The model that semantic search would need.
    pub model_state: ModelState,
    /// What `search` does without it.
    pub fallback_mode: FallbackMode,
    /// The lexical index, which it then asks; null when that can't be told.
    pub lexical: Option<LexicalState>,
    /// By name.
    pub models: Vec<ModelBlock>,
}

impl Body for ModelsStatusBody {
    const NAME: &'static str = "models-status";
}

/// One model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ModelBlock {
    /// What it is for.
    pub purpose: String,
    /// Whether it is there.
    pub state: ModelState,
    /// Whether this version of the program could use it.
    pub supported: bool,
}

/// Whether a model is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModelState {
    /// It is not.
    NotInstalled,
}

/// What searching does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FallbackMode {
    /// It compares words.
    Lexical,
}
