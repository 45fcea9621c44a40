//! Real sessions with the known kinds of damage, from the file to the shown session: what no
//! parser could read is shown with place and reason, and not one record behind it is lost.
//!
//! What must be there is known without the parser: the BLAKE3 of each line of the sound sample.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::sandbox::{Sandbox, sample};

struct Sample {
    rel: &'static str,
    lines: Vec<Vec<u8>>,
    /// Hashes of the lines that hold messages.
    speaking: BTreeSet<String>,
    messages: usize,
}

/// What became of a file.
struct Seen {
    code: i32,
    /// Hashes of the records that hold messages.
    speaking: BTreeSet<String>,
    texts: Vec<String>,
    messages: usize,
    records: u64,
    /// Offset, length and reason of what holds no record.
    skips: Vec<(u64, u64, String)>,
    accounting: Value,
}

fn hash(line: &[u8]) -> String {
    blake3::hash(line).to_hex().to_string()
}

fn index(sandbox: &Sandbox, rel: &str, bytes: &[u8]) -> Seen {
    let path = sandbox.put(rel, bytes);
    let code = sandbox.run(&["index"]).code;
    assert!(
        sandbox.get_with(&path, &[]) == bytes,
        "captured before anything is parsed"
    );
    let sessions = sandbox.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    let id = sessions[0]["id"].as_str().unwrap();
    let shown = sandbox.run(&["sessions", "show", id]).expect(0);
    let accounting = shown.at("/sources/0/accounting").clone();
    let sum: u64 = accounting
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != "length")
        .map(|(_, n)| n.as_u64().unwrap())
        .sum();
    assert_eq!(
        (sum, &accounting["length"]),
        (bytes.len() as u64, &Value::from(bytes.len()))
    );
    let skips: Vec<(u64, u64, String)> = shown
        .at("/skips")
        .as_array()
        .unwrap()
        .iter()
        .map(|s| {
            let (offset, len) = (s["offset"].as_u64().unwrap(), s["len"].as_u64().unwrap());
            let before = &bytes[..usize::try_from(offset).unwrap()];
            let line = before.iter().filter(|b| **b == b'\n').count() + 1;
            assert_eq!(s["line"], line, "{s}");
            (offset, len, s["reason"].as_str().unwrap().to_owned())
        })
        .collect();
    let messages = sandbox.messages(id);
    let text = |m: &Value, name: &str| m[name].as_str().unwrap().to_owned();
    Seen {
        code,
        speaking: messages.iter().map(|m| text(m, "record_hash")).collect(),
        texts: messages.iter().map(|m| text(m, "text")).collect(),
        messages: messages.len(),
        records: shown.number("/records"),
        skips,
        accounting,
    }
}

impl Sample {
    fn new(rel: &'static str, from: &str) -> Sample {
        let bytes = sample(from);
        let lines: Vec<Vec<u8>> = bytes
            .split(|b| *b == b'\n')
            .filter(|l| !l.is_empty())
            .map(<[u8]>::to_vec)
            .collect();
        let mut sample = Sample {
            rel,
            lines,
            speaking: BTreeSet::new(),
            messages: 0,
        };
        let clean = sample.seen(&sample.whole());
        assert_eq!((clean.code, &clean.skips[..]), (0, &[][..]));
        let all: BTreeSet<String> = sample.lines.iter().map(|l| hash(l)).collect();
        assert!(clean.speaking.is_subset(&all), "a message of no line");
        assert!(clean.speaking.len() >= 10);
        sample.messages = clean.messages;
        sample.speaking = clean.speaking;
        sample
    }

    fn whole(&self) -> Vec<u8> {
        join(&self.lines)
    }

    fn seen(&self, bytes: &[u8]) -> Seen {
        index(&Sandbox::new(), self.rel, bytes)
    }

    /// Numbers of lines that hold messages, from the middle on.
    fn middle(&self) -> Vec<usize> {
        let from = self.lines.len() / 2;
        (from..self.lines.len() - 2)
            .filter(|n| self.speaks(*n))
            .collect()
    }

    fn speaks(&self, n: usize) -> bool {
        self.speaking.contains(&hash(&self.lines[n]))
    }

    /// Indexes a damaged copy: all lines but `lost` must have what they had.
    #[track_caller]
    fn damaged(&self, bytes: &[u8], lost: &[usize], skips: &[(usize, usize, &str)]) -> Seen {
        let seen = self.seen(bytes);
        let lost: BTreeSet<String> = lost.iter().map(|n| hash(&self.lines[*n])).collect();
        for line in self.speaking.iter().filter(|h| !lost.contains(*h)) {
            assert!(
                seen.speaking.contains(line),
                "a record beside the damage is lost"
            );
        }
        let skips: Vec<(u64, u64, String)> = skips
            .iter()
            .map(|(at, len, reason)| (*at as u64, *len as u64, (*reason).to_owned()))
            .collect();
        assert_eq!(seen.skips, skips);
        seen
    }
}

fn join(lines: &[Vec<u8>]) -> Vec<u8> {
    lines
        .iter()
        .flat_map(|l| l.iter().copied().chain([b'\n']))
        .collect()
}

/// Where line `n` begins.
fn start(lines: &[Vec<u8>], n: usize) -> usize {
    lines[..n].iter().map(|l| l.len() + 1).sum()
}

fn claude() -> Sample {
    Sample::new(
        ".claude/projects/-p/68d61609-708d-431d-b552-dc582ffc947b.jsonl",
        "claude/entireio-cli/68d61609-708d-431d-b552-dc582ffc947b.jsonl",
    )
}

fn codex() -> Sample {
    let name = "rollout-2026-04-21-019dad77-8919-7173-a0d5-61b781415e5a.jsonl";
    Sample::new(
        ".codex/sessions/2026/04/21/rollout-2026-04-21-019dad77-8919-7173-a0d5-61b781415e5a.jsonl",
        &format!("codex/entireio-skills/{name}"),
    )
}

fn each(test: impl Fn(&Sample)) {
    test(&claude());
    test(&codex());
}

#[test]
fn the_sound_samples_hold_what_an_independent_count_finds() {
    let sample = claude();
    let expected: BTreeSet<String> = sample
        .lines
        .iter()
        .filter(|line| {
            let record: Value = serde_json::from_slice(line).unwrap();
            let content = &record["message"]["content"];
            let speaks = content.as_str().is_some_and(|t| !t.is_empty())
                || content.as_array().is_some_and(|b| !b.is_empty());
            speaks && ["user", "assistant"].contains(&record["type"].as_str().unwrap())
        })
        .map(|line| hash(line))
        .collect();
    assert!(expected.is_subset(&sample.speaking));
    // Codex says a text two or three times; calls and their outputs are said once in this one.
    let sample = codex();
    let said = |types: &[&str]| {
        let records = sample
            .lines
            .iter()
            .map(|l| serde_json::from_slice::<Value>(l).unwrap());
        records
            .filter(|r| types.iter().any(|t| r["payload"]["type"] == *t))
            .count()
    };
    let seen = sample.seen(&sample.whole());
    let messages = said(&["message"]) + said(&["function_call", "function_call_output"]);
    assert!(
        messages >= 10 && seen.messages >= messages,
        "{} {messages}",
        seen.messages
    );
}

#[test]
fn places_in_an_older_version_are_not_shown_for_the_newer_one() {
    let s = claude();
    let sandbox = Sandbox::new();
    let mut lines = s.lines.clone();
    lines[0].truncate(40);
    assert_eq!(
        index(&sandbox, s.rel, &join(&lines)).skips,
        [(0, 40, "fragment".to_owned())]
    );
    let whole = index(&sandbox, s.rel, &s.whole());
    assert_eq!((&whole.skips[..], whole.messages), (&[][..], s.messages));
}

#[test]
fn d01_nul_block_at_the_end() {
    each(|s| {
        let mut bytes = s.whole();
        let end = bytes.len();
        bytes.resize(end + 4096, 0);
        let seen = s.damaged(&bytes, &[], &[(end, 4096, "nul-block")]);
        assert_eq!((seen.code, seen.messages), (0, s.messages));
    });
}

#[test]
fn d02_nul_block_in_the_middle() {
    each(|s| {
        let k = s.middle()[0];
        let at = start(&s.lines, k);
        let mut bytes = s.whole();
        bytes.splice(at..at, std::iter::repeat_n(0, 700));
        let seen = s.damaged(&bytes, &[], &[(at, 700, "nul-block")]);
        assert_eq!(seen.messages, s.messages);
        // Behind the record, before its line end.
        let mut lines = s.lines.clone();
        lines[k].extend([0; 300]);
        let at = start(&lines, k) + s.lines[k].len();
        let seen = s.damaged(&join(&lines), &[], &[(at, 300, "nul-block")]);
        assert_eq!(seen.messages, s.messages);
    });
}

#[test]
fn d03_a_cut_end_is_looked_at_again_when_the_rest_comes() {
    each(|s| {
        let whole = s.whole();
        let cut = whole.len() - 38;
        let last = s.lines.len() - 1;
        let at = start(&s.lines, last);
        let sandbox = Sandbox::new();
        let seen = index(&sandbox, s.rel, &whole[..cut]);
        assert_eq!(seen.code, 0);
        assert_eq!(
            seen.skips,
            [(at as u64, (cut - at) as u64, "torn-tail".to_owned())]
        );
        assert_eq!(seen.accounting["tail_bytes"], cut - at);
        for line in s.speaking.iter().filter(|h| **h != hash(&s.lines[last])) {
            assert!(seen.speaking.contains(line));
        }
        let seen = index(&sandbox, s.rel, &whole);
        assert_eq!(
            (&seen.skips[..], &seen.speaking, seen.messages),
            (&[][..], &s.speaking, s.messages)
        );
    });
}

#[test]
fn d04_glued_records() {
    each(|s| {
        let k = s.middle()[0];
        let mut bytes = s.whole();
        bytes.remove(start(&s.lines, k + 1) - 1);
        let seen = s.damaged(&bytes, &[], &[]);
        assert_eq!(seen.messages, s.messages);

        // The first one was cut before the second one was written.
        let mut lines = s.lines.clone();
        let part = lines[k].len() * 6 / 10;
        let next = lines.remove(k + 1);
        lines[k].truncate(part);
        lines[k].extend(next);
        let at = start(&lines, k);
        s.damaged(&join(&lines), &[k], &[(at, part, "fragment")]);
    });
}

#[test]
fn d05_raw_line_end_in_a_string() {
    each(|s| {
        let (k, at) = s
            .middle()
            .into_iter()
            .find_map(|k| Some((k, memchr::memmem::find(&s.lines[k], b"\\n")?)))
            .unwrap();
        let mut lines = s.lines.clone();
        lines[k].splice(at..at + 2, [b'\n']);
        let seen = s.damaged(&join(&lines), &[k], &[]);
        assert_eq!(seen.messages, s.messages);
        assert!(
            seen.speaking.contains(&hash(&lines[k])),
            "its record is the lines together"
        );
    });
}

#[test]
fn d06_unicode_line_ends_are_text() {
    each(|s| {
        let (k, at) = s
            .middle()
            .into_iter()
            .find_map(|k| Some((k, memchr::memmem::find(&s.lines[k], b" the ")?)))
            .unwrap();
        let mut lines = s.lines.clone();
        lines[k].splice(at..at, "\u{2028}\u{2029}\u{85}".bytes());
        let seen = s.damaged(&join(&lines), &[k], &[]);
        assert!(seen.speaking.contains(&hash(&lines[k])));
        assert!(
            seen.texts
                .iter()
                .any(|t| t.contains("\u{2028}\u{2029}\u{85} the "))
        );
    });
}

#[test]
fn d07_invalid_utf8() {
    each(|s| {
        // A record that was cut inside a character, then a line end.
        let k = s.middle()[0];
        let mut lines = s.lines.clone();
        let part = lines[k].len() / 2;
        lines[k].truncate(part);
        lines[k].extend([0xe6, 0x87]);
        let at = start(&lines, k);
        s.damaged(&join(&lines), &[k], &[(at, part + 2, "fragment")]);

        // A byte in a text that is no UTF-8: the record is read, the byte is shown as such.
        let (k, at) = s
            .middle()
            .into_iter()
            .find_map(|k| Some((k, memchr::memmem::find(&s.lines[k], b" the ")?)))
            .unwrap();
        let mut lines = s.lines.clone();
        lines[k].insert(at, 0xff);
        let seen = s.damaged(&join(&lines), &[k], &[]);
        assert_eq!(seen.messages, s.messages);
        assert!(seen.texts.iter().any(|t| t.contains("\u{fffd} the ")));
    });
}

#[test]
fn d07_a_character_across_any_buffer_end() {
    // Long runs of characters of three bytes, so that whatever size is read at a time ends in one.
    let s = claude();
    let long = format!(
        "{{\"type\":\"user\",\"uuid\":\"long\",\"sessionId\":\"68d61609-708d-431d-b552-dc582ffc947b\",\
         \"message\":{{\"role\":\"user\",\"content\":\"{}\"}}}}",
        "\u{6f22}".repeat(150_000)
    );
    let mut lines = s.lines.clone();
    lines.insert(3, long.into_bytes());
    let seen = s.damaged(&join(&lines), &[], &[]);
    let text = seen
        .texts
        .iter()
        .find(|t| t.starts_with('\u{6f22}'))
        .unwrap();
    assert!(text.len() == 450_000 && !text.contains('\u{fffd}'));
}

#[test]
fn d08_byte_order_mark_and_other_line_ends() {
    each(|s| {
        let mut bytes = b"\xef\xbb\xbf".to_vec();
        for line in &s.lines {
            bytes.extend_from_slice(line);
            bytes.extend_from_slice(b"\r\n");
        }
        let seen = s.damaged(&bytes, &[], &[]);
        assert_eq!((seen.code, seen.messages), (0, s.messages));
        assert_eq!(seen.speaking, s.speaking);
    });
}

#[test]
fn d09_lone_surrogate() {
    each(|s| {
        let (k, at) = s
            .middle()
            .into_iter()
            .find_map(|k| Some((k, memchr::memmem::find(&s.lines[k], b" the ")?)))
            .unwrap();
        let mut lines = s.lines.clone();
        lines[k].splice(at..at, *b" \\ud83d");
        let seen = s.damaged(&join(&lines), &[k], &[]);
        assert_eq!(seen.messages, s.messages);
        assert!(seen.texts.iter().any(|t| t.contains("\u{fffd} the ")));
    });
}

#[test]
fn d10_a_very_long_line_is_read_and_a_longer_one_passed_over() {
    let s = claude();
    let record = |len: usize| {
        let mut line = b"{\"type\":\"user\",\"uuid\":\"pic\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"data\":\"".to_vec();
        line.resize(line.len() + len, b'A');
        line.extend_from_slice(b"\"}}]}}");
        line
    };
    let mut lines = s.lines.clone();
    lines.insert(5, record(20 << 20));
    let seen = s.damaged(&join(&lines), &[], &[]);
    assert!(seen.speaking.contains(&hash(&lines[5])));
    // Payloads are not text.
    assert!(seen.texts.iter().all(|t| t.len() < 1 << 20));
    lines[5] = record(65 << 20);
    s.damaged(
        &join(&lines),
        &[],
        &[(start(&lines, 5), lines[5].len(), "oversized")],
    );
}

#[test]
fn d11_too_deep() {
    each(|s| {
        let mut lines = s.lines.clone();
        let deep = format!(
            "{{\"type\":\"user\",\"x\":{}{}}}",
            "[".repeat(4000),
            "]".repeat(4000)
        );
        lines.insert(5, deep.into_bytes());
        let seen = s.damaged(&join(&lines), &[], &[]);
        assert_eq!(seen.messages, s.messages);
        assert_eq!(seen.accounting["unknown_bytes"], 8020);
    });
}

#[test]
fn d12_json_of_no_known_kind_is_kept_and_counted() {
    each(|s| {
        let sound = s.seen(&s.whole());
        let mut lines = s.lines.clone();
        let odd: [&[u8]; 6] = [
            b"42",
            b"null",
            b"[1,2]",
            b"\"text\"",
            b"{\"type\":\"from-2031\",\"x\":1}",
            b"{}",
        ];
        for (n, line) in odd.iter().enumerate() {
            lines.insert(4 + n, line.to_vec());
        }
        let seen = s.damaged(&join(&lines), &[], &[]);
        assert_eq!((seen.code, seen.messages), (0, s.messages));
        assert_eq!(seen.records, sound.records + 6);
        let bytes: usize = odd.iter().map(|l| l.len()).sum();
        let unknown = |seen: &Seen| seen.accounting["unknown_bytes"].as_u64().unwrap();
        assert_eq!(unknown(&seen), unknown(&sound) + bytes as u64);
    });
}

#[test]
fn d13_a_parent_that_does_not_exist_hides_nothing() {
    let s = claude();
    let mut lines = s.lines.clone();
    let mut cut = 0;
    for line in &mut lines {
        let mut record: Value = serde_json::from_slice(line).unwrap();
        if record["parentUuid"].is_string() && cut < 5 {
            record["parentUuid"] = "00000000-0000-4000-8000-000000000000".into();
            *line = record.to_string().into_bytes();
            cut += 1;
        }
    }
    assert_eq!(cut, 5);
    let changed: Vec<usize> = (0..lines.len())
        .filter(|n| lines[*n] != s.lines[*n])
        .collect();
    let seen = s.damaged(&join(&lines), &changed, &[]);
    assert_eq!(seen.messages, s.messages);
}

#[test]
fn d14_one_id_twice() {
    let s = claude();
    let k = s.middle()[0];
    // The same bytes: shown once.
    let mut lines = s.lines.clone();
    lines.insert(k + 2, s.lines[k].clone());
    lines.push(s.lines[k].clone());
    let seen = s.damaged(&join(&lines), &[], &[]);
    assert_eq!(seen.messages, s.messages);
    assert!(seen.accounting["duplicate_bytes"].as_u64().unwrap() >= 2 * s.lines[k].len() as u64);

    // Other bytes: both are kept, the older one is marked.
    let mut record: Value = serde_json::from_slice(&s.lines[k]).unwrap();
    record["message"]["content"] = "another version".into();
    let mut lines = s.lines.clone();
    lines.insert(k + 2, record.to_string().into_bytes());
    let sandbox = Sandbox::new();
    let seen = index(&sandbox, s.rel, &join(&lines));
    assert!(s.speaking.is_subset(&seen.speaking));
    let messages = sandbox.messages(sandbox.sessions()[0]["id"].as_str().unwrap());
    let of = |h: &str| {
        messages
            .iter()
            .find(|m| m["record_hash"] == h)
            .unwrap()
            .clone()
    };
    assert_eq!(of(&hash(&s.lines[k]))["superseded"], true);
    let newer = of(&hash(&lines[k + 2]));
    assert_eq!(
        (&newer["superseded"], &newer["text"]),
        (&Value::from(false), &Value::from("another version"))
    );
}

#[test]
fn d17_ordinals_that_are_missing_or_used_twice() {
    let name = "rollout-2026-11-29T16-09-03-01a22811-2cde-7e10-9e32-fe7e55d5b169.jsonl";
    let s = Sample::new(
        ".codex/sessions/2026/11/29/rollout-2026-11-29T16-09-03-01a22811-2cde-7e10-9e32-fe7e55d5b169.jsonl",
        &format!("codex/harness-0.171.0/sessions/2026/11/29/{name}"),
    );
    let mut lines = s.lines.clone();
    let mut touched = 0;
    for (n, line) in lines.iter_mut().enumerate().skip(10) {
        let mut record: Value = serde_json::from_slice(line).unwrap();
        let Some(object) = record.as_object_mut().filter(|o| o.contains_key("ordinal")) else {
            continue;
        };
        if n % 3 == 0 {
            object.remove("ordinal");
        } else {
            object.insert("ordinal".to_owned(), 7.into());
        }
        *line = record.to_string().into_bytes();
        touched += 1;
    }
    assert!(touched > 5);
    let changed: Vec<usize> = (0..lines.len())
        .filter(|n| lines[*n] != s.lines[*n])
        .collect();
    let seen = s.damaged(&join(&lines), &changed, &[]);
    assert_eq!(seen.messages, s.messages);
}

#[test]
fn a_head_that_is_lost_costs_the_head_alone() {
    each(|s| {
        let mut lines = s.lines.clone();
        lines[0].drain(..30);
        let len = lines[0].len();
        let seen = s.damaged(&join(&lines), &[0], &[(0, len, "fragment")]);
        assert!(seen.messages + 2 >= s.messages);
    });
}
