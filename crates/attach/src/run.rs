//! A screen, joined with a terminal and a session.

use std::io;
use std::time::Duration;

use client::{Client, ClientError, Commands, Follow, Paging, Update};
use crossterm::event::{Event, EventStream};
use futures::StreamExt as _;
use model::{Clock, Timestamp};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};
use wire::v1::{ClientStatus, Decision, Message, NewPrompt};

use crate::screen::{Deed, Link, Screen};
use crate::terminal::FullScreen;
use crate::view::draw;
use crate::words::Palette;

/// Clocks on the screen count in these.
const TICK: Duration = Duration::from_secs(1);
/// A machine whose clock jumped by so much has slept, and its connections may be dead.
const SLEPT: i64 = 10;
/// What came together is shown together.
const MOST_AT_ONCE: usize = 256;
/// Deeds under way; more wait for the server with their key presses.
const MOST_DEEDS: usize = 32;
/// Of messages before those that a session begins with.
const MOST_OLDER: usize = 10_000;

#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("the terminal cannot be used")]
    Terminal(#[from] io::Error),
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// How the conversation was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// By whoever sat there, with the session as it was then.
    ByKey {
        status: Option<ClientStatus>,
        is_busy: bool,
    },
    BySignal(u8),
}

/// What became of something that was asked for.
enum Done {
    Sent(String, String),
    Older(Vec<Message>),
    OlderFailed(ClientError),
    Nothing,
    Failed(ClientError),
    /// What was asked under this id waits on.
    NotAnswered(String, ClientError),
}

/// Shows the session in this process's terminal until somebody leaves it.
pub async fn run(
    client: &Client,
    session: &str,
    palette: Palette,
    clock: &dyn Clock,
) -> Result<Left, AttachError> {
    let mut follow = client.follow(session, None)?;
    let mut table = Table {
        screen: Screen::new(palette),
        deeds: JoinSet::new(),
        commands: follow.commands(),
        client: client.clone(),
        session: session.to_owned(),
        began: Instant::now(),
    };
    let mut full = FullScreen::enter()?;
    let mut keys = EventStream::new();
    let mut endings = Endings::listen()?;
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = clock.now();
    loop {
        table.screen.tick(table.began.elapsed());
        full.terminal.draw(|frame| draw(frame, &mut table.screen))?;
        tokio::select! {
            update = follow.next() => table.hear(update, &mut follow)?,
            event = keys.next() => match event.transpose()? {
                Some(event) => if let Some(left) = table.typed(&event, &mut full)? {
                    return Ok(left);
                },
                // The terminal is gone.
                None => return Ok(Left::BySignal(HANGUP)),
            },
            Some(done) = table.deeds.join_next() => table.done(done),
            _ = ticks.tick() => {
                let now = clock.now();
                if has_slept(seen, now) {
                    // Only a follow that has ended does not listen, and that is told elsewhere.
                    let _ = table.commands.reconnect().await;
                }
                seen = now;
            }
            number = endings.next() => return Ok(Left::BySignal(number)),
        }
    }
}

fn has_slept(before: Timestamp, now: Timestamp) -> bool {
    now.as_second() - before.as_second() >= SLEPT
}

struct Table {
    screen: Screen,
    deeds: JoinSet<Done>,
    commands: Commands,
    client: Client,
    session: String,
    began: Instant,
}

impl Table {
    fn hear(&mut self, first: Option<Update>, follow: &mut Follow) -> Result<(), AttachError> {
        let mut next = Some(first);
        for _ in 0..MOST_AT_ONCE {
            match next {
                Some(Some(Update::Frame(frame))) => self.screen.hear(&frame),
                Some(Some(Update::Online)) => self.screen.line_is(Link::Online),
                Some(Some(Update::Offline { why, again_in })) => {
                    self.screen.line_is(Link::Offline {
                        why: why.to_string(),
                        until: self.began.elapsed() + again_in,
                    });
                }
                Some(Some(Update::Refused(error))) => return Err(error.into()),
                Some(None) => return Err(ClientError::Ended.into()),
                None => break,
            }
            next = futures::FutureExt::now_or_never(follow.next());
        }
        Ok(())
    }

    fn typed(&mut self, event: &Event, full: &mut FullScreen) -> Result<Option<Left>, AttachError> {
        if matches!(event, Event::Resize(..)) {
            full.terminal.autoresize()?;
        }
        match self.screen.typed(event) {
            None => {}
            Some(Deed::Leave) => {
                return Ok(Some(Left::ByKey {
                    status: self.screen.status(),
                    is_busy: self.screen.is_busy(),
                }));
            }
            Some(Deed::Redraw) => full.terminal.clear()?,
            Some(_) if self.deeds.len() >= MOST_DEEDS => {
                self.screen.notify("too much waits for the server already");
            }
            Some(deed) => self.begin(deed),
        }
        Ok(None)
    }

    fn begin(&mut self, deed: Deed) {
        let commands = self.commands.clone();
        let nothing =
            |done: Result<(), ClientError>| done.map_or_else(Done::Failed, |()| Done::Nothing);
        match deed {
            Deed::Prompt(content) => {
                let prompt = NewPrompt {
                    content: content.clone(),
                    ..NewPrompt::default()
                };
                self.deeds.spawn(async move {
                    match commands.prompt(prompt).await {
                        Ok(id) => Done::Sent(id, content),
                        Err(error) => Done::Failed(error),
                    }
                });
            }
            Deed::Cancel => {
                self.deeds
                    .spawn(async move { nothing(commands.cancel(None).await) });
            }
            Deed::Answer {
                question,
                item,
                answer,
            } => {
                self.deeds
                    .spawn(async move { nothing(commands.answer(&question, item, answer).await) });
            }
            Deed::Permission { id, allow } => {
                self.deeds.spawn(async move {
                    nothing(if allow {
                        commands.allow(&id).await
                    } else {
                        commands.refuse(&id).await
                    })
                });
            }
            Deed::Action { id, approve, why } => {
                let (client, session) = (self.client.clone(), self.session.clone());
                self.deeds.spawn(async move {
                    let done = if approve {
                        client.approve(&session, &id).await
                    } else {
                        client.deny(&session, &id, &Decision { message: why }).await
                    };
                    done.map_or_else(|error| Done::NotAnswered(id, error), |_| Done::Nothing)
                });
            }
            Deed::Env(values) => {
                let (client, session) = (self.client.clone(), self.session.clone());
                self.deeds.spawn(async move {
                    let id = values.id.clone().unwrap_or_default();
                    let done = client.give_env(&session, &values).await;
                    done.map_or_else(|error| Done::NotAnswered(id, error), |()| Done::Nothing)
                });
            }
            Deed::Older => {
                let (client, session) = (self.client.clone(), self.session.clone());
                let first = self.screen.first_position().unwrap_or(0);
                self.deeds.spawn(async move {
                    older(&client, &session, first)
                        .await
                        .map_or_else(Done::OlderFailed, Done::Older)
                });
            }
            Deed::Leave | Deed::Redraw => {}
        }
    }

    fn done(&mut self, done: Result<Done, tokio::task::JoinError>) {
        match done {
            Ok(Done::Sent(id, content)) => self.screen.was_sent(id, content),
            Ok(Done::Older(older)) => self.screen.add_older(older),
            Ok(Done::OlderFailed(error)) => {
                self.screen.older_failed();
                self.screen.notify(&error.to_string());
            }
            Ok(Done::Failed(error)) => self.screen.notify(&error.to_string()),
            Ok(Done::NotAnswered(id, error)) => {
                self.screen.not_answered(&id, is_settled(&error));
                self.screen.notify(&error.to_string());
            }
            Ok(Done::Nothing) => {}
            Err(error) => self.screen.notify(&format!("that went wrong: {error}")),
        }
    }
}

/// Whether an action needs no answer any more.
fn is_settled(error: &ClientError) -> bool {
    matches!(error.code(), Some("action-decided" | "action-expired"))
}

/// Every message before a position, from the beginning.
async fn older(client: &Client, session: &str, before: u64) -> Result<Vec<Message>, ClientError> {
    let mut older = Vec::new();
    let mut paging = Paging::default();
    while older.len() < MOST_OLDER {
        let page = client.messages(session, &paging).await?;
        let is_last = page.items.last().is_none_or(|last| last.position >= before);
        older.extend(page.items);
        paging.cursor = page.next_cursor;
        if is_last || paging.cursor.is_none() {
            break;
        }
    }
    older.retain(|message| message.position < before);
    Ok(older)
}

/// The signals that end a program. Ctrl-C is a key here.
struct Endings {
    signals: [(u8, Signal); 3],
}

const HANGUP: u8 = 1;
const QUIT: u8 = 3;
const TERMINATE: u8 = 15;

impl Endings {
    fn listen() -> io::Result<Self> {
        let of = |number: u8| {
            Ok::<_, io::Error>((number, signal(SignalKind::from_raw(i32::from(number)))?))
        };
        Ok(Self {
            signals: [of(HANGUP)?, of(QUIT)?, of(TERMINATE)?],
        })
    }

    async fn next(&mut self) -> u8 {
        let [hangup, quit, terminate] = &mut self.signals;
        tokio::select! {
            _ = hangup.1.recv() => hangup.0,
            _ = quit.1.recv() => quit.0,
            _ = terminate.1.recv() => terminate.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_jumps_means_that_the_machine_slept() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert!(!has_slept(at(100), at(101)));
        assert!(has_slept(at(100), at(7300)));
        assert!(!has_slept(at(100), at(50)));
    }
}
