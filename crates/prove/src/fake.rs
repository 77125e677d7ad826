//! The fake provider, as a process that can be killed.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use camino::{Utf8Path, Utf8PathBuf};
use provider::fake::{self, Remote, Run};
use provider::{Provider, SandboxId};
use tokio::process::{Child, Command};
use tokio::sync::Mutex;

use crate::ground::Work;
use crate::processes::{kill, shoot};
use crate::{Ground, Pace, Server, Victim};

/// See the module.
pub struct FakeGround {
    /// The program that runs itself as a provider and as a server.
    program: PathBuf,
    state: Utf8PathBuf,
    socket: Utf8PathBuf,
    remote: Remote,
    process: Mutex<Child>,
}

impl std::fmt::Debug for FakeGround {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FakeGround")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl FakeGround {
    pub async fn start(program: PathBuf, directory: &Utf8Path) -> Result<Self> {
        let (state, socket) = (directory.join("provider"), directory.join("provider.sock"));
        fs_err::create_dir_all(&state)?;
        let process = start(&program, &state, &socket)?;
        let remote = connected(&socket).await?;
        Ok(Self {
            program,
            state,
            socket,
            remote,
            process: Mutex::new(process),
        })
    }
}

fn start(program: &PathBuf, state: &Utf8Path, socket: &Utf8Path) -> Result<Child> {
    let mut command = Command::new(program);
    command
        .args(["internal", "fake-provider", "--state", state.as_str()])
        .args(["--socket", socket.as_str()])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command.spawn().context("the fake provider does not start")
}

async fn connected(socket: &Utf8Path) -> Result<Remote> {
    for _ in 0..2000 {
        if let Ok(remote) = Remote::connect(socket.as_std_path()).await {
            return Ok(remote);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    anyhow::bail!("the fake provider does not answer");
}

#[async_trait]
impl Ground for FakeGround {
    fn pace(&self) -> Pace {
        Pace::Memory
    }

    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.remote.clone())
    }

    fn script(&self, _: &str, work: &[Work]) -> String {
        let lines = work.iter().map(|work| match work {
            Work::Say(words) => format!("say {words}"),
            Work::Write { path, words } => format!("write {path} {words}"),
            Work::Wait { millis } => format!("wait {millis}"),
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    async fn kill(&self, sandbox: SandboxId, victim: Victim) -> Result<()> {
        match victim {
            Victim::Runner => self.remote.kill(sandbox, fake::Victim::Runner).await?,
            Victim::Agent => self.remote.kill(sandbox, fake::Victim::Agent).await?,
            Victim::Sandbox => self.remote.terminate(sandbox).await?,
            Victim::Keeper => {
                let mut process = self.process.lock().await;
                shoot(&process, kill::KILL)?;
                process.wait().await?;
            }
        }
        Ok(())
    }

    async fn runs(&self) -> Result<Vec<Run>> {
        Ok(self.remote.runs().await?)
    }

    async fn mend(&self) -> Result<()> {
        let mut process = self.process.lock().await;
        if process.try_wait()?.is_some() {
            *process = start(&self.program, &self.state, &self.socket)?;
            connected(&self.socket).await?;
        }
        Ok(())
    }

    fn server(&self, server: &Server) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["internal", "prove-server"])
            .args(["--database", server.database.as_str()])
            .args(["--socket", server.socket.as_str()])
            .args(["--owner", &server.owner])
            .args(["--organisation", &server.organisation.to_string()])
            .args(["--fake-provider", self.socket.as_str()]);
        if let Some(seed) = server.faults {
            command.args(["--faults", &seed.to_string()]);
        }
        command
    }
}
