//! Everything put together: made in the order in which it is needed, and run side by side.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use agent::Configuration;
use agent::configuration::PermissionPolicy;
use agent::dial::Tcp;
use agent::opencode::{Connected, HEALTH_LIMIT, Settings};
use base64::Engine as _;
use model::{Clock, Secret, SystemClock};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use wire::keys;
use wire::link::{AgentConfig, Boot, Content, ErrorFrame, FromHub, FromRunner};
use wire::workplace::{
    AGENT_PORT, DESKTOP_PORT, DEVTOOLS_PORT, EDITOR_PORT, GATEWAY_PORT, GIT_PORT, MODEL_PORT,
    Order, PREVIEW_PORT, TOOLS_PORT,
};

use crate::agent_process::{Keeper, State};
use crate::boot::{Phases, Programs, Reload, Site};
use crate::command::{exec_as, run};
use crate::devtools::{self, Others, Token, Tools};
use crate::doors;
use crate::files::Files;
use crate::gateway::{Access, Gateway, Limits, Notice, Origins, Route, Socket};
use crate::hands::{Hands, HandsError};
use crate::inside;
use crate::link::{self, Handle, Hears};
use crate::place::Place;
use crate::tools::{self as agent_tools, Bench};
use crate::tunnels::Tunnels;
use crate::turns::{Marks, Turns};
use crate::wiring::Screen;

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
    #[error("the link cannot be set up")]
    Link(#[from] link::SetupError),
}

/// Works until PID 1 is gone. To be run inside a [`tokio::task::LocalSet`].
pub async fn serve(hands: Hands, order: Order) -> Result<Infallible, ServeError> {
    let place = Place::standard();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let hands = Rc::new(hands);
    make_state(&hands, &place).await?;
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

    let (tunnels, _) = Tunnels::open(place.state.as_std_path(), &[]);
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
    let password = random();
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
    tasks.spawn_local(async move {
        gateway.serve(listener).await;
    });
    for (port, door) in [(MODEL_PORT, "model"), (GIT_PORT, "git")] {
        tasks.spawn_local(doors::lead(port, door));
    }

    let site = Site {
        files: Files::below(Rc::clone(&hands), place.home.clone(), &place.user),
        git: tools.git.clone(),
        env: Rc::clone(&tools.env),
        programs: Rc::new(Programs::new(Rc::clone(&hands), &place, Arc::clone(&clock))),
        services: tools.services.clone(),
        hands,
        place,
        clock,
        password,
        tools_token: random(),
        model_token: random(),
    };
    let bench = Bench {
        services: tools.services.clone(),
        tunnels,
        link: link.clone(),
    };
    if let (Some(link), Some(hears)) = (link, hears) {
        let office = Office::new(site, bench, link, origins, &mut tasks);
        tasks.spawn_local(office.run(hears));
    }
    // Whoever is shown the agent may ask for its password for as long as we live.
    let _told_password = told_password;
    loop {
        if tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
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

/// What the hub talks to.
struct Office {
    site: Site,
    bench: Bench,
    link: Handle,
    origins: Origins,
    turns: Turns,
    configurations: watch::Sender<Option<Configuration>>,
    agent: watch::Receiver<State>,
    connected: mpsc::Receiver<Connected>,
    boot: Rc<RefCell<Option<Boot>>>,
    /// The essential phases are done.
    booted: Rc<Cell<bool>>,
}

impl Office {
    fn new(
        site: Site,
        bench: Bench,
        link: Handle,
        origins: Origins,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let (configurations, wanted) = watch::channel(None);
        let (state, agent) = watch::channel(State::Starting);
        let (connect, connected) = mpsc::channel(1);
        let (said, mut says) = mpsc::channel(16);
        let keeper = Keeper {
            hands: Rc::clone(&site.hands),
            files: site.files.clone(),
            home: site.place.home.to_string(),
            user: site.place.user.clone(),
            settings: Settings {
                dial: Arc::new(Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, AGENT_PORT)))),
                password: site.password.clone(),
                clock: Arc::clone(&site.clock),
                permissions: PermissionPolicy::Allow,
                model: None,
                transcriber: None,
                memory: None,
                health_limit: HEALTH_LIMIT,
            },
            configurations: wanted,
            state,
            said,
            connected: connect,
        };
        tasks.spawn_local(keeper.run());
        let to_hub = link.clone();
        tasks.spawn_local(async move {
            while let Some(frame) = says.recv().await {
                let _ = to_hub.say(frame).await;
            }
        });
        Self {
            turns: Turns::new(link.clone(), agent.clone(), Marks::default()),
            site,
            bench,
            link,
            origins,
            configurations,
            agent,
            connected,
            boot: Rc::default(),
            booted: Rc::default(),
        }
    }

    async fn run(mut self, mut from_hub: Hears) {
        let mut work = JoinSet::new();
        self.watch_lists(&mut work);
        loop {
            tokio::select! {
                frame = from_hub.recv() => match frame {
                    Some(frame) => self.hear(frame, &mut work),
                    None => return,
                },
                Some(connected) = self.connected.recv() => {
                    let Connected { driver, mut events, .. } = connected;
                    work.spawn_local(driver.run());
                    let turns = self.turns.clone();
                    work.spawn_local(async move {
                        while let Some(event) = events.recv().await {
                            turns.tell(event).await;
                        }
                    });
                }
                Some(_) = work.join_next() => {}
            }
        }
    }

    /// Never waits: what takes time is done beside.
    fn hear(&self, frame: FromHub, work: &mut JoinSet<()>) {
        match frame {
            FromHub::Init(boot) => self.init(*boot, work),
            FromHub::AgentConfig(config) => self.configure(Some(*config), None, work),
            FromHub::Content(content) => self.configure(None, Some(content), work),
            FromHub::TunnelDelete { name, actor } => {
                let actor = actor.map_or_else(|| "hub".to_owned(), |actor| actor.id);
                let _ = self.bench.tunnels.remove(&name, &actor);
            }
            FromHub::Stop { .. } => {
                work.spawn_local(stop(
                    self.site.clone(),
                    self.turns.clone(),
                    self.link.clone(),
                ));
            }
            // The git door knows it; nothing inside has to.
            FromHub::GitAccess { .. } => {}
            FromHub::WorkflowExecute { execution_id, .. } => {
                let error = ErrorFrame {
                    code: "unsupported".to_owned(),
                    message: "workflows are not run here".to_owned(),
                    prompt_id: None,
                    channel: None,
                    request_id: Some(execution_id),
                    frame: Some("workflow_execute".to_owned()),
                };
                let link = self.link.clone();
                work.spawn_local(async move {
                    let _ = link.say(FromRunner::Error(error)).await;
                });
            }
            other => {
                let turns = self.turns.clone();
                work.spawn_local(async move {
                    if let Some(unknown) = turns.hear(other).await {
                        tracing::warn!(?unknown, "the hub said something that nobody here takes");
                    }
                });
            }
        }
    }

    /// The same again changes nothing; it comes with every connection.
    fn init(&self, boot: Boot, work: &mut JoinSet<()>) {
        self.allow(&boot.origins, work);
        let before = self.boot.replace(Some(boot.clone()));
        if let Some(before) = before {
            let agent = (before.agent != boot.agent).then(|| boot.agent.clone());
            let content = (before.content != boot.content).then(|| boot.content.clone());
            if agent.is_some() || content.is_some() {
                self.configure(agent, content, work);
            }
            return;
        }
        let (calls, answered) = mpsc::channel(32);
        work.spawn_local(agent_tools::work(self.bench.clone(), boot.kind, answered));
        let descriptions = agent_tools::descriptions(boot.kind);
        let token = self.site.tools_token.clone();
        work.spawn_local(async move {
            match listen(Ipv4Addr::LOCALHOST, TOOLS_PORT).await {
                Ok(listener) => agent_tools::serve(listener, token, &descriptions, calls).await,
                Err(error) => tracing::error!(%error, "the agent has no tools of ours"),
            }
        });
        let phases = Phases::new(Some(self.link.clone()));
        let (site, configurations) = (self.site.clone(), self.configurations.clone());
        let (mut agent, link) = (self.agent.clone(), self.link.clone());
        let (latest, booted) = (Rc::clone(&self.boot), Rc::clone(&self.booted));
        work.spawn_local(async move {
            let essential = site
                .essential(&boot, &phases, &configurations, &mut agent)
                .await;
            booted.set(true);
            // What was changed meanwhile waited for this.
            let latest = latest.borrow().clone().unwrap_or_else(|| boot.clone());
            if (&latest.agent, &latest.content) != (&boot.agent, &boot.content) {
                apply(&site, &latest, &configurations, &link).await;
            }
            let status = match essential {
                Ok(()) => ready(),
                Err(stopped) => failed(&stopped.to_string()),
            };
            let _ = link.say(status).await;
            site.additional(&boot, &phases).await;
        });
    }

    /// Whose pages are as good as ours. What is no origin lets nobody in, and is said.
    fn allow(&self, origins: &[String], work: &mut JoinSet<()>) {
        let refused = self.origins.set(origins);
        if refused.is_empty() {
            return;
        }
        let error = ErrorFrame {
            code: "bad_origin".to_owned(),
            message: format!("not an origin: {}", refused.join(", ")),
            prompt_id: None,
            channel: None,
            request_id: None,
            frame: Some("init".to_owned()),
        };
        let link = self.link.clone();
        work.spawn_local(async move {
            let _ = link.say(FromRunner::Error(error)).await;
        });
    }

    fn configure(
        &self,
        agent: Option<AgentConfig>,
        content: Option<Content>,
        work: &mut JoinSet<()>,
    ) {
        let mut kept = self.boot.borrow_mut();
        let Some(boot) = kept.as_mut() else { return };
        let before = boot.clone();
        boot.agent = agent.unwrap_or_else(|| before.agent.clone());
        boot.content = content.unwrap_or_else(|| before.content.clone());
        if *boot == before {
            let link = self.link.clone();
            work.spawn_local(async move {
                let _ = link.say(applied(Ok(false))).await;
            });
            return;
        }
        if !self.booted.get() {
            return;
        }
        let (site, boot) = (self.site.clone(), boot.clone());
        let (configurations, link) = (self.configurations.clone(), self.link.clone());
        work.spawn_local(async move { apply(&site, &boot, &configurations, &link).await });
    }

    /// Services, tunnels and ports are told whole, at each change.
    fn watch_lists(&self, work: &mut JoinSet<()>) {
        let (link, tunnels) = (self.link.clone(), self.bench.tunnels.clone());
        work.spawn_local(async move {
            let mut changes = tunnels.watch();
            changes.mark_changed();
            while changes.changed().await.is_ok() {
                let tunnels = tunnels.list().into_iter().map(told_tunnel).collect();
                let _ = link.say(FromRunner::Tunnels { tunnels }).await;
            }
        });
        let (link, services) = (self.link.clone(), self.bench.services.clone());
        work.spawn_local(async move {
            let mut changes = services.changes();
            while changes.changed().await.is_ok() {
                let services = services.list().into_iter().map(told_service).collect();
                let _ = link.say(FromRunner::Services { services }).await;
            }
        });
    }
}

/// Sets the agent up anew, and says how that went.
async fn apply(
    site: &Site,
    boot: &Boot,
    configurations: &watch::Sender<Option<Configuration>>,
    link: &Handle,
) {
    let wanted = site.wanted(boot).await;
    let done = wanted.map(|wanted| {
        let differs = configurations.borrow().as_ref() != Some(&wanted);
        configurations.send_replace(Some(wanted));
        differs
    });
    let _ = link.say(applied(done)).await;
}

fn applied(done: Result<bool, String>) -> FromRunner {
    FromRunner::AgentConfigApplied {
        success: done.is_ok(),
        restarted: matches!(done, Ok(true)),
        error: done.err(),
    }
}

fn ready() -> FromRunner {
    FromRunner::AgentStatus {
        status: wire::link::AgentStatus::Idle,
        detail: None,
        prompt_id: None,
        channel: None,
    }
}

fn failed(why: &str) -> FromRunner {
    FromRunner::AgentStatus {
        status: wire::link::AgentStatus::Error,
        detail: Some(why.to_owned()),
        prompt_id: None,
        channel: None,
    }
}

fn told_tunnel(tunnel: crate::tunnels::Tunnel) -> wire::link::Tunnel {
    let protocol = serde_json::to_value(tunnel.protocol).ok();
    wire::link::Tunnel {
        path: Some(format!("/t/{}", tunnel.name)),
        name: tunnel.name,
        port: tunnel.port,
        protocol: protocol.and_then(|protocol| protocol.as_str().map(str::to_owned)),
    }
}

fn told_service(info: crate::services::Info) -> wire::link::ServiceState {
    use crate::services::Status;
    use wire::link::Standing;

    wire::link::ServiceState {
        name: info.name.to_string(),
        command: info.command,
        cwd: info.cwd.map(Into::into),
        standing: match info.status {
            Status::Running | Status::Restarting => Standing::Running,
            Status::Stopped => Standing::Stopped,
            Status::Failed => Standing::Failed,
        },
        exit_code: info.exit_code,
    }
}

/// Ends what runs, and says so once the hub has everything. The sandbox is ended from outside.
async fn stop(site: Site, turns: Turns, link: Handle) {
    turns.hear(FromHub::Cancel { channel: None }).await;
    site.services.rest().await;
    site.programs.rest().await;
    let _ = link.say(FromRunner::Stopped).await;
    let _ = link.drain().await;
}
