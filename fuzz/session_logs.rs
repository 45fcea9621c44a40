//! What must hold for any session log.

use std::io;

use cass::session_log::{self, Diagnosis, Form, ReadAt, Refusal, Verdict};
use serde_json::{Value, json};

/// Sound logs, one of each version; the last ends within a turn.
const SOUND: [&[u8]; 6] = [
    include_bytes!(
        "../tests/fixtures/session_logs/clean_packed_chunks__raw/sessions/--w-garden-shed--/session-00000002-0000-4000-8000-000000000002/session.jsonl"
    ),
    include_bytes!(
        "../tests/fixtures/session_logs/clean_v1__raw/sessions/--w-garden-shed--/session-00000020-0000-4000-8000-000000000020/session.v1.jsonl"
    ),
    include_bytes!(
        "../tests/fixtures/session_logs/clean_v2__raw/sessions/--w-garden-shed--/session-00000022-0000-4000-8000-000000000022/session.v2.jsonl"
    ),
    include_bytes!(
        "../tests/fixtures/session_logs/clean_v3__raw/sessions/--w-garden-shed--/session-00000023-0000-4000-8000-000000000023/session.v3.jsonl"
    ),
    include_bytes!(
        "../tests/fixtures/session_logs/clean_v4__raw/sessions/--w-garden-shed--/session-00000024-0000-4000-8000-000000000024/session.v4.jsonl"
    ),
    include_bytes!(
        "../tests/fixtures/session_logs/interrupted_calls_not_started__raw/sessions/--w-garden-shed--/session-00000031-0000-4000-8000-000000000031/session.jsonl"
    ),
];

const fn form(packed: bool) -> Form {
    Form {
        packed,
        generation: None,
    }
}

/// A raw log of any bytes.
pub fn rows(bytes: &[u8]) {
    told(bytes, form(false));
}

/// Frames. The first byte says whether the rest is such, or text that is put in frames of so many
/// lines; then two bytes flip one bit, and a third cuts the end off.
pub fn frames(bytes: &[u8]) {
    let Some(([how, at, bit, cut], rest)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let Some(lines) = usize::from(*how).checked_sub(1) else {
        told(rest, form(true));
        return;
    };
    let mut packed = in_frames(rest, 1 + lines);
    let sound = packed.clone();
    if let Some(byte) = packed.get_mut(usize::from(*at) * sound.len() / 256) {
        *byte ^= u8::try_from(1_u32 << (bit % 9) & 0xFF).unwrap();
    }
    packed.truncate(packed.len() - usize::from(*cut).min(packed.len()));
    let packed = told(&packed, form(true));
    // What a row says does not depend on the frame in which it lies.
    if rest.ends_with(b"\n") && bit % 9 == 8 && *cut == 0 {
        let raw = told(rest, form(false));
        assert_eq!(packed.verdict, raw.verdict);
        assert_eq!(packed.valid_prefix_events, raw.valid_prefix_events);
    }
}

/// A raw log whose packed rows become an event each: it says the same.
pub fn packed_rows(bytes: &[u8]) {
    let packed = told(bytes, form(false));
    if !packed.is_sound() {
        return;
    }
    let Some(single) = unpacked(bytes) else {
        return;
    };
    let single = session_log::examine(single.as_slice(), form(false)).unwrap();
    assert_eq!(single.verdict, packed.verdict, "{}", single.reason);
    assert_eq!(single.valid_prefix_events, packed.valid_prefix_events);
    assert_eq!(single.last_turn_end, packed.last_turn_end);
}

/// A sound log with edits: the first byte says which, raw or in frames, each four more are an edit.
/// What a repair keeps is what was there, from its beginning.
pub fn repair(bytes: &[u8]) {
    let Some((which, edits)) = bytes.split_first() else {
        return;
    };
    let which = usize::from(*which);
    let log = SOUND[which / 2 % SOUND.len()];
    let packed = which % 2 == 1;
    let sound: Vec<&[u8]> = lines_of(log);
    let mut rows: Vec<Vec<u8>> = sound.iter().map(|l| l.to_vec()).collect();
    let mut cut = 0;
    for edit in edits.chunks_exact(4).take(8) {
        let at = 1 + usize::from(edit[1]) % (rows.len() - 1).max(1);
        let n = usize::from(edit[2]);
        if at >= rows.len() {
            continue;
        }
        let few = at..(at + 1 + n % 12).min(rows.len());
        match edit[0] % 7 {
            0 => drop(rows.drain(few)),
            1 => {
                let again = rows[few.clone()].to_vec();
                let to = (few.end + usize::from(edit[3]) % 12).min(rows.len());
                rows.splice(to..to, again);
            }
            2 => rows.swap(at, few.end - 1),
            3 => rows[at].truncate(n),
            4 => {
                let mut torn = rows[at].clone();
                torn.truncate(n.min(torn.len().saturating_sub(1)));
                torn.extend_from_slice(&rows[at]);
                rows[at] = torn;
            }
            5 => {
                let to = usize::from(edit[3]).min(rows[at].len());
                rows[at].splice(to..to, vec![0; n]);
            }
            _ => cut = usize::from(edit[2]) << (edit[3] % 4),
        }
    }
    let mut text = rows.join(&b'\n');
    text.push(b'\n');
    let mut damaged = if packed { in_frames(&text, 5) } else { text };
    damaged.truncate(damaged.len() - cut.min(damaged.len()));
    let d = told(&damaged, form(packed));
    let Some(repair) = &d.repair else {
        return;
    };
    let after = text_of(&mended(&damaged, form(packed), &d), packed);
    let after = lines_of(&after);
    // A row is rewritten only where packed rows overlap in part: then events, not rows, are compared.
    if repair.rows_rewritten == 0 {
        let kept = after.len() - repair.closers.len();
        assert_eq!(after[..kept], sound[..kept], "{}", d.reason);
    }
}

/// A batch for a sound log: it is taken exactly if the log is sound with it, and then as a whole or
/// in parts alike.
pub fn writer(bytes: &[u8]) {
    let Some((which, batch)) = bytes.split_first() else {
        return;
    };
    let which = usize::from(*which);
    let text = SOUND[which / 2 % SOUND.len()].to_vec();
    let packed = which % 2 == 1;
    let log = if packed {
        in_frames(&text, 8)
    } else {
        text.clone()
    };
    let start = session_log::revision(&log, form(packed)).unwrap().unwrap();
    let line = |batch: &[u8]| {
        let mut whole = batch.strip_suffix(b"\n").unwrap_or(batch).to_vec();
        whole.push(b'\n');
        whole
    };
    let with = [text, line(batch)].concat();
    let sound = session_log::examine(&with, form(false)).unwrap();
    let prepared = match session_log::prepare(&log, form(packed), &start, batch).unwrap() {
        Err(Refusal::Empty) => return,
        Err(why) => {
            assert!(!sound.is_sound(), "{why:?}");
            return;
        }
        Ok(prepared) => prepared,
    };
    assert!(sound.is_sound(), "{}", sound.reason);
    let then = [log.as_slice(), &prepared.bytes].concat();
    let after = session_log::revision(&then, form(packed)).unwrap().unwrap();
    assert_eq!(after, prepared.after);
    assert_eq!(text_of(&then, packed), with);
    if let Some(first) = memchr(batch).filter(|n| n + 1 < batch.len()) {
        let (one, rest) = batch.split_at(first + 1);
        let one = session_log::prepare(&log, form(packed), &start, one)
            .unwrap()
            .unwrap();
        let then = [log.as_slice(), &one.bytes].concat();
        let both = session_log::prepare(&then, form(packed), &one.after, rest)
            .unwrap()
            .unwrap();
        assert_eq!(both.after.next_seq, after.next_seq);
    }
}

/// A log that gives few bytes at a time.
struct Short<'a>(&'a [u8]);

impl ReadAt for Short<'_> {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let n = buf.len().min(1 + usize::try_from(offset % 61).unwrap());
        ReadAt::read_at(self.0, &mut buf[..n], offset)
    }
}

/// Examines a log, and mends and examines again what that allows.
fn told(bytes: &[u8], form: Form) -> Diagnosis {
    let d = session_log::examine(bytes, form).unwrap();
    let again = session_log::examine(&Short(bytes), form).unwrap();
    assert_eq!(format!("{again:?}"), format!("{d:?}"));
    assert_eq!(d.verdict == Verdict::Clean, d.findings.is_empty());
    assert!(!d.must_refuse || d.wanted(true).is_none() || !d.is_sound());
    let Some(repair) = d.repair.as_ref().filter(|_| !d.must_refuse) else {
        return d;
    };
    let after = mended(bytes, form, &d);
    let (is, was) = (text_of(&after, form.packed), text_before(bytes, form));
    let rows = lines_of(&is);
    assert_eq!(
        rows.len() as u64,
        1 + repair.rows_kept + repair.rows_rewritten + repair.closers.len() as u64,
        "{}",
        d.reason
    );
    // Row after row is what was there, but for closers and rows that lost events.
    let (mut at, mut strange) = (0, 0);
    for row in &rows[..rows.len() - repair.closers.len()] {
        match find(&was[at..], row) {
            Some(n) => at += n + row.len(),
            None => strange += 1,
        }
    }
    assert!(strange <= repair.rows_rewritten, "{}", d.reason);
    let then = session_log::examine(&after, form).unwrap();
    assert!(then.is_sound(), "{}: then {}", d.reason, then.reason);
    assert!(then.wanted(false).is_none(), "{}", then.reason);
    assert_eq!(then.valid_prefix_events, Some(repair.events));
    if let Some(close) = then.wanted(true) {
        assert_eq!((close.edits.len(), close.rows_dropped), (0, 0));
    }
    d
}

fn mended(bytes: &[u8], form: Form, d: &Diagnosis) -> Vec<u8> {
    let mut out = Vec::new();
    session_log::mend(bytes, form, d.repair.as_ref().unwrap(), &mut out).unwrap();
    out
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| *b == b'\n')
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    if part.is_empty() {
        return Some(0);
    }
    text.windows(part.len()).position(|w| w == part)
}

fn lines_of(text: &[u8]) -> Vec<&[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.split(|b| *b == b'\n').collect()
}

/// The header in a frame of its own, then so many lines a frame.
fn in_frames(text: &[u8], lines: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut lengths = [1].into_iter().chain(std::iter::repeat(lines));
    let mut all = text.split_inclusive(|b| *b == b'\n').peekable();
    while all.peek().is_some() {
        let part: Vec<&[u8]> = all.by_ref().take(lengths.next().unwrap()).collect();
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.include_checksum(true).unwrap();
        io::Write::write_all(&mut encoder, &part.concat()).unwrap();
        out.extend_from_slice(&encoder.finish().unwrap());
    }
    out
}

fn text_of(bytes: &[u8], packed: bool) -> Vec<u8> {
    if !packed {
        return bytes.to_vec();
    }
    zstd::decode_all(bytes).unwrap()
}

/// The text of a log that may be damaged: as much as comes out of its frames.
fn text_before(bytes: &[u8], form: Form) -> Vec<u8> {
    if !form.packed {
        return bytes.to_vec();
    }
    let mut out = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        // Zero bytes between frames are passed over.
        let zeros = rest.iter().take_while(|b| **b == 0).count();
        rest = &rest[zeros..];
        let mut frame = zstd::Decoder::with_buffer(rest).unwrap().single_frame();
        let whole = io::Read::read_to_end(&mut frame, &mut out).is_ok();
        rest = frame.finish();
        if !whole {
            break;
        }
    }
    out
}

/// The text with each packed row as the events that it stands for, as another reader of JSON has
/// it; `None` where that one can't read it.
fn unpacked(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for line in lines_of(text) {
        let row: Value = serde_json::from_slice(line).ok()?;
        let Some(first) = row.get("seq0") else {
            out.extend_from_slice(line);
            out.push(b'\n');
            continue;
        };
        let (first, data) = (first.as_u64()?, &row["data"]);
        let mut time = row["time0"].as_i64()?;
        let (kind, field, list) = match row["type"].as_str()? {
            "text-chunks" => ("text-delta", "text", "texts"),
            "reasoning-chunks" => ("reasoning-delta", "text", "texts"),
            _ => ("tool-call-delta", "argumentsDelta", "args"),
        };
        for (k, text) in data[list].as_array()?.iter().enumerate() {
            if k > 0 {
                time += data["dt"][k - 1].as_i64()?;
            }
            let mut chunk = json!({"type": kind, "index": data["index"], field: text});
            for key in ["id", "name"] {
                if let Some(value) = data.get(key) {
                    chunk[key] = value.clone();
                }
            }
            let event = json!({
                "type": "assistant/chunk", "seq": first + k as u64, "time": time,
                "data": {"turn": data["turn"], "step": data["step"], "chunk": chunk},
            });
            serde_json::to_writer(&mut out, &event).ok()?;
            out.push(b'\n');
        }
    }
    Some(out)
}
