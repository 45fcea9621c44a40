//! `cass search`

use std::collections::{BTreeMap, BTreeSet};

use super::args::SearchArgs;
use super::context::Context;
use super::emit::Human;
use super::page::{MAX_LINES, Mark, Page, count};
use super::sanitise::{columns, fit, visible};
use super::{place, reading};
use crate::error::{Error, ErrorKind, Result};
use crate::model::conversation::Conversation;
use crate::model::next::{Next, NextId};
use crate::model::path::normalise;
use crate::model::record::Role;
use crate::report::envelope::Report;
use crate::report::search::{
    ContextBlock, ContextMessage, ExplainBlock, Hit, LexicalBlock, LexicalState, RankRule,
    RankingBlock, SearchBody, SearchHit, search_report, unavailable,
};
use crate::report::time::rfc3339;
use crate::store::archive::ArchiveReader;
use crate::store::lexical::{
    Cursor, Filter, Form, LexicalReader, Looked, Query, State, Survey, look, snippet,
};

/// Bytes of a snippet.
const SNIPPET: usize = 240;
/// Lines at the end of a page.
const FOOTER: usize = 4;
/// Source id of this machine.
const LOCAL: &str = "local";

pub(super) fn run(ctx: &Context, args: &SearchArgs) -> Result<Report<SearchBody>> {
    let text = args.query.join(" ");
    let query = Query::parse(&text);
    if query.is_empty() {
        return Err(Error::new(ErrorKind::Usage, "the query holds no word")
            .with_hint("A word has at least one letter or digit."));
    }
    let root = place::with_archive(&ctx.env)?;
    let Some(Looked {
        survey: found,
        index,
        archive,
    }) = look(&root)?
    else {
        // Says why there is none.
        return Err(place::archive(&root)
            .err()
            .unwrap_or_else(|| Error::new(ErrorKind::ArchiveMissing, "the archive vanished")));
    };
    let filter = filter(ctx, args);
    let mut body = SearchBody {
        query: text,
        hits: Vec::new(),
        total: 0,
        total_is_lower_bound: found.state != State::Ready,
        ranking: RankingBlock::default(),
        next_cursor: None,
        lexical: block(&found),
        explain: args.explain.then(|| ExplainBlock {
            clauses: query.explain(),
            words_left_out: u64::try_from(query.left_out()).unwrap_or(u64::MAX),
            since: filter.since_ms.and_then(rfc3339),
            until: filter.until_ms.and_then(rfc3339),
            order: RankRule::Best.words().to_owned(),
        }),
    };
    let Some(index) = index.filter(|_| found.state.answers()) else {
        let error = unavailable(&found.state);
        return Ok(search_report(
            body,
            Some(&error),
            Next::Index,
            None,
            &ctx.site,
        ));
    };
    let asked = Asked {
        ctx,
        args,
        index: &index,
        archive: &archive,
        query: &query,
        filter: &filter,
    };
    match asked.fill(&mut body) {
        Ok(()) => {
            let more = body.next_cursor.as_deref().map(|c| on(args, c));
            Ok(search_report(body, None, Next::Index, more, &ctx.site))
        }
        Err(e) if e.kind() == ErrorKind::LexicalUnavailable => {
            body.lexical.state = LexicalState::Corrupt;
            body.total_is_lower_bound = true;
            // It lies where only a question or a full run looks.
            Ok(search_report(
                body,
                Some(&e),
                Next::IndexFull,
                None,
                &ctx.site,
            ))
        }
        // Rows that do not agree with their hashes; the other hits stand.
        Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => {
            body.total_is_lower_bound = true;
            let more = body.next_cursor.as_deref().map(|c| on(args, c));
            Ok(search_report(body, Some(&e), Next::Check, more, &ctx.site))
        }
        Err(e) => Err(e),
    }
}

/// The same search, on the page behind `cursor`.
fn on(args: &SearchArgs, cursor: &str) -> Next {
    let mut flags = Vec::new();
    let mut flag = |name: &str, value: Option<String>| {
        flags.extend(value.map(|v| format!("--{name}={v}")));
    };
    flag("agent", args.agent.map(|p| p.as_str().to_owned()));
    // A path that is no text can't be typed again from a document; such a search names no
    // sessions either, since workspaces are text.
    let workspace = args.workspace.as_ref();
    flag(
        "workspace",
        workspace.map(|p| p.to_string_lossy().into_owned()),
    );
    flag("source", args.source.clone());
    flag("role", args.role.map(|r| role(r).to_owned()));
    flag("since", args.since.map(|m| m.to_string()));
    flag("until", args.until.map(|m| m.to_string()));
    flag("limit", Some(args.limit.to_string()));
    let fields = (!args.fields.is_empty()).then(|| args.fields.join(","));
    flag("fields", fields);
    flag("context", args.context.map(|n| n.to_string()));
    flag("cursor", Some(cursor.to_owned()));
    if args.explain {
        flags.push("--explain".to_owned());
    }
    Next::SearchOn {
        flags,
        query: args.query.clone(),
    }
}

fn block(found: &Survey) -> LexicalBlock {
    LexicalBlock {
        state: LexicalState::of(&found.state),
        documents: found.served.documents,
        commits_behind: match found.state {
            State::Stale { commits } => commits,
            _ => 0,
        },
        cut: found.served.cut,
    }
}

fn filter(ctx: &Context, args: &SearchArgs) -> Filter {
    let now = ctx.env.now_ms();
    Filter {
        provider: args.agent,
        workspace: args.workspace.as_ref().map(|path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let text = normalise(&path).to_string_lossy().into_owned();
            // Below the root lies everything.
            text.trim_end_matches('/').to_owned()
        }),
        source_id: args.source.clone(),
        role: args.role,
        since_ms: args.since.map(|m| m.since(now)),
        until_ms: args.until.map(|m| m.until(now)),
    }
}

struct Asked<'a> {
    ctx: &'a Context,
    args: &'a SearchArgs,
    index: &'a LexicalReader,
    archive: &'a ArchiveReader,
    query: &'a Query,
    filter: &'a Filter,
}

impl Asked<'_> {
    fn fill(&self, body: &mut SearchBody) -> Result<()> {
        let index = self.index;
        let mut cursor = self.cursor(index)?;
        let before = cursor.shown();
        let limit = usize::try_from(self.args.limit).unwrap_or(usize::MAX);
        let mut gone = BTreeSet::new();
        let mut altered = None;
        // Rows of the hits of each session.
        let mut of_session: BTreeMap<String, (Conversation, BTreeSet<i64>)> = BTreeMap::new();
        let mut rows = Vec::new();
        let more = loop {
            let wanted = limit - body.hits.len();
            let left_out: BTreeSet<i64> = cursor.seen.union(&gone).copied().collect();
            let page = index
                .search(
                    self.query,
                    self.filter,
                    cursor.newest,
                    &left_out,
                    wanted,
                    &self.ctx.interrupt,
                )
                .map_err(damaged)?;
            let older_than = page.ranking.older_than;
            body.total_is_lower_bound |= older_than.is_some();
            body.ranking = page.ranking.into();
            if let Some(explain) = &mut body.explain {
                explain.order = body.ranking.rule.words().to_owned();
            }
            for scored in page.hits {
                let placed = match self.archive.placed_message(scored.id) {
                    Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => {
                        gone.insert(scored.id);
                        altered.get_or_insert(e);
                        continue;
                    }
                    placed => placed?,
                };
                match placed {
                    // Written again since the index was brought up to date.
                    Some(m) if m.message.superseded => {
                        gone.insert(scored.id);
                    }
                    Some(m) => {
                        cursor.seen.insert(scored.id);
                        let said = &m.message.message;
                        let form = Form::of(said.kind, &said.text);
                        let text = snippet(self.query, &said.text, form, SNIPPET);
                        let path = m.source.path.clone();
                        of_session
                            .entry(m.conversation.id.clone())
                            .or_insert_with(|| (m.conversation.clone(), BTreeSet::new()))
                            .1
                            .insert(scored.id);
                        rows.push(scored.id);
                        let mut hit = SearchHit::new(m, text, scored.score);
                        hit.source_exists = (hit.source_id == LOCAL)
                            .then(|| std::fs::symlink_metadata(path).is_ok());
                        let so_far = u64::try_from(body.hits.len()).unwrap_or(u64::MAX);
                        hit.rank = before.saturating_add(so_far).saturating_add(1);
                        hit.context = self.context(scored.id)?;
                        body.hits.push(Hit {
                            all: hit,
                            fields: self.args.fields.clone(),
                        });
                    }
                    None => {
                        return Err(unavailable(&State::Corrupt {
                            why: "it names a message that the archive does not hold".to_owned(),
                        }));
                    }
                }
            }
            let missing = u64::try_from(gone.len()).unwrap_or(u64::MAX);
            let ranked = body.ranking.ranked.saturating_sub(missing);
            // Of those that were shown some may be superseded by now.
            body.total = cursor.earlier.saturating_add(ranked).max(cursor.shown());
            body.ranking.total_estimate = match older_than {
                Some(_) => cursor.earlier.saturating_add(body.ranking.total_estimate),
                None => body.total,
            };
            if page.rest {
                if body.hits.len() < limit {
                    continue;
                }
                break true;
            }
            let Some(row) = older_than else { break false };
            cursor.go_behind(row);
            gone.clear();
            // One page has one order.
            if !body.hits.is_empty() {
                break true;
            }
        };
        body.next_cursor = more.then(|| cursor.encode());
        self.number(body, &of_session, &rows)?;
        altered.map_or(Ok(()), Err)
    }

    /// Says where `view` has each hit. `rows` are those of the hits.
    fn number(
        &self,
        body: &mut SearchBody,
        of_session: &BTreeMap<String, (Conversation, BTreeSet<i64>)>,
        rows: &[i64],
    ) -> Result<()> {
        let fields = &self.args.fields;
        if !fields.is_empty() && !fields.iter().any(|f| f == "number" || f == "view_argv") {
            return Ok(());
        }
        let mut numbers = BTreeMap::new();
        for (session, rows) in of_session.values() {
            numbers.extend(reading::numbers(
                &self.ctx.interrupt,
                self.archive,
                session,
                rows,
            )?);
        }
        for (hit, row) in body.hits.iter_mut().zip(rows) {
            let hit = &mut hit.all;
            hit.number = numbers.get(row).copied();
            hit.view_argv = hit.number.and_then(|from| {
                let view = Next::View {
                    id: hit.session_id.clone(),
                    from,
                    count: None,
                    raw: false,
                    all: false,
                };
                self.ctx.site.argv(view.argv())
            });
        }
        Ok(())
    }

    /// Where the list goes on, or its beginning.
    fn cursor(&self, index: &LexicalReader) -> Result<Cursor> {
        let manifest = &self.archive.generation().manifest;
        let bound_to = Cursor::bind(&[
            &manifest.archive_id,
            manifest.generation.as_str(),
            &self.query.explain().join("\n"),
            &format!(
                "{:?}",
                (
                    self.filter.provider.map(|p| p.as_str()),
                    &self.filter.workspace,
                    &self.filter.source_id,
                    self.filter.role,
                    // `7d` is another moment in each run.
                    self.args.since.map(|m| format!("{m:?}")),
                    self.args.until.map(|m| format!("{m:?}")),
                )
            ),
        ]);
        let Some(text) = &self.args.cursor else {
            return Ok(Cursor {
                bound_to,
                newest: index.newest().map_err(damaged)?,
                earlier: 0,
                seen: BTreeSet::new(),
            });
        };
        let refused = |what: &str| {
            Error::new(ErrorKind::Usage, format!("the cursor {what}"))
                .with_context("arg", "--cursor")
                .with_hint("Give next_cursor of a document as it is, with the same query and filters, or begin anew without --cursor.")
        };
        match Cursor::decode(text) {
            None => Err(refused("is none that this program made")),
            Some(c) if c.bound_to != bound_to => Err(refused(
                "belongs to another query, other filters or another archive",
            )),
            Some(c) => Ok(c),
        }
    }

    fn context(&self, id: i64) -> Result<Option<ContextBlock>> {
        let Some(n) = self.args.context else {
            return Ok(None);
        };
        let (before, after) = self.archive.neighbours(id, n)?;
        let texts = |ids: Vec<i64>| -> Result<Vec<ContextMessage>> {
            let mut list = Vec::new();
            for id in ids {
                match self.archive.placed_message(id) {
                    Ok(Some(m)) => list.push(ContextMessage::from(&m)),
                    // A damaged neighbour is left out; a damaged hit is told.
                    Ok(None) => {}
                    Err(e) if e.kind() == ErrorKind::ArchiveCorrupt => {}
                    Err(e) => return Err(e),
                }
            }
            Ok(list)
        };
        Ok(Some(ContextBlock {
            before: texts(before)?,
            after: texts(after)?,
        }))
    }
}

/// Damage of the index is no damage of the archive.
fn damaged(e: Error) -> Error {
    match e.kind() {
        ErrorKind::ArchiveCorrupt | ErrorKind::ArchiveUnreadable | ErrorKind::UnsafeTarget => {
            unavailable(&State::Corrupt {
                why: e.message().to_owned(),
            })
            .with_source(e)
        }
        _ => e,
    }
}

impl Human for SearchBody {
    fn page(r: &Report<Self>, page: &mut Page) {
        let b = &r.body;
        if b.lexical.state == LexicalState::Stale {
            let n = count(b.lexical.commits_behind, "commit is", "commits are");
            page.anomaly(Mark::Warn, &format!("{n} not in the search index yet"));
        }
        if let Some(e) = &b.explain {
            page.fact(&format!("asked     {}", e.clauses.join(" AND ")));
            page.fact(&format!("order     {}", e.order));
            if !b.ranking.unweighed.is_empty() {
                page.fact(&format!("no weight {}", b.ranking.unweighed.join(", ")));
            }
        }
        if b.lexical.cut > 0 {
            let n = count(b.lexical.cut, "message is", "messages are");
            let text = format!("{n} searched in the first 64 MiB alone");
            page.anomaly(Mark::Info, &text);
        }
        // Each hit has three lines; a second line of its text where there is room.
        let room = (MAX_LINES - FOOTER).saturating_sub(3 * b.hits.len());
        for (n, hit) in b.hits.iter().enumerate() {
            let h = &hit.all;
            let day = h.time.as_deref().and_then(|t| t.get(..10)).unwrap_or("-");
            let id = h.session_id.get(..12).unwrap_or(&h.session_id);
            let gone = if h.source_exists == Some(false) {
                " (pruned)"
            } else {
                ""
            };
            let title = h
                .title
                .as_deref()
                .or(h.workspace.as_deref())
                .unwrap_or(&h.native_id);
            page.fact(&format!(
                "{day:<10} {:<8} {id} {:<9}{gone} {title}",
                h.provider.as_str(),
                role(h.role),
            ));
            let around = h.context.as_ref();
            for m in around.map_or(&[][..], |c| &c.before) {
                page.fact(&neighbour("before", m));
            }
            let lines = two_lines(h);
            for line in lines.iter().take(if n < room { 2 } else { 1 }) {
                page.fact(&format!("  {line}"));
            }
            for m in around.map_or(&[][..], |c| &c.after) {
                page.fact(&neighbour("after", m));
            }
            if let Some(argv) = &h.view_argv {
                page.command(argv);
            }
        }
        // The first one stands at the end of the page anyway.
        for next in r.recommended_commands.iter().skip(1) {
            if next.id == NextId::SearchOn {
                page.fact("the next page:");
                page.command(&next.argv);
            }
        }
    }

    fn verdict(r: &Report<Self>) -> String {
        let b = &r.body;
        let none = || "Nothing was searched.".to_owned();
        match &r.err {
            Some(e) if e.kind != ErrorKind::ArchiveCorrupt => return none(),
            _ => {}
        }
        let mut text = if b.ranking.total_estimate > b.total {
            format!(
                "More than {} messages match, about {}",
                b.total, b.ranking.total_estimate
            )
        } else {
            count(b.total, "message matches", "messages match")
        };
        text.push_str(match (b.next_cursor.is_some(), b.ranking.rule) {
            (false, RankRule::Best) => "",
            (true, RankRule::Best) => "; the best come first",
            (_, RankRule::BestOfNewest) => {
                "; ranked 2,000 at a time, those archived last before older ones"
            }
            (_, RankRule::Newest) => "; those archived last come first: very many hold these words",
        });
        text.push('.');
        let first = r.recommended_commands.first();
        if first.is_some_and(|c| c.id == NextId::SearchOn) {
            text.push_str(" The next page:");
        }
        text
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
        Role::System => "system",
        Role::Meta => "meta",
    }
}

/// A message near a hit, on one line.
fn neighbour(place: &str, m: &ContextMessage) -> String {
    let words: Vec<&str> = m.text.split_whitespace().collect();
    format!("    {place} {}: {}", role(m.role), words.join(" "))
}

/// The snippet on at most two lines, white space drawn together.
fn two_lines(h: &SearchHit) -> Vec<String> {
    const WIDTH: usize = 76;
    let words: Vec<String> = h.snippet.split_whitespace().map(visible).collect();
    let mut lines = vec![String::new()];
    for word in words {
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() {
            *line = fit(&word, WIDTH);
        } else if columns(line) + 1 + columns(&word) <= WIDTH {
            line.push(' ');
            line.push_str(&word);
        } else if lines.len() == 2 {
            break;
        } else {
            lines.push(fit(&word, WIDTH));
        }
    }
    lines.retain(|l| !l.is_empty());
    lines
}
