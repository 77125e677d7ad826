//! Sessions, over a server.

mod answer;
mod ask;
mod attach;
mod copy;
mod create;
mod exec;
mod lifecycle;
mod list;
mod logs;
mod open;
mod phases;
mod port;
mod prompt;
mod shell;
mod ssh;
mod tree;
mod why;

use std::process::ExitCode;

use client::{Client, ClientError};
use model::Timestamp;
use serde_json::json;
use wire::v1::ClientStatus;

use crate::app::App;
use crate::error::CommandError;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a session, from repositories or from nothing
    New(create::Arguments),
    /// Show the sessions there are
    Ls(list::Arguments),
    /// Show one session
    #[command(after_help = "\
Examples:
  nacre session show ID
  nacre session show ID --json | jq -r .preview_url")]
    Show(Named),
    /// Talk to the agent, on the whole screen
    Attach(attach::Arguments),
    /// Ask the agent, and print its answer as it comes
    Prompt(prompt::Arguments),
    /// Have a shell where the agent works
    Shell(shell::Arguments),
    /// Run a command where the agent works
    Exec(exec::Arguments),
    /// Copy files and directories into or out of a session
    Cp(copy::Arguments),
    /// Show what happened, event by event
    Logs(logs::Arguments),
    /// Tell why a session is not well, and what to do
    #[command(after_help = "\
Examples:
  nacre session why ID
  nacre session why ID --json | jq -r .next       # the command to type")]
    Why(Named),
    /// Let a session rest, with everything kept
    #[command(after_help = "\
Examples:
  nacre session pause ID
  nacre session resume ID              # or ask it something: that wakes it too")]
    Pause(Named),
    /// Let a paused session go on
    #[command(after_help = "\
Examples:
  nacre session resume ID
  nacre session ls --status paused --json | jq -r '.sessions[].id' | xargs -n1 nacre session resume")]
    Resume(Named),
    /// Move a running session to a new sandbox, with all that is on its disk
    ///
    /// A turn under way is interrupted: what it said stays, and it is not run again.
    #[command(after_help = "\
Examples:
  nacre session migrate ID
  nacre session migrate ID && nacre session prompt ID \"go on\"")]
    Migrate(Named),
    /// Leave `degraded`: go on from what was kept
    Recover(lifecycle::RecoverArguments),
    /// Keep the session's files as they are now; it goes on
    Snapshot(lifecycle::SnapshotArguments),
    /// Make another session that begins with this one's files
    Fork(lifecycle::ForkArguments),
    /// End a session for good; what it did is kept, and can be forked
    #[command(after_help = "\
Examples:
  nacre session stop ID
  nacre session fork ID                # go on from what it left")]
    Stop(Named),
    /// Stop sessions and forget them, with all that was said
    #[command(after_help = "\
Examples:
  nacre session rm ID ID
  nacre session stop ID                # to keep what was said")]
    Rm {
        /// The sessions' ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    /// Show which ports a session listens on, or have one of them here
    Port(port::Arguments),
    /// Log in by ssh, or let your own ssh in
    Ssh(ssh::Arguments),
    /// Print a link to a part of the session: good once, for a minute
    Open(open::Arguments),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// The session's id, as `nacre session ls` shows it
    #[arg(value_name = "ID")]
    id: String,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::New(arguments) => return create::run(app, arguments).await,
        Command::Ls(arguments) => list::list(app, arguments).await?,
        Command::Show(named) => list::show(app, &named.id).await?,
        Command::Attach(arguments) => return attach::run(app, &arguments).await,
        Command::Shell(arguments) => return shell::run(app, &arguments).await,
        Command::Ssh(arguments) => return ssh::run(&arguments).await,
        Command::Prompt(arguments) => return prompt::run(app, arguments).await,
        Command::Exec(arguments) => return exec::run(app, arguments).await,
        Command::Cp(arguments) => return copy::run(app, &arguments).await,
        Command::Logs(arguments) => logs::run(app, &arguments).await?,
        Command::Why(named) => why::run(app, &named.id).await?,
        Command::Pause(named) => lifecycle::pause(app, &named.id).await?,
        Command::Resume(named) => lifecycle::resume(app, &named.id).await?,
        Command::Migrate(named) => lifecycle::migrate(app, &named.id).await?,
        Command::Recover(arguments) => lifecycle::recover(app, &arguments).await?,
        Command::Snapshot(arguments) => lifecycle::snapshot(app, arguments).await?,
        Command::Fork(arguments) => lifecycle::fork(app, arguments).await?,
        Command::Stop(named) => lifecycle::stop(app, &named.id).await?,
        Command::Rm { ids } => return lifecycle::remove(app, &ids).await,
        Command::Port(arguments) => port::run(app, &arguments).await?,
        Command::Open(arguments) => open::run(app, &arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Does the same to each, goes on after a failure, and ends with the first failure's code.
pub(crate) async fn each<F>(
    app: &App,
    done: &str,
    ids: &[String],
    mut act: F,
) -> Result<ExitCode, CommandError>
where
    F: AsyncFnMut(&str) -> Result<(), CommandError>,
{
    let mut gone = Vec::new();
    let mut code = None;
    for id in ids {
        match act(id).await {
            Ok(()) => gone.push(id.as_str()),
            Err(error) => {
                app.output.error(&error);
                code.get_or_insert(error.exit_code());
            }
        }
    }
    app.output
        .result(&json!({ done: gone }), || gone.join("\n"))?;
    Ok(ExitCode::from(code.unwrap_or(0)))
}

/// How long ago something was that the server told the time of.
pub(crate) fn age(at: &str, now: Timestamp) -> String {
    let at = at.parse::<Timestamp>();
    at.map_or_else(
        |_| "-".to_owned(),
        |at| crate::commands::sandbox::age(at, now),
    )
}

/// What went wrong with one session, with where to look.
fn of_session(error: ClientError) -> CommandError {
    CommandError::from(error).hint_if_missing("`nacre session ls --all` shows every session")
}

async fn find(client: &Client, id: &str) -> Result<wire::v1::Session, CommandError> {
    client.session(id).await.map_err(of_session)
}

/// How a session is, in a word. One that nobody started yet is not being created.
fn standing(session: &wire::v1::Session) -> &'static str {
    if session.client_status == ClientStatus::Creating && session.generation == 0 {
        return "new";
    }
    word(session.client_status)
}

fn word(status: ClientStatus) -> &'static str {
    match status {
        ClientStatus::Creating => "creating",
        ClientStatus::Resuming => "resuming",
        ClientStatus::Running => "running",
        ClientStatus::Migrating => "migrating",
        ClientStatus::Paused => "paused",
        ClientStatus::Suspended => "suspended",
        ClientStatus::Degraded => "degraded",
        ClientStatus::Stopped => "stopped",
        ClientStatus::Error => "error",
        ClientStatus::Unknown => "unknown",
    }
}

/// Milliseconds as people say them.
fn took(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        1000..60_000 => format!("{}.{} s", milliseconds / 1000, milliseconds % 1000 / 100),
        _ => format!(
            "{} min {} s",
            milliseconds / 60_000,
            milliseconds / 1000 % 60
        ),
    }
}

/// At most so many characters, in one line.
fn shortened(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let kept: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_as_people_say_it() {
        for (milliseconds, said) in [(7, "7 ms"), (1240, "1.2 s"), (95_000, "1 min 35 s")] {
            assert_eq!(took(milliseconds), said);
        }
    }

    #[test]
    fn what_is_long_is_cut_at_a_character() {
        assert_eq!(shortened("a\n  b", 10), "a b");
        assert_eq!(shortened("ääää", 3), "ää…");
    }
}
