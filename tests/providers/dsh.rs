//! DSH: healthy logs of every generation, raw and in frames; damage is passed over.

use serde_json::{Value, json};

use crate::home::{accounted, count, index, messages, natives, said, settled, show};
use crate::sandbox::Sandbox;

const PROJECT: &str = ".dsh/sessions/--w-garden--";
const BEGUN: u64 = 1_700_000_000_000;

/// A log: a header, and events that are numbered as they come.
struct Log {
    lines: Vec<Value>,
    seq: u64,
    version: u64,
}

impl Log {
    fn new(id: &str, version: u64) -> Log {
        let header = json!({"type":"session","version":version,"id":id,"createdAt":BEGUN,
            "cwd":"/w/garden","delegationDepth":0});
        Log {
            lines: vec![header],
            seq: 0,
            version,
        }
    }

    fn event(&mut self, kind: &str, data: Value) {
        let time = BEGUN + 7 * (self.seq + 1);
        self.lines
            .push(json!({"type":kind,"seq":self.seq,"time":time,"data":data}));
        self.seq += 1;
    }

    fn packed(&mut self, kind: &str, texts: &[&str]) {
        let member = if kind == "tool-call-chunks" {
            "args"
        } else {
            "texts"
        };
        self.lines.push(
            json!({"type":kind,"seq0":self.seq,"time0":BEGUN + 7 * (self.seq + 1),
            "data":{"turn":1,"step":1,"index":0,"dt":vec![3; texts.len() - 1],member:texts}}),
        );
        self.seq += texts.len() as u64;
    }

    /// One turn with a call; `n` makes its ids its own.
    fn turn(&mut self, n: u64) {
        let call = format!("call_{n}");
        let arguments = "{\"shelf\":\"B\",\"row\":2}";
        self.event("turn/start", json!({"turn":n}));
        self.event("step/start", json!({"turn":n,"step":1}));
        if self.version >= 3 {
            self.event("system/message", json!({"turn":n,"step":1,"message":{"id":format!("s-{n}"),
                "role":"system","source":{"kind":"system-prompt"},"content":[{"type":"text","text":"Be tidy."}]}}));
        }
        self.event(
            "user/message",
            json!({"id":format!("u-{n}"),"role":"user","source":{"kind":"user"},
            "content":[{"type":"text","text":format!("What grows on shelf {n}?")}]}),
        );
        self.event(
            "request/header",
            json!({"header":{"config":{"provider":"p","model":"m"}},"reason":"initial"}),
        );
        if self.version < 2 {
            self.packed("reasoning-chunks", &["Need ", "the ", "list."]);
            self.event(
                "assistant/chunk",
                json!({"turn":n,"step":1,"chunk":{"type":"finish","reason":{"kind":"tool-calls"}}}),
            );
        } else {
            self.event("assistant/attempt", json!({"turn":n,"step":1,"stream":[
                {"type":"text-chunks","time0":BEGUN,"index":0,"dt":[1],"texts":["Half ","an answer"]},
                {"type":"chunk","time":BEGUN,"chunk":{"type":"finish","reason":{"kind":"error"}}}]}));
        }
        self.event("assistant/message", json!({"turn":n,"step":1,"message":{"id":format!("a-{n}"),"role":"assistant",
            "content":[{"type":"reasoning","text":"Need the list."},{"type":"text","text":"Looking."},
                {"type":"tool-call","id":call,"name":"read_shelf","arguments":arguments}],
            "source":{"kind":"model","provider":"p","model":"m"}}}));
        self.event(
            "tool/call",
            json!({"turn":n,"step":1,"callId":call,"name":"read_shelf","arguments":arguments}),
        );
        let text = json!([{"type":"text","text":"basil x4"}]);
        let message = if self.version >= 4 {
            json!({"id":format!("r-{n}"),"role":"tool","source":{"kind":"tool","callId":call},
                "toolCallId":call,"content":text,"isError":false})
        } else {
            json!({"id":format!("r-{n}"),"role":"user","source":{"kind":"tool","callId":call},
                "content":[{"type":"tool-result","toolCallId":call,"content":text,"isError":false}]})
        };
        self.event("tool/result", json!({"turn":n,"step":1,"message":message}));
        self.event("step/end", json!({"turn":n,"step":1}));
        self.event("turn/end", json!({"turn":n,"reason":{"kind":"completed"}}));
    }

    fn raw(&self) -> Vec<u8> {
        self.lines
            .iter()
            .flat_map(|l| format!("{l}\n").into_bytes())
            .collect()
    }

    /// The header in a frame of its own, then frames of `batch` lines.
    fn frames(&self, batch: usize) -> Vec<Vec<u8>> {
        let frame = |lines: &[Value]| {
            let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
            zstd::encode_all(text.as_bytes(), 3).unwrap()
        };
        std::iter::once(frame(&self.lines[..1]))
            .chain(self.lines[1..].chunks(batch).map(frame))
            .collect()
    }
}

fn name(version: u64, end: &str) -> String {
    match version {
        0 => format!("session.jsonl{end}"),
        n => format!("session.v{n}.jsonl{end}"),
    }
}

#[test]
fn every_generation_is_read_raw_and_in_frames() {
    for version in 0..=4 {
        for packed in [false, true] {
            let mut log = Log::new("s-1", version);
            log.turn(1);
            log.turn(2);
            let s = Sandbox::new();
            let raw = log.raw();
            if packed {
                let name = format!("{PROJECT}/s-1/{}", name(version, ".zstd"));
                s.put(&name, &log.frames(5).concat());
            } else {
                s.put(&format!("{PROJECT}/s-1/{}", name(version, "")), &raw);
            }
            s.put(&format!("{PROJECT}/s-1/session.lock"), b"");
            s.put(
                &format!("{PROJECT}/s-1/session.jsonl.0a1b2c3d4e5f.tmp"),
                b"{",
            );
            index(&s);
            settled(&s);
            assert_eq!(natives(&s), ["s-1"]);
            // Offsets count plain bytes.
            accounted(&s, "s-1", raw.len() as u64);
            let a = &show(&s, "s-1")["sources"][0]["accounting"];
            assert_eq!(a["unknown_bytes"], 0);
            let mut want = vec!["user/text: What grows on shelf 1?"];
            if version >= 3 {
                want.insert(0, "system/text: Be tidy.");
            }
            if version >= 2 {
                want.push("assistant/text: Half an answer");
            }
            want.extend([
                "assistant/reasoning: Need the list.",
                "assistant/text: Looking.",
                "assistant/tool-call: {\"shelf\":\"B\",\"row\":2}",
                "tool/tool-result: basil x4",
            ]);
            let said = said(&s, "s-1");
            assert_eq!(
                said[..want.len()],
                want,
                "version {version}, packed {packed}"
            );
            assert_eq!(said.len(), 2 * want.len());
            let all = messages(&s, "s-1");
            let call = all.iter().find(|m| m["kind"] == "tool-call").unwrap();
            assert_eq!(call["model"], "m");
            assert_eq!(call["tool_name"], "read_shelf");
            assert!(
                all.iter()
                    .any(|m| m["kind"] == "tool-result" && m["call_id"] == call["call_id"])
            );
            let session = &show(&s, "s-1")["session"];
            assert_eq!(session["workspace"], "/w/garden");
            assert_eq!(&session["started_at"].as_str().unwrap()[..10], "2023-11-14");
        }
    }
}

#[test]
fn a_log_that_grows_in_frames_is_read_on() {
    let mut log = Log::new("s-1", 1);
    let s = Sandbox::new();
    let mut bytes = log.frames(5).concat();
    let path = format!("{PROJECT}/s-1/{}", name(1, ".zstd"));
    for n in 1..=3 {
        let from = log.lines.len();
        log.turn(n);
        let text: String = log.lines[from..].iter().map(|l| format!("{l}\n")).collect();
        bytes.extend(zstd::encode_all(text.as_bytes(), 3).unwrap());
        s.put(&path, &bytes);
        index(&s);
        let users = usize::try_from(n).unwrap();
        assert_eq!(count(&s, "s-1", "user", "text"), users);
        assert_eq!(count(&s, "s-1", "assistant", "tool-call"), users);
    }
    settled(&s);
    accounted(&s, "s-1", log.raw().len() as u64);
}

#[test]
fn a_newer_generation_says_nothing_twice() {
    let s = Sandbox::new();
    let mut old = Log::new("s-1", 0);
    old.turn(1);
    old.turn(2);
    s.put(&format!("{PROJECT}/s-1/session.jsonl"), &old.raw());
    index(&s);
    let before = said(&s, "s-1");
    // Converted: the same messages at the same times under new numbers, and one turn more.
    let mut new = Log::new("s-1", 1);
    new.lines.extend(
        old.lines[1..]
            .iter()
            .filter(|l| l["type"] != "assistant/chunk")
            .cloned(),
    );
    new.lines[0]["version"] = json!(1);
    new.seq = old.seq;
    new.turn(3);
    for (n, line) in new.lines.iter_mut().skip(1).enumerate() {
        line["seq"] = json!(n);
    }
    s.put(&format!("{PROJECT}/s-1/session.v1.jsonl"), &new.raw());
    index(&s);
    settled(&s);
    assert_eq!(natives(&s), ["s-1"]);
    let after = said(&s, "s-1");
    assert_eq!(after.len(), before.len() * 3 / 2);
    assert_eq!(count(&s, "s-1", "user", "text"), 3);
}

#[test]
fn a_header_that_is_lost_and_a_child() {
    let s = Sandbox::new();
    let mut log = Log::new("odd/id", 0);
    log.lines[0]["parentSession"] = json!("s-0");
    log.event("session/title", json!({"title":"Shelves"}));
    log.event(
        "user/message",
        json!({"id":"h","role":"user","source":{"kind":"hook"},
        "content":[{"type":"text","text":"put there"}]}),
    );
    log.event(
        "tool/call",
        json!({"turn":1,"step":1,"callId":"lone","name":"x","arguments":"{}"}),
    );
    log.event("garden/switch", json!({"on":true}));
    s.put(&format!("{PROJECT}/odd~002Fid/session.jsonl"), &log.raw());
    index(&s);
    assert_eq!(
        said(&s, "odd/id"),
        ["meta/text: put there", "assistant/tool-call: {}"]
    );
    let exported = s.run(&["export", "odd/id", "--format", "json"]).expect(0);
    assert_eq!(exported.at("/session/title"), "Shelves");
    assert_eq!(exported.at("/session/parent_session"), "s-0");
    let a = &show(&s, "odd/id")["sources"][0]["accounting"];
    assert!(a["unknown_bytes"].as_u64().unwrap() > 0);
    let s = Sandbox::new();
    let raw = log.raw();
    let end = raw.iter().position(|b| *b == b'\n').unwrap() + 1;
    s.put(&format!("{PROJECT}/odd~002Fid/session.jsonl"), &raw[end..]);
    index(&s);
    assert_eq!(natives(&s), ["odd/id"]);
}

#[test]
fn damage_is_passed_over() {
    let mut log = Log::new("s-1", 1);
    log.turn(1);
    log.turn(2);
    let raw = log.raw();
    let half = raw.len() / 2;
    let line = raw[half..].iter().position(|b| *b == b'\n').unwrap() + half + 1;
    let cases: [(&str, Vec<u8>); 6] = [
        ("torn", raw[..raw.len() - 9].to_vec()),
        ("nul tail", [&raw[..], &[0; 4096]].concat()),
        ("nul hole", [&raw[..line], &[0; 700], &raw[line..]].concat()),
        (
            "garbage",
            [&raw[..line], b"\xe6\x87 no\n", &raw[line..]].concat(),
        ),
        ("welded", [&raw[..line - 1], &raw[line..]].concat()),
        ("again", [&raw[..], &raw[line..]].concat()),
    ];
    for (name, bytes) in cases {
        let s = Sandbox::new();
        s.put(&format!("{PROJECT}/s-1/session.v1.jsonl"), &bytes);
        index(&s);
        settled(&s);
        assert_eq!(natives(&s), ["s-1"], "{name}");
        assert_eq!(count(&s, "s-1", "user", "text"), 2, "{name}");
        assert_eq!(count(&s, "s-1", "assistant", "tool-call"), 2, "{name}");
        accounted(&s, "s-1", bytes.len() as u64);
    }
    // Frames: what comes before the damage and behind it is read, and the damage is said.
    let frames = log.frames(4);
    let whole = frames.concat();
    let mut flipped = whole.clone();
    let at = frames[..2].iter().map(Vec::len).sum::<usize>() + 12;
    flipped[at] ^= 0x55;
    let (before, behind) = whole.split_at(frames[..3].iter().map(Vec::len).sum());
    let cases: [(&str, Vec<u8>, bool); 6] = [
        (
            "garbage between",
            [before, b"no frame", behind].concat(),
            true,
        ),
        ("cut", whole[..whole.len() - 5].to_vec(), true),
        ("flipped", flipped, false),
        ("garbage behind", [&whole[..], b"no frame"].concat(), true),
        ("no frame at all", b"\x01\x02\x03\x04\x05".to_vec(), false),
        ("text under the name of frames", raw.clone(), true),
    ];
    for (name, bytes, read) in cases {
        let s = Sandbox::new();
        s.put(&format!("{PROJECT}/s-1/session.v1.jsonl.zstd"), &bytes);
        let ran = s.run(&["index", "--json"]);
        assert!(matches!(ran.code, 0 | 8), "{name}: {}", ran.code);
        s.run(&["mirror", "verify", "--deep", "--json"]).expect(0);
        s.run(&["archive", "verify", "--json"]);
        if read {
            assert_eq!(count(&s, "s-1", "user", "text"), 2, "{name}");
        }
    }
    for odd in [
        &b""[..],
        b"\n",
        b"{\"type\":\"session\"",
        b"{\"type\":\"session\",\"id\":7}\n{\"type\":\"user/message\",\"data\":[]}\n{\"type\":\"tool/result\",\"data\":{\"message\":{\"content\":{}}}}\n",
        b"{\"type\":\"assistant/attempt\",\"seq\":1,\"time\":1e400,\"data\":{\"stream\":[{\"chunk\":3},7,{\"type\":\"text-chunks\",\"texts\":\"x\"}]}}\n",
    ] {
        let s = Sandbox::new();
        s.put(&format!("{PROJECT}/s-1/session.jsonl"), odd);
        s.run(&["index", "--json"]).expect(0);
    }
}

#[test]
fn the_variable_moves_the_folder() {
    let mut log = Log::new("s-1", 0);
    log.turn(1);
    let s = Sandbox::new();
    s.put("moved/sessions/--p--/s-1/session.jsonl", &log.raw());
    let mut c = s.command(&["index", "--json"]);
    c.env("DSH_HOME", s.home().join("moved"));
    let ran = crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(ran.number("/sources/captured"), 1);
}
