//! What the hub is told without asking: what is listed here, whole and at each change; where the
//! repositories stand; which models there are; and whether anybody has a use for the sandbox.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use agent::{Agent, ModelInfo};
use camino::Utf8PathBuf;
use fs_err as fs;
use jiff::Timestamp;
use model::Clock;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use wire::link::{FromRunner, Health, HealthKind, Model, ModelProvider};

use crate::boot::asked;
use crate::devtools::Tools;
use crate::git::{Git, Repo};
use crate::idle::{Seen, Use, Watch};
use crate::link::Handle;
use crate::place::Place;
use crate::ports::Ports;
use crate::services::Services;
use crate::terminal::Terminals;
use crate::tunnels::{Dropped, Tunnels};

/// How often it is looked whether services work.
const LOOK: Duration = Duration::from_secs(15);
/// How often repositories are looked at, which costs two calls of the kernel each.
const GLANCE: Duration = Duration::from_secs(5);
/// Providers and models that are told. The agent has no more than it was set up with, unless
/// somebody inside set it up.
const MOST_PROVIDERS: usize = 64;
const MOST_MODELS: usize = 1000;

/// What is looked at. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Reports {
    pub(crate) link: Handle,
    clock: Arc<dyn Clock>,
    tunnels: Tunnels,
    services: Services,
    terminals: Terminals,
    ports: Ports,
    git: Git,
    /// Where the preview's server writes down that it was asked.
    asked: Utf8PathBuf,
    /// Something happened that may have moved a repository.
    pub(crate) moved: Rc<Notify>,
    pub(crate) models: Rc<RefCell<Option<Vec<ModelProvider>>>>,
}

impl Reports {
    pub(crate) fn new(
        link: Handle,
        tools: &Tools,
        tunnels: Tunnels,
        place: &Place,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            link,
            clock,
            tunnels,
            services: tools.services.clone(),
            terminals: tools.terminals.clone(),
            ports: tools.ports.clone(),
            git: tools.git.clone(),
            asked: asked(place),
            moved: Rc::new(Notify::new()),
            models: Rc::default(),
        }
    }

    pub(crate) fn begin(&self, work: &mut JoinSet<()>) {
        work.spawn_local(self.clone().tell_tunnels());
        work.spawn_local(self.clone().tell_services());
        work.spawn_local(self.clone().tell_ports());
        work.spawn_local(self.clone().tell_git());
        work.spawn_local(self.clone().tell_activity());
    }

    /// A link that is over has nobody to tell.
    async fn say(&self, frame: FromRunner) {
        let _ = self.link.say(frame).await;
    }

    /// What was registered before and is not there any more, once.
    pub(crate) async fn tell_dropped(self, dropped: Vec<Dropped>) {
        if dropped.is_empty() {
            return;
        }
        let words: Vec<String> = dropped.iter().map(ToString::to_string).collect();
        tracing::warn!("{}", words.join("; "));
        self.say(FromRunner::RunnerHealth(Health {
            kind: HealthKind::TunnelsDropped,
            message: words.join("; ").chars().take(2000).collect(),
            count: dropped.len() as u64,
            exit_code: None,
        }))
        .await;
    }

    async fn tell_tunnels(self) {
        let mut changes = self.tunnels.watch();
        changes.mark_changed();
        while changes.changed().await.is_ok() {
            let tunnels = self.tunnels.list().into_iter().map(told_tunnel).collect();
            self.say(FromRunner::Tunnels { tunnels }).await;
        }
    }

    async fn tell_services(self) {
        let mut changes = self.services.changes();
        while changes.changed().await.is_ok() {
            // What starts or ends may open or close a port.
            self.ports.hint();
            let services = self.services.list().into_iter().map(told_service).collect();
            self.say(FromRunner::Services { services }).await;
        }
    }

    async fn tell_ports(self) {
        let mut found = self.ports.changes();
        let mut exposures = self.services.changes();
        let mut told = Vec::new();
        loop {
            let exposed = self.services.exposed();
            let ports: Vec<wire::link::Port> = found
                .borrow_and_update()
                .iter()
                .map(|port| wire::link::Port {
                    port: port.port,
                    service: None,
                    exposed: exposed == Some(port.port),
                })
                .collect();
            if ports != told {
                told.clone_from(&ports);
                self.say(FromRunner::Ports { ports }).await;
            }
            let is_over = tokio::select! {
                moved = found.changed() => moved.is_err(),
                moved = exposures.changed() => moved.is_err(),
            };
            if is_over {
                return;
            }
        }
    }

    /// Looks when it is told to, and when a repository's head has moved since.
    async fn tell_git(self) {
        let mut told: BTreeMap<String, FromRunner> = BTreeMap::new();
        loop {
            let repos = self.git.repos().await.unwrap_or_default();
            let heads = heads(&repos);
            told.retain(|id, _| repos.iter().any(|repo| repo.id == *id));
            for repo in &repos {
                let Ok(standing) = self.git.standing(repo).await else {
                    continue;
                };
                let frame = FromRunner::GitState {
                    repo: Some(repo.id.clone()),
                    branch: standing.branch,
                    base: standing.base,
                    commit_count: standing.commits,
                };
                if told.get(&repo.id) != Some(&frame) {
                    told.insert(repo.id.clone(), frame.clone());
                    self.say(frame).await;
                }
            }
            let moved = async {
                while self::heads(&repos) == heads {
                    sleep(GLANCE).await;
                }
            };
            tokio::select! {
                () = self.moved.notified() => {}
                () = moved => {}
            }
        }
    }

    /// A use is told at once, its end when it is found.
    async fn tell_activity(self) {
        let mut watch = Watch::default();
        let mut told: Option<Vec<Use>> = None;
        let mut ticks = interval(LOOK);
        // A sandbox that was frozen for a day has not missed thousands.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut typed, mut served) = (self.terminals.typed(), self.services.served_changes());
        loop {
            let is_told = |wanted: &Use| told.as_ref().is_some_and(|told| told.contains(wanted));
            let (knows_typing, knows_serving) = (is_told(&Use::Terminal), is_told(&Use::Request));
            tokio::select! {
                _ = ticks.tick() => {}
                Ok(()) = typed.changed(), if !knows_typing => {}
                Ok(()) = served.changed(), if !knows_serving => {}
            }
            let previewed = modified(&self.asked);
            let seen = Seen {
                processor_time: self.services.processor_time(),
                served_at: self.services.served_at().max(previewed),
                typed_at: self.terminals.typed_at(),
            };
            let uses = watch.look(self.clock.now(), seen);
            if told.as_ref() != Some(&uses) {
                told = Some(uses.clone());
                let uses = uses.into_iter().map(told_use).collect();
                self.say(FromRunner::Activity { uses }).await;
            }
        }
    }

    /// Which models there are, if that is news. Says whether the agent said it.
    pub(crate) async fn tell_models(&self, agent: &dyn Agent) -> bool {
        // An agent that hangs here is not worth waiting for; prompts name their models anyway.
        const PATIENCE: Duration = Duration::from_secs(10);
        let models = match timeout(PATIENCE, agent.models()).await {
            Ok(Ok(models)) => by_provider(models),
            Ok(Err(error)) => {
                tracing::info!(%error, "the agent's models are not known");
                return false;
            }
            Err(_) => {
                tracing::warn!("the agent does not say which models it has");
                return false;
            }
        };
        let is_news = self.models.borrow().as_ref() != Some(&models);
        if is_news {
            *self.models.borrow_mut() = Some(models.clone());
            self.say(FromRunner::Models { providers: models }).await;
        }
        true
    }
}

fn by_provider(models: Vec<ModelInfo>) -> Vec<ModelProvider> {
    let mut providers: Vec<ModelProvider> = Vec::new();
    for info in models.into_iter().take(MOST_MODELS) {
        let id = info.model.provider;
        let place = providers.iter().position(|provider| provider.id == id);
        let model = Model {
            id: info.model.model,
            name: Some(info.name),
            context_limit: info.context,
            output_limit: info.output,
        };
        match place {
            Some(place) => providers[place].models.push(model),
            None if providers.len() == MOST_PROVIDERS => {}
            None => providers.push(ModelProvider {
                name: info.provider_name,
                models: vec![model],
                id,
            }),
        }
    }
    providers
}

/// What moves when a branch is taken or something is committed. Only looked at: whatever the names
/// turn out to be, nothing is opened.
fn heads(repos: &[Repo]) -> Vec<Option<(SystemTime, u64)>> {
    let look = |path: Utf8PathBuf| {
        let metadata = fs::symlink_metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    repos
        .iter()
        .flat_map(|repo| {
            let git = repo.git_dir();
            [look(git.join("HEAD")), look(git.join("logs/HEAD"))]
        })
        .collect()
}

fn modified(path: &Utf8PathBuf) -> Option<Timestamp> {
    let metadata = fs::symlink_metadata(path).ok()?;
    // Made when the server starts, and empty until somebody asks.
    if metadata.len() == 0 {
        return None;
    }
    metadata.modified().ok()?.try_into().ok()
}

fn told_use(used: Use) -> wire::link::Use {
    match used {
        Use::Service { name } => wire::link::Use::Service {
            name: name.to_string(),
        },
        Use::Request => wire::link::Use::Request,
        Use::Terminal => wire::link::Use::Terminal,
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
