//! Every document's schema, from the types that serialise it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::check::CheckBody;
use super::envelope::{Body, NoBody, Report};
use super::export::{ExportBody, ExportJsonBody};
use super::health::HealthBody;
use super::index::IndexBody;
use super::introspect::{HelpBody, IntrospectBody, VersionBody};
use super::mirror::{MirrorGetBody, MirrorListBody, MirrorVerifyBody};
use super::sessions::{SessionsListBody, SessionsShowBody};

/// The schema of every document, by name.
#[must_use]
pub fn schemas() -> BTreeMap<String, Value> {
    [
        schema::<NoBody>(),
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
        schema::<SessionsListBody>(),
        schema::<SessionsShowBody>(),
        schema::<VersionBody>(),
    ]
    .into_iter()
    .collect()
}

fn schema<T: Body>() -> (String, Value)
where
    Report<T>: JsonSchema,
{
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut value = generator.into_root_schema_for::<Report<T>>().to_value();
    if let Value::Object(root) = &mut value {
        root.insert("$id".to_owned(), json!(format!("cass:{}/{}", T::NAME, T::VERSION)));
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
