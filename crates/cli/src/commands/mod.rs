//! What can be typed, and what it does: a file per command.

pub(crate) mod base;
pub(crate) mod bench;
mod browser;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod doctor;
mod hub_side;
pub(crate) mod internal;
pub(crate) mod login;
pub(crate) mod man;
mod models;
pub(crate) mod prove;
pub(crate) mod remote;
pub(crate) mod repo;
pub(crate) mod sandbox;
pub(crate) mod secret;
pub(crate) mod serve;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod storage;
pub(crate) mod token;

use std::process::ExitCode;

use crate::app::App;
use crate::arguments::Command;
use crate::error::CommandError;

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Session(command) => session::run(app, command).await,
        Command::Login(arguments) => login::run(app, &arguments).await,
        Command::Repo(command) => repo::run(app, command).await,
        Command::Secret(command) => secret::run(app, command).await,
        Command::Token(command) => token::run(app, command).await,
        Command::Sandbox(command) => sandbox::run(app, command).await,
        Command::Snapshot(command) => snapshot::run(app, command).await,
        Command::Storage(command) => storage::run(app, command).await,
        Command::Base(command) => base::run(app, command).await,
        Command::Bench(command) => bench::run(app, command).await,
        Command::Prove(command) => prove::run(app, command).await,
        Command::Up(arguments) => serve::up(app, arguments).await,
        Command::Serve(arguments) => serve::serve(app, arguments).await,
        Command::Doctor(arguments) => doctor::run(app, &arguments),
        Command::Config(config::Command::Check) => config::check(app),
        Command::Completions(arguments) => completions::run(app, &arguments),
        Command::Man(arguments) => man::run(app, &arguments),
        Command::Internal(command) => internal::run(app, command).await,
    }
}
