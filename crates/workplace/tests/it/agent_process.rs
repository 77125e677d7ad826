//! The keeper of the agent's process, with a program that is only there to be started and ended, and
//! somebody else who answers for it.

use std::io;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::configuration::{PermissionPolicy, Questions};
use agent::dial::{Dial, Stream};
use agent::opencode::{Connected, Settings, VERSION};
use agent::{Agent, ChannelKey, Configuration, Prompt, Refused, Scope};
use async_trait::async_trait;
use fs_err as fs;
use model::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use wire::link::{FromRunner, HealthKind};
use workplace::agent_process::{Keeper, Pace, State};
use workplace::files::Files;

use crate::world::{World, eventually, in_world};

const PROGRAM: &str = "#!/bin/sh
echo $$ >> /run/starts
if test -e /run/broken; then echo 'no such luck' >&2; exit 3; fi
exec sleep 1000
";

/// Says that it is healthy, whatever it is asked.
#[derive(Debug)]
struct Parrot {
    version: Mutex<String>,
    answers: Mutex<JoinSet<io::Result<()>>>,
}

#[async_trait]
impl Dial for Parrot {
    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        let (near, mut far) = tokio::io::duplex(4096);
        let version = self.version.lock().unwrap().clone();
        self.answers.lock().unwrap().spawn(async move {
            far.read_u8().await?;
            let body = format!("{{\"healthy\": true, \"version\": \"{version}\"}}");
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
            let reply = format!("{head} {}\r\n\r\n{body}", body.len());
            far.write_all(reply.as_bytes()).await?;
            far.read_to_end(&mut Vec::new()).await.map(drop)
        });
        Ok(Box::new(near))
    }
}

struct Kept {
    parrot: Arc<Parrot>,
    configuration: Configuration,
    configurations: watch::Sender<Option<Configuration>>,
    state: watch::Receiver<State>,
    said: mpsc::Receiver<FromRunner>,
    connected: mpsc::Receiver<Connected>,
    tasks: JoinSet<()>,
}

fn with_keeper(test: impl AsyncFnOnce(Kept)) {
    testkit::apart::leave_the_machine().expect("a test with ports of its own needs root");
    let sbin = "/usr/local/sbin";
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", sbin, "tmpfs", flags, c"mode=755").unwrap();
    let (program, starts) = (format!("{sbin}/opencode"), "/run/starts");
    fs::write(&program, PROGRAM).unwrap();
    fs::write(starts, "").unwrap();
    for (path, mode) in [(program.as_str(), 0o755), (starts, 0o666)] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(path, mode).unwrap();
    }
    in_world(async |world| {
        let mut kept = keep(&world);
        kept.configurations
            .send_replace(Some(kept.configuration.clone()));
        let Connected { driver, events, .. } = kept.connected.recv().await.unwrap();
        kept.tasks.spawn_local(driver.run());
        // Read by nobody, and few enough.
        kept.tasks.spawn_local(async move {
            let _events = events;
            std::future::pending::<()>().await;
        });
        kept.is_running().await;
        test(kept).await;
    });
}

fn keep(world: &World) -> Kept {
    let parrot = Arc::new(Parrot {
        version: Mutex::new(VERSION.to_owned()),
        answers: Mutex::default(),
    });
    let (configurations, wanted) = watch::channel(None);
    let (state, states) = watch::channel(State::Starting);
    let (say, said) = mpsc::channel(64);
    let (connect, connected) = mpsc::channel(1);
    let keeper = Keeper {
        hands: Rc::clone(&world.hands),
        files: Files::below(
            Rc::clone(&world.hands),
            world.place.home.clone(),
            &world.place.user,
        ),
        home: world.place.home.to_string(),
        user: world.place.user.clone(),
        settings: Settings {
            dial: parrot.clone(),
            password: Secret::new("hunter22"),
            clock: Arc::clone(&world.clock),
            permissions: PermissionPolicy::Allow,
            model: None,
            transcriber: None,
            memory: None,
            health_limit: Duration::from_secs(10),
        },
        pace: Pace {
            first_delay: Duration::from_millis(20),
            last_delay: Duration::from_millis(100),
            healthy: Duration::from_mins(1),
        },
        configurations: wanted,
        state,
        said: say,
        connected: connect,
    };
    let mut tasks = JoinSet::new();
    tasks.spawn_local(keeper.run());
    Kept {
        parrot,
        configuration: configuration(world),
        configurations,
        state: states,
        said,
        connected,
        tasks,
    }
}

fn configuration(world: &World) -> Configuration {
    Configuration {
        workspace: world.place.workspace.to_string(),
        directory: world.place.state.join("agent/configuration").into_string(),
        home: world.place.home.to_string(),
        port: 4096,
        password: Secret::new("hunter22"),
        providers: Vec::new(),
        model: None,
        small_model: None,
        model_token: Secret::new("model"),
        tools: None,
        without_tools: Vec::new(),
        instructions: Vec::new(),
        skills: Vec::new(),
        permissions: PermissionPolicy::Allow,
        questions: Questions::Never,
        memory_cap: None,
        own_settings: serde_json::Value::Null,
    }
}

fn starts() -> Vec<i32> {
    let starts = fs::read_to_string("/run/starts").unwrap();
    starts.lines().map(|line| line.parse().unwrap()).collect()
}

fn kill() {
    let pid = rustix::process::Pid::from_raw(*starts().last().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

impl Kept {
    async fn is_running(&mut self) -> Arc<dyn Agent> {
        let running = self
            .state
            .wait_for(|state| matches!(state, State::Running(_)));
        match &*running.await.unwrap() {
            State::Running(agent) => Arc::clone(agent),
            _ => unreachable!("it was waited for"),
        }
    }

    async fn told(&mut self) -> (HealthKind, u64, String) {
        match self.said.recv().await.unwrap() {
            FromRunner::RunnerHealth(health) => (health.kind, health.count, health.message),
            other => panic!("{other:?}"),
        }
    }
}

fn prompt() -> Prompt {
    Prompt::text("p1", ChannelKey::web(), "hello")
}

#[test]
fn a_killed_agent_is_back_and_that_is_told() {
    with_keeper(async |mut kept| {
        kill();
        let (kind, count, message) = kept.told().await;
        assert_eq!((kind, count), (HealthKind::AgentCrash, 1), "{message}");
        assert!(message.contains("signal 9"), "{message}");
        kept.is_running().await;
        assert_eq!(starts().len(), 2);
    });
}

#[test]
fn another_agent_than_the_one_we_know_is_not_called_running_at_a_later_start_either() {
    with_keeper(async |mut kept| {
        "9.9.9".clone_into(&mut kept.parrot.version.lock().unwrap());
        kill();
        assert_eq!(kept.told().await.0, HealthKind::AgentCrash);
        let (kind, _, message) = kept.told().await;
        assert_eq!(kind, HealthKind::AgentHealthTimeout);
        assert!(message.contains("9.9.9"), "{message}");
        VERSION.clone_into(&mut kept.parrot.version.lock().unwrap());
        let agent = kept.is_running().await;
        agent.accept(prompt()).await.unwrap();
    });
}

#[test]
fn after_five_crashes_it_is_given_up_and_prompts_fail_at_once() {
    with_keeper(async |mut kept| {
        let agent = kept.is_running().await;
        fs::write("/run/broken", "").unwrap();
        kill();
        for crash in 1..=5 {
            let (kind, count, message) = kept.told().await;
            assert_eq!((kind, count), (HealthKind::AgentCrash, crash), "{message}");
        }
        let (kind, _, message) = kept.told().await;
        assert_eq!(kind, HealthKind::AgentFatal);
        assert!(message.contains("no such luck"), "{message}");
        let given_up = |state: &State| matches!(state, State::GivenUp { .. });
        kept.state.wait_for(given_up).await.unwrap();
        let refused = agent.accept(prompt()).await.unwrap_err();
        assert!(matches!(refused, Refused::AgentGone(_)), "{refused:?}");
        // Another configuration is another chance.
        fs::remove_file("/run/broken").unwrap();
        kept.configuration.without_tools = vec!["bash".to_owned()];
        kept.configurations
            .send_replace(Some(kept.configuration.clone()));
        kept.is_running().await.accept(prompt()).await.unwrap();
    });
}

#[test]
fn another_configuration_waits_for_the_turn_that_is_under_way() {
    with_keeper(async |mut kept| {
        let agent = kept.is_running().await;
        // It waits for a stream of events that this agent never opens.
        agent.accept(prompt()).await.unwrap().start();
        kept.configuration.without_tools = vec!["bash".to_owned()];
        kept.configurations
            .send_replace(Some(kept.configuration.clone()));
        let starting = |state: &State| matches!(state, State::Starting);
        let early = tokio::time::timeout(Duration::from_secs(1), kept.state.wait_for(starting));
        assert!(early.await.is_err());
        agent.cancel(Scope::All).await.unwrap();
        eventually("the other configuration", || starts().len() == 2).await;
        kept.is_running().await;
        assert!(kept.said.try_recv().is_err(), "nobody crashed");
    });
}

#[test]
fn whoever_sits_on_the_agents_port_has_to_go() {
    with_keeper(async |mut kept| {
        let listen = "import socket, time\ns = socket.socket()\ns.bind(('127.0.0.1', 4096))\n\
                      s.listen()\nprint('here', flush=True)\ntime.sleep(1000)";
        let mut squatter = tokio::process::Command::new("python3")
            .args(["-c", listen])
            .stdout(std::process::Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut here = [0; 4];
        let mut words = squatter.stdout.take().unwrap();
        words.read_exact(&mut here).await.unwrap();
        kill();
        let ended = tokio::time::timeout(Duration::from_secs(10), squatter.wait()).await;
        assert!(!ended.expect("it is ended").unwrap().success());
        kept.is_running().await;
    });
}
