//! The plain bytes of zstd frames, one behind the other. A frame that is damaged gives what can be
//! decoded of it, and the next one is looked for; that something was lost is said at the end.

use std::fmt;
use std::io::{self, Read};

use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

use super::packing::FRAME;

/// Bytes that are read at once.
const INPUT: usize = 128 * 1024;

pub(super) struct Frames<R> {
    content: R,
    decoder: Decoder<'static>,
    input: Vec<u8>,
    at: usize,
    finished: bool,
    /// A frame was begun and has not ended.
    in_frame: bool,
    /// What stands here is no frame: the next one is looked for.
    lost: bool,
    /// The first damage that was met.
    damage: Option<io::Error>,
}

impl<R> fmt::Debug for Frames<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames")
            .field("in_frame", &self.in_frame)
            .field("damage", &self.damage)
            .finish_non_exhaustive()
    }
}

impl<R: Read> Frames<R> {
    /// Decodes `content`.
    ///
    /// # Errors
    /// The decoder can't be set up.
    pub(super) fn new(content: R) -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        // Foreign bytes choose the window; more than this would be a way to take our memory.
        decoder.set_parameter(DParameter::WindowLogMax(27))?;
        Ok(Frames {
            content,
            decoder,
            input: Vec::new(),
            at: 0,
            finished: false,
            in_frame: false,
            lost: false,
            damage: None,
        })
    }

    fn unread(&self) -> &[u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// Reads more behind what is unread; an error of the content is no damage of a frame.
    fn fill(&mut self) -> io::Result<()> {
        self.input.drain(..self.at.min(self.input.len()));
        self.at = 0;
        let before = self.input.len();
        let more = (&mut self.content)
            .take(INPUT as u64)
            .read_to_end(&mut self.input)?;
        self.finished = more == 0;
        debug_assert_eq!(before + more, self.input.len());
        Ok(())
    }

    /// Passes bytes up to the begin of a frame; false while none is in sight.
    fn seek_frame(&mut self) -> bool {
        if let Some(found) = memchr::memmem::find(self.unread(), &FRAME) {
            self.at += found;
            self.lost = false;
            return true;
        }
        // The first bytes of one may be the last that are there.
        let keep = if self.finished { 0 } else { FRAME.len() - 1 };
        self.at = self.at.max(self.input.len().saturating_sub(keep));
        false
    }

    fn note(&mut self, damage: io::Error) {
        self.damage.get_or_insert(damage);
        self.in_frame = false;
        self.lost = true;
        // What was begun is given up; a decoder that can't begin anew says so when it is run.
        let _ = self.decoder.reinit();
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            let looked = !self.lost || self.seek_frame();
            if !self.finished && (!looked || self.unread().is_empty()) {
                self.fill()?;
                continue;
            }
            if !looked || self.unread().is_empty() && !self.in_frame {
                return self.damage.take().map_or(Ok(0), Err);
            }
            let mut from = InBuffer::around(self.input.get(self.at..).unwrap_or_default());
            let mut to = OutBuffer::around(&mut *out);
            let ran = self.decoder.run(&mut from, &mut to);
            let (passed, written) = (from.pos(), to.pos());
            match ran {
                Ok(hint) => {
                    self.at += passed;
                    self.in_frame = hint != 0;
                    if written > 0 {
                        return Ok(written);
                    }
                    if passed == 0 && self.finished && self.in_frame {
                        self.note(io::Error::new(
                            io::ErrorKind::UnexpectedEof,
                            "incomplete frame",
                        ));
                    }
                }
                Err(damage) => {
                    self.note(damage);
                    // Not the same frame again.
                    self.at += 1;
                    if written > 0 {
                        return Ok(written);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out a few bytes at a time.
    struct Slow<'a>(&'a [u8], usize);
    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(out.len()).min(self.0.len());
            out[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn decode(bytes: &[u8], step: usize) -> (Vec<u8>, bool) {
        let mut frames = Frames::new(Slow(bytes, step)).unwrap();
        let mut out = Vec::new();
        let mut buf = vec![0; step.max(3)];
        loop {
            match frames.read(&mut buf) {
                Ok(0) => return (out, true),
                Ok(n) => out.extend_from_slice(&buf[..n]),
                Err(_) => {
                    assert_eq!(frames.read(&mut buf).unwrap(), 0);
                    return (out, false);
                }
            }
        }
    }

    fn frame(n: u8) -> (Vec<u8>, Vec<u8>) {
        let plain: Vec<u8> = (0..5000u32)
            .map(|i| b'a' + ((i * u32::from(n)) % 23) as u8)
            .collect();
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        io::Write::write_all(&mut encoder, &plain).unwrap();
        (plain, encoder.finish().unwrap())
    }

    #[test]
    fn frames_are_decoded_and_what_is_damaged_is_passed_over() {
        let ((a, fa), (b, fb), (c, fc)) = (frame(1), frame(2), frame(3));
        for step in [1, 7, 1 << 16] {
            let whole = [&fa[..], &fb, &fc].concat();
            assert_eq!(decode(&whole, step), ([&a[..], &b, &c].concat(), true));
            let skippable = [&fa[..], b"\x50\x2a\x4d\x18\x02\0\0\0zz", &fb].concat();
            assert_eq!(decode(&skippable, step), ([&a[..], &b].concat(), true));
            let garbage = [&fa[..], b"no frame \x28\xb5", &fb, b"x"].concat();
            assert_eq!(decode(&garbage, step), ([&a[..], &b].concat(), false));
            let cut = &whole[..whole.len() - 6];
            let (out, whole_again) = decode(cut, step);
            assert!(!whole_again && out.starts_with(&[&a[..], &b].concat()));
            let middle = [&fa[..], &fb[..fb.len() / 2], &fc].concat();
            let (out, whole_again) = decode(&middle, step);
            assert!(!whole_again && out.starts_with(&a), "{step}");
            // The frame behind is found where the damage is seen at once.
            let mut flipped = whole.clone();
            flipped[fa.len() + 5] ^= 0x55;
            let (out, whole_again) = decode(&flipped, step);
            assert!(
                !whole_again && out.starts_with(&a) && out.ends_with(&c),
                "{step}"
            );
        }
        assert_eq!(decode(b"", 1), (Vec::new(), true));
    }

    #[test]
    fn any_byte_may_be_wrong() {
        let ((a, fa), (_, fb)) = (frame(1), frame(2));
        let whole = [&fa[..], &fb].concat();
        for at in 0..whole.len() {
            for wrong in [0, 0xff, whole[at] ^ 1] {
                let mut bytes = whole.clone();
                bytes[at] = wrong;
                let (out, _) = decode(&bytes, 1 << 16);
                assert!(at < fa.len() || out.starts_with(&a));
            }
            decode(&whole[..at], 3);
        }
    }
}
