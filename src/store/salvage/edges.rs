//! Which leaf comes behind which, as the interior pages say: what tells a gap between two rows that
//! never were neighbours from one where a leaf is lost.

use std::collections::HashMap;

/// Interior pages above a leaf; SQLite's trees are far lower.
const DEPTH_MAX: usize = 20;

/// Interior pages and the pages below each, in the order of their keys.
#[derive(Debug, Default)]
pub(super) struct Interiors {
    /// Number, and how many of the children are its own.
    heads: Vec<(u32, usize)>,
    children: Vec<u32>,
}

impl Interiors {
    pub fn push(&mut self, number: u32, children: impl Iterator<Item = u32>) {
        let before = self.children.len();
        self.children.extend(children);
        self.heads.push((number, self.children.len() - before));
    }

    pub fn append(&mut self, other: &mut Interiors) {
        self.heads.append(&mut other.heads);
        self.children.append(&mut other.children);
    }

    fn each(&self) -> impl Iterator<Item = (u32, &[u32])> {
        let mut rest = self.children.as_slice();
        self.heads.iter().map(move |(number, n)| {
            let (own, behind) = rest.split_at_checked(*n).unwrap_or((rest, &[]));
            rest = behind;
            (*number, own)
        })
    }
}

/// What the interior pages prove.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// Leaves with nothing between them.
    next: Vec<(u32, u32)>,
    /// First and last leaf of a tree.
    whole: Vec<(u32, u32)>,
    inner: Vec<u32>,
}

impl Edges {
    pub fn of(mut interiors: Interiors) -> Edges {
        let ends: HashMap<u32, (u32, u32)> = interiors
            .each()
            .filter_map(|(number, below)| Some((number, (*below.first()?, *below.last()?))))
            .collect();
        let leaf = |page: u32, pick: fn(&(u32, u32)) -> u32| {
            let mut page = page;
            for _ in 0..DEPTH_MAX {
                match ends.get(&page) {
                    Some(e) => page = pick(e),
                    None => return Some(page),
                }
            }
            None
        };
        let mut next = Vec::with_capacity(interiors.children.len());
        for (_, below) in interiors.each() {
            for pair in below.windows(2) {
                if let (Some(a), Some(b)) = (leaf(pair[0], |e| e.1), leaf(pair[1], |e| e.0)) {
                    next.push((a, b));
                }
            }
        }
        next.sort_unstable();
        let mut inner = std::mem::take(&mut interiors.children);
        inner.sort_unstable();
        inner.dedup();
        let mut whole = Vec::new();
        for number in ends.keys().filter(|n| inner.binary_search(n).is_err()) {
            if let (Some(a), Some(b)) = (leaf(*number, |e| e.0), leaf(*number, |e| e.1)) {
                whole.push((a, b));
            }
        }
        whole.sort_unstable();
        Edges { next, whole, inner }
    }

    /// Whether no leaf lies between these.
    pub fn adjoin(&self, a: u32, b: u32) -> bool {
        self.next.binary_search(&(a, b)).is_ok()
    }

    /// Whether these are the first and the last leaf of their tree.
    pub fn span(&self, first: u32, last: u32) -> bool {
        self.whole.binary_search(&(first, last)).is_ok()
            || (first == last && self.inner.binary_search(&first).is_err())
    }
}
