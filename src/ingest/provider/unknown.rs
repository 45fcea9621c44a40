//! Lines that no harness is known to write: kept as records of the file's own session.

use std::path::Path;

use super::{LogReader, RawRecord, Reading, stem};
use crate::ingest::parse::json;
use crate::ingest::parse::line::Line;
use crate::model::record::{Disposition, Facts};

#[derive(Debug)]
pub(super) struct UnknownReader {
    session: String,
}

impl UnknownReader {
    pub(super) fn new(path: &Path) -> Self {
        UnknownReader {
            session: stem(path),
        }
    }
}

impl LogReader for UnknownReader {
    fn first_keys(&self) -> &'static [&'static str] {
        &["type", "id", "timestamp"]
    }

    fn is_record(&self, line: &Line<'_>) -> bool {
        line.kind.is_some()
    }

    fn read(&mut self, record: RawRecord<'_>) -> Reading {
        Reading {
            session: self.session.clone(),
            native_id: None,
            native_parent: None,
            record_type: json::owned(record.line.and_then(|l| l.kind)).unwrap_or_default(),
            time_ms: None,
            disposition: Disposition::Unknown,
            facts: Facts::default(),
        }
    }
}
