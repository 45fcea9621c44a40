//! A row of a foreign database, and the bytes that stand for it.

use std::borrow::Cow;

/// A value, as SQLite stores it.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A float.
    Real(f64),
    /// Text, which need not be UTF-8.
    Text(Vec<u8>),
    /// Bytes.
    Blob(Vec<u8>),
}

/// One row: its columns in the order of its table.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    columns: Vec<(String, Value)>,
}

impl Row {
    /// A row of these columns.
    #[must_use]
    pub fn new(columns: Vec<(String, Value)>) -> Row {
        Row { columns }
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[(String, Value)] {
        &self.columns
    }

    /// A column's value; `None` when there is no such column.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.columns.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// A column's text: text, or a blob that is UTF-8 (harnesses store JSON as either); invalid
    /// bytes of a text appear as U+FFFD. `None` for anything else.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.get(name)? {
            Value::Text(bytes) => Some(String::from_utf8_lossy(bytes)),
            Value::Blob(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Value::Null | Value::Integer(_) | Value::Real(_) => None,
        }
    }

    /// A column's text, owned and not empty.
    #[must_use]
    pub fn owned(&self, name: &str) -> Option<String> {
        self.text(name)
            .filter(|t| !t.is_empty())
            .map(Cow::into_owned)
    }

    /// A column's integer; a float without a fraction and a text of digits count.
    #[must_use]
    pub fn integer(&self, name: &str) -> Option<i64> {
        match self.get(name)? {
            Value::Integer(n) => Some(*n),
            #[allow(clippy::cast_possible_truncation)]
            Value::Real(x) if x.fract() == 0.0 && x.abs() < 9e15 => Some(*x as i64),
            Value::Text(t) => std::str::from_utf8(t).ok()?.trim().parse().ok(),
            Value::Null | Value::Real(_) | Value::Blob(_) => None,
        }
    }

    /// Where the value of a column begins in [`Row::canonical`]; `None` for NULL and a column that
    /// is not there.
    #[must_use]
    pub fn canonical_place(&self, name: &str) -> Option<usize> {
        let length = |value: &Value| match value {
            Value::Null => None,
            Value::Integer(_) | Value::Real(_) => Some(8),
            Value::Text(b) | Value::Blob(b) => Some(b.len()),
        };
        length(self.get(name)?)?;
        // Name's length, name, type, value's length.
        let head = |n: &str| 4 + n.len() + 1 + 8;
        let before: usize = self
            .columns
            .iter()
            .filter(|(n, _)| n.as_str() < name)
            .filter_map(|(n, v)| Some(head(n) + length(v)?))
            .sum();
        Some(before + head(name))
    }

    /// The raw record that a row is: its columns that are not NULL, sorted by name, each as the
    /// name's length (u32, little-endian), the name, the type (1 integer, 2 float, 3 text, 4 blob),
    /// the value's length (u64, little-endian) and the value; numbers are 8 bytes, big-endian.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        let mut sorted: Vec<&(String, Value)> = self.columns.iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        let mut out = Vec::new();
        for (name, value) in sorted {
            let (kind, bytes): (u8, Cow<'_, [u8]>) = match value {
                Value::Null => continue,
                Value::Integer(n) => (1, Cow::Owned(n.to_be_bytes().to_vec())),
                Value::Real(x) => (2, Cow::Owned(x.to_be_bytes().to_vec())),
                Value::Text(t) => (3, Cow::Borrowed(t)),
                Value::Blob(b) => (4, Cow::Borrowed(b)),
            };
            out.extend(u32::try_from(name.len()).unwrap_or(u32::MAX).to_le_bytes());
            out.extend(name.as_bytes());
            out.push(kind);
            out.extend(u64::try_from(bytes.len()).unwrap_or(u64::MAX).to_le_bytes());
            out.extend(&*bytes);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_bytes_depend_on_content_alone() {
        let row = |columns: &[(&str, Value)]| {
            Row::new(
                columns
                    .iter()
                    .map(|(n, v)| ((*n).to_owned(), v.clone()))
                    .collect(),
            )
        };
        let a = row(&[
            ("b", Value::Integer(-2)),
            ("a", Value::Text(b"x".to_vec())),
            ("n", Value::Null),
        ]);
        let b = row(&[("a", Value::Text(b"x".to_vec())), ("b", Value::Integer(-2))]);
        assert_eq!(a.canonical(), b.canonical());
        let expected = b"\x01\0\0\0a\x03\x01\0\0\0\0\0\0\0x\
                         \x01\0\0\0b\x01\x08\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xfe";
        assert_eq!(a.canonical(), expected);
        let blob = row(&[("a", Value::Blob(b"x".to_vec())), ("b", Value::Integer(-2))]);
        assert_ne!(a.canonical(), blob.canonical());
        assert_eq!(a.canonical_place("a"), Some(14));
        assert_eq!(a.canonical_place("b"), Some(29));
        assert_eq!(expected[14..15], *b"x");
        assert_eq!(expected[29..], (-2i64).to_be_bytes());
        assert_eq!(a.canonical_place("n"), None);
        assert_eq!(a.canonical_place("x"), None);
    }

    #[test]
    fn values_are_read_as_harnesses_mean_them() {
        let row = Row::new(vec![
            ("t".into(), Value::Text(b" 42 ".to_vec())),
            ("r".into(), Value::Real(7.0)),
            ("f".into(), Value::Real(7.5)),
            ("j".into(), Value::Blob(b"{}".to_vec())),
            ("x".into(), Value::Blob(vec![0xff])),
        ]);
        assert_eq!(row.integer("t"), Some(42));
        assert_eq!(row.integer("r"), Some(7));
        assert_eq!(row.integer("f"), None);
        assert_eq!(row.text("j").as_deref(), Some("{}"));
        assert_eq!(row.text("x"), None);
        assert_eq!(row.owned("none"), None);
    }
}
