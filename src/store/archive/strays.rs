//! Rows that are left of what is lost: records of conversations whose row is gone, and messages of
//! records whose row is gone.
//!
//! What nothing else gives comes back under a conversation that is made up of it and says so in its
//! name. Nothing is mixed with another conversation, and nothing that is there comes twice.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::append::{CaptureRef, SourceKind};
use super::ids::ById;
use super::place::Place;
use super::readable::Columns;
use super::replay::{Only, conversation, replay_only};
use super::rescue::{Known, PAGE, RecordRow, Rescued, TableTally, read_message};
use super::rows::RowHasher;
use super::schema::{COMMIT_CONVERSATIONS, MESSAGES};
use super::state::ConversationRow;
use super::writer::ArchiveWriter;
use super::{PART_BITS, failed, identity};
use crate::error::Result;
use crate::model::conversation::ArchivedSource;
use crate::model::digest::Digest;
use crate::model::interrupt::Interrupt;
use crate::model::path::hex;
use crate::model::provider::Provider;
use crate::model::record::{
    Disposition, Facts, Message, ParsedRecord, Recovery, ResumePoint, Span,
};
use crate::model::source::SourceKey;

/// Type of a record of which only messages are left.
const LOST_RECORD: &str = "lost-record";
/// Path of what such records lie in.
const RECORDS: &str = "unknown/records";
/// The machine where nothing tells it.
const NO_MACHINE: &str = "unknown";

/// What is left of one conversation without the row that says where it belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stray {
    /// Public id of the conversation; of the one that is made up where its row is lost.
    pub conversation: String,
    /// Its harness.
    pub provider: Provider,
    /// What the harness calls it, or `unknown/conversation-<row id>-<first of what is left>`.
    pub native_id: String,
    /// Whether its row is lost.
    pub is_made_up: bool,
    /// Records whose row is there and the conversation's is not.
    pub records: u64,
    /// Messages whose record's row is lost.
    pub messages: u64,
}

/// What is counted of one conversation.
#[derive(Debug, Default)]
struct Left {
    records: u64,
    messages: u64,
    /// The first of what is left.
    first: Digest,
    /// Row ids of sources that it was read from.
    sources: BTreeSet<i64>,
}

/// Stands for what a message says.
type Said = [u8; 16];

/// A message whose record's row is lost.
struct Orphan {
    id: i64,
    conversation: i64,
    said: Said,
}

/// By conversation's row id.
type Tallies = HashMap<i64, HashMap<Said, u64>, ById>;

impl Rescued<'_> {
    /// Rows whose conversation's or record's row is lost, by conversation; records of the sources
    /// that are `wanted` and of those whose row is lost.
    ///
    /// # Errors
    /// `interrupted`, `io`.
    pub fn strays(
        &self,
        wanted: &dyn Fn(SourceKey) -> bool,
        interrupt: &Interrupt,
    ) -> Result<Vec<Stray>> {
        let left = self.left(wanted, interrupt)?;
        let made_up = self.made_up(&left)?;
        let mut all: Vec<Stray> = Vec::new();
        for (id, left) in &left {
            let known = self.conversations.get(id).or_else(|| made_up.get(id));
            all.extend(known.map(|k| Stray {
                conversation: k.row.public.id.clone(),
                provider: k.row.public.provider,
                native_id: k.row.public.native_id.clone(),
                is_made_up: made_up.contains_key(id),
                records: left.records,
                messages: left.messages,
            }));
        }
        Ok(all)
    }

    /// The sources that conversations were read from, by public id; one that can't be told is left
    /// out with its conversation.
    ///
    /// # Errors
    /// `interrupted`, `io`.
    pub fn sources_of(
        &self,
        wanted: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<ArchivedSource>>> {
        let mut read_from: BTreeMap<i64, BTreeSet<i64>> = self
            .conversations
            .iter()
            .filter(|(_, k)| wanted.contains(&k.row.public.id))
            .map(|(id, _)| (*id, BTreeSet::new()))
            .collect();
        self.records(0, &mut |r| {
            if let Some(sources) = read_from.get_mut(&r.conversation) {
                sources.insert(r.source);
            }
            Ok(true)
        })?;
        self.verified(
            &COMMIT_CONVERSATIONS,
            (i64::MIN, i64::MAX),
            &mut |c| {
                if let (Some(conversation), Some(source)) = (c.int(2), c.int(3))
                    && let Some(sources) = read_from.get_mut(&conversation)
                {
                    sources.insert(source);
                }
                Ok(true)
            },
            &mut TableTally::default(),
        )?;
        let source = |id: &i64| self.sources.get(id).map(|s| s.source.clone());
        Ok(read_from
            .into_iter()
            .filter(|(_, ids)| !ids.is_empty())
            .filter_map(|(id, ids)| {
                let all: Option<Vec<ArchivedSource>> = ids.iter().map(source).collect();
                let public = &self.conversations.get(&id)?.row.public.id;
                Some((public.clone(), all?))
            })
            .collect())
    }

    fn is_stray(&self, r: &RecordRow) -> bool {
        !r.is_run() && !self.conversations.contains_key(&r.conversation)
    }

    fn left(
        &self,
        wanted: &dyn Fn(SourceKey) -> bool,
        interrupt: &Interrupt,
    ) -> Result<BTreeMap<i64, Left>> {
        let mut all: BTreeMap<i64, Left> = BTreeMap::new();
        self.records(0, &mut |r| {
            let source = self.sources.get(&r.source);
            if self.is_stray(&r)
                && !r.is_taken_back()
                && source.is_none_or(|s| wanted(s.source.key))
            {
                let left = all.entry(r.conversation).or_insert_with(|| Left {
                    first: r.hash,
                    ..Left::default()
                });
                left.records += 1;
                left.sources.insert(r.source);
            }
            Ok(true)
        })?;
        self.orphans(interrupt, &mut |orphan| {
            let left = all.entry(orphan.conversation).or_insert_with(|| Left {
                first: Digest::of(&orphan.said),
                ..Left::default()
            });
            left.messages += 1;
            Ok(())
        })?;
        Ok(all)
    }

    /// A name for each conversation of which no row says one. Two archives may have lost one of the
    /// same row id: the first of what is left tells them apart.
    fn made_up(&self, left: &BTreeMap<i64, Left>) -> Result<BTreeMap<i64, Known>> {
        let unknown = |id: &i64| !self.conversations.contains_key(id);
        if !left.keys().any(unknown) {
            return Ok(BTreeMap::new());
        }
        let mut sources: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
        let mut tally = TableTally::default();
        let all = (i64::MIN, i64::MAX);
        self.verified(
            &COMMIT_CONVERSATIONS,
            all,
            &mut |c| {
                if let (Some(conversation), Some(source)) = (c.int(2), c.int(3))
                    && unknown(&conversation)
                {
                    sources.entry(conversation).or_default().insert(source);
                }
                Ok(true)
            },
            &mut tally,
        )?;
        // A source is of one harness, as all conversations in it are.
        let mut machines: BTreeMap<i64, (String, Provider)> = BTreeMap::new();
        self.records(0, &mut |r| {
            if let Some(k) = self.conversations.get(&r.conversation) {
                let c = &k.row.public;
                let machine = machines.entry(r.source);
                machine.or_insert_with(|| (c.source_id.clone(), c.provider));
            }
            Ok(true)
        })?;
        for (id, s) in &self.sources {
            machines.insert(*id, (s.source.source_id.clone(), s.source.provider));
        }
        let mut out = BTreeMap::new();
        for (id, left) in left.iter().filter(|(id, _)| unknown(id)) {
            let more = sources.get(id).into_iter().flatten();
            let machine = left
                .sources
                .iter()
                .chain(more)
                .find_map(|s| machines.get(s));
            let (source_id, provider) = match machine {
                Some((source_id, provider)) => (source_id.as_str(), *provider),
                None => (NO_MACHINE, Provider::Unknown),
            };
            let first = hex(&left.first.0[..6]);
            let native = format!("unknown/conversation-{id}-{first}");
            let public = identity::conversation_id(source_id, provider, &native);
            let row = ConversationRow::bare(*id, public, source_id, provider, native);
            let verified = false;
            out.insert(*id, Known { row, verified });
        }
        Ok(out)
    }

    /// Streams the messages whose record's row is lost, ids ascending.
    fn orphans(
        &self,
        interrupt: &Interrupt,
        f: &mut dyn FnMut(Orphan) -> Result<()>,
    ) -> Result<()> {
        let most = i64::MAX >> PART_BITS;
        let mut from = 0i64;
        loop {
            interrupt.check()?;
            let mut page: HashSet<i64, ById> = HashSet::default();
            let mut to = most;
            self.records(from, &mut |r| {
                page.insert(r.id);
                if page.len() == PAGE {
                    to = r.id.min(most);
                }
                Ok(page.len() < PAGE)
            })?;
            let bounds = (from << PART_BITS, (to << PART_BITS) | PART_MASK);
            let mut hasher = RowHasher::default();
            self.verified(
                &MESSAGES,
                bounds,
                &mut |c| {
                    if let (Some(id), Some(conversation)) = (c.int(0), c.int(1))
                        && !page.contains(&(id >> PART_BITS))
                        && read_message(c).is_some()
                    {
                        f(Orphan {
                            id,
                            conversation,
                            said: said(&mut hasher, c),
                        })?;
                    }
                    Ok(true)
                },
                &mut TableTally::default(),
            )?;
            if to >= most {
                return Ok(());
            }
            from = to + 1;
        }
    }
}

const PART_MASK: i64 = (1 << PART_BITS) - 1;

/// What stands for the content of a row of `messages`.
fn said(hasher: &mut RowHasher, c: &Columns<'_>) -> Said {
    said_by(hasher, c.0.get(2..9).unwrap_or_default())
}

fn said_by(hasher: &mut RowHasher, values: &[ValueRef<'_>]) -> Said {
    hasher.begin(LOST_RECORD);
    values.iter().for_each(|v| hasher.value(*v));
    let mut short = [0; 16];
    short.copy_from_slice(&hasher.finish().0[..16]);
    short
}

/// Puts what is left of lost conversations and records into `archive`, once everything else that
/// can be put into it is there: of the sources that are `wanted`, and of the conversations that
/// `lack` something. Gives what was put.
///
/// # Errors
/// As [`super::replay_rows`].
pub fn replay_strays(
    archive: &mut ArchiveWriter<'_>,
    rescued: &mut Rescued<'_>,
    wanted: &dyn Fn(SourceKey) -> bool,
    lacks: &dyn Fn(&str) -> bool,
    now_ms: i64,
    interrupt: &Interrupt,
) -> Result<Vec<Stray>> {
    let left = rescued.left(wanted, interrupt)?;
    if left.is_empty() {
        return Ok(Vec::new());
    }
    let made_up = rescued.made_up(&left)?;
    let there = There::of(&archive.conn, &archive.shared.incomplete, rescued)?;
    let mut homes: BTreeMap<i64, Known> = BTreeMap::new();
    let mut homeless: HashSet<i64, ById> = HashSet::default();
    for (id, known) in made_up {
        let home = match there.home(id) {
            Some(row) => ConversationRow::by_id(&archive.conn, row)
                .map_err(|e| failed(&archive.conn, "read", e))?,
            None => None,
        };
        let known = match home {
            Some(row) => Known {
                row: ConversationRow {
                    branch_of: None,
                    ..row
                },
                verified: false,
            },
            None => {
                homeless.insert(id);
                known
            }
        };
        homes.insert(id, known);
    }
    let unknown: HashSet<i64, ById> = homes.keys().copied().collect();
    rescued.conversations.extend(homes);
    let mut put: BTreeMap<i64, (u64, u64)> = BTreeMap::new();
    if !unknown.is_empty() {
        let only = Only {
            conversations: &unknown,
            but: &there.records,
        };
        let records = replay_only(archive, rescued, wanted, only, now_ms, interrupt)?;
        for (id, n) in records {
            put.entry(id).or_default().0 = n;
        }
    }
    let messages = Messages {
        rescued,
        homeless: &homeless,
        unknown: &unknown,
        lacks,
        now_ms,
    };
    for (id, n) in messages.put(archive, interrupt)? {
        put.entry(id).or_default().1 = n;
    }
    let stray = |(id, (records, messages)): (i64, (u64, u64))| {
        let c = &rescued.conversations.get(&id)?.row.public;
        Some(Stray {
            conversation: c.id.clone(),
            provider: c.provider,
            native_id: c.native_id.clone(),
            is_made_up: homeless.contains(&id),
            records,
            messages,
        })
    };
    Ok(put.into_iter().filter_map(stray).collect())
}

/// What of the stray records another holder gave.
struct There {
    /// Their row ids.
    records: HashSet<i64, ById>,
    /// Of each conversation whose row is lost, those that hold them here.
    homes: HashMap<i64, BTreeSet<i64>, ById>,
}

/// Where a record lies: its row id, its conversation's, its source where known, its first byte.
type Lies = (i64, i64, Option<SourceKey>, u64);

impl There {
    fn of(conn: &Connection, incomplete: &HashSet<i64>, rescued: &Rescued<'_>) -> Result<There> {
        let mut out = There {
            records: HashSet::default(),
            homes: HashMap::default(),
        };
        let mut strays: HashMap<[u8; 32], Vec<Lies>> = HashMap::new();
        rescued.records(0, &mut |r| {
            if rescued.is_stray(&r) && !r.is_keyless() {
                let source = rescued.sources.get(&r.source).map(|s| s.source.key);
                let lies = (r.id, r.conversation, source, r.span.offset);
                strays.entry(r.hash.0).or_default().push(lies);
            }
            Ok(true)
        })?;
        if strays.is_empty() {
            return Ok(out);
        }
        let mut look = || -> rusqlite::Result<()> {
            let mut statement = conn.prepare(
                "SELECT r.conversation, r.hash, r.offset, s.source_key, \
                 coalesce(r.duplicate_of, r.id) FROM records r JOIN sources s ON s.id=r.source",
            )?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let hash: [u8; 32] = row.get(1)?;
                let Some(all) = strays.get(&hash) else {
                    continue;
                };
                let (offset, key) = (row.get::<_, i64>(2)?, SourceKey(row.get(3)?));
                for (id, conversation, source, at) in all {
                    if i64::try_from(*at) != Ok(offset) || source.is_some_and(|s| s != key) {
                        continue;
                    }
                    let homes = out.homes.entry(*conversation).or_default();
                    homes.insert(row.get(0)?);
                    // Where it lacks messages, this one may have them.
                    if !incomplete.contains(&row.get(4)?) {
                        out.records.insert(*id);
                    }
                }
            }
            Ok(())
        };
        look().map_err(|e| failed(conn, "read", e))?;
        Ok(out)
    }

    /// The conversation here that holds records of one whose row is lost, where it is the only one.
    fn home(&self, conversation: i64) -> Option<i64> {
        let homes = self.homes.get(&conversation)?;
        homes.first().copied().filter(|_| homes.len() == 1)
    }
}

/// Messages whose record's row is lost, on their way into an archive.
struct Messages<'a, 'l> {
    rescued: &'a Rescued<'l>,
    /// Conversations that are made up.
    homeless: &'a HashSet<i64, ById>,
    /// Those, and those whose row another holder gave.
    unknown: &'a HashSet<i64, ById>,
    lacks: &'a dyn Fn(&str) -> bool,
    now_ms: i64,
}

impl Messages<'_, '_> {
    /// How many were put, by conversation.
    fn put(
        &self,
        archive: &mut ArchiveWriter<'_>,
        interrupt: &Interrupt,
    ) -> Result<BTreeMap<i64, u64>> {
        let mut orphans: BTreeMap<i64, Vec<Orphan>> = BTreeMap::new();
        let mut ids: HashSet<i64, ById> = HashSet::default();
        self.rescued.orphans(interrupt, &mut |orphan| {
            let known = self.rescued.conversations.get(&orphan.conversation);
            let is_due = self.unknown.contains(&orphan.conversation)
                || known.is_some_and(|k| (self.lacks)(&k.row.public.id));
            if is_due {
                ids.insert(orphan.id);
                orphans.entry(orphan.conversation).or_default().push(orphan);
            }
            Ok(())
        })?;
        if orphans.is_empty() {
            return Ok(BTreeMap::new());
        }
        let had = self.had(&orphans, &ids)?;
        let elsewhere = self.elsewhere(&archive.conn, &orphans)?;
        let mut put = BTreeMap::new();
        for (conversation, orphans) in &orphans {
            interrupt.check()?;
            if elsewhere.contains(conversation) {
                continue;
            }
            let had = had.get(conversation);
            let due = self.due(&archive.conn, *conversation, orphans, had)?;
            if !due.is_empty() {
                self.put_all(archive, *conversation, &due)?;
                put.insert(*conversation, due.len() as u64);
            }
        }
        Ok(put)
    }

    /// How often what orphans say is also said by a message whose record is there.
    fn had(
        &self,
        orphans: &BTreeMap<i64, Vec<Orphan>>,
        ids: &HashSet<i64, ById>,
    ) -> Result<Tallies> {
        let mut tallies = tallies(orphans);
        let mut hasher = RowHasher::default();
        self.rescued.verified(
            &MESSAGES,
            (i64::MIN, i64::MAX),
            &mut |c| {
                if let (Some(id), Some(conversation)) = (c.int(0), c.int(1))
                    && let Some(tally) = tallies.get_mut(&conversation)
                    && !ids.contains(&id)
                    && let Some(n) = tally.get_mut(&said(&mut hasher, c))
                {
                    *n += 1;
                }
                Ok(true)
            },
            &mut TableTally::default(),
        )?;
        Ok(tallies)
    }

    /// The made-up conversations all of whose messages lie in one that is here, while as many of each
    /// are here as this archive has: another holder gave them under their name.
    fn elsewhere(
        &self,
        conn: &Connection,
        orphans: &BTreeMap<i64, Vec<Orphan>>,
    ) -> Result<HashSet<i64, ById>> {
        let mut found = HashSet::default();
        // What is said → who says it, and how often.
        let mut sought: HashMap<Said, Vec<i64>> = HashMap::new();
        let mut wanted: Tallies = HashMap::default();
        for (id, orphans) in orphans.iter().filter(|(id, _)| self.homeless.contains(id)) {
            let tally = wanted.entry(*id).or_default();
            for o in orphans {
                *tally.entry(o.said).or_insert(0) += 1;
                let who = sought.entry(o.said).or_default();
                if who.last() != Some(id) {
                    who.push(*id);
                }
            }
        }
        if sought.is_empty() {
            return Ok(found);
        }
        // How many more of each this archive has than are here.
        let mut lacking: HashMap<Said, i64> = sought.keys().map(|said| (*said, 0)).collect();
        let mut hasher = RowHasher::default();
        self.rescued.verified(
            &MESSAGES,
            (i64::MIN, i64::MAX),
            &mut |c| {
                if let Some(n) = lacking.get_mut(&said(&mut hasher, c)) {
                    *n += 1;
                }
                Ok(true)
            },
            &mut TableTally::default(),
        )?;
        let mut here: HashMap<(i64, i64), HashMap<Said, u64>> = HashMap::new();
        each_message(conn, None, &mut |conversation, said| {
            if let Some(n) = lacking.get_mut(&said) {
                *n -= 1;
            }
            for id in sought.get(&said).into_iter().flatten() {
                let tally = here.entry((*id, conversation)).or_default();
                *tally.entry(said).or_insert(0) += 1;
            }
        })?;
        for ((id, _), tally) in here {
            let covers = |(said, n): (&Said, &u64)| {
                tally.get(said).is_some_and(|have| have >= n)
                    && lacking.get(said).is_some_and(|n| *n <= 0)
            };
            if wanted.get(&id).is_some_and(|w| w.iter().all(covers)) {
                found.insert(id);
            }
        }
        Ok(found)
    }

    /// The orphans of a conversation that are not in it yet.
    fn due(
        &self,
        conn: &Connection,
        conversation: i64,
        orphans: &[Orphan],
        had: Option<&HashMap<Said, u64>>,
    ) -> Result<Vec<i64>> {
        let Some(known) = self.rescued.conversations.get(&conversation) else {
            return Ok(Vec::new());
        };
        let row = ConversationRow::by_public(conn, &known.row.public.id)
            .map_err(|e| failed(conn, "read", e))?;
        let mut spare: HashMap<Said, u64> = orphans.iter().map(|o| (o.said, 0)).collect();
        if let Some(row) = row {
            each_message(conn, Some(row.id), &mut |_, said| {
                if let Some(n) = spare.get_mut(&said) {
                    *n += 1;
                }
            })?;
        }
        for (said, n) in &mut spare {
            let had = had.and_then(|h| h.get(said)).copied().unwrap_or(0);
            *n = n.saturating_sub(had);
        }
        let is_due = |o: &&Orphan| match spare.get_mut(&o.said) {
            Some(n) if *n > 0 => {
                *n -= 1;
                false
            }
            _ => true,
        };
        Ok(orphans.iter().filter(is_due).map(|o| o.id).collect())
    }

    /// Puts messages, those of one record as one, in one commit.
    fn put_all(&self, archive: &mut ArchiveWriter<'_>, of: i64, ids: &[i64]) -> Result<()> {
        let Some(known) = self.rescued.conversations.get(&of) else {
            return Ok(());
        };
        let c = &known.row.public;
        let path = PathBuf::from(RECORDS);
        let key = SourceKey::derive(&c.source_id, c.provider, &path);
        let before = archive.cursor(key)?;
        let mut append = archive.begin(CaptureRef {
            key,
            source_id: &c.source_id,
            provider: c.provider,
            path: &path,
            seq: before.as_ref().map_or(1, |b| b.parsed_seq + 1),
            len: 0,
            hash: Digest::default(),
            restart: false,
            parser_version: 0,
            kind: SourceKind::Store,
        })?;
        // It is about no session: what a file of one lacks is no other way taken.
        append.source.source.main_session = Some(String::new());
        append.source.set_gap();
        let conn = append.conn;
        let fail = |e| failed(conn, "append to", e);
        let at = conversation(&mut append, self.rescued, known).map_err(fail)?;
        let mut line = before.map_or(1, |b| b.resume.line);
        let ids: BTreeSet<i64> = ids.iter().copied().collect();
        let records: BTreeSet<i64> = ids.iter().map(|id| id >> PART_BITS).collect();
        for record in records {
            let (parts, _) = self.rescued.messages(record)?;
            let messages: Vec<Message> = parts
                .into_iter()
                .filter(|(part, _)| ids.contains(&((record << PART_BITS) | part)))
                .map(|(_, m)| m)
                .collect();
            let hash = digest(&messages);
            let occurrence = append.most_occurrences(at, &hash).map_err(fail)? + 1;
            let record = ParsedRecord {
                // No byte of it is left.
                span: Span {
                    offset: append.expected,
                    len: 0,
                },
                line,
                hash,
                recovery: Recovery::Clean,
                session: c.native_id.clone(),
                native_id: None,
                native_parent: None,
                record_type: LOST_RECORD.to_owned(),
                time_ms: None,
                disposition: Disposition::Messages(messages),
                facts: Facts::default(),
            };
            append
                .put_record(at, &record, occurrence, Place::New)
                .map_err(fail)?;
            line += 1;
        }
        let resume = ResumePoint {
            offset: append.expected,
            line,
            state: Vec::new(),
        };
        append.finish(resume, self.now_ms).map(drop)
    }
}

fn tallies(orphans: &BTreeMap<i64, Vec<Orphan>>) -> Tallies {
    let of = |orphans: &[Orphan]| orphans.iter().map(|o| (o.said, 0)).collect();
    orphans.iter().map(|(id, all)| (*id, of(all))).collect()
}

/// Calls `f` with the conversation of every message, or of those of one conversation, and with what
/// it says.
fn each_message(conn: &Connection, of: Option<i64>, f: &mut dyn FnMut(i64, Said)) -> Result<()> {
    const COLUMNS: &str = "m.conversation,m.role,m.kind,m.text,m.tool_name,m.call_id,m.model,\
                           m.is_error";
    let mut run = || -> rusqlite::Result<()> {
        let mut statement = match of {
            None => conn.prepare(&format!("SELECT {COLUMNS} FROM messages m"))?,
            Some(_) => conn.prepare(&format!(
                "SELECT {COLUMNS} FROM records r JOIN messages m \
                 ON m.id BETWEEN r.id << {PART_BITS} AND (r.id << {PART_BITS}) | {PART_MASK} \
                 WHERE r.conversation=?1"
            ))?,
        };
        let mut rows = match of {
            None => statement.query([])?,
            Some(id) => statement.query([id])?,
        };
        let mut hasher = RowHasher::default();
        while let Some(row) = rows.next()? {
            let mut values = [ValueRef::Null; 7];
            for (i, value) in values.iter_mut().enumerate() {
                *value = row.get_ref(i + 1)?;
            }
            f(row.get(0)?, said_by(&mut hasher, &values));
        }
        Ok(())
    };
    run().map_err(|e| failed(conn, "read", e))
}

/// What stands for the hash of a record of which only messages are left.
fn digest(messages: &[Message]) -> Digest {
    let mut hasher = RowHasher::default();
    hasher.begin(LOST_RECORD);
    for m in messages {
        let opt = |text: &'_ Option<String>| text.clone().unwrap_or_default();
        for part in [
            super::names::role(m.role),
            super::names::kind(m.kind),
            &m.text,
            &opt(&m.tool_name),
            &opt(&m.call_id),
            &opt(&m.model),
        ] {
            hasher.value(ValueRef::Text(part.as_bytes()));
        }
        let error = m.is_error.map_or(-1, i64::from);
        hasher.value(ValueRef::Integer(error));
    }
    hasher.finish()
}
