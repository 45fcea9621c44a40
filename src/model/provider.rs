//! The harnesses whose sessions are read.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A harness, by the id used in every document and file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Provider {
    /// Aider.
    Aider,
    /// Amp.
    Amp,
    /// Claude Code.
    Claude,
    /// Cline.
    Cline,
    /// Codex CLI.
    Codex,
    /// GitHub Copilot CLI.
    Copilot,
    /// Crush.
    Crush,
    /// Cursor.
    Cursor,
    /// Factory Droid.
    Droid,
    /// DSH.
    Dsh,
    /// Gemini CLI.
    Gemini,
    /// Goose.
    Goose,
    /// iFlow CLI.
    Iflow,
    /// Kimi CLI.
    Kimi,
    /// OpenClaw.
    OpenClaw,
    /// OpenCode.
    OpenCode,
    /// pi.
    Pi,
    /// Qwen Code.
    Qwen,
    /// Roo Code.
    Roo,
    /// None that is known: of rows that a damaged archive gave without what tells it.
    Unknown,
}

impl Provider {
    /// Every harness that is read, in the order of its id.
    pub const ALL: [Provider; 19] = [
        Provider::Aider,
        Provider::Amp,
        Provider::Claude,
        Provider::Cline,
        Provider::Codex,
        Provider::Copilot,
        Provider::Crush,
        Provider::Cursor,
        Provider::Droid,
        Provider::Dsh,
        Provider::Gemini,
        Provider::Goose,
        Provider::Iflow,
        Provider::Kimi,
        Provider::OpenClaw,
        Provider::OpenCode,
        Provider::Pi,
        Provider::Qwen,
        Provider::Roo,
    ];

    /// The id.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Provider::Aider => "aider",
            Provider::Amp => "amp",
            Provider::Claude => "claude",
            Provider::Cline => "cline",
            Provider::Codex => "codex",
            Provider::Copilot => "copilot",
            Provider::Crush => "crush",
            Provider::Cursor => "cursor",
            Provider::Droid => "droid",
            Provider::Dsh => "dsh",
            Provider::Gemini => "gemini",
            Provider::Goose => "goose",
            Provider::Iflow => "iflow",
            Provider::Kimi => "kimi",
            Provider::OpenClaw => "openclaw",
            Provider::OpenCode => "opencode",
            Provider::Pi => "pi",
            Provider::Qwen => "qwen",
            Provider::Roo => "roo",
            Provider::Unknown => "unknown",
        }
    }

    /// The name that people know.
    #[must_use]
    pub const fn display_name(self) -> &'static str {
        match self {
            Provider::Aider => "Aider",
            Provider::Amp => "Amp",
            Provider::Claude => "Claude Code",
            Provider::Cline => "Cline",
            Provider::Codex => "Codex CLI",
            Provider::Copilot => "GitHub Copilot CLI",
            Provider::Crush => "Crush",
            Provider::Cursor => "Cursor",
            Provider::Droid => "Factory Droid",
            Provider::Dsh => "DSH",
            Provider::Gemini => "Gemini CLI",
            Provider::Goose => "Goose",
            Provider::Iflow => "iFlow CLI",
            Provider::Kimi => "Kimi CLI",
            Provider::OpenClaw => "OpenClaw",
            Provider::OpenCode => "OpenCode",
            Provider::Pi => "pi",
            Provider::Qwen => "Qwen Code",
            Provider::Roo => "Roo Code",
            Provider::Unknown => "unknown harness",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no known harness.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown provider {0:?}")]
pub struct UnknownProvider(pub String);

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Provider::ALL
            .into_iter()
            .chain([Provider::Unknown])
            .find(|p| p.as_str() == s)
            .ok_or_else(|| UnknownProvider(s.to_owned()))
    }
}
