//! `nacre prove`: what is promised, tried.

mod crash;
mod local;
pub(crate) mod server;

use std::process::ExitCode;

use crate::app::App;
use crate::error::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Kill everything at random, and see that nothing is lost
    #[command(after_help = "\
Examples:
  nacre prove crash --rounds 10
  nacre prove crash --seed 42 --verbose    # the same storm again")]
    Crash(crash::Arguments),
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Crash(arguments) => crash::run(app, &arguments).await,
    }
}
