//! Writes a corpus of session files for measurements: Claude Code and Codex shaped, the same bytes
//! for the same arguments on every machine.
//!
//! `corpus SESSIONS MESSAGES SEED OUT` makes `OUT/.claude/projects/...` and `OUT/.codex/sessions/...`,
//! so `OUT` can serve as a home folder; `corpus words` prints the words, the most common ones first. Two sessions in three are Claude's. Words follow a Zipf law
//! over 20,000 words; sessions differ in length by two orders of magnitude, as real ones do.

#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit
)]

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const WORDS: usize = 20_000;
/// 2026-07-01T00:00:00Z in seconds.
const EPOCH: u64 = 1_782_864_000;

/// xorshift64*: small, fast, and ours, so that no library's next version changes the corpus.
struct Rng(u64);

impl Rng {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        for _ in 0..8 {
            rng.next();
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n.max(1)
    }
}

/// A vocabulary and its cumulated Zipf weights, in integers so that no rounding differs.
struct Vocabulary {
    words: Vec<String>,
    cumulated: Vec<u64>,
}

impl Vocabulary {
    fn new() -> Self {
        let mut rng = Rng::new(7);
        let syllables = [
            "ar", "bel", "cor", "dan", "el", "fi", "get", "hex", "ion", "jo", "ka", "lo", "map",
            "node", "or", "path", "qu", "re", "set", "tor", "un", "vec", "wri", "xi", "yn", "zo",
            "err", "ok", "str", "ing",
        ];
        let words: Vec<String> = (0..WORDS)
            .map(|_| {
                let n = 1 + rng.below(4);
                (0..n)
                    .map(|_| syllables[rng.below(syllables.len() as u64) as usize])
                    .collect()
            })
            .collect();
        let mut sum = 0;
        let cumulated = (1..=WORDS as u64)
            .map(|rank| {
                sum += (1 << 40) / rank;
                sum
            })
            .collect();
        Vocabulary { words, cumulated }
    }

    fn text(&self, rng: &mut Rng, bytes: usize, out: &mut String) {
        out.clear();
        let total = self.cumulated[WORDS - 1];
        while out.len() < bytes {
            let draw = rng.below(total);
            let at = self.cumulated.partition_point(|c| *c <= draw);
            out.push_str(&self.words[at.min(WORDS - 1)]);
            out.push(match rng.below(24) {
                0 => '\n',
                1 => '.',
                2 => '(',
                3 => '/',
                4 => '"',
                _ => ' ',
            });
        }
    }
}

fn uuid(rng: &mut Rng) -> String {
    let (a, b) = (rng.next(), rng.next());
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// `seconds` since 1970 as `2026-07-01T00:00:00`.
fn stamp(seconds: u64) -> String {
    let days = seconds / 86_400;
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    // Days to a date by the civil calendar, counted from 0000-03-01.
    let z = days + 719_468;
    let era = z / 146_097;
    let doe = z % 146_097;
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}")
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}

struct Writer<'a> {
    words: &'a Vocabulary,
    rng: Rng,
    body: String,
    bytes: u64,
}

impl Writer<'_> {
    fn file(path: &Path) -> BufWriter<File> {
        fs::create_dir_all(path.parent().expect("a folder")).expect("folder");
        BufWriter::with_capacity(1 << 18, File::create(path).expect("file"))
    }

    fn put(&mut self, out: &mut BufWriter<File>, line: &str) {
        out.write_all(line.as_bytes()).expect("write");
        out.write_all(b"\n").expect("write");
        self.bytes += line.len() as u64 + 1;
    }

    /// Text of 120 to 1,500 bytes.
    fn body(&mut self) -> String {
        let bytes = 120 + self.rng.below(1_380) as usize;
        let mut body = std::mem::take(&mut self.body);
        self.words.text(&mut self.rng, bytes, &mut body);
        let text = json(&body);
        self.body = body;
        text
    }

    fn claude(&mut self, home: &Path, n: u64, messages: u64) {
        let session = uuid(&mut self.rng);
        let project = format!("project-{:03}", n % 97);
        let cwd = format!("/home/user/{project}");
        let path = home.join(format!(
            ".claude/projects/-home-user-{project}/{session}.jsonl"
        ));
        let mut out = Self::file(&path);
        let mut parent = String::from("null");
        let mut time = EPOCH + n * 977;
        for i in 0..messages {
            time += 1 + self.rng.below(40);
            let id = uuid(&mut self.rng);
            let body = self.body();
            let head = format!(
                "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\
                 \"cwd\":\"{cwd}\",\"sessionId\":\"{session}\",\"version\":\"2.1.{}\",\
                 \"gitBranch\":\"main\",\"uuid\":\"{id}\",\"timestamp\":\"{}.{:03}Z\"",
                n % 120,
                stamp(time),
                self.rng.below(1000)
            );
            let line = match i % 4 {
                0 => format!(
                    "{head},\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":{body}}}}}"
                ),
                1 | 3 => format!(
                    "{head},\"type\":\"assistant\",\"requestId\":\"req_{:016x}\",\"message\":\
                     {{\"id\":\"msg_{:016x}\",\"role\":\"assistant\",\"model\":\"model-4-large\",\
                     \"content\":[{{\"type\":\"text\",\"text\":{body}}}],\"usage\":\
                     {{\"input_tokens\":{},\"output_tokens\":{}}}}}}}",
                    self.rng.next(),
                    self.rng.next(),
                    self.rng.below(90_000),
                    self.rng.below(2_000)
                ),
                _ => format!(
                    "{head},\"type\":\"user\",\"message\":{{\"role\":\"user\",\"content\":\
                     [{{\"type\":\"tool_result\",\"tool_use_id\":\"toolu_{:016x}\",\
                     \"content\":{body}}}]}}}}",
                    self.rng.next()
                ),
            };
            parent = format!("\"{id}\"");
            self.put(&mut out, &line);
        }
        out.flush().expect("write");
    }

    fn codex(&mut self, home: &Path, n: u64, messages: u64) {
        let session = uuid(&mut self.rng);
        let mut time = EPOCH + n * 977;
        let begun = stamp(time);
        let (date, clock) = begun.split_at(10);
        let path = home.join(format!(
            ".codex/sessions/{}/rollout-{date}T{}-{session}.jsonl",
            date.replace('-', "/"),
            clock[1..].replace(':', "-")
        ));
        let mut out = Self::file(&path);
        let head = format!(
            "{{\"timestamp\":\"{begun}.000Z\",\"type\":\"session_meta\",\"payload\":\
             {{\"id\":\"{session}\",\"timestamp\":\"{begun}.000Z\",\
             \"cwd\":\"/home/user/project-{:03}\",\"originator\":\"codex_cli\",\
             \"cli_version\":\"0.142.{}\",\"source\":\"cli\"}}}}",
            n % 97,
            n % 9
        );
        self.put(&mut out, &head);
        for i in 0..messages {
            time += 1 + self.rng.below(40);
            let body = self.body();
            let mut line = format!(
                "{{\"timestamp\":\"{}.{:03}Z\",\"type\":\"response_item\",\"payload\":",
                stamp(time),
                self.rng.below(1000)
            );
            let end = match i % 4 {
                0 => write!(
                    line,
                    "{{\"type\":\"message\",\"role\":\"user\",\"content\":\
                     [{{\"type\":\"input_text\",\"text\":{body}}}]}}}}"
                ),
                1 => write!(
                    line,
                    "{{\"type\":\"function_call\",\"name\":\"shell\",\"arguments\":{},\
                     \"call_id\":\"call_{i}\"}}}}",
                    json(&format!("{{\"command\":{body}}}"))
                ),
                2 => write!(
                    line,
                    "{{\"type\":\"function_call_output\",\"call_id\":\"call_{}\",\
                     \"output\":{body}}}}}",
                    i - 1
                ),
                _ => write!(
                    line,
                    "{{\"type\":\"message\",\"role\":\"assistant\",\"content\":\
                     [{{\"type\":\"output_text\",\"text\":{body}}}]}}}}"
                ),
            };
            end.expect("a string takes all");
            self.put(&mut out, &line);
        }
        out.flush().expect("write");
    }
}

/// Splits `messages` over `sessions` by a heavy-tailed law, at least one each.
fn lengths(rng: &mut Rng, sessions: u64, messages: u64) -> Vec<u64> {
    let weights: Vec<u64> = (0..sessions)
        .map(|_| 40_000 / (20 + rng.below(1_000)))
        .collect();
    let sum: u64 = weights.iter().sum();
    let spare = messages.saturating_sub(sessions);
    let mut out: Vec<u64> = weights.iter().map(|w| 1 + spare * w / sum.max(1)).collect();
    let missing = messages.max(sessions) - out.iter().sum::<u64>();
    for (_, slot) in (0..missing).zip(out.iter_mut()) {
        *slot += 1;
    }
    out
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|a| a == "words") {
        println!("{}", Vocabulary::new().words.join("\n"));
        return;
    }
    let number = |i: usize| args.get(i).and_then(|a| a.parse::<u64>().ok());
    let (Some(sessions), Some(messages), Some(seed), Some(out)) = (
        number(1),
        number(2),
        number(3),
        args.get(4).map(PathBuf::from),
    ) else {
        eprintln!("use: corpus SESSIONS MESSAGES SEED OUT | corpus words");
        std::process::exit(2);
    };
    let words = Vocabulary::new();
    let mut rng = Rng::new(seed);
    let lengths = lengths(&mut rng, sessions, messages);
    let mut writer = Writer {
        words: &words,
        rng,
        body: String::new(),
        bytes: 0,
    };
    for (n, messages) in (0..).zip(&lengths) {
        if n % 3 == 2 {
            writer.codex(&out, n, *messages);
        } else {
            writer.claude(&out, n, *messages);
        }
    }
    let total: u64 = lengths.iter().sum();
    println!(
        "{sessions} sessions, {total} messages, {} bytes, seed {seed}",
        writer.bytes
    );
}
