//! Client sockets, replay, previews and terminals of sessions.
//!
//! ```text
//!  hub ── told ──► feed ── batches, encoded once ──► socket · socket · event stream · …
//!                   ▲                                   │
//!                   └── log (what was missed) ──────────┘
//!
//!  browser ── {port}-{session}.preview.DOMAIN ──► preview ── dial ──► a port in the sandbox
//! ```
//!
//! [`Gateway`] is the whole of it. Who a caller is and what they may see is decided before: whoever
//! routes requests here has checked it, except for previews, which ask [`preview::Access`].

#![forbid(unsafe_code)]

mod answer;
mod deeds;
mod direct;
mod events;
mod fanout;
mod feed;
mod frame;
mod inside;
mod join;
mod next;
mod pipe;
pub mod preview;
pub mod prompts;
mod pulls;
mod refusal;
mod replay;
mod settings;
pub mod shown;
mod socket;
mod terminal;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use model::{Audit, Clock, Id, Organisation, Session};
use provider::Provider;
use sessions::Sessions;
use store::Store;
use store::audit::Line;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::link::Author;
use wire::v1::Role;

pub use answer::Body;
pub use fanout::Seat;
pub use feed::Feed;
pub use frame::Batch;
pub use inside::{Carried, Inside, InsideError, encode};
pub use pipe::Admit;
pub use pulls::{PullResult, Pulls, WantedPull};
pub use refusal::Refusal;
pub use replay::{Over, Replay};
pub use settings::Settings;
pub use terminal::Terminal;

/// What a gateway is made of.
#[derive(Debug)]
pub struct Makings {
    pub store: Store,
    pub sessions: Sessions,
    /// The same that the sessions have.
    pub providers: Vec<Arc<dyn Provider>>,
    pub clock: Arc<dyn Clock>,
    /// Who opens pull requests, where somebody does.
    pub pulls: Option<Arc<dyn Pulls>>,
    pub settings: Settings,
}

/// Where people and programs meet sessions. Clones are the same gateway.
#[derive(Debug, Clone)]
pub struct Gateway(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) sessions: Sessions,
    providers: HashMap<String, Arc<dyn Provider>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pulls: Option<Arc<dyn Pulls>>,
    pub(crate) settings: Settings,
    feeds: Mutex<HashMap<Id<Session>, Arc<Feed>>>,
    /// For so many sockets.
    room: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stop: CancellationToken,
}

/// Who it is, as others see them and as far as they may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// A user's id, or `service`.
    pub id: String,
    pub name: String,
    pub email: Option<String>,
    pub role: Role,
    /// Who they are in the audit; none where none is kept.
    pub audited: Option<Audited>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audited {
    pub organisation: Id<Organisation>,
    pub actor: String,
}

/// Ends a connection whose caller may not be there any more. It is held for as long as that lasts.
pub type Leave = Arc<CancellationToken>;

/// Who comes to which session.
#[derive(Debug, Clone)]
pub struct Visit {
    pub session: Id<Session>,
    pub caller: Caller,
    pub leave: Leave,
}

/// What a client wants to watch, and from where on.
#[derive(Debug, Clone)]
pub struct Watched {
    pub session: Id<Session>,
    pub caller: Caller,
    /// The number of the last event that the client has.
    pub since: Option<u64>,
    /// Wake the session if it sleeps. One who may only look wakes nobody.
    pub resume: bool,
    pub leave: Leave,
}

impl Gateway {
    /// How many sockets, terminals and event streams are open.
    pub fn sockets(&self) -> usize {
        let shared = &self.0;
        shared
            .settings
            .sockets
            .saturating_sub(shared.room.available_permits())
    }

    pub fn new(makings: Makings) -> Self {
        let providers = makings.providers.into_iter();
        Self(Arc::new(Shared {
            store: makings.store,
            sessions: makings.sessions,
            providers: providers
                .map(|provider| (provider.name().to_owned(), provider))
                .collect(),
            clock: makings.clock,
            room: Arc::new(Semaphore::new(makings.settings.sockets)),
            pulls: makings.pulls,
            settings: makings.settings,
            feeds: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// For one more socket.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let place = Arc::clone(&self.0.room).try_acquire_owned();
        place.map_err(|_| {
            Refusal::later(
                "too-many-sockets",
                "as many sockets are open as there may be: come again",
            )
        })
    }

    /// Tells everybody who is connected to come again, and waits until they are gone.
    pub async fn shut_down(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

/// Where a caller says that its request belongs.
pub fn traceparent(headers: &hyper::HeaderMap) -> Option<telemetry::Trace> {
    let mut values = headers.get_all("traceparent").iter();
    let value = values.next()?.to_str().ok()?;
    // Two of them are none, as the standard says.
    if values.next().is_some() {
        return None;
    }
    value.parse().ok()
}

/// The id of a caller that is no person.
pub const SERVICE: &str = "service";

impl Shared {
    /// What a caller does to a session, for the audit.
    pub(crate) fn line(
        &self,
        caller: &Caller,
        session: Id<Session>,
        action: &str,
        about: &serde_json::Value,
    ) -> Option<Line> {
        let audited = caller.audited.as_ref()?;
        let mut about = about.clone();
        if let Some(id) = telemetry::current().request {
            about["request"] = id.to_string().into();
        }
        Some(Line {
            id: Id::<Audit>::new(&*self.clock),
            organisation: audited.organisation,
            session: Some(session),
            actor: audited.actor.clone(),
            action: format!("session.{action}"),
            target: None,
            body: about.to_string(),
            at: self.clock.now(),
        })
    }
}

impl Caller {
    pub fn may_act(&self) -> bool {
        matches!(self.role, Role::Owner | Role::Member)
    }

    /// As the agent and others hear of them; a service is nobody.
    pub fn author(&self) -> Option<Author> {
        (self.id != SERVICE).then(|| Author {
            id: self.id.clone(),
            email: self.email.clone(),
            name: Some(self.name.clone()),
            ..Author::default()
        })
    }
}
