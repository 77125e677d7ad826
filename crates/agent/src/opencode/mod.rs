//! OpenCode over HTTP and SSE.
//!
//! ```text
//!  OpenCode (handle) ── commands ──► Driver ── Conversation (one per channel, pure)
//!        │                             │  ▲           │ calls
//!        │                             │  └─ results ─┤
//!        │                             ├── Watch ── /global/event
//!        └── Api ──────────────────────┴── Worker ── Api ── HTTP
//! ```
//!
//! The driver's loop never waits for the agent: calls are futures that it polls beside its
//! commands, its timers and the stream.

mod api;
mod contexts;
mod conversation;
mod driver;
mod handle;
mod health;
mod http;
mod ids;
mod launch;
mod sse;
mod watch;
mod wire;
mod work;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::{Clock, Secret};
use tokio::sync::mpsc;

pub use self::contexts::Contexts;
pub use self::driver::Driver;
pub use self::handle::OpenCode;
pub use self::health::{LIMIT as HEALTH_LIMIT, Unhealthy};
pub use self::launch::{SESSION_ARGUMENT, launch};
use crate::channel::ChannelKey;
use crate::configuration::PermissionPolicy;
use crate::dial::Dial;
use crate::event::Event;
use crate::prompt::{ModelName, Transcriber};

/// The release that our recordings cover. Events differ between releases, so no other is spoken to.
pub const VERSION: &str = "1.18.33";

/// How to reach it, and how to behave towards it.
#[derive(Debug, Clone)]
pub struct Settings {
    pub dial: Arc<dyn Dial>,
    pub password: Secret,
    /// Of the machine that the agent runs on: it sorts by time.
    pub clock: Arc<dyn Clock>,
    pub permissions: PermissionPolicy,
    /// For prompts that name none, and for what is no prompt.
    pub model: Option<ModelName>,
    pub transcriber: Option<Arc<dyn Transcriber>>,
    pub memory: Option<Arc<dyn Memory>>,
    pub health_limit: Duration,
}

/// What was said before, for an agent that lost it.
#[async_trait]
pub trait Memory: fmt::Debug + Send + Sync {
    async fn recall(&self, channel: &ChannelKey) -> Option<String>;
}

#[derive(Debug)]
pub struct Connected {
    pub agent: OpenCode,
    /// Does the work; to be polled until it ends, which it does when all handles are dropped.
    pub driver: Driver,
    /// To be read: when it is full, the agent's stream is not read either.
    pub events: mpsc::Receiver<Event>,
}

/// Waits until the agent is healthy, and listens to it.
pub async fn connect(settings: Settings) -> Result<Connected, Unhealthy> {
    let api = api::Api::new(settings.dial.clone(), &settings.password);
    health::wait(&api, settings.health_limit).await?;
    Ok(driver::start(api, settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_has_the_release_that_we_know() {
        let pins = include_str!("../../../../images/base/versions");
        let pin = pins
            .lines()
            .find_map(|line| line.strip_prefix("OPENCODE_VERSION="));
        assert_eq!(pin, Some(VERSION));
    }
}
