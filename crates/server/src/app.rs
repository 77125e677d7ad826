use std::sync::Arc;

use camino::Utf8PathBuf;
use gateway::Gateway;
use gateway::preview::{Previews, Site};
use model::{Audit, Clock, Id, Session, SnapshotId, Timestamp};
use provider::Provider;
use serde_json::Value;
use sessions::{Handle, Sessions, Spec};
use store::Store;
use store::audit::Line;
use store::sessions::Record;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::arriving::Arriving;
use crate::auth::Caller;
use crate::problem::{Answer, Problem};
use crate::rate::Rate;
use crate::standing::Guests;
use crate::vault::Vault;
use crate::{Address, Offer, Outside, Roles};

/// What the front door is made of.
#[derive(Debug)]
pub struct Parts {
    pub store: Store,
    pub sessions: Sessions,
    pub providers: Vec<Arc<dyn Provider>>,
    pub clock: Arc<dyn Clock>,
    pub address: Address,
    pub offer: Arc<dyn Offer>,
    pub outside: Arc<Outside>,
    pub vault: Arc<Vault>,
    /// Where files that came from outside are kept: uploads, and below `evidence` what sessions showed.
    pub uploads: Utf8PathBuf,
    pub roles: Roles,
}

/// What every route has at hand.
#[derive(Debug, Clone)]
pub(crate) struct App(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) parts: Parts,
    pub(crate) rate: Rate,
    site: Site,
    gateway: Gateway,
    admission: Arc<Admission>,
    previews: Previews,
    guests: Guests,
    arriving: Arc<Arriving>,
    tasks: TaskTracker,
    stopping: CancellationToken,
    begun: Timestamp,
}

impl std::ops::Deref for App {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        let begun = parts.clock.now();
        let site = parts.address.site();
        let gateway = Gateway::new(gateway::Makings {
            store: parts.store.clone(),
            sessions: parts.sessions.clone(),
            providers: parts.providers.clone(),
            clock: Arc::clone(&parts.clock),
            pulls: Some(Arc::clone(&parts.outside) as _),
            settings: gateway::Settings {
                preview: Some(site.clone()),
                ..gateway::Settings::usual()
            },
        });
        let admission = Admission::new(
            parts.store.clone(),
            Arc::clone(&parts.vault),
            Arc::clone(&parts.clock),
        );
        let admission = Arc::new(admission);
        Self(Arc::new(Shared {
            parts,
            rate: Rate::new(),
            previews: Previews::new(gateway.clone(), site.clone(), Arc::clone(&admission) as _),
            admission,
            site,
            gateway,
            guests: Guests::default(),
            arriving: Arc::default(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            begun,
        }))
    }

    /// Where previews are.
    pub(crate) fn site(&self) -> &Site {
        &self.0.site
    }

    /// Sockets, event streams, terminals.
    pub(crate) fn gateway(&self) -> &Gateway {
        &self.0.gateway
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.0.admission
    }

    pub(crate) fn previews(&self) -> &Previews {
        &self.0.previews
    }

    /// Who has a socket open.
    pub(crate) fn guests(&self) -> &Guests {
        &self.0.guests
    }

    /// Somebody may have lost the right to be here: whoever has is sent away at once.
    pub(crate) async fn look_around(&self) {
        self.admission().forget();
        self.previews().look_again();
        self.guests().look(self).await;
    }

    /// Files that are on their way.
    pub(crate) fn arriving(&self) -> &Arc<Arriving> {
        &self.0.arriving
    }

    /// What is done beside requests.
    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.0.tasks
    }

    /// Whether the server ends: nobody new should come.
    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.0.stopping
    }

    pub(crate) fn uptime_ms(&self) -> u64 {
        let up = self.now().duration_since(self.0.begun);
        u64::try_from(up.as_millis()).unwrap_or(0)
    }

    pub(crate) fn store(&self) -> &Store {
        &self.parts.store
    }

    pub(crate) fn sessions(&self) -> &Sessions {
        &self.parts.sessions
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.parts.clock
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// A session that the caller's organisation has.
    pub(crate) async fn session(&self, caller: &Caller, id: &str) -> Answer<Record> {
        let id: Id<Session> = id.parse().map_err(|_| Problem::not_found("session"))?;
        let record = self.store().find_session(id).await?;
        record
            .filter(|record| record.organisation == caller.organisation)
            .ok_or_else(|| Problem::not_found("session"))
    }

    /// Its hub, taken up where nobody has it.
    pub(crate) async fn hub(&self, caller: &Caller, id: &str) -> Answer<Handle> {
        let record = self.session(caller, id).await?;
        Ok(self.sessions().open(record.id).await?)
    }

    pub(crate) fn provider(&self, name: &str) -> Answer<&Arc<dyn Provider>> {
        let mut providers = self.parts.providers.iter();
        providers
            .find(|provider| provider.name() == name)
            .ok_or_else(|| Problem::invalid(format!("no provider is called `{name}`")))
    }

    /// Who does what: for the transaction that does it.
    pub(crate) fn line(
        &self,
        caller: &Caller,
        action: &str,
        session: Option<Id<Session>>,
        body: &Value,
    ) -> Line {
        let mut body = body.clone();
        if let (Value::Object(body), Some(id)) = (&mut body, telemetry::current().request) {
            body.insert("request".to_owned(), id.to_string().into());
        }
        Line {
            id: Id::<Audit>::new(self.clock()),
            organisation: caller.organisation,
            session,
            actor: caller.actor(),
            action: action.to_owned(),
            target: None,
            body: body.to_string(),
            at: self.now(),
        }
    }

    /// Written down before it is done, where that is in no transaction of ours: what is done and not
    /// written down is worse than the other way round.
    pub(crate) async fn audit(
        &self,
        caller: &Caller,
        action: &str,
        session: Option<Id<Session>>,
        body: Value,
    ) -> Answer<()> {
        let line = self.line(caller, action, session, &body);
        let mut tx = self.store().begin().await?;
        tx.record(&line).await?;
        Ok(tx.commit().await?)
    }
}

pub(crate) fn read_spec(record: &Record) -> Answer<Spec> {
    serde_json::from_str(&record.spec).map_err(Problem::internal)
}

pub(crate) fn read_snapshot(text: &str) -> Answer<SnapshotId> {
    text.parse()
        .map_err(|_| Problem::not_found("snapshot of this session"))
}
