//! Processes of ours, and how they end.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use camino::{Utf8Path, Utf8PathBuf};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::process::{Child, Command};

use crate::protocol::{Answer, Request};

pub(crate) mod kill {
    pub(crate) use rustix::process::Signal;

    pub(crate) const KILL: Signal = Signal::KILL;
    pub(crate) const STOP: Signal = Signal::STOP;
    pub(crate) const GO_ON: Signal = Signal::CONT;
}

/// Only ever one that we started.
pub(crate) fn shoot(child: &Child, signal: Signal) -> Result<()> {
    let Some(pid) = child.id() else {
        return Ok(());
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.context("a process without an id")?;
    match kill_process(pid, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    /// Where it is asked.
    pub(crate) socket: Utf8PathBuf,
}

impl Running {
    pub(crate) async fn start(mut command: Command, socket: &Utf8Path) -> Result<Self> {
        let log = fs_err::File::create(socket.with_extension("log"))?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(log.into_file()))
            .kill_on_drop(true);
        let mut child = command.spawn().context("a server does not start")?;
        for _ in 0..6000 {
            if UnixStream::connect(socket).await.is_ok() {
                let socket = socket.to_owned();
                return Ok(Self { child, socket });
            }
            if let Some(status) = child.try_wait()? {
                let said = fs_err::read_to_string(socket.with_extension("log"))?;
                anyhow::bail!("a server ended at its start: {status}: {said}");
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        anyhow::bail!("a server does not listen");
    }

    pub(crate) fn stall(&self) -> Result<()> {
        shoot(&self.child, kill::STOP)
    }

    pub(crate) fn go_on(&self) -> Result<()> {
        shoot(&self.child, kill::GO_ON)
    }

    pub(crate) async fn kill(mut self) -> Result<()> {
        shoot(&self.child, kill::KILL)?;
        self.child.wait().await?;
        Ok(())
    }
}

/// Nothing when the server went before it answered.
pub(crate) async fn ask(socket: &Utf8Path, request: &Request) -> Option<Answer> {
    let mut lines = open(socket, request).await?;
    read(&mut lines).await
}

pub(crate) async fn open(
    socket: &Utf8Path,
    request: &impl Serialize,
) -> Option<Lines<BufReader<OwnedReadHalf>>> {
    let mut stream = UnixStream::connect(socket).await.ok()?;
    let mut line = serde_json::to_vec(request).ok()?;
    line.push(b'\n');
    stream.write_all(&line).await.ok()?;
    let (reader, writer) = stream.into_split();
    // The server reads one line and no more.
    writer.forget();
    Some(BufReader::new(reader).lines())
}

pub(crate) async fn read<T: DeserializeOwned>(
    lines: &mut Lines<BufReader<OwnedReadHalf>>,
) -> Option<T> {
    let line = lines.next_line().await.ok()??;
    serde_json::from_str(&line).ok()
}
