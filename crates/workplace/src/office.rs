//! What the hub talks to: the boot, the agent, and the turns, behind one link.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use agent::Configuration;
use agent::configuration::PermissionPolicy;
use agent::dial::Tcp;
use agent::opencode::{Connected, HEALTH_LIMIT, Settings};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use wire::link::{AgentConfig, Boot, Content, ErrorFrame, FromHub, FromRunner};
use wire::workplace::{AGENT_PORT, TOOLS_PORT};

use crate::agent_process::{Keeper, Pace, State};
use crate::boot::{Phases, Site};
use crate::files::Files;
use crate::gateway::Origins;
use crate::link::{Handle, Hears};
use crate::reports::Reports;
use crate::speech::Speech;
use crate::tools::{self as agent_tools, Bench};
use crate::tunnels::Dropped;
use crate::turns::{Contexts, Marks, Repositories, Surroundings, Turns};

/// From the wish that the agent ends to its end, and a little.
const AGENT_ENDS: Duration = Duration::from_secs(8);

/// What the hub talks to.
pub(crate) struct Office {
    site: Site,
    bench: Bench,
    link: Handle,
    turns: Turns,
    reports: Reports,
    speech: Arc<Speech>,
    /// Tunnels that could not be kept.
    dropped: Vec<Dropped>,
    origins: Origins,
    configurations: watch::Sender<Option<Configuration>>,
    agent: watch::Receiver<State>,
    connected: mpsc::Receiver<Connected>,
    boot: Rc<RefCell<Option<Boot>>>,
    /// The essential phases are done.
    booted: Rc<Cell<bool>>,
}

impl Office {
    pub(crate) fn new(
        site: Site,
        bench: Bench,
        reports: Reports,
        dropped: Vec<Dropped>,
        origins: Origins,
        tasks: &mut JoinSet<()>,
    ) -> Self {
        let link = reports.link.clone();
        let ears = site.hands.again().ok();
        let ears = ears.map(|hands| (hands, site.place.user.clone()));
        let speech = Arc::new(Speech::new(site.model_token.clone(), ears));
        let contexts = Contexts::default();
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
                transcriber: Some(speech.clone()),
                memory: Some(Arc::new(contexts.clone())),
                health_limit: HEALTH_LIMIT,
            },
            pace: Pace::default(),
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
            turns: Turns::new(
                link.clone(),
                agent.clone(),
                Marks::open(site.place.state.join("marks.jsonl")),
                Surroundings {
                    workspace: site.place.workspace.clone(),
                    files: Files::new(Rc::clone(&site.hands), &site.place),
                    moved: Rc::clone(&reports.moved),
                    contexts,
                    repositories: Repositories::new(site.git.clone()),
                },
            ),
            reports,
            speech,
            dropped,
            origins,
            site,
            bench,
            link,
            configurations,
            agent,
            connected,
            boot: Rc::default(),
            booted: Rc::default(),
        }
    }

    pub(crate) async fn run(mut self, mut from_hub: Hears) {
        let mut work = JoinSet::new();
        self.reports.begin(&mut work);
        let dropped = std::mem::take(&mut self.dropped);
        work.spawn_local(self.reports.clone().tell_dropped(dropped));
        let programs = Rc::clone(&self.site.programs);
        work.spawn_local(programs.tell_crashes(self.link.clone()));
        work.spawn_local(tell_models(self.reports.clone(), self.agent.clone()));
        loop {
            tokio::select! {
                frame = from_hub.recv() => match frame {
                    Some(frame) => self.hear(frame, &mut work),
                    None => return,
                },
                Some(connected) = self.connected.recv() => {
                    let Connected { agent, driver, mut events } = connected;
                    work.spawn_local(driver.run());
                    let turns = self.turns.clone();
                    let boot = self.boot.borrow();
                    let known = boot.as_ref().map(|boot| boot.agent_sessions.clone());
                    drop(boot);
                    work.spawn_local(async move {
                        turns.remind(&agent, &known.unwrap_or_default()).await;
                        drop(agent);
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
                    self.configurations.clone(),
                    self.agent.clone(),
                    self.link.clone(),
                ));
            }
            FromHub::GitAccess { repos } => {
                let mut kept = self.boot.borrow_mut();
                let Some(boot) = kept.as_mut() else { return };
                boot.git_access = repos;
                let (site, boot) = (self.site.clone(), boot.clone());
                work.spawn_local(async move {
                    if let Err(error) = site.set_git_access(&boot).await {
                        tracing::warn!(error, "git does not know its way to the git door");
                    }
                });
            }
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
        self.turns
            .work_above(crate::boot::folders_below_agent(&boot));
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
        let surroundings = agent_tools::Surroundings::of(&boot);
        let (bench, agent) = (self.bench.clone(), self.agent.clone());
        work.spawn_local(agent_tools::work(bench, surroundings, agent, answered));
        let descriptions = agent_tools::descriptions(surroundings);
        let token = self.site.tools_token.clone();
        work.spawn_local(async move {
            match listen(TOOLS_PORT).await {
                Ok(listener) => agent_tools::serve(listener, token, &descriptions, calls).await,
                Err(error) => tracing::error!(%error, "the agent has no tools of ours"),
            }
        });
        self.speech.ask(boot.agent.transcriber.clone());
        let phases = Phases::new(Some(self.link.clone()));
        let reports = self.reports.clone();
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
            reports.moved.notify_one();
            let status = match essential {
                Ok(()) => {
                    // Whoever hears that it is ready can choose a model.
                    let state = agent.borrow_and_update().clone();
                    if let State::Running(agent) = state {
                        reports.tell_models(&*agent).await;
                    }
                    ready()
                }
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
        self.speech.ask(boot.agent.transcriber.clone());
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
}

/// Sets the agent up anew, and says how that went.
async fn apply(
    site: &Site,
    boot: &Boot,
    configurations: &watch::Sender<Option<Configuration>>,
    link: &Handle,
) {
    let (wanted, wrong) = site.wanted(boot).await;
    let differs = configurations.borrow().as_ref() != Some(&wanted);
    configurations.send_replace(Some(wanted));
    let _ = link.say(applied(wrong.map(|()| differs))).await;
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

/// A process that was started anew may have others. What is said already is not said again.
async fn tell_models(reports: Reports, mut agent: watch::Receiver<State>) {
    // It may be busy with its start, or end again.
    const TRIES: u32 = 60;
    const BETWEEN: Duration = Duration::from_secs(1);
    while agent.changed().await.is_ok() {
        let state = agent.borrow_and_update().clone();
        let State::Running(running) = state else {
            continue;
        };
        // The first time they are told by whoever boots.
        if reports.models.borrow().is_none() {
            continue;
        }
        for _ in 0..TRIES {
            if reports.tell_models(&*running).await || agent.has_changed().unwrap_or(true) {
                break;
            }
            sleep(BETWEEN).await;
        }
    }
}

/// Ends what runs, and says so once the hub has everything. The sandbox is ended from outside.
async fn stop(
    site: Site,
    turns: Turns,
    configurations: watch::Sender<Option<Configuration>>,
    mut agent: watch::Receiver<State>,
    link: Handle,
) {
    turns.hear(FromHub::Cancel { channel: None }).await;
    configurations.send_replace(None);
    let ended = agent.wait_for(|state| !matches!(state, State::Running(_)));
    if timeout(AGENT_ENDS, ended).await.is_err() {
        tracing::warn!("the agent does not end");
    }
    site.services.rest().await;
    site.programs.rest().await;
    let _ = link.say(FromRunner::Stopped).await;
    let _ = link.drain().await;
}

async fn listen(port: u16) -> std::io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await
}
