//! Sessions made of given texts, and what searching them gives.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::sandbox::{Ran, Sandbox, ran};

/// A message of a session to write.
pub struct Said<'a> {
    pub role: &'a str,
    pub time: &'a str,
    pub text: &'a str,
}

impl<'a> Said<'a> {
    pub fn user(text: &'a str) -> Said<'a> {
        Said {
            role: "user",
            time: "2026-01-02T03:04:05.000Z",
            text,
        }
    }
}

/// Puts a Claude session where its harness would.
pub fn claude(s: &Sandbox, id: &str, cwd: &str, said: &[Said<'_>]) -> PathBuf {
    let mut lines = String::new();
    for (n, m) in said.iter().enumerate() {
        let content = if m.role == "assistant" {
            json!([{ "type": "text", "text": m.text }])
        } else {
            json!(m.text)
        };
        let line = json!({
            "type": m.role, "sessionId": id, "uuid": format!("{id}-{n}"), "cwd": cwd,
            "timestamp": m.time, "message": { "role": m.role, "content": content },
        });
        lines.push_str(&line.to_string());
        lines.push('\n');
    }
    s.put(&format!(".claude/projects/-p/{id}.jsonl"), lines.as_bytes())
}

/// A session of one message for each text.
pub fn texts(s: &Sandbox, id: &str, all: &[&str]) -> PathBuf {
    let said: Vec<Said<'_>> = all.iter().map(|t| Said::user(t)).collect();
    claude(s, id, "/w", &said)
}

pub fn id(n: u32) -> String {
    format!("0b7a7a3e-1111-4222-8333-{n:012}")
}

/// Searches; `words` may hold `--` and what follows it.
#[track_caller]
pub fn ask(s: &Sandbox, words: &[&str]) -> Ran {
    let mut args = vec!["search", "--json", "--limit", "1000"];
    args.extend(words);
    ran(s.command(&args).output().unwrap())
}

/// The same, and it must have been done.
#[track_caller]
pub fn search(s: &Sandbox, words: &[&str]) -> Ran {
    ask(s, words).expect(0)
}

/// The whole texts of the hits, as the export has them, sorted.
#[track_caller]
pub fn found(s: &Sandbox, words: &[&str]) -> Vec<String> {
    let run = search(s, words);
    let hits = run.at("/hits").as_array().unwrap();
    assert_eq!(run.number("/total"), hits.len() as u64, "{}", run.stdout);
    let mut texts: Vec<String> = hits.iter().map(|h| text_of(s, h)).collect();
    texts.sort();
    texts
}

/// The text of a hit's message, by its id in the export.
pub fn text_of(s: &Sandbox, hit: &Value) -> String {
    let session = hit["session_id"].as_str().unwrap();
    let message = s
        .messages(session)
        .into_iter()
        .find(|m| m["id"] == hit["message_id"])
        .unwrap();
    let text = message["text"].as_str().unwrap().to_owned();
    assert!(text.contains(hit["snippet"].as_str().unwrap()));
    text
}
