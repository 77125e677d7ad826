//! One feed for each session that somebody watches, and the task that fills it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::{Id, Session};
use sessions::{Attendance, Handle, HubError, Told, Watch};
use store::Replay;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep_until};

use crate::feed::Feed;
use crate::{Caller, Gateway, Shared};

/// Told at once when they wait together.
const TOGETHER: usize = 256;

/// A thousand who come at once are not to make a million frames.
const PRESENCE: Duration = Duration::from_millis(100);

/// A feed that nobody watches goes at the second look.
const LOOK: Duration = Duration::from_secs(10);

/// Between two tries to find who owns the session.
const AGAIN: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(500),
    Duration::from_secs(2),
];

/// A place among those who watch a session, shown to the others for as long as it is held.
#[derive(Debug)]
pub struct Seat {
    pub(crate) feed: Arc<Feed>,
    who: String,
}

impl Seat {
    pub fn feed(&self) -> &Arc<Feed> {
        &self.feed
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.feed.leave(&self.who);
        self.feed.seats.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Gateway {
    /// A place to watch a session from. Opens the session, and wakes nobody.
    pub async fn take_seat(&self, session: Id<Session>, caller: &Caller) -> Result<Seat, HubError> {
        let shared = &self.0;
        let sit = |feed: &Arc<Feed>| {
            feed.seats.fetch_add(1, Ordering::AcqRel);
            feed.come(&caller.id, &caller.name);
            Seat {
                feed: Arc::clone(feed),
                who: caller.id.clone(),
            }
        };
        if let Some(seat) = shared.with_feed(session, sit) {
            return Ok(seat);
        }
        let handle = shared.sessions.open(session).await?;
        let watch = handle.watch().await?;
        let feed = {
            let mut feeds = shared.feeds();
            // Two may come at once; one of them was first.
            if let Some(first) = feeds.get(&session).filter(|feed| !feed.is_over()) {
                return Ok(sit(first));
            }
            let feed = Arc::new(Feed::new(watch.seq, &watch.open));
            feeds.insert(session, Arc::clone(&feed));
            feed
        };
        let seat = sit(&feed);
        let crier = Crier {
            shared: Arc::clone(shared),
            session,
            feed,
            attendance: handle.attend(),
            handle,
        };
        shared.tasks.spawn(crier.run(watch));
        Ok(seat)
    }
}

impl Shared {
    fn with_feed<T>(&self, session: Id<Session>, sit: impl FnOnce(&Arc<Feed>) -> T) -> Option<T> {
        let feeds = self.feeds();
        let feed = feeds.get(&session).filter(|feed| !feed.is_over());
        feed.map(sit)
    }

    fn feeds(
        &self,
    ) -> std::sync::MutexGuard<'_, std::collections::HashMap<Id<Session>, Arc<Feed>>> {
        self.feeds.lock().expect("no holder of this lock panics")
    }

    /// True if nobody sits there any more, and nobody will.
    fn forget(&self, session: Id<Session>, feed: &Arc<Feed>) -> bool {
        let mut feeds = self.feeds();
        if feed.seats.load(Ordering::Acquire) > 0 && !feed.is_over() {
            return false;
        }
        if feeds
            .get(&session)
            .is_some_and(|held| Arc::ptr_eq(held, feed))
        {
            feeds.remove(&session);
        }
        true
    }
}

/// Says to the feed what the hub tells.
struct Crier {
    shared: Arc<Shared>,
    session: Id<Session>,
    feed: Arc<Feed>,
    handle: Handle,
    /// Somebody is there for as long as it is held.
    attendance: Attendance,
}

impl Crier {
    async fn run(mut self, mut watch: Watch) {
        let stop = self.shared.stop.clone();
        // Held across rounds: there is one for every event.
        let mut stopped = std::pin::pin!(stop.cancelled());
        let mut look = std::pin::pin!(sleep_until(Instant::now() + LOOK));
        let mut presence = std::pin::pin!(sleep_until(Instant::now()));
        let (mut was_empty, mut is_stirred) = (false, false);
        let mut told = Vec::new();
        loop {
            let is_heard = tokio::select! {
                () = &mut stopped => break,
                heard = watch.told.recv() => collect(heard, &mut watch, &mut told),
                () = self.feed.stirred.notified(), if !is_stirred => {
                    is_stirred = true;
                    presence.as_mut().reset(Instant::now() + PRESENCE);
                    continue;
                }
                () = &mut presence, if is_stirred => {
                    is_stirred = false;
                    self.feed.tell_presence();
                    continue;
                }
                () = &mut look => {
                    look.as_mut().reset(Instant::now() + LOOK);
                    let is_empty = self.feed.seats.load(Ordering::Acquire) == 0;
                    if is_empty && was_empty && self.shared.forget(self.session, &self.feed) {
                        return;
                    }
                    was_empty = is_empty;
                    continue;
                }
            };
            self.feed.tell(&told);
            told.clear();
            if let Err(missed) = is_heard {
                match self.look_again(missed).await {
                    Some(again) => watch = again,
                    None => break,
                }
            }
        }
        self.feed.end();
        self.shared.forget(self.session, &self.feed);
    }

    /// From the log what was missed, and from then on what is told. None if another process has the
    /// session now, or nobody can.
    async fn look_again(&mut self, missed: Missed) -> Option<Watch> {
        for pause in AGAIN {
            match self.try_again(missed).await {
                Ok(watch) => return Some(watch),
                // It was removed, and has nothing more to say.
                Err(HubError::Store(store::Error::NotFound(_))) => return None,
                Err(error) => {
                    tracing::warn!(session = %self.session, %error, "a session is not heard");
                    tokio::select! {
                        () = self.shared.stop.cancelled() => return None,
                        () = tokio::time::sleep(pause) => {}
                    }
                }
            }
        }
        None
    }

    async fn try_again(&mut self, missed: Missed) -> Result<Watch, HubError> {
        if missed == Missed::Hub || self.handle.is_gone() {
            self.handle = self.shared.sessions.open(self.session).await?;
            self.attendance = self.handle.attend();
        }
        let watch = self.handle.watch().await?;
        let most = self.shared.settings.replayed;
        if watch.seq.saturating_sub(self.feed.seq()) > most || !self.catch_up(watch.seq).await? {
            self.feed.skip_to(watch.seq, &watch.open);
        } else {
            self.feed.set_open(&watch.open);
        }
        Ok(watch)
    }

    /// False if the log does not have it any more.
    async fn catch_up(&self, upto: u64) -> Result<bool, HubError> {
        while self.feed.seq() < upto {
            let since = self.feed.seq();
            let page = self.shared.store.events_after(self.session, since, 500);
            let Replay::Events { mut events, .. } = page.await? else {
                return Ok(false);
            };
            // What comes after is told, in its place among what has no number.
            events.retain(|event| event.seq <= upto);
            if events.is_empty() {
                return Ok(false);
            }
            let told: Vec<Told> = events.into_iter().map(Told::Numbered).collect();
            self.feed.tell(&told);
        }
        Ok(true)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missed {
    /// The hub was quicker than we are.
    Some,
    /// The hub is gone.
    Hub,
}

/// All that waits already, so that it goes out in one piece.
fn collect(
    first: Result<Told, RecvError>,
    watch: &mut Watch,
    told: &mut Vec<Told>,
) -> Result<(), Missed> {
    told.push(first.map_err(|error| match error {
        RecvError::Lagged(_) => Missed::Some,
        RecvError::Closed => Missed::Hub,
    })?);
    while told.len() < TOGETHER {
        match watch.told.try_recv() {
            Ok(more) => told.push(more),
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Lagged(_)) => return Err(Missed::Some),
            Err(TryRecvError::Closed) => return Err(Missed::Hub),
        }
    }
    Ok(())
}
