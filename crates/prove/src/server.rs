//! A process with sessions, and nothing else: no people, no routes. It is there to be killed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use camino::Utf8PathBuf;
use model::session::PauseReason;
use model::session::StopReason;
use model::{Id, Organisation, Session, SystemClock};
use provider::Provider;
use provider::faulty::{Fault, Faulty};
use sessions::{Ask, HubError, Makings, New, Sessions, Spec, Told};
use store::faults::{self, Faults};
use store::prompts::{Mode, NewPrompt};
use store::sessions::{Channel, Type};
use store::{Config, Replay, Store};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::OwnedWriteHalf;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use crate::Pace;
use crate::protocol::{self, Answer, Deed, Frame, Request};

/// What a server is started with.
#[derive(Debug)]
pub struct ServerOptions {
    pub database: Utf8PathBuf,
    pub socket: Utf8PathBuf,
    /// By which it owns its sessions.
    pub owner: String,
    pub organisation: Id<Organisation>,
    /// By this seed calls to store, provider and link go wrong.
    pub faults: Option<u64>,
    pub provider: Arc<dyn Provider>,
    /// What its sessions are.
    pub spec: Spec,
    pub pace: Pace,
}

/// Until it is killed.
pub async fn serve(options: ServerOptions) -> Result<()> {
    let ServerOptions {
        database,
        socket,
        owner,
        organisation,
        faults,
        provider,
        spec,
        pace,
    } = options;
    let mut config = Config::new(format!("sqlite:{database}").parse()?);
    config.busy_timeout = Duration::from_secs(2);
    let (provider, spoiled) = match faults {
        Some(seed) => (spoil(provider, seed), store_faults(seed)),
        None => (provider, Faults::none()),
    };
    config.faults = spoiled;
    let store = Store::open(&config).await?;
    let name = provider.name().to_owned();
    let sessions = Sessions::new(Makings {
        store: store.clone(),
        providers: vec![provider],
        clock: Arc::new(SystemClock),
        owner,
        outside: Arc::new(sessions::Nothing),
        settings: pace.settings(),
    });
    let listener = UnixListener::bind(&socket).context("cannot listen")?;
    let served = Arc::new(Served {
        store,
        sessions,
        organisation,
        provider: name,
        spec,
    });
    let mut tasks = JoinSet::new();
    let sweeping = Arc::clone(&served);
    tasks.spawn(async move {
        if let Err(error) = sweeping.sessions.reclaim().await {
            tracing::warn!(%error, "sessions cannot be taken up again");
        }
        sweeping.sessions.sweep().await;
    });
    loop {
        let (stream, _) = listener.accept().await?;
        while tasks.try_join_next().is_some() {}
        let served = Arc::clone(&served);
        tasks.spawn(async move {
            // Who asked may be gone.
            let _ = served.connection(stream).await;
        });
    }
}

/// One call in a dozen goes wrong, in one of four ways, and one link in three breaks.
fn spoil(provider: Arc<dyn Provider>, seed: u64) -> Arc<dyn Provider> {
    let faulty = Faulty::new(provider);
    let mut random = fastrand::Rng::with_seed(seed);
    faulty.spoil(move |_| {
        (random.u8(..12) == 0).then(|| match random.u8(..4) {
            0 => Fault::Fail,
            1 => Fault::Lose,
            2 => Fault::Hang,
            _ => Fault::HangAfter,
        })
    });
    let mut random = fastrand::Rng::with_seed(seed ^ 1);
    faulty.cut(move || (random.u8(..3) == 0).then(|| random.u64(1..4000)));
    Arc::new(faulty)
}

fn store_faults(seed: u64) -> Faults {
    let mut random = fastrand::Rng::with_seed(seed ^ 2);
    Faults::by(move || {
        (random.u8(..40) == 0).then(|| match random.u8(..3) {
            0 => faults::Fault::Fail,
            1 => faults::Fault::Lose,
            _ => faults::Fault::Delay(Duration::from_millis(random.u64(1..50))),
        })
    })
}

struct Served {
    store: Store,
    sessions: Sessions,
    organisation: Id<Organisation>,
    provider: String,
    spec: Spec,
}

impl Served {
    async fn connection(&self, stream: UnixStream) -> Result<()> {
        let (reader, mut writer) = stream.into_split();
        let mut lines = BufReader::new(reader).lines();
        let Some(line) = lines.next_line().await? else {
            return Ok(());
        };
        let answer = match serde_json::from_str(&line)? {
            Request::Watch { session, since } => {
                return self.watch(session, since, &mut writer).await;
            }
            request => self.answer(request).await,
        };
        let answer = answer.unwrap_or_else(|error| match error {
            HubError::Refused(refused) => Answer::Refused(refused.code().to_owned()),
            error => Answer::Failed(error.to_string()),
        });
        say(&mut writer, &answer).await
    }

    async fn answer(&self, request: Request) -> Result<Answer, HubError> {
        match request {
            Request::Create { lifetime_ms } => {
                let mut spec = self.spec.clone();
                spec.machine.lifetime = lifetime_ms.or(spec.machine.lifetime);
                let new = New {
                    organisation: self.organisation,
                    created_by: None,
                    title: "a session in a storm".to_owned(),
                    r#type: Type::Coding,
                    channel: Channel::Api,
                    provider: self.provider.clone(),
                    spec,
                };
                self.sessions.create(new).await.map(Answer::Session)
            }
            Request::Fork(session) => {
                let fork = self.sessions.fork(session, None, None).await?;
                Ok(Answer::Session(fork))
            }
            Request::Do(session, deed) => {
                let handle = self.sessions.open(session).await?;
                match deed {
                    Deed::Ensure => handle.ensure_ready().await.map(drop),
                    Deed::Pause => handle.pause(PauseReason::Manual).await.map(drop),
                    Deed::Store => handle.store().await,
                    Deed::Migrate => handle.migrate().await.map(drop),
                    Deed::Snapshot => handle.snapshot().await.map(drop),
                    Deed::Cancel => handle.cancel(None).await,
                    Deed::Stop => handle.stop(StopReason::Manual).await,
                }?;
                Ok(Answer::Done)
            }
            Request::Prompt {
                session,
                id,
                content,
                mode,
            } => {
                let handle = self.sessions.open(session).await?;
                let body = serde_json::to_string(&Ask::new(content)).unwrap_or_default();
                let prompt = NewPrompt {
                    id,
                    channel: wire::link::DEFAULT_CHANNEL.to_owned(),
                    mode: match mode {
                        protocol::Mode::Followup => Mode::Followup,
                        protocol::Mode::Steer => Mode::Steer,
                        protocol::Mode::Collect => Mode::Collect,
                    },
                    body,
                };
                handle.prompt(prompt).await?;
                Ok(Answer::Done)
            }
            Request::Sweep => {
                self.sessions.renew().await?;
                self.sessions.adopt().await?;
                self.sessions.tend().await;
                self.sessions.observe().await;
                self.sessions.seal_orphans().await;
                self.sessions.collect().await?;
                Ok(Answer::Done)
            }
            Request::Owned => Ok(Answer::Owned(self.sessions.owned())),
            Request::Watch { .. } => Ok(Answer::Done),
        }
    }

    /// As a gateway does: what was missed from the log, open parts whole, and all that follows.
    async fn watch(
        &self,
        session: Id<Session>,
        since: u64,
        writer: &mut OwnedWriteHalf,
    ) -> Result<()> {
        let handle = self.sessions.open(session).await?;
        let mut watch = handle.watch().await?;
        let mut seen = since;
        while seen < watch.seq {
            let replay = self.store.events_after(session, seen, 500).await?;
            let Replay::Events { events, .. } = replay else {
                anyhow::bail!("the log is not whole");
            };
            for event in events.into_iter().filter(|event| event.seq <= watch.seq) {
                seen = event.seq;
                let body = event.body.to_string();
                say(writer, &Frame::Numbered { seq: seen, body }).await?;
            }
        }
        for open in watch.open.drain(..) {
            say(writer, &Frame::Passing(open.to_string())).await?;
        }
        loop {
            let frame = match watch.told.recv().await {
                Ok(Told::Numbered(event)) => Frame::Numbered {
                    seq: event.seq,
                    body: event.body.to_string(),
                },
                Ok(Told::Passing(text)) => Frame::Passing(text.to_string()),
                // It looks again, from where it was; and so when the hub is gone.
                Err(RecvError::Lagged(_) | RecvError::Closed) => return Ok(()),
            };
            say(writer, &frame).await?;
        }
    }
}

async fn say(writer: &mut OwnedWriteHalf, value: &impl serde::Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    Ok(())
}
