//! What a workplace is given before it is asked anything: prompts wait for it.

use std::sync::Arc;
use std::time::Duration;

use model::session::Place;
use model::{SignedDuration, Timestamp};
use serde_json::json;
use store::{NewEvent, Write};
use tokio::time::{sleep, timeout};

use super::commits::Then;
use super::{End, Hub, Outcome};

/// One try.
const TRY: Duration = Duration::from_secs(15);
/// What cannot be given must not keep a session from working for ever.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// What came of a try.
#[derive(Debug)]
pub(super) struct Dressing {
    connection: u64,
    place: Place,
    since: Timestamp,
    tries: usize,
    given: Result<(), String>,
}

impl Hub {
    pub(super) fn begin_dressing(&mut self, connection: u64, place: Place) {
        let since = self.shared.clock.now();
        self.try_dressing(connection, place, since, 0);
    }

    fn try_dressing(&mut self, connection: u64, place: Place, since: Timestamp, tries: usize) {
        let (outside, handle) = (Arc::clone(&self.shared.outside), self.handle());
        let pauses = Arc::clone(&self.shared.settings.retries);
        self.work.spawn(async move {
            if let Some(before) = tries.checked_sub(1) {
                let pause = pauses.get(before).or(pauses.last());
                sleep(pause.copied().unwrap_or(TRY)).await;
            }
            let given = timeout(TRY, outside.is_up(handle, place)).await;
            Outcome::Dressed(Dressing {
                connection,
                place,
                since,
                tries: tries + 1,
                given: given.unwrap_or_else(|_| Err("it takes too long".to_owned())),
            })
        });
    }

    pub(super) async fn dressed(&mut self, dressing: Dressing) -> Result<(), End> {
        let link = self.link.as_ref().and_then(|link| link.live.as_ref());
        // Whoever connects after it is dressed anew.
        if link.is_none_or(|live| live.connection != dressing.connection) {
            return Ok(());
        }
        let now = self.shared.clock.now();
        if let Err(why) = &dressing.given {
            let session = self.fence.session;
            tracing::warn!(%session, why, tries = dressing.tries, "a workplace lacks something");
            if dressing.tries == 1 {
                self.tell_that_it_lacks(why, now).await?;
            }
            self.try_dressing(
                dressing.connection,
                dressing.place,
                dressing.since,
                dressing.tries,
            );
            if now.duration_since(dressing.since) < PATIENCE {
                return Ok(());
            }
        }
        let steps = self.queue.dressed(now);
        self.take_steps(steps).await
    }

    async fn tell_that_it_lacks(&mut self, why: &str, now: Timestamp) -> Result<(), End> {
        let message = format!("{why}; it is tried again, and prompts wait for a while");
        let body = json!({ "type": "error", "code": "not-prepared", "message": message });
        let event = NewEvent::from_json(body.to_string())?;
        let write = Write::new(self.fence, now).event(event);
        self.submit(write, Then::default()).await
    }
}
