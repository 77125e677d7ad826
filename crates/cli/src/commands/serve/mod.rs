//! `nacre up` and `nacre serve`: sessions for people and programs, over HTTP.
//!
//! ```text
//!  lock ─► store ─► first owner ─► sessions taken up again ─► listening ─► … ─► signal
//!                                                                              │
//!          store closed ◄─ sessions let go, sandboxes run on ◄─ no more taken ◄┘
//! ```

mod home;
mod offer;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use camino::Utf8Path;
use jobs::Runner;
use model::{Clock as _, SystemClock};
use provider::Provider;
use provider_local::Local;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use serde_json::json;
use server::vault::Vault;
use server::{Address, Front, Outside, OutsideParts, Parts};
use sessions::{Expire, Makings, Sessions, Settings};
use store::{Config as StoreConfig, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::home::Lock;
use self::offer::Local as Offered;
use crate::app::App;
use crate::config::{self, Config, Server};
use crate::error::{CommandError, Kind};

/// Connections may take so long to finish what they are at.
const FAREWELL: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Listen there instead of at the configured address
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<std::net::SocketAddr>,
}

pub(crate) async fn up(app: &App, arguments: Arguments) -> Result<ExitCode, CommandError> {
    let running = Running::start(arguments).await?;
    let told = json!({ "url": running.origin(), "token_file": running.token_file });
    app.output.result(&told, || {
        format!(
            "Nacre is up at {}\nThe CLI uses the token in {}\nCtrl-C ends the server; sessions go on when it is started again.\n",
            running.origin(),
            running.token_file,
        )
    })?;
    running.until_told().await
}

pub(crate) async fn serve(_app: &App, arguments: Arguments) -> Result<ExitCode, CommandError> {
    let running = Running::start(arguments).await?;
    tracing::info!(address = running.origin(), "serving");
    running.until_told().await
}

/// A server that takes connections.
struct Running {
    address: Address,
    front: Front,
    token_file: String,
    store: Store,
    sessions: Sessions,
    tasks: TaskTracker,
    stop: CancellationToken,
    _lock: Lock,
}

impl Running {
    async fn start(arguments: Arguments) -> Result<Self, CommandError> {
        let mut config = config::load()?;
        if let Some(listen) = arguments.listen {
            config.server = config.server.listening_on(listen);
        }
        // Keys and secrets pass through our memory; where it crashes, nobody is to find them.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .context("memory cannot be kept out of core files")?;
        let lock = Lock::take(&config.home)?;
        let store = open_store(&config.home).await?;
        let clock = Arc::new(SystemClock);
        let token_file = home::first_owner(&config.home, &store, &*clock).await?;
        let vault = Vault::open(&config.home, clock.now()).context("the keys of secrets")?;
        let vault = Arc::new(vault);
        let local = Local::open(&config.local)?;
        let providers: Vec<Arc<dyn Provider>> = vec![Arc::new(local.clone())];
        let offer = Arc::new(Offered::new(&config.server, local));
        let uploads = config.home.join("uploads");
        let address = address_of(&config.server);
        let outside = Outside::new(OutsideParts {
            store: store.clone(),
            vault: Arc::clone(&vault),
            clock: clock.clone(),
            address: address.clone(),
            providers: providers.clone(),
            models: config.models.doors.clone(),
            git: config.git.clone(),
            keys: config.models.keys.clone(),
            default_model: config.models.default.clone(),
            uploads: uploads.clone(),
        });
        let outside = Arc::new(outside.context("the doors of sandboxes cannot be made")?);
        let sessions = Sessions::new(Makings {
            store: store.clone(),
            providers: providers.clone(),
            clock: clock.clone(),
            owner: lock.owner().to_owned(),
            outside: Arc::clone(&outside) as _,
            settings: settings(&config),
        });
        let listen = config.server.listen;
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            CommandError::new(
                Kind::Unavailable,
                format!("cannot listen on {listen}: {error}"),
            )
            .hint("another nacre may be up; `server.listen` chooses another port")
        })?;
        let front = Front::new(Parts {
            store: store.clone(),
            sessions: sessions.clone(),
            providers,
            clock: clock.clone(),
            address: address.clone(),
            offer,
            outside,
            vault,
            uploads,
        });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (serving, door) = (stop.clone(), front.clone());
        tasks.spawn(async move { door.serve(listener, serving).await });
        let (keeping, house) = (stop.clone(), front.clone());
        tasks.spawn(async move { house.keep_house(keeping).await });
        let jobs = Runner::new(
            store.clone(),
            Arc::new(sessions.clone()),
            clock,
            jobs::Config::usual(),
            "server",
        );
        tasks.spawn(jobs.with::<Expire>().run(stop.clone()));
        let sweeping = sessions.clone();
        tasks.spawn(async move {
            if let Err(error) = sweeping.reclaim().await {
                tracing::warn!(%error, "sessions cannot be taken up again yet");
            }
            sweeping.sweep().await;
        });
        Ok(Self {
            address,
            front,
            token_file: token_file.into_string(),
            store,
            sessions,
            tasks,
            stop,
            _lock: lock,
        })
    }

    fn origin(&self) -> String {
        self.address.origin()
    }

    /// Until a signal says so. Sandboxes run on, and the next start takes them up.
    async fn until_told(self) -> Result<ExitCode, CommandError> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        self.stop.cancel();
        // Sockets are told to come again before what they watch is let go.
        let _ = tokio::time::timeout(FAREWELL, self.front.shut_down()).await;
        self.sessions.shut_down().await;
        self.tasks.close();
        let _ = tokio::time::timeout(FAREWELL, self.tasks.wait()).await;
        self.store
            .close()
            .await
            .context("the database was not closed")?;
        Ok(ExitCode::SUCCESS)
    }
}

async fn open_store(home: &Utf8Path) -> Result<Store, CommandError> {
    let store = Store::open(&StoreConfig::new(config::database(home)?)).await;
    Ok(store.context("the database cannot be opened")?)
}

fn settings(config: &Config) -> Settings {
    let sessions = &config.server.sessions;
    Settings {
        idle: sessions.idle.0,
        idle_in_chats: sessions.idle_in_chats.0,
        paused: sessions.paused.0,
        ..Settings::usual()
    }
}

fn address_of(server: &Server) -> Address {
    Address {
        scheme: server.scheme.clone(),
        authority: server.authority.clone(),
        preview_domain: server.preview_domain.clone(),
        also: server.hosts.clone(),
    }
}
