//! `cass introspect`, `--version` and `--help`

use std::collections::BTreeMap;

use super::args::IntrospectArgs;
use super::emit::{Human, Output};
use super::page::{Page, count};
use super::{catalog, parse};
use crate::error::{ErrorKind, Result};
use crate::exit::ExitCodeKind;
use crate::model::finding::CheckId;
use crate::model::provider::Provider;
use crate::report::envelope::{Report, Site};
use crate::report::introspect::{
    ArgNode, CheckIdEntry, CommandNode, ErrorKindEntry, ExitEntry, HelpBody, IntrospectBody,
    VersionBody,
};
use crate::report::registry;

pub(super) fn run(args: &IntrospectArgs) -> Result<Report<IntrospectBody>> {
    let lists = args.schema.is_empty();
    let schemas: BTreeMap<_, _> = registry::schemas()
        .into_iter()
        .filter(|(name, _)| !args.commands && (lists || args.schema.contains(name)))
        .map(|(name, schema)| (name, registry::compact(schema)))
        .collect();
    let exits = ExitCodeKind::ALL
        .iter()
        .map(|k| ExitEntry {
            code: k.code(),
            exit_code_kind: *k,
        })
        .filter(|_| lists);
    let kinds = ErrorKind::ALL
        .iter()
        .map(|k| ErrorKindEntry {
            kind: *k,
            exit_code: k.exit().code(),
            retryable: k.retryable(),
        })
        .filter(|_| lists);
    let checks = CheckId::ALL
        .iter()
        .map(|id| CheckIdEntry { id: *id })
        .filter(|_| lists);
    Ok(Report::ok(IntrospectBody {
        commands: lists.then(command_tree),
        response_schemas: schemas,
        exits: exits.collect(),
        error_kinds: kinds.collect(),
        checks: checks.collect(),
    }))
}

/// Every command, with its flags, values and defaults.
#[must_use]
pub fn command_tree() -> CommandNode {
    let mut root = parse::command();
    root.build();
    node(&root, &mut Vec::new())
}

fn node<'c>(command: &'c clap::Command, words: &mut Vec<&'c str>) -> CommandNode {
    let entry = catalog::find(words);
    let top = words.is_empty();
    let args = command
        .get_arguments()
        // What is for every command is listed once, at the top.
        .filter(|a| top || !a.is_global_set())
        .filter(|a| !["help", "version"].contains(&a.get_id().as_str()))
        .map(arg)
        .collect();
    let mut commands = Vec::new();
    for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
        words.push(sub.get_name());
        commands.push(node(sub, words));
        words.pop();
    }
    CommandNode {
        name: command.get_name().to_owned(),
        about: text(command.get_about()),
        mutates: entry.map(|e| e.mutates),
        schema: entry.map(|e| e.schema.to_owned()),
        args,
        commands,
    }
}

fn arg(a: &clap::Arg) -> ArgNode {
    let takes = a.get_num_args().is_none_or(|n| n.takes_values());
    let value = takes.then(|| {
        a.get_value_names()
            .and_then(|names| names.first())
            .map_or_else(|| a.get_id().to_string(), ToString::to_string)
    });
    let name = match a.get_long() {
        Some(long) => format!("--{long}"),
        None => value.clone().unwrap_or_else(|| a.get_id().to_string()),
    };
    let mut aliases: Vec<String> = a
        .get_visible_aliases()
        .unwrap_or_default()
        .into_iter()
        .map(|alias| format!("--{alias}"))
        .chain(a.get_short().map(|c| format!("-{c}")))
        .collect();
    aliases.sort();
    let values = if takes {
        a.get_possible_values()
            .iter()
            .map(|v| v.get_name().to_owned())
            .collect()
    } else {
        Vec::new()
    };
    ArgNode {
        name,
        aliases,
        help: text(a.get_help()),
        value,
        values,
        default: a
            .get_default_values()
            .first()
            .filter(|_| takes)
            .map(|v| v.to_string_lossy().into_owned()),
        required: a.is_required_set(),
        repeats: matches!(
            a.get_action(),
            clap::ArgAction::Append | clap::ArgAction::Count
        ),
    }
}

fn text(styled: Option<&clap::builder::StyledStr>) -> String {
    styled.map(ToString::to_string).unwrap_or_default()
}

pub(super) fn help(out: &Output, help: String) -> u8 {
    if !out.is_json() {
        return out.text(&help);
    }
    out.finish(Ok(Report::ok(HelpBody { help })), false, &Site::plain())
}

pub(super) fn version(out: &Output) -> u8 {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    if !out.is_json() {
        return out.text(&format!("cass {version}\n"));
    }
    let body = VersionBody {
        version,
        providers: Provider::ALL.to_vec(),
    };
    out.finish(Ok(Report::ok(body)), false, &Site::plain())
}

impl Human for HelpBody {
    fn page(_report: &Report<Self>, _page: &mut Page) {}

    fn verdict(_report: &Report<Self>) -> String {
        String::new()
    }
}

impl Human for VersionBody {
    fn page(_report: &Report<Self>, _page: &mut Page) {}

    fn verdict(report: &Report<Self>) -> String {
        report.body.version.clone()
    }
}

impl Human for IntrospectBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        fn walk(node: &CommandNode, path: &str, page: &mut Page) {
            let name = format!("{path} {}", node.name);
            if node.schema.is_some() {
                page.fact(&format!("{:<24} {}", name.trim(), node.about));
            }
            for sub in &node.commands {
                walk(sub, &name, page);
            }
        }
        if let Some(tree) = &r.body.commands {
            walk(tree, "", page);
        }
        for name in r.body.response_schemas.keys() {
            page.fact(&format!("document {name}"));
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let n = u64::try_from(r.body.response_schemas.len()).unwrap_or(u64::MAX);
        format!(
            "{}; --json prints everything.",
            count(n, "document", "documents")
        )
    }
}
