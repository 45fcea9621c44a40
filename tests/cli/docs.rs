//! Generated documentation: written with `CASS_UPDATE_DOCS=1`, stale otherwise a failure.

use std::fmt::Write;
use std::path::Path;

use cass::cli::command_tree;
use cass::error::ErrorKind;
use cass::exit::ExitCodeKind;
use cass::report::introspect::{ArgNode, CommandNode};

/// Compares a generated file with the one in the repository, or writes it.
pub fn fresh(relative: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(relative);
    if std::env::var_os("CASS_UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "{relative} is stale: run CASS_UPDATE_DOCS=1 cargo test --test cli, and commit it"
    );
}

#[test]
fn the_command_reference_is_fresh() {
    let mut text = String::from(
        "# Commands\n\nGenerated from the command line by a test; `cass introspect --commands \
         --json` prints the same.\n\nEvery command ends in one JSON document with `--json`. Where \
         the column *changes* says yes, the command writes to disk.\n",
    );
    let tree = command_tree();
    text.push_str("\n## For every command\n\n");
    table(&mut text, &tree.args);
    section(&mut text, &tree, "cass");
    fresh("docs/cli-reference.md", &text);
}

fn section(text: &mut String, node: &CommandNode, path: &str) {
    for sub in &node.commands {
        let path = format!("{path} {}", sub.name);
        if let Some(schema) = &sub.schema {
            let changes = if sub.mutates == Some(true) {
                "yes"
            } else {
                "no"
            };
            write!(
                text,
                "\n## `{path}`\n\n{}. Changes: {changes}. Document: \
                 [`{schema}`](schemas/{schema}.json).\n",
                sub.about.trim_end_matches('.')
            )
            .unwrap();
            if !sub.args.is_empty() {
                text.push('\n');
                table(text, &sub.args);
            }
        }
        section(text, sub, &path);
    }
}

fn table(text: &mut String, args: &[ArgNode]) {
    text.push_str("| name | value | what it does |\n|---|---|---|\n");
    for a in args {
        let mut name = format!("`{}`", a.name);
        for alias in &a.aliases {
            write!(name, ", `{alias}`").unwrap();
        }
        if a.required {
            name.push_str(" (required)");
        }
        if a.repeats {
            name.push_str(" (repeatable)");
        }
        let value = if a.values.is_empty() {
            a.value.clone().unwrap_or_default()
        } else {
            a.values
                .iter()
                .map(|v| format!("`{v}`"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let default = a
            .default
            .as_ref()
            .map_or_else(String::new, |d| format!(" Default: `{d}`."));
        let help = a.help.trim_end_matches('.').replace('|', "\\|");
        writeln!(text, "| {name} | {value} | {help}.{default} |").unwrap();
    }
}

#[test]
fn the_exit_table_is_fresh_and_total() {
    let mut text = String::from(
        "# Exit codes\n\nGenerated from the program by a test. `operation_outcome.exit_code_kind` \
         in every document names the kind; `err.kind` says more.\n\n| code | kind | meaning | \
         `err.kind` |\n|---|---|---|---|\n",
    );
    let word = |v: serde_json::Value| v.as_str().unwrap().to_owned();
    let mut listed = 0;
    for kind in ExitCodeKind::ALL {
        let errors: Vec<String> = ErrorKind::ALL
            .iter()
            .filter(|e| e.exit() == kind)
            .map(|e| {
                let retry = if e.retryable() { " (retry)" } else { "" };
                format!("`{}`{retry}", word(serde_json::to_value(e).unwrap()))
            })
            .collect();
        listed += errors.len();
        writeln!(
            text,
            "| {} | {} | {} | {} |",
            kind.code(),
            word(serde_json::to_value(kind).unwrap()),
            meaning(kind),
            errors.join(", ")
        )
        .unwrap();
    }
    assert_eq!(
        listed,
        ErrorKind::ALL.len(),
        "an error kind has no exit in the table"
    );
    text.push_str(
        "\n*retry*: the same command may succeed when it is simply run again; \
         `err.retry_after_ms` says when, if it is known.\n\nThe exit is that of the work. A stdout \
         whose reader went away changes nothing; one that can't be written is exit 9. A signal that \
         comes when the work is done changes nothing either: the document comes whole, with its own \
         exit. Only where nobody reads is it given up, with 130 or 143, two seconds after the signal. A \
         second signal ends the process at once.\n",
    );
    fresh("docs/exit-codes.md", &text);
}

/// The meaning of an exit: the description of its value in the schema, so that there is one text.
fn meaning(kind: ExitCodeKind) -> String {
    let schema = schemars::schema_for!(ExitCodeKind).to_value();
    let wanted = serde_json::to_value(kind).unwrap();
    let found = schema["oneOf"]
        .as_array()
        .unwrap()
        .iter()
        .find(|v| v["const"] == wanted)
        .unwrap_or_else(|| panic!("{wanted} is not described"));
    found["description"].as_str().unwrap().replace('\n', " ")
}
