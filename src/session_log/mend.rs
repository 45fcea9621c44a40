//! Writes a repaired log.

use std::io::{self, Write};

use zstd::stream::write::Encoder;

use super::bytes::{ReadAt, each_piece};
use super::frame::{self, Broken, Found, FrameText, Step};
use super::name::Form;
use super::verdict::{Edit, Repair};

const PIECE: usize = 256 * 1024;

/// Writes the log that a repair makes of `source`, which must be what was examined: a raw log line
/// by line, a packed one frame by frame. What the repair does not touch is copied byte for byte; a
/// frame that loses something is packed anew alone; what is added is one frame of its own.
///
/// # Errors
/// What the source or `out` says; `InvalidData` where the source is not what was examined.
pub fn mend<S: ReadAt + ?Sized>(
    source: &S,
    form: Form,
    repair: &Repair,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut added = Vec::new();
    for closer in &repair.closers {
        added.extend_from_slice(&closer.row);
        added.push(b'\n');
    }
    if form.packed {
        return packed(source, repair, &added, out);
    }
    let mut cutter = Cutter::new(&repair.edits);
    let mut at = 0;
    each_piece(source, (0, u64::MAX), &mut |piece| {
        cutter.pass(at, piece, &mut |kept| out.write_all(kept))?;
        at += piece.len() as u64;
        Ok(())
    })?;
    out.write_all(&added)
}

fn packed<S: ReadAt + ?Sized>(
    source: &S,
    repair: &Repair,
    added: &[u8],
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut cutter = Cutter::new(&repair.edits);
    let (mut at, mut text) = (0, 0);
    loop {
        match frame::look(source, at)? {
            Found::Frame { to, .. } => {
                let len = decode(source, at, to, false, &mut |_| Ok(()))?;
                let end = text + len;
                let header = repair.reframe.filter(|h| text < *h);
                let touched = repair.edits.iter().any(|e| e.from < end && e.to > text);
                if touched || header.is_some() {
                    let mut anew = Anew::new(header, out);
                    anew.decoded(source, (at, to), text, &mut cutter)?;
                    anew.end()?;
                } else {
                    copy(source, at, to, out)?;
                }
                at = to;
                text = end;
            }
            Found::Zeros { to, last: false } => at = to,
            Found::Torn => {
                let header = repair.reframe.filter(|h| text < *h);
                let mut anew = Anew::new(header, out);
                anew.decoded(source, (at, u64::MAX), text, &mut cutter)?;
                anew.write(added)?;
                return anew.end();
            }
            Found::Zeros { last: true, .. } | Found::End => {
                let mut anew = Anew::new(None, out);
                anew.write(added)?;
                return anew.end();
            }
            Found::Fault(why) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("at byte {at}: {why}"),
                ));
            }
        }
    }
}

/// Gives the text of a frame in pieces; its length. A torn frame gives what it has.
pub(super) fn decode<S: ReadAt + ?Sized>(
    source: &S,
    from: u64,
    to: u64,
    torn: bool,
    piece: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut frame = FrameText::new(from, to)?;
    let mut buf = Vec::new();
    let mut len = 0;
    loop {
        buf.clear();
        let step = frame.step(source, &mut buf, PIECE);
        piece(&buf)?;
        len += buf.len() as u64;
        match step {
            Ok(Step::More) => {}
            Ok(Step::Done) => return Ok(len),
            Err(Broken::Io(e)) => return Err(e),
            Err(Broken::Frame(_)) if torn => return Ok(len),
            Err(Broken::Frame(why)) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
        }
    }
}

fn copy<S: ReadAt + ?Sized>(source: &S, from: u64, to: u64, out: &mut dyn Write) -> io::Result<()> {
    let end = each_piece(source, (from, to), &mut |piece| out.write_all(piece))?;
    if end < to {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Packs text anew: the header in a frame of its own, the rest in one more. No frame is empty.
struct Anew<'o> {
    /// Where in the text the header ends, if it has to be set apart.
    header: Option<u64>,
    out: &'o mut dyn Write,
    encoder: Option<Encoder<'static, Vec<u8>>>,
}

impl<'o> Anew<'o> {
    fn new(header: Option<u64>, out: &'o mut dyn Write) -> Self {
        Anew {
            header,
            out,
            encoder: None,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut encoder = match self.encoder.take() {
            Some(encoder) => encoder,
            None => {
                let mut encoder = Encoder::new(Vec::new(), frame::LEVEL)?;
                encoder.include_checksum(true)?;
                encoder
            }
        };
        encoder.write_all(bytes)?;
        // What is packed already goes on, so that no frame is ever held whole.
        if encoder.get_ref().len() >= PIECE {
            self.out.write_all(encoder.get_ref())?;
            encoder.get_mut().clear();
        }
        self.encoder = Some(encoder);
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        match self.encoder.take() {
            Some(encoder) => self.out.write_all(&encoder.finish()?),
            None => Ok(()),
        }
    }

    /// Takes what the edits leave of a frame.
    fn decoded<S: ReadAt + ?Sized>(
        &mut self,
        source: &S,
        (from, to): (u64, u64),
        text: u64,
        cutter: &mut Cutter<'_>,
    ) -> io::Result<()> {
        let mut at = text;
        decode(source, from, to, to == u64::MAX, &mut |piece| {
            let split = match self.header {
                Some(header) if at < header => usize::try_from(header - at)
                    .unwrap_or(usize::MAX)
                    .min(piece.len()),
                _ => 0,
            };
            let (head, rest) = piece.split_at(split);
            cutter.pass(at, head, &mut |kept| self.write(kept))?;
            at += head.len() as u64;
            if self.header == Some(at) {
                self.header = None;
                self.end()?;
            }
            cutter.pass(at, rest, &mut |kept| self.write(kept))?;
            at += rest.len() as u64;
            Ok(())
        })?;
        Ok(())
    }
}

/// Leaves out of a text what edits say.
struct Cutter<'e> {
    edits: &'e [Edit],
}

impl<'e> Cutter<'e> {
    fn new(edits: &'e [Edit]) -> Self {
        Cutter { edits }
    }

    /// Gives what stays of a piece that begins at `at`. Pieces come in order.
    fn pass(
        &mut self,
        mut at: u64,
        mut piece: &[u8],
        keep: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while !piece.is_empty() {
            let room = |to: u64| {
                usize::try_from(to - at)
                    .unwrap_or(usize::MAX)
                    .min(piece.len())
            };
            let n = match self.edits.first() {
                None => piece.len(),
                Some(edit) if edit.to <= at => {
                    self.edits = self.edits.get(1..).unwrap_or_default();
                    continue;
                }
                Some(edit) if edit.from > at => room(edit.from),
                Some(edit) => {
                    if edit.from == at {
                        keep(&edit.with)?;
                    }
                    let n = room(edit.to);
                    at += n as u64;
                    piece = piece.get(n..).unwrap_or_default();
                    continue;
                }
            };
            keep(piece.get(..n).unwrap_or_default())?;
            at += n as u64;
            piece = piece.get(n..).unwrap_or_default();
        }
        Ok(())
    }
}
