//! A sound log of any length: turns with a tool call and an answer, half of the answers' pieces in
//! packed rows. The same bytes for the same length everywhere.

use std::io::{self, Write};

const WORDS: [&str; 16] = [
    "shelf ",
    "basil ",
    "thyme ",
    "water ",
    "the ",
    "of ",
    "ledger ",
    "day ",
    "\\n",
    "frost ",
    "\\\"row\\\" ",
    "seeds ",
    "über ",
    "and ",
    "row ",
    "north ",
];

struct Log<'o> {
    out: &'o mut dyn Write,
    packed: bool,
    /// Rows of the batch so far.
    batch: String,
    /// Bytes of text so far.
    text: u64,
    seq: u64,
    random: u64,
}

/// Writes a log of at least so many bytes of text, packed with a frame a step.
pub fn write(out: &mut dyn Write, bytes: u64, packed: bool) -> io::Result<()> {
    let mut log = Log {
        out,
        packed,
        batch: String::new(),
        text: 0,
        seq: 0,
        random: 1,
    };
    log.row(
        "{\"type\":\"session\",\"version\":0,\"id\":\"session-00000002-0000-4000-8000-000000000002\",\
         \"createdAt\":1700000000000,\"cwd\":\"/w/garden-shed\",\"delegationDepth\":0}",
    );
    log.end_batch()?;
    let mut turn = 0;
    while log.text < bytes {
        turn += 1;
        log.turn(turn)?;
    }
    Ok(())
}

impl Log<'_> {
    fn row(&mut self, row: &str) {
        self.batch.push_str(row);
        self.batch.push('\n');
    }

    fn end_batch(&mut self) -> io::Result<()> {
        self.text += self.batch.len() as u64;
        if self.packed {
            let mut encoder = zstd::Encoder::new(&mut self.out, 3)?;
            encoder.include_checksum(true)?;
            encoder.write_all(self.batch.as_bytes())?;
            encoder.finish()?;
        } else {
            self.out.write_all(self.batch.as_bytes())?;
        }
        self.batch.clear();
        Ok(())
    }

    fn event(&mut self, kind: &str, data: &str, more: &str) {
        let (seq, time) = (self.seq, 1_700_000_000_000 + self.seq * 7);
        self.row(&format!(
            "{{\"type\":\"{kind}\",\"seq\":{seq},\"time\":{time},\"data\":{{{data}}}{more}}}"
        ));
        self.seq += 1;
    }

    fn word(&mut self) -> &'static str {
        // Knuth's constants: any order that zstd can't foresee will do.
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        WORDS[usize::try_from(self.random >> 60).unwrap_or(0)]
    }

    fn words(&mut self, n: u64) -> Vec<&'static str> {
        (0..n).map(|_| self.word()).collect()
    }

    /// Pieces of an answer between their begin and end, as one row or as one row each.
    fn block(&mut self, at: &str, index: u64, n: u64, one_row: bool) -> String {
        let chunk = |what: &str| format!("{at},\"chunk\":{{{what}}}");
        self.event(
            "assistant/chunk",
            &chunk(&format!(
                "\"type\":\"block-start\",\"index\":{index},\"blockType\":\"text\""
            )),
            "",
        );
        let pieces = self.words(n);
        if one_row {
            let (seq, time) = (self.seq, 1_700_000_000_000 + self.seq * 7);
            let steps = vec!["3"; pieces.len() - 1].join(",");
            let texts = pieces.join("\",\"");
            self.row(&format!(
                "{{\"type\":\"text-chunks\",\"seq0\":{seq},\"time0\":{time},\"data\":{{{at},\
                 \"index\":{index},\"dt\":[{steps}],\"texts\":[\"{texts}\"]}}}}"
            ));
            self.seq += n;
        } else {
            for piece in &pieces {
                let delta =
                    format!("\"type\":\"text-delta\",\"index\":{index},\"text\":\"{piece}\"");
                self.event("assistant/chunk", &chunk(&delta), "");
            }
        }
        let block = format!("{{\"type\":\"text\",\"text\":\"{}\"}}", pieces.concat());
        self.event(
            "assistant/chunk",
            &chunk(&format!(
                "\"type\":\"block-end\",\"index\":{index},\"block\":{block}"
            )),
            "",
        );
        block
    }

    /// An answer, perhaps with a call.
    fn answer(&mut self, at: &str, id: u64, call: Option<(&str, &str)>) {
        let from = self.seq;
        let mut content = self.block(at, 0, 60, true);
        // Ten pieces of a row each take as many bytes as sixty in one.
        content = content + "," + &self.block(at, 1, 10, false);
        if let Some((call, arguments)) = call {
            content += &format!(
                ",{{\"type\":\"tool-call\",\"id\":\"{call}\",\"name\":\"read_shelf\",\
                 \"arguments\":\"{arguments}\"}}"
            );
        }
        let why = if call.is_some() { "tool-calls" } else { "stop" };
        self.event(
            "assistant/chunk",
            &format!("{at},\"chunk\":{{\"type\":\"finish\",\"reason\":{{\"kind\":\"{why}\"}}}}"),
            "",
        );
        let sources: Vec<String> = (from..self.seq).map(|n| n.to_string()).collect();
        self.event(
            "assistant/message",
            &format!(
                "{at},\"message\":{{\"id\":\"a-{id}\",\"role\":\"assistant\",\"content\":[{content}],\
                 \"source\":{{\"kind\":\"model\",\"provider\":\"demo-provider\",\"model\":\"demo-model\"}}}}"
            ),
            &format!(
                ",\"sourceEventSeqs\":[{}],\"surfaceOp\":\"append\"",
                sources.join(",")
            ),
        );
    }

    fn turn(&mut self, turn: u64) -> io::Result<()> {
        let at = |step: u64| format!("\"turn\":{turn},\"step\":{step}");
        let (call, arguments) = (format!("call_{turn}"), "{\\\"shelf\\\":\\\"B\\\"}");
        self.event("turn/start", &format!("\"turn\":{turn}"), "");
        self.event("step/start", &at(1), "");
        let asked = self.words(12).concat();
        self.event(
            "user/message",
            &format!(
                "\"id\":\"u-{turn}\",\"role\":\"user\",\"source\":{{\"kind\":\"user\"}},\
                 \"content\":[{{\"type\":\"text\",\"text\":\"{asked}\"}}]"
            ),
            ",\"surfaceOp\":\"append\"",
        );
        self.answer(&at(1), turn * 2, Some((&call, arguments)));
        let called = self.seq;
        self.event(
            "tool/call",
            &format!(
                "{},\"callId\":\"{call}\",\"name\":\"read_shelf\",\"arguments\":\"{arguments}\"",
                at(1)
            ),
            "",
        );
        let result = self.words(300).concat();
        self.event(
            "tool/result",
            &format!(
                "{},\"message\":{{\"id\":\"r-{turn}\",\"role\":\"user\",\"source\":{{\"kind\":\"tool\",\
                 \"callId\":\"{call}\"}},\"content\":[{{\"type\":\"tool-result\",\"toolCallId\":\"{call}\",\
                 \"content\":[{{\"type\":\"text\",\"text\":\"{result}\"}}],\"isError\":false}}]}}",
                at(1)
            ),
            &format!(",\"sourceEventSeqs\":[{called}],\"surfaceOp\":\"append\""),
        );
        self.event("step/end", &at(1), "");
        self.end_batch()?;
        self.event("step/start", &at(2), "");
        self.answer(&at(2), turn * 2 + 1, None);
        self.event("step/end", &at(2), "");
        self.event(
            "turn/end",
            &format!("\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}"),
            "",
        );
        self.end_batch()
    }
}
