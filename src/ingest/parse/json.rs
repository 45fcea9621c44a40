//! JSON read without copying: the fields a reader names, as raw text, and the strings in them.
//!
//! A field of an unexpected type, or one that comes twice (the last one counts), is data to deal
//! with, never a reason to give up the record; so nothing is typed before it is looked at.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Visitor};
use serde_json::value::RawValue;

/// Defines a struct whose fields are the raw values of the named keys of an object.
macro_rules! raw_object {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($field:ident = $key:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Default, Clone, Copy)]
        $vis struct $name<'a> {
            $($vis $field: Option<&'a serde_json::value::RawValue>,)+
        }

        impl<'de> serde::Deserialize<'de> for $name<'de> {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $name<'de>;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut out = $name::default();
                        while let Some(key) = map.next_key::<$crate::ingest::parse::json::Key<'de>>()? {
                            match key.as_str() {
                                $($key => out.$field = Some(map.next_value()?),)+
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(out)
                    }
                }
                d.deserialize_map(Fields)
            }
        }
    };
}
pub(crate) use raw_object;

/// A key, borrowed where it holds no escape.
pub(crate) struct Key<'a>(Cow<'a, str>);

impl Key<'_> {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: de::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E: de::Error>(self, v: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(v)))
            }

            fn visit_str<E: de::Error>(self, v: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(v.to_owned())))
            }
        }
        d.deserialize_str(Text)
    }
}

/// The string in `raw`; `None` when it is absent or no string.
pub(crate) fn text(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    let quoted = raw?.get();
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str::<String>(quoted).ok().map(Cow::Owned)
}

/// The string in `raw` as an owned, non-empty text.
pub(crate) fn owned(raw: Option<&RawValue>) -> Option<String> {
    text(raw).filter(|t| !t.is_empty()).map(Cow::into_owned)
}

/// The object in `raw`, read as `T`; `None` when it is absent or no object.
pub(crate) fn object<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Option<T> {
    let text = raw?.get();
    if !text.starts_with('{') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// The elements of the array in `raw`; `None` when it is absent or no array.
pub(crate) fn items(raw: Option<&RawValue>) -> Option<Vec<&RawValue>> {
    let text = raw?.get();
    if !text.starts_with('[') {
        return None;
    }
    serde_json::from_str(text).ok()
}

/// An element of an array: what a content is made of.
#[derive(Debug)]
pub(crate) enum Element<'a, T> {
    /// A string.
    Text(Cow<'a, str>),
    /// An object.
    Object(T),
    /// Anything else.
    Other,
}

/// The elements of the array in `raw`, objects read as `T` in the same pass; none when it is no
/// array.
pub(crate) fn elements<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Vec<Element<'a, T>> {
    let Some(array) = raw.map(RawValue::get).filter(|text| text.starts_with('[')) else {
        return Vec::new();
    };
    if let Ok(elements) = serde_json::from_str(array) {
        return elements;
    }
    // One that can't be read, such as a number out of range, doesn't take the others with it.
    items(raw)
        .unwrap_or_default()
        .into_iter()
        .map(|raw| match (text(Some(raw)), object(Some(raw))) {
            (Some(text), _) => Element::Text(text),
            (None, Some(object)) => Element::Object(object),
            (None, None) => Element::Other,
        })
        .collect()
}

/// What a content is made of: the text or the object that it is, or the elements of its array.
pub(crate) fn parts<'a, T: Deserialize<'a>>(raw: Option<&'a RawValue>) -> Vec<Element<'a, T>> {
    if let Some(text) = text(raw) {
        return vec![Element::Text(text)];
    }
    match object(raw) {
        Some(one) => vec![Element::Object(one)],
        None => elements(raw),
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Element<'de, T> {
    fn deserialize<D: de::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Any<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Any<T> {
            type Value = Element<'de, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_borrowed_str<E: de::Error>(self, v: &'de str) -> Result<Self::Value, E> {
                Ok(Element::Text(Cow::Borrowed(v)))
            }

            fn visit_str<E: de::Error>(self, v: &str) -> Result<Self::Value, E> {
                Ok(Element::Text(Cow::Owned(v.to_owned())))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map)).map(Element::Object)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                while seq.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Element::Other)
            }

            fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
                Ok(Element::Other)
            }

            fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
                Ok(Element::Other)
            }

            fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
                Ok(Element::Other)
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
                Ok(Element::Other)
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(Element::Other)
            }
        }

        d.deserialize_any(Any(std::marker::PhantomData))
    }
}

/// Whether `raw` is `true`.
pub(crate) fn is_true(raw: Option<&RawValue>) -> bool {
    raw.is_some_and(|r| r.get() == "true")
}

/// The boolean in `raw`.
pub(crate) fn boolean(raw: Option<&RawValue>) -> Option<bool> {
    match raw?.get() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// `raw`, unless it is `null`.
pub(crate) fn present(raw: Option<&RawValue>) -> Option<&RawValue> {
    raw.filter(|r| r.get() != "null")
}

/// Milliseconds since the Unix epoch of a time stamp: ISO-8601 text, or a number of seconds,
/// milliseconds or microseconds, told apart by magnitude.
pub(crate) fn time_ms(raw: Option<&RawValue>) -> Option<i64> {
    let raw = raw?;
    if let Some(stamp) = text(Some(raw)) {
        return stamp
            .parse::<jiff::Timestamp>()
            .ok()
            .map(jiff::Timestamp::as_millisecond);
    }
    let digits = raw.get().split(['.', 'e', 'E']).next()?;
    if raw.get().contains(['e', 'E']) {
        return None;
    }
    let number = digits.parse::<i64>().ok()?;
    Some(match number.unsigned_abs() {
        0..100_000_000_000 => number.checked_mul(1000)?,
        100_000_000_000..100_000_000_000_000 => number,
        _ => number / 1000,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    raw_object! {
        struct Two { a = "a", b = "b" }
    }

    #[test]
    fn a_field_that_comes_twice_or_has_another_type_is_no_error() {
        let two: Two<'_> =
            serde_json::from_str(r#"{"a":1,"x":[{}],"\u0061":"\u00fc","b":null}"#).unwrap();
        assert_eq!(text(two.a).as_deref(), Some("ü"));
        assert_eq!(text(two.b), None);
        assert!(present(two.b).is_none());
        assert!(serde_json::from_str::<Two<'_>>("[1]").is_err());
    }

    #[test]
    fn an_element_of_another_type_takes_no_other_with_it() {
        for odd in [
            "7",
            "null",
            "true",
            "[[{}]]",
            "-1.5",
            "1e400",
            "99999999999999999999",
        ] {
            let array = format!(r#"["x\n",{odd},{{"a":"y","q":[1]}},"z"]"#);
            let raw = serde_json::from_str::<&RawValue>(&array).unwrap();
            let read: Vec<String> = elements::<Two<'_>>(Some(raw))
                .into_iter()
                .map(|e| match e {
                    Element::Text(text) => text.into_owned(),
                    Element::Object(two) => text(two.a).unwrap().into_owned(),
                    Element::Other => "-".to_owned(),
                })
                .collect();
            assert_eq!(read, ["x\n", "-", "y", "z"], "{odd}");
        }
        assert!(elements::<Two<'_>>(None).is_empty());
    }

    #[test]
    fn times_are_told_apart_by_magnitude() {
        let of = |s: &str| time_ms(Some(serde_json::from_str::<&RawValue>(s).unwrap()));
        assert_eq!(of("\"1970-01-01T00:00:01.5Z\""), Some(1500));
        assert_eq!(of("1750000000"), Some(1_750_000_000_000));
        assert_eq!(of("1750000000000"), Some(1_750_000_000_000));
        assert_eq!(of("1750000000000000"), Some(1_750_000_000_000));
        assert_eq!(of("1750000000.25"), Some(1_750_000_000_000));
        assert_eq!(of("\"yesterday\""), None);
        assert_eq!(of("1e400"), None);
        assert_eq!(of("{}"), None);
    }
}
