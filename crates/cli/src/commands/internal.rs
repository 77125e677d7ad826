//! What nacre runs of itself, in the background.

use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};

use super::bench;
use super::prove;
use super::prove::server::{ProviderArguments, ServerArguments};
use crate::app::App;
use crate::config;
use crate::error::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Compute the digests that are missing
    Digests,
    /// A server of `nacre prove`
    ProveServer(ServerArguments),
    /// The gateway of `nacre bench gateway`
    BenchGateway(bench::gateway::ServedArguments),
    /// The provider of `nacre prove`
    FakeProvider(ProviderArguments),
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Digests => {
            // Nobody waits for this, and sandboxes want the machine.
            let _ = rustix::process::nice(10);
            app.engine()?.local.digest_missing().await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::ProveServer(arguments) => {
            prove::server::serve(app, arguments).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::BenchGateway(arguments) => {
            bench::gateway::serve(arguments).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::FakeProvider(arguments) => {
            prove::server::provide(arguments).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Starts computing digests, which goes on after this process ends. A digest that is not
/// computed now is computed when somebody asks for it, so that a failure here is only logged.
pub(crate) fn digest_in_background() {
    if let Err(error) = start_digests() {
        tracing::warn!(error = %error.chain().join(": "), "cannot start computing digests");
    }
}

fn start_digests() -> Result<(), CommandError> {
    let config = config::load()?;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .args(["internal", "digests"])
        .env("NACRE_HOME", &config.local.home)
        // A directory that somebody may want to unmount.
        .current_dir("/")
        // The terminal's Ctrl-C and hang-up are for the command that was typed.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if config.file.exists() {
        command.env("NACRE_CONFIG", &config.file);
    }
    command.spawn()?;
    Ok(())
}
