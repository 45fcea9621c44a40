//! Every command that a document can recommend is one that this program reads.

use std::path::Path;

use cass::cli::{catalog, command_tree, parse};
use cass::model::next::Next;
use cass::report::envelope::{DataDirArg, Site};
use cass::report::introspect::CommandNode;

#[test]
fn every_recommended_command_is_read_by_the_program() {
    for dir in [
        DataDirArg::Inherited,
        DataDirArg::Named("--json".into()),
        DataDirArg::Named("/a b".into()),
    ] {
        let site = Site {
            data_dir: dir,
            home: String::new(),
            real_home: String::new(),
        };
        for next in Next::samples() {
            let argv = site.argv(next.argv()).unwrap();
            assert!(parse::reads(&argv), "{argv:?}");
        }
    }
}

#[test]
fn the_samples_hold_every_recommended_command() {
    let source = include_str!("../../src/model/next.rs");
    let arms = source
        .lines()
        .filter(|l| l.trim_start().starts_with("Next::") && l.contains("=> NextId::"))
        .count();
    let mut ids: Vec<_> = Next::samples().iter().map(Next::id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), arms);
}

/// Hints are written where errors are made, so they are looked for in the source.
#[test]
fn every_hint_in_the_source_is_read_by_the_program() {
    let mut found = 0;
    walk(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut |text, path| {
            for (at, _) in text.match_indices("with_hint_argv([") {
                let list = &text[at + "with_hint_argv([".len()..];
                let list = &list[..list.find(']').unwrap()];
                let words: Option<Vec<String>> = list
                    .split(',')
                    .map(str::trim)
                    .filter(|w| !w.is_empty())
                    .map(|w| w.strip_prefix('"')?.strip_suffix('"').map(str::to_owned))
                    .collect();
                // A hint with a value in it is made of a `Next`, or its form is tested at its place.
                let Some(words) = words else { continue };
                found += 1;
                assert!(parse::reads(&words), "{}: {words:?}", path.display());
            }
        },
    );
    assert!(found >= 2, "{found}");
}

fn walk(dir: &Path, each: &mut dyn FnMut(&str, &Path)) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, each);
        } else if path.extension().is_some_and(|e| e == "rs") {
            each(&std::fs::read_to_string(&path).unwrap(), &path);
        }
    }
}

#[test]
fn the_catalog_and_the_command_line_agree() {
    fn leaves(node: &CommandNode, words: &mut Vec<String>, out: &mut Vec<Vec<String>>) {
        if node.schema.is_some() || (node.commands.is_empty() && !words.is_empty()) {
            out.push(words.clone());
        }
        for sub in &node.commands {
            words.push(sub.name.clone());
            leaves(sub, words, out);
            words.pop();
        }
    }
    let mut found = Vec::new();
    leaves(&command_tree(), &mut Vec::new(), &mut found);
    let mut listed: Vec<Vec<String>> = catalog::COMMANDS
        .iter()
        .map(|e| e.words.iter().map(|w| (*w).to_owned()).collect())
        .collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed);
    let schemas = cass::report::registry::schemas();
    for entry in catalog::COMMANDS {
        assert!(schemas.contains_key(entry.schema), "{}", entry.schema);
    }
    assert_eq!(
        schemas.keys().map(String::as_str).collect::<Vec<_>>(),
        catalog::SCHEMAS
    );
}
