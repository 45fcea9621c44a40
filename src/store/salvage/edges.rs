//! Which leaf comes behind which, as the interior pages say: what tells a gap between two rows that
//! never were neighbours from one where a leaf is lost.

use std::collections::{HashMap, HashSet};

/// Interior pages above a leaf; SQLite's trees are far lower.
const DEPTH_MAX: usize = 20;

/// An interior page and the pages below it, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Interior {
    pub number: u32,
    pub children: Vec<u32>,
}

/// What the interior pages prove.
#[derive(Debug, Default)]
pub(super) struct Edges {
    /// Leaves with nothing between them.
    next: Vec<(u32, u32)>,
    /// First and last leaf of a tree.
    whole: Vec<(u32, u32)>,
    inner: HashSet<u32>,
}

impl Edges {
    pub fn of(interiors: &[Interior]) -> Edges {
        let ends: HashMap<u32, (u32, u32)> = interiors
            .iter()
            .filter_map(|i| Some((i.number, (*i.children.first()?, *i.children.last()?))))
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
        let mut out = Edges::default();
        for interior in interiors {
            out.inner.extend(&interior.children);
            for pair in interior.children.windows(2) {
                if let (Some(a), Some(b)) = (leaf(pair[0], |e| e.1), leaf(pair[1], |e| e.0)) {
                    out.next.push((a, b));
                }
            }
        }
        for number in ends.keys().filter(|n| !out.inner.contains(n)) {
            if let (Some(a), Some(b)) = (leaf(*number, |e| e.0), leaf(*number, |e| e.1)) {
                out.whole.push((a, b));
            }
        }
        out.next.sort_unstable();
        out.whole.sort_unstable();
        out
    }

    /// Whether no leaf lies between these.
    pub fn adjoin(&self, a: u32, b: u32) -> bool {
        self.next.binary_search(&(a, b)).is_ok()
    }

    /// Whether these are the first and the last leaf of their tree.
    pub fn span(&self, first: u32, last: u32) -> bool {
        self.whole.binary_search(&(first, last)).is_ok()
            || (first == last && !self.inner.contains(&first))
    }
}
