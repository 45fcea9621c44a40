//! Every document's schema, from the types that serialise it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::backups::{BackupsListBody, BackupsVerifyBody};
use super::check::CheckBody;
use super::envelope::{Body, NoBody, Report};
use super::export::{ExportBody, ExportJsonBody};
use super::health::HealthBody;
use super::index::IndexBody;
use super::introspect::{HelpBody, IntrospectBody, VersionBody};
use super::mirror::{MirrorGetBody, MirrorListBody, MirrorVerifyBody};
use super::models::ModelsStatusBody;
use super::mutation::{
    BackupCreateBody, FixBody, RepairBody, RepairDryRunBody, RestoreArchiveBody, RunsListBody,
    RunsShowBody, UndoBody,
};
use super::restore::RestoreBody;
use super::scan::ScanBody;
use super::search::SearchBody;
use super::session_log::SessionLogCheckBody;
use super::session_log_repair::SessionLogRepairBody;
use super::sessions::{SessionsListBody, SessionsShowBody};
use super::stats::StatsBody;
use super::view::ViewBody;

/// The schema of every document, by name.
#[must_use]
pub fn schemas() -> BTreeMap<String, Value> {
    [
        schema::<NoBody>(),
        schema::<BackupCreateBody>(),
        schema::<RestoreArchiveBody>(),
        schema::<FixBody>(),
        schema::<RepairDryRunBody>(),
        schema::<RepairBody>(),
        schema::<RunsListBody>(),
        schema::<RunsShowBody>(),
        schema::<UndoBody>(),
        schema::<ScanBody>(),
        schema::<BackupsListBody>(),
        schema::<BackupsVerifyBody>(),
        schema::<CheckBody>(),
        schema::<ExportBody>(),
        schema::<ExportJsonBody>(),
        schema::<HealthBody>(),
        schema::<HelpBody>(),
        schema::<IndexBody>(),
        schema::<IntrospectBody>(),
        schema::<MirrorGetBody>(),
        schema::<MirrorListBody>(),
        schema::<MirrorVerifyBody>(),
        schema::<ModelsStatusBody>(),
        schema::<SearchBody>(),
        schema::<SessionLogCheckBody>(),
        schema::<SessionLogRepairBody>(),
        schema::<SessionsListBody>(),
        schema::<RestoreBody>(),
        schema::<SessionsShowBody>(),
        schema::<StatsBody>(),
        schema::<VersionBody>(),
        schema::<ViewBody>(),
    ]
    .into_iter()
    .collect()
}

fn schema<T: Body>() -> (String, Value)
where
    Report<T>: JsonSchema,
{
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator();
    let mut value = generator.into_root_schema_for::<Report<T>>().to_value();
    if let Value::Object(root) = &mut value {
        root.insert(
            "$id".to_owned(),
            json!(format!("cass:{}/{}", T::NAME, T::VERSION)),
        );
        root.insert("title".to_owned(), json!(T::NAME));
        // Tells the documents apart: each schema accepts its own name and version alone.
        if let Some(Value::Object(properties)) = root.get_mut("properties") {
            properties.insert(
                "schema".to_owned(),
                json!({
                    "type": "object",
                    "properties": {
                        "name": { "const": T::NAME },
                        "version": { "const": T::VERSION },
                    },
                    "required": ["name", "version"],
                }),
            );
        }
        if T::NAME == NoBody::NAME
            && let Some(Value::Array(required)) = root.get_mut("required")
        {
            required.push(json!("err"));
        }
    }
    (T::NAME.to_owned(), value)
}

/// `schema` without the descriptions of enumeration values, which make up half of it: what
/// `introspect` prints. It accepts the same documents.
#[must_use]
pub fn compact(schema: Value) -> Value {
    match schema {
        Value::Array(list) => Value::Array(list.into_iter().map(compact).collect()),
        Value::Object(map) => {
            let values: Option<Vec<Value>> = map
                .get("oneOf")
                .and_then(Value::as_array)
                .and_then(|list| words(list));
            let mut out: serde_json::Map<String, Value> = map
                .into_iter()
                .filter(|(key, _)| values.is_none() || key != "oneOf")
                .map(|(key, value)| (key, compact(value)))
                .collect();
            if let Some(values) = values {
                out.insert("type".to_owned(), json!("string"));
                out.insert("enum".to_owned(), Value::Array(values));
            }
            Value::Object(out)
        }
        other => other,
    }
}

/// The values of `list`, when it is nothing but words.
fn words(list: &[Value]) -> Option<Vec<Value>> {
    let mut all = Vec::new();
    for entry in list {
        if let Some(word) = entry.get("const").filter(|w| w.is_string()) {
            all.push(word.clone());
        } else if let Some(some) = entry.get("enum").and_then(Value::as_array) {
            all.extend(some.iter().cloned());
        } else {
            return None;
        }
    }
    Some(all)
}
