//! Every class of damage that the log of reports knows, in a file of every harness: nothing stops,
//! every byte is accounted for, what lies outside the damage is archived, and the damage is named
//! where it is.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;

use cass::model::digest::Digest;
use cass::model::record::{Recovery, Span};
use cass::store::archive::ArchiveReader;

use crate::sandbox::{Sandbox, sample};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Log,
    Document,
    Text,
    Database,
}
use Kind::{Database, Document, Log, Text};

/// Below the home folder: what its harness would keep there, and how it keeps it.
const FILES: &[(Kind, &str, &str)] = &[
    (
        Log,
        ".gemini/tmp/a/chats/session-2026-04-23T12-52-0ab84937.jsonl",
        "gemini/agent-sessions/jsonl_v040.jsonl",
    ),
    (
        Log,
        ".copilot/session-state/copilot_stage0_small.jsonl",
        "copilot/agent-sessions/small.jsonl",
    ),
    (
        Log,
        ".local/share/goose/sessions/20250724_1.jsonl",
        "goose/deja-vu/20250724_1.jsonl",
    ),
    (
        Log,
        ".factory/sessions/-tmp/droid_s1.jsonl",
        "droid/agent-sessions/session_store_small.jsonl",
    ),
    (
        Log,
        ".qwen/projects/-p/chats/019f0000-0000-7000-8000-000000000004.jsonl",
        "qwen/agent-sessions/019f0000-0000-7000-8000-000000000004.jsonl",
    ),
    (
        Log,
        ".iflow/projects/-p/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl",
        "iflow/agentsview/session-5de701fc-7454-4858-a249-95cac4fd3b51.jsonl",
    ),
    (
        Log,
        ".kimi-code/sessions/wd_p/session-a/agents/main/wire.jsonl",
        "kimi/agent-sessions/session-a/agents/main/wire.jsonl",
    ),
    (
        Log,
        ".openclaw/agents/main/sessions/small.jsonl",
        "openclaw/agent-sessions/small.jsonl",
    ),
    (
        Log,
        ".pi/agent/sessions/--tmp-gen_pi-proj--/2026-11-29T16-10-41-373Z_01a22812-a95d-7169-9c70-16edf0099120.jsonl",
        "pi/harness-1.6.0/sessions/--tmp-gen_pi-proj--/2026-11-29T16-10-41-373Z_01a22812-a95d-7169-9c70-16edf0099120.jsonl",
    ),
    (
        Log,
        ".cursor/projects/p/agent-transcripts/test-session/test-session.jsonl",
        "cursor/agent-sessions/test-session.jsonl",
    ),
    (Log, ".dsh/sessions/--w--/d1.jsonl", "dsh"),
    (
        Document,
        ".gemini/tmp/b/chats/session-large.json",
        "gemini/agent-sessions/large.json",
    ),
    (
        Document,
        ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1767225600000/api_conversation_history.json",
        "cline/deja-vu/legacy/tasks/1767225600000/api_conversation_history.json",
    ),
    (
        Document,
        ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/1767225700000/api_conversation_history.json",
        "roo/deja-vu/tasks/1767225700000/api_conversation_history.json",
    ),
    (
        Document,
        ".cline/data/sessions/1795968955656_9jmwy/1795968955656_9jmwy.messages.json",
        "cline/harness-3.0.65/data/sessions/1795968955656_9jmwy/1795968955656_9jmwy.messages.json",
    ),
    (
        Document,
        ".local/share/opencode/storage/part/msg_2280833280013Mur5XJ7WjiY2c/prt_228083354001w3ai0mhGpWg5nq.json",
        "opencode/harness-1.1.65/storage/part/msg_2280833280013Mur5XJ7WjiY2c/prt_228083354001w3ai0mhGpWg5nq.json",
    ),
    (
        Document,
        ".local/share/amp/threads/T-5f2b7a10-1c1e-4b52-9d11-0a2b3c4d5e6f.json",
        "amp",
    ),
    (Text, "repo/.aider.chat.history.md", "aider"),
    (
        Database,
        ".local/share/opencode/opencode.db",
        "opencode/harness-1.18.33/opencode.db",
    ),
    (
        Database,
        ".config/Cursor/User/globalStorage/state.vscdb",
        "cursor/S2thend-cursor-history/composer-global-state.vscdb",
    ),
    (
        Database,
        "src/bot/.crush/crush.db",
        "crush/RLGymExampleBot/crush.db",
    ),
];

const DSH: &str = r#"{"type":"session","version":2,"id":"d1","createdAt":1700000000000,"cwd":"/w","delegationDepth":0}
{"type":"user/message","seq":0,"time":1700000000007,"data":{"id":"u-0","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"one"}]}}
{"type":"user/message","seq":1,"time":1700000000008,"data":{"id":"u-1","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"two"}]}}
{"type":"user/message","seq":2,"time":1700000000009,"data":{"id":"u-2","role":"user","source":{"kind":"user"},"content":[{"type":"text","text":"three"}]}}
"#;

const AMP: &str = r#"{"v":7,"id":"T-5f2b7a10-1c1e-4b52-9d11-0a2b3c4d5e6f","created":1760000000000,"title":"t","messages":[
{"role":"user","messageId":0,"content":[{"type":"text","text":"fix it"}]},
{"role":"assistant","messageId":1,"content":[{"type":"text","text":"I look."}]},
{"role":"user","messageId":2,"content":[{"type":"text","text":"go on"}]}
]}"#;

const AIDER: &str = "\n# aider chat started at 2025-03-01 10:00:00\n\n> Aider v0.75.1  \n> Model: m  \n\n\
    #### one  \n\nAn answer.\n\n#### two  \n\nAnother answer.\n\n> Tokens: 1k sent  \n";

fn content(from: &str) -> Vec<u8> {
    match from {
        "dsh" => DSH.into(),
        "amp" => AMP.into(),
        "aider" => AIDER.into(),
        from => sample(from),
    }
}

/// A file that was damaged.
struct Hit {
    bytes: Vec<u8>,
    /// The bytes of the whole file that can't be read any more.
    lost: Range<usize>,
    /// Where the damaged file must be said to hold no record; empty where all can be read.
    named: Range<usize>,
}

/// `with` in place of `lost`.
fn put(whole: &[u8], lost: Range<usize>, with: &[u8], is_named: bool) -> Hit {
    let bytes = [&whole[..lost.start], with, &whole[lost.end..]].concat();
    let end = lost.start + if is_named { with.len() } else { 0 };
    Hit {
        bytes,
        named: lost.start..end,
        lost,
    }
}

/// The lines of a log, without their ends.
fn lines(whole: &[u8]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let mut from = 0;
    for line in whole.split(|b| *b == b'\n') {
        if !line.is_empty() {
            all.push(from..from + line.len());
        }
        from += line.len() + 1;
    }
    all
}

type Damage = fn(&[u8], Kind) -> Option<Hit>;

/// One more member at the begin of a line in the middle.
fn member(whole: &[u8], kind: Kind, text: &[u8]) -> Option<Hit> {
    let all = lines(whole);
    let line = all.get(all.len() / 2).filter(|_| kind == Log)?.clone();
    let with = [b"{", text, b",", &whole[line.start + 1..line.end]].concat();
    Some(put(whole, line, &with, false))
}

const CLASSES: &[(&str, Damage)] = &[
    ("D01 zeros at the end", |w, _| {
        Some(put(w, w.len()..w.len(), &[0; 4096], true))
    }),
    ("D02 zeros between records", |w, kind| {
        let all = lines(w);
        let at = all[all.len() / 2].start;
        (kind == Log || kind == Text).then(|| put(w, at..at, &[0; 700], true))
    }),
    ("D02 zeros in place of bytes", |w, _| {
        let from = w.len() / 2;
        Some(put(
            w,
            from..from + w.len() / 8,
            &vec![0; w.len() / 8],
            true,
        ))
    }),
    ("D03 cut at the end", |w, kind| {
        let cut = w.len() - 37.min(w.len() / 4);
        Some(Hit {
            // Half a block of text is text.
            named: if kind == Text { cut..cut } else { cut - 1..cut },
            bytes: w[..cut].to_vec(),
            lost: cut..w.len(),
        })
    }),
    ("D04 a part of a record glued to the next", |w, kind| {
        let all = lines(w);
        let line = all.get(all.len() / 2).filter(|_| kind == Log)?.clone();
        let keep = line.len() * 6 / 10;
        let lost = line.start..line.end + 1;
        Some(put(w, lost, &w[line.start..line.start + keep], true))
    }),
    ("D04 two records on one line", |w, kind| {
        let all = lines(w);
        let end = all.get(all.len() / 2).filter(|_| kind == Log)?.end;
        Some(put(w, end..end + 1, b"", false))
    }),
    ("D05 a line feed inside a string", |w, kind| {
        let at = w.windows(2).rposition(|x| x == b"\\n")?;
        (kind == Log && w[at - 1] != b'\\').then(|| put(w, at..at + 2, b"\n", false))
    }),
    ("D06 Unicode line ends", |w, kind| {
        member(w, kind, "\"x\u{2028}\u{2029}\":\"\u{2028}\"".as_bytes())
    }),
    ("D07 no UTF-8", |w, kind| {
        member(w, kind, b"\"x\":\"\xe6\x87\"")
    }),
    ("D07 a line cut inside a character", |w, kind| {
        let all = lines(w);
        let line = all.get(all.len() / 2).filter(|_| kind == Log)?.clone();
        let mut with = w[line.start..line.start + line.len() * 6 / 10].to_vec();
        with.extend(b"\xe6\x87");
        Some(put(w, line, &with, true))
    }),
    ("D08 a byte-order mark", |w, kind| {
        (kind != Database).then(|| put(w, 0..0, b"\xef\xbb\xbf", false))
    }),
    ("D09 half a surrogate pair", |w, kind| {
        member(w, kind, br#""x":"\ud83d ""#)
    }),
    ("D11 deep nesting", |w, kind| {
        let deep = format!("\"x\":{}{}", "[".repeat(300), "]".repeat(300));
        member(w, kind, deep.as_bytes())
    }),
    ("D12 values that are no records", |w, kind| {
        let all = lines(w);
        let at = all.get(all.len() / 2).filter(|_| kind == Log)?.start;
        let with = b"[1,2]\n\"a\"\n7\n{\"type\":\"never-seen\"}\n{}\n";
        Some(put(w, at..at, with, false))
    }),
    ("D14 a record twice", |w, kind| {
        let all = lines(w);
        let line = all.get(all.len() / 2).filter(|_| kind == Log)?.clone();
        let with = [&w[line.clone()], b"\n"].concat();
        Some(put(w, line.start..line.start, &with, false))
    }),
    ("D19 the begin lost", |w, kind| {
        let mut hit = put(w, 0..30, b"", false);
        // Half a line of text is text.
        hit.named = if kind == Text { 0..0 } else { 0..1 };
        Some(hit)
    }),
    ("D23 emptied", |w, _| Some(put(w, 0..w.len(), b"", false))),
    ("D23 an empty array", |w, _| {
        Some(put(w, 0..w.len(), b"[]", false))
    }),
    ("D23 half of it", |w, kind| {
        let cut = w.len() / 2;
        Some(Hit {
            bytes: w[..cut].to_vec(),
            lost: cut..w.len(),
            named: if kind == Text { cut..cut } else { cut - 1..cut },
        })
    }),
    ("D23 a bracket too many", |w, kind| {
        (kind == Document).then(|| put(w, w.len()..w.len(), b"]", true))
    }),
    ("D27 bytes overwritten", |w, _| {
        let from = w.len() / 2;
        let to = (from + 100).min(w.len() - 1);
        Some(put(w, from..to, &vec![0xa5; to - from], false))
    }),
    ("D27 a header overwritten", |w, kind| {
        (kind == Database).then(|| put(w, 18..20, &[9, 9], false))
    }),
    ("something else entirely", |w, _| {
        let noise: Vec<u8> = (0..3000u32).map(|i| (i * i % 251) as u8).collect();
        Some(put(w, 0..w.len(), &noise, false))
    }),
];

/// What the archive holds of one source.
struct Held {
    records: Vec<(Span, Digest)>,
    /// What holds no record, or one that had to be repaired.
    named: Vec<Span>,
    length: u64,
    accounted: u64,
}

fn held(s: &Sandbox) -> BTreeMap<PathBuf, Held> {
    let root = cass::disk::Root::open(&s.data()).unwrap().unwrap();
    let archive = ArchiveReader::open(&root).unwrap().unwrap();
    let mut all = BTreeMap::new();
    let mut paths = BTreeMap::new();
    for source in archive.sources_after(None, 1000).unwrap() {
        let mut named = Vec::new();
        archive
            .skips(source.key, &mut |skip| {
                named.push(skip.span);
                Ok(())
            })
            .unwrap();
        paths.insert(source.key, source.path.clone());
        all.insert(
            source.path.clone(),
            Held {
                records: Vec::new(),
                named,
                length: source.accounting.length,
                accounted: source.accounting.accounted(),
            },
        );
    }
    for session in archive.conversations_after(None, 1000).unwrap() {
        archive
            .records(&session.id, &mut |record| {
                let of = all.get_mut(&paths[&record.source]).unwrap();
                of.records.push((record.span, record.hash));
                if record.recovery != Recovery::Clean {
                    of.named.push(record.span);
                }
                Ok(())
            })
            .unwrap();
    }
    all
}

/// Every harness's file, as `make` has it; what the index said.
/// Makes the damaged content of a container, where the damage can be in one of its kind.
type Make<'m> = &'m dyn Fn(Kind, &[u8]) -> Option<Vec<u8>>;

fn laid(make: Make<'_>) -> (Sandbox, i32, String) {
    let s = Sandbox::in_memory();
    for (kind, to, from) in FILES {
        if let Some(bytes) = make(*kind, &content(from)) {
            s.put(to, &bytes);
        }
    }
    let bot = s.home().join("src/bot");
    let list = format!(
        r#"{{"projects":[{{"path":"{0}","data_dir":"{0}/.crush"}}]}}"#,
        bot.display()
    );
    s.put(".local/share/crush/projects.json", list.as_bytes());
    let roots = "[[roots]]\nprovider = \"aider\"\npath = \"~/repo\"\n";
    s.put(".config/cass/config.toml", roots.as_bytes());
    // Nothing is searched for.
    let ran = s.run(&["index", "--skip-lexical", "--json"]);
    (s, ran.code, ran.stdout)
}

fn suffers(class: &str, damage: Damage, sound: &BTreeMap<PathBuf, Vec<(Span, Digest)>>) {
    let (s, code, said) = laid(&|kind, whole| damage(whole, kind).map(|hit| hit.bytes));
    assert!(matches!(code, 0 | 8), "{class}: {code} {said}");
    let held = held(&s);
    for (kind, to, from) in FILES {
        let whole = content(from);
        let Some(hit) = damage(&whole, *kind) else {
            continue;
        };
        let what = format!("{class}: {to}");
        let path = s.home().join(to);
        // What is no container of its kind at all may not be read; it is captured all the same.
        let Some(of) = held.get(&path) else {
            assert_eq!(s.get(&path, 1), hit.bytes, "{what}");
            assert!(*kind == Database, "{what} is not in the archive");
            assert!(code == 8 || hit.bytes.is_empty(), "{what}");
            continue;
        };
        assert_eq!(of.accounted, of.length, "{what}");
        if *kind == Database {
            continue;
        }
        assert_eq!(of.length, hit.bytes.len() as u64, "{what}");
        let hashes: HashSet<Digest> = of.records.iter().map(|(_, hash)| *hash).collect();
        for (span, hash) in &sound[&PathBuf::from(to)] {
            let (from, end) = (span.offset as usize, span.end() as usize);
            let is_before = end <= hit.lost.start
                // The block or line that the damage touches may go with it.
                && (*kind == Log || end < hit.lost.start);
            let is_behind = *kind == Log && from >= hit.lost.end;
            assert!(
                !(is_before || is_behind) || hashes.contains(hash),
                "{what}: the record at {from} is lost"
            );
        }
        let is_named = hit.named.is_empty()
            || of.named.iter().any(|skip| {
                (skip.offset as usize) < hit.named.end && (skip.end() as usize) > hit.named.start
            });
        assert!(is_named, "{what}: nothing said of {:?}", hit.named);
    }
}

#[test]
fn every_class_of_damage_costs_every_harness_no_more_than_it_hit() {
    let (s, code, said) = laid(&|_, whole| Some(whole.to_vec()));
    assert_eq!(code, 0, "{said}");
    let home = s.home();
    let sound: BTreeMap<PathBuf, Vec<(Span, Digest)>> = held(&s)
        .into_iter()
        .map(|(path, held)| {
            let path = path.strip_prefix(&home).unwrap().to_owned();
            (path, held.records)
        })
        .collect();
    for (_, to, _) in FILES {
        assert!(!sound[&PathBuf::from(to)].is_empty(), "{to} is not read");
    }
    let (even, odd): (Vec<_>, Vec<_>) = CLASSES.iter().enumerate().partition(|(i, _)| i % 2 == 0);
    std::thread::scope(|scope| {
        for half in [even, odd] {
            let sound = &sound;
            scope.spawn(move || {
                for (_, (class, damage)) in half {
                    suffers(class, *damage, sound);
                }
            });
        }
    });
}
