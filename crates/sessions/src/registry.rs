use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use model::{Clock, Id, Session, SignedDuration, Timestamp};
use provider::Provider;
use store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::hub::{self, Hub, Loaded};
use crate::lease::Lease;
use crate::{Handle, HubError, Outside, Settings};

/// What sessions are made of.
#[derive(Debug)]
pub struct Makings {
    pub store: Store,
    pub providers: Vec<Arc<dyn Provider>>,
    pub clock: Arc<dyn Clock>,
    /// This process among those that share the store. A name may be used again by whoever knows
    /// that its last bearer is gone: it gets that one's sessions at once, and what the other still
    /// tried to write would be refused.
    pub owner: String,
    /// What sandboxes find outside.
    pub outside: Arc<dyn Outside>,
    pub settings: Settings,
}

type Gate = Arc<tokio::sync::Mutex<()>>;

/// Every live session of this process.
#[derive(Debug, Clone)]
pub struct Sessions(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) providers: HashMap<String, Arc<dyn Provider>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) owner: String,
    pub(crate) outside: Arc<dyn Outside>,
    pub(crate) settings: Settings,
    hubs: Mutex<HashMap<Id<Session>, Handle>>,
    /// Each is held while its session is opened, so that two who open it get the same hub.
    gates: Mutex<HashMap<Id<Session>, Gate>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl Sessions {
    pub fn new(makings: Makings) -> Self {
        let providers = makings
            .providers
            .into_iter()
            .map(|provider| (provider.name().to_owned(), provider))
            .collect();
        Self(Arc::new(Shared {
            store: makings.store,
            providers,
            clock: makings.clock,
            owner: makings.owner,
            outside: makings.outside,
            settings: makings.settings,
            hubs: Mutex::default(),
            gates: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// The hub of a session: the one that is there, or a new one that takes the session over.
    pub async fn open(&self, session: Id<Session>) -> Result<Handle, HubError> {
        if let Some(handle) = self.0.find(session) {
            return Ok(handle);
        }
        if !self.0.settings.takes_up {
            return Err(HubError::NotHere);
        }
        let opening = self.0.opening(session);
        let _one_at_a_time = opening.gate.lock().await;
        self.take_over(session).await
    }

    async fn take_over(&self, session: Id<Session>) -> Result<Handle, HubError> {
        if let Some(handle) = self.0.find(session) {
            return Ok(handle);
        }
        if self.0.stop.is_cancelled() {
            return Err(HubError::Gone);
        }
        let now = self.0.clock.now();
        let until = self.0.lease_end(now);
        let fence = self
            .0
            .store
            .take_over(session, &self.0.owner, now, until)
            .await?;
        let store = &self.0.store;
        let last = store.last_messages(session, 1).await?;
        let loaded = Loaded {
            record: store.load_session(session).await?,
            prompts: store.open_prompts(session).await?,
            channels: store.channels(session).await?,
            messages: store.open_messages(session).await?,
            last_channel: last.into_iter().next().map(|message| message.channel),
            lease: Lease::until(until),
        };
        let hub = match Hub::new(Arc::clone(&self.0), fence, loaded) {
            Ok(hub) => hub,
            Err(error) => {
                // Nobody here can act for it, so nobody here holds it.
                store.release(fence).await?;
                return Err(error);
            }
        };
        let handle = hub.handle();
        self.0.lock().insert(session, handle.clone());
        let shared = Arc::clone(&self.0);
        self.0.tasks.spawn(async move {
            Box::pin(hub::run(hub)).await;
            shared.forget(session, fence.term);
        });
        Ok(handle)
    }

    /// Takes over what the last bearer of our name had.
    pub async fn reclaim(&self) -> Result<usize, HubError> {
        let (mut reclaimed, mut after) = (0, None);
        loop {
            let owner = &self.0.owner;
            let left = self.0.store.leased_sessions(owner, after, 100).await?;
            let Some(last) = left.last().copied() else {
                return Ok(reclaimed);
            };
            reclaimed += self.take_over_all(left).await;
            after = Some(last);
        }
    }

    /// Takes over what was left by owners that are gone, and is to be acted on.
    pub async fn adopt(&self) -> Result<usize, HubError> {
        let mut adopted = 0;
        let mut after = None;
        loop {
            let now = self.0.clock.now();
            let left = self.0.store.abandoned_sessions(now, after, 100).await?;
            let Some(last) = left.last().copied() else {
                return Ok(adopted);
            };
            adopted += self.take_over_all(left).await;
            after = Some(last);
        }
    }

    async fn take_over_all(&self, left: Vec<Id<Session>>) -> usize {
        let mut taken = 0;
        for session in left {
            match self.open(session).await {
                Ok(_) => taken += 1,
                // Another process was quicker.
                Err(HubError::Store(store::Error::Held { .. })) => {}
                Err(error) => {
                    tracing::warn!(%session, %error, "a session that was left cannot be taken over");
                }
            }
        }
        taken
    }

    /// How many have a hub here.
    pub fn count(&self) -> usize {
        self.0.lock().len()
    }

    /// What is ours as far as our leases say, each with the term by which it is.
    pub fn owned(&self) -> Vec<(Id<Session>, u64)> {
        let now = self.0.clock.now();
        let handles = self.0.handles().into_iter();
        handles
            .filter(|handle| !handle.is_gone() && handle.lease.holds(now))
            .map(|handle| (handle.session, handle.term))
            .collect()
    }

    /// Lets go of every session; their sandboxes run on.
    pub async fn shut_down(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl Shared {
    pub(crate) fn find(&self, session: Id<Session>) -> Option<Handle> {
        self.lock()
            .get(&session)
            .filter(|handle| !handle.is_gone())
            .cloned()
    }

    pub(crate) fn opening(&self, session: Id<Session>) -> Opening<'_> {
        let mut gates = self.gates.lock().expect("no holder of this lock panics");
        Opening {
            shared: self,
            session,
            gate: Arc::clone(gates.entry(session).or_default()),
        }
    }

    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.lock().values().cloned().collect()
    }

    pub(crate) fn lease_end(&self, now: Timestamp) -> Timestamp {
        later(now, self.settings.lease)
    }

    fn forget(&self, session: Id<Session>, term: u64) {
        let mut hubs = self.lock();
        if hubs.get(&session).is_some_and(|handle| handle.term == term) {
            hubs.remove(&session);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Id<Session>, Handle>> {
        self.hubs.lock().expect("no holder of this lock panics")
    }
}

/// Somebody who opens a session. The last who does takes the gate along.
pub(crate) struct Opening<'a> {
    shared: &'a Shared,
    session: Id<Session>,
    pub(crate) gate: Gate,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut gates = self
            .shared
            .gates
            .lock()
            .expect("no holder of this lock panics");
        // Ours, and the one that is kept.
        if Arc::strong_count(&self.gate) == 2 {
            gates.remove(&self.session);
        }
    }
}

pub(crate) fn later(now: Timestamp, by: std::time::Duration) -> Timestamp {
    SignedDuration::try_from(by)
        .ok()
        .and_then(|by| now.checked_add(by).ok())
        .unwrap_or(Timestamp::MAX)
}
