//! The documents of `introspect`, `--version` and `--help`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::envelope::Body;
use crate::error::ErrorKind;
use crate::exit::ExitCodeKind;
use crate::model::provider::Provider;

/// What the program can do, generated from what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IntrospectBody {
    /// The commands; absent with `--schema`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commands: Option<CommandNode>,
    /// The JSON Schema (2020-12) of every document, by name; absent with `--commands`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub response_schemas: BTreeMap<String, Value>,
    /// The exits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<ExitEntry>,
    /// Every `err.kind` with its exit.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub error_kinds: Vec<ErrorKindEntry>,
    /// Every check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckIdEntry>,
}

impl Body for IntrospectBody {
    const NAME: &'static str = "introspect";
}

/// One command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommandNode {
    /// Its word.
    pub name: String,
    /// What it does.
    pub about: String,
    /// Whether it changes anything on disk; null for a group of commands.
    pub mutates: Option<bool>,
    /// Name of its document's schema; null for a group of commands.
    pub schema: Option<String>,
    /// Its flags and values, in the order of the help.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<ArgNode>,
    /// The commands below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<CommandNode>,
}

/// One flag or value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArgNode {
    /// `--flag`, or the name of a positional value.
    pub name: String,
    /// Other spellings.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// What it does.
    pub help: String,
    /// Name of its value; absent for a switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Allowed values; absent when any is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// The value when it is not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Whether it must be given.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Whether it may be given several times.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeats: bool,
}

/// One exit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExitEntry {
    /// The code.
    pub code: u8,
    /// Its kind.
    pub exit_code_kind: ExitCodeKind,
}

/// One `err.kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorKindEntry {
    /// The kind.
    pub kind: ErrorKind,
    /// The exit it ends with.
    pub exit_code: u8,
    /// Whether the same command may succeed when it is simply run again.
    pub retryable: bool,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckIdEntry {
    /// The id.
    pub id: crate::model::finding::CheckId,
}

/// The program's version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VersionBody {
    /// Version of the program.
    pub version: String,
    /// The harnesses that it reads.
    pub providers: Vec<Provider>,
}

impl Body for VersionBody {
    const NAME: &'static str = "version";
}

/// A help text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HelpBody {
    /// The text.
    pub help: String,
}

impl Body for HelpBody {
    const NAME: &'static str = "help";
}
