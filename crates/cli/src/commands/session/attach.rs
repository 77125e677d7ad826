use std::io::{self, IsTerminal as _};
use std::process::ExitCode;

use attach::{AttachError, Left, Palette};
use model::SystemClock;

use super::{find, of_session};
use crate::app::App;
use crate::commands::remote;
use crate::config;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session attach ID
  nacre session attach $(nacre session new --repo https://github.com/me/app)

Keys:
  Enter sends, Alt-Enter or Ctrl-J begins a line, Up and Down bring back what was asked before
  Tab and Shift-Tab go along tool calls, Enter opens one, Ctrl-O opens all, Esc goes back
  PgUp and PgDn scroll, Ctrl-Home goes to the beginning, Ctrl-End to the end
  y and n answer a permission or an action; Esc leaves an action or a value to somebody else
  Ctrl-C cancels the turn, twice leaves; the session goes on without you

A line that is lost is found again, with everything that was said meanwhile.")]
pub(crate) struct Arguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<ExitCode, CommandError> {
    let id = &arguments.session;
    if app.output.is_json() || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CommandError::usage("to attach needs a terminal")
            .hint(format!("a script asks by `nacre session prompt {id} TEXT`"))
            .hint(format!("and reads by `nacre session logs {id} --follow`")));
    }
    let client = remote::connect()?;
    // Before the screen is taken: an id that is none is said where it was typed.
    let session = find(&client, id).await?;
    let palette = if config::no_colour() {
        Palette::plain()
    } else {
        Palette::colours()
    };
    match attach::run(&client, &session.id, palette, &SystemClock).await {
        Ok(Left::ByKey { is_busy, .. }) => {
            let agent = if is_busy {
                "the agent works on"
            } else {
                "the session goes on"
            };
            app.output
                .aside(&format!("· {agent}; back to it: nacre session attach {id}"));
            Ok(ExitCode::SUCCESS)
        }
        Ok(Left::BySignal(number)) => Ok(ExitCode::from(128 + number)),
        Err(AttachError::Client(error)) => Err(of_session(error)),
        Err(error @ AttachError::Terminal(_)) => Err(error.into()),
    }
}
