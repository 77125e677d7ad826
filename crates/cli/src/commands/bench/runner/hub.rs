//! The hub of one sandbox, for as long as something is measured in it.

use std::time::Instant;

use provider::{Door, Provider as _, SandboxId};
use provider_local::Local;
use wire::link::{AgentStatus, Boot, FromHub, FromRunner, Seen, read_runner};
use wire::workplace::LINK_DOOR;

use crate::commands::hub_side::Connection;
use crate::error::CommandError;

pub(in super::super) struct Hub {
    door: Box<dyn Door>,
    connection: Option<Connection>,
    term: u64,
    /// What the workplace is to become; nothing, while it is none.
    boot: Option<Boot>,
    /// Up to where everything numbered was heard.
    has: Option<Seen>,
}

impl Hub {
    pub(in super::super) async fn open(
        local: &Local,
        id: SandboxId,
        boot: Option<Boot>,
    ) -> Result<Self, CommandError> {
        Ok(Self {
            door: local.serve(id, LINK_DOOR).await?,
            connection: None,
            term: 0,
            boot,
            has: None,
        })
    }

    /// What the workplace says next that it has not said before, and when it came. Whoever knocks
    /// is let in. An error when something numbered is missing.
    pub(super) async fn next(&mut self) -> Result<(FromRunner, Instant), CommandError> {
        loop {
            if self.connection.is_none() {
                let stream = self.door.accept().await?;
                self.connection = Some(Connection::after(self.term, stream));
            }
            let Some(connection) = &mut self.connection else {
                continue;
            };
            let Some(line) = connection.next().await else {
                self.cut();
                continue;
            };
            let at = Instant::now();
            let frame = read_runner(&line)
                .map_err(|_| CommandError::failed("the workplace said what cannot be read"))?;
            match &frame.body {
                FromRunner::Hello(hello) => {
                    let has = self.has.get_or_insert_with(|| Seen {
                        boot: hello.boot.clone(),
                        seq: 0,
                    });
                    connection.greet(hello, vec![has.clone()]).await;
                    if let Some(boot) = self.boot.clone() {
                        connection.say(FromHub::Init(Box::new(boot))).await;
                    }
                }
                FromRunner::Ping => connection.say(FromHub::Pong).await,
                FromRunner::Close(_) => {
                    self.cut();
                    continue;
                }
                _ => {}
            }
            connection.acknowledge(&frame).await;
            if let (Some(seq), Some(has)) = (frame.seq, &mut self.has) {
                if seq <= has.seq {
                    continue;
                }
                if seq != has.seq + 1 {
                    return Err(CommandError::failed(format!(
                        "after {} the workplace said {seq}: something is lost",
                        has.seq
                    )));
                }
                has.seq = seq;
            }
            return Ok((frame.body, at));
        }
    }

    pub(super) async fn until_greeted(&mut self) -> Result<(), CommandError> {
        while !matches!(self.next().await?.0, FromRunner::Hello(_)) {}
        Ok(())
    }

    /// When the agent could be asked.
    pub(in super::super) async fn until_ready(&mut self) -> Result<Instant, CommandError> {
        loop {
            if let (
                FromRunner::AgentStatus {
                    status,
                    detail,
                    channel: None,
                    ..
                },
                at,
            ) = self.next().await?
            {
                match status {
                    AgentStatus::Idle => return Ok(at),
                    AgentStatus::Error => {
                        let why = detail.unwrap_or_default();
                        return Err(CommandError::failed(format!(
                            "the agent does not start: {why}"
                        )));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Serves without an end.
    pub(super) async fn stay(&mut self) -> Result<(), CommandError> {
        loop {
            self.next().await?;
        }
    }

    /// Nothing is heard where nobody is connected.
    pub(super) async fn say(&mut self, body: FromHub) {
        if let Some(connection) = &mut self.connection {
            connection.say(body).await;
        }
    }

    /// Drops the connection, whatever is on its way.
    pub(super) fn cut(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.term = connection.term();
        }
    }
}
