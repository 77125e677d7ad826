use std::sync::Arc;
use std::time::Duration;

use camino_tempfile::Utf8TempDir;
use model::session::Lifecycle;
use model::{Clock as _, Id, Organisation, Session, SystemClock};
use nacre_sessions::{Handle, HubError, Makings, Outside, Sessions, Settings};
use provider::fake::Fake;
use provider::{FileEvent, Provider, SandboxId};

use store::sessions::{Channel, NewSession, Type};
use store::{Config, Replay, Store};
use tokio::task::JoinSet;

/// A store, a provider, and a process that has sessions.
pub(crate) struct World {
    _directory: Utf8TempDir,
    pub(crate) store: Store,
    pub(crate) fake: Fake,
    pub(crate) sessions: Sessions,
    organisation: Id<Organisation>,
    renewing: JoinSet<()>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Fake::builder().build()).await
    }

    pub(crate) async fn with(fake: Fake) -> Self {
        Self::set(fake, quick()).await
    }

    pub(crate) async fn set(fake: Fake, settings: Settings) -> Self {
        let directory = camino_tempfile::tempdir().unwrap();
        let location = format!("sqlite:{}", directory.path().join("nacre.db"));
        let store = Store::open(&Config::new(location.parse().unwrap()))
            .await
            .unwrap();
        let organisation = Id::new(&SystemClock);
        let mut tx = store.begin().await.unwrap();
        tx.create_organisation(organisation, "ours", SystemClock.now())
            .await
            .unwrap();
        tx.commit().await.unwrap();
        let sessions = process(&store, Arc::new(fake.clone()), "first", settings);
        let mut renewing = JoinSet::new();
        renewing.spawn(renew(sessions.clone()));
        Self {
            _directory: directory,
            store,
            fake,
            sessions,
            organisation,
            renewing,
        }
    }

    /// As one that stands still.
    pub(crate) async fn stop_renewing(&mut self) {
        self.renewing.shutdown().await;
    }

    /// Another process on the same store and provider.
    pub(crate) fn another(&self, owner: &str) -> Sessions {
        process(&self.store, Arc::new(self.fake.clone()), owner, quick())
    }

    /// Another process, whose sandboxes find that outside.
    pub(crate) fn with_outside(&self, owner: &str, outside: Arc<dyn Outside>) -> Sessions {
        Sessions::new(Makings {
            store: self.store.clone(),
            providers: vec![Arc::new(self.fake.clone())],
            clock: Arc::new(SystemClock),
            owner: owner.to_owned(),
            outside,
            settings: Settings {
                lease: Duration::from_hours(1),
                ..quick()
            },
        })
    }

    /// A process that can be killed, on a provider of its own making.
    pub(crate) fn process(&self, owner: &str, provider: Arc<dyn Provider>) -> Process {
        self.process_with(owner, provider, quick())
    }

    pub(crate) fn process_with(
        &self,
        owner: &str,
        provider: Arc<dyn Provider>,
        settings: Settings,
    ) -> Process {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let sessions = process(&self.store, provider, owner, settings);
        runtime.spawn(renew(sessions.clone()));
        Process {
            sessions,
            runtime: Some(runtime),
        }
    }

    pub(crate) async fn record(&self) -> Id<Session> {
        let id = Id::new(&SystemClock);
        let new = NewSession {
            id,
            organisation: self.organisation,
            created_by: None,
            parent: None,
            title: "a session".to_owned(),
            r#type: Type::Coding,
            channel: Channel::Api,
            provider: "fake".to_owned(),
            spec: "{}".to_owned(),
            state: (&Lifecycle::new()).into(),
            at: SystemClock.now(),
        };
        let mut tx = self.store.begin().await.unwrap();
        tx.create_session(&new).await.unwrap();
        tx.commit().await.unwrap();
        id
    }

    pub(crate) async fn session(&self) -> Handle {
        let id = self.record().await;
        self.sessions.open(id).await.unwrap()
    }

    /// What clients were told, in order.
    pub(crate) async fn history(&self, session: Id<Session>) -> String {
        let replay = self.store.events_after(session, 0, 1000).await.unwrap();
        let Replay::Events { events, .. } = replay else {
            panic!("{replay:?}");
        };
        let statuses: Vec<String> = events
            .iter()
            .filter(|event| event.kind == "status")
            .map(|event| serde_json::from_str(&event.body).unwrap())
            .filter(|body: &serde_json::Value| body["phase"].is_null())
            .map(|body| body["status"].as_str().unwrap().to_owned())
            .collect();
        statuses.join(" > ")
    }

    /// Events of one kind, in order.
    pub(crate) async fn told(&self, session: Id<Session>, kind: &str) -> Vec<serde_json::Value> {
        let replay = self.store.events_after(session, 0, 1000).await.unwrap();
        let Replay::Events { events, .. } = replay else {
            panic!("{replay:?}");
        };
        let of_kind = events.iter().filter(|event| event.kind == kind);
        of_kind
            .map(|event| serde_json::from_str(&event.body).unwrap())
            .collect()
    }

    /// A file of the workspace.
    pub(crate) async fn read(&self, sandbox: SandboxId, path: &str) -> String {
        let path = format!("{}/{path}", wire::workplace::WORKSPACE);
        let read = self.fake.read_files(sandbox, path.as_bytes(), None).await;
        let (mut files, mut content) = (read.unwrap(), Vec::new());
        while let Some(event) = files.recv().await {
            if let FileEvent::Data(data) = event.unwrap() {
                content.extend_from_slice(&data);
            }
        }
        String::from_utf8(content).unwrap()
    }

    /// The sandboxes that there are, of all sessions.
    pub(crate) async fn sandboxes(&self) -> Vec<provider::Sandbox> {
        provider::Provider::list(&self.fake, &[]).await.unwrap()
    }
}

/// Sessions whose tasks all end where they are when it is killed.
pub(crate) struct Process {
    sessions: Sessions,
    /// None once it is killed.
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Process {
    pub(crate) async fn open(&self, session: Id<Session>) -> Result<Handle, HubError> {
        let sessions = self.sessions.clone();
        self.run(async move { sessions.open(session).await }).await
    }

    pub(crate) async fn fork(&self, session: Id<Session>) -> Id<Session> {
        let sessions = self.sessions.clone();
        self.run(async move { sessions.fork(session, None, None).await.unwrap() })
            .await
    }

    pub(crate) async fn adopt(&self) -> usize {
        let sessions = self.sessions.clone();
        self.run(async move { sessions.adopt().await.unwrap() })
            .await
    }

    pub(crate) async fn reclaim(&self) -> usize {
        let sessions = self.sessions.clone();
        self.run(async move { sessions.reclaim().await.unwrap() })
            .await
    }

    pub(crate) async fn seal_orphans(&self) {
        let sessions = self.sessions.clone();
        self.run(async move { sessions.seal_orphans().await }).await;
    }

    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        self.runtime.as_ref().unwrap().spawn(work).await.unwrap()
    }
}

/// Keeps what it owns, for as long as it lives.
async fn renew(sessions: Sessions) {
    loop {
        // One that was taken over, or shut down, has nothing to renew.
        let _ = sessions.renew().await;
        tokio::time::sleep(Duration::from_millis(40)).await;
    }
}

fn process(
    store: &Store,
    provider: Arc<dyn Provider>,
    owner: &str,
    settings: Settings,
) -> Sessions {
    Sessions::new(Makings {
        store: store.clone(),
        providers: vec![provider],
        clock: Arc::new(SystemClock),
        owner: owner.to_owned(),
        outside: Arc::new(nacre_sessions::Nothing),
        settings,
    })
}

/// Leases that run out, and calls that are given up, while a test waits for it.
pub(crate) fn quick() -> Settings {
    Settings {
        lease: Duration::from_millis(200),
        call: Duration::from_millis(200),
        retries: [Duration::from_millis(10)].into(),
        ..Settings::usual()
    }
}

/// Waits for what comes about by itself.
pub(crate) async fn within<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .is_err()
    {
        panic!("{what} did not come about");
    }
}
