//! The probe, simulated.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use model::{Id, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::disk::Disk;
use super::machine::Inside;
use super::node::{Content, Who};
use super::tree;
use crate::probe::{BEAT, Command, Identity, NotUnderstood, pattern, print};
use crate::{ExecOutput, ProviderError, WindowSize};

const BLOCK: usize = 64 << 10;
const MEGABYTE: u64 = 1 << 20;

pub(super) struct Process {
    pub(super) inside: Arc<Inside>,
    pub(super) who: Who,
    pub(super) env: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(super) cwd: Vec<u8>,
    pub(super) pid: i32,
    pub(super) stdin: mpsc::Receiver<Bytes>,
    /// A terminal has one.
    pub(super) size: watch::Receiver<Option<WindowSize>>,
    /// A detached command has none.
    pub(super) output: Option<mpsc::Sender<Result<ExecOutput, ProviderError>>>,
}

pub(super) enum End {
    Exited(i32),
    Killed(i32),
}

/// What a command complains of on stderr.
struct Complaint(String);

impl<E: std::error::Error> From<E> for Complaint {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl Process {
    pub(super) async fn run(mut self, command: Result<Command, NotUnderstood>) -> End {
        let code = match command {
            Err(error) => {
                self.complain(&error.to_string()).await;
                64
            }
            Ok(Command::Exit(code)) => code & 0xff,
            Ok(Command::Die(signal)) => return End::Killed(signal),
            Ok(Command::Alloc(megabytes)) => return self.alloc(megabytes).await,
            Ok(command) => match self.perform(command).await {
                Ok(()) => 0,
                Err(Complaint(text)) => {
                    self.complain(&text).await;
                    1
                }
            },
        };
        self.inside.pass().await;
        End::Exited(code)
    }

    async fn perform(&mut self, command: Command) -> Result<(), Complaint> {
        let (inside, who) = (self.inside.clone(), self.who);
        match command {
            Command::Out { bytes, mark } => {
                self.out(bytes).await;
                if let Some(mark) = mark {
                    let written = Content::from(&b"written"[..]);
                    inside
                        .step(|disk| tree::write(disk, who, &mark, written))
                        .await?;
                }
            }
            Command::Err(text) => self.grumble(text).await,
            Command::Cat => {
                while let Some(bytes) = self.stdin.recv().await {
                    self.say(bytes).await;
                }
            }
            Command::Env => {
                let pairs = self
                    .env
                    .iter()
                    .map(|(name, value)| [name, &b"="[..], value, b"\0"].concat());
                self.say(pairs.collect::<Vec<_>>().concat()).await;
            }
            Command::Pwd => self.say(self.cwd.clone()).await,
            Command::Id => self.say(format!("{} {}\n", who.uid, who.gid)).await,
            Command::Tty => {
                let size = *self.size.borrow();
                let text = size.map(|size| format!("tty {} {}\n", size.rows, size.columns));
                self.say(text.unwrap_or_else(|| "no tty\n".to_owned()))
                    .await;
            }
            Command::TtyWatch => self.watch_size().await,
            Command::Args(args) => {
                let mut text = args.join(&0);
                text.resize(text.len() + usize::from(!args.is_empty()), 0);
                self.say(text).await;
            }
            Command::Sleep(time) => sleep(time).await,
            Command::Tree(file) => self.tree(&file).await,
            Command::Beat(file) => beat(inside, who, self.pid, file).await,
            Command::Counter(file) => counter(&inside, who, &file).await?,
            Command::Listen(port) => self.listen(port).await?,
            Command::Door(name) => self.door(&name).await?,
            Command::Forks(count) => {
                let held: Vec<_> = (0..count).map_while(|_| inside.pids.take(1)).collect();
                self.say(format!("{}\n", held.len())).await;
            }
            Command::Spin(time) => {
                sleep(time).await;
                let most = u128::from(inside.cpu_millis.min(1000));
                self.say(format!("{}\n", time.as_millis() * most / 1000))
                    .await;
            }
            Command::Fill { path, megabytes } => self.fill(&path, megabytes).await,
            Command::Read(path) => {
                let content = inside.step(|disk| {
                    disk.find(&path)
                        .and_then(|inode| disk.content(inode).map(Content::whole))
                });
                let content = content.await?;
                self.say(content).await;
            }
            Command::Files(works) => {
                for work in works {
                    inside.step(|disk| tree::work(disk, who, work)).await?;
                }
            }
            Command::Manifest(path) => {
                let lines = inside.step(|disk| tree::manifest(disk, &path)).await?;
                self.say(print(&lines)).await;
            }
            Command::Identity => self.identity().await?,
            Command::Exit(_) | Command::Die(_) | Command::Alloc(_) => {
                unreachable!("these end in their own ways")
            }
        }
        Ok(())
    }

    async fn out(&self, bytes: u64) {
        let mut offset = 0;
        while offset < bytes {
            let length = usize::try_from(bytes - offset).unwrap_or(BLOCK).min(BLOCK);
            self.say(pattern(offset, length)).await;
            offset += length as u64;
        }
    }

    /// To stdout, in pieces; waits for its reader.
    async fn say(&self, bytes: impl Into<Bytes>) {
        let mut bytes = self.as_a_terminal_shows(bytes.into());
        while !bytes.is_empty() {
            self.send(ExecOutput::Stdout(bytes.split_to(BLOCK.min(bytes.len()))))
                .await;
        }
    }

    async fn grumble(&self, text: impl Into<Bytes>) {
        let text = self.as_a_terminal_shows(text.into());
        let on_terminal = self.size.borrow().is_some();
        self.send(if on_terminal {
            ExecOutput::Stdout(text)
        } else {
            ExecOutput::Stderr(text)
        })
        .await;
    }

    async fn complain(&self, text: &str) {
        self.grumble(format!("{text}\n")).await;
    }

    async fn send(&self, output: ExecOutput) {
        self.inside.pass().await;
        if let Some(to) = &self.output {
            // Without a reader the command is about to end.
            let _ = to.send(Ok(output)).await;
        }
    }

    fn as_a_terminal_shows(&self, bytes: Bytes) -> Bytes {
        if self.size.borrow().is_none() {
            return bytes;
        }
        let shown = bytes.iter().flat_map(|byte| {
            if *byte == b'\n' {
                &b"\r\n"[..]
            } else {
                std::slice::from_ref(byte)
            }
        });
        shown.copied().collect()
    }

    async fn watch_size(&mut self) {
        loop {
            let size = *self.size.borrow_and_update();
            if let Some(size) = size {
                self.say(format!("{} {}\n", size.rows, size.columns)).await;
            }
            if self.size.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    async fn tree(&self, file: &[u8]) {
        let mut children = JoinSet::new();
        for _ in 0..3 {
            let pid = self.inside.next_pid();
            children.spawn(beat(self.inside.clone(), self.who, pid, file.to_vec()));
        }
        std::future::pending::<()>().await;
    }

    async fn fill(&self, path: &[u8], megabytes: u64) {
        let mut got = 0;
        while got < megabytes {
            let content = Content {
                zeros: (got + 1) * MEGABYTE,
                ..Content::default()
            };
            let write = |disk: &mut Disk| tree::write(disk, self.who, path, content);
            if self.inside.step(write).await.is_err() {
                break;
            }
            got += 1;
        }
        self.say(format!("{got}\n")).await;
    }

    async fn alloc(&self, megabytes: u64) -> End {
        let mut held = Vec::new();
        for count in 1..=megabytes {
            match self.inside.memory.take(MEGABYTE) {
                Some(taken) => held.push(taken),
                // As the kernel does, with the only process that holds anything.
                None => return End::Killed(9),
            }
            self.say(format!("{count}\n")).await;
        }
        End::Exited(0)
    }

    async fn listen(&self, port: u16) -> Result<(), Complaint> {
        let Some(mut bound) = self.inside.bind(port) else {
            return Err(Complaint(format!("port {port} is in use")));
        };
        self.say("listening\n").await;
        let mut connections = JoinSet::new();
        while let Some(stream) = bound.connections.recv().await {
            while connections.try_join_next().is_some() {}
            connections.spawn(echo(self.inside.clone(), stream));
        }
        Ok(())
    }

    async fn door(&mut self, name: &[u8]) -> Result<(), Complaint> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let Some(bytes) = self.stdin.recv().await else {
                break;
            };
            line.extend_from_slice(&bytes);
        }
        self.inside.pass().await;
        let connected = std::str::from_utf8(name)
            .ok()
            .and_then(|name| self.inside.connect_door(name));
        let Some(mut stream) = connected else {
            return Err(Complaint("there is no such door".to_owned()));
        };
        stream.write_all(&line).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\n") && stream.read_buf(&mut answer).await? > 0 {}
        self.say(answer).await;
        Ok(())
    }

    async fn identity(&self) -> Result<(), Complaint> {
        let machine_id = self.inside.step(|disk| {
            let inode = disk.find(tree::MACHINE_ID.as_bytes())?;
            disk.content(inode).map(Content::whole)
        });
        let identity = Identity {
            hostname: self.inside.hostname.clone(),
            machine_id: String::from_utf8_lossy(&machine_id.await?)
                .trim()
                .to_owned(),
            random: token(),
        };
        let text = serde_json::to_string(&identity)?;
        self.say(text).await;
        Ok(())
    }
}

async fn beat(inside: Arc<Inside>, who: Who, pid: i32, file: Vec<u8>) {
    let line = format!("beat {pid}\n");
    loop {
        let beaten = inside.step(|disk| {
            let inode = disk.open(&file, who)?;
            disk.append(inode, line.as_bytes())
        });
        if beaten.await.is_err() {
            return;
        }
        sleep(BEAT).await;
    }
}

async fn counter(inside: &Inside, who: Who, file: &[u8]) -> Result<(), Complaint> {
    let token = token();
    for value in 0u64.. {
        let text = Content::from(format!("{token} {value:012}\n").as_bytes());
        inside
            .step(|disk| tree::write(disk, who, file, text))
            .await?;
        sleep(BEAT).await;
    }
    Ok(())
}

async fn echo(inside: Arc<Inside>, mut stream: DuplexStream) {
    let mut block = vec![0; BLOCK];
    while let Ok(read @ 1..) = stream.read(&mut block).await {
        inside.pass().await;
        if stream.write_all(&block[..read]).await.is_err() {
            return;
        }
    }
}

/// A number that never comes twice.
fn token() -> String {
    Id::<model::Boot>::new(&SystemClock)
        .uuid()
        .simple()
        .to_string()
}
