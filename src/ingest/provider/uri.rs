//! Paths in the form of URIs.

/// The path that a `file:` URI names; `None` for any other URI.
pub(super) fn file_path(uri: &str) -> Option<String> {
    let rest = uri.strip_prefix("file://")?;
    let path = decoded(rest);
    let drive = path.as_bytes();
    // file:///c%3A/x is c:/x.
    Some(match drive {
        [b'/', letter, b':', ..] if letter.is_ascii_alphabetic() => {
            path.get(1..).unwrap_or_default().to_owned()
        }
        _ => path,
    })
}

fn decoded(text: &str) -> String {
    let mut rest = text.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    while let [byte, behind @ ..] = rest {
        let escape = match behind {
            [a, b, ..] if *byte == b'%' => hex(*a).zip(hex(*b)),
            _ => None,
        };
        match escape {
            Some((a, b)) => {
                out.push(a * 16 + b);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded() {
        for (uri, want) in [
            ("file:///home/u/a%20b", Some("/home/u/a b")),
            ("file:///c%3A/Users/x", Some("c:/Users/x")),
            ("file:///a%zz%c3%bc%", Some("/a%zzü%")),
            ("vscode-remote://host/a", None),
            ("/plain", None),
        ] {
            assert_eq!(file_path(uri).as_deref(), want, "{uri}");
        }
    }
}
