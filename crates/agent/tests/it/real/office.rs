//! A real agent at work, with everything it needs.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::configuration::{
    Configuration, FileContent, Launch, Model, PermissionPolicy, Provider, Questions, Sees, Speaks,
    ToolServer,
};
use agent::dial::{Dial, Stream, Tcp};
use agent::event::{Content, Event, Happening, Reason, ToolState};
use agent::opencode::{self, Connected, Memory, OpenCode, Settings};
use agent::{Accepted, Agent as _, ChannelKey, Prompt, Refused};
use async_trait::async_trait;
use camino_tempfile::Utf8TempDir;
use model::{Secret, SystemClock};
use serde_json::{Value, json};
use testkit::model::{RequestLog, ScriptedModel};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

const LONG: Duration = Duration::from_mins(1);
pub(crate) const MEMORY: &str = "earlier somebody spoke of pearls";

#[derive(Debug)]
pub(crate) struct Wants {
    /// The agent asks before it acts.
    pub(crate) asks: bool,
    pub(crate) speaks: Speaks,
    /// Where our tools are.
    pub(crate) tools: Option<SocketAddr>,
}

impl Default for Wants {
    fn default() -> Wants {
        Wants {
            asks: false,
            speaks: Speaks::AnthropicMessages,
            tools: None,
        }
    }
}

impl Wants {
    fn policy(&self) -> PermissionPolicy {
        if self.asks {
            PermissionPolicy::Ask
        } else {
            PermissionPolicy::Allow
        }
    }
}

pub(crate) struct Office {
    pub(crate) agent: OpenCode,
    pub(crate) model: RequestLog,
    events: mpsc::Receiver<Event>,
    /// Heard since the last end of a turn.
    heard: Vec<Event>,
    prompts: usize,
    directory: Utf8TempDir,
    program: PathBuf,
    launch: Launch,
    process: Option<Child>,
    address: SocketAddr,
    wire: Arc<Wire>,
    memory: Arc<Remembers>,
    settings: Settings,
    tasks: JoinSet<()>,
}

#[expect(clippy::print_stderr, reason = "a test that proves nothing says so")]
pub(crate) fn say_skipped(why: &str) {
    eprintln!("skipped: {why}");
}

impl Office {
    pub(crate) async fn open(wants: Wants) -> Result<Office, String> {
        let program = find_program()?;
        let directory = Utf8TempDir::new().unwrap();
        let mut tasks = JoinSet::new();
        let model = ScriptedModel::listen(0).await.unwrap();
        let log = model.requests();
        let launch = opencode::launch(&configuration(
            &directory,
            &wants,
            model.address().unwrap(),
            free_port().await,
        ));
        tasks.spawn(async move {
            let _ = model.run().await;
        });
        let port: u16 = launch.argv.last().unwrap().parse().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let process = prepare_and_spawn(&program, &directory, &launch).await;
        let wire = Arc::new(Wire::new(address));
        let memory = Arc::new(Remembers::default());
        let settings = Settings {
            dial: wire.clone(),
            password: Secret::new("hunter22"),
            clock: Arc::new(SystemClock),
            permissions: wants.policy(),
            model: Some("llm/main".parse().unwrap()),
            transcriber: None,
            memory: Some(memory.clone()),
            health_limit: opencode::HEALTH_LIMIT,
        };
        let Connected {
            agent,
            driver,
            events,
        } = opencode::connect(settings.clone()).await.unwrap();
        tasks.spawn(driver.run());
        Ok(Office {
            agent,
            model: log,
            events,
            heard: Vec::new(),
            prompts: 0,
            directory,
            program,
            launch,
            process: Some(process),
            address,
            wire,
            memory,
            settings,
            tasks,
        })
    }

    pub(crate) async fn accept(&self, text: &str) -> Result<Accepted, Refused> {
        let prompt = Prompt::text("one", ChannelKey::web(), &self.placed(text));
        self.agent.accept(prompt).await
    }

    pub(crate) async fn start(&mut self, text: &str) {
        self.start_with(&[], text).await;
    }

    pub(crate) async fn start_with(&mut self, models: &[&str], text: &str) {
        self.prompts += 1;
        let id = format!("prompt-{}", self.prompts);
        let mut prompt = Prompt::text(&id, ChannelKey::web(), &self.placed(text));
        prompt.models = models.iter().map(|model| model.parse().unwrap()).collect();
        self.agent.accept(prompt).await.unwrap().start();
    }

    pub(crate) async fn ask(&mut self, text: &str) -> Vec<Event> {
        self.start(text).await;
        self.until_done().await
    }

    /// Until a tool runs that goes on for long.
    pub(crate) async fn start_to_sleep(&mut self) {
        self.start(
            r#"!!{"tool": "bash", "input": {"command": "sleep 60", "description": "wait"}}"#,
        )
        .await;
        self.until(|event| match &event.happening {
            Happening::PartWhole {
                content: Content::Tool(tool),
                ..
            } if tool.state == ToolState::Running => Some(()),
            _ => None,
        })
        .await;
    }

    fn placed(&self, text: &str) -> String {
        let workspace = self.directory.path().join("workspace");
        text.replace("WORKSPACE", workspace.as_str())
    }

    pub(crate) async fn next(&mut self) -> Event {
        let event = timeout(LONG, self.events.recv()).await;
        assert!(
            event.is_ok(),
            "nothing more comes; heard: {:#?}",
            self.heard
        );
        event.unwrap().unwrap()
    }

    pub(crate) async fn until<T>(&mut self, find: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let event = self.next().await;
            let found = find(&event);
            self.heard.push(event);
            if let Some(found) = found {
                return found;
            }
        }
    }

    /// Everything up to the end of the next turn.
    pub(crate) async fn until_done(&mut self) -> Vec<Event> {
        self.until(|event| matches!(event.happening, Happening::TurnDone { .. }).then_some(()))
            .await;
        let heard = std::mem::take(&mut self.heard);
        crate::transcript::Transcript::of(&heard).value();
        heard
    }

    pub(crate) fn cut_streams(&self) {
        self.wire.cut();
    }

    pub(crate) async fn kill(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().await.unwrap();
    }

    pub(crate) async fn launch(&mut self) {
        let process = prepare_and_spawn(&self.program, &self.directory, &self.launch).await;
        self.process = Some(process);
    }

    pub(crate) async fn restart(&mut self) {
        self.kill().await;
        self.agent.process_ended("restarted".to_owned()).await;
        self.launch().await;
        self.agent.process_started().await.unwrap();
    }

    pub(crate) fn put(&self, name: &str, content: &str) {
        let path = self.directory.path().join("workspace").join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, self.placed(content)).unwrap();
    }

    pub(crate) fn file(&self, name: &str) -> String {
        let path = self.directory.path().join("workspace").join(name);
        fs_err::read_to_string(path).unwrap()
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        self.directory.path().join("workspace").join(name).exists()
    }

    /// What git says in a repository of the workspace.
    pub(crate) async fn git(&self, repository: &str, arguments: &[&str]) -> String {
        let said = Command::new("git")
            .args(arguments)
            .current_dir(self.directory.path().join("workspace").join(repository))
            .output()
            .await
            .unwrap();
        String::from_utf8(said.stdout).unwrap().trim().to_owned()
    }

    pub(crate) async fn sessions(&self) -> Vec<String> {
        let list: Value = self.http("GET", "/session").await;
        let ids = list.as_array().unwrap().iter();
        ids.map(|session| session["id"].as_str().unwrap().to_owned())
            .collect()
    }

    /// What was said in them is remembered.
    pub(crate) async fn delete_sessions(&self) {
        self.memory.has_something.store(true, Ordering::SeqCst);
        for id in self.sessions().await {
            self.http("DELETE", &format!("/session/{id}")).await;
        }
    }

    pub(crate) async fn user_messages(&self) -> usize {
        let id = self.sessions().await.remove(0);
        let list = self.http("GET", &format!("/session/{id}/message")).await;
        let messages = list.as_array().unwrap().iter();
        messages
            .filter(|message| message["info"]["role"] == "user")
            .inspect(|message| {
                let parts = message["parts"].as_array().unwrap();
                assert_eq!(parts.len(), 1, "its text is there once");
            })
            .count()
    }

    /// Behind the client's back.
    async fn http(&self, method: &str, path: &str) -> Value {
        let mut stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        // "opencode:hunter22" in base 64.
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\n\
             Authorization: Basic b3BlbmNvZGU6aHVudGVyMjI=\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut reply = Vec::new();
        // It may keep the connection; what it says is over when it is JSON.
        loop {
            assert!(stream.read_buf(&mut reply).await.unwrap() > 0, "cut");
            let text = String::from_utf8_lossy(&reply);
            let body = text.split_once("\r\n\r\n").map(|(_, body)| body);
            if let Some(Ok(value)) = body.map(serde_json::from_str) {
                return value;
            }
        }
    }

    /// Another client of the same agent.
    pub(crate) async fn second_client(&mut self) -> (OpenCode, mpsc::Receiver<Event>) {
        let connected = opencode::connect(self.settings.clone()).await.unwrap();
        self.tasks.spawn(connected.driver.run());
        (connected.agent, connected.events)
    }

    pub(crate) async fn close(mut self) {
        self.kill().await;
        self.tasks.shutdown().await;
    }
}

#[derive(Debug, Default)]
struct Remembers {
    has_something: AtomicBool,
}

#[async_trait]
impl Memory for Remembers {
    async fn recall(&self, _channel: &ChannelKey) -> Option<String> {
        let has_something = self.has_something.load(Ordering::SeqCst);
        has_something.then(|| MEMORY.to_owned())
    }
}

/// Connections that can all be cut.
#[derive(Debug)]
struct Wire {
    to: Tcp,
    generation: watch::Sender<u64>,
    relays: Mutex<JoinSet<()>>,
}

impl Wire {
    fn new(address: SocketAddr) -> Wire {
        Wire {
            to: Tcp(address),
            generation: watch::Sender::new(0),
            relays: Mutex::default(),
        }
    }

    fn cut(&self) {
        self.generation.send_modify(|generation| *generation += 1);
    }
}

#[async_trait]
impl Dial for Wire {
    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        let mut far = self.to.dial().await?;
        let (near, mut middle) = tokio::io::duplex(64 << 10);
        let mut cut = self.generation.subscribe();
        self.relays.lock().unwrap().spawn(async move {
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut middle, &mut far) => {}
                _ = cut.changed() => {}
            }
        });
        Ok(Box::new(near))
    }
}

fn find_program() -> Result<PathBuf, String> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test is told where the program is"
    )]
    let told = std::env::var_os("NACRE_OPENCODE").map(PathBuf::from);
    let fetched = std::env::current_exe().unwrap();
    let fetched = fetched.ancestors().nth(3).unwrap().join("tools/opencode");
    let program = told.unwrap_or(fetched);
    if program.is_file() {
        return Ok(program);
    }
    Err(format!(
        "there is no OpenCode at {}; `cargo xtask test` fetches it, or set NACRE_OPENCODE",
        program.display()
    ))
}

async fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    listener.local_addr().unwrap().port()
}

fn configuration(
    directory: &Utf8TempDir,
    wants: &Wants,
    model: SocketAddr,
    port: u16,
) -> Configuration {
    let entry = |id: &str| Model {
        id: id.to_owned(),
        name: id.to_owned(),
        context: 200_000,
        output: 8192,
        sees: Sees::TextAndImages,
    };
    let bad = [
        "429", "529", "500", "401", "402", "404", "long", "drop", "empty",
    ];
    let models = ["main", "second"].map(str::to_owned).into_iter();
    let models = models.chain(bad.map(|fault| format!("bad-{fault}")));
    Configuration {
        workspace: directory.path().join("workspace").into_string(),
        directory: directory.path().join("agent").into_string(),
        home: directory.path().join("home").into_string(),
        port,
        password: Secret::new("hunter22"),
        providers: vec![Provider {
            id: "llm".to_owned(),
            name: "Scripted".to_owned(),
            speaks: wants.speaks,
            base_url: format!("http://{model}/v1"),
            models: models.map(|id| entry(&id)).collect(),
        }],
        model: Some("llm/main".parse().unwrap()),
        small_model: Some("llm/main".parse().unwrap()),
        model_token: Secret::new("worthless"),
        tools: wants.tools.map(|address| ToolServer {
            name: "nacre".to_owned(),
            url: format!("http://{address}/mcp"),
            token: Secret::new("tools-token"),
            timeout_ms: 30_000,
        }),
        without_tools: Vec::new(),
        instructions: Vec::new(),
        skills: Vec::new(),
        permissions: wants.policy(),
        questions: Questions::Answered,
        memory_cap: None,
        own_settings: json!({}),
    }
}

async fn prepare_and_spawn(program: &PathBuf, directory: &Utf8TempDir, launch: &Launch) -> Child {
    for file in &launch.files {
        if file.content == FileContent::Directory {
            fs_err::create_dir_all(&file.path).unwrap();
            continue;
        }
        let parent = std::path::Path::new(&file.path).parent().unwrap();
        fs_err::create_dir_all(parent).unwrap();
        fs_err::write(&file.path, file.content.bytes()).unwrap();
    }
    fs_err::create_dir_all(&launch.cwd).unwrap();
    let git = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(&launch.cwd)
        .status();
    assert!(git.await.unwrap().success());
    let tools = program.parent().unwrap().display();
    Command::new(program)
        .args(&launch.argv[1..])
        .current_dir(&launch.cwd)
        .env_clear()
        .env("PATH", format!("{tools}:/usr/local/bin:/usr/bin:/bin"))
        .env("HOME", directory.path().join("home"))
        .envs(
            launch
                .env
                .iter()
                .map(|(name, value)| (name, value.expose())),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

pub(crate) fn text_of(events: &[Event]) -> String {
    end_of(events).1
}

pub(crate) fn reason_of(events: &[Event]) -> Reason {
    end_of(events).0
}

fn end_of(events: &[Event]) -> (Reason, String) {
    let end = events.iter().find_map(|event| match &event.happening {
        Happening::TurnDone { reason, text, .. } => Some((*reason, text.clone())),
        _ => None,
    });
    end.unwrap_or_else(|| panic!("no end: {events:#?}"))
}
