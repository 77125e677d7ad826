//! `nacre up` and `nacre serve`: sessions for people and programs, over HTTP.
//!
//! ```text
//!  lock ─► store ─► first owner ─► sessions taken up again ─► listening ─► … ─► signal
//!                                                                              │
//!          store closed ◄─ sessions let go, sandboxes run on ◄─ no more taken ◄┘
//! ```

mod home;
mod offer;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
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
use server::vault::{Resealed, Vault};
use server::{Address, Front, Outside, OutsideParts, Parts, Role, Roles};
use sessions::{Expire, Makings, Sessions, Settings};
use store::{Config as StoreConfig, Location, Store};
use telemetry::Exporter;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::v1::Endpoint;

use self::home::Lock;
use self::offer::Local as Offered;
use super::{browser, login, models, remote};
use crate::app::App;
use crate::config::{self, Config, Server};
use crate::error::{CommandError, Kind};
use crate::output::Output;

/// Connections may take so long to finish what they are at.
const FAREWELL: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Listen there instead of at the configured address
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<std::net::SocketAddr>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  nacre up
  nacre up --no-open --listen 127.0.0.1:8080
  nacre up --json | jq -r .login_url   # for a script

At a terminal with a display the link is opened too, by what BROWSER names or by xdg-open.")]
pub(crate) struct UpArguments {
    #[command(flatten)]
    usual: Arguments,
    /// Only print the link for the browser
    #[arg(long)]
    no_open: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ServeArguments {
    #[command(flatten)]
    usual: Arguments,
    /// Do only a part: api, gateway, worker; needs a shared PostgreSQL
    #[arg(long = "role", value_name = "ROLE", value_delimiter = ',')]
    roles: Vec<Role>,
}

pub(crate) async fn up(app: &App, arguments: UpArguments) -> Result<ExitCode, CommandError> {
    let progress = app.output.progress("starting");
    let running = Running::start(arguments.usual, Roles::ALL).await?;
    drop(progress);
    let welcome = running.welcome().await;
    // Whoever reads that it is up may end it.
    let signals = Signals::listen()?;
    let told = json!({
        "url": running.origin(),
        "token_file": running.token_file,
        "login_url": welcome.link.as_ref().map(|link| &link.url),
    });
    app.output
        .result(&told, || welcome.text(&running.origin()))?;
    if let Some(link) = welcome.link.filter(|_| !arguments.no_open) {
        running.open(app.output, link.url);
    }
    running.until_told(signals).await
}

/// What somebody who has just started a server wants to know.
struct Welcome {
    link: Option<Endpoint>,
    advice: Option<&'static str>,
    has_base: bool,
}

impl Welcome {
    fn text(&self, origin: &str) -> String {
        let mut text = format!("Nacre is up at {origin}\n");
        if let Some(advice) = self.advice {
            let _ = write!(text, "\n{advice}");
        }
        if !self.has_base {
            text.push_str("\nSessions need a base first: nacre base build --slim\n");
        }
        text.push_str(
            "\nCtrl-C ends the server; sessions go on when it is started again.\n\
             In another terminal: nacre session new --prompt 'look around' --follow\n",
        );
        if let Some(link) = &self.link {
            let _ = write!(
                text,
                "\nOpen in a browser (good once, for ten minutes; `nacre login` makes another):\n{}\n",
                link.url
            );
        }
        text
    }
}

pub(crate) async fn serve(_app: &App, arguments: ServeArguments) -> Result<ExitCode, CommandError> {
    let roles = match &arguments.roles[..] {
        [] => Roles::ALL,
        some => Roles::of(some),
    };
    let running = Running::start(arguments.usual, roles).await?;
    let signals = Signals::listen()?;
    tracing::info!(address = running.origin(), "serving");
    running.until_told(signals).await
}

/// A new key for every secret. Nobody may serve this home meanwhile: they would not know the key.
pub(crate) async fn rotate_keys() -> Result<Resealed, CommandError> {
    let home = config::load()?.home;
    let _lock = Lock::take(&home)?;
    let store = open_store(&home).await?;
    let now = SystemClock.now();
    let vault = Vault::open(&home, now).context("the keys of secrets")?;
    let rotated = vault.rotate(&store, now).await;
    store.close().await.context("the database was not closed")?;
    Ok(rotated.context("the secrets cannot be sealed anew")?)
}

/// A server that takes connections.
struct Running {
    address: Address,
    front: Front,
    token_file: String,
    /// As programs on this machine reach it.
    url: String,
    has_base: bool,
    store: Store,
    sessions: Sessions,
    tasks: TaskTracker,
    stop: CancellationToken,
    exporter: Option<Exporter>,
    _lock: Lock,
}

impl Running {
    async fn start(arguments: Arguments, roles: Roles) -> Result<Self, CommandError> {
        let mut config = config::load()?;
        can_be_shared(&config, roles)?;
        if let Some(listen) = arguments.listen {
            config.server = config.server.listening_on(listen);
        }
        // Keys and secrets pass through our memory; where it crashes, nobody is to find them.
        set_dumpable_behavior(DumpableBehavior::NotDumpable)
            .context("memory cannot be kept out of core files")?;
        let lock = Lock::take(&config.home)?;
        let exporter = start_telemetry(&config, lock.owner())?;
        let store = open_store(&config.home).await?;
        let clock = Arc::new(SystemClock);
        let token_file = home::first_owner(&config.home, &store, &*clock).await?;
        let vault = Vault::open(&config.home, clock.now()).context("the keys of secrets")?;
        let vault = Arc::new(vault);
        let local = Local::open(&config.local)?;
        let providers: Vec<Arc<dyn Provider>> = vec![Arc::new(local.clone())];
        let has_base = local.find_snapshot("base").is_ok();
        let around = config::surroundings(&config)?;
        let machine = config.local.clone();
        let offer = Arc::new(Offered::new(&config.server, local, machine, around));
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
            settings: settings(&config, roles),
        });
        let listen = config.server.listen;
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            CommandError::new(
                Kind::Unavailable,
                format!("cannot listen on {listen}: {error}"),
            )
            .hint("another nacre may be up; `server.listen` chooses another port")
        })?;
        let url = url_of(listener.local_addr()?);
        home::leave_url(&config.home, &url)?;
        let front = Front::new(Parts {
            store: store.clone(),
            sessions: sessions.clone(),
            providers,
            clock,
            address: address.clone(),
            offer,
            outside,
            vault,
            uploads,
            roles,
        });
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let (serving, door) = (stop.clone(), front.clone());
        tasks.spawn(async move { door.serve(listener, serving).await });
        let (keeping, house) = (stop.clone(), front.clone());
        tasks.spawn(async move { house.keep_house(keeping).await });
        start_jobs(&tasks, &stop, roles, &store, &sessions);
        let sweeping = sessions.clone();
        tasks.spawn(async move {
            if roles.gateway
                && let Err(error) = sweeping.reclaim().await
            {
                tracing::warn!(%error, "sessions cannot be taken up again yet");
            }
            sweeping.sweep().await;
        });
        Ok(Self {
            address,
            front,
            token_file: token_file.into_string(),
            url,
            has_base,
            store,
            sessions,
            tasks,
            stop,
            exporter,
            _lock: lock,
        })
    }

    /// Asks the server that runs now, as any client does. What it does not answer is not said.
    async fn welcome(&self) -> Welcome {
        let client = remote::connect_to(&self.url, &self.token_file);
        let (link, advice) = match &client {
            Ok(client) => (login::link(client).await.ok(), models::advice(client).await),
            Err(_) => (None, None),
        };
        Welcome {
            link,
            advice,
            has_base: self.has_base,
        }
    }

    fn origin(&self) -> String {
        self.address.origin()
    }

    /// For whoever sees a browser here. Where none opens, the link is printed already.
    fn open(&self, output: Output, url: String) {
        let desktop = config::desktop();
        let at_terminal = !output.is_json() && io::stdout().is_terminal();
        if !browser::is_near(&desktop, at_terminal) {
            return;
        }
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let opened = browser::open(&desktop, &url);
            if stop.run_until_cancelled(opened).await == Some(true) {
                output.aside("· opened in your browser; --no-open leaves that to you");
            }
        });
    }

    /// Until a signal says so. Sandboxes run on, and the next start takes them up.
    async fn until_told(self, mut signals: Signals) -> Result<ExitCode, CommandError> {
        tokio::select! {
            _ = signals.terminate.recv() => {}
            _ = signals.interrupt.recv() => {}
        }
        self.stop.cancel();
        // Sockets are told to come again before what they watch is let go.
        let _ = tokio::time::timeout(FAREWELL, self.front.shut_down()).await;
        self.sessions.shut_down().await;
        self.tasks.close();
        let _ = tokio::time::timeout(FAREWELL, self.tasks.wait()).await;
        let _ = tokio::time::timeout(FAREWELL, self.front.flush()).await;
        self.store
            .close()
            .await
            .context("the database was not closed")?;
        if let Some(exporter) = self.exporter {
            exporter.finish().await;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What ends a server. From now on they end nothing else.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

/// What there is to do takes a session up, which is the gateway's.
fn start_jobs(
    tasks: &TaskTracker,
    stop: &CancellationToken,
    roles: Roles,
    store: &Store,
    sessions: &Sessions,
) {
    if !roles.worker || !roles.gateway {
        return;
    }
    let jobs = Runner::new(
        store.clone(),
        Arc::new(sessions.clone()),
        Arc::new(SystemClock),
        jobs::Config::usual(),
        "server",
    );
    tasks.spawn(jobs.with::<Expire>().run(stop.clone()));
}

/// The lock of the home keeps everybody else from a database that is a file in it, so nobody could
/// do the rest.
fn can_be_shared(config: &Config, roles: Roles) -> Result<(), CommandError> {
    let is_file = matches!(config::database(&config.home)?, Location::File(_));
    if roles == Roles::ALL || !is_file {
        return Ok(());
    }
    Err(CommandError::usage(
        "a process with some of the roles needs a database that others share, and SQLite is a file",
    )
    .hint("leave out --role, or name a PostgreSQL in NACRE_DATABASE_URL"))
}

fn start_telemetry(config: &Config, instance: &str) -> Result<Option<Exporter>, CommandError> {
    let Some(settings) = &config.telemetry else {
        return Ok(None);
    };
    let started = telemetry::start(telemetry::Settings {
        endpoint: settings.endpoint.clone(),
        headers: settings.headers.clone(),
        service: "nacre".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: instance.to_owned(),
    });
    Ok(Some(started.context("spans cannot be sent")?))
}

async fn open_store(home: &Utf8Path) -> Result<Store, CommandError> {
    let store = Store::open(&StoreConfig::new(config::database(home)?)).await;
    Ok(store.context("the database cannot be opened")?)
}

fn settings(config: &Config, roles: Roles) -> Settings {
    let sessions = &config.server.sessions;
    Settings {
        idle: sessions.idle.0,
        idle_in_chats: sessions.idle_in_chats.0,
        paused: sessions.paused.0,
        snapshots: sessions.snapshots,
        takes_up: roles.gateway,
        tends: roles.worker,
        ..Settings::usual()
    }
}

/// Of a server that listens on every address, the nearest.
fn url_of(listen: SocketAddr) -> String {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    format!("http://{}", SocketAddr::new(ip, listen.port()))
}

fn address_of(server: &Server) -> Address {
    Address {
        scheme: server.scheme.clone(),
        authority: server.authority.clone(),
        preview_domain: server.preview_domain.clone(),
        also: server.hosts.clone(),
    }
}
