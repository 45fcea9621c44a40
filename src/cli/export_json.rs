//! The document of `export --format json`, written as it is read: a session may be larger than
//! memory. Messages come first; the verdict comes last, when it is known.

use std::io::{self, Write};

use crate::error::{Error, ErrorKind, Result};
use crate::model::path::hex;
use crate::report::envelope::{Report, Site};
use crate::report::export::{ExportJsonTail, ExportMessage, ExportSession};

/// Writes one document.
#[derive(Debug)]
pub struct JsonExport<W> {
    out: W,
    hasher: blake3::Hasher,
    bytes: u64,
    id: Option<String>,
    messages: u64,
    failed: Option<io::Error>,
}

impl<W: Write> JsonExport<W> {
    /// Writes nothing yet.
    #[must_use]
    pub fn new(out: W) -> Self {
        JsonExport {
            out,
            hasher: blake3::Hasher::new(),
            bytes: 0,
            id: None,
            messages: 0,
            failed: None,
        }
    }

    /// Begins the document.
    ///
    /// # Errors
    /// `io` when it can't be written.
    pub fn session(&mut self, session: &ExportSession) -> Result<()> {
        self.id = Some(session.id.clone());
        let text = serde_json::to_vec(session).map_err(|e| unwritable(&e))?;
        self.put(b"{\"session\":")?;
        self.put(&text)?;
        self.put(b",\"messages\":[")
    }

    /// Adds a message.
    ///
    /// # Errors
    /// `io` when it can't be written.
    pub fn message(&mut self, message: &ExportMessage) -> Result<()> {
        let text = serde_json::to_vec(message).map_err(|e| unwritable(&e))?;
        self.put(if self.messages == 0 { b"\n" } else { b",\n" })?;
        self.messages += 1;
        self.put(&text)
    }

    /// Whether the document was begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.id.is_some()
    }

    /// Id of the session; empty before it is known.
    #[must_use]
    pub fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// The error that the writer gave, if it did.
    pub fn take_io_error(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// Ends the document with its verdict; gives the writer, the number of bytes and their BLAKE3.
    ///
    /// # Errors
    /// What the writer gives.
    pub fn end(mut self, error: Option<&Error>, site: &Site) -> io::Result<(W, u64, String)> {
        let tail = ExportJsonTail {
            messages_total: self.messages,
        };
        let mut report = Report::ok(tail);
        if let Some(error) = error {
            report = report.failing(error, false, site);
        }
        let text = serde_json::to_vec(&report)?;
        // The tail is an object of its own: without its first brace it goes on with this one.
        let rest = text.get(1..).unwrap_or_default();
        for part in [&b"\n],"[..], rest, b"\n"] {
            self.hasher.update(part);
            self.bytes += u64::try_from(part.len()).unwrap_or(u64::MAX);
            self.out.write_all(part)?;
        }
        self.out.flush()?;
        Ok((self.out, self.bytes, hex(self.hasher.finalize().as_bytes())))
    }

    fn put(&mut self, part: &[u8]) -> Result<()> {
        self.hasher.update(part);
        self.bytes = self
            .bytes
            .saturating_add(u64::try_from(part.len()).unwrap_or(u64::MAX));
        self.out.write_all(part).map_err(|e| {
            let error = Error::new(
                ErrorKind::of(&e),
                format!("the export can't be written: {e}"),
            );
            self.failed = Some(e);
            error
        })
    }
}

fn unwritable(e: &serde_json::Error) -> Error {
    Error::new(
        ErrorKind::Internal,
        format!("a message can't be written as JSON: {e}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::provider::Provider;
    use crate::model::record::{MessageKind, Role};
    use crate::report::export::Locator;

    fn session() -> ExportSession {
        ExportSession {
            id: "ab".into(),
            native_id: "n".into(),
            provider: Provider::Claude,
            source_id: "local".into(),
            title: None,
            workspace: None,
            parent_session: None,
            branch_of: None,
            harness_version: None,
            started_at: None,
            ended_at: None,
        }
    }

    fn message(text: &str) -> ExportMessage {
        ExportMessage {
            id: "1".into(),
            record_hash: "00".into(),
            occurrence: 1,
            part: 0,
            role: Role::User,
            kind: MessageKind::Text,
            text: text.into(),
            time: None,
            tool_name: None,
            call_id: None,
            model: None,
            is_error: None,
            native_id: None,
            native_parent: None,
            superseded: false,
            locator: Locator {
                source: "k".into(),
                seq: 1,
                offset: 0,
                len: 1,
            },
        }
    }

    #[test]
    fn every_export_is_one_document_of_its_schema() {
        let schema = crate::report::registry::schemas()
            .remove("export-json")
            .unwrap();
        let schema = jsonschema::validator_for(&schema).unwrap();
        let broken = Error::new(ErrorKind::VerifyFailed, "object damaged");
        for (count, error) in [(0, None), (1, None), (3, Some(&broken))] {
            let mut sink = JsonExport::new(Vec::new());
            sink.session(&session()).unwrap();
            for _ in 0..count {
                sink.message(&message("a \u{1b}[31m \u{202e} \" \n"))
                    .unwrap();
            }
            let (bytes, length, digest) = sink.end(error, &Site::plain()).unwrap();
            assert_eq!(length, bytes.len() as u64);
            assert_eq!(digest, blake3::hash(&bytes).to_hex().to_string());
            let value: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
            assert!(
                schema.is_valid(&value),
                "{:?}",
                schema.validate(&value).err()
            );
            assert_eq!(value["messages"].as_array().unwrap().len(), count);
            assert_eq!(value["messages_total"], count);
            assert_eq!(value.get("err").is_some(), error.is_some());
        }
    }
}
