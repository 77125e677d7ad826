use std::future::Future;
use std::sync::atomic::{AtomicI64, Ordering};

use model::session::Lifecycle;
use model::{
    Clock, Id, ManualClock, Organisation, Session, SignedDuration, SystemClock, Timestamp,
};
use nacre_store::sessions::{Channel, NewSession, Type};
use nacre_store::{
    Committed, Config, Event, Fence, Location, NewEvent, Replay, Result, StateColumns, Store, Write,
};
use serde_json::Value;

/// A store with an organisation in it.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) organisation: Id<Organisation>,
    pub(crate) clock: ManualClock,
    pub(crate) location: Location,
    /// So that ids differ.
    made: AtomicI64,
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

pub(crate) fn on_sqlite<S, F>(story: S)
where
    S: FnOnce(World) -> F,
    F: Future<Output = ()>,
{
    runtime().block_on(async {
        let directory = camino_tempfile::tempdir().unwrap();
        let location = Location::File(directory.path().join("nacre.db"));
        let world = World::open(location).await;
        let opened = world.store.clone();
        story(world).await;
        opened.close().await.unwrap();
    });
}

pub(crate) const START: &str = "2026-01-01T00:00:00Z";

pub(crate) fn seconds(count: i64) -> SignedDuration {
    SignedDuration::from_secs(count)
}

impl World {
    pub(crate) async fn open(location: Location) -> Self {
        let store = Store::open(&Config::new(location.clone())).await.unwrap();
        let organisation = Id::new(&SystemClock);
        let clock = ManualClock::starting_at(START.parse().unwrap());
        let mut tx = store.begin().await.unwrap();
        tx.create_organisation(organisation, "Pearl", clock.now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
        Self {
            store,
            organisation,
            clock,
            location,
            made: AtomicI64::new(0),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn soon(&self) -> Timestamp {
        self.now() + seconds(30)
    }

    pub(crate) fn new_session(&self) -> NewSession {
        // Ids of one millisecond are in no order.
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let at = self.now() + SignedDuration::from_millis(made);
        NewSession {
            id: Id::new(&ManualClock::starting_at(at)),
            organisation: self.organisation,
            created_by: None,
            parent: None,
            title: "A session".to_owned(),
            r#type: Type::Coding,
            channel: Channel::Web,
            provider: "local".to_owned(),
            spec: "{}".to_owned(),
            state: StateColumns::from(Lifecycle::new()),
            at,
        }
    }

    /// Made, and owned by nobody.
    pub(crate) async fn unowned(&self) -> Id<Session> {
        let new = self.new_session();
        let mut tx = self.store.begin().await.unwrap();
        tx.create_session(&new).await.unwrap();
        tx.commit().await.unwrap();
        new.id
    }

    /// Owned by `us`.
    pub(crate) async fn session(&self) -> Fence {
        let session = self.unowned().await;
        let (now, soon) = (self.now(), self.soon());
        self.store
            .take_over(session, "us", now, soon)
            .await
            .unwrap()
    }

    pub(crate) fn write(&self, fence: Fence) -> Write {
        Write::new(fence, self.now())
    }

    pub(crate) async fn append(&self, fence: Fence, event: Value) -> Result<Committed> {
        let write = self.write(fence).event(NewEvent::new(&event)?);
        self.store.append(write).await
    }

    /// The whole log.
    pub(crate) async fn log(&self, session: Id<Session>) -> Vec<Event> {
        let mut all = Vec::new();
        loop {
            let seen = all.last().map_or(0, |event: &Event| event.seq);
            match self.store.events_after(session, seen, 100).await.unwrap() {
                Replay::Events { events, .. } if events.is_empty() => return all,
                Replay::Events { events, .. } => all.extend(events),
                Replay::Resync { .. } => panic!("the log is not whole"),
            }
        }
    }
}
