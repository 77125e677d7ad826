use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

use wire::v1::ExecRequest;

use super::{of_session, phases};
use crate::app::App;
use crate::commands::remote;
use crate::config::Span;
use crate::error::{CommandError, Kind};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session exec ID -- git log --oneline
  nacre session exec ID --cwd /workspace/app --timeout 5m -- npm test
  nacre session exec ID -- sh -c 'ls *.rs | wc -l'

The command's own exit code is passed on. A paused session is resumed first.")]
pub(crate) struct Arguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// Where to run it [default: the workspace]
    #[arg(long, value_name = "DIRECTORY")]
    cwd: Option<String>,
    /// Set a variable
    #[arg(long, value_name = "KEY=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// How long it may run, at most 10m
    #[arg(long, value_name = "TIME", default_value = "60s")]
    timeout: Span,
    /// What to run
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<String>,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<ExitCode, CommandError> {
    let limit = arguments.timeout;
    let request = ExecRequest {
        argv: arguments.command,
        cwd: arguments.cwd,
        env: arguments.env.into_iter().collect::<BTreeMap<_, _>>(),
        timeout_ms: Some(u64::try_from(limit.0.as_millis()).unwrap_or(u64::MAX)),
    };
    let client = remote::connect()?;
    let progress = app.output.progress("running the command");
    let id = &arguments.session;
    let work = client.exec(id, &request);
    let answer = phases::shown(&client, id, "waking the session first", &progress, work).await;
    let answer = answer.map_err(of_session)?;
    drop(progress);
    if app.output.is_json() {
        app.output.result(&answer, String::new)?;
    } else {
        app.output.raw(answer.stdout.as_bytes())?;
        // There is nowhere left to say that this failed.
        let _ = std::io::stderr().write_all(answer.stderr.as_bytes());
    }
    if answer.truncated {
        app.output
            .warning("it printed more than is shown; have it write to a file");
    }
    if answer.timed_out {
        let message = format!("the command reached its time limit of {limit} and was killed");
        return Err(
            CommandError::new(Kind::TimeLimit, message).hint("--timeout gives it more, up to 10m")
        );
    }
    Ok(ExitCode::from(
        u8::try_from(answer.exit_code & 0xff).unwrap_or(u8::MAX),
    ))
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("`{text}` is not of the form KEY=VALUE")),
    }
}
