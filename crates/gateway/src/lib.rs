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
pub mod preview;
mod pulls;
mod replay;
mod settings;
pub mod shown;
mod socket;
mod terminal;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use model::{Clock, Id, Session};
use provider::Provider;
use sessions::Sessions;
use store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::v1::Role;

pub use answer::Body;
pub use deeds::query;
pub use fanout::Seat;
pub use feed::Feed;
pub use frame::Batch;
pub use inside::{Inside, InsideError};
pub use pulls::{PullResult, Pulls, WantedPull};
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
}

impl Gateway {
    pub fn new(makings: Makings) -> Self {
        let providers = makings.providers.into_iter();
        Self(Arc::new(Shared {
            store: makings.store,
            sessions: makings.sessions,
            providers: providers
                .map(|provider| (provider.name().to_owned(), provider))
                .collect(),
            clock: makings.clock,
            pulls: makings.pulls,
            settings: makings.settings,
            feeds: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Tells everybody who is connected to come again, and waits until they are gone.
    pub async fn shut_down(&self) {
        self.0.stop.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl Caller {
    pub fn may_act(&self) -> bool {
        self.role != Role::Viewer
    }
}
