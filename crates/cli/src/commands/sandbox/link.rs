//! A sandbox's workplace, followed and driven by hand: what it says is printed, a line each, and
//! lines that are typed are said to it. No session is behind this and nothing is kept; whoever
//! follows last is the one that is heard.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use provider::Door;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin, stdin};
use wire::link::{Boot, FromHub, FromRunner, read_runner};
use wire::workplace::LINK_DOOR;

use super::terminal::Endings;
use crate::app::App;
use crate::commands::hub_side::Connection;
use crate::error::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The sandbox's id, name, or the beginning of its id
    #[arg(value_name = "ID")]
    sandbox: String,
    /// What the workplace is to become, as JSON: repositories, agent, services
    #[arg(long, value_name = "FILE")]
    boot: Option<PathBuf>,
}

pub(super) async fn run(app: &App, arguments: &Arguments) -> Result<(), CommandError> {
    let boot = match &arguments.boot {
        None => Boot::default(),
        Some(path) => {
            let text = fs_err::read_to_string(path)?;
            serde_json::from_str(&text)
                .with_context(|| format!("{} does not say how to boot", path.display()))?
        }
    };
    let engine = app.engine()?;
    let id = engine.sandbox(&arguments.sandbox)?;
    let mut endings = Endings::listen()?;
    let mut door = engine.provider().serve(id, LINK_DOOR).await?;
    let typed = BufReader::new(stdin()).lines();
    tokio::select! {
        ended = follow(&mut *door, &boot, typed) => ended,
        _ = endings.next() => Ok(()),
    }
}

async fn follow(
    door: &mut dyn Door,
    boot: &Boot,
    mut typed: Lines<BufReader<Stdin>>,
) -> Result<(), CommandError> {
    let mut term = 0;
    loop {
        let mut connection = Connection::after(term, door.accept().await?);
        // A workplace that is started again, or a connection that broke: it knocks again.
        talk(&mut connection, boot, &mut typed).await?;
        term = connection.term();
    }
}

/// Until the workplace goes.
async fn talk(
    connection: &mut Connection,
    boot: &Boot,
    typed: &mut Lines<BufReader<Stdin>>,
) -> Result<(), CommandError> {
    let mut is_typing = true;
    loop {
        tokio::select! {
            line = connection.next() => {
                let Some(line) = line else { return Ok(()) };
                if !take(connection, &line, boot).await? {
                    return Ok(());
                }
            }
            said = typed.next_line(), if is_typing => match said? {
                Some(said) if said.trim().is_empty() => {}
                Some(said) => match serde_json::from_str(&said) {
                    Ok(body) => connection.say(body).await,
                    Err(error) => note(&format!("that is no frame: {error}"))?,
                },
                None => is_typing = false,
            },
        }
    }
}

/// Prints a frame and answers it. False when the workplace should go.
async fn take(connection: &mut Connection, line: &[u8], boot: &Boot) -> Result<bool, CommandError> {
    let Ok(frame) = read_runner(line) else {
        note("the workplace said something that cannot be read")?;
        return Ok(true);
    };
    match &frame.body {
        FromRunner::Hello(hello) => {
            connection.greet(hello, Vec::new()).await;
            connection.say(FromHub::Init(Box::new(boot.clone()))).await;
        }
        FromRunner::Ping => connection.say(FromHub::Pong).await,
        FromRunner::Close(_) => return Ok(false),
        _ => {}
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line)?;
    stdout.write_all(b"\n")?;
    stdout.flush()?;
    drop(stdout);
    connection.acknowledge(&frame).await;
    Ok(true)
}

fn note(words: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "{words}")
}
