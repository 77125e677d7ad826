mod owners;
mod settle;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context as _, Result};
use camino::Utf8PathBuf;
use model::{Clock as _, Id, Organisation, Session, SystemClock};
use provider::SandboxId;
use store::prompts::Status;
use store::{Config, Store};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::book::Book;
use crate::ground::Work;
use crate::processes::{Running, ask, open, read};
use crate::protocol::{Answer, Deed, Frame, Mode, Request};
use crate::storm::owners::Owners;
use crate::{Ground, Pace, Report, Round, Server, Victim};

/// How many sessions there are at a time, about.
const SESSIONS: usize = 3;
/// Under this name a server takes up again what the one before it had.
const OWNER: &str = "server";

/// What a storm is to be.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub rounds: u64,
}

/// See the crate.
pub struct Storm {
    ground: Arc<dyn Ground>,
    directory: Utf8PathBuf,
    organisation: Id<Organisation>,
    store: Store,
    random: fastrand::Rng,
    server: Option<Running>,
    /// Where servers are found; watchers follow it.
    address: watch::Sender<Utf8PathBuf>,
    started: u64,
    sessions: BTreeMap<Id<Session>, Watched>,
    prompts: BTreeMap<String, Asked>,
    owners: Owners,
    watchers: JoinSet<()>,
    report: Report,
}

impl std::fmt::Debug for Storm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Storm")
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Default)]
struct Watched(Arc<Mutex<Book>>);

impl Watched {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().expect("no holder of this lock panics")
    }
}

struct Asked {
    session: Id<Session>,
    content: String,
    mode: Mode,
    /// Somebody was told that it is taken.
    is_taken: bool,
    end: Option<Status>,
}

/// What is done to everything in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blow {
    Nothing,
    Server,
    /// It stands still until its leases are over and another has its sessions, and then goes on.
    Stall,
    Victim(Victim),
}

impl Blow {
    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing was killed",
            Self::Server => "kill -9 of the server",
            Self::Stall => "the server stopped past its leases, then woken",
            Self::Victim(Victim::Runner) => "kill of a runner",
            Self::Victim(Victim::Agent) => "kill of an agent",
            Self::Victim(Victim::Sandbox) => "kill of a sandbox",
            Self::Victim(Victim::Keeper) => "kill -9 of what keeps sandboxes",
        }
    }
}

impl Storm {
    pub async fn new(ground: Arc<dyn Ground>, directory: Utf8PathBuf, seed: u64) -> Result<Self> {
        let database = directory.join("nacre.db");
        let mut config = Config::new(format!("sqlite:{database}").parse()?);
        config.busy_timeout = Duration::from_millis(50);
        let store = Store::open(&config).await?;
        let organisation = Id::new(&SystemClock);
        let mut tx = store.begin().await?;
        tx.create_organisation(organisation, "a storm", SystemClock.now())
            .await?;
        tx.commit().await?;
        Ok(Self {
            ground,
            address: watch::channel(directory.join("none")).0,
            directory,
            organisation,
            store,
            random: fastrand::Rng::with_seed(seed),
            server: None,
            started: 0,
            sessions: BTreeMap::new(),
            prompts: BTreeMap::new(),
            owners: Owners::default(),
            watchers: JoinSet::new(),
            report: Report {
                seed,
                ..Report::default()
            },
        })
    }

    /// All rounds, each told when it is over; ends early when something was broken.
    pub async fn rage(mut self, plan: Plan, mut tell: impl FnMut(&Round)) -> Result<Report> {
        let begun = Instant::now();
        for round in 1..=plan.rounds {
            let started = Instant::now();
            let (did, blow, broken) = self.round(round).await?;
            let told = Round {
                round,
                blow,
                did,
                took_ms: millis(started.elapsed()),
                broken: broken.clone(),
            };
            tell(&told);
            self.report.rounds = round;
            if !broken.is_empty() {
                let named = broken.into_iter();
                let named = named.map(|what| format!("round {round}: {what}"));
                self.report.broken.extend(named);
                break;
            }
        }
        self.report.took_ms = millis(begun.elapsed());
        for id in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.forget(id);
        }
        if let Some(server) = self.server.take() {
            server.kill().await?;
        }
        self.watchers.shutdown().await;
        self.tidy().await?;
        self.store.close().await?;
        Ok(self.report)
    }

    /// Sandboxes and snapshots of the storm go with it.
    async fn tidy(&self) -> Result<()> {
        let provider = self.ground.provider();
        let ours = [("nacre.managed".to_owned(), "session".to_owned())];
        for sandbox in provider.list(&ours).await? {
            let session = sandbox.labels.get("nacre.session");
            let session = session.and_then(|id| id.parse::<Id<Session>>().ok());
            if let Some(session) = session
                && self.store.find_session(session).await?.is_some()
            {
                provider.remove(sandbox.id).await?;
            }
        }
        let listing = store::sessions::Listing {
            limit: 1000,
            ..Default::default()
        };
        for record in self.store.list_sessions(self.organisation, listing).await? {
            for snapshot in self.store.session_snapshots(record.id, None, 1000).await? {
                if let Ok(id) = snapshot.id.parse() {
                    provider.delete_snapshot(&id).await?;
                }
            }
        }
        Ok(())
    }

    async fn round(&mut self, round: u64) -> Result<(Vec<String>, String, Vec<String>)> {
        let faults = self.random.bool().then(|| self.random.u64(..));
        if faults.is_some() {
            self.replace_server(OWNER, faults).await?;
        } else if self.server.is_none() {
            self.replace_server(OWNER, None).await?;
        }
        while self.sessions.len() < SESSIONS {
            self.create().await?;
        }
        let mut did = Vec::new();
        let mut working = JoinSet::new();
        for number in 0..self.random.u64(2..=5) {
            let (words, request) = self.work(round, number)?;
            did.push(words);
            let socket = self.address.borrow().clone();
            working.spawn(async move {
                let answer = ask(&socket, &request).await;
                (request, answer)
            });
        }
        let before = self.ground.pace().before_a_blow();
        sleep(before.mul_f64(self.random.f64())).await;
        let blow = self.blow();
        let mut told = blow.name().to_owned();
        if faults.is_some() {
            told.push_str(", with faults in store, provider and link");
        }
        let stalled = self.strike(blow).await?;
        self.collect(&mut working).await;
        self.count(&told);
        let broken = self.settle(stalled, faults.is_some()).await?;
        Ok((did, told, broken))
    }

    fn count(&mut self, blow: &str) {
        let blows = &mut self.report.blows;
        match blows.iter_mut().find(|(name, _)| name == blow) {
            Some((_, times)) => *times += 1,
            None => blows.push((blow.to_owned(), 1)),
        }
    }

    fn blow(&mut self) -> Blow {
        match self.random.u8(..16) {
            0..=4 => Blow::Server,
            5 => Blow::Stall,
            6..=7 => Blow::Victim(Victim::Runner),
            8..=9 => Blow::Victim(Victim::Agent),
            10..=12 => Blow::Victim(Victim::Sandbox),
            13..=14 => Blow::Victim(Victim::Keeper),
            _ => Blow::Nothing,
        }
    }

    /// A server that was stalled still stands still.
    async fn strike(&mut self, blow: Blow) -> Result<Option<Running>> {
        match blow {
            Blow::Nothing => {}
            Blow::Server => {
                if let Some(server) = self.server.take() {
                    server.kill().await?;
                }
            }
            Blow::Stall => {
                let stalled = self.server.take();
                if let Some(stalled) = &stalled {
                    self.stall(stalled).await?;
                }
                return Ok(stalled);
            }
            Blow::Victim(victim) => {
                if let Some(sandbox) = self.some_sandbox().await? {
                    // It may have gone before we came.
                    let _ = self.ground.kill(sandbox, victim).await;
                }
            }
        }
        Ok(None)
    }

    /// Not in the middle of a transaction: one that stood still there would keep SQLite's lock, and
    /// nobody could take over before it goes on.
    async fn stall(&self, server: &Running) -> Result<()> {
        for _ in 0..200 {
            server.stall()?;
            if let Ok(tx) = self.store.begin().await {
                tx.rollback().await?;
                return Ok(());
            }
            server.go_on()?;
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    async fn some_sandbox(&mut self) -> Result<Option<SandboxId>> {
        let ids: Vec<Id<Session>> = self.sessions.keys().copied().collect();
        let mut places = Vec::new();
        for id in ids {
            if let Some(record) = self.store.find_session(id).await?
                && let Some(place) = record.state.lifecycle()?.whereabouts()
            {
                places.push(place.sandbox);
            }
        }
        Ok(self.random.choice(places))
    }

    async fn create(&mut self) -> Result<()> {
        let pace = self.ground.pace();
        let patience = pace.patience();
        // Some have sandboxes that live for seconds, and are asked for longer all the time.
        let is_short = pace == Pace::Memory && self.random.u8(..3) == 0;
        let lifetime_ms = is_short.then(|| self.random.u64(2000..6000));
        let creating = async {
            loop {
                let socket = self.address.borrow().clone();
                let request = Request::Create { lifetime_ms };
                if let Some(Answer::Session(id)) = ask(&socket, &request).await {
                    return id;
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        let id = timeout(patience, creating)
            .await
            .context("no session can be made")?;
        self.follow(id);
        Ok(())
    }

    /// A client that watches it from its beginning to its end, through all servers.
    fn follow(&mut self, session: Id<Session>) {
        self.report.sessions += 1;
        let watched = Watched::default();
        self.sessions.insert(session, watched.clone());
        let address = self.address.subscribe();
        self.watchers.spawn(async move {
            loop {
                let socket = address.borrow().clone();
                let since = watched.book().last();
                let request = Request::Watch { session, since };
                if let Some(mut frames) = open(&socket, &request).await {
                    while let Some(frame) = read::<Frame>(&mut frames).await {
                        watched.book().take(frame);
                    }
                }
                sleep(Duration::from_millis(5)).await;
            }
        });
    }

    /// Something to do, and in words.
    fn work(&mut self, round: u64, number: u64) -> Result<(String, Request)> {
        let ids: Vec<Id<Session>> = self.sessions.keys().copied().collect();
        let session = self.random.choice(ids).context("there are no sessions")?;
        let deed = match self.random.u8(..20) {
            0..=10 => return Ok(self.prompt(session, round, number)),
            11..=13 => Deed::Pause,
            14 => Deed::Store,
            15..=16 => Deed::Migrate,
            17 => Deed::Snapshot,
            18 if self.sessions.len() < 2 * SESSIONS => {
                return Ok(("fork".to_owned(), Request::Fork(session)));
            }
            18 => Deed::Stop,
            _ => [Deed::Cancel, Deed::Ensure, Deed::Stop][self.random.usize(..3)],
        };
        let words = format!("{deed:?}").to_lowercase();
        Ok((words, Request::Do(session, deed)))
    }

    fn prompt(&mut self, session: Id<Session>, round: u64, number: u64) -> (String, Request) {
        let id = format!("p{round}-{number}-{}", self.tag());
        let mut work = Vec::new();
        for step in 0..self.random.u8(1..=4) {
            work.push(match self.random.u8(..3) {
                0 => Work::Say(format!(
                    "round {round} has words in step {step}, some of them {}",
                    "longer ".repeat(self.random.usize(..8))
                )),
                1 => Work::Write {
                    path: format!("file-{id}-{step}"),
                    words: format!("kept in {id}"),
                },
                _ => Work::Wait {
                    millis: self.random.u64(1..40),
                },
            });
        }
        let content = self.ground.script(&id, &work);
        let mode = match (self.ground.pace(), self.random.u8(..6)) {
            (Pace::Memory, 0) => Mode::Steer,
            (Pace::Memory, 1) => Mode::Collect,
            _ => Mode::Followup,
        };
        let asked = Asked {
            session,
            content: content.clone(),
            mode,
            is_taken: false,
            end: None,
        };
        self.prompts.insert(id.clone(), asked);
        self.report.prompts += 1;
        let request = Request::Prompt {
            session,
            id,
            content,
            mode,
        };
        let words = match mode {
            Mode::Followup => "prompt",
            Mode::Steer => "prompt that steers",
            Mode::Collect => "prompt to be collected",
        };
        (words.to_owned(), request)
    }

    /// Whoever counts may have seen another storm: names end with it.
    fn tag(&self) -> String {
        let storm = self.organisation.to_string();
        storm[storm.len() - 6..].to_owned()
    }

    /// What became of the work, as far as anybody was told.
    async fn collect(&mut self, working: &mut JoinSet<(Request, Option<Answer>)>) {
        let until = Instant::now() + Duration::from_secs(1);
        while let Ok(Some(done)) = tokio::time::timeout_at(until, working.join_next()).await {
            let Ok((request, answer)) = done else {
                continue;
            };
            match (request, answer) {
                (Request::Prompt { id, .. }, Some(Answer::Done)) => {
                    if let Some(asked) = self.prompts.get_mut(&id) {
                        asked.is_taken = true;
                    }
                }
                (Request::Fork(_), Some(Answer::Session(fork))) => self.follow(fork),
                _ => {}
            }
        }
        working.shutdown().await;
    }

    async fn replace_server(&mut self, owner: &str, faults: Option<u64>) -> Result<()> {
        if let Some(server) = self.server.take() {
            server.kill().await?;
        }
        self.start_server(owner, faults).await
    }

    async fn start_server(&mut self, owner: &str, faults: Option<u64>) -> Result<()> {
        self.started += 1;
        let socket = self.directory.join(format!("server-{}.sock", self.started));
        let server = Server {
            database: self.directory.join("nacre.db"),
            socket: socket.clone(),
            owner: owner.to_owned(),
            faults,
            organisation: self.organisation,
        };
        let running = Running::start(self.ground.server(&server), &socket).await?;
        self.address.send_replace(socket);
        self.server = Some(running);
        Ok(())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
