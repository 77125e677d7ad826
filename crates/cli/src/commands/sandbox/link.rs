//! A sandbox's workplace, followed and driven by hand: what it says is printed, a line each, and
//! lines that are typed are said to it. No session is behind this and nothing is kept; whoever
//! follows last is the one that is heard.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use provider::{Door, Stream};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines, ReadHalf, Stdin, WriteHalf, split,
    stdin,
};
use wire::link::{
    Boot, FromHub, FromRunner, Hello, HubFrame, HubHello, MAX_LINK_FRAME, PROTOCOL, read_runner,
    write,
};
use wire::workplace::LINK_DOOR;

use super::terminal::Endings;
use crate::app::App;
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

/// Each connection's hub is a newer owner than the one before.
const FIRST_TERM: u64 = 1;

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
    let mut term = FIRST_TERM;
    loop {
        let (reader, writer) = split(door.accept().await?);
        let mut runner = Runner {
            says: BufReader::new(reader),
            hears: writer,
            term,
        };
        // A workplace that is started again, or a connection that broke: it knocks again.
        if runner.talk(boot, &mut typed).await?.is_none() {
            return Ok(());
        }
        term = runner.term + 1;
    }
}

struct Runner {
    says: BufReader<ReadHalf<Box<dyn Stream>>>,
    hears: WriteHalf<Box<dyn Stream>>,
    term: u64,
}

impl Runner {
    /// `None` when there is nothing more to say and nobody to hear it.
    async fn talk(
        &mut self,
        boot: &Boot,
        typed: &mut Lines<BufReader<Stdin>>,
    ) -> Result<Option<()>, CommandError> {
        let mut line = Vec::new();
        let mut is_typing = true;
        loop {
            tokio::select! {
                read = next(&mut self.says, &mut line) => {
                    if !read {
                        return Ok(Some(()));
                    }
                    if !self.take(&line, boot).await? {
                        return Ok(Some(()));
                    }
                    line.clear();
                }
                said = typed.next_line(), if is_typing => match said? {
                    Some(said) if said.trim().is_empty() => {}
                    Some(said) => match serde_json::from_str(&said) {
                        Ok(body) => self.say(body).await?,
                        Err(error) => note(&format!("that is no frame: {error}"))?,
                    },
                    None => is_typing = false,
                },
            }
        }
    }

    /// Prints a frame and answers it. False when the workplace should go.
    async fn take(&mut self, line: &[u8], boot: &Boot) -> Result<bool, CommandError> {
        let Ok(frame) = read_runner(line) else {
            note("the workplace said something that cannot be read")?;
            return Ok(true);
        };
        match &frame.body {
            FromRunner::Hello(hello) => self.greet(hello, boot).await?,
            FromRunner::Ping => self.say(FromHub::Pong).await?,
            FromRunner::Close(_) => return Ok(false),
            _ => {}
        }
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(line)?;
        stdout.write_all(b"\n")?;
        stdout.flush()?;
        drop(stdout);
        if let Some(seq) = frame.seq {
            let boot = frame.from_boot;
            self.say(FromHub::Ack { seq, boot }).await?;
        }
        Ok(true)
    }

    async fn greet(&mut self, hello: &Hello, boot: &Boot) -> Result<(), CommandError> {
        self.term = self.term.max(hello.term + 1);
        self.say(FromHub::Hello(HubHello {
            session: hello.session.clone(),
            generation: hello.generation,
            boot: hello.boot.clone(),
            protocol: hello.protocol.min(PROTOCOL),
            seen: Vec::new(),
        }))
        .await?;
        self.say(FromHub::Init(Box::new(boot.clone()))).await
    }

    async fn say(&mut self, body: FromHub) -> Result<(), CommandError> {
        let mut line = write(&HubFrame::new(self.term, body));
        line.push(b'\n');
        // A workplace that is gone knocks again.
        let _ = self.hears.write_all(&line).await;
        Ok(())
    }
}

/// The next line, into the buffer. False at the end, and for a line that is too long.
async fn next(says: &mut BufReader<ReadHalf<Box<dyn Stream>>>, line: &mut Vec<u8>) -> bool {
    loop {
        let Ok(piece) = says.fill_buf().await else {
            return false;
        };
        if piece.is_empty() || line.len() + piece.len() > 2 * MAX_LINK_FRAME {
            return false;
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(piece.len(), |end| end + 1);
        line.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        says.consume(used);
        if end.is_some() {
            return true;
        }
    }
}

fn note(words: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "{words}")
}
