//! A gateway with everything behind it.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use camino_tempfile::Utf8TempDir;
use hyper::{Method, Response};
use model::{Clock as _, ManualClock, Secret, SignedDuration, Timestamp};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use wire::keys::token::Audience;
use wire::keys::{Key, Purpose, code, token};
use wire::workplace::Order;
use workplace::gateway::{
    Access, Gateway, Handler, Limits, Notice, Origins, Route, Settings, Socket,
};
use workplace::tunnels::Tunnels;

use super::ask::Ask;
use super::backend;

pub(super) const SECRET: &str = "the secret of this generation";
pub(super) const SESSION: &str = "ses_1";
pub(super) const AGENT_PASSWORD: &str = "agent-password";

pub(super) struct World {
    pub(super) address: SocketAddr,
    /// Where the echo backend listens.
    pub(super) echo: u16,
    pub(super) clock: Arc<ManualClock>,
    pub(super) tunnels: Tunnels,
    pub(super) notices: Rc<RefCell<Vec<Notice>>>,
    pub(super) links: mpsc::Receiver<Socket>,
    pub(super) used: watch::Receiver<Option<Timestamp>>,
    pub(super) agent: watch::Sender<Option<Secret>>,
    pub(super) tasks: JoinSet<()>,
    /// How Ada is let in; by token if not by this cookie.
    adas_cookie: Option<String>,
    _directory: Utf8TempDir,
}

pub(super) struct Setup {
    pub(super) secret: Option<&'static str>,
    pub(super) limits: Limits,
}

impl Setup {
    pub(super) fn usual() -> Self {
        Self {
            secret: Some(SECRET),
            limits: Limits::usual(),
        }
    }
}

/// Runs a test against a gateway of its own.
pub(super) fn with_gateway(test: impl AsyncFnOnce(World)) {
    with(Setup::usual(), test);
}

/// Runs a test twice: Ada comes with a token, and with the cookie that she got for it. Her plain
/// requests go two ways through the gateway, and nobody must be able to tell.
pub(super) fn with_either(test: impl AsyncFn(World)) {
    with_either_of(Setup::usual, test);
}

pub(super) fn with_either_of(setup: impl Fn() -> Setup, test: impl AsyncFn(World)) {
    with(setup(), &test);
    with(setup(), async |mut world: World| {
        world.adas_cookie = Some(world.cookie().await);
        test(world).await;
    });
}

pub(super) fn with(setup: Setup, test: impl AsyncFnOnce(World)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let test = async { test(World::new(setup).await).await };
        let limit = Duration::from_mins(1);
        tokio::time::timeout(limit, test)
            .await
            .expect("the test takes too long");
    });
}

impl World {
    async fn new(setup: Setup) -> Self {
        let mut tasks = JoinSet::new();
        let echo = backend::start(&mut tasks).await;
        let clock = Arc::new(ManualClock::starting_at(
            Timestamp::from_second(1_800_000_000).unwrap(),
        ));
        let directory = camino_tempfile::tempdir().unwrap();
        let (tunnels, _) = Tunnels::open(directory.path().as_std_path(), &[]);
        let (agent, password) = watch::channel(Some(Secret::new(AGENT_PASSWORD)));
        let (link, links) = mpsc::channel(1);
        let notices = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&notices);
        let origins = Origins::default();
        origins.set(&["https://nacre.example".to_owned()]);
        let gateway = Gateway::new(Settings {
            access: Access::of(&order(setup.secret)),
            routes: vec![
                Route::editor(echo),
                Route::desktop(echo),
                Route::agent(echo, password),
                Route::terminal(Rc::new(Shell)),
                Route::tunnels(tunnels.clone()),
                Route::link(link),
            ],
            origins,
            clock: clock.clone(),
            limits: setup.limits,
            log: Rc::new(move |notice| log.borrow_mut().push(notice)),
        });
        let used = gateway.used();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tasks.spawn_local(async move {
            gateway.serve(listener).await;
        });
        Self {
            address,
            echo,
            clock,
            tunnels,
            notices,
            links,
            used,
            agent,
            tasks,
            adas_cookie: None,
            _directory: directory,
        }
    }

    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_second()).unwrap()
    }

    pub(super) fn wait(&self, seconds: u64) {
        let seconds = i64::try_from(seconds).unwrap();
        self.clock.advance(SignedDuration::from_secs(seconds));
    }

    pub(super) fn claims(&self) -> token::Claims {
        token::Claims::new("ada", SESSION, Audience::Gateway, self.now())
    }

    pub(super) fn token(&self) -> String {
        self.token_of("ada")
    }

    pub(super) fn token_of(&self, user: &str) -> String {
        token::Claims::new(user, SESSION, Audience::Gateway, self.now()).sign(&token_key())
    }

    pub(super) fn link_token(&self) -> String {
        token::Claims::new("hub", SESSION, Audience::Link, self.now()).sign(&token_key())
    }

    pub(super) fn code(&self, path: &str) -> String {
        thread_local!(static NONCE: std::cell::Cell<u128> = const { std::cell::Cell::new(0) });
        let nonce = NONCE.replace(NONCE.get() + 1).to_be_bytes();
        code::Claims::new("ada", SESSION, path, nonce, self.now()).sign(&code_key())
    }

    pub(super) fn get(&self, path: &str) -> Ask {
        self.ask(Method::GET, path)
    }

    pub(super) fn ask(&self, method: Method, path: &str) -> Ask {
        Ask::new(self.address, method, path)
    }

    /// A request that is let in.
    pub(super) fn get_as_ada(&self, path: &str) -> Ask {
        let (name, value) = self.adas_header();
        self.get(path).header(name, &value)
    }

    pub(super) fn adas_header(&self) -> (&'static str, String) {
        match &self.adas_cookie {
            Some(cookie) => ("cookie", format!("__Host-gateway_session={cookie}")),
            None => ("authorization", format!("Bearer {}", self.token())),
        }
    }

    /// A cookie, as a browser gets it.
    pub(super) async fn cookie(&self) -> String {
        let ask = self.get("/vscode/").bearer(&self.token());
        ask.send().await.cookie()
    }

    pub(super) fn log(&self) -> String {
        let notices = self.notices.borrow();
        let lines: Vec<String> = notices.iter().map(ToString::to_string).collect();
        lines.join("\n")
    }
}

pub(super) fn token_key() -> Key {
    Key::derive(SECRET, Purpose::Token).unwrap()
}

pub(super) fn code_key() -> Key {
    Key::derive(SECRET, Purpose::Code).unwrap()
}

fn order(secret: Option<&str>) -> Order {
    Order {
        sandbox: "sbx_1".to_owned(),
        generation: 1,
        boot: "boot_1".to_owned(),
        session: Some(SESSION.to_owned()),
        link: None,
        secret: secret.map(str::to_owned),
        journal_key: None,
    }
}

/// A terminal that says what is typed.
#[derive(Debug)]
struct Shell;

impl Handler for Shell {
    fn protocol(&self) -> &'static str {
        "tty"
    }

    fn answer(&self, method: &Method, path: &str) -> Response<Bytes> {
        Response::new(format!("{method} {path}").into())
    }

    fn serve(&self, mut socket: Socket) -> std::pin::Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(async move {
            if socket.path == "/whoami" {
                socket
                    .stream
                    .write_all(socket.user.as_bytes())
                    .await
                    .unwrap();
                return;
            }
            backend::echo_socket(socket.stream).await;
        })
    }
}
