use model::SnapshotId;
use provider::{Provider, SandboxId};
use provider_local::Local;

use crate::config;
use crate::error::CommandError;
use crate::output::Output;

/// What every command is given. Nothing here is built before it is asked for.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) output: Output,
}

impl App {
    pub(crate) fn new(output: Output) -> Self {
        Self { output }
    }

    #[expect(
        clippy::unused_self,
        reason = "what it opens may come to depend on the arguments"
    )]
    pub(crate) fn engine(&self) -> Result<Engine, CommandError> {
        Ok(Engine {
            local: Local::open(&config::load()?.local)?,
        })
    }
}

/// The local engine, and how people name what is in it.
pub(crate) struct Engine {
    pub(crate) local: Local,
}

impl Engine {
    /// The engine by the contract that all providers keep.
    pub(crate) fn provider(&self) -> &dyn Provider {
        &self.local
    }

    pub(crate) fn sandbox(&self, text: &str) -> Result<SandboxId, CommandError> {
        // As a prefix the empty text fits every sandbox.
        if text.is_empty() {
            return Err(CommandError::usage("a sandbox's id or name is empty"));
        }
        self.local.find_sandbox(text).map_err(|error| {
            CommandError::from(error)
                .hint_if_missing("`nacre sandbox ls --all` shows every sandbox")
        })
    }

    pub(crate) fn snapshot(&self, text: &str) -> Result<SnapshotId, CommandError> {
        if text.is_empty() {
            return Err(CommandError::usage("a snapshot's id or name is empty"));
        }
        self.local.find_snapshot(text).map_err(|error| {
            CommandError::from(error).hint_if_missing("`nacre snapshot ls` shows every snapshot")
        })
    }
}
