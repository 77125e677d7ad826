use std::io::{self, Read as _};
use std::process::ExitCode;

use anyhow::Context as _;
use client::{Body, Client, ClientError, Commands, Frame, Update};
use tokio::signal::unix::{SignalKind, signal};
use wire::v1::{NewPrompt, PromptMode};

use super::answer::{Answer, Ending, Piece};
use super::ask::Desk;
use super::{find, of_session};
use crate::app::App;
use crate::commands::remote;
use crate::error::CommandError;
use crate::output::Progress;

/// As when a program ends by Ctrl-C.
const INTERRUPTED: u8 = 130;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre session prompt ID 'why does the login test fail?'
  git diff | nacre session prompt ID -                 # what to ask, from standard input
  nacre session prompt ID 'fix it' --json | jq -c 'select(.type == \"part\")'
  nacre session prompt ID 'and the docs' --no-wait     # nacre session logs ID --follow

The answer goes to standard output, tools and questions to standard error; at a terminal they are
answered there. Ends with 0 when the turn ended well. Ctrl-C cancels the turn; twice leaves.")]
pub(crate) struct Arguments {
    /// The session's id
    #[arg(value_name = "ID")]
    session: String,
    /// What to ask; - reads it from standard input
    text: String,
    /// The model for this prompt, as in anthropic/claude-sonnet-4-5
    #[arg(long)]
    model: Option<String>,
    /// End what the agent is doing now, and not wait for it
    #[arg(long)]
    steer: bool,
    /// Only send it, and print its id
    #[arg(long)]
    no_wait: bool,
}

pub(super) async fn run(app: &App, arguments: Arguments) -> Result<ExitCode, CommandError> {
    let content = content(&arguments.text)?;
    let client = remote::connect()?;
    let session = find(&client, &arguments.session).await?;
    let prompt = NewPrompt {
        content,
        model: arguments.model,
        mode: arguments.steer.then_some(PromptMode::Steer),
        ..NewPrompt::default()
    };
    let sent = client.send_prompt(&session.id, prompt).await;
    let sent = sent.map_err(of_session)?;
    if arguments.no_wait {
        app.output.result(&sent, || sent.id.clone())?;
        return Ok(ExitCode::SUCCESS);
    }
    // Nothing of it can have happened before what was the newest then.
    follow(app, &client, &session.id, &sent.id, session.last_seq).await
}

fn content(text: &str) -> Result<String, CommandError> {
    if text != "-" {
        return Ok(text.to_owned());
    }
    let mut read = String::new();
    io::stdin()
        .lock()
        .read_to_string(&mut read)
        .context("the prompt on standard input is not text")?;
    Ok(read)
}

/// Prints the answer to a prompt until its end.
pub(super) async fn follow(
    app: &App,
    client: &Client,
    session: &str,
    prompt: &str,
    since: u64,
) -> Result<ExitCode, CommandError> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut was_interrupted = false;
    let mut follow = client.follow(session, Some(since))?;
    let commands = follow.commands();
    let mut desk = Desk::of(app.output);
    let mut answer = Answer::to(prompt);
    let mut screen = Screen {
        app,
        waiting: Some(app.output.progress("waiting for the agent")),
    };
    while answer.ending().is_none() {
        tokio::select! {
            update = follow.next() => match update {
                Some(Update::Frame(frame)) => {
                    screen.show(&mut answer, &frame)?;
                    if let Some(desk) = &mut desk {
                        desk.hear(&frame);
                    }
                    if matches!(frame.body, Body::Init(_)) {
                        // What happened before it is not told again.
                        let now = client.prompt(session, prompt).await?;
                        answer.prompt_is(now.status, now.reason.as_deref());
                    }
                }
                Some(Update::Offline { why, again_in }) => {
                    app.output.aside(&format!("· {why}; again in {} s", again_in.as_secs()));
                }
                Some(Update::Online) => {}
                Some(Update::Refused(error)) => return Err(of_session(error)),
                None => return Err(ClientError::Ended.into()),
            },
            Some(answered) = said(&mut desk, &commands) => answered.map_err(of_session)?,
            _ = interrupts.recv() => {
                if was_interrupted {
                    return Ok(ExitCode::from(INTERRUPTED));
                }
                was_interrupted = true;
                app.output.aside("· cancelling the turn; Ctrl-C again leaves");
                cancel(client, session, prompt).await?;
            }
        }
    }
    drop(screen);
    if !answer.ends_a_line() && !app.output.is_json() {
        app.output.raw(b"\n")?;
    }
    match answer.ending() {
        Some(Ending::Well) if !was_interrupted => Ok(ExitCode::SUCCESS),
        Some(Ending::Well | Ending::Cancelled) | None => {
            Err(CommandError::failed("the turn was cancelled")
                .hint(format!("ask on: `nacre session prompt {session} TEXT`")))
        }
        Some(Ending::Failed(why)) => Err(CommandError::failed(format!(
            "the turn did not end well: {why}"
        ))
        .hint(format!("`nacre session why {session}` tells more"))),
        Some(Ending::NotRunning(why)) => Err(CommandError::failed(format!(
            "the session does not run: {why}"
        ))
        .hint(format!(
            "`nacre session why {session}` tells what to do; the prompt waits"
        ))),
    }
}

/// What whoever sits here answers, if somebody does.
async fn said(desk: &mut Option<Desk>, commands: &Commands) -> Option<Result<(), ClientError>> {
    Some(desk.as_mut()?.answer(commands).await)
}

/// While it waits it is taken back; when it runs it is cancelled.
async fn cancel(client: &Client, session: &str, prompt: &str) -> Result<(), CommandError> {
    if client.withdraw_prompt(session, prompt).await.is_ok() {
        return Ok(());
    }
    client.cancel(session).await.map_err(of_session)?;
    Ok(())
}

struct Screen<'a> {
    app: &'a App,
    /// Until something is said.
    waiting: Option<Progress>,
}

impl Screen<'_> {
    fn show(&mut self, answer: &mut Answer, frame: &Frame) -> Result<(), CommandError> {
        let pieces = answer.hear(frame);
        let output = self.app.output;
        if output.is_json() {
            return output.raw(format!("{}\n", frame.text()).as_bytes());
        }
        for piece in pieces {
            match piece {
                Piece::Waiting(what) => {
                    if let Some(progress) = &self.waiting {
                        progress.say(&what);
                    }
                }
                Piece::Text(text) => {
                    self.waiting = None;
                    output.piece(&text)?;
                }
                Piece::Aside(line) => {
                    self.waiting = None;
                    output.aside(&line);
                }
            }
        }
        Ok(())
    }
}
