//! From words to a command, and from bad words to an error that teaches.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind as ClapKind};
use clap::{CommandFactory, FromArgMatches};

use super::args::Cli;
use crate::error::{Error, ErrorKind};

/// What the words ask for.
#[derive(Debug)]
pub enum Parsed {
    /// A command.
    Command(Box<Cli>),
    /// A help text.
    Help(String),
    /// The version.
    Version,
    /// Nothing that can be done.
    Bad(Error),
}

/// The command line as clap knows it.
#[must_use]
pub fn command() -> clap::Command {
    // The width is fixed so that the same words give the same text everywhere.
    Cli::command()
        .color(clap::ColorChoice::Never)
        .term_width(80)
}

/// Whether the caller asked for JSON, as far as it can be told from words that may be bad.
#[must_use]
pub fn wants_json(args: &[OsString]) -> bool {
    args.iter().skip(1).take_while(|a| *a != "--").any(|a| {
        let bytes = a.as_encoded_bytes();
        [&b"--json"[..], b"--robot"].iter().any(|flag| {
            bytes
                .strip_prefix(*flag)
                .is_some_and(|rest| rest.is_empty() || rest[0] == b'=')
        })
    })
}

/// Reads the words. Runs nothing.
#[must_use]
pub fn parse(args: &[OsString]) -> Parsed {
    let parsed = command()
        .try_get_matches_from(args)
        .and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(cli) => Parsed::Command(Box::new(cli)),
        Err(e) if e.kind() == ClapKind::DisplayVersion => Parsed::Version,
        Err(e) if e.kind() == ClapKind::DisplayHelp => Parsed::Help(e.render().to_string()),
        Err(e) => Parsed::Bad(usage(args, &e)),
    }
}

/// Whether `argv` is something that this program reads as it stands.
#[must_use]
pub fn reads(argv: &[String]) -> bool {
    let words: Vec<OsString> = argv.iter().map(OsString::from).collect();
    argv.first().is_some_and(|p| p == "cass") && !matches!(parse(&words), Parsed::Bad(_))
}

fn usage(args: &[OsString], e: &clap::Error) -> Error {
    let mut error = Error::new(ErrorKind::Usage, sentence(e));
    let missing = matches!(
        e.kind(),
        ClapKind::MissingSubcommand | ClapKind::MissingRequiredArgument
    );
    let wrong = [
        ContextKind::InvalidSubcommand,
        ContextKind::InvalidValue,
        ContextKind::InvalidArg,
    ]
    .into_iter()
    .filter(|_| !missing)
    .find_map(|k| strings(e, k).into_iter().next());
    if let Some(word) = &wrong {
        error = error.with_context("word", word.clone());
    }
    let args_named = strings(e, ContextKind::InvalidArg);
    if !args_named.is_empty() {
        error = error.with_context("arg", args_named.join(", "));
    }
    let allowed = strings(e, ContextKind::ValidValue);
    if !allowed.is_empty() {
        error = error.with_context("allowed", allowed.join(", "));
    }
    let suggested = [
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
    ]
    .into_iter()
    // The most alike comes last.
    .find_map(|k| strings(e, k).pop());
    let corrected = match (&wrong, &suggested) {
        (Some(wrong), Some(suggested)) => replace(args, wrong, suggested),
        _ => None,
    };
    if let Some(suggested) = suggested {
        error = error
            .with_hint(format!("Did you mean {suggested}? Nothing was run."))
            .with_context("suggestion", suggested);
    } else {
        error = error.with_hint("Look at the command's help. Nothing was run.");
    }
    error.with_hint_argv(corrected.unwrap_or_else(|| help_argv(args)))
}

/// The first paragraph of clap's message, on one line.
fn sentence(e: &clap::Error) -> String {
    if e.kind() == ClapKind::MissingSubcommand
        || e.kind() == ClapKind::DisplayHelpOnMissingArgumentOrSubcommand
    {
        return "a command is missing".to_owned();
    }
    let text = e.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let first = text.split("\n\n").next().unwrap_or(text);
    // The allowed values stand in the context.
    let first = first.split("\n  [possible values:").next().unwrap_or(first);
    first
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

fn strings(e: &clap::Error, kind: ContextKind) -> Vec<String> {
    match e.get(kind) {
        Some(ContextValue::String(s)) => vec![s.clone()],
        Some(ContextValue::Strings(list)) => list.clone(),
        Some(ContextValue::StyledStr(s)) => vec![s.to_string()],
        Some(ContextValue::StyledStrs(list)) => list.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

/// The words with the wrong one replaced; `None` when that is still no command.
fn replace(args: &[OsString], wrong: &str, suggested: &str) -> Option<Vec<String>> {
    let mut argv = vec!["cass".to_owned()];
    for arg in args.iter().skip(1) {
        argv.push(arg.to_str()?.to_owned());
    }
    let at = argv.iter().skip(1).position(|a| {
        a == wrong
            || a.strip_prefix(wrong)
                .is_some_and(|rest| rest.starts_with('='))
            || a.strip_suffix(wrong)
                .is_some_and(|head| head.ends_with('='))
    })?;
    let word = &mut argv[at + 1];
    *word = word.replacen(wrong, suggested, 1);
    reads(&argv).then_some(argv)
}

/// The help of the command that the words were about.
fn help_argv(args: &[OsString]) -> Vec<String> {
    let mut at = &command();
    let mut argv = vec!["cass".to_owned()];
    for arg in args.iter().skip(1) {
        let Some(found) = arg.to_str().and_then(|word| at.find_subcommand(word)) else {
            continue;
        };
        argv.push(found.get_name().to_owned());
        at = found;
    }
    argv.push("--help".to_owned());
    if reads(&argv) {
        argv
    } else {
        vec!["cass".to_owned(), "--help".to_owned()]
    }
}
