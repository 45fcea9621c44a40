//! One page of a list that is never held as a whole: the smallest keys behind a cursor.

use std::collections::BTreeMap;

/// Rows by sort key, at most as many as a page has.
#[derive(Debug)]
pub struct Page<T> {
    after: Option<String>,
    limit: usize,
    rows: BTreeMap<String, T>,
    /// Rows of the whole list.
    pub total: u64,
    /// Of these, rows behind the cursor.
    pub behind: u64,
}

impl<T> Page<T> {
    /// A page of at most `limit` rows behind `after`.
    pub(super) fn new(after: Option<String>, limit: usize) -> Self {
        Page {
            after,
            limit,
            rows: BTreeMap::new(),
            total: 0,
            behind: 0,
        }
    }

    /// Counts a row, and keeps it if it belongs on the page.
    pub(super) fn offer(&mut self, key: String, make: impl FnOnce() -> T) {
        self.total += 1;
        if self.after.as_ref().is_some_and(|after| key <= *after) {
            return;
        }
        self.behind += 1;
        if self.rows.len() >= self.limit
            && self
                .rows
                .last_key_value()
                .is_none_or(|(last, _)| key >= *last)
        {
            return;
        }
        self.rows.insert(key, make());
        if self.rows.len() > self.limit {
            self.rows.pop_last();
        }
    }

    /// The rows in order.
    pub fn rows(&self) -> impl Iterator<Item = (&String, &T)> {
        self.rows.iter()
    }

    /// Whether rows follow behind the first `shown` of the page.
    #[must_use]
    pub fn goes_on(&self, shown: usize) -> bool {
        u64::try_from(shown).is_ok_and(|shown| shown < self.behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_complete_and_in_order_whatever_the_order_of_offers() {
        let keys: Vec<String> = (0..57u32).map(|n| format!("{:03}", n * 37 % 57)).collect();
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let mut page = Page::new(after.clone(), 10);
            for key in &keys {
                page.offer(key.clone(), || key.clone());
            }
            assert_eq!(page.total, 57);
            let rows: Vec<String> = page.rows().map(|(_, row)| row.clone()).collect();
            after = rows.last().cloned();
            let more = page.goes_on(rows.len());
            seen.extend(rows);
            if !more {
                break;
            }
        }
        let mut sorted = keys;
        sorted.sort();
        assert_eq!(seen, sorted);
        let mut none = Page::new(None, 0);
        none.offer("a".to_owned(), || ());
        assert_eq!(
            (none.total, none.rows().count(), none.goes_on(0)),
            (1, 0, true)
        );
    }
}
