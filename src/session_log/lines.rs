//! The lines of a log, one after another, each with where it lies. One buffer is all that is held.

use std::collections::VecDeque;
use std::io;

use super::bytes::{ReadAt, read_full};
use super::frame::{self, Broken, Found, FrameText, Step};

/// Rows have no limit of their own; a longer one than this is not read.
const MAX_LINE: usize = 256 << 20;
/// What all frames may hold together, in bytes of text.
const MAX_TEXT: u64 = 64 << 30;
/// What is read at once: little at first, since a reader may only want a few lines.
const FIRST_PIECE: usize = 16 * 1024;
const PIECE: usize = 256 * 1024;

/// Where a line begins, so that reading can begin there again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spot {
    /// Offset in the text: what the frames decode to, or the file itself.
    pub text: u64,
    /// Number of the line, from 1.
    pub line: u64,
    /// Offset in the file: of the line, or of the frame in which it begins.
    pub file: u64,
    /// Number of that frame, from 1; 0 in a raw log.
    pub frame: u64,
    /// Offset in the text at which that frame begins.
    frame_text: u64,
}

/// One line, or what the end of the file left of one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'a> {
    /// Its bytes without the newline.
    pub(super) bytes: &'a [u8],
    pub(super) spot: Spot,
    /// Whether it has a newline.
    pub(super) whole: bool,
}

/// Why there are no more lines, if it is not the end of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stop {
    pub(super) at: u64,
    pub(super) frame: u64,
    pub(super) why: String,
}

#[derive(Debug)]
enum Text {
    Raw { at: u64 },
    Packed(Packed),
}

#[derive(Debug, Default)]
struct Packed {
    /// Where the next frame begins.
    next: u64,
    number: u64,
    now: Option<(FrameText, u64)>,
    tolerant: bool,
    frames: VecDeque<(u64, u64, u64)>,
}

/// Reads the lines of a log.
#[derive(Debug)]
pub(super) struct Lines<'s, S: ?Sized> {
    source: &'s S,
    text: Text,
    buf: Vec<u8>,
    /// Where in `buf` the next line begins, and how far it was searched for a newline.
    from: usize,
    searched: usize,
    /// Offset of `buf[0]` in the text.
    base: u64,
    line: u64,
    piece: usize,
    ended: bool,
    /// Why reading stopped early.
    pub(super) stop: Option<Stop>,
    /// Where a frame that the end of the file cuts off begins: in the file and in the text.
    pub(super) torn: Option<(u64, u64)>,
    /// Zero bytes between frames, or behind the last.
    pub(super) zeros: Option<(u64, bool)>,
    /// A frame without checksum was met.
    pub(super) unchecked: bool,
    /// Offset in the text at which the first frame ends.
    pub(super) first_frame: Option<u64>,
}

impl<'s, S: ReadAt + ?Sized> Lines<'s, S> {
    pub(super) fn new(source: &'s S, packed: bool) -> Self {
        Lines::at(
            source,
            packed,
            Spot {
                line: 1,
                ..Spot::default()
            },
        )
    }

    /// Begins at a line whose spot is known.
    pub(super) fn at(source: &'s S, packed: bool, spot: Spot) -> Self {
        let text = if packed {
            Text::Packed(Packed {
                next: spot.file,
                number: spot.frame.saturating_sub(1),
                ..Packed::default()
            })
        } else {
            Text::Raw { at: spot.text }
        };
        let base = if packed { spot.frame_text } else { spot.text };
        Lines {
            source,
            text,
            buf: Vec::new(),
            from: usize::try_from(spot.text - base).unwrap_or(usize::MAX),
            searched: usize::try_from(spot.text - base).unwrap_or(usize::MAX),
            base,
            line: spot.line,
            piece: FIRST_PIECE,
            ended: false,
            stop: None,
            torn: None,
            zeros: None,
            unchecked: false,
            first_frame: None,
        }
    }

    /// Offset in the text at which the next line begins.
    pub(super) fn text_at(&self) -> u64 {
        self.base + self.from as u64
    }

    /// The next line. At the end `None`; what is left without a newline comes before that.
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            let rest = self.buf.get(self.searched..).unwrap_or_default();
            if let Some(n) = memchr::memchr(b'\n', rest) {
                let to = self.searched + n;
                return Ok(Some(self.cut(to, true)));
            }
            self.searched = self.searched.max(self.buf.len());
            if self.ended {
                let to = self.buf.len();
                if self.from >= to {
                    return Ok(None);
                }
                return Ok(Some(self.cut(to, false)));
            }
            if self.buf.len().saturating_sub(self.from) > MAX_LINE {
                return Err(io::Error::new(
                    io::ErrorKind::FileTooLarge,
                    format!("line {} has more than {MAX_LINE} bytes", self.line),
                ));
            }
            self.fill()?;
        }
    }

    fn cut(&mut self, to: usize, whole: bool) -> Line<'_> {
        let spot = self.spot();
        let from = self.from;
        self.from = to + usize::from(whole);
        self.searched = self.from;
        self.line += 1;
        Line {
            bytes: self.buf.get(from..to).unwrap_or_default(),
            spot,
            whole,
        }
    }

    fn spot(&mut self) -> Spot {
        let text = self.text_at();
        match &mut self.text {
            Text::Raw { .. } => Spot {
                text,
                line: self.line,
                file: text,
                ..Spot::default()
            },
            Text::Packed(packed) => {
                while packed.frames.get(1).is_some_and(|f| f.2 <= text) {
                    packed.frames.pop_front();
                }
                let (frame, file, frame_text) = packed.frames.front().copied().unwrap_or_default();
                Spot {
                    text,
                    line: self.line,
                    file,
                    frame,
                    frame_text,
                }
            }
        }
    }

    /// Reads a piece more into the buffer.
    fn fill(&mut self) -> io::Result<()> {
        // Room is made only where it costs less than what is read.
        if self.from >= PIECE && self.from <= self.buf.len() {
            self.buf.copy_within(self.from.., 0);
            self.buf.truncate(self.buf.len() - self.from);
            self.base += self.from as u64;
            self.searched -= self.from;
            self.from = 0;
        }
        let before = self.buf.len();
        let piece = self.piece;
        self.piece = PIECE.min(piece * 2);
        let text_end = self.base + before as u64;
        match &mut self.text {
            Text::Raw { at } => {
                self.buf.resize(before + piece, 0);
                let room = self.buf.get_mut(before..).unwrap_or_default();
                let n = read_full(self.source, room, *at)?;
                self.buf.truncate(before + n);
                *at += n as u64;
                self.ended = n == 0;
            }
            Text::Packed(packed) => {
                if let Some((frame, to)) = &mut packed.now {
                    match frame.step(self.source, &mut self.buf, piece) {
                        Ok(Step::More) => {}
                        Ok(Step::Done) => {
                            if packed.number == 1 {
                                self.first_frame = Some(self.base + self.buf.len() as u64);
                            }
                            packed.next = *to;
                            packed.now = None;
                        }
                        Err(Broken::Io(e)) => return Err(e),
                        Err(Broken::Frame(_)) if packed.tolerant => {
                            packed.now = None;
                            self.ended = true;
                        }
                        Err(Broken::Frame(why)) => {
                            self.stop = Some(Stop {
                                at: packed.next,
                                frame: packed.number,
                                why: format!("the frame can't be decoded: {why}"),
                            });
                            // What a frame gave before it failed can't be believed.
                            self.buf.truncate(before);
                            packed.now = None;
                            self.ended = true;
                        }
                    }
                    if text_end > MAX_TEXT {
                        self.stop = Some(Stop {
                            at: packed.next,
                            frame: packed.number,
                            why: format!("the log holds more than {} GiB", MAX_TEXT >> 30),
                        });
                        self.ended = true;
                    }
                    return Ok(());
                }
                let at = packed.next;
                let begin = |packed: &mut Packed, to: u64| -> io::Result<()> {
                    packed.number += 1;
                    packed.frames.push_back((packed.number, at, text_end));
                    packed.now = Some((FrameText::new(at, to)?, to));
                    Ok(())
                };
                match frame::look(self.source, at)? {
                    Found::Frame { to, checksum } => {
                        self.unchecked |= !checksum;
                        begin(packed, to)?;
                    }
                    Found::Torn => {
                        self.torn = Some((at, text_end));
                        packed.tolerant = true;
                        begin(packed, u64::MAX)?;
                    }
                    Found::Zeros { to, last } => {
                        self.zeros.get_or_insert((at, last));
                        packed.next = to;
                    }
                    Found::End => self.ended = true,
                    Found::Fault(why) => {
                        self.stop = Some(Stop {
                            at,
                            frame: packed.number + 1,
                            why: why.to_owned(),
                        });
                        self.ended = true;
                    }
                }
            }
        }
        Ok(())
    }
}
