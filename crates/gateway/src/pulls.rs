//! Who opens pull requests. The gateway knows nothing of forges and tokens.

use std::fmt;

use async_trait::async_trait;
use serde::Serialize;
use sessions::Handle;

use crate::Caller;

#[async_trait]
pub trait Pulls: fmt::Debug + Send + Sync {
    /// What was checked out is pushed first. Asked again for the same branch it is the same one.
    async fn open(&self, session: &Handle, caller: &Caller, wanted: WantedPull) -> PullResult;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPull {
    pub repo: Option<String>,
    pub title: String,
    pub body: String,
    pub base: Option<String>,
}

/// The body of `git_result`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PullResult {
    pub success: bool,
    /// As in `SUCCESS`, `AUTH_FAILED`.
    pub code: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
}
