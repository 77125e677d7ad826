use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use camino_tempfile::Utf8TempDir;
use model::session::Lifecycle;
use model::{Clock as _, Id, Organisation, Session, SystemClock};
use nacre_gateway::preview::Site;
use nacre_gateway::{
    Caller, Gateway, Leave, Makings, PullResult, Pulls, Settings, WantedPull, Watched,
};
use provider::fake::Fake;
use sessions::{Handle, Sessions};
use store::sessions::{Channel, NewSession, Type};
use store::{Config, Store};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use wire::v1::Role;

/// A store, a provider, sessions, and a gateway to them.
pub(crate) struct World {
    _directory: Utf8TempDir,
    pub(crate) store: Store,
    pub(crate) fake: Fake,
    pub(crate) sessions: Sessions,
    pub(crate) gateway: Gateway,
    pub(crate) organisation: Id<Organisation>,
    /// Clients so far.
    pub(crate) connected: usize,
    /// What the world does beside the test.
    pub(crate) tasks: JoinSet<()>,
}

/// Whose only pull request is called `t`.
#[derive(Debug)]
struct OneForge;

#[async_trait]
impl Pulls for OneForge {
    async fn open(&self, _session: &Handle, caller: &Caller, wanted: WantedPull) -> PullResult {
        let is_good = wanted.title == "t";
        PullResult {
            success: is_good,
            code: if is_good { "SUCCESS" } else { "AUTH_FAILED" },
            message: format!("asked by {}", caller.name),
            pr_url: is_good.then(|| "https://git.example/a/b/pull/1".to_owned()),
        }
    }
}

pub(crate) fn site() -> Site {
    Site {
        domain: "preview.nacre.localhost".to_owned(),
        port: Some(7070),
        is_https: false,
    }
}

pub(crate) fn caller(name: &str, role: Role) -> Caller {
    Caller {
        id: format!("usr_{name}"),
        name: name.to_owned(),
        email: None,
        role,
        audited: None,
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::usual()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        Self::set(settings, Duration::from_secs(30)).await
    }

    /// Whose sessions are soon anybody's.
    pub(crate) async fn with_short_lease() -> Self {
        Self::set(Settings::usual(), SHORT).await
    }

    async fn set(mut settings: Settings, lease: Duration) -> Self {
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
        let fake = Fake::builder().build();
        let providers: Vec<Arc<dyn provider::Provider>> = vec![Arc::new(fake.clone())];
        let sessions = process(&store, &fake, "first", lease);
        settings.preview = Some(site());
        let gateway = Gateway::new(Makings {
            store: store.clone(),
            sessions: sessions.clone(),
            providers,
            clock: Arc::new(SystemClock),
            pulls: Some(Arc::new(OneForge)),
            settings,
        });
        Self {
            _directory: directory,
            store,
            fake,
            sessions,
            gateway,
            organisation,
            connected: 0,
            tasks: JoinSet::new(),
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

    /// One that runs.
    pub(crate) async fn running(&self) -> Handle {
        let handle = self.sessions.open(self.record().await).await.unwrap();
        handle.ensure_ready().await.unwrap();
        handle
    }

    /// Another process on the same store and provider.
    pub(crate) fn another(&self, owner: &str) -> Sessions {
        process(&self.store, &self.fake, owner, Duration::from_secs(30))
    }

    /// Nobody renews it here.
    pub(crate) async fn let_lease_run_out(&self) {
        tokio::time::sleep(SHORT + Duration::from_millis(100)).await;
    }

    /// A client's end of a socket that is served, with hardly any room on the way.
    pub(crate) async fn narrow(&mut self, watched: Watched, way: Way) -> Box<dyn Io> {
        match way {
            Way::Duplex => Box::new(self.wire(watched, 4 << 10).await),
            Way::Tcp => Box::new(self.tcp(watched, 4 << 10).await),
        }
    }

    pub(crate) async fn tcp(&mut self, watched: Watched, buffer: u32) -> TcpStream {
        let seat = self
            .gateway
            .take_seat(watched.session, &watched.caller)
            .await
            .unwrap();
        let (listening, dialling) = (TcpSocket::new_v4().unwrap(), TcpSocket::new_v4().unwrap());
        listening.set_send_buffer_size(buffer).unwrap();
        dialling.set_recv_buffer_size(buffer).unwrap();
        listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = listening.listen(1).unwrap();
        let to = listener.local_addr().unwrap();
        let (ours, theirs) = tokio::join!(dialling.connect(to), listener.accept());
        let gateway = self.gateway.clone();
        self.tasks.spawn(async move {
            let (stream, _) = theirs.unwrap();
            gateway.serve_tcp(stream, &[], watched, seat).await;
        });
        ours.unwrap()
    }

    /// A client's end of a socket that is served, without anything between.
    pub(crate) async fn wire(&mut self, watched: Watched, buffer: usize) -> DuplexStream {
        let seat = self
            .gateway
            .take_seat(watched.session, &watched.caller)
            .await
            .unwrap();
        let (ours, theirs) = tokio::io::duplex(buffer);
        let gateway = self.gateway.clone();
        self.tasks.spawn(async move {
            let (reader, writer) = tokio::io::split(theirs);
            gateway.serve(reader, writer, &[], watched, seat).await;
        });
        ours
    }
}

const SHORT: Duration = Duration::from_secs(1);

fn process(store: &Store, fake: &Fake, owner: &str, lease: Duration) -> Sessions {
    Sessions::new(sessions::Makings {
        store: store.clone(),
        providers: vec![Arc::new(fake.clone())],
        clock: Arc::new(SystemClock),
        owner: owner.to_owned(),
        outside: Arc::new(sessions::Nothing),
        settings: sessions::Settings {
            lease,
            retries: [Duration::from_millis(10)].into(),
            ..sessions::Settings::usual()
        },
    })
}

/// A client's connection.
pub(crate) trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// By which of two ways a client is served.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    Duplex,
    /// The feed writes to it by itself.
    Tcp,
}

pub(crate) fn watched(session: Id<Session>, since: Option<u64>) -> Watched {
    Watched {
        session,
        caller: caller("ada", Role::Member),
        since,
        resume: false,
        leave: Leave::default(),
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
