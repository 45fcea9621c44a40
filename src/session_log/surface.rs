//! What the model sees: the numbers of events in their order.

use std::collections::HashMap;

const BLOCK: usize = 4096;

/// The ordered list. A number has half the range of `u32`, far above what a log can hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Surface {
    blocks: Vec<Vec<u32>>,
    len: usize,
    /// What tool results have beside their content. One that was taken back stays until its number
    /// comes again.
    frames: HashMap<u32, u64>,
    /// Numbers came that are out of range: nothing is known any more.
    lost: bool,
}

fn node(seq: u64, result: bool) -> Option<u32> {
    let seq = u32::try_from(seq).ok().filter(|n| *n < 1 << 31)?;
    Some(seq << 1 | u32::from(result))
}

impl Surface {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Takes back what was added since it had `len` numbers.
    pub(super) fn truncate(&mut self, len: usize) {
        while self.len > len {
            match self.blocks.last_mut() {
                Some(last) if !last.is_empty() => {
                    let cut = last.len().min(self.len - len);
                    last.truncate(last.len() - cut);
                    self.len -= cut;
                }
                Some(_) => {
                    self.blocks.pop();
                }
                None => return,
            }
        }
    }

    /// The node of an event; `frame` is of a tool result.
    fn node(&mut self, seq: u64, frame: Option<u64>) -> Option<u32> {
        let node = node(seq, frame.is_some());
        match (node, frame) {
            (Some(node), Some(frame)) => drop(self.frames.insert(node, frame)),
            (Some(_), None) => {}
            (None, _) => self.lost = true,
        }
        node
    }

    /// Adds an event. A tool result comes with what it has beside its content.
    pub(super) fn append(&mut self, seq: u64, frame: Option<u64>) {
        let Some(node) = self.node(seq, frame) else {
            return;
        };
        match self.blocks.last_mut() {
            Some(last) if last.len() < BLOCK => last.push(node),
            _ => self.blocks.push(vec![node]),
        }
        self.len += 1;
    }

    fn position(&self, seq: u64) -> Option<(usize, usize)> {
        let wanted = [node(seq, false)?, node(seq, true)?];
        self.blocks.iter().enumerate().find_map(|(b, block)| {
            let n = block.iter().position(|n| wanted.contains(n))?;
            Some((b, n))
        })
    }

    /// Puts `seq` in the place of all from `start` to `end`. `allowed` says whether an event is
    /// named as a source. Why it can't be, otherwise.
    pub(super) fn replace(
        &mut self,
        seq: u64,
        frame: Option<u64>,
        (start, end): (u64, u64),
        allowed: &dyn Fn(u64) -> bool,
    ) -> Result<(), &'static str> {
        if self.lost {
            return Ok(());
        }
        let (Some(from), Some(to)) = (self.position(start), self.position(end)) else {
            return Err("it replaces events that the model does not see");
        };
        if from > to {
            return Err("it replaces a range that ends before it begins");
        }
        let replaced: Vec<u32> = self
            .blocks
            .iter()
            .enumerate()
            .flat_map(|(b, block)| {
                block
                    .iter()
                    .enumerate()
                    .map(move |(n, node)| ((b, n), node))
            })
            .skip_while(|(at, _)| *at < from)
            .take_while(|(at, _)| *at <= to)
            .map(|(_, node)| *node)
            .collect();
        if !replaced.iter().all(|n| allowed(u64::from(n >> 1))) {
            return Err("it replaces an event that its sources do not name");
        }
        match (frame, replaced.as_slice()) {
            (None, _) => {}
            (Some(frame), [one]) if one & 1 == 1 => {
                if self.frames.get(one).is_some_and(|f| *f != frame) {
                    return Err("a tool result replaces one with more than another content");
                }
            }
            (Some(_), _) => return Err("a tool result may only replace one tool result"),
        }
        for one in &replaced {
            self.frames.remove(one);
        }
        let Some(node) = self.node(seq, frame) else {
            return Ok(());
        };
        let tail: Vec<u32> = self
            .blocks
            .get(to.0)
            .and_then(|b| b.get(to.1 + 1..))
            .unwrap_or_default()
            .to_vec();
        if let Some(block) = self.blocks.get_mut(from.0) {
            block.truncate(from.1);
            block.push(node);
            block.extend(tail);
        }
        self.blocks.drain(from.0 + 1..=to.0.max(from.0));
        self.len = self.len + 1 - replaced.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(s: &Surface) -> Vec<u32> {
        s.blocks.iter().flatten().map(|n| n >> 1).collect()
    }

    #[test]
    fn a_range_becomes_one() {
        let mut s = Surface::default();
        (0..10_000).for_each(|n| s.append(n, (n % 3 == 0).then_some(n % 2)));
        assert_eq!(s.replace(10_000, None, (5, 8_999), &|_| true), Ok(()));
        assert_eq!(list(&s)[..7], [0, 1, 2, 3, 4, 10_000, 9_000]);
        assert_eq!(s.len(), list(&s).len());
        assert!(s.replace(10_001, Some(0), (3, 3), &|n| n == 3).is_err());
        assert_eq!(s.replace(10_001, Some(1), (3, 3), &|n| n == 3), Ok(()));
        assert!(s.replace(10_002, Some(1), (4, 4), &|_| true).is_err());
        assert!(s.replace(10_002, None, (4, 10_000), &|n| n == 4).is_err());
        assert!(s.replace(10_002, None, (5, 5), &|_| true).is_err());
        assert!(s.replace(10_002, None, (9_000, 4), &|_| true).is_err());
        s.truncate(3);
        assert_eq!((s.len(), list(&s)), (3, vec![0, 1, 2]));
    }
}
