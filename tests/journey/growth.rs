//! Sources that grow: every version comes back, messages only become more, and a version costs
//! what is new in it. Costs are counted by the sizes of the files, not by what the program says.

use std::path::Path;

use serde_json::Value;

use crate::sandbox::{Sandbox, files_below, fixtures, sample};

const CLAUDE: &str = "cc432c40-914a-4c1a-a972-0103199a736a";
const CODEX: &str = "019ed50c-2fb3-7002-a384-360bea6e7f04";

fn ids(messages: &[Value]) -> Vec<String> {
    messages
        .iter()
        .map(|m| m["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Lays the versions over one path, one after another, with an index between.
fn chain(rel: &str, native: &str, versions: &[Vec<u8>]) {
    let sandbox = Sandbox::new();
    let path = sandbox.home().join(rel);
    let mut known: Vec<String> = Vec::new();
    for (n, version) in versions.iter().enumerate() {
        assert!(
            n == 0 || version.starts_with(&versions[n - 1]),
            "no growth chain"
        );
        sandbox.put(rel, version);
        sandbox.run(&["index"]).expect(0);
        let sessions = sandbox.named(native);
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        let now = ids(&sandbox.messages(sessions[0]["id"].as_str().unwrap()));
        assert!(
            now.len() > known.len(),
            "version {} added no message",
            n + 1
        );
        assert!(
            now.starts_with(&known),
            "a message changed its place or went"
        );
        known = now;
    }
    // The same as one look at the last version alone.
    let once = Sandbox::new();
    once.put(rel, versions.last().unwrap());
    once.run(&["index"]).expect(0);
    let id = once.named(native)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(ids(&once.messages(&id)), known);

    let captures = sandbox.captures(&path);
    assert_eq!(captures.len(), versions.len());
    for (n, version) in versions.iter().enumerate() {
        let seq = u64::try_from(n).unwrap() + 1;
        assert_eq!(captures[n]["seq"], seq);
        assert_eq!(
            captures[n]["blake3"],
            blake3::hash(version).to_hex().to_string()
        );
        assert!(
            sandbox.get(&path, seq) == *version,
            "version {seq} has other bytes"
        );
        let at = format!("{}@{seq}", path.display());
        assert!(
            sandbox.get_with(Path::new(&at), &[]) == *version,
            "{at} has other bytes"
        );
    }
    assert!(sandbox.get_with(&path, &[]) == *versions.last().unwrap());
}

#[test]
fn every_version_of_a_claude_session_comes_back() {
    let versions: Vec<_> = ["t1", "t3", "t5"]
        .iter()
        .map(|t| {
            sample(&format!(
                "claude/entireio-cli/growth-cc432c40/{t}/{CLAUDE}.jsonl"
            ))
        })
        .collect();
    chain(
        &format!(".claude/projects/-src-p/{CLAUDE}.jsonl"),
        CLAUDE,
        &versions,
    );
}

#[test]
fn every_version_of_a_codex_session_comes_back() {
    let name = format!("rollout-2026-06-17-{CODEX}.jsonl");
    let versions: Vec<_> = ["t1", "t2"]
        .iter()
        .map(|t| sample(&format!("codex/agentv/growth/{t}/{name}")))
        .collect();
    chain(
        &format!(".codex/sessions/2026/06/17/{name}"),
        CODEX,
        &versions,
    );
}

#[test]
fn a_path_with_an_at_sign_is_named_with_seq() {
    let sandbox = Sandbox::new();
    let rel = ".claude/projects/-p/odd@2.jsonl";
    let (one, two) = (
        b"{\"type\":\"user\",\"uuid\":\"a\"}\n".to_vec(),
        b"{\"type\":\"x\"}\n",
    );
    let path = sandbox.put(rel, &one);
    sandbox.run(&["index"]).expect(0);
    sandbox.put(rel, two);
    sandbox.run(&["index"]).expect(0);
    assert!(sandbox.get(&path, 1) == one);
    assert!(sandbox.get(&path, 2) == two);
}

/// Every line of every Claude sample, in a fixed order.
fn real_lines() -> Vec<Vec<u8>> {
    let mut lines = Vec::new();
    for file in files_below(&fixtures().join("claude")) {
        if file.extension().is_some_and(|e| e == "jsonl") {
            let bytes = std::fs::read(&file).unwrap();
            lines.extend(
                bytes
                    .split(|b| *b == b'\n')
                    .filter(|l| !l.is_empty())
                    .map(<[u8]>::to_vec),
            );
        }
    }
    lines
}

/// The line in other words: as long and as compressible, but nothing of it was seen before.
fn reworded(line: &[u8], n: u8) -> Vec<u8> {
    let turn = |b: u8, from: u8| from + (b - from + n) % 26;
    line.iter()
        .map(|b| match b {
            b'g'..=b'm' | b'p' | b'q' | b'v'..=b'z' => turn(*b, b'a'),
            b'G'..=b'Z' => turn(*b, b'A'),
            other => *other,
        })
        .collect()
}

#[test]
fn forty_appends_to_a_long_session_cost_little_more_than_one_capture_of_it() {
    let rel = ".claude/projects/-p/long.jsonl";
    let real = real_lines();
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut total = 0;
    for round in 0.. {
        lines.extend(real.iter().map(|l| reworded(l, round)));
        total = lines.iter().map(|l| l.len() + 1).sum::<usize>();
        if total >= 10_000_000 {
            break;
        }
    }
    let file: Vec<u8> = lines
        .iter()
        .flat_map(|l| l.iter().copied().chain([b'\n']))
        .collect();
    assert!(file.len() == total && total >= 10_000_000);

    let once = Sandbox::new();
    once.put(rel, &file);
    once.run(&["index"]).expect(0);
    let alone = once.mirror_bytes();

    let grown = Sandbox::new();
    let begin = lines.len() - 40 * 60;
    for step in 0..=40 {
        let upto = begin + step * 60;
        let len: usize = lines[..upto].iter().map(|l| l.len() + 1).sum();
        let path = grown.put(rel, &file[..len]);
        grown.run(&["index"]).expect(0);
        if step == 40 {
            assert_eq!(grown.captures(&path).len(), 41);
            assert!(grown.get(&path, 41) == file);
        }
    }
    let cost = grown.mirror_bytes();
    println!("{cost} bytes for 41 versions, {alone} for the last one alone");
    assert!(cost * 100 <= alone * 115, "{cost} > 1.15 x {alone}");
}

#[test]
fn each_line_costs_its_own_compressed_size_and_half_a_kilobyte() {
    let sandbox = Sandbox::in_memory();
    let rel = ".claude/projects/-p/live.jsonl";
    let mut file = sample(&format!(
        "claude/entireio-cli/growth-cc432c40/t5/{CLAUDE}.jsonl"
    ));
    file.push(b'\n');
    let path = sandbox.put(rel, &file);
    sandbox.run(&["index"]).expect(0);
    let lines = sample("claude/entireio-cli/839b35f7-4dbd-4d93-9772-3c272cc87caa.jsonl");
    let lines: Vec<&[u8]> = lines.split_inclusive(|b| *b == b'\n').take(140).collect();
    let (mut costs, mut over, mut before): (Vec<u64>, Vec<_>, u64) =
        (Vec::new(), Vec::new(), sandbox.mirror_bytes());
    for line in lines {
        file.extend_from_slice(line);
        sandbox.put(rel, &file);
        sandbox.run(&["index"]).expect(0);
        let now = sandbox.mirror_bytes();
        let own = zstd::bulk::compress(line, 3).unwrap().len() as u64;
        let extra = (now - before).saturating_sub(own);
        costs.push(extra);
        if extra > 512 {
            over.push((costs.len(), line.len(), own, now - before));
        }
        before = now;
    }
    let mean = costs.iter().sum::<u64>() / costs.len() as u64;
    println!(
        "beside the lines: mean {mean}, most {:?} bytes",
        costs.iter().max()
    );
    assert!(mean <= 512, "{mean}");
    // Every 64th version is described anew instead of by what it adds; that is in the mean.
    assert!(
        over.len() <= costs.len() / 64,
        "append, line, compressed, cost: {over:?}"
    );
    assert!(sandbox.get(&path, costs.len() as u64 + 1) == file);
    assert_eq!(sandbox.run(&["mirror", "verify", "--deep"]).code, 0);
}

#[test]
fn a_growing_database_costs_its_changes() {
    let rel = ".codex/state_5.sqlite";
    let grown = Sandbox::new();
    let work = grown.path().join("work.sqlite");
    let conn = rusqlite::Connection::open(&work).unwrap();
    conn.execute_batch(
        "CREATE TABLE threads(id INTEGER PRIMARY KEY, title TEXT, body TEXT, tokens INTEGER);
         CREATE INDEX by_title ON threads(title);",
    )
    .unwrap();
    let words = real_lines();
    let words: Vec<u8> = words.concat();
    let mut words = words.chunks(300);
    let (mut row, mut changed, mut last) = (0i64, 0usize, Vec::new());
    let mut versions: Vec<String> = Vec::new();
    for _ in 0..25 {
        conn.execute_batch("BEGIN").unwrap();
        for _ in 0..200 {
            row += 1;
            let body = String::from_utf8_lossy(words.next().unwrap()).into_owned();
            let title = blake3::hash(&row.to_le_bytes()).to_hex().to_string();
            conn.execute(
                "INSERT INTO threads VALUES(?1, ?2, ?3, 0)",
                (row, title, body),
            )
            .unwrap();
        }
        for n in 0..20i64 {
            let at = 1 + (row * 7919 + n * 104_729) % row;
            conn.execute("UPDATE threads SET tokens = tokens + 1 WHERE id = ?1", [at])
                .unwrap();
        }
        conn.execute_batch("COMMIT").unwrap();
        let bytes = std::fs::read(&work).unwrap();
        // The pages that are new or differ, compressed together.
        if !last.is_empty() {
            let pages: Vec<u8> = bytes
                .chunks(4096)
                .enumerate()
                .filter(|(n, page)| last.chunks(4096).nth(*n) != Some(*page))
                .flat_map(|(_, page)| page.iter().copied())
                .collect();
            changed += zstd::bulk::compress(&pages, 3).unwrap().len();
        }
        versions.push(blake3::hash(&bytes).to_hex().to_string());
        grown.put(rel, &bytes);
        grown.run(&["index"]).expect(0);
        last = bytes;
    }
    let once = Sandbox::new();
    once.put(rel, &last);
    once.run(&["index"]).expect(0);
    let alone = once.mirror_bytes();
    let cost = grown.mirror_bytes();
    println!(
        "{cost} bytes for 25 versions, {alone} for the last alone, {changed} of changed pages"
    );
    let bound = alone + changed as u64;
    assert!(cost * 10 <= bound * 13, "{cost} > 1.3 x {bound}");

    let path = grown.home().join(rel);
    let captures = grown.captures(&path);
    assert_eq!(captures.len(), 25);
    for (n, version) in versions.iter().enumerate() {
        let bytes = grown.get(&path, n as u64 + 1);
        assert_eq!(blake3::hash(&bytes).to_hex().to_string(), *version);
    }
}
