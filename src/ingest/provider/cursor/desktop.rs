//! The editor's databases: tables of keys and values.
//!
//! Since 2025 a conversation is a row and so is each bubble, in the database of all workspaces.
//! Before that one row of a workspace's database held all its conversations, bubbles included: their
//! records are parts of that row.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::value::RawValue;

use super::bubble::Bubble;
use crate::ingest::parse::json::{self, raw_object};
use crate::ingest::provider::{Reading, RowPart, Start, epoch, known, message, uri};
use crate::model::record::{Disposition, Facts, MessageKind, Role};
use crate::model::row::{Row, Value};

/// Conversations and bubbles.
pub(super) const DISK: &str = "cursorDiskKV";
/// Everything else, and what was before.
pub(super) const ITEMS: &str = "ItemTable";
/// A list of conversations.
pub(super) const HEADERS: &str = "composerHeaders";

const COMPOSERS: &str = "composer.composerData";
const COMPOSER_HEADERS: &str = "composer.composerHeaders";
const CHAT: &str = "workbench.panel.aichat.view.aichat.chatdata";
const PROMPTS: &str = "aiService.prompts";
const GENERATIONS: &str = "aiService.generations";

/// Bytes between two records of a row that say nothing: brackets, commas, a key.
const GLUE: usize = 128;

raw_object! {
    struct Composer {
        composer_id = "composerId",
        tab_id = "tabId",
        name = "name",
        chat_title = "chatTitle",
        created_at = "createdAt",
        last_send_time = "lastSendTime",
        conversation = "conversation",
        conversation_map = "conversationMap",
        bubbles = "bubbles",
        headers = "fullConversationHeadersOnly",
        model_config = "modelConfig",
        workspace = "workspaceIdentifier",
        subagent = "subagentInfo",
        summary = "latestConversationSummary",
    }
}

raw_object! {
    struct Detail {
        bubble_id = "bubbleId",
        model_name = "modelName",
        uri = "uri",
        fs_path = "fsPath",
        external = "external",
        parent = "parentComposerId",
        summary = "summary",
        all_composers = "allComposers",
        tabs = "tabs",
        folder = "folder",
    }
}

raw_object! {
    struct Prompt {
        text = "text",
        description = "textDescription",
        id = "generationUUID",
        time = "unixMs",
    }
}

/// Which rows are records.
pub(super) fn only(table: &str) -> &'static str {
    match table {
        DISK => {
            "key GLOB 'composerData:*' OR key GLOB 'bubbleId:*' OR key GLOB 'checkpointId:*' \
             OR key GLOB 'codeBlockDiff:*' OR key GLOB 'messageRequestContext:*'"
        }
        ITEMS => {
            "key IN ('composer.composerData', 'composer.composerHeaders', \
             'workbench.panel.aichat.view.aichat.chatdata', 'aiService.prompts', \
             'aiService.generations')"
        }
        _ => "1",
    }
}

/// What the rows of an editor's database say.
#[derive(Debug)]
pub(super) struct Desktop {
    /// The folder of the database: stands for its workspace where nothing else does.
    folder: String,
    /// The workspace that the file beside the database names.
    workspace: Option<String>,
    /// Bubbles of the conversation at hand, in its own order.
    listed: Vec<String>,
    /// The conversation at hand and its model.
    at: Option<(String, Option<String>)>,
}

impl Desktop {
    pub(super) fn new(start: Start<'_>) -> Self {
        let folder = start.path.parent();
        let workspace = folder
            .and_then(|f| start.siblings.get(&f.join("workspace.json")))
            .and_then(|bytes| serde_json::from_slice::<Detail<'_>>(bytes).ok())
            .and_then(|w| uri::file_path(&json::text(w.folder)?));
        Desktop {
            folder: folder
                .and_then(std::path::Path::file_name)
                .map(|n| n.to_string_lossy().into_owned())
                .unwrap_or_default(),
            workspace,
            listed: Vec::new(),
            at: None,
        }
    }

    /// Forgets the conversation at hand.
    pub(super) fn begin(&mut self) {
        self.listed.clear();
        self.at = None;
    }

    /// The bubbles of the conversation at hand.
    pub(super) fn listed(&mut self) -> Vec<String> {
        std::mem::take(&mut self.listed)
    }

    pub(super) fn parts(&mut self, table: &'static str, row: &Row) -> Option<Vec<RowPart>> {
        let key = row.text("key")?;
        // A text that is not UTF-8 has no places: it is read as a whole.
        let text = match row.get("value")? {
            Value::Text(bytes) | Value::Blob(bytes) => std::str::from_utf8(bytes).ok()?,
            _ => "",
        };
        let mut cut = Cut {
            text,
            at: 0,
            parts: Vec::new(),
        };
        match (table, &*key) {
            (DISK, key) => {
                let id = key.strip_prefix("composerData:")?;
                let whole: &RawValue = serde_json::from_str(text).ok()?;
                let composer: Composer<'_> = json::object(Some(whole))?;
                self.note(id, &composer);
                let bubbles = cut.bubbles(&composer);
                if bubbles.is_empty() {
                    return None;
                }
                self.composer(&mut cut, whole, &composer, id, bubbles);
            }
            (ITEMS, _) if text.is_empty() => {}
            (ITEMS, COMPOSERS | COMPOSER_HEADERS | CHAT) => {
                let all: Detail<'_> = serde_json::from_str(text).ok()?;
                for whole in json::items(all.all_composers.or(all.tabs))? {
                    let Some(composer) = json::object::<Composer<'_>>(Some(whole)) else {
                        continue;
                    };
                    let Some(id) =
                        json::owned(composer.composer_id).or_else(|| json::owned(composer.tab_id))
                    else {
                        continue;
                    };
                    self.note(&id, &composer);
                    let bubbles = cut.bubbles(&composer);
                    self.composer(&mut cut, whole, &composer, &id, bubbles);
                }
                let id = self.at.take().map(|(id, _)| id);
                if let Some(id) = id
                    && text.len().saturating_sub(cut.at) > GLUE
                {
                    let rest = cut.at..text.len();
                    cut.part(rest, frame(&id, format!("{key}#end"), Facts::default()));
                }
            }
            (ITEMS, PROMPTS | GENERATIONS) => {
                let list: &RawValue = serde_json::from_str(text).ok()?;
                for whole in json::items(Some(list))? {
                    if let Some(prompt) = json::object::<Prompt<'_>>(Some(whole))
                        && let Some(range) = cut.place(whole)
                    {
                        cut.part(range, self.prompt(&key, &prompt));
                    }
                }
            }
            _ => return None,
        }
        Some(cut.parts)
    }

    /// Takes note of a conversation for the bubbles that follow.
    fn note(&mut self, id: &str, composer: &Composer<'_>) {
        self.listed = json::items(composer.headers)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|h| json::owned(json::object::<Detail<'_>>(Some(h))?.bubble_id))
            .collect();
        let model = json::object::<Detail<'_>>(composer.model_config)
            .and_then(|m| json::owned(m.model_name))
            .filter(|m| m != "default");
        self.at = Some((id.to_owned(), model));
    }

    fn model(&self, id: &str) -> Option<&String> {
        self.at
            .as_ref()
            .filter(|(at, _)| at == id)
            .and_then(|(_, model)| model.as_ref())
    }

    /// The records of a conversation that holds its bubbles, or is nothing but a name.
    fn composer(
        &self,
        cut: &mut Cut<'_>,
        whole: &RawValue,
        composer: &Composer<'_>,
        id: &str,
        bubbles: Vec<(Range<usize>, &RawValue)>,
    ) {
        let Some(all) = cut.place(whole) else {
            return;
        };
        cut.at = cut.at.max(all.start);
        let mut frames = 0;
        let mut between = |cut: &mut Cut<'_>, to: usize, glue: usize| {
            let from = cut.at;
            if to.saturating_sub(from) <= glue {
                return;
            }
            let mut reading = if frames == 0 {
                Reading {
                    time_ms: time_of(composer),
                    ..frame(id, format!("composer:{id}"), self.facts(composer))
                }
            } else {
                frame(id, format!("composer:{id}#{frames}"), Facts::default())
            };
            if frames == 0 {
                reading.disposition = summary(composer);
            }
            frames += 1;
            cut.part(from..to, reading);
        };
        for (n, (range, raw)) in bubbles.into_iter().enumerate() {
            between(cut, range.start, if n == 0 { 0 } else { GLUE });
            let bubble = json::object::<Bubble<'_>>(Some(raw));
            let reading = self.bubble(id, bubble.and_then(|b| b.own_id()), bubble.as_ref());
            cut.part(range, reading);
        }
        between(cut, all.end, 0);
    }

    fn bubble(
        &self,
        session: &str,
        native: Option<String>,
        bubble: Option<&Bubble<'_>>,
    ) -> Reading {
        Reading {
            session: session.to_owned(),
            native_id: native,
            native_parent: None,
            record_type: bubble.map_or_else(String::new, Bubble::record_type),
            time_ms: bubble.and_then(Bubble::time_ms),
            disposition: bubble
                .map_or(Disposition::Unknown, |b| b.disposition(self.model(session))),
            facts: Facts::default(),
        }
    }

    fn prompt(&self, key: &str, prompt: &Prompt<'_>) -> Reading {
        let (name, text) = if key == PROMPTS {
            ("prompts", prompt.text)
        } else {
            ("generations", prompt.description)
        };
        let mut out = Vec::new();
        if let Some(text) = json::owned(text) {
            super::MARKS.text(&text, &mut out);
        }
        Reading {
            session: format!("{}/{name}", self.folder),
            native_id: json::owned(prompt.id),
            native_parent: None,
            record_type: name.to_owned(),
            time_ms: json::time_ms(prompt.time),
            disposition: known(out),
            facts: Facts {
                workspace: self.workspace.clone(),
                ..Facts::default()
            },
        }
    }

    fn facts(&self, composer: &Composer<'_>) -> Facts {
        let own = json::object::<Detail<'_>>(composer.workspace)
            .and_then(|w| json::object::<Detail<'_>>(w.uri))
            .and_then(|u| {
                json::owned(u.fs_path).or_else(|| uri::file_path(&json::text(u.external)?))
            });
        Facts {
            title: json::owned(composer.name).or_else(|| json::owned(composer.chat_title)),
            workspace: own.or_else(|| self.workspace.clone()),
            parent_session: json::object::<Detail<'_>>(composer.subagent)
                .and_then(|s| json::owned(s.parent)),
            harness_version: None,
        }
    }

    pub(super) fn read(&mut self, table: &'static str, row: &Row) -> Reading {
        let key = row.text("key").unwrap_or_default();
        let value = row.text("value").unwrap_or_default();
        match table {
            DISK => self.disk(&key, &value),
            HEADERS => self.header(row),
            _ => Reading {
                disposition: Disposition::Unknown,
                ..frame(
                    &format!("{}/{key}", self.folder),
                    key.clone().into_owned(),
                    Facts::default(),
                )
            },
        }
    }

    fn disk(&mut self, key: &str, value: &str) -> Reading {
        let mut names = key.splitn(3, ':');
        let kind = names.next().unwrap_or_default();
        let session = names.next().filter(|s| !s.is_empty()).unwrap_or("unknown");
        let own = names.next().unwrap_or_default();
        // A value may be gone, or not written yet.
        let blank = value.trim().is_empty() || value == "null";
        let mut reading = match kind {
            "bubbleId" => {
                let bubble = serde_json::from_str::<Bubble<'_>>(value).ok();
                self.bubble(session, Some(own.to_owned()), bubble.as_ref())
            }
            "composerData" => {
                let composer = serde_json::from_str::<Composer<'_>>(value).ok();
                let facts = composer.as_ref().map(|c| self.facts(c)).unwrap_or_default();
                Reading {
                    time_ms: composer.as_ref().and_then(time_of),
                    disposition: composer.as_ref().map_or(Disposition::Unknown, summary),
                    ..frame(session, format!("composer:{session}"), facts)
                }
            }
            _ => frame(session, key.to_owned(), Facts::default()),
        };
        if blank {
            reading.disposition = Disposition::Known;
        }
        if reading.native_id.as_deref() == Some("") {
            reading.native_id = None;
        }
        if kind != "bubbleId" {
            reading.record_type = kind.to_owned();
        }
        reading
    }

    fn header(&self, row: &Row) -> Reading {
        let json = ["value", "data", "header"]
            .into_iter()
            .find_map(|c| row.owned(c))
            .unwrap_or_default();
        let composer = serde_json::from_str::<Composer<'_>>(&json).unwrap_or_default();
        let id = ["composerId", "composer_id", "id", "key"]
            .into_iter()
            .find_map(|c| row.owned(c))
            .or_else(|| json::owned(composer.composer_id));
        let id = id.unwrap_or_else(|| "unknown".to_owned());
        let mut facts = self.facts(&composer);
        facts.title = facts.title.or_else(|| row.owned("name"));
        let created = ["createdAt", "created_at"]
            .into_iter()
            .find_map(|c| row.integer(c));
        Reading {
            time_ms: time_of(&composer).or_else(|| epoch::ms(created?)),
            ..frame(&id, format!("header:{id}"), facts)
        }
    }
}

fn time_of(composer: &Composer<'_>) -> Option<i64> {
    json::time_ms(composer.created_at).or_else(|| json::time_ms(composer.last_send_time))
}

/// What stands for the earlier part of a long conversation.
fn summary(composer: &Composer<'_>) -> Disposition {
    let text = json::object::<Detail<'_>>(composer.summary)
        .and_then(|s| json::object::<Detail<'_>>(s.summary))
        .and_then(|s| json::owned(s.summary));
    known(
        text.map(|t| message(Role::Meta, MessageKind::Summary, t))
            .into_iter()
            .collect(),
    )
}

/// A record without a message.
fn frame(session: &str, native: String, facts: Facts) -> Reading {
    Reading {
        session: session.to_owned(),
        native_id: Some(native),
        native_parent: None,
        record_type: "composer".to_owned(),
        time_ms: None,
        disposition: Disposition::Known,
        facts,
    }
}

/// A text that is cut into records.
struct Cut<'t> {
    text: &'t str,
    /// The end of the last part.
    at: usize,
    parts: Vec<RowPart>,
}

impl Cut<'_> {
    /// Where a value that was read from the text stands in it.
    fn place(&self, raw: &RawValue) -> Option<Range<usize>> {
        let from = raw
            .get()
            .as_ptr()
            .addr()
            .checked_sub(self.text.as_ptr().addr())?;
        let to = from.checked_add(raw.get().len())?;
        (to <= self.text.len()).then_some(from..to)
    }

    fn part(&mut self, range: Range<usize>, reading: Reading) {
        if range.start < self.at || range.is_empty() {
            return;
        }
        self.at = range.end;
        self.parts.push(RowPart {
            column: "value",
            range,
            reading,
        });
    }

    /// The bubbles that a conversation holds, in the order of the text.
    fn bubbles<'a>(&self, composer: &Composer<'a>) -> Vec<(Range<usize>, &'a RawValue)> {
        let mut all: Vec<&RawValue> = Vec::new();
        for list in [composer.conversation, composer.bubbles] {
            all.extend(json::items(list).unwrap_or_default());
        }
        let map: Option<BTreeMap<String, &RawValue>> = json::object(composer.conversation_map);
        all.extend(map.unwrap_or_default().into_values());
        let mut placed: Vec<_> = all
            .into_iter()
            .filter_map(|raw| Some((self.place(raw)?, raw)))
            .collect();
        placed.sort_by_key(|(range, _)| range.start);
        placed
    }
}
