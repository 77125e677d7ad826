//! Is it up, and is it the one we know?

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::VERSION;
use super::api::Api;
use super::http::HttpError;

/// What a start takes at most.
pub const LIMIT: Duration = Duration::from_mins(1);
/// A starting server takes connections a quarter of a second before it answers, and never answers
/// those: a probe must be short and on a connection of its own.
const PROBE: Duration = Duration::from_millis(250);
const BETWEEN: Duration = Duration::from_millis(50);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    #[error(
        "this is OpenCode {found}; this build of nacre knows {VERSION}, and others behave differently: install opencode-linux-x64@{VERSION}"
    )]
    Version { found: String },
    #[error("something answers there that is not the agent: {0}; free its port and start it again")]
    Stranger(String),
    #[error("the agent's server refuses our password; another process may hold its port")]
    Password,
    #[error("the agent did not become healthy within {seconds} s; the last probe: {last}")]
    Late { seconds: u64, last: String },
}

/// Waits until it is healthy. Another version is refused at once.
pub(super) async fn wait(api: &Api, limit: Duration) -> Result<(), Unhealthy> {
    let end = Instant::now() + limit;
    let mut last = "none was answered".to_owned();
    loop {
        match timeout_at(end, api.health(PROBE)).await {
            Ok(Ok(health)) if health.version != VERSION && !health.version.is_empty() => {
                return Err(Unhealthy::Version {
                    found: health.version.chars().take(40).collect(),
                });
            }
            Ok(Ok(health)) if health.healthy => return Ok(()),
            Ok(Ok(_)) => "it says that it is not healthy".clone_into(&mut last),
            Ok(Err(error)) if error.status == 401 => return Err(Unhealthy::Password),
            Ok(Err(error)) if is_somebody_else(&error) => {
                return Err(Unhealthy::Stranger(error.message));
            }
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => {
                let seconds = limit.as_secs();
                return Err(Unhealthy::Late { seconds, last });
            }
        }
        sleep(BETWEEN).await;
    }
}

/// A page, or an answer that no start of the agent gives.
fn is_somebody_else(error: &HttpError) -> bool {
    error.status == 404 || (error.status == 0 && error.message.contains("not what was expected"))
}
