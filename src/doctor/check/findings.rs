//! How findings about many things of one kind are put together.

use crate::model::finding::{CheckId, Finding, Severity};

/// Findings of a check kept one by one; more are counted, so that a list never grows with what is
/// looked at.
const KEPT: usize = 1000;

/// Findings about one harness.
pub(super) struct About(pub(super) &'static str);

impl About {
    /// `count` things of one kind, in the words for one or those for several; nothing when there
    /// are none.
    pub(super) fn found(
        &self,
        (id, code, severity): (CheckId, &'static str, Severity),
        count: u64,
        [one, several]: [&str; 2],
    ) -> Option<Finding> {
        let message = || format!("{}: {count} {}", self.0, which(count, one, several));
        (count > 0).then(|| Finding::new(id, code, severity, self.0, message()).with_count(count))
    }
}

/// The words for `count` things.
pub(super) fn which<'w>(count: u64, one: &'w str, several: &'w str) -> &'w str {
    if count == 1 { one } else { several }
}

/// A list that stays short.
#[derive(Default)]
pub(super) struct Capped {
    kept: Vec<Finding>,
    over: u64,
    worst: Option<Severity>,
}

impl Capped {
    pub(super) fn push(&mut self, f: Finding) {
        if self.kept.len() < KEPT {
            self.kept.push(f);
        } else {
            self.over += 1;
            self.worst = self.worst.max(Some(f.severity));
        }
    }

    /// The list, with one finding of check `id` for all that were not kept.
    pub(super) fn into_list(self, id: CheckId) -> Vec<Finding> {
        let mut list = self.kept;
        if let Some(worst) = self.worst {
            let message = "more of the same was found than is kept here";
            let more = Finding::new(id, "more-of-the-same", worst, "", message);
            list.push(more.with_count(self.over));
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_limit_is_counted_and_as_bad_as_its_worst() {
        let id = CheckId::SourcesInventory;
        let mut list = Capped::default();
        for n in 0..KEPT + 3 {
            let severity = if n == KEPT + 1 {
                Severity::Error
            } else {
                Severity::Warn
            };
            list.push(Finding::new(id, "x", severity, "", ""));
        }
        let list = list.into_list(id);
        assert_eq!(list.len(), KEPT + 1);
        let last = list.last().unwrap();
        assert_eq!((last.count, last.severity), (3, Severity::Error));
        assert!(Capped::default().into_list(id).is_empty());
    }

    #[test]
    fn nothing_found_is_no_finding() {
        let kind = (CheckId::SourcesParse, "x", Severity::Info);
        assert_eq!(About("codex").found(kind, 0, ["thing", "things"]), None);
        for (count, message) in [(1, "codex: 1 thing"), (2, "codex: 2 things")] {
            let f = About("codex").found(kind, count, ["thing", "things"]);
            let f = f.unwrap();
            assert_eq!((f.count, f.message.as_str()), (count, message));
        }
    }
}
