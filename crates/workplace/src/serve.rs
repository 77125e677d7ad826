//! Everything put together: made in the order in which it is needed, and run side by side.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use model::{Clock, Redactor, Secret, SystemClock};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use wire::keys;
use wire::workplace::{
    AGENT_PORT, DESKTOP_PORT, DEVTOOLS_PORT, EDITOR_PORT, GATEWAY_PORT, GIT_PORT, Link, MODEL_PORT,
    Order, PREVIEW_PORT,
};

use crate::boot::{Programs, Reload, Site};
use crate::command::{exec_as, run};
use crate::devtools::{self, Others, Token, Tools};
use crate::display::Display;
use crate::doors;
use crate::files::Files;
use crate::gateway::{Access, Gateway, Limits, Notice, Origins, Route, Socket};
use crate::hands::{Hands, HandsError};
use crate::inside;
use crate::link::{self, Handle};
use crate::office::Office;
use crate::own_log;
use crate::place::Place;
use crate::reports::Reports;
use crate::services::Services;
use crate::tools::Bench;
use crate::tunnels::Tunnels;
use crate::wiring::Screen;

const LAST_WORDS: Duration = Duration::from_millis(100);
/// Of [`wire::workplace::USER`], in every base.
const USER_ID: u32 = 1000;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the order cannot be taken")]
    Order(#[source] HandsError),
    #[error("the workplace's own directory cannot be made: {0}")]
    State(String),
    #[error("port {port} cannot be listened on")]
    Listen { port: u16, source: io::Error },
    #[error("{} cannot be listened on", inside::PATH)]
    Socket(#[source] io::Error),
    #[error("the signal to end cannot be heard")]
    Signal(#[source] io::Error),
    #[error("the link cannot be set up")]
    Link(#[from] link::SetupError),
}

/// Works until PID 1 is gone, or asks it to end. To be run inside a [`tokio::task::LocalSet`].
pub async fn serve(hands: Hands, order: Order) -> Result<(), ServeError> {
    let asked_to_end = signal(SignalKind::terminate()).map_err(ServeError::Signal)?;
    let place = Place::standard();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let hands = Rc::new(hands);
    make_state(&hands, &place).await?;
    let (password, tools_token, model_token) = (random(), random(), random());
    let ours = [&password, &tools_token, &model_token];
    own_log::begin(
        own_log::path(&place.state),
        Arc::clone(&clock),
        redactor(&order, ours),
    );
    tracing::info!(order = ?order, "the workplace starts");
    let mut tasks = JoinSet::new();

    let (link, hears) = match &order.link {
        Some(_) => {
            let own = Arc::new(hands.again().map_err(ServeError::Order)?);
            let (link, handle, hears) = link::from_order(&order, &own, place.state.as_std_path())?;
            tasks.spawn_local(link.run());
            (Some(handle), Some(hears))
        }
        None => (None, None),
    };

    let (tunnels, dropped) = Tunnels::open(place.state.as_std_path(), &[]);
    let reload = Reload {
        hands: Rc::clone(&hands),
        place: place.clone(),
        tasks: TaskTracker::new(),
    };
    let others = Others {
        preview: Rc::new(reload),
        tunnels: Rc::new(tunnels.clone()),
        hub: match &link {
            Some(link) => Rc::new(link.clone()),
            None => Rc::new(()),
        },
        git: Vec::new(),
    };
    let tools = Tools::new(&hands, &place, &clock, others);
    let watching = Rc::clone(&tools);
    tasks.spawn_local(async move { watching.ports.watch().await });
    serve_tools(&tools, &order, &mut tasks).await?;
    let (told_password, agent_password) = watch::channel(Some(password.clone()));

    let origins = Origins::default();
    let gateway = Gateway::new(crate::gateway::Settings {
        access: Access::of(&order),
        routes: routes(
            Screen::new(&tools.terminals, &origins),
            &tunnels,
            agent_password,
            link.as_ref(),
            &mut tasks,
        ),
        origins: origins.clone(),
        clock: Arc::clone(&clock),
        limits: Limits::usual(),
        log: Rc::new(|notice: Notice| tracing::info!("{notice}")),
    });
    let listener = listen(Ipv4Addr::UNSPECIFIED, GATEWAY_PORT).await?;
    tasks.spawn_local(note_use(gateway.used(), tools.services.clone()));
    tasks.spawn_local(async move {
        gateway.serve(listener).await;
    });
    for (port, door) in [(MODEL_PORT, "model"), (GIT_PORT, "git")] {
        tasks.spawn_local(doors::lead(port, door));
    }

    let display = Display::new(Rc::clone(&hands), &place);
    let site = Site {
        files: Files::below(Rc::clone(&hands), place.home.clone(), &place.user),
        git: tools.git.clone(),
        env: Rc::clone(&tools.env),
        programs: Rc::new(Programs::new(Rc::clone(&hands), &place, Arc::clone(&clock))),
        services: tools.services.clone(),
        terminals: tools.terminals.clone(),
        hands,
        place,
        clock,
        password,
        tools_token,
        model_token,
    };
    let bench = Bench {
        services: tools.services.clone(),
        tunnels: tunnels.clone(),
        files: tools.files.clone(),
        display,
        link: link.clone(),
    };
    let ending = link.clone();
    if let (Some(link), Some(hears)) = (link, hears) {
        let reports = Reports::new(link, &tools, tunnels, &site.place, Arc::clone(&site.clock));
        let office = Office::new(site, bench, reports, dropped, origins, &mut tasks);
        tasks.spawn_local(office.run(hears));
    }
    // Whoever is shown the agent may ask for its password for as long as we live.
    let _told_password = told_password;
    work_until(asked_to_end, tasks, ending).await;
    Ok(())
}

async fn work_until(mut asked_to_end: Signal, mut tasks: JoinSet<()>, link: Option<Handle>) {
    loop {
        tokio::select! {
            Some(_) = tasks.join_next() => {}
            _ = asked_to_end.recv() => break,
        }
    }
    if let Some(link) = link {
        link.shut_down().await;
        // Whoever waited has been answered; the answers are on their way.
        tokio::time::sleep(LAST_WORDS).await;
    }
}

/// What must be in no line of the log: what the host gave us, and what we made.
fn redactor(order: &Order, ours: [&Secret; 3]) -> Redactor {
    let token = match &order.link {
        Some(Link::Dial { token, .. }) => Some(token.clone()),
        _ => None,
    };
    let bearer = order.secret.as_deref().and_then(keys::devtools_bearer);
    let given = [
        order.secret.clone(),
        order.journal_key.clone(),
        token,
        bearer,
    ];
    let given: Vec<String> = given.into_iter().flatten().collect();
    let ours = ours.map(Secret::expose);
    Redactor::new(given.iter().map(String::as_str).chain(ours))
}

/// Whoever comes in through the gateway has a use for what runs here.
async fn note_use(mut used: watch::Receiver<Option<jiff::Timestamp>>, services: Services) {
    while used.changed().await.is_ok() {
        services.served();
    }
}

/// At the port for whoever has the token, and at the socket for the sandbox's own user.
async fn serve_tools(
    tools: &Rc<Tools>,
    order: &Order,
    tasks: &mut JoinSet<()>,
) -> Result<(), ServeError> {
    let token = order.secret.as_deref().and_then(keys::devtools_bearer);
    let token = token.and_then(Token::new);
    let listener = listen(Ipv4Addr::LOCALHOST, DEVTOOLS_PORT).await?;
    let at_the_port = Rc::clone(tools);
    tasks.spawn_local(async move {
        devtools::serve(listener, at_the_port, token).await;
    });
    let socket = inside::bind(inside::PATH.into()).map_err(ServeError::Socket)?;
    let at_the_socket = Rc::clone(tools);
    tasks.spawn_local(async move {
        inside::serve(socket, at_the_socket, USER_ID).await;
    });
    Ok(())
}

/// As the user: what the user's programs write there must be theirs.
async fn make_state(hands: &Hands, place: &Place) -> Result<(), ServeError> {
    let parts = ["", "agent", "caddy", "logs"].map(|part| place.state.join(part).into_string());
    let argv = ["mkdir", "-p"]
        .map(str::to_owned)
        .into_iter()
        .chain(parts)
        .chain([place.workspace.to_string()]);
    let argv: Vec<String> = argv.collect();
    let made = run(
        hands,
        exec_as(&place.user, argv.iter().map(String::as_str)),
        4096,
    );
    match made.await {
        Ok(done) if done.code == 0 => Ok(()),
        Ok(done) => Err(ServeError::State(
            String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        )),
        Err(error) => Err(ServeError::State(error.to_string())),
    }
}

async fn listen(address: Ipv4Addr, port: u16) -> Result<TcpListener, ServeError> {
    TcpListener::bind(SocketAddr::from((address, port)))
        .await
        .map_err(|source| ServeError::Listen { port, source })
}

fn random() -> Secret {
    let mut bytes = [0; 32];
    // The kernel has randomness from its start; a sandbox begins long after.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    Secret::new(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes))
}

fn routes(
    screen: Screen,
    tunnels: &Tunnels,
    password: watch::Receiver<Option<Secret>>,
    link: Option<&Handle>,
    tasks: &mut JoinSet<()>,
) -> Vec<Route> {
    let mut routes = vec![
        Route::editor(EDITOR_PORT),
        Route::desktop(DESKTOP_PORT),
        Route::terminal(Rc::new(screen)),
        Route::agent(AGENT_PORT, password),
        Route::tunnels(tunnels.clone()),
        Route::preview(PREVIEW_PORT),
    ];
    if let Some(link) = link {
        let (sockets, mut come) = mpsc::channel::<Socket>(1);
        routes.push(Route::link(sockets));
        let link = link.clone();
        tasks.spawn_local(async move {
            while let Some(socket) = come.recv().await {
                if link.adopt(socket.stream, Vec::new()).await.is_err() {
                    return;
                }
            }
        });
    }
    routes
}
