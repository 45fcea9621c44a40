//! The two lists of what is to be said next, as a resumed session replays them.

use std::collections::HashSet;

use super::json::{self, Object};

#[derive(Debug, Clone, Default)]
pub(super) struct Queues {
    lists: [Vec<Vec<u8>>; 2],
    /// What is in either.
    ids: HashSet<Vec<u8>>,
}

impl Queues {
    /// Takes one edit; why it can't be made, otherwise.
    pub(super) fn splice(&mut self, data: &Object<'_>) -> Result<(), &'static str> {
        let which = match data.text("target").as_deref() {
            Some(b"next-turn") => 0,
            Some(b"next-step") => 1,
            _ => return Err("it edits a queue that there is not"),
        };
        let count = |key: &str| match data.get(key) {
            None => Some(0),
            Some(_) => data.count(key).and_then(|n| usize::try_from(n).ok()),
        };
        let start = data.get("start").and_then(|_| count("start"));
        let (Some(start), Some(removed)) = (start, count("removedCount")) else {
            return Err("it edits a queue at no place");
        };
        let inserted: Option<Vec<Vec<u8>>> = data
            .get("inserted")
            .and_then(json::elements)
            .and_then(|list| {
                list.into_iter()
                    .map(|m| Some(Object::within(m)?.text("id")?.into_owned()))
                    .collect()
            });
        let Some(inserted) = inserted else {
            return Err("it puts something into a queue that is no message with an id");
        };
        let Some(list) = self.lists.get_mut(which) else {
            return Ok(());
        };
        let end = start.checked_add(removed).filter(|end| *end <= list.len());
        let Some(end) = end else {
            return Err("it takes from a queue what is not in it");
        };
        let added = inserted.clone();
        for id in list.splice(start..end, inserted) {
            self.ids.remove(&id);
        }
        if added.into_iter().all(|id| self.ids.insert(id)) {
            Ok(())
        } else {
            Err("it puts a message into the queues that is there already")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(q: &mut Queues, text: &str) -> Result<(), &'static str> {
        q.splice(&Object::read(text.as_bytes()).expect("an object"))
    }

    #[test]
    fn what_is_taken_out_must_be_in() {
        let mut q = Queues::default();
        let put = r#"{"target":"next-turn","start":0,"inserted":[{"id":"u-1"}]}"#;
        let take = r#"{"target":"next-turn","start":0,"removedCount":1,"inserted":[]}"#;
        assert!(edit(&mut q, take).is_err());
        assert!(edit(&mut q, put).is_ok());
        let again = put.replace("next-turn", "next-step");
        assert!(edit(&mut q.clone(), &again).is_err());
        assert!(edit(&mut q, take).is_ok());
        assert!(edit(&mut q, &again).is_ok());
        assert!(edit(&mut q, r#"{"target":"later","start":0,"inserted":[]}"#).is_err());
        assert!(edit(&mut q, r#"{"target":"next-step","start":2,"inserted":[]}"#).is_err());
    }
}
