//! The workplace, and what is around it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fs_err as fs;
use testkit::PidOne;
use testkit::hub::{Carrier, Hub, Way};
use testkit::model::{RequestLog, ScriptedModel};
use tokio::net::UnixListener;
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use wire::link::{
    AgentConfig, AgentStatus, Boot, CustomProvider, FromHub, FromRunner, Model, Prompt,
};
use wire::workplace::{Link, Order};
use workplace::hands::Hands;
use workplace::serve::serve;

pub(super) const SESSION: &str = "ses_whole";
/// To be found nowhere.
pub(super) const SECRET: &str = "canary-of-this-generation";
pub(super) const JOURNAL_KEY: &str = "canary-of-the-journal";
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) struct Whole {
    pub(super) hub: Hub,
    pub(super) model: RequestLog,
    pub(super) base_url: String,
    hands: Hands,
    tasks: JoinSet<()>,
    workplace: Option<AbortHandle>,
    prompts: u32,
    _pid_one: PidOne,
}

/// Whether the program of the agent is there to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agent {
    There,
    Missing,
}

/// Runs a test with a workplace that has been started.
pub(super) fn with_whole(test: impl AsyncFnOnce(Whole, Agent)) {
    testkit::apart::leave_the_machine().expect("a test of a whole workplace needs root");
    let agent = install_agent();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let whole = Whole::new().await;
        tokio::time::timeout(Duration::from_mins(3), test(whole, agent))
            .await
            .expect("a test takes less than three minutes");
    });
}

/// As [`with_whole`], where the agent is; elsewhere it says that nothing was proved.
#[expect(clippy::print_stderr, reason = "a test that proves nothing says so")]
pub(super) fn with_agent(test: impl AsyncFnOnce(Whole)) {
    with_whole(async |whole, agent| match agent {
        Agent::There => test(whole).await,
        Agent::Missing => eprintln!("skipped: there is no OpenCode; `cargo xtask test` fetches it"),
    });
}

/// Where every user finds it.
fn install_agent() -> Agent {
    let test = std::env::current_exe().unwrap();
    let tools = test.ancestors().nth(3).unwrap().join("tools");
    let found: Vec<PathBuf> = ["opencode", "rg"]
        .iter()
        .filter_map(|name| fs::canonicalize(tools.join(name)).ok())
        .collect();
    let [opencode, rg] = &found[..] else {
        return Agent::Missing;
    };
    let before: Vec<PathBuf> = fs::read_dir("/usr/local/bin")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| fs::canonicalize(path).ok())
        .filter(|path| !path.starts_with("/usr/local/bin"))
        .collect();
    // Programs that lie there themselves are kept beside.
    fs::create_dir("/run/local-bin").unwrap();
    rustix::mount::mount_bind("/usr/local/bin", "/run/local-bin").unwrap();
    let own: Vec<PathBuf> = fs::read_dir("/run/local-bin")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    rustix::mount::mount(
        "tmpfs",
        "/usr/local/bin",
        "tmpfs",
        rustix::mount::MountFlags::empty(),
        c"mode=755",
    )
    .unwrap();
    for path in own.iter().chain(&before).chain([opencode, rg]) {
        let name = path.file_name().unwrap();
        let link = PathBuf::from("/usr/local/bin").join(name);
        let _ = std::os::unix::fs::symlink(path, link);
    }
    Agent::There
}

impl Whole {
    async fn new() -> Self {
        fs::create_dir_all("/run/nacre/env").unwrap();
        let model = ScriptedModel::listen(0).await.unwrap();
        let (log, address) = (model.requests(), model.address().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn_local(async move {
            let _ = model.run().await;
        });
        let hub = Hub::new(SESSION, 1);
        let door = UnixListener::bind("/run/nacre/link").unwrap();
        let served = hub.clone();
        tasks.spawn_local(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = door.accept().await {
                let hub = served.clone();
                connections.spawn_local(async move {
                    hub.serve(Carrier::new(stream, Way::Lines).await).await;
                });
            }
        });
        let (pid_one, conversation) = PidOne::start();
        let (hands, _) = Hands::take(conversation).unwrap();
        Self {
            hub,
            model: log,
            base_url: format!("http://{address}/v1"),
            hands,
            tasks,
            workplace: None,
            prompts: 0,
            _pid_one: pid_one,
        }
    }

    /// A boot with the scripted model.
    pub(super) fn boot(&self) -> Boot {
        Boot {
            agent: AgentConfig {
                model: Some("scripted/main".to_owned()),
                small_model: Some("scripted/main".to_owned()),
                custom_providers: vec![CustomProvider {
                    id: "scripted".to_owned(),
                    name: "Scripted".to_owned(),
                    base_url: self.base_url.clone(),
                    models: vec![Model {
                        id: "main".to_owned(),
                        name: None,
                        context_limit: Some(100_000),
                        output_limit: None,
                    }],
                }],
                ..AgentConfig::default()
            },
            ..Boot::default()
        }
    }

    /// PID 1 starts it, and the hub says what it is to become.
    pub(super) fn start(&mut self, boot: Boot) {
        self.hub.boot_with(boot);
        let hands = self.hands.again().unwrap();
        let order = Order {
            sandbox: "sandbox-1".to_owned(),
            generation: 1,
            boot: "boot-1".to_owned(),
            session: Some(SESSION.to_owned()),
            link: Some(Link::Door),
            secret: Some(SECRET.to_owned()),
            journal_key: Some(JOURNAL_KEY.to_owned()),
        };
        let serving = self.tasks.spawn_local(async move {
            if let Err(error) = serve(hands, order).await {
                panic!("the workplace ended: {error:?}");
            }
        });
        self.workplace = Some(serving);
    }

    /// As when it is killed: nothing is said and nothing is put away.
    pub(super) async fn kill(&mut self) {
        let workplace = self.workplace.take().unwrap();
        workplace.abort();
        while !workplace.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn heard(
        &self,
        what: &str,
        is_it: impl Fn(&FromRunner) -> bool,
    ) -> FromRunner {
        self.heard_after(0, what, is_it).await
    }

    /// Of what came after so many frames.
    pub(super) async fn heard_after(
        &self,
        place: usize,
        what: &str,
        is_it: impl Fn(&FromRunner) -> bool,
    ) -> FromRunner {
        let since = Instant::now();
        loop {
            let heard = self.hub.heard();
            let found = heard.iter().skip(place).find(|frame| is_it(&frame.body));
            if let Some(frame) = found {
                return frame.body.clone();
            }
            assert!(
                since.elapsed() < PATIENCE,
                "{what} did not come; heard: {heard:#?}"
            );
            let _ = tokio::time::timeout(Duration::from_secs(1), self.hub.heard_from(heard.len()))
                .await;
        }
    }

    pub(super) async fn is_ready(&self) {
        self.is_ready_after(0).await;
    }

    pub(super) async fn is_ready_after(&self, place: usize) {
        let ready = self.heard_after(place, "readiness", |frame| {
            matches!(
                frame,
                FromRunner::AgentStatus {
                    status: AgentStatus::Idle | AgentStatus::Error,
                    channel: None,
                    ..
                }
            )
        });
        let ready = ready.await;
        assert!(
            matches!(&ready, FromRunner::AgentStatus { status, .. } if *status == AgentStatus::Idle),
            "{ready:?}"
        );
    }

    pub(super) fn prompt(&mut self, content: &str) -> Prompt {
        self.prompts += 1;
        Prompt::new(format!("p{}", self.prompts), content)
    }

    /// Sends it and waits for its end.
    pub(super) async fn send(&self, prompt: Prompt) -> FromRunner {
        let id = prompt.id.clone();
        self.hub.say(FromHub::Prompt(Box::new(prompt)));
        self.heard(&format!("the end of {id}"), |frame| frame.ends(&id))
            .await
    }

    pub(super) async fn ask(&mut self, content: &str) -> FromRunner {
        let prompt = self.prompt(content);
        self.send(prompt).await
    }
}

pub(super) fn is_complete(end: &FromRunner) -> bool {
    matches!(end, FromRunner::Complete { .. })
}

/// In one answer, over the socket of the sandbox's own user.
pub(super) async fn inside(method: &str, path: &str, body: &str) -> String {
    let output = tokio::process::Command::new("curl")
        .args(["-s", "--unix-socket", "/run/nacre.sock", "-X", method])
        .args(["-H", "Content-Type: application/json", "-d", body])
        .arg(format!("http://inside{path}"))
        .output();
    let output = output.await.unwrap();
    String::from_utf8(output.stdout).unwrap()
}
