//! The command line: the only code that knows clap, stdout and stderr.
//!
//! Words become a request, the request goes to the core, what comes back becomes one document. No
//! decision is made here, nothing is read from stdin, nobody is asked.

pub mod args;
mod backups;
mod backups_apply;
pub mod catalog;
mod check;
mod context;
mod emit;
mod export;
mod export_html;
pub mod export_json;
mod export_markdown;
mod export_page;
mod health;
mod index;
mod introspect;
mod lines;
mod log_health;
mod mirror;
mod models;
pub mod moment;
mod page;
pub mod parse;
mod place;
mod planned;
mod progress;
mod reading;
mod repair;
mod restore;
mod restore_plan;
mod runs;
pub mod sanitise;
mod scan;
mod search;
mod session_log;
mod session_log_repair;
mod session_name;
mod sessions;
mod signal;
mod stats;
mod stdout;
mod view;
mod write_out;

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use args::{
    BackupsCommand, Cli, Command, DoctorCommand, MirrorCommand, ModelsCommand, RunsCommand,
    SessionLogCommand, SessionsCommand,
};
use context::Context;
use emit::Output;
use parse::Parsed;

use crate::env::Env;
use crate::error::{Error, ErrorKind};
use crate::model::interrupt::Interrupt;
use crate::report::envelope::{DataDirArg, Site};

pub use introspect::command_tree;

/// Runs one command line (the program's name first) and gives the exit code.
#[must_use]
pub fn run(args: Vec<OsString>) -> u8 {
    // What we make is for its owner alone, whatever the caller's mask is.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    silence_panics();
    // Before the words are read: a signal ends no run in silence from here on.
    let interrupt = signal::install();
    let json = parse::wants_json(&args);
    let plain = Output::plain(json, interrupt.clone());
    match parse::parse(&args) {
        Parsed::Bad(error) => {
            // Bad words may hold a path.
            let site = Env::from_process(None).map_or_else(
                |_| Site::plain(),
                |env| context::site(&env, DataDirArg::Inherited),
            );
            plain.fail(&error, false, &site)
        }
        Parsed::Help(text) => introspect::help(&plain, text),
        Parsed::Version => introspect::version(&plain),
        Parsed::Command(cli) => start(*cli, interrupt),
    }
}

fn start(cli: Cli, interrupt: Interrupt) -> u8 {
    let env = match Env::from_process(cli.global.data_dir.clone()) {
        Ok(env) => env,
        Err(error) => {
            let plain = Output::plain(cli.global.json, interrupt);
            return plain.fail(&error, false, &Site::plain());
        }
    };
    let out = Output::new(&cli.global, &env, interrupt.clone());
    let ctx = Context::new(&cli.global, env, interrupt);
    match catch_unwind(AssertUnwindSafe(|| dispatch(&cli.command, &ctx, &out))) {
        Ok(code) => code,
        Err(_) => bug(&out, &ctx.site),
    }
}

fn dispatch(command: &Command, ctx: &Context, out: &Output) -> u8 {
    let held = match reads(command) {
        Some(hands_out) => match place::wait_for_checkpoint(&ctx.env, &ctx.interrupt) {
            Ok(held) => held,
            Err(error) => return out.fail(&error, hands_out, &ctx.site),
        },
        None => None,
    };
    let code = perform(command, ctx, out);
    drop(held);
    code
}

/// Whether the command needs the archive or the mirror as no checkpoint changes them, and then
/// whether it makes a file of it. The check and health say for themselves what they could not see.
fn reads(command: &Command) -> Option<bool> {
    match command {
        Command::Sessions(SessionsCommand::Restore(a)) => Some(a.into_harness || a.to.is_some()),
        Command::Sessions(_) | Command::Search(_) | Command::View(_) | Command::Stats(_) => {
            Some(false)
        }
        Command::Export(a) => Some(a.format == args::Format::Raw || a.output.is_some()),
        Command::Mirror(MirrorCommand::Get(_)) => Some(true),
        Command::Mirror(_) => Some(false),
        // A sealed generation is not reclaimed while it is read.
        Command::Doctor(args::DoctorArgs {
            command: Some(DoctorCommand::Backups(BackupsCommand::Verify(_))),
            ..
        }) => Some(false),
        Command::Index(_)
        | Command::Doctor(_)
        | Command::Models(_)
        | Command::Health
        | Command::Introspect(_) => None,
    }
}

fn perform(command: &Command, ctx: &Context, out: &Output) -> u8 {
    match command {
        Command::Index(a) => out.finish(index::run(ctx, a), true, &ctx.site),
        Command::Doctor(d) => match &d.command {
            Some(DoctorCommand::ArchiveScan(a)) => out.finish(scan::run(ctx, a), false, &ctx.site),
            Some(DoctorCommand::Check(a)) => out.finish(check::run(ctx, a), false, &ctx.site),
            Some(DoctorCommand::Repair(a)) => repair::run(ctx, a, out),
            Some(DoctorCommand::Backups(BackupsCommand::Create(a))) => {
                out.finish(backups_apply::create(ctx, a), true, &ctx.site)
            }
            Some(DoctorCommand::Backups(BackupsCommand::Restore(a))) => {
                out.finish(backups_apply::restore(ctx, a), true, &ctx.site)
            }
            Some(DoctorCommand::Runs(RunsCommand::List(a))) => {
                out.finish(runs::list(ctx, a), false, &ctx.site)
            }
            Some(DoctorCommand::Runs(RunsCommand::Show(a))) => {
                out.finish(runs::show(ctx, a), false, &ctx.site)
            }
            Some(DoctorCommand::Runs(RunsCommand::Undo(a))) => {
                out.finish(runs::undo(ctx, a), true, &ctx.site)
            }
            Some(DoctorCommand::SessionLog(SessionLogCommand::Check(a))) => {
                out.finish(session_log::check(ctx, a), false, &ctx.site)
            }
            Some(DoctorCommand::SessionLog(SessionLogCommand::Repair(a))) => {
                out.finish(session_log_repair::run(ctx, a), true, &ctx.site)
            }
            None if d.fix => out.finish(repair::fix(ctx, d), true, &ctx.site),
            Some(DoctorCommand::Backups(BackupsCommand::List(a))) => {
                out.finish(backups::list(ctx, a), false, &ctx.site)
            }
            Some(DoctorCommand::Backups(BackupsCommand::Verify(a))) => {
                out.finish(backups::verify(ctx, a), false, &ctx.site)
            }
            None => out.finish(check::run(ctx, &d.check), false, &ctx.site),
        },
        Command::Sessions(SessionsCommand::List(a)) => {
            out.finish(sessions::list(ctx, a), false, &ctx.site)
        }
        Command::Sessions(SessionsCommand::Show(a)) => {
            out.finish(sessions::show(ctx, a), false, &ctx.site)
        }
        Command::Search(a) => out.finish(search::run(ctx, a), false, &ctx.site),
        Command::Models(ModelsCommand::Status) => out.finish(models::status(ctx), false, &ctx.site),
        Command::Sessions(SessionsCommand::Restore(a)) => {
            out.finish(restore::run(ctx, a), true, &ctx.site)
        }
        Command::Stats(a) => out.finish(stats::run(ctx, a), false, &ctx.site),
        Command::View(a) => view::run(ctx, a, out),
        Command::Export(a) => export::run(ctx, a, out),
        Command::Mirror(MirrorCommand::Verify(a)) => {
            out.finish(mirror::verify(ctx, a), false, &ctx.site)
        }
        Command::Mirror(MirrorCommand::List(a)) => {
            out.finish(mirror::list(ctx, a), false, &ctx.site)
        }
        Command::Mirror(MirrorCommand::Get(a)) => out.finish(mirror::get(ctx, a), true, &ctx.site),
        Command::Health => out.finish(health::run(ctx), false, &ctx.site),
        Command::Introspect(a) => out.finish(introspect::run(a), false, &ctx.site),
    }
}

/// A bug still ends in one document, unless one was begun.
fn bug(out: &Output, site: &Site) -> u8 {
    let error = Error::new(ErrorKind::Internal, "a bug in cass: see the line on stderr")
        .with_hint("What was finished before it is kept. Run the check, and report the bug.")
        .with_hint_argv(["cass", "doctor", "check"]);
    if out.has_begun() {
        return ErrorKind::Internal.exit().code();
    }
    out.fail(&error, true, site)
}

/// The message of a panic may quote text of a session; its place in the source never does.
fn silence_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info
            .location()
            .map_or_else(String::new, |l| format!(" at {}:{}", l.file(), l.line()));
        emit::stderr(&format!("cass: a bug{place}\n"));
    }));
}
