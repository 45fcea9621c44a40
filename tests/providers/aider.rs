//! Aider: a real history, growth at its end, fences, damage.

use std::collections::BTreeMap;

use crate::home::{accounted, count, index, lay, len, messages, natives, said, settled, show};
use crate::sandbox::{Sandbox, sample};

const SAMPLE: &str = "aider/aider/chat-history-prefix.md";
const HISTORY: &str = "repo/.aider.chat.history.md";

/// A home whose settings name the repository.
fn home() -> Sandbox {
    let s = Sandbox::new();
    let roots = "[[roots]]\nprovider = \"aider\"\npath = \"~/repo\"\n";
    s.put(".config/cass/config.toml", roots.as_bytes());
    s
}

/// Everything that is said in all sessions, the runs in the order of their begin.
fn all(s: &Sandbox) -> Vec<String> {
    let mut sessions = s.sessions();
    sessions.sort_by_key(|x| x["started_at"].as_str().unwrap_or_default().to_owned());
    sessions
        .iter()
        .flat_map(|x| said(s, x["native_id"].as_str().unwrap()))
        .collect()
}

#[test]
fn a_real_history_is_read_run_by_run() {
    let s = home();
    lay(&s, SAMPLE, HISTORY);
    index(&s);
    settled(&s);
    let text = String::from_utf8(sample(SAMPLE)).unwrap();
    let runs = text
        .lines()
        .filter(|l| l.starts_with("# aider chat started at "))
        .count();
    // And one for what stands before the first heading, which the sample lost.
    assert_eq!(natives(&s).len(), runs + 1);
    // Every prompt of this history ends with two spaces, as Aider writes it, but for four headings
    // inside of fences and answers.
    let is_user = |l: &str| l.starts_with("#### ") || l == "####";
    let mut prompts = 0;
    let mut before = false;
    for line in text.lines() {
        let now = is_user(line);
        prompts += usize::from(now && !before);
        before = now;
    }
    let sessions = s.sessions();
    let users: usize = natives(&s)
        .iter()
        .map(|n| count(&s, n, "user", "text"))
        .sum();
    assert_eq!(users, prompts);
    for session in &sessions {
        assert!(session["workspace"].as_str().unwrap().ends_with("/repo"));
    }
    // One of the runs, looked at closely.
    let spinner = sessions
        .iter()
        .find(|x| x["started_at"] == "2024-08-05T19:33:32.000Z")
        .unwrap()["native_id"]
        .as_str()
        .unwrap();
    let said = said(&s, spinner);
    assert!(
        said[0].starts_with("tool/tool-result: /Users/"),
        "{}",
        said[0]
    );
    assert_eq!(
        said[1],
        "user/text: Use the Spinner instead of the inlined custom spinner"
    );
    assert!(said[2].starts_with("assistant/text: Certainly! I'll modify"));
    assert_eq!(show(&s, spinner)["harness_version"], "0.47.2-dev");
    let answer = &messages(&s, spinner)[2];
    assert_eq!(answer["model"], "claude-3-5-sonnet-20240620");
    // Every byte belongs to a record, a gap, or what was skipped.
    accounted(&s, spinner, len(SAMPLE));
}

const RUN: &str = "\n# aider chat started at 2025-03-01 10:00:00\n\n\
    > aider --model x  \n> Aider v0.80.0  \n> Main model: gpt-x with diff edit format  \n\n";

#[test]
fn a_history_that_grows_says_each_thing_once() {
    let turn = "#### first line  \n#### second line  \n\nAn answer.\n\n\
        ```md\n#### no prompt\n> no tool\n# aider chat started at 2020-01-01 00:00:00\n```\n\n\
        and its end\n\n> Tokens: 1k sent.  \n> Applied edit to x  \n\n#### yes  \n\nyes\n\n#### yes  \n";
    let whole = format!("{RUN}{turn}");
    let s = home();
    // Cut anywhere: inside a line, a block, a fence, between blocks.
    for cut in (RUN.len() - 30..whole.len())
        .step_by(37)
        .chain([whole.len()])
    {
        s.put(HISTORY, &whole.as_bytes()[..cut]);
        index(&s);
    }
    settled(&s);
    let alone = home();
    alone.put(HISTORY, whole.as_bytes());
    index(&alone);
    // The id is that of the path: the two homes differ.
    assert_eq!(all(&s), all(&alone));
    assert_eq!(
        all(&s)[1..],
        [
            "user/text: first line\nsecond line",
            "assistant/text: An answer.\n\n```md\n#### no prompt\n> no tool\n\
             # aider chat started at 2020-01-01 00:00:00\n```\n\nand its end",
            "tool/tool-result: Tokens: 1k sent.\nApplied edit to x",
            "user/text: yes",
            "assistant/text: yes",
            "user/text: yes",
        ]
    );
    let id = &natives(&s)[0];
    assert_eq!(natives(&s).len(), 1);
    accounted(&s, id, whole.len() as u64);
}

#[test]
fn a_fence_that_was_never_closed_ends_where_aider_speaks() {
    let s = home();
    let text = format!(
        "{RUN}#### go  \n\nlook:\n```py\nx = 1\n\n> ^C again to exit  \n\n#### and now  \n\nfine\n\
         \n# aider chat started at 2025-03-01 11:00:00\n\n#### later  \n"
    );
    s.put(HISTORY, text.as_bytes());
    index(&s);
    assert_eq!(
        all(&s)[1..],
        [
            "user/text: go",
            "assistant/text: look:\n```py\nx = 1",
            "tool/tool-result: ^C again to exit",
            "user/text: and now",
            "assistant/text: fine",
            "user/text: later",
        ]
    );
}

#[test]
fn runs_of_one_second_are_told_apart_and_a_rewrite_keeps_the_rest() {
    let s = home();
    let run = |time: &str, said: &str| {
        format!("\n# aider chat started at 2025-03-01 {time}\n\n#### {said}  \n\n")
    };
    let whole = run("10:00:00", "a") + &run("10:00:00", "b") + &run("11:00:00", "c");
    s.put(HISTORY, whole.as_bytes());
    index(&s);
    assert_eq!(natives(&s).len(), 3);
    // The person deletes the beginning.
    s.put(HISTORY, run("11:00:00", "c").as_bytes());
    index(&s);
    settled(&s);
    let mut all = all(&s);
    all.sort();
    assert_eq!(all, ["user/text: a", "user/text: b", "user/text: c"]);
}

#[test]
fn a_run_keeps_its_id_when_another_of_its_second_comes_before_it() {
    let s = home();
    let run = |said: &[&str]| {
        let turns: Vec<String> = said.iter().map(|t| format!("#### {t}  \n\n")).collect();
        format!(
            "\n# aider chat started at 2025-03-01 10:00:00\n\n{}",
            turns.concat()
        )
    };
    let sessions = |s: &Sandbox, runs: &[String]| -> BTreeMap<String, Vec<String>> {
        s.put(HISTORY, runs.concat().as_bytes());
        index(s);
        settled(s);
        natives(s)
            .into_iter()
            .map(|n| (n.clone(), said(s, &n)))
            .collect()
    };
    let holds = |all: &BTreeMap<String, Vec<String>>, first: &str| -> String {
        let is_it = |said: &&Vec<String>| said[0] == format!("user/text: {first}");
        let of: Vec<&String> = all
            .iter()
            .filter(|(_, v)| is_it(v))
            .map(|(n, _)| n)
            .collect();
        assert_eq!(of.len(), 1, "{all:?}");
        of[0].clone()
    };
    let one = sessions(&s, &[run(&["a", "a2"])]);
    let a = holds(&one, "a");
    // Two histories are merged; then each of the runs goes on.
    let two = sessions(&s, &[run(&["b"]), run(&["a", "a2"])]);
    let b = holds(&two, "b");
    assert_eq!((holds(&two, "a"), two.len()), (a.clone(), 2));
    let three = sessions(
        &s,
        &[run(&["c"]), run(&["b", "b2"]), run(&["a", "a2", "a3"])],
    );
    assert_eq!(
        (holds(&three, "a"), holds(&three, "b")),
        (a.clone(), b.clone())
    );
    assert_eq!(
        three[&a],
        ["user/text: a", "user/text: a2", "user/text: a3"]
    );
    assert_eq!((three[&b].len(), three.len()), (2, 3));
    // One is taken out, and what another begins with is changed: nothing is merged by luck.
    let four = sessions(&s, &[run(&["other", "b2"]), run(&["a", "a2", "a3"])]);
    assert_eq!((holds(&four, "a"), four.len()), (a.clone(), 4));
    assert!(three.iter().all(|(id, said)| four[id] == *said));
    // All of it is gone, and there again in another order.
    s.put(HISTORY, b"");
    index(&s);
    let five = sessions(&s, &[run(&["a", "a2", "a3"]), run(&["c"]), run(&["new"])]);
    assert_eq!(holds(&five, "a"), a);
    assert_eq!(holds(&five, "c"), holds(&three, "c"));
    assert_eq!(five.len(), 5);
}

#[test]
fn damage_costs_no_more_than_it_touches() {
    let run = RUN.as_bytes();
    let mut nul = [run, b"#### a  \n\nanswer one\n"].concat();
    nul.extend_from_slice(&[0; 700]);
    nul.extend_from_slice(b"\n#### b  \n\nanswer two\n");
    let bad = [
        run,
        b"#### \xff\xfe a  \n\nanswer one\n\n#### b  \n\nanswer two\n",
    ]
    .concat();
    let crlf =
        String::from_utf8([run, b"#### a  \n\nanswer one\n\n#### b  \n\nanswer two\n"].concat())
            .unwrap()
            .replace('\n', "\r\n");
    for (bytes, users) in [
        (nul.clone(), 2),
        ([nul, vec![0; 4096]].concat(), 2),
        (bad, 2),
        ([b"\xef\xbb\xbf".as_slice(), crlf.as_bytes()].concat(), 2),
    ] {
        let s = home();
        s.put(HISTORY, &bytes);
        index(&s);
        settled(&s);
        let ids = natives(&s);
        let id = ids
            .iter()
            .find(|n| count(&s, n, "user", "text") > 0)
            .unwrap();
        assert_eq!(count(&s, id, "user", "text"), users);
        assert_eq!(count(&s, id, "assistant", "text"), 2);
        accounted(&s, id, bytes.len() as u64);
    }
    for odd in [
        &b""[..],
        b"\n\n",
        b"{\"json\":1}\n",
        b"#### ",
        b"SQLite format 3\0",
    ] {
        let s = home();
        s.put(HISTORY, odd);
        s.run(&["index", "--json"]).expect(0);
        s.run(&["mirror", "verify", "--deep", "--json"]).expect(0);
    }
}

#[test]
fn the_folder_of_the_variable_is_looked_at_and_what_lies_beside_is_kept() {
    let s = Sandbox::new();
    let history = s.put(HISTORY, format!("{RUN}#### hi  \n").as_bytes());
    s.put("repo/.aider.input.history", b"# 2025\n+hi\n");
    s.put("repo/sub/.aider.chat.history.md", b"#### not asked for\n");
    let mut c = s.command(&["index", "--json"]);
    c.env("AIDER_CHAT_HISTORY_FILE", &history);
    let ran = crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(ran.number("/sources/captured"), 2);
    assert_eq!(natives(&s).len(), 1);
    // A history at the top of the home folder: the archive lies below it, and is no part of it.
    let s = Sandbox::new();
    let history = s.put(".aider.chat.history.md", RUN.as_bytes());
    let mut c = s.command(&["index", "--json"]);
    c.env("AIDER_CHAT_HISTORY_FILE", &history)
        .env("CASS_DATA_DIR", s.home().join(".local/share/cass"));
    let ran = crate::sandbox::ran(c.output().unwrap()).expect(0);
    assert_eq!(ran.number("/sources/captured"), 1);
}
