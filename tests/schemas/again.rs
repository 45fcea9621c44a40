//! A migration that failed is not tried by every index, and the command that is printed lets it be tried
//! again. A repair that failed some day is no reason against one.

use std::fs;

use serde_json::{Value, json};

use super::frozen::Frozen;
use super::lab::{apply, db, run_argv};
use super::sandbox::Sandbox;
use super::{present, schema};

fn marked(marker: &str) -> Sandbox {
    let s = Frozen::of(1).copied();
    let path = s.data().join("doctor/failures/marker.json");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, marker).unwrap();
    s
}

fn of(kind: &str) -> String {
    json!({
        "format": 1,
        "run_id": "run-01a22cd3-ddab-7565-aa91-fb92e37fdc80",
        "kind": kind,
        "fingerprint": "x",
        "at_ms": 1,
        "error_kind": "io",
    })
    .to_string()
}

#[test]
fn what_failed_is_tried_again_when_its_marker_is_cleared() {
    let s = marked(&of("migrate"));
    let then = schema(&db(&s));
    s.put(super::sources::NEW, &super::sources::new());
    let index = s.run(&["index"]).expect(21);
    assert_eq!(index.text("/err/kind"), "blocked");
    assert_eq!(index.at("/captured/captures"), &Value::from(1));
    assert_eq!(schema(&db(&s)), then);
    let argv = index.at("/err/hint_argv").as_array().unwrap().iter();
    let argv: Vec<String> = argv
        .skip(1)
        .map(|a| a.as_str().unwrap().to_owned())
        .collect();
    let planned = run_argv(&s, &argv).expect(0);
    apply(&s, &planned).expect(0);
    let index = s.run(&["index"]).expect(0);
    assert!(index.at("/migrated").is_object(), "{}", index.stdout);
    assert_eq!(index.at("/archived/conversations_added"), &Value::from(1));
    assert_eq!(schema(&db(&s)), present());
}

#[test]
fn what_else_failed_keeps_no_index_from_migrating() {
    for marker in [of("repair"), "{ torn".to_owned()] {
        let s = marked(&marker);
        let index = s.run(&["index"]).expect(0);
        assert!(index.at("/migrated").is_object(), "{}", index.stdout);
        assert_eq!(schema(&db(&s)), present());
    }
}
