//! What is measured: processes that tell every client each line of their input.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;

use anyhow::{Context as _, bail};
use camino::Utf8Path;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};

use super::super::machine::text;

/// The newest when this was written.
const WS: &str = "ws@8.23.0";

/// One that runs; it ends when dropped.
pub(super) struct Relay {
    process: Child,
    input: ChildStdin,
    pub(super) address: SocketAddr,
}

#[derive(Deserialize)]
struct Greeting {
    port: u16,
}

impl Relay {
    /// Our gateway, without a server around it.
    pub(super) async fn ours(directory: &Utf8Path) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["internal", "bench-gateway", directory.as_str()]);
        Self::start(command).await.context("our gateway")
    }

    /// Node's `ws`, which [`install`] has put there.
    pub(super) async fn node(directory: &Utf8Path) -> anyhow::Result<Self> {
        let mut command = Command::new("node");
        command.arg(directory.join("relay.js"));
        Self::start(command).await.context("the relay of Node")
    }

    async fn start(mut command: Command) -> anyhow::Result<Self> {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("it does not start")?;
        let input = process.stdin.take().context("it has no input")?;
        let output = process.stdout.take().context("it has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).await?;
        let greeting: Greeting = serde_json::from_str(&line).context("it says nothing of use")?;
        Ok(Self {
            process,
            input,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, greeting.port)),
        })
    }

    pub(super) async fn tell(&mut self, lines: &str) -> anyhow::Result<()> {
        self.input.write_all(lines.as_bytes()).await?;
        Ok(self.input.flush().await?)
    }

    /// How long its threads have run, in seconds.
    pub(super) fn used(&self) -> anyhow::Result<f64> {
        let pid = self.process.id().context("it has ended")?;
        let mut nanoseconds = 0.0;
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let path = thread?.path().join("schedstat");
            let stat = text(&path.to_string_lossy());
            let run = stat.split(' ').next().unwrap_or_default();
            nanoseconds += run.parse::<f64>().unwrap_or(0.0);
        }
        Ok(nanoseconds / 1e9)
    }
}

/// Puts Node's relay into a directory. Says why, where it cannot be had.
pub(super) async fn install(directory: &Utf8Path) -> anyhow::Result<()> {
    fs_err::create_dir_all(directory)?;
    fs_err::write(directory.join("package.json"), r#"{"type":"module"}"#)?;
    fs_err::write(directory.join("relay.js"), include_str!("relay.js"))?;
    let installed = Command::new("npm")
        .args(["install", "--silent", "--no-audit", "--no-fund", WS])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .await
        .context("npm cannot be run: install Node")?;
    if !installed.status.success() {
        let said = String::from_utf8_lossy(&installed.stderr);
        bail!("npm did not install {WS}: {}", said.trim());
    }
    Ok(())
}
