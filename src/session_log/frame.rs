//! The zstd frames of a packed log: found by their structure, never by searching for a magic
//! number, which data may hold too.

use std::io;

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::bytes::{ReadAt, read_full};

/// The begin of every frame.
pub(super) const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// What one frame may hold at most, in bytes of text.
const MAX_FRAME_TEXT: u64 = 4 << 30;
/// The largest window: what decoding one frame takes of memory.
const WINDOW_LOG: u32 = 25;

/// What the harness's own writer takes.
pub(super) const LEVEL: i32 = 3;

/// One frame with a checksum, as the harness writes each batch.
pub(super) fn encode(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    io::Write::write_all(&mut encoder, text)?;
    encoder.finish()
}

/// What lies at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole frame, up to `to`.
    Frame { to: u64, checksum: bool },
    /// A frame that the end of the file cuts off.
    Torn,
    /// Zero bytes up to `to`; then the file ends or goes on.
    Zeros { to: u64, last: bool },
    /// The end of the file.
    End,
    /// Something else.
    Fault(&'static str),
}

/// Says what begins at `at`.
pub(super) fn look<S: ReadAt + ?Sized>(source: &S, at: u64) -> io::Result<Found> {
    let mut head = [0_u8; 18];
    let n = read_full(source, &mut head, at)?;
    let head = head.get(..n).unwrap_or_default();
    if head.is_empty() {
        return Ok(Found::End);
    }
    if head.first() == Some(&0) {
        return zeros(source, at);
    }
    if head.len() < 4 {
        return Ok(Found::Torn);
    }
    if !head.starts_with(&MAGIC) {
        return Ok(Found::Fault("no frame begins here"));
    }
    let Some(descriptor) = head.get(4).copied() else {
        return Ok(Found::Torn);
    };
    if descriptor & 0x18 != 0 {
        return Ok(Found::Fault("the frame's header has a reserved bit set"));
    }
    let single = descriptor & 0x20 != 0;
    let checksum = descriptor & 0x04 != 0;
    let dictionary = match descriptor & 3 {
        0 => 0,
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let size = match descriptor >> 6 {
        0 => u64::from(single),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let mut to = at + 5 + u64::from(!single) + dictionary + size;
    loop {
        let mut block = [0_u8; 3];
        if read_full(source, &mut block, to)? < 3 {
            return Ok(Found::Torn);
        }
        let block = u32::from_le_bytes([block[0], block[1], block[2], 0]);
        let kind = (block >> 1) & 3;
        let size = u64::from(block >> 3);
        match kind {
            3 => return Ok(Found::Fault("the frame has a block of a reserved kind")),
            1 => to += 4,
            _ => to += 3 + size,
        }
        if block & 1 == 1 {
            break;
        }
    }
    if checksum {
        to += 4;
    }
    if to > at && !reaches(source, to)? {
        return Ok(Found::Torn);
    }
    Ok(Found::Frame { to, checksum })
}

/// Whether the file has all bytes before `to`.
fn reaches<S: ReadAt + ?Sized>(source: &S, to: u64) -> io::Result<bool> {
    Ok(read_full(source, &mut [0], to.saturating_sub(1))? == 1)
}

fn zeros<S: ReadAt + ?Sized>(source: &S, at: u64) -> io::Result<Found> {
    let mut to = at;
    let mut buf = vec![0; 64 * 1024];
    loop {
        let n = read_full(source, &mut buf, to)?;
        let got = buf.get(..n).unwrap_or_default();
        match got.iter().position(|b| *b != 0) {
            Some(n) => {
                return Ok(Found::Zeros {
                    to: to + n as u64,
                    last: false,
                });
            }
            None if n == 0 => return Ok(Found::Zeros { to, last: true }),
            None => to += n as u64,
        }
    }
}

/// How decoding went on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// There may be more.
    More,
    /// The frame is done, and exactly its bytes were used.
    Done,
}

/// Decodes one frame piece by piece.
pub(super) struct FrameText {
    decoder: Decoder<'static>,
    input: Vec<u8>,
    used: usize,
    next: u64,
    to: u64,
    text: u64,
}

impl std::fmt::Debug for FrameText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameText")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// Why a frame could not be decoded.
#[derive(Debug)]
pub(super) enum Broken {
    /// The medium failed.
    Io(io::Error),
    /// The bytes are not what a frame holds.
    Frame(String),
}

impl FrameText {
    /// Begins with the frame from `from` to `to`.
    pub(super) fn new(from: u64, to: u64) -> io::Result<FrameText> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
        Ok(FrameText {
            decoder,
            input: Vec::new(),
            used: 0,
            next: from,
            to,
            text: 0,
        })
    }

    /// Adds a piece of text to `out`, at most `room` bytes.
    pub(super) fn step<S: ReadAt + ?Sized>(
        &mut self,
        source: &S,
        out: &mut Vec<u8>,
        room: usize,
    ) -> Result<Step, Broken> {
        if self.used == self.input.len() && self.next < self.to {
            let want = (self.to - self.next).min(128 * 1024);
            self.input.resize(usize::try_from(want).unwrap_or(0), 0);
            let n = read_full(source, &mut self.input, self.next).map_err(Broken::Io)?;
            self.input.truncate(n);
            self.used = 0;
            self.next += n as u64;
            if n == 0 {
                // What the decoder still holds comes out; then nothing more does.
                self.to = self.next;
            }
        }
        let before = out.len();
        out.resize(before + room, 0);
        let given = self.input.get(self.used..).unwrap_or_default();
        let mut input = InBuffer::around(given);
        let (hint, written) = {
            let mut output = OutBuffer::around_pos(out.as_mut_slice(), before);
            let hint = self.decoder.run(&mut input, &mut output);
            (hint, output.pos())
        };
        self.used += input.pos();
        out.truncate(written);
        let hint = hint.map_err(|e| Broken::Frame(e.to_string()))?;
        self.text += (written - before) as u64;
        if self.text > MAX_FRAME_TEXT {
            let limit = MAX_FRAME_TEXT >> 30;
            return Err(Broken::Frame(format!("it holds more than {limit} GiB")));
        }
        let all_used = self.used == self.input.len() && self.next == self.to;
        match (hint, all_used) {
            (0, true) => Ok(Step::Done),
            (0, false) => Err(Broken::Frame(
                "its data end before its blocks do".to_owned(),
            )),
            (_, true) if written == before => Err(Broken::Frame("its data are cut off".to_owned())),
            _ => Ok(Step::More),
        }
    }
}
