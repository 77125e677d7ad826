//! The agent's process: started with its configuration, watched, started again.
//!
//! ```text
//!            configuration          healthy             ends
//!  waiting ───────────────► starting ─────► running ──────────► waiting to start again
//!                              │ ends, late    │ another            │ too often
//!                              └───────────────┼─ configuration     ▼
//!                                              └──► stopping       given up, until another
//!                                                                  configuration comes
//! ```

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use agent::configuration::FileContent;
use agent::opencode::{self, Connected, Settings};
use agent::{Agent, Configuration, Launch};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use wire::Raw;
use wire::guest::{Exec, Exited};
use wire::link::{FromRunner, Health, HealthKind};

use crate::files::{FileError, Files};
use crate::hands::{Hands, Output, Running, Said};
use crate::squatters;

/// So many crashes, each soon after the start, and it is given up.
const BUDGET: u32 = 5;
/// From the wish that it ends to the end.
const GRACE: Duration = Duration::from_secs(5);
/// How often it is looked whether a turn has ended that a restart waits for.
const LOOK: Duration = Duration::from_millis(500);

const TERM: i32 = 15;

/// What others see of it.
#[derive(Debug, Clone)]
pub enum State {
    Starting,
    Running(Arc<dyn Agent>),
    /// It crashed, and is about to be started again.
    Down {
        why: String,
    },
    GivenUp {
        why: String,
    },
}

/// How soon it is started again.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// After the first crash, and at most.
    pub first_delay: Duration,
    pub last_delay: Duration,
    /// One that lived for so long crashed of something new.
    pub healthy: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            first_delay: Duration::from_secs(2),
            last_delay: Duration::from_secs(32),
            healthy: Duration::from_mins(1),
        }
    }
}

/// Keeps an agent running as the last configuration says. Ends with its configurations.
#[derive(Debug)]
pub struct Keeper {
    pub hands: Rc<Hands>,
    /// Below the home.
    pub files: Files,
    pub home: String,
    pub user: String,
    pub settings: Settings,
    pub pace: Pace,
    pub configurations: watch::Receiver<Option<Configuration>>,
    pub state: watch::Sender<State>,
    /// What becomes of it is said to the hub.
    pub said: mpsc::Sender<FromRunner>,
    /// Told once, when the agent can be spoken to: its driver and events are the caller's to run.
    pub connected: mpsc::Sender<Connected>,
}

/// Why a process is no longer what it should be.
enum Ended {
    ByItself(String, Option<i32>),
    Unhealthy(String),
    /// The configuration is another one now.
    Superseded,
    /// Nobody wants it any more.
    Over,
}

impl Keeper {
    pub async fn run(mut self) {
        let mut agent: Option<Arc<dyn Agent>> = None;
        let pace = self.pace;
        let (mut crashes, mut delay) = (0, pace.first_delay);
        loop {
            let Some(configuration) = self.wanted().await else {
                return;
            };
            let since = Instant::now();
            let _ = self.state.send(State::Starting);
            let launch = opencode::launch(&configuration);
            self.settings.permissions = configuration.decides();
            squatters::evict(configuration.port).await;
            let ended = self.live(&launch, &mut agent).await;
            let (why, exit_code, kind) = match ended {
                Ended::Over => return,
                Ended::Superseded => {
                    (crashes, delay) = (0, pace.first_delay);
                    continue;
                }
                Ended::ByItself(why, code) => (why, code, HealthKind::AgentCrash),
                Ended::Unhealthy(why) => (why, None, HealthKind::AgentHealthTimeout),
            };
            if since.elapsed() >= pace.healthy {
                (crashes, delay) = (0, pace.first_delay);
            }
            crashes += 1;
            if let Some(agent) = &agent {
                agent.process_ended(why.clone()).await;
            }
            self.report(kind, &why, crashes, exit_code).await;
            if crashes >= BUDGET {
                let why = format!("it ended {crashes} times soon after its start; last: {why}");
                if let Some(agent) = &agent {
                    agent.process_given_up(why.clone()).await;
                }
                self.report(HealthKind::AgentFatal, &why, crashes, exit_code)
                    .await;
                let _ = self.state.send(State::GivenUp { why });
                if self.configurations.changed().await.is_err() {
                    return;
                }
                (crashes, delay) = (0, pace.first_delay);
                continue;
            }
            let _ = self.state.send(State::Down { why });
            tokio::select! {
                () = sleep(delay) => {}
                changed = self.configurations.changed() => if changed.is_err() { return },
            }
            delay = (delay * 2).min(pace.last_delay);
        }
    }

    async fn wanted(&mut self) -> Option<Configuration> {
        if self.configurations.borrow().is_none() {
            let _ = self.state.send(State::Starting);
        }
        let wanted = self.configurations.wait_for(Option::is_some).await.ok()?;
        wanted.clone()
    }

    /// One process, from its start to its end.
    async fn live(&mut self, launch: &Launch, agent: &mut Option<Arc<dyn Agent>>) -> Ended {
        let Running {
            output, mut input, ..
        } = match self.start(launch).await {
            Ok(running) => running,
            Err(error) => return Ended::ByItself(error.to_string(), None),
        };
        let mut exit = pin!(until_exit(output));
        let ready = tokio::select! {
            ended = &mut exit => return ended,
            ready = self.ready(agent.clone()) => ready,
        };
        let ended = match ready {
            Err(unhealthy) => Ended::Unhealthy(unhealthy),
            Ok(ready) => {
                let _ = self.state.send(State::Running(Arc::clone(&ready)));
                let ready = agent.insert(ready);
                tokio::select! {
                    ended = &mut exit => return ended,
                    ended = superseded(&mut self.configurations, launch, &**ready) => ended,
                }
            }
        };
        if let Some(agent) = agent {
            agent.process_ended("it is started anew".to_owned()).await;
        }
        // Dropping what is left ends it and everything it started.
        let _ = input.signal(TERM).await;
        let _ = timeout(GRACE, exit).await;
        ended
    }

    /// Something to talk to, once it listens.
    async fn ready(&self, known: Option<Arc<dyn Agent>>) -> Result<Arc<dyn Agent>, String> {
        if let Some(agent) = known {
            agent.decide_by(self.settings.permissions).await;
            let started = agent.process_started().await;
            return started.map(|()| agent).map_err(|error| error.to_string());
        }
        let connected = opencode::connect(self.settings.clone()).await;
        let connected = connected.map_err(|unhealthy| unhealthy.to_string())?;
        let agent: Arc<dyn Agent> = Arc::new(connected.agent.clone());
        let _ = self.connected.send(connected).await;
        Ok(agent)
    }

    async fn start(&self, launch: &Launch) -> Result<Running, FileError> {
        for directory in &launch.replaced {
            // There is none the first time.
            let _ = self.files.remove(self.below(directory)).await;
        }
        for file in &launch.files {
            let path = self.below(&file.path);
            match &file.content {
                FileContent::Directory => self.files.make_directory(path).await?,
                content => {
                    self.files
                        .write(path, &content.bytes(), Some(0o600))
                        .await?;
                }
            }
        }
        let env = launch
            .env
            .iter()
            .map(|(name, value)| (Raw::from(name.as_str()), Raw::from(value.expose())));
        let exec = Exec {
            argv: launch
                .argv
                .iter()
                .map(|word| word.as_str().into())
                .collect(),
            cwd: Some(launch.cwd.as_str().into()),
            env: env.collect(),
            user: Some(self.user.clone()),
            pty: None,
            timeout_ms: None,
            detach: false,
        };
        Ok(self.hands.exec_whole(exec).await?)
    }

    /// Everything that the agent is given lies below the home of the user it runs as.
    fn below<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(&self.home)
            .map_or(path, |path| path.trim_start_matches('/'))
    }

    async fn report(&self, kind: HealthKind, why: &str, count: u32, exit_code: Option<i32>) {
        let health = Health {
            kind,
            message: why.to_owned(),
            count: count.into(),
            exit_code,
        };
        let _ = self.said.send(FromRunner::RunnerHealth(health)).await;
    }
}

/// Returns when the process has to make room for another. Turns that are under way are let finish.
async fn superseded(
    configurations: &mut watch::Receiver<Option<Configuration>>,
    launch: &Launch,
    agent: &dyn Agent,
) -> Ended {
    loop {
        if configurations.changed().await.is_err() {
            return Ended::Over;
        }
        let wanted = configurations.borrow_and_update().clone();
        let Some(wanted) = wanted else {
            return Ended::Superseded;
        };
        if opencode::launch(&wanted).has_same_effect_as(launch) {
            continue;
        }
        while agent
            .held()
            .await
            .is_ok_and(|held| held.iter().any(|channel| channel.prompt.is_some()))
        {
            sleep(LOOK).await;
        }
        return Ended::Superseded;
    }
}

/// What it says last is in the report.
async fn until_exit(mut output: Output) -> Ended {
    const WORDS: usize = 2 << 10;
    let mut last_words = Vec::new();
    loop {
        match output.next().await {
            Ok(Said::Exited(exited)) => {
                return Ended::ByItself(how(exited, &last_words), Some(exited.code));
            }
            Ok(Said::Stdout(words) | Said::Stderr(words)) => {
                last_words.extend(words);
                let excess = last_words.len().saturating_sub(WORDS);
                last_words.drain(..excess);
            }
            Err(error) => return Ended::ByItself(error.to_string(), None),
        }
    }
}

fn how(exited: Exited, last_words: &[u8]) -> String {
    let mut how = match exited.signal {
        Some(signal) => format!("the agent was ended by signal {signal}"),
        None => format!("the agent ended with code {}", exited.code),
    };
    let words = String::from_utf8_lossy(last_words);
    if let Some(line) = words.lines().rev().find(|line| !line.trim().is_empty()) {
        how.push_str(": ");
        how.extend(line.chars().filter(|c| !c.is_control()).take(400));
    }
    how
}
