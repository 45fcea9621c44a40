//! An event as the row of a store.

use super::event::{self, Row};
use super::json;

/// The columns of one event, but the session's id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRow {
    /// Its number.
    pub seq: i64,
    /// Its type.
    pub kind: String,
    /// Milliseconds since the Unix epoch.
    pub time: i64,
    /// JSON text.
    pub data: String,
    /// The numbers of its sources, as the store keeps them.
    pub sources: Option<Vec<u8>>,
    /// JSON text.
    pub operation: Option<String>,
    /// 1 for an event that a reader may pass over; else none.
    pub ignorable: Option<i64>,
}

/// The row of a line. A packed row is none: the store packs rows by a form of its own.
///
/// # Errors
/// Why it has no row.
pub fn store_row(line: &[u8], version: u64) -> Result<StoreRow, &'static str> {
    let event = match event::decode(line, version) {
        Row::Event(event) => event,
        Row::Packed(_) => return Err("it is packed, and a store packs rows by itself"),
        Row::Header => return Err("it is a header"),
        Row::Bad(why) => return Err(why),
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| "it is not UTF-8");
    let sources = match event.sources {
        None => None,
        Some(list) => Some(sources(list).ok_or("its sources are no list of numbers")?),
    };
    let ignorable = match event.ignorable {
        None => None,
        Some(b"true") => Some(1),
        Some(_) => return Err("its mark for passing over is not true"),
    };
    if event.odd_key {
        return Err("it has a key that a store has no column for");
    }
    Ok(StoreRow {
        seq: i64::try_from(event.seq).map_err(|_| "its number is too large")?,
        kind: text(&event.kind)?,
        time: event.time.ok_or("it has no time")?,
        data: text(event.data.ok_or("it has no data")?)?,
        sources,
        operation: event.operation.map(text).transpose()?,
        ignorable,
    })
}

/// The first as it is, of the others the differences in zigzag, all in LEB128.
fn sources(list: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut last: Option<i64> = None;
    for element in json::elements(list)? {
        let n = json::integer(element).filter(|n| *n >= 0)?;
        let mut value = match last {
            None => n.unsigned_abs(),
            Some(last) => {
                let step = n - last;
                ((step << 1) ^ (step >> 63)).cast_unsigned()
            }
        };
        last = Some(n);
        while value >= 0x80 {
            out.push(u8::try_from(value & 0x7F).unwrap_or(0) | 0x80);
            value >>= 7;
        }
        out.push(u8::try_from(value).unwrap_or(0));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_differences() {
        assert_eq!(sources(b"[4,5,6,5]"), Some(vec![4, 2, 2, 1]));
        assert_eq!(sources(b"[128]"), Some(vec![0x80, 0x01]));
        assert_eq!(sources(b"[]"), Some(vec![]));
        assert_eq!(sources(b"[\"4\"]"), None);
    }

    #[test]
    fn a_line_has_its_row() {
        let line = br#"{"type":"turn/end","seq":7,"time":9,"data":{"turn":1},"ignorable":true}"#;
        let row = store_row(line, 0).expect("a row");
        assert_eq!((row.seq, row.time, row.ignorable), (7, 9, Some(1)));
        assert_eq!(
            (row.kind.as_str(), row.data.as_str()),
            ("turn/end", r#"{"turn":1}"#)
        );
        assert!(
            store_row(
                br#"{"type":"turn/end","seq":7,"time":9,"data":{},"x":1}"#,
                0
            )
            .is_err()
        );
    }
}
