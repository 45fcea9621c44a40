//! The only place that writes to stdout and stderr (progress apart).

use std::io::{self, ErrorKind as IoKind, IsTerminal, Write};

use serde::Serialize;

use super::args::{ColorWhen, Global};
use super::page::{MAX_COLUMNS, Page, broken};
use super::parse;
use super::sanitise::{shell_line, visible, visible_lines};
use super::session_name;
use super::stdout::{self, Stdout};
use crate::env::Env;
use crate::error::{Error, Result};
use crate::exit::ExitCodeKind;
use crate::model::interrupt::Interrupt;
use crate::report::envelope::{Body, ErrBody, NoBody, Report, Site};

/// What a document says to people.
pub trait Human: Body + Sized {
    /// Writes what is wrong and what is worth knowing.
    fn page(report: &Report<Self>, page: &mut Page);
    /// One sentence.
    fn verdict(report: &Report<Self>) -> String;
}

/// Where documents go, and how.
#[derive(Debug)]
pub struct Output {
    json: bool,
    quiet: bool,
    pretty: bool,
    colour: bool,
    stdout: Stdout,
}

impl Output {
    /// For words that could not be read.
    #[must_use]
    pub fn plain(json: bool, interrupt: Interrupt) -> Self {
        Output {
            json,
            quiet: false,
            pretty: io::stdout().is_terminal(),
            colour: false,
            stdout: Stdout::new(interrupt),
        }
    }

    /// As the flags say.
    #[must_use]
    pub fn new(global: &Global, env: &Env, interrupt: Interrupt) -> Self {
        let terminal = io::stdout().is_terminal();
        let dumb = env.var("TERM").is_some_and(|t| t == "dumb");
        let colour = match global.color {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => terminal && !dumb && env.var("NO_COLOR").is_none(),
        };
        Output {
            json: global.json,
            quiet: global.quiet,
            pretty: terminal,
            colour,
            stdout: Stdout::new(interrupt),
        }
    }

    /// Whether documents are JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Whether text for people was not wanted.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether a document was begun: then no second one may follow.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.stdout.has_begun()
    }

    /// Prints the one document of this run and gives the exit code.
    pub fn finish<T: Human>(&self, result: Result<Report<T>>, mutating: bool, site: &Site) -> u8 {
        match result {
            Ok(report) => self.show(report),
            Err(error) => self.fail(&error, mutating, site),
        }
    }

    /// Prints a failure that left nothing else to say.
    pub fn fail(&self, error: &Error, mutating: bool, site: &Site) -> u8 {
        let mut report = Report::failure(error, mutating, site);
        check_argv(&mut report);
        let code = report.operation_outcome.exit_code;
        if self.json {
            return self.write(&self.document(&report), code);
        }
        if let Some(err) = &report.err {
            complain(err);
        }
        code
    }

    fn show<T: Human>(&self, mut report: Report<T>) -> u8 {
        check_argv(&mut report);
        let code = report.operation_outcome.exit_code;
        if self.json {
            return self.write(&self.document(&report), code);
        }
        let mut written = code;
        if !self.quiet {
            let mut page = Page::default();
            T::page(&report, &mut page);
            let next = report
                .recommended_commands
                .first()
                .map(|c| c.argv.as_slice());
            let text = page.render(&T::verdict(&report), next, self.colour);
            written = self.write(text.as_bytes(), code);
        }
        if let Some(err) = &report.err {
            complain(err);
        }
        written
    }

    /// Prints a text of the program itself (help, version).
    pub fn text(&self, text: &str) -> u8 {
        let text = visible_lines(text);
        self.write(text.as_bytes(), ExitCodeKind::Success.code())
    }

    fn document<T: Serialize>(&self, report: &T) -> Vec<u8> {
        let made = if self.pretty {
            serde_json::to_vec_pretty(report)
        } else {
            serde_json::to_vec(report)
        };
        // Maps have text keys and nothing else can fail; an empty document would be a bug that the
        // caller sees as such.
        let mut bytes = made.unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    fn write(&self, bytes: &[u8], code: u8) -> u8 {
        match self.stream().write_all(bytes) {
            Ok(()) => code,
            Err(e) => Self::not_written(&e, code),
        }
    }

    /// The exit when stdout took only a part. A reader that went away knows what it wants, and
    /// one that does not read when a signal comes gets no more: both are no fault of this command.
    pub(super) fn not_written(e: &io::Error, code: u8) -> u8 {
        if let Some(signal) = stdout::ended_by(e) {
            return signal.error().kind().exit().code();
        }
        if e.kind() == IoKind::BrokenPipe {
            return code;
        }
        stderr(&format!("error: stdout could not be written: {e}\n"));
        ExitCodeKind::Internal.code()
    }

    /// Stdout, also for a document that is written as it is made.
    pub(super) fn stream(&self) -> &Stdout {
        &self.stdout
    }
}

/// Commands that this program would not read are not printed. A test finds them before a user.
fn check_argv<T>(report: &mut Report<T>) {
    if let Some(err) = &mut report.err
        && err
            .hint_argv
            .as_ref()
            .is_some_and(|argv| !parse::reads(argv))
    {
        err.hint_argv = None;
    }
    report
        .recommended_commands
        .retain(|c| parse::reads(&c.argv));
}

fn complain(err: &ErrBody) {
    let mut text = format!("error: {}\n", visible(&err.message));
    let total = err.context.get("candidates").map(String::as_str);
    text.push_str(&session_name::lines(&err.candidates, total));
    if let Some(hint) = &err.hint {
        for line in broken(&visible(hint), MAX_COLUMNS) {
            text.push_str(&format!("{line}\n"));
        }
    }
    if let Some(argv) = &err.hint_argv {
        text.push_str(&format!("  {}\n", shell_line(argv)));
    }
    stderr(&text);
}

/// Best effort: a stderr that is gone is nobody's loss.
pub(super) fn stderr(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

impl Human for NoBody {
    fn page(_report: &Report<Self>, _page: &mut Page) {}

    fn verdict(report: &Report<Self>) -> String {
        report
            .err
            .as_ref()
            .map_or_else(String::new, |e| e.message.clone())
    }
}
