//! OpenClaw's `sessions.json`: which key of a conversation has which session now. Where it knows a
//! session, it knows its title and what spawned it.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Known, header};
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::provider::Start;

raw_object! {
    struct Held {
        session_id = "sessionId",
        label = "label",
        display_name = "displayName",
        subject = "subject",
        origin = "origin",
        spawned_by = "spawnedBy",
    }
}

/// The store beside a session's file.
pub(in super::super) fn beside(path: &Path) -> PathBuf {
    path.with_file_name("sessions.json")
}

/// What a file of OpenClaw says by its name and by the store beside it.
pub(in super::super) fn known(start: Start<'_>) -> Known {
    let fallback = by_name(start.path);
    let session = start
        .first_objects()
        .take(16)
        .find_map(|(_, text)| header(text))
        .unwrap_or_else(|| fallback.clone());
    let bytes = start.siblings.get(&beside(start.path));
    let store = bytes.map(|b| entries(b)).unwrap_or_default();
    let own = store.iter().find(|(_, e)| e.session == session);
    let parent = own
        .and_then(|(_, e)| e.spawned_by.as_ref())
        .and_then(|key| store.iter().find(|(k, _)| k == key))
        .map(|(_, e)| e.session.clone());
    Known {
        fallback,
        title: own.and_then(|(_, e)| e.title.clone()),
        parent,
    }
}

/// `<id>`, `<id>-topic-<n>`, `<id>.checkpoint.<uuid>`, each with `.jsonl` and what a tombstone adds.
fn by_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut id: &str = &name;
    for mark in [".jsonl", ".checkpoint.", "-topic-"] {
        id = id.split_once(mark).map_or(id, |(id, _)| id);
    }
    id.to_owned()
}

/// What the store holds under one key.
#[derive(Debug)]
struct Kept {
    session: String,
    title: Option<String>,
    spawned_by: Option<String>,
}

/// The entries of a store; of one whose end is not there, those that are.
fn entries(bytes: &[u8]) -> Vec<(String, Kept)> {
    struct All(Vec<(String, Kept)>);
    impl<'de> Visitor<'de> for &mut All {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some((key, raw)) = map.next_entry::<String, &'de RawValue>()? {
                let Some(held) = json::object::<Held<'_>>(Some(raw)) else {
                    continue;
                };
                let Some(session) = json::owned(held.session_id) else {
                    continue;
                };
                let origin = json::object::<Held<'_>>(held.origin).unwrap_or_default();
                let title = [held.label, held.display_name, held.subject, origin.label]
                    .into_iter()
                    .find_map(json::owned);
                let kept = Kept {
                    session,
                    title,
                    spawned_by: json::owned(held.spawned_by),
                };
                self.0.push((key, kept));
            }
            Ok(())
        }
    }
    let mut all = All(Vec::new());
    // An error means that no more can be read; what was read stands.
    let _ = serde_json::Deserializer::from_slice(bytes).deserialize_map(&mut all);
    all.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_cut_off_gives_what_comes_before() {
        let whole =
            br#"{"k":{"sessionId":"a","label":"L"},"j":3,"l":{"sessionId":"b","spawnedBy":"k"}}"#;
        assert_eq!(entries(whole).len(), 2);
        let cut = entries(&whole[..60]);
        assert_eq!(cut.len(), 1);
        assert_eq!(cut[0].1.title.as_deref(), Some("L"));
        assert!(entries(b"[1]").is_empty() && entries(b"").is_empty());
    }

    #[test]
    fn names_say_the_session() {
        for name in [
            "a-1.jsonl",
            "a-1-topic-7.jsonl",
            "a-1.checkpoint.b.jsonl",
            "a-1.jsonl.deleted.2026",
            "a-1.jsonl.reset.2026.zst",
        ] {
            assert_eq!(by_name(&Path::new("/s").join(name)), "a-1");
        }
    }
}
