//! `nacre`, the host binary: sandboxes on this machine from the command line.
//!
//! [`arguments`] says what can be typed, [`commands`] does it, one file per command. What goes
//! wrong becomes one [`error::CommandError`] here at the edge, and [`output`] alone prints.

#![forbid(unsafe_code)]

mod app;
mod arguments;
mod commands;
mod config;
mod error;
mod log;
mod output;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Parser as _;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::app::App;
use crate::arguments::Arguments;
use crate::error::{CommandError, Kind};
use crate::output::Output;

fn main() -> ExitCode {
    // A bug is a failure like any other to whoever reads the exit code; the panic's own message
    // is on stderr by then.
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(ExitCode::from(Kind::Failed.exit_code()))
}

fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return output::parse_failure(&error, wants_json()),
    };
    let output = Output::new(arguments.json);
    raise_open_files();
    let started = if arguments.command.is_server() {
        log::start_for_server()
    } else {
        log::start_for_command()
    };
    if let Err(error) = started {
        output.error(&error);
        return ExitCode::from(error.exit_code());
    }
    let app = App::new(output);
    match execute(&app, arguments) {
        Ok(code) => code,
        Err(error) => {
            app.output.error(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn execute(app: &App, arguments: Arguments) -> Result<ExitCode, CommandError> {
    // Only forwarding connections gains from more threads, and they take time to start.
    let mut builder = if arguments.command.is_busy() {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder.enable_all().build()?;
    let result = runtime.block_on(commands::run(app, arguments.command));
    // A write to a terminal that nobody reads must not keep us from ending.
    runtime.shutdown_background();
    result
}

/// Whether an error about the arguments is to be JSON: they could not be parsed, so look.
fn wants_json() -> bool {
    std::env::args_os()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}

/// Every exec, dial and door takes descriptors, and the usual soft limit is small for the sake of
/// `select`, which nothing here uses.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // A refusal leaves the limit that was there, which is enough for most commands.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}
