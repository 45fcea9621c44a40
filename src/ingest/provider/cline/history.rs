//! What files beside a task say about it: title, workspace, parent.

use std::path::{Path, PathBuf};

use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::provider::{Start, stem};
use crate::model::record::{Facts, Message, Role};

/// Characters of a task's text that make a title.
const TITLE: usize = 200;

raw_object! {
    struct Item {
        id = "id",
        task = "task",
        workspace = "workspace",
        cwd_first = "cwdOnTaskInitialization",
        cwd = "cwd",
        root = "workspace_root",
        parent = "parentTaskId",
        parent_session = "parent_session_id",
        prompt = "prompt",
        metadata = "metadata",
        title = "title",
        origin = "sessionHistoryOrigin",
        version = "version",
        environment = "environment_history",
        cline_version = "cline_version",
    }
}

/// Where they are.
pub(super) fn files(path: &Path) -> Vec<PathBuf> {
    let Some(folder) = path.parent() else {
        return Vec::new();
    };
    let stem = stem(path);
    if let Some(id) = stem.strip_suffix(".messages") {
        return vec![folder.join(format!("{id}.json"))];
    }
    let mut files = vec![
        folder.join("history_item.json"),
        folder.join("task_metadata.json"),
    ];
    if let Some(tasks) = folder.parent() {
        files.push(tasks.join("_index.json"));
        if let Some(root) = tasks.parent() {
            files.push(root.join("state/taskHistory.json"));
        }
    }
    files
}

/// What they say about `task`.
pub(super) fn facts(start: Start<'_>, task: &str) -> Facts {
    let mut facts = Facts::default();
    for path in files(start.path) {
        let Some(text) = start
            .siblings
            .get(&path)
            .and_then(|bytes| std::str::from_utf8(bytes).ok().or(valid_part(bytes)))
        else {
            continue;
        };
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        let listed = matches!(name, "taskHistory.json" | "_index.json");
        let item = if listed {
            listed_item(text, task)
        } else {
            serde_json::from_str(text).ok()
        };
        if let Some(item) = item {
            take(&item, &mut facts);
        }
    }
    facts
}

/// The bytes before the first that is no UTF-8: the beginning of a file may end inside a character.
fn valid_part(bytes: &[u8]) -> Option<&str> {
    bytes.utf8_chunks().next().map(|chunk| chunk.valid())
}

fn take(item: &Item<'_>, facts: &mut Facts) {
    let metadata = json::object::<Item<'_>>(item.metadata).unwrap_or_default();
    let title = [item.title, metadata.title, item.task, item.prompt]
        .into_iter()
        .find_map(json::owned)
        .and_then(|text| {
            let line = text.lines().map(str::trim).find(|l| !l.is_empty())?;
            Some(line.chars().take(TITLE).collect::<String>())
        });
    let workspace = [item.workspace, item.cwd_first, item.cwd, item.root]
        .into_iter()
        .find_map(json::owned);
    let parent = [item.parent, item.parent_session]
        .into_iter()
        .find_map(json::owned);
    let version = json::object::<Item<'_>>(metadata.origin)
        .and_then(|o| json::owned(o.version))
        .or_else(|| {
            json::items(item.environment)?
                .into_iter()
                .filter_map(|e| json::owned(json::object::<Item<'_>>(Some(e))?.cline_version))
                .next_back()
        });
    for (slot, value) in [
        (&mut facts.title, title),
        (&mut facts.workspace, workspace),
        (&mut facts.parent_session, parent),
        (&mut facts.harness_version, version),
    ] {
        if slot.is_none() {
            *slot = value;
        }
    }
}

/// The entry of `task` in a list of all tasks, of which only the beginning may be there.
fn listed_item<'t>(text: &'t str, task: &str) -> Option<Item<'t>> {
    let mut rest = text.get(text.find('[')? + 1..)?;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Item<'t>>();
        let item = values.next()?.ok()?;
        if json::text(item.id).is_some_and(|id| id == task) {
            return Some(item);
        }
        rest = rest.get(values.byte_offset()..)?;
    }
}

/// The folder that the harness told the model.
pub(super) fn workspace(messages: &[Message]) -> Option<String> {
    const MARK: &str = "Current Working Directory (";
    messages
        .iter()
        .filter(|m| m.role == Role::Meta)
        .find_map(|m| {
            let at = m.text.find(MARK)?;
            let line = m.text.get(at + MARK.len()..)?.lines().next()?;
            let path = line.get(..line.rfind(')')?)?;
            (path.starts_with('/') || path.get(1..2) == Some(":")).then(|| path.to_owned())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_is_cut_off_still_names_what_it_holds() {
        let text = r#"[{"id":"1","task":"a"}, {"id":"2","task":"b","x":[1]},{"id":"3","ta"#;
        assert_eq!(
            json::owned(listed_item(text, "2").unwrap().task).as_deref(),
            Some("b")
        );
        assert!(listed_item(text, "3").is_none());
        assert!(listed_item("{}", "3").is_none());
        assert!(listed_item("[7", "3").is_none());
    }

    #[test]
    fn the_folder_is_where_the_harness_said() {
        let meta = |text: &str| {
            vec![crate::ingest::provider::message(
                Role::Meta,
                crate::model::record::MessageKind::Text,
                text.to_owned(),
            )]
        };
        assert_eq!(
            workspace(&meta("# Current Working Directory (/a (b)/c) Files\nx")).as_deref(),
            Some("/a (b)/c")
        );
        assert_eq!(workspace(&meta("# Current Working Directory (")), None);
    }
}
