//! `cass view`

use std::io::{self, BufWriter, Write};

use super::args::ViewArgs;
use super::context::Context;
use super::emit::{Human, Output};
use super::lines::{lines, shown};
use super::page::{MAX_COLUMNS, MAX_LINES, Page, size};
use super::reading::{Item, Selection, Totals, read};
use super::sanitise::{fit, shell_line, visible};
use super::{place, session_name};
use crate::error::{Error, ErrorKind, Result};
use crate::model::conversation::{ArchivedMessage, Conversation};
use crate::model::next::Next;
use crate::model::record::{MessageKind, Role};
use crate::report::envelope::Report;
use crate::report::export::ExportMessage;
use crate::report::sessions::SessionRow;
use crate::report::time::rfc3339;
use crate::report::view::{ViewBody, ViewDamage, ViewMessage};
use crate::store::archive::ArchiveReader;

/// Messages of a document when no number was given.
const MESSAGES: u64 = 50;
/// Messages for people when they are shown whole and no number was given.
const RAW_MESSAGES: u64 = 10;
/// Bytes of a text in a document that was not asked for whole texts.
const TEXT: usize = 4000;
/// Bytes of all texts of a document; one message is always in it.
const PAGE: usize = 8 << 20;
/// Lines of a text for people, and of what tools and the model's reasoning hold.
const TEXT_LINES: usize = 12;
const TOOL_LINES: usize = 4;
/// Lines at the end of a page for people.
const FOOTER: usize = 3;

pub(super) fn run(ctx: &Context, args: &ViewArgs, out: &Output) -> u8 {
    if out.is_json() {
        return out.finish(document(ctx, args), false, &ctx.site);
    }
    let opened = || -> Result<(ArchiveReader, Conversation)> {
        let root = place::with_archive(&ctx.env)?;
        let archive = place::archive(&root)?;
        let session = session_name::session(&ctx.env, &archive, &args.id)?;
        Ok((archive, session))
    };
    let (archive, session) = match opened() {
        Ok(opened) => opened,
        Err(error) => return out.fail(&error, false, &ctx.site),
    };
    if out.is_quiet() {
        return 0;
    }
    let mut text = Text {
        out: BufWriter::with_capacity(1 << 16, out.stream()),
        failed: None,
    };
    let result = for_people(ctx, args, &archive, &session, &mut text);
    if let Some(e) = text.failed.take() {
        return Output::not_written(&e, 0);
    }
    if let Err(e) = text.out.flush() {
        return Output::not_written(&e, 0);
    }
    match result {
        Ok(()) => 0,
        Err(error) => out.fail(&error, false, &ctx.site),
    }
}

fn selection(args: &ViewArgs, usual: u64) -> Selection {
    Selection {
        from: args.from,
        count: args.count.unwrap_or(usual),
        all: args.all,
    }
}

fn document(ctx: &Context, args: &ViewArgs) -> Result<Report<ViewBody>> {
    let root = place::with_archive(&ctx.env)?;
    let archive = place::archive(&root)?;
    let session = session_name::session(&ctx.env, &archive, &args.id)?;
    let (mut messages, mut damage, mut bytes) = (Vec::new(), Vec::new(), 0);
    let selection = selection(args, MESSAGES);
    let totals = read(&ctx.interrupt, &archive, &session, selection, &mut |item| {
        match item {
            Item::Damage(d) => damage.push(d),
            Item::Message(number, m) => {
                let message = view_message(number, *m, args.raw);
                bytes += message.message.text.len();
                if bytes > PAGE && !messages.is_empty() {
                    return Ok(false);
                }
                messages.push(message);
            }
        }
        Ok(true)
    })?;
    let next = totals.next.map(|from| again(&session, args, from));
    let body = ViewBody {
        session: SessionRow::from(&session),
        from: args.from,
        messages,
        messages_total: totals.messages,
        next_from: totals.next,
        damage,
        damage_total: totals.damage,
    };
    let mut report = Report::ok(body).recommending(next.as_slice(), &ctx.site);
    // A useful command, and still nothing that has to be done.
    report.recommended_action = crate::model::next::NextId::None;
    Ok(report)
}

fn view_message(number: u64, m: ArchivedMessage, whole: bool) -> ViewMessage {
    let mut message = ExportMessage::from(m);
    let len = message.text.len();
    let mut shortened = false;
    if !whole && len > TEXT {
        let end = (0..=TEXT)
            .rev()
            .find(|at| message.text.is_char_boundary(*at));
        message.text.truncate(end.unwrap_or(0));
        shortened = true;
    }
    ViewMessage {
        position: number,
        text_bytes: u64::try_from(len).unwrap_or(u64::MAX),
        shortened,
        message,
    }
}

/// The same view, from another message on.
fn again(session: &Conversation, args: &ViewArgs, from: u64) -> Next {
    Next::View {
        id: session.id.clone(),
        from,
        count: args.count,
        raw: args.raw,
        all: args.all,
    }
}

/// Text for people, written as it is made.
struct Text<W: Write> {
    out: BufWriter<W>,
    failed: Option<io::Error>,
}

impl<W: Write> Text<W> {
    fn line(&mut self, line: &str) -> Result<()> {
        let written = self
            .out
            .write_all(line.trim_end().as_bytes())
            .and_then(|()| self.out.write_all(b"\n"));
        written.map_err(|e| {
            let error = Error::new(ErrorKind::of(&e), format!("stdout: {e}"));
            self.failed = Some(e);
            error
        })
    }
}

fn for_people<W: Write>(
    ctx: &Context,
    args: &ViewArgs,
    archive: &ArchiveReader,
    session: &Conversation,
    text: &mut Text<W>,
) -> Result<()> {
    let mut used = 0;
    for line in head(session) {
        text.line(&line)?;
        used += 1;
    }
    // Without a number a page is what fits.
    let fits = args.count.is_none() && !args.raw;
    let usual = if args.raw { RAW_MESSAGES } else { u64::MAX };
    let mut taken: Option<(u64, u64)> = None;
    let wanted = selection(args, usual);
    let totals = read(&ctx.interrupt, archive, session, wanted, &mut |item| {
        match item {
            Item::Damage(d) => {
                // On a page that is full the end says how many places there are.
                let line = damaged(&d);
                if !fits || used + 1 + FOOTER < MAX_LINES {
                    text.line(&line)?;
                    used += 1;
                }
            }
            Item::Message(number, m) if args.raw => {
                text.line(&caption(number, &m))?;
                for line in m.message.text.split('\n') {
                    text.line(&shown(line))?;
                }
                text.line("")?;
                taken = Some((taken.map_or(number, |t| t.0), number));
            }
            Item::Message(number, m) => {
                let block = block(number, &m);
                if fits && used + block.len() + FOOTER > MAX_LINES && taken.is_some() {
                    return Ok(false);
                }
                used += block.len();
                for line in block {
                    text.line(&line)?;
                }
                taken = Some((taken.map_or(number, |t| t.0), number));
            }
        }
        Ok(true)
    })?;
    text.line(&verdict(args, taken, &totals))?;
    if let Some(from) = totals.next
        && let Some(argv) = ctx.site.argv(again(session, args, from).argv())
    {
        text.line(&format!("  {}", shell_line(&argv)))?;
    }
    Ok(())
}

fn head(session: &Conversation) -> Vec<String> {
    let row = SessionRow::from(session);
    let mut lines = Vec::new();
    if let Some(title) = &row.title {
        lines.push(fit(&visible(title), MAX_COLUMNS));
    }
    let day = |t: &Option<String>| {
        t.as_deref()
            .map_or_else(|| "-".to_owned(), |t| t.chars().take(16).collect())
    };
    lines.push(format!(
        "{} {}  {} - {}",
        row.provider,
        row.id,
        day(&row.started_at).replace('T', " "),
        day(&row.ended_at).replace('T', " ")
    ));
    if let Some(workspace) = &row.workspace {
        lines.push(fit(&visible(workspace), MAX_COLUMNS));
    }
    if let Some(parent) = &row.branch_of {
        lines.push(format!("branches off {parent}; what came before is there"));
    }
    lines.push(String::new());
    lines
}

fn caption(number: u64, m: &ArchivedMessage) -> String {
    let mut line = format!("[{number}] {}", speaker(m));
    if let Some(name) = &m.message.tool_name {
        line.push_str(&format!(" {}", fit(&visible(name), 30)));
    }
    if m.message.is_error == Some(true) {
        line.push_str(" (failed)");
    }
    if m.superseded {
        line.push_str(" (superseded)");
    }
    if let Some(time) = m.time_ms.and_then(rfc3339) {
        let time: String = time.chars().take(19).collect();
        line.push_str(&format!("  {}", time.replace('T', " ")));
    }
    fit(&line, MAX_COLUMNS)
}

/// Who speaks and what it is, in words.
pub(super) fn speaker(m: &ArchivedMessage) -> &'static str {
    named(m.message.kind, m.message.role)
}

/// The same for messages in general.
pub(super) fn named(kind: MessageKind, role: Role) -> &'static str {
    match (kind, role) {
        (MessageKind::ToolCall, _) => "tool call",
        (MessageKind::ToolResult, _) => "tool result",
        (MessageKind::Reasoning, _) => "reasoning",
        (MessageKind::Summary, _) => "summary",
        (MessageKind::Attachment, Role::User) => "user attachment",
        (MessageKind::Attachment, _) => "attachment",
        (MessageKind::Text, Role::User) => "user",
        (MessageKind::Text, Role::Assistant) => "assistant",
        (MessageKind::Text, Role::Tool) => "tool",
        (MessageKind::Text, Role::System) => "system",
        (MessageKind::Text, Role::Meta) => "harness",
    }
}

fn block(number: u64, m: &ArchivedMessage) -> Vec<String> {
    let limit = match m.message.kind {
        MessageKind::Text | MessageKind::Summary if m.message.role != Role::Meta => TEXT_LINES,
        _ => TOOL_LINES,
    };
    let mut out = vec![caption(number, m)];
    let (text, hidden) = lines(&m.message.text, MAX_COLUMNS - 2, limit);
    out.extend(text.iter().map(|line| format!("  {line}")));
    if hidden > 0 {
        let bytes = size(u64::try_from(m.message.text.len()).unwrap_or(u64::MAX));
        out.push(format!(
            "  … ({bytes} in all; --raw --from {number} shows it whole)"
        ));
    }
    out
}

fn damaged(d: &ViewDamage) -> String {
    let name = d.path.path.rsplit('/').next().unwrap_or_default();
    fit(
        &format!(
            "!! damaged: {} bytes at line {} of {}; they are in the mirror",
            d.len,
            d.line,
            visible(name)
        ),
        MAX_COLUMNS,
    )
}

fn verdict(args: &ViewArgs, taken: Option<(u64, u64)>, totals: &Totals) -> String {
    let mut text = match taken {
        Some((first, last)) => format!("Messages {first}-{last} of {}.", totals.messages),
        None => format!(
            "No message from {} on; {} in all.",
            args.from, totals.messages
        ),
    };
    if totals.damage > 0 {
        text.push_str(&format!(" Damaged places: {}.", totals.damage));
    }
    text
}

impl Human for ViewBody {
    fn page(_: &Report<Self>, _: &mut Page) {}

    fn verdict(_: &Report<Self>) -> String {
        String::new()
    }
}
