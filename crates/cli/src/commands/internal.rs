//! What nacre runs of itself, in the background.

use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};

use model::SnapshotId;

use crate::app::App;
use crate::config;
use crate::error::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Compute a snapshot's digest
    Digest { snapshot: SnapshotId },
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Digest { snapshot } => {
            // Nobody waits for this, and sandboxes want the machine.
            let _ = rustix::process::nice(10);
            app.engine()?.local.digest_snapshot(&snapshot).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Starts computing a digest, which goes on after this process ends. A digest that is not
/// computed now is computed when somebody asks for it, so that a failure here is only logged.
pub(crate) fn digest_in_background(snapshot: &SnapshotId) {
    if let Err(error) = start_digest(snapshot) {
        tracing::warn!(%snapshot, error = %error.chain().join(": "), "cannot start computing the digest");
    }
}

fn start_digest(snapshot: &SnapshotId) -> Result<(), CommandError> {
    let config = config::load()?;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command
        .args(["internal", "digest", &snapshot.to_string()])
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
