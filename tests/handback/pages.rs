//! A session as a page: what is in it can't become markup, a script, an address or another message.

use std::collections::BTreeSet;

use crate::sandbox::{Sandbox, files_below, fixtures, sample};

const ID: &str = "11111111-2222-4333-8444-555555555555";

const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "</pre></details></article><script src=//x></script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>",
    "' onmouseover='alert(1)",
    "` onfocus=alert(1) autofocus x=`",
    "<a href=\"javascript:alert(1)\">x</a>",
    "javascript:alert(1)",
    "<!-- --><!DOCTYPE x [<!ENTITY y SYSTEM \"file:///etc/passwd\">]>&y;",
    "<![CDATA[<b>]]>",
    "&lt;script&gt;",
    "&#x3c;script&#x3e;",
    "<meta http-equiv=refresh content=\"0;url=http://x\">",
    "<style>@import 'http://x'</style>",
    "</style><link rel=stylesheet href=http://x>",
    "</title><base href=http://x>",
    "<iframe srcdoc='<script>'></iframe>",
    "<form action=http://x><input name=a>",
    "<template><b></template>",
    "<plaintext>",
    "<textarea>",
    "\u{202e}gnp.exe",
    "\u{2066}\u{2069}\u{200b}",
    "\u{0}\u{1}\u{1b}[2J\u{7f}\u{9b}",
    "\u{feff}+ADw-script+AD4-",
    "]]>",
    "```\n# out\n```",
    "~~~\n# out",
    "````\n```\n````",
    "# heading\n---\n===",
    "[x](javascript:alert(1))",
    "![x](http://x/y.png)",
    "[x]: http://x 'y'",
    "<http://x>",
    "| a | b |\n|---|---|\n| ` | <b> ` |",
    "a\\",
    "`",
    "\\`<b>`",
    "&amp;nbsp;",
    "日本語 é 👩‍👩‍👧 ❤️",
    "a\r\nb\rc",
    "> quoted\n\n> ```\n> open",
];

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Every hostile text as a message, a tool's name, input and output, the title and the workspace.
fn hostile() -> (Sandbox, usize) {
    let sandbox = Sandbox::new();
    let mut lines = String::new();
    for (n, text) in HOSTILE.iter().enumerate() {
        let q = quoted(text);
        let common = format!(
            "\"sessionId\":\"{ID}\",\"cwd\":{q},\"version\":{q},\
             \"timestamp\":\"2026-01-02T03:04:05.000Z\""
        );
        lines.push_str(&format!(
            "{{\"type\":\"user\",\"uuid\":\"u{n}\",{common},\"message\":{{\"role\":\"user\",\"content\":{q}}}}}\n\
             {{\"type\":\"assistant\",\"uuid\":\"a{n}\",{common},\"message\":{{\"role\":\"assistant\",\
             \"model\":{q},\"content\":[{{\"type\":\"text\",\"text\":{q}}},{{\"type\":\"tool_use\",\
             \"id\":\"t{n}\",\"name\":{q},\"input\":{{\"k\":{q}}}}}]}}}}\n\
             {{\"type\":\"user\",\"uuid\":\"r{n}\",{common},\"message\":{{\"role\":\"user\",\"content\":\
             [{{\"type\":\"tool_result\",\"tool_use_id\":\"t{n}\",\"content\":{q}}}]}}}}\n\
             {{\"type\":\"summary\",\"sessionId\":\"{ID}\",\"summary\":{q},\"leafUuid\":\"u{n}\"}}\n\
             {{\"type\":\"custom-title\",\"sessionId\":\"{ID}\",\"customTitle\":{q}}}\n"
        ));
    }
    sandbox.put(&format!(".claude/projects/-w/{ID}.jsonl"), lines.as_bytes());
    sandbox.run(&["index"]).expect(0);
    let total = sandbox
        .run(&["view", ID])
        .expect(0)
        .number("/messages_total");
    (sandbox, usize::try_from(total).unwrap())
}

fn page(sandbox: &Sandbox, id: &str, format: &str) -> String {
    let out = sandbox
        .command(&["export", id, "--format", format])
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(out.stderr.is_empty());
    String::from_utf8(out.stdout).unwrap()
}

/// The tags of a page, as a browser would cut them: from `<` to `>`.
fn tags(html: &str) -> Vec<&str> {
    html.split('<')
        .skip(1)
        .map(|rest| &rest[..rest.find('>').expect("a tag that never ends")])
        .collect()
}

fn harmless(html: &str) {
    let style = html.find("<style>").unwrap()..html.find("</style>").unwrap();
    let without_style = format!("{}{}", &html[..style.start], &html[style.end..]);
    let allowed: BTreeSet<&str> = [
        "!doctype", "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2",
        "dl", "dt", "dd", "article", "details", "summary", "pre", "div", "time", "span", "footer",
    ]
    .into();
    for tag in tags(&without_style) {
        let tag = tag.trim_start_matches('/');
        let mut words = tag.splitn(2, ' ');
        let name = words.next().unwrap();
        assert!(allowed.contains(name), "{tag}");
        let rest = words.next().unwrap_or_default();
        let ours = [
            "",
            "open",
            "lang=\"en\"",
            "dir=\"auto\"",
            "html",
            "class=\"user\"",
        ];
        let known = ours.contains(&rest)
            || name == "meta"
            || rest.starts_with("class=\"")
                && !rest.contains(['<', '>', '\''])
                && rest
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "=\" ".contains(c));
        assert!(known, "{tag}");
    }
    assert_eq!(
        tags(html).iter().filter(|t| t.starts_with("meta")).count(),
        5
    );
    assert!(html.contains("content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri"));
    assert!(!html[style].contains("url("));
    let acts = |c: char| {
        c != '\n' && c != '\t' && c.is_control()
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || ('\u{2066}'..='\u{2069}').contains(&c)
    };
    assert!(!html.chars().any(acts));
}

#[test]
fn hostile_text_stays_text_in_html() {
    let (sandbox, total) = hostile();
    let html = page(&sandbox, ID, "html");
    harmless(&html);
    assert_eq!(html.matches("<article").count(), total);
    assert_eq!(html.matches("</article>").count(), total);
    assert!(html.ends_with("</html>\n"));
    assert!(html.contains("日本語 é 👩‍👩‍👧 ❤️"));
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(html.contains("prefers-color-scheme:dark") && html.contains("@media print"));
}

#[test]
fn hostile_text_ends_no_message_in_markdown() {
    let (sandbox, total) = hostile();
    let text = page(&sandbox, ID, "markdown");
    // What is neither quoted nor fenced is ours.
    let mut fence: Option<&str> = None;
    let mut headings = 0;
    for line in text.lines() {
        if let Some(open) = fence {
            if line == open {
                fence = None;
            }
            continue;
        }
        if line.starts_with("```") {
            fence = Some(line.trim_end_matches("json"));
            continue;
        }
        if line.starts_with("> ") || line == ">" {
            continue;
        }
        if line.starts_with("## ") {
            headings += 1;
        }
        let bare = line
            .replace("\\<", "")
            .replace("\\`", "")
            .replace("\\!", "")
            .replace("\\[", "");
        assert!(!bare.contains(['<', '`', '[']), "{line}");
    }
    assert_eq!(fence, None);
    assert_eq!(headings, total);
    // The text of people: no tag outside of code.
    assert!(text.contains("> &lt;script>alert(1)&lt;/script>"));
    assert!(text.contains("> &#33;[x](http://x/y.png)"));
}

#[test]
fn every_sample_gives_a_whole_page() {
    let sandbox = Sandbox::new();
    sandbox.lay_out_samples();
    for (from, to) in [
        ("opencode/harness-1.1.65", ".local/share/opencode"),
        ("gemini/entireio-cli/chats", ".gemini/tmp/x/chats"),
    ] {
        for file in files_below(&fixtures().join(from)) {
            let rel = file.strip_prefix(fixtures()).unwrap().to_str().unwrap();
            let below = &rel[from.len()..];
            sandbox.put(&format!("{to}{below}"), &sample(rel));
        }
    }
    sandbox.run(&["index"]);
    let mut agents = BTreeSet::new();
    for session in sandbox.sessions() {
        let id = session["id"].as_str().unwrap();
        agents.insert(session["provider"].as_str().unwrap().to_owned());
        let total = sandbox
            .run(&["view", id, "--count", "1"])
            .expect(0)
            .number("/messages_total");
        let html = page(&sandbox, id, "html");
        harmless(&html);
        assert_eq!(
            html.matches("<article").count() as u64,
            total + html.matches("<h2>damage</h2>").count() as u64
        );
        let text = page(&sandbox, id, "markdown");
        let word = if total == 1 { "message" } else { "messages" };
        assert!(text.contains(&format!("\n---\n\n{total} {word}, ")));
    }
    assert!(agents.len() >= 4, "{agents:?}");
}

#[test]
fn a_page_goes_into_a_file_and_never_over_one() {
    let sandbox = Sandbox::new();
    let rel = "claude/agent-sessions/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f.jsonl";
    sandbox.put(
        ".claude/projects/-w/0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f.jsonl",
        &sample(rel),
    );
    sandbox.run(&["index"]).expect(0);
    let id = "0a1b2c3d-4e5f-4061-8071-2a3b4c5d6e7f";
    for format in ["html", "markdown"] {
        let file = sandbox.path().join(format);
        let args = [
            "export",
            id,
            "--format",
            format,
            "-o",
            file.to_str().unwrap(),
        ];
        let run = sandbox.run(&args).expect(0);
        let bytes = std::fs::read(&file).unwrap();
        assert_eq!(
            run.text("/files/0/blake3"),
            blake3::hash(&bytes).to_hex().as_str()
        );
        assert_eq!(run.number("/bytes_total"), bytes.len() as u64);
        assert_eq!(run.text("/format"), format);
        assert_eq!(
            String::from_utf8(bytes.clone()).unwrap(),
            page(&sandbox, id, format)
        );
        let again = sandbox.run(&args).expect(2);
        assert_eq!(again.text("/err/kind"), "target-exists");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
        // Into the harness's own folder nothing is handed out by a name.
        let inside = sandbox.home().join(".claude/projects/x.html");
        let refused = sandbox.run(&[
            "export",
            id,
            "--format",
            format,
            "-o",
            inside.to_str().unwrap(),
        ]);
        assert_eq!(refused.expect(2).text("/err/kind"), "unsafe-target");
        // One document is asked for: a page on stdout is none.
        sandbox.run(&["export", id, "--format", format]).expect(2);
    }
}
