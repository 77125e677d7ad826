//! Is it up, and is it the one we know?

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::VERSION;
use super::api::Api;
use super::http::HttpError;

/// What a start takes at most.
pub const LIMIT: Duration = Duration::from_mins(1);
/// A starting server takes connections a quarter of a second before it answers, and never answers
/// those: a probe must be short and on a connection of its own, and the next one must not wait for it.
const PROBE: Duration = Duration::from_millis(250);
const BETWEEN: Duration = Duration::from_millis(25);

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
    let mut probes = FuturesUnordered::new();
    let mut next = interval(BETWEEN);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // Not a timeout around it all: a probe that is refused at once would be heard before its limit.
    while Instant::now() < end {
        let answer = tokio::select! {
            Some(answer) = probes.next() => answer,
            _ = next.tick() => {
                probes.push(api.health(PROBE));
                continue;
            }
        };
        match answer {
            Ok(health) if health.version != VERSION && !health.version.is_empty() => {
                return Err(Unhealthy::Version {
                    found: health.version.chars().take(40).collect(),
                });
            }
            Ok(health) if health.healthy => return Ok(()),
            Ok(_) => "it says that it is not healthy".clone_into(&mut last),
            Err(error) if error.status == 401 => return Err(Unhealthy::Password),
            Err(error) if is_somebody_else(&error) => {
                return Err(Unhealthy::Stranger(error.message));
            }
            Err(error) => last = error.to_string(),
        }
    }
    let seconds = limit.as_secs();
    Err(Unhealthy::Late { seconds, last })
}

/// A page, or an answer that no start of the agent gives.
fn is_somebody_else(error: &HttpError) -> bool {
    error.status == 404 || (error.status == 0 && error.message.contains("not what was expected"))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use model::Secret;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::task::JoinSet;

    use super::*;
    use crate::dial::{Dial, Stream};

    /// Answers every request with the same words, or with none, or refuses.
    #[derive(Debug)]
    struct Parrot {
        says: Says,
        dialled: AtomicUsize,
        answers: Mutex<JoinSet<io::Result<()>>>,
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Says {
        This(&'static str),
        Nothing,
        Refused,
    }

    #[async_trait]
    impl Dial for Parrot {
        async fn dial(&self) -> io::Result<Box<dyn Stream>> {
            self.dialled.fetch_add(1, Ordering::Relaxed);
            if self.says == Says::Refused {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, mut far) = tokio::io::duplex(4096);
            let says = self.says;
            self.answers.lock().unwrap().spawn(async move {
                far.read_u8().await?;
                if let Says::This(reply) = says {
                    far.write_all(reply.as_bytes()).await?;
                }
                far.read_to_end(&mut Vec::new()).await.map(drop)
            });
            Ok(Box::new(near))
        }
    }

    async fn probe(says: Says) -> (Result<(), Unhealthy>, usize) {
        let parrot = Arc::new(Parrot {
            says,
            dialled: AtomicUsize::new(0),
            answers: Mutex::default(),
        });
        let api = Api::new(parrot.clone(), &Secret::new("hunter22"));
        let result = wait(&api, LIMIT).await;
        (result, parrot.dialled.load(Ordering::Relaxed))
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_is_not_an_agent() {
        let page = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>";
        let (result, _) = probe(Says::This(page)).await;
        assert!(matches!(result, Err(Unhealthy::Stranger(_))), "{result:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_password_is_said_plainly() {
        let refused = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(probe(Says::This(refused)).await.0, Err(Unhealthy::Password));
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_never_answers_is_probed_often_and_then_given_up() {
        let began = Instant::now();
        let (result, dialled) = probe(Says::Nothing).await;
        assert!(matches!(result, Err(Unhealthy::Late { seconds: 60, .. })));
        assert_eq!(began.elapsed().as_secs(), 60);
        assert!(dialled >= 60 * 30, "{dialled} probes");
    }

    #[tokio::test(start_paused = true)]
    async fn an_agent_that_is_not_there_is_given_up_too() {
        let (result, _) = probe(Says::Refused).await;
        assert!(matches!(result, Err(Unhealthy::Late { .. })), "{result:?}");
    }
}
