//! The rules of the format, one small log each: what is said of it is judged by the format's own
//! description.

use cass::session_log::{self, Diagnosis, Form};
use serde_json::{Value, json};

/// A log in the making: events without number and time, in their order.
#[derive(Clone)]
struct Log {
    version: u64,
    header: Value,
    rows: Vec<Value>,
}

const OPENED: u64 = 1_700_000_000_000;

fn call() -> Value {
    json!({"type":"tool-call","id":"c1","name":"read_shelf","arguments":"{}"})
}

fn answer(version: u64, step: u64, content: &Value) -> Value {
    let mut data = json!({"turn":1,"step":step,"message":{"id":format!("a{step}"),"role":"assistant",
        "content":content,"source":{"kind":"model","provider":"p","model":"m"}}});
    if version >= 2 {
        data["stream"] = json!([
            {"type":"text-chunks","time0":OPENED,"index":0,"dt":[3],"texts":["a","b"]},
            {"type":"chunk","time":OPENED,"chunk":{"type":"finish","reason":{"kind":"stop"}}}
        ]);
    }
    json!({"type":"assistant/message","data":data,"surfaceOp":"append"})
}

fn result(version: u64, id: &str, text: &str) -> Value {
    let content = json!([{"type":"text","text":text}]);
    let message = if version >= 4 {
        json!({"id":"r1","role":"tool","source":{"kind":"tool","callId":id},"toolCallId":id,
               "content":content})
    } else {
        json!({"id":"r1","role":"user","source":{"kind":"tool","callId":id},
               "content":[{"type":"tool-result","toolCallId":id,"content":content}]})
    };
    json!({"type":"tool/result","data":{"turn":1,"step":1,"message":message},"surfaceOp":"append"})
}

/// The row numbers of [`sound`], from 1.
const USER: usize = 3;
const ANSWER: usize = 4;
const CALL: usize = 5;
const RESULT: usize = 6;
const STEP_END: usize = 7;
const SECOND: usize = 9;
const END: usize = 11;

/// One turn of two steps, with a call.
fn sound(version: u64) -> Log {
    let mut header = json!({"type":"session","version":version,"id":"s-1","createdAt":OPENED,
                            "cwd":"/w/shed","delegationDepth":0});
    if version >= 2 {
        header["isSeeded"] = json!(false);
    }
    let at = |step: u64| json!({"turn":1,"step":step});
    let rows = vec![
        json!({"type":"turn/start","data":{"turn":1}}),
        json!({"type":"step/start","data":at(1)}),
        json!({"type":"user/message","data":{"id":"u1","role":"user","source":{"kind":"user"},
               "content":[{"type":"text","text":"hi"}]},"surfaceOp":"append"}),
        answer(version, 1, &json!([call()])),
        json!({"type":"tool/call","data":{"turn":1,"step":1,"callId":"c1","name":"read_shelf",
               "arguments":"{}"}}),
        result(version, "c1", "basil"),
        json!({"type":"step/end","data":at(1)}),
        json!({"type":"step/start","data":at(2)}),
        answer(version, 2, &json!([{"type":"text","text":"done"}])),
        json!({"type":"step/end","data":at(2)}),
        json!({"type":"turn/end","data":{"turn":1,"reason":{"kind":"completed"}}}),
    ];
    Log {
        version,
        header,
        rows,
    }
}

impl Log {
    /// The row of this number, from 1.
    fn row(&mut self, n: usize) -> &mut Value {
        &mut self.rows[n - 1]
    }

    /// Puts a row in as number `n`.
    fn insert(&mut self, n: usize, row: Value) {
        self.rows.insert(n - 1, row);
    }

    fn push(&mut self, kind: &str, data: &Value) {
        self.rows.push(json!({"type":kind,"data":data}));
    }

    fn text(&self) -> Vec<u8> {
        let mut out = vec![self.header.to_string()];
        let mut seq = 0;
        for row in &self.rows {
            let mut row = row.clone();
            if row["type"] == "session" {
                // It has no number.
            } else if row.get("seq0").is_some() {
                row["seq0"] = json!(seq);
                let texts = &row["data"]["texts"];
                seq += texts.as_array().map_or(1, Vec::len) as u64;
            } else {
                row["seq"] = json!(seq);
                if row.get("time").is_none() {
                    row["time"] = json!(OPENED + seq);
                }
                seq += 1;
            }
            out.push(row.to_string());
        }
        out.push(String::new());
        out.join("\n").into_bytes()
    }
}

fn told(text: &Vec<u8>, generation: u64) -> Diagnosis {
    let form = Form {
        packed: false,
        generation: Some(generation),
    };
    session_log::examine(text, form).expect("read")
}

/// What is wrong with a log: the verdict, and the row that is named.
type Wrong = (&'static str, Option<usize>);

const CLEAN: Wrong = ("clean", None);

fn message(row: usize) -> Wrong {
    ("message_invalid", Some(row))
}

fn lifecycle(row: usize) -> Wrong {
    ("lifecycle_invalid", Some(row))
}

fn identity(row: usize) -> Wrong {
    ("tool_identity_mismatch", Some(row))
}

/// A rule in words, the versions that have it, what is done to a sound log, what must be said.
type Rule = (&'static str, &'static [u64], fn(&mut Log), fn(u64) -> Wrong);

const ALL: &[u64] = &[0, 1, 2, 3, 4];
const EARLY: &[u64] = &[0, 1];
const LATER: &[u64] = &[1, 2, 3, 4];
const STREAMS: &[u64] = &[2, 3, 4];

fn reason(log: &mut Log, reason: Value) {
    log.row(END)["data"]["reason"] = reason;
}

fn retry(kind: &str, id: &str, n: u64) -> Value {
    json!({"type":format!("llm/{kind}"),"data":{"turn":1,"step":1,"retryId":id,"retry":n}})
}

/// A message that replaces the tool result, as number 12.
fn replace(log: &mut Log, mut row: Value, sources: Value) {
    let keys = if log.version >= 3 {
        ["startSeq", "endSeq"]
    } else {
        ["start", "end"]
    };
    let seq = RESULT - 1;
    row["surfaceOp"] = json!({"op":"replace",keys[0]:seq,keys[1]:seq});
    row["sourceEventSeqs"] = sources;
    log.rows.push(row);
}

fn block(log: &mut Log) -> &mut Value {
    let later = log.version >= 4;
    let message = &mut log.row(RESULT)["data"]["message"];
    if later {
        message
    } else {
        &mut message["content"][0]
    }
}

fn piece(log: &mut Log, chunk: Value) {
    let row = json!({"type":"assistant/chunk","data":{"turn":1,"step":1,"chunk":chunk}});
    log.insert(ANSWER, row);
}

fn stream(log: &mut Log, part: Value) {
    log.row(ANSWER)["data"]["stream"] = json!([part]);
}

fn packed(log: &mut Log, data: Value) {
    let row = json!({"type":"text-chunks","seq0":0,"time0":OPENED,"data":data});
    log.insert(ANSWER, row);
}

fn splice(log: &mut Log, data: Value) {
    log.push("agent/inbox/spliced", &data);
}

#[rustfmt::skip]
const RULES: &[Rule] = &[
    ("nothing is wrong", ALL, |_| {}, |_| CLEAN),
    // Rows.
    ("times may go back", ALL, |l| l.row(USER)["time"] = json!(1), |_| CLEAN),
    ("a time is a whole number", ALL, |l| l.row(USER)["time"] = json!(1.5), |_| message(USER)),
    ("a time is not negative", ALL, |l| l.row(USER)["time"] = json!(-1), |_| message(USER)),
    ("a key at the top that there is not", ALL, |l| l.row(USER)["more"] = json!(1), |_| message(USER)),
    ("ignorable may only be true", ALL, |l| l.row(USER)["ignorable"] = json!(false), |_| message(USER)),
    ("an unknown type may be passed over", ALL,
        |l| l.insert(USER, json!({"type":"garden/x","data":{},"ignorable":true})), |_| CLEAN),
    ("an unknown type that may not", ALL,
        |l| l.insert(USER, json!({"type":"garden/x","data":{}})), |_| ("unknown_required_event", Some(USER))),
    ("data are an object", ALL, |l| l.row(STEP_END)["data"] = json!([]), |_| message(STEP_END)),
    ("only what the model sees has an operation", ALL,
        |l| l.row(STEP_END)["surfaceOp"] = json!("append"), |_| message(STEP_END)),
    ("only what the model sees has sources", ALL,
        |l| l.row(STEP_END)["sourceEventSeqs"] = json!([1]), |_| message(STEP_END)),
    // Types of versions.
    ("pieces are events up to version 1", ALL,
        |l| piece(l, json!({"type":"text-delta","index":0,"text":"x"})),
        |v| if v < 2 { CLEAN } else { ("unknown_required_event", Some(ANSWER)) }),
    ("attempts come with version 2", ALL,
        |l| l.insert(ANSWER, json!({"type":"assistant/attempt","data":{"turn":1,"step":1,"stream":[]}})),
        |v| if v < 2 { ("unknown_required_event", Some(ANSWER)) } else { CLEAN }),
    ("system messages come with version 3", ALL,
        |l| l.insert(ANSWER, json!({"type":"system/message","data":{"turn":1,"step":1,"message":
            {"id":"y","role":"system","content":[],"source":{"kind":"harness"}}},"surfaceOp":"append"})),
        |v| if v < 3 { ("unknown_required_event", Some(ANSWER)) } else { CLEAN }),
    ("dispatches of code have another name from version 3 on", ALL,
        |l| l.insert(ANSWER, json!({"type":"tool/code-dispatch","data":{}})),
        |v| if v < 3 { CLEAN } else { ("unknown_required_event", Some(ANSWER)) }),
    ("the first writers compacted under another name", ALL, |l| l.push("compact/end", &json!({})),
        |v| if v == 0 { CLEAN } else { ("unknown_required_event", Some(END + 1)) }),
    ("a fallback is of no version that is converted", ALL,
        |l| l.insert(2, json!({"type":"request/header","data":{"header":{"config":{}},"reason":"fallback"}})),
        |_| ("unknown_required_event", Some(2))),
    // What the model sees.
    ("an operation has to be there", ALL,
        |l| drop(l.row(USER).as_object_mut().expect("a row").remove("surfaceOp")), |_| message(USER)),
    ("an operation is one of two", ALL, |l| l.row(USER)["surfaceOp"] = json!("prepend"), |_| message(USER)),
    ("a result in the place of one, with another content", ALL,
        |l| { let v = l.version; replace(l, result(v, "c1", "gone"), json!([5])); }, |_| CLEAN),
    ("a result in the place of one of another call", ALL,
        |l| { let v = l.version; replace(l, result(v, "c2", "gone"), json!([5])); }, |_| message(END + 1)),
    ("a result in the place of one, with an error more", ALL,
        |l| { let mut r = result(l.version, "c1", "gone"); r["data"]["meta"] = json!({"x":1});
              replace(l, r, json!([5])); }, |_| message(END + 1)),
    ("a result in the place of something else", ALL,
        |l| { let v = l.version; replace(l, result(v, "c1", "gone"), json!([3]));
              let n = l.rows.len(); let op = &mut l.row(n)["surfaceOp"];
              for key in ["start", "end", "startSeq", "endSeq"] {
                  if op.get(key).is_some() { op[key] = json!(3); } } },
        |_| message(END + 1)),
    ("sources name all that is replaced", ALL,
        |l| { let v = l.version; replace(l, result(v, "c1", "gone"), json!([4])); }, |_| message(END + 1)),
    ("what is replaced is seen by the model", ALL,
        |l| { let v = l.version; replace(l, result(v, "c1", "a"), json!([5]));
              replace(l, result(v, "c1", "b"), json!([5])); }, |_| message(END + 2)),
    ("keys of a replacement are of the version", ALL,
        |l| { let v = if l.version >= 3 { 0 } else { 3 }; let own = l.version; l.version = v;
              replace(l, result(own, "c1", "gone"), json!([5])); l.version = own; }, |_| message(END + 1)),
    ("sources come before", ALL, |l| l.row(USER)["sourceEventSeqs"] = json!([2]), |_| message(USER)),
    ("sources are named once", ALL, |l| l.row(RESULT)["sourceEventSeqs"] = json!([3, 4, 4]), |_| message(RESULT)),
    ("sources are not none", ALL, |l| l.row(RESULT)["sourceEventSeqs"] = json!([]), |_| message(RESULT)),
    ("an answer may have none, and then no list at all", ALL, |l| l.row(ANSWER)["sourceEventSeqs"] = json!([]),
        |v| if v < 2 { CLEAN } else { message(ANSWER) }),
    ("runs of sources are pairs", ALL, |l| l.row(RESULT)["sourceEventSeqs"] = json!([0, [2, 4]]), |_| CLEAN),
    ("a run of two is none", ALL, |l| l.row(RESULT)["sourceEventSeqs"] = json!([[3, 4]]), |_| message(RESULT)),
    ("runs are in order", ALL, |l| l.row(RESULT)["sourceEventSeqs"] = json!([[2, 4], 0]), |_| message(RESULT)),
    // Messages.
    ("a message has an id, but of the first writers", ALL,
        |l| drop(l.row(USER)["data"].as_object_mut().expect("data").remove("id")),
        |v| if v == 0 { CLEAN } else { message(USER) }),
    ("an id is not empty", ALL, |l| l.row(USER)["data"]["id"] = json!(""), |_| message(USER)),
    ("a role fits its type", ALL, |l| l.row(USER)["data"]["role"] = json!("assistant"), |_| message(USER)),
    ("a source has a kind", ALL, |l| l.row(USER)["data"]["source"] = json!({}), |_| message(USER)),
    ("an answer is a model's", ALL,
        |l| l.row(ANSWER)["data"]["message"]["source"]["kind"] = json!("user"), |_| message(ANSWER)),
    ("an answer names its model", ALL,
        |l| l.row(ANSWER)["data"]["message"]["source"] = json!({"kind":"model","provider":"p"}),
        |v| if v == 0 { CLEAN } else { message(ANSWER) }),
    // Turns and steps.
    ("a turn in a turn", ALL, |l| l.insert(2, json!({"type":"turn/start","data":{"turn":2}})), |_| lifecycle(2)),
    ("turns are counted", ALL, |l| l.push("turn/start", &json!({"turn":3})), |_| lifecycle(END + 1)),
    ("another turn ends", ALL, |l| l.row(END)["data"]["turn"] = json!(2), |_| lifecycle(END)),
    ("a turn ends in a step", ALL, |l| drop(l.rows.remove(END - 2)), |_| lifecycle(END - 1)),
    ("steps are counted", ALL, |l| l.row(SECOND - 1)["data"]["step"] = json!(3), |_| lifecycle(SECOND - 1)),
    ("steps begin again with each turn", ALL,
        |l| { l.push("turn/start", &json!({"turn":2})); l.push("step/start", &json!({"turn":2,"step":1}));
              l.push("step/end", &json!({"turn":2,"step":1}));
              l.push("turn/end", &json!({"turn":2,"reason":{"kind":"blocked"}})); }, |_| CLEAN),
    ("a step ends before its call is answered", ALL, |l| drop(l.rows.remove(RESULT - 1)), |_| identity(RESULT)),
    ("a user may speak without a step", ALL,
        |l| { let row = l.rows.remove(USER - 1); l.insert(1, row); }, |_| CLEAN),
    ("an answer outside of its step", ALL, |l| l.row(SECOND)["data"]["step"] = json!(1), |_| lifecycle(SECOND)),
    ("a turn that was stopped", ALL, |l| reason(l, json!({"kind":"aborted","reason":"x"})), |_| CLEAN),
    ("a turn that was stopped, for no reason", ALL, |l| reason(l, json!({"kind":"aborted"})),
        |v| if v == 0 { CLEAN } else { message(END) }),
    ("a turn that failed", ALL, |l| reason(l, json!({"kind":"error","error":{"message":"x"}})), |_| CLEAN),
    ("a turn that failed, as the first writers said it", ALL,
        |l| reason(l, json!({"kind":"error","step":1,"message":"x"})),
        |v| if v == 0 { CLEAN } else { message(END) }),
    ("a turn that was given up", ALL, |l| reason(l, json!({"kind":"disposed"})),
        |v| if v == 0 { CLEAN } else { message(END) }),
    ("a turn that ran full", ALL, |l| reason(l, json!({"kind":"max-tokens"})), |_| CLEAN),
    ("a turn that ends in no known way", ALL, |l| reason(l, json!({"kind":"bored"})), |_| message(END)),
    ("a turn that ends for nothing", ALL, |l| reason(l, json!({})), |_| message(END)),
    ("the first writers said why a turn began", ALL, |l| l.row(1)["data"]["trigger"] = json!("x"),
        |v| if v == 0 { CLEAN } else { message(1) }),
    ("keys of later versions are exact", LATER, |l| l.row(STEP_END)["data"]["more"] = json!(1),
        |_| message(STEP_END)),
    // Pieces and streams.
    ("a piece of no known kind", EARLY, |l| piece(l, json!({"type":"image-delta","index":0})), |_| message(ANSWER)),
    ("the last of equal keys says the kind", EARLY, |l| piece(l, json!({"type":"usage","usage":{}})), |_| CLEAN),
    ("a piece that ends an answer", EARLY,
        |l| piece(l, json!({"type":"finish","reason":{"kind":"error","failure":{}}})), |_| CLEAN),
    ("a piece that ends an answer, without its failure", EARLY,
        |l| piece(l, json!({"type":"finish","reason":{"kind":"error"}})), |_| message(ANSWER)),
    ("pieces in one row are as many events", EARLY,
        |l| packed(l, json!({"turn":1,"step":1,"index":0,"dt":[1,-1],"texts":["a","","c"]})), |_| CLEAN),
    ("pieces in one row of another step", EARLY,
        |l| packed(l, json!({"turn":1,"step":2,"index":0,"dt":[1],"texts":["a","b"]})), |_| lifecycle(ANSWER)),
    ("a row of pieces whose parts do not fit is no row", EARLY,
        |l| packed(l, json!({"turn":1,"step":1,"index":0,"dt":[],"texts":["a","b"]})),
        |_| ("missing_middle", Some(ANSWER))),
    ("an answer has its stream", STREAMS,
        |l| drop(l.row(ANSWER)["data"].as_object_mut().expect("data").remove("stream")), |_| message(ANSWER)),
    ("a stream whose parts do not fit", STREAMS,
        |l| stream(l, json!({"type":"text-chunks","time0":1,"index":0,"dt":[],"texts":["a","b"]})),
        |_| message(ANSWER)),
    ("a stream of a call", STREAMS, |l| stream(l, json!({"type":"tool-call-chunks","time0":1,"index":0,"id":"c1",
        "name":"read_shelf","dt":[1],"args":["{","}"]})), |_| CLEAN),
    ("a part of a stream of no known kind", STREAMS, |l| stream(l, json!({"type":"image-chunks"})),
        |_| message(ANSWER)),
    ("a part of a stream has no number", STREAMS,
        |l| stream(l, json!({"type":"chunk","time":1,"seq":3,"chunk":{"type":"usage","usage":{}}})),
        |_| message(ANSWER)),
    // Calls.
    ("a call is announced twice", ALL,
        |l| l.row(ANSWER)["data"]["message"]["content"] = json!([call(), call()]), |_| identity(ANSWER)),
    ("an id may come again in a later step", ALL,
        |l| { l.row(SECOND)["data"]["message"]["content"] = json!([call()]);
              for (n, row) in [l.rows[CALL - 1].clone(), l.rows[RESULT - 1].clone()].into_iter().enumerate() {
                  l.insert(SECOND + 1 + n, row); let row = l.row(SECOND + 1 + n);
                  row["data"]["step"] = json!(2); } }, |_| CLEAN),
    ("a call has an id", ALL,
        |l| l.row(ANSWER)["data"]["message"]["content"][0]["id"] = json!(1), |_| identity(ANSWER)),
    ("a result names a call", ALL,
        |l| { l.row(ANSWER)["data"]["message"]["content"][0]["id"] = json!("");
              l.row(CALL)["data"]["callId"] = json!(""); *l.row(RESULT) = result(l.version, "", "x"); },
        |_| identity(RESULT)),
    ("a call that nobody announced is started", ALL, |l| l.row(CALL)["data"]["callId"] = json!("c9"),
        |_| identity(CALL)),
    ("a call is started under another name", ALL, |l| l.row(CALL)["data"]["name"] = json!("x"), |_| identity(CALL)),
    ("arguments are compared as text", ALL, |l| l.row(CALL)["data"]["arguments"] = json!("{ }"), |_| identity(CALL)),
    ("a call is started twice", ALL, |l| { let row = l.rows[CALL - 1].clone(); l.insert(RESULT, row); },
        |_| identity(RESULT)),
    ("a call is started without its name, though it was announced so", ALL,
        |l| { for row in [ANSWER, CALL] {
                  let row = l.row(row);
                  let at = if row["type"] == "tool/call" { &mut row["data"] }
                      else { &mut row["data"]["message"]["content"][0] };
                  at.as_object_mut().expect("a call").remove("name"); } }, |_| identity(CALL)),
    ("a result of another call", ALL, |l| *l.row(RESULT) = result(l.version, "c9", "x"), |_| identity(RESULT)),
    ("a result that names two calls", ALL, |l| block(l)["toolCallId"] = json!("c9"), |_| identity(RESULT)),
    ("a call is answered twice", ALL, |l| { let row = l.rows[RESULT - 1].clone(); l.insert(STEP_END, row); },
        |_| identity(STEP_END)),
    ("an answer to what was not started", ALL, |l| drop(l.rows.remove(CALL - 1)), |_| identity(CALL)),
    ("an error has a name and a code", ALL,
        |l| { block(l)["isError"] = json!(true); l.row(RESULT)["data"]["error"] = json!({"name":"E"}); },
        |v| if v == 0 { CLEAN } else { message(RESULT) }),
    ("an error is marked as one", ALL, |l| l.row(RESULT)["data"]["error"] = json!({"name":"E","code":"C"}),
        |v| if v < 4 { CLEAN } else { identity(RESULT) }),
    // Requests.
    ("a request in a turn", ALL,
        |l| l.insert(2, json!({"type":"request/header","data":{"header":{"config":{}},"reason":"series"}})),
        |_| CLEAN),
    ("a request outside of a turn", ALL,
        |l| l.push("request/header", &json!({"header":{"config":{}},"reason":"resume"})), |_| lifecycle(END + 1)),
    ("the surroundings of a request outside of a turn", ALL,
        |l| l.push("request/context", &json!({"provider":"p","model":"m"})), |_| lifecycle(END + 1)),
    ("a request for no known reason", ALL,
        |l| l.insert(2, json!({"type":"request/header","data":{"header":{"config":{}},"reason":"whim"}})),
        |_| message(2)),
    ("a request with the system's text", ALL,
        |l| l.insert(2, json!({"type":"request/header","data":{"header":{"system":"x"},"reason":"initial"}})),
        |v| if v < 3 { CLEAN } else { message(2) }),
    // Retries.
    ("retries are counted, each announced and started", ALL,
        |l| for (n, row) in [retry("retry", "q", 1), retry("retry-started", "q", 1), retry("retry", "q", 2),
                             retry("retry", "z", 1), retry("retry-started", "q", 2)].into_iter().enumerate() {
            l.insert(ANSWER + n, row); }, |_| CLEAN),
    ("a retry is left out", ALL,
        |l| { l.insert(ANSWER, retry("retry", "q", 1)); l.insert(ANSWER + 1, retry("retry", "q", 3)); },
        |_| lifecycle(ANSWER + 1)),
    ("a retry comes twice", ALL,
        |l| { l.insert(ANSWER, retry("retry", "q", 1)); l.insert(ANSWER + 1, retry("retry", "q", 1)); },
        |_| lifecycle(ANSWER + 1)),
    ("a retry starts that was not announced", ALL, |l| l.insert(ANSWER, retry("retry-started", "q", 1)),
        |_| lifecycle(ANSWER)),
    ("a retry starts twice", ALL,
        |l| { l.insert(ANSWER, retry("retry", "q", 1)); l.insert(ANSWER + 1, retry("retry-started", "q", 1));
              l.insert(ANSWER + 2, retry("retry-started", "q", 1)); }, |_| lifecycle(ANSWER + 2)),
    ("a retry outside of a step", ALL, |l| l.insert(2, retry("retry", "q", 1)), |_| lifecycle(2)),
    ("retries do not go on in the next step", ALL,
        |l| { l.insert(SECOND, retry("retry-started", "q", 1)); l.row(SECOND)["data"]["step"] = json!(2);
              l.insert(ANSWER, retry("retry", "q", 1)); }, |_| lifecycle(SECOND + 1)),
    ("a retry without an id", ALL, |l| { let mut r = retry("retry", "q", 1); r["data"]["retryId"] = json!(7);
        l.insert(ANSWER, r); }, |_| message(ANSWER)),
    // Pairs.
    ("a compaction between turns", ALL,
        |l| for kind in ["start", "summary", "end"] {
            l.push(&format!("compaction/{kind}"), &json!({"compactionId":"k"})); }, |_| CLEAN),
    ("a compaction in one", ALL,
        |l| for id in ["k", "o"] { l.push("compaction/start", &json!({"compactionId":id})); },
        |_| lifecycle(END + 2)),
    ("a turn in a compaction", ALL,
        |l| { l.push("compaction/start", &json!({"compactionId":"k"})); l.push("turn/start", &json!({"turn":2})); },
        |_| lifecycle(END + 2)),
    ("a marker ends a compaction", ALL,
        |l| { l.push("compaction/start", &json!({"compactionId":"k"})); l.push("session/end-seed", &json!({}));
              l.push("compaction/start", &json!({"compactionId":"o"})); }, |_| CLEAN),
    ("the end of another compaction", ALL,
        |l| { l.push("compaction/start", &json!({"compactionId":"k"}));
              l.push("compaction/end", &json!({"compactionId":"o"})); }, |_| lifecycle(END + 2)),
    ("a command that runs and is done", ALL,
        |l| for kind in ["run", "done"] { l.push(&format!("command/{kind}"), &json!({"commandId":"k"})); },
        |_| CLEAN),
    ("a command is done that did not run", ALL, |l| l.push("command/done", &json!({"commandId":"k"})),
        |_| lifecycle(END + 1)),
    // Queues.
    ("what is put into a queue is taken out of it", ALL,
        |l| { splice(l, json!({"target":"next-turn","start":0,"inserted":[{"id":"m"}]}));
              splice(l, json!({"target":"next-turn","start":0,"removedCount":1,"inserted":[]})); }, |_| CLEAN),
    ("what is not in a queue is taken out of it", ALL,
        |l| splice(l, json!({"target":"next-step","start":0,"removedCount":1,"inserted":[]})),
        |_| lifecycle(END + 1)),
    ("behind the end of a queue", ALL,
        |l| splice(l, json!({"target":"next-step","start":1,"inserted":[]})), |_| lifecycle(END + 1)),
    ("a message in both queues", ALL,
        |l| for target in ["next-turn", "next-step"] {
            splice(l, json!({"target":target,"start":0,"inserted":[{"id":"m"}]})); }, |_| lifecycle(END + 2)),
    // What is inherited.
    ("the begin of a fork is not replayed into queues", ALL,
        |l| { splice(l, json!({"target":"next-turn","start":0,"removedCount":1,"inserted":[]}));
              if l.version < 2 { l.header["seedLength"] = json!(END + 1); }
              else { l.header["isSeeded"] = json!(true); l.push("session/end-seed", &json!({"inherited":true})); } },
        |_| CLEAN),
    ("the first versions mark nothing as inherited", EARLY,
        |l| { splice(l, json!({"target":"next-turn","start":0,"removedCount":1,"inserted":[]}));
              l.push("session/end-seed", &json!({"inherited":true})); },
        |_| lifecycle(END + 1)),
    ("a marker of the first versions is empty", EARLY, |l| l.push("session/end-seed", &json!({"inherited":true})),
        |v| if v == 0 { CLEAN } else { message(END + 1) }),
    ("a mark that nothing is inherited", STREAMS, |l| l.push("session/end-seed", &json!({"inherited":false})),
        |_| message(END + 1)),
    ("something is inherited and no header says so", STREAMS,
        |l| l.push("session/end-seed", &json!({"inherited":true})), |_| ("header_invalid", None)),
    ("a header says that something is inherited, and nothing is", STREAMS,
        |l| l.header["isSeeded"] = json!(true), |_| ("header_invalid", None)),
    // Headers.
    ("a header says whether anything is inherited", STREAMS,
        |l| drop(l.header.as_object_mut().expect("a header").remove("isSeeded")), |_| ("header_invalid", None)),
    ("a header with a key more", ALL, |l| l.header["more"] = json!(1),
        |v| if v == 0 { CLEAN } else { ("header_invalid", None) }),
    ("a header with a key that was given up", ALL, |l| l.header["sandboxMode"] = json!("off"),
        |_| ("header_invalid", None)),
    ("a header without its depth", ALL,
        |l| drop(l.header.as_object_mut().expect("a header").remove("delegationDepth")),
        |_| ("header_invalid", None)),
    ("a header with a working directory that is no whole path", ALL, |l| l.header["cwd"] = json!("shed"),
        |_| ("header_invalid", None)),
    ("a subagent's header", ALL, |l| { l.header["origin"] = json!("subagent"); l.header["agentPreset"] = json!("x");
        l.header["parentSession"] = json!("p"); }, |_| CLEAN),
    ("a header of another version than its name", ALL, |l| l.header["version"] = json!((l.version + 1) % 5),
        |_| ("header_invalid", None)),
    ("a newer version", ALL, |l| l.header = json!({"type":"session","version":5}),
        |_| ("unsupported_version", None)),
    ("a version that no number holds", ALL, |l| l.header["version"] = json!(1e300),
        |_| ("unsupported_version", None)),
    ("a version below all", ALL, |l| l.header["version"] = json!(-1), |_| ("unsupported_version", None)),
    ("a version between two", ALL, |l| l.header["version"] = json!(0.5), |_| ("header_invalid", None)),
    ("a header twice", ALL, |l| { let header = l.header.clone(); l.insert(USER, header); },
        |_| ("header_invalid", Some(USER))),
    // Ends.
    ("a turn that is open", ALL, |l| l.rows.truncate(END - 1), |_| ("interrupted_turn_recoverable", None)),
];

#[test]
fn every_rule_is_held_in_every_version_that_has_it() {
    let mut wrong = Vec::new();
    for (name, versions, change, due) in RULES {
        for version in *versions {
            let mut log = sound(*version);
            change(&mut log);
            let told = told(&log.text(), *version);
            let row = told.first_bad.as_ref().map(|f| f.row);
            let (verdict, place) = due(*version);
            let is = (told.verdict.name(), row);
            if is != (verdict, place.map(|n| n as u64)) {
                wrong.push(format!(
                    "{name}, version {version}: {is:?}, {}",
                    told.reason
                ));
            }
            // Nothing is repaired that breaks a rule.
            let sound = ["clean", "interrupted_turn_recoverable"].contains(&verdict);
            let again = *name == "a header twice";
            if told.must_refuse == (sound || again) {
                wrong.push(format!(
                    "{name}, version {version}: refused {}",
                    told.must_refuse
                ));
            }
            let counted = log.rows.len() as u64;
            if told.rows_total != counted {
                wrong.push(format!(
                    "{name}, version {version}: {} rows",
                    told.rows_total
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is done to the text of a sound log of version 0, and what must be said of it.
type Spelling = (&'static str, &'static [u8], &'static [u8], Wrong);

#[rustfmt::skip]
const SPELLINGS: &[Spelling] = &[
    ("a number in another spelling", b"\"seq\":3,", b"\"seq\":3.0,", CLEAN),
    ("a number with an exponent", b"\"seq\":3,", b"\"seq\":0.3e1,", CLEAN),
    ("a number that is none", b"\"seq\":3,", b"\"seq\":03,", ("missing_middle", Some(ANSWER))),
    ("a number as text", b"\"seq\":3,", b"\"seq\":\"3\",", ("missing_middle", Some(ANSWER))),
    ("of equal keys the last counts", b"\"seq\":3,", b"\"seq\":9,\"seq\":3,", CLEAN),
    ("of equal keys the last counts, and is wrong", b"\"seq\":3,", b"\"seq\":3,\"seq\":9,",
        ("missing_middle", Some(ANSWER))),
    ("a key with an escape", b"\"seq\":3,", b"\"s\\u0065q\":3,", CLEAN),
    ("half of a surrogate pair", b"basil", b"ba\\ud83dsil", CLEAN),
    ("a carriage return at the end of a line", b"\n", b"\r\n", CLEAN),
    ("bytes that are no UTF-8 in a row", b"basil", b"ba\xffsil", ("invalid_utf8", None)),
    ("bytes that are no UTF-8 in the header", b"/w/shed", b"/w/sh\xff", ("invalid_utf8", None)),
    ("a raw control character", b"basil", b"ba\x01sil", ("missing_middle", Some(RESULT))),
    ("a byte order mark", b"{\"createdAt\"", b"\xef\xbb\xbf{\"createdAt\"", ("header_invalid", None)),
    ("minus zero where it must not be", b"\"delegationDepth\":0", b"\"delegationDepth\":-0",
        ("header_invalid", None)),
    ("an empty id", b"\"id\":\"s-1\"", b"\"id\":\"\"", ("header_invalid", None)),
    ("a first line that is no header", b"\"type\":\"session\"", b"\"type\":\"turn/start\"",
        ("header_invalid", None)),
];

#[test]
fn texts_are_read_as_the_harness_reads_them() {
    let text = sound(0).text();
    for (name, from, to, due) in SPELLINGS {
        let mut spelled = Vec::new();
        let mut rest = &text[..];
        while let Some(at) = memchr::memmem::find(rest, from) {
            spelled.extend_from_slice(&rest[..at]);
            spelled.extend_from_slice(to);
            rest = &rest[at + from.len()..];
        }
        spelled.extend_from_slice(rest);
        assert_ne!(spelled, text, "{name}");
        let told = told(&spelled, 0);
        let row = told.first_bad.as_ref().map(|f| f.row);
        let due = (due.0, due.1.map(|n| n as u64));
        assert_eq!((told.verdict.name(), row), due, "{name}: {}", told.reason);
    }
}

#[test]
fn an_open_compaction_keeps_a_turn_from_being_closed() {
    let mut log = sound(1);
    log.rows.truncate(SECOND);
    log.push("compaction/start", &json!({"compactionId":"k"}));
    let whole = log.text();
    let open = told(&whole, 1);
    assert_eq!(open.verdict.name(), "interrupted_turn_recoverable");
    assert_eq!((open.must_refuse, &open.repair), (false, &None));
    // What was cut off is left out all the same.
    let torn = told(&[&whole[..], b"{\"cut"].concat(), 1);
    assert_eq!(torn.verdict.name(), "torn_tail_recoverable");
    let mut made = Vec::new();
    let form = Form {
        packed: false,
        generation: Some(1),
    };
    let repair = torn.repair.expect("a repair");
    session_log::mend(&[&whole[..], b"{\"cut"].concat(), form, &repair, &mut made)
        .expect("written");
    assert!(made == whole, "only the fragment is left out");
}

#[test]
fn a_project_may_have_several_names() {
    use crate::table::check_all;
    use std::os::unix::fs::symlink;
    let dir = tempfile::tempdir().expect("a folder");
    let dir = dir.path().canonicalize().expect("a path");
    let root = dir.join("sessions");
    let project = |cwd: &std::path::Path| {
        let cwd = cwd.to_str().expect("UTF-8");
        root.join(session_log::project_folder(Some(cwd.as_bytes())))
    };
    let put = |folder: &std::path::Path, cwd: &str| {
        let mut log = sound(0);
        log.header["cwd"] = json!(cwd);
        let folder = folder.join("s-1");
        std::fs::create_dir_all(&folder).expect("folders");
        std::fs::write(folder.join("session.jsonl"), log.text()).expect("a log");
    };
    let verdicts = || -> Vec<&'static str> {
        let all = check_all(&root);
        all.iter()
            .map(|(_, c)| c.diagnosis.verdict.name())
            .collect()
    };
    // A working directory that is a link: the folder has the name of either.
    let (real, link) = (dir.join("real"), dir.join("link"));
    std::fs::create_dir(&real).expect("a folder");
    symlink(&real, &link).expect("a link");
    put(&project(&real), link.to_str().expect("UTF-8"));
    assert_eq!(verdicts(), ["clean"]);
    put(&project(&real), "/elsewhere");
    assert_eq!(verdicts(), ["identity_conflict"]);
    // A project's folder that is a link to another one: one session, by two names.
    symlink(project(&real), root.join("--elsewhere--")).expect("a link");
    assert_eq!(verdicts(), ["clean", "clean"]);
    // And twice indeed.
    put(&root.join("--third--"), "/third");
    assert_eq!(verdicts(), ["identity_conflict"; 3]);
}

#[test]
fn a_generation_that_no_number_holds_is_the_newest() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("sessions/--w-shed--/s-1");
    std::fs::create_dir_all(&folder).expect("folders");
    std::fs::write(folder.join("session.v4.jsonl"), sound(4).text()).expect("a log");
    let mut newer = sound(4);
    newer.header["version"] = json!(1e20);
    let name = "session.v100000000000000000000.jsonl";
    std::fs::write(folder.join(name), newer.text()).expect("a log");
    let all = crate::table::check_all(&dir.path().join("sessions"));
    let told: Vec<_> = all
        .iter()
        .map(|(e, c)| (e.path.ends_with(name), c.diagnosis.verdict.name()))
        .collect();
    assert_eq!(told, [(true, "unsupported_version")]);
}
