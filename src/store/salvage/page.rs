//! One page: what kind it says it is, and where its cells begin.

/// What the first byte of a page's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    TableLeaf,
    TableInterior,
    IndexLeaf,
    IndexInterior,
}

/// A page without its reserved end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page<'a> {
    pub bytes: &'a [u8],
    /// Where its header begins: behind the file's header in the first page.
    head: usize,
}

pub(super) fn be16(bytes: &[u8], at: usize) -> Option<usize> {
    let two = bytes.get(at..at.checked_add(2)?)?;
    Some(usize::from(u16::from_be_bytes(two.try_into().ok()?)))
}

pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

impl<'a> Page<'a> {
    pub fn new(bytes: &'a [u8]) -> Page<'a> {
        let is_first = bytes.starts_with(b"SQLite format 3\0");
        Page {
            bytes,
            head: if is_first { 100 } else { 0 },
        }
    }

    pub fn kind(&self) -> Option<Kind> {
        match self.bytes.get(self.head)? {
            13 => Some(Kind::TableLeaf),
            5 => Some(Kind::TableInterior),
            10 => Some(Kind::IndexLeaf),
            2 => Some(Kind::IndexInterior),
            _ => None,
        }
    }

    /// Begin of the pointers to cells, and how many there are: no more than the page has room for.
    fn pointers(&self) -> (usize, usize) {
        let first = match self.kind() {
            Some(Kind::TableInterior | Kind::IndexInterior) => self.head + 12,
            _ => self.head + 8,
        };
        let count = be16(self.bytes, self.head + 3).unwrap_or(0);
        (first, count.min(self.bytes.len().saturating_sub(first) / 2))
    }

    /// Where the cells begin, in the order of their keys; `None` for one that lies outside.
    pub fn cells(&self) -> impl Iterator<Item = Option<usize>> + use<'a> {
        let (first, count) = self.pointers();
        let (bytes, end) = (self.bytes, first + count * 2);
        (0..count)
            .map(move |i| be16(bytes, first + i * 2).filter(|at| *at >= end && *at < bytes.len()))
    }

    /// Where the pointers end.
    pub fn body(&self) -> usize {
        let (first, count) = self.pointers();
        (first + count * 2).min(self.bytes.len())
    }

    /// Whether the header counts more cells than there is room for.
    pub fn is_overfull(&self) -> bool {
        be16(self.bytes, self.head + 3).unwrap_or(0) > self.pointers().1
    }

    /// The page behind the last cell of an interior page.
    pub fn right_most(&self) -> Option<u32> {
        be32(self.bytes, self.head + 8)
    }
}
