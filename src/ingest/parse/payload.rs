//! Base64 payloads in messages: described by media type, size and digest, never held.

use std::borrow::Cow;

/// Base64 shorter than this stays in the text: it is no payload worth describing.
const SHORTEST: usize = 256;

/// One line that stands for a payload: media type, size in bytes, BLAKE3 of the bytes. `data` that
/// is not base64 is described as it stands.
pub(crate) fn describe(media_type: &str, data: &str) -> String {
    let (len, hash) = digest(data);
    let media_type = if media_type.is_empty() {
        "application/octet-stream"
    } else {
        media_type
    };
    format!("[{media_type}, {len} bytes, blake3 {hash}]")
}

/// One line for an attachment given by a URL: the URL itself, unless it carries its payload.
pub(crate) fn describe_url(kind: &str, url: &str) -> String {
    if let Some((media_type, data)) = data_url(url) {
        return describe(media_type, data);
    }
    if url.is_empty() {
        return format!("[{kind}]");
    }
    let shown: String = url.chars().filter(|c| !c.is_control()).take(512).collect();
    format!("[{kind} {shown}]")
}

/// `text` with the payloads of `data:` URLs in it described instead.
pub(crate) fn described_in(text: Cow<'_, str>) -> String {
    const MARK: &[u8] = b";base64,";
    if text.len() < SHORTEST || memchr::memmem::find(text.as_bytes(), MARK).is_none() {
        return text.into_owned();
    }
    let mut out = String::new();
    let mut copied = 0;
    for mark in memchr::memmem::find_iter(text.as_bytes(), MARK) {
        // A media type is short: looking no further back keeps this linear.
        let from = copied.max(mark.saturating_sub(160));
        let before = text.as_bytes().get(from..mark).unwrap_or_default();
        let Some(begin) = memchr::memmem::rfind(before, b"data:").map(|at| from + at) else {
            continue;
        };
        let media_type = text.get(begin + 5..mark).unwrap_or_default();
        if media_type.len() > 128 || media_type.contains(char::is_whitespace) {
            continue;
        }
        let data = mark + MARK.len();
        let len = text
            .get(data..)
            .unwrap_or_default()
            .bytes()
            .position(|b| value(b).is_none() && b != b'=')
            .unwrap_or(text.len() - data);
        if len < SHORTEST {
            continue;
        }
        out.push_str(text.get(copied..begin).unwrap_or_default());
        out.push_str(&describe(
            media_type,
            text.get(data..data + len).unwrap_or_default(),
        ));
        copied = data + len;
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    out
}

fn data_url(url: &str) -> Option<(&str, &str)> {
    url.strip_prefix("data:")?.split_once(";base64,")
}

/// Length and digest of what `data` decodes to, in flat memory; of `data` itself if it is no base64.
fn digest(data: &str) -> (u64, blake3::Hash) {
    let mut hasher = blake3::Hasher::new();
    let mut block = Vec::with_capacity(48 * 1024);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in data.trim_end_matches(['=', '\n', '\r', ' ']).bytes() {
        if matches!(byte, b'\n' | b'\r') {
            continue;
        }
        let Some(six) = value(byte) else {
            return (
                super::window::len64(data.len()),
                blake3::hash(data.as_bytes()),
            );
        };
        bits = (bits << 6) | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            block.push(u8::try_from((bits >> held) & 0xff).unwrap_or(0));
            if block.len() == block.capacity() {
                hasher.update(&block);
                block.clear();
            }
        }
    }
    hasher.update(&block);
    (hasher.count(), hasher.finalize())
}

fn value(byte: u8) -> Option<u8> {
    const VALUES: [Option<u8>; 256] = values();
    VALUES.get(usize::from(byte)).copied().flatten()
}

const fn values() -> [Option<u8>; 256] {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = [None; 256];
    let mut n = 0u8;
    while n < 64 {
        out[DIGITS[n as usize] as usize] = Some(n);
        n += 1;
    }
    // The alphabet for URLs.
    out[b'-' as usize] = Some(62);
    out[b'_' as usize] = Some(63);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_is_described_by_what_it_decodes_to() {
        let expected = format!("[image/png, 5 bytes, blake3 {}]", blake3::hash(b"hello"));
        assert_eq!(describe("image/png", "aGVsbG8="), expected);
        assert_eq!(describe("image/png", "aGVs\nbG8="), expected);
        assert_eq!(
            describe_url("image", "data:image/png;base64,aGVsbG8="),
            expected
        );
        let text = format!("[x, 3 bytes, blake3 {}]", blake3::hash(b"a b"));
        assert_eq!(describe("x", "a b"), text);
        assert_eq!(
            describe_url("image", "https://x/y.png"),
            "[image https://x/y.png]"
        );
    }

    #[test]
    fn payloads_leave_a_text_and_the_rest_of_it_stays() {
        let payload = "QUFB".repeat(100);
        let text = format!("see data:image/png;base64,{payload}) and ;base64, ünï");
        let out = described_in(Cow::Borrowed(&text));
        let hash = blake3::hash(&vec![b'A'; 300]);
        assert_eq!(
            out,
            format!("see [image/png, 300 bytes, blake3 {hash}]) and ;base64, ünï")
        );
        assert_eq!(
            described_in(Cow::Borrowed("data:a;base64,QUFB")),
            "data:a;base64,QUFB"
        );
    }
}
