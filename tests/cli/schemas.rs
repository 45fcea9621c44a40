//! The published schemas: generated, fresh, closed vocabularies, and what is printed fits them.

use std::collections::BTreeSet;
use std::path::Path;

use cass::model::check::{CheckFacts, OperationFacts, Owner, ProviderFacts};
use cass::model::finding::{CheckId, CheckResult, Finding, Severity, SkipReason, UnknownReason};
use cass::model::interrupt::Signal;
use cass::model::next::Next;
use cass::model::provider::Provider;
use cass::model::verdict::SourceState;
use cass::report::check::{DetailLevel, FailOnLevel};
use cass::report::envelope::Site;
use cass::report::{CheckRun, MAX_BYTES, check_report, registry};

use serde_json::Value;

use super::docs::fresh;
use super::sandbox::{Sandbox, validate};

#[test]
fn the_published_schemas_are_fresh() {
    let schemas = registry::schemas();
    let mut names = BTreeSet::new();
    for (name, schema) in &schemas {
        let text = serde_json::to_string_pretty(schema).unwrap() + "\n";
        fresh(&format!("docs/schemas/{name}.json"), &text);
        names.insert(format!("{name}.json"));
    }
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schemas");
    for entry in std::fs::read_dir(dir).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains(&name), "docs/schemas/{name} is no document");
    }
}

#[test]
fn every_schema_is_valid_and_accepts_no_other_document() {
    for (name, schema) in registry::schemas() {
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
        let both = [
            jsonschema::draft202012::new(&schema).unwrap(),
            jsonschema::draft202012::new(&registry::compact(schema)).unwrap(),
        ];
        let error = Sandbox::new().run(["nonsense", "--json"]).document();
        for schema in both {
            assert_eq!(schema.is_valid(&error), name == "error", "{name}");
        }
    }
}

#[test]
fn what_introspect_prints_are_the_published_schemas() {
    let value = Sandbox::new().run(["introspect", "--json"]).document();
    let printed = value["response_schemas"].as_object().unwrap();
    let published = registry::schemas();
    assert_eq!(printed.len(), published.len());
    for (name, schema) in published {
        assert_eq!(printed[&name], registry::compact(schema), "{name}");
    }
    assert_eq!(value["checks"].as_array().unwrap().len(), 27);
    assert!(!value["commands"]["commands"].as_array().unwrap().is_empty());
}

/// The fields that callers branch on, by the names that they were promised.
#[test]
fn the_check_document_has_every_promised_field() {
    let report = check_report(vec![], CheckFacts::default(), &run(), &Site::plain());
    let value = serde_json::to_value(&report).unwrap();
    for pointer in [
        "/status",
        "/risk_level",
        "/recommended_action",
        "/recommended_commands",
        "/operation_outcome/kind",
        "/operation_outcome/exit_code_kind",
        "/coverage_risk/status",
        "/source_authority/authority_level",
        "/source_authority/decision",
        "/raw_mirror/status",
        "/remote_source_sync/status",
        "/storage_pressure/status",
        "/repair_failure_marker/status",
        "/repair_failure_marker/found",
        "/repair_failure_marker/parse_status",
        "/operation_state",
        "/findings",
        "/findings_total",
        "/checks",
        "/budget/timed_out",
    ] {
        assert!(value.pointer(pointer).is_some(), "{pointer}");
    }
}

#[test]
fn check_documents_of_every_shape_fit_the_schema_and_the_size() {
    for n in [0usize, 1, 3, 20, 10_000] {
        for detail in [DetailLevel::Brief, DetailLevel::Full] {
            for interrupted in [None, Some(Signal::Int), Some(Signal::Term)] {
                for deterministic in [false, true] {
                    let run = CheckRun {
                        detail,
                        interrupted,
                        deterministic,
                        ..run()
                    };
                    let report = check_report(results(n), facts(), &run, &Site::plain());
                    let text = serde_json::to_string(&report).unwrap();
                    validate(&serde_json::from_str(&text).unwrap());
                    if detail == DetailLevel::Brief {
                        assert!(text.len() <= MAX_BYTES, "{n}: {}", text.len());
                    }
                    assert_eq!(report.body.findings_total, n as u64);
                }
            }
        }
    }
}

/// The types that a schema speaks of.
fn types(schema: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    match schema {
        Value::Array(all) => all.iter().for_each(|v| found.extend(types(v))),
        Value::Object(all) => {
            for (key, value) in all {
                match (key.as_str(), value) {
                    ("type", Value::String(one)) => drop(found.insert(one)),
                    ("type", Value::Array(some)) => {
                        found.extend(some.iter().filter_map(Value::as_str));
                    }
                    _ => found.extend(types(value)),
                }
            }
        }
        _ => {}
    }
    found
}

#[test]
fn no_document_type_can_hold_a_float() {
    for (name, schema) in registry::schemas() {
        // A schema inside a document is any JSON; everything else is counted.
        if name != "introspect" {
            let types = types(&schema);
            assert!(!types.contains("number"), "{name}");
            assert!(!schema.to_string().contains("\"double\""), "{name}");
        }
    }
}

fn run() -> CheckRun {
    CheckRun {
        fail_on: FailOnLevel::Error,
        deep: false,
        detail: DetailLevel::Brief,
        deterministic: false,
        budget_ms: Some(8000),
        elapsed_ms: 3,
        timed_out: false,
        interrupted: None,
        now_ms: 1_700_000_000_000,
        asked: CheckId::ALL.to_vec(),
    }
}

fn results(n: usize) -> Vec<CheckResult> {
    let findings = (0..n)
        .map(|i| {
            let severity = [Severity::Error, Severity::Warn, Severity::Info][i % 3];
            Finding::new(
                CheckId::CoveragePromises,
                "promise-without-holder",
                severity,
                format!("{i:032x}"),
                "a promise that no readable holder keeps \u{202e}\u{1b}[31m".repeat(i % 9 + 1),
            )
            .with_next(Next::SessionsShow(format!("{i:032x}")))
        })
        .collect();
    vec![
        CheckResult::ran(CheckId::CoveragePromises, findings).took(7),
        CheckResult::unknown(CheckId::ArchiveOpen, UnknownReason::LockBusy, vec![]),
        CheckResult::skipped(
            CheckId::ArchiveRows,
            SkipReason::NeedsDeep,
            Some(1_690_000_000_000),
        ),
    ]
}

fn facts() -> CheckFacts {
    let mut facts = CheckFacts {
        initialized: true,
        ..CheckFacts::default()
    };
    facts.archive.generation = Some("g00000001".into());
    facts.archive.conversations = Some(u64::MAX);
    facts.archive.head = Some("ab".repeat(32));
    facts.operation = OperationFacts {
        owner: Some(Owner {
            pid: 7,
            command: "index".into(),
            since_ms: 1_699_999_999_000,
        }),
        interrupted: 2,
    };
    facts.providers = Provider::ALL
        .iter()
        .map(|p| ProviderFacts {
            provider: *p,
            state: SourceState::Pruned,
            sources: 5,
            newer: 1,
            pruned: 3,
            unreadable: 0,
            retention_days: Some(30),
        })
        .collect();
    facts
}
