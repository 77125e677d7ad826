use std::sync::Arc;

use anyhow::Result;
use async_trait::async_trait;
use camino::Utf8PathBuf;
use model::{Id, Organisation};
use provider::fake::Run;
use provider::{Provider, SandboxId};
use tokio::process::Command;

use crate::Pace;

/// What is killed, besides the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The workplace, which is started again.
    Runner,
    Agent,
    /// All processes of a sandbox.
    Sandbox,
    /// What keeps sandboxes on the host.
    Keeper,
}

/// How a server is to be started.
#[derive(Debug, Clone)]
pub struct Server {
    pub database: Utf8PathBuf,
    pub socket: Utf8PathBuf,
    pub owner: String,
    pub faults: Option<u64>,
    pub organisation: Id<Organisation>,
}

/// One thing that a prompt asks for.
#[derive(Debug, Clone)]
pub enum Work {
    Say(String),
    Write { path: String, words: String },
    Wait { millis: u64 },
}

/// What a storm is over: a provider, its processes, and who counts what is run.
#[async_trait]
pub trait Ground: Send + Sync {
    fn pace(&self) -> Pace;

    fn provider(&self) -> Arc<dyn Provider>;

    /// In the words that its agent understands. `id` is how a run is counted.
    fn script(&self, id: &str, work: &[Work]) -> String;

    async fn kill(&self, sandbox: SandboxId, victim: Victim) -> Result<()>;

    /// Everything that was run, in order.
    async fn runs(&self) -> Result<Vec<Run>>;

    /// Starts again what was killed and does not start by itself.
    async fn mend(&self) -> Result<()>;

    fn server(&self, server: &Server) -> Command;
}
