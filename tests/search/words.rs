use super::sandbox::Sandbox;
use super::talk::{ask, found, id, search, texts};

/// Each query with the texts that it must find and those that it must not.
#[test]
fn scripts_identifiers_codes_and_phrases() {
    let all = [
        "The quick brown fox jumps over the lazy dog",
        "我们使用Rust编写数据库程序",
        "猫",
        "日本語の文章を検索する",
        "カタカナのデータ",
        "한국어 검색 시험",
        "fn getUserName(userId: u32)",
        "let get_user_name = 1;",
        "the get-user-name flag",
        "HTTPServer and XMLHttpRequest",
        "config.server.port = 8080",
        "src/store/archive/reader.rs line 42",
        r"C:\Users\anna\notes.txt",
        "error[E0308]: mismatched types",
        "connect failed: ECONNREFUSED 127.0.0.1:5432",
        "HRESULT 0x80070005 access denied",
        "Der Ärger im Café, naïve Façade",
        "ORA-00942: table or view does not exist",
        "rm -rf build",
    ];
    let s = Sandbox::new();
    texts(&s, &id(1), &all);
    s.run(&["index"]).expect(0);
    for (query, expected) in [
        ("quick fox", &[0][..]),
        ("QUICK", &[0]),
        ("\"brown fox\"", &[0]),
        ("\"fox brown\"", &[]),
        ("fox brown", &[0]),
        ("jump*", &[0]),
        ("jump", &[]),
        ("使用", &[1]),
        ("数据库", &[1]),
        ("据", &[1]),
        ("序", &[1]),
        ("rust编写", &[1]),
        ("用rust", &[1]),
        ("猫", &[2]),
        ("検索", &[3]),
        ("日", &[3]),
        ("する", &[3]),
        ("データ", &[4]),
        ("タ", &[4]),
        ("한국", &[5]),
        ("국", &[5]),
        ("어", &[5]),
        ("검색", &[5]),
        ("getUserName", &[6, 7, 8]),
        ("getusername", &[6, 7]),
        ("get_user_name", &[6, 7, 8]),
        ("get-user-name", &[6, 7, 8]),
        ("username", &[]),
        ("user name", &[6, 7, 8]),
        ("userid", &[6]),
        ("httpserver", &[9]),
        ("server", &[9, 10]),
        ("http request", &[9]),
        ("config.server.port", &[10]),
        ("port", &[10]),
        ("archive/reader.rs", &[11]),
        ("src/store/archive/reader.rs", &[11]),
        ("reader", &[11]),
        (r"C:\Users\anna", &[12]),
        ("notes.txt", &[12]),
        ("E0308", &[13]),
        ("e0308", &[13]),
        ("econnrefused", &[14]),
        ("127.0.0.1:5432", &[14]),
        ("0x80070005", &[15]),
        ("cafe", &[16]),
        ("café", &[16]),
        ("cafe\u{301}", &[16]),
        ("arger", &[16]),
        ("facade naive", &[16]),
        ("ORA-00942", &[17]),
        ("00942", &[17]),
        ("\"rm -rf\"", &[18]),
        ("nosuchword", &[]),
    ] {
        let mut wanted: Vec<&str> = expected.iter().map(|n| all[*n]).collect();
        wanted.sort_unstable();
        assert_eq!(found(&s, &["--", query]), wanted, "{query}");
    }
    let run = search(&s, &["cafe"]);
    let hit = run.at("/hits/0");
    let chars: Vec<char> = hit["snippet"].as_str().unwrap().chars().collect();
    let (a, b) = (
        hit["matches"][0]["start"].as_u64().unwrap() as usize,
        hit["matches"][0]["end"].as_u64().unwrap() as usize,
    );
    assert_eq!(chars[a..b].iter().collect::<String>(), "Café");
    assert_eq!(hit["source_exists"], true);
}

#[test]
fn no_query_is_a_syntax_error() {
    let s = Sandbox::new();
    texts(&s, &id(1), &["alpha beta AND gamma", "a NEAR b"]);
    s.run(&["index"]).expect(0);
    let huge = "word ".repeat(20_000);
    for query in [
        "\"alpha",
        "alpha\"",
        "\"\"\"alpha",
        "alpha AND",
        "AND",
        "NEAR(a b)",
        "alpha OR (",
        "p:alpha",
        "alpha^2",
        "{p w}: alpha",
        "alpha +beta",
        "-alpha",
        "*alpha*",
        "alpha\u{0}beta",
        "\u{1b}[31m alpha",
        "a' OR 1=1 --",
        "日\"本",
        &huge,
    ] {
        if query.contains('\0') {
            continue;
        }
        let run = ask(&s, &["--explain", "--", query]);
        assert_eq!(run.code, 0, "{query}: {}", run.stdout);
    }
    assert_eq!(found(&s, &["\"alpha"]), ["alpha beta AND gamma"]);
    assert_eq!(found(&s, &["and"]), ["alpha beta AND gamma"]);
    assert_eq!(found(&s, &["near"]), ["a NEAR b"]);
    for query in ["", " ", "\"\"", "*", "()!?"] {
        let run = ask(&s, &["--", query]).expect(2);
        assert_eq!(run.text("/err/kind"), "usage");
    }
}

/// A message of 92 KB without a space, one of 3 MB, and one of odd bytes stop no build.
#[test]
fn no_poison_stops_a_build() {
    let s = Sandbox::new();
    let word = "x".repeat(92_000);
    let long = format!("{} {} behind", "filler ".repeat(400_000), "needle");
    let odd = "before \u{0}\u{1}\u{fffd}\u{200b}\u{202e} after";
    texts(&s, &id(1), &[&word, &long, odd, "healthy"]);
    let run = s.run(&["index"]).expect(0);
    assert_eq!(run.number("/lexical/documents"), 4);
    assert_eq!(run.number("/lexical/cut"), 0);
    assert_eq!(search(&s, &["healthy"]).number("/total"), 1);
    assert_eq!(search(&s, &["before after"]).number("/total"), 1);
    assert_eq!(search(&s, &[&word]).number("/total"), 1);
    assert_eq!(search(&s, &["filler"]).number("/total"), 1);
    assert_eq!(found(&s, &["needle behind"]).len(), 1);
}

/// A message of 20 MB is indexed whole, found by its last words, and needs less memory than a large
/// source may.
#[cfg(target_os = "linux")]
#[test]
fn a_huge_message_is_found_by_its_last_words_in_little_memory() {
    let s = Sandbox::new();
    let filler: String = (0..100_000)
        .map(|n| format!("filler getLine{n} "))
        .collect();
    let mut text = filler.repeat((20 << 20) / filler.len() + 1);
    text.push_str("the last words");
    texts(&s, &id(1), &["small", &text]);
    drop((filler, text));
    let peak = |args: &[&str]| -> (u64, String) {
        let mut child = s
            .command(args)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut out = String::new();
            std::io::Read::read_to_string(&mut pipe, &mut out).unwrap();
            out
        });
        let mut peak = 0;
        while child.try_wait().unwrap().is_none() {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
            let mark = status.unwrap_or_default();
            let mark = mark.lines().find(|l| l.starts_with("VmHWM:"));
            let kib = mark.and_then(|l| l.split_ascii_whitespace().nth(1)?.parse().ok());
            peak = peak.max(kib.unwrap_or(0));
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        (peak >> 10, reader.join().unwrap())
    };
    let (mib, _) = peak(&["index", "--json", "--skip-lexical"]);
    assert!((20..256).contains(&mib), "index without search: {mib} MiB");
    let (mib, out) = peak(&["index", "--json"]);
    assert!((20..256).contains(&mib), "lexical build: {mib} MiB");
    assert!(out.contains("\"cut\":0"), "{out}");
    let (mib, out) = peak(&["search", "--json", "\"last words\""]);
    assert!((20..256).contains(&mib), "search: {mib} MiB");
    assert!(
        out.contains("\"total\":1,") && out.contains("the last words"),
        "{out}"
    );
}
