//! The agent's stream of events, kept open.

use std::pin::Pin;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use super::api::Api;
use super::http::{Events, HttpError};
use super::sse::Frame;
use super::wire::{self, Event};

const AFTER_END: Duration = Duration::from_secs(1);
const AFTER_ERROR: Duration = Duration::from_secs(3);
/// It sends a heartbeat every 10 s. Three missed ones are an end that nobody told us about.
const SILENCE: Duration = Duration::from_secs(35);

#[derive(Debug, PartialEq)]
pub(super) enum Item {
    /// From here on nothing is missed.
    Opened,
    Event(Box<Event>),
    /// From here on something may be missed, until the next `Opened`.
    Lost,
}

/// Waiting for its next item may be given up and begun again.
pub(super) struct Watch {
    api: Api,
    state: State,
}

enum State {
    Off,
    Resting(Pin<Box<Sleep>>),
    Connecting(BoxFuture<'static, Result<Events, HttpError>>),
    On { events: Events, heard: Instant },
}

impl Watch {
    pub(super) fn off(api: Api) -> Watch {
        Watch {
            api,
            state: State::Off,
        }
    }

    pub(super) fn turn_on(&mut self) {
        self.connect();
    }

    pub(super) fn turn_off(&mut self) {
        self.state = State::Off;
    }

    pub(super) async fn next(&mut self) -> Item {
        loop {
            match &mut self.state {
                State::Off => std::future::pending().await,
                State::Resting(rest) => {
                    rest.as_mut().await;
                    self.connect();
                }
                State::Connecting(connecting) => match connecting.await {
                    Ok(events) => {
                        let heard = Instant::now();
                        self.state = State::On { events, heard };
                    }
                    Err(error) => {
                        tracing::debug!(%error, "cannot listen to the agent");
                        self.rest(AFTER_ERROR);
                    }
                },
                State::On { events, heard } => {
                    let next = timeout_at(*heard + SILENCE, events.next()).await;
                    *heard = Instant::now();
                    match next {
                        Ok(Some(Ok(Frame::Data(data)))) => match wire::event(&data) {
                            Some(Event::Connected) => return Item::Opened,
                            Some(event) => return Item::Event(Box::new(event)),
                            None => {}
                        },
                        // Whatever was in it is read anew, as after a gap.
                        Ok(Some(Ok(Frame::Dropped))) => return self.lost(Duration::ZERO),
                        Ok(None) => return self.lost(AFTER_END),
                        Ok(Some(Err(_))) | Err(_) => return self.lost(AFTER_ERROR),
                    }
                }
            }
        }
    }

    fn lost(&mut self, rest: Duration) -> Item {
        self.rest(rest);
        Item::Lost
    }

    fn rest(&mut self, rest: Duration) {
        self.state = State::Resting(Box::pin(sleep(rest)));
    }

    fn connect(&mut self) {
        let api = self.api.clone();
        self.state = State::Connecting(Box::pin(async move { api.events().await }));
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}
