//! The one way in which clients come to what a session tells, by socket or by event stream.
//!
//! ```text
//!            since, and not too far          since = last          new frames
//!  outside ────────────────────────► log ───────────────► live ◄──────────────┐
//!     │ ▲    no since, or too far                          │ └────────────────┘
//!     │ └──────────── fell behind ─────────────────────────┘
//!     └────────────────────────────► init ──────────────► live
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use model::{Id, Session};
use store::actions::Status;
use store::prompts::Prompt;
use tokio::sync::watch;
use wire::v1::{self, Init};

use crate::direct::Direct;
use crate::feed::{Feed, Given, Joined};
use crate::frame::Batch;
use crate::{Gateway, Shared, shown};

/// Events of the log that are read at a time.
const PAGE: u32 = 500;
/// The newest that are looked through for those that wait.
const ACTIONS: u32 = 100;
/// Bytes of prompts that a client begins with.
const PROMPTS: usize = 1 << 20;

/// What one client gets, in order.
#[derive(Debug)]
pub struct Replay {
    shared: Arc<Shared>,
    feed: Arc<Feed>,
    session: Id<Session>,
    newest: watch::Receiver<u64>,
    /// The number of the last event that was given.
    seen: Option<u64>,
    at: At,
}

#[derive(Debug)]
enum At {
    Outside,
    Init { joined: Joined, resync: bool },
    Log(Joined),
    Live(u64),
}

/// Why nothing more comes.
#[derive(Debug, thiserror::Error)]
pub enum Over {
    /// This process does not have the session any more: connect again.
    #[error("the session is elsewhere: connect again")]
    Elsewhere,
    #[error("what was missed cannot be read")]
    Store(#[from] store::Error),
}

impl Gateway {
    pub fn replay(&self, session: Id<Session>, feed: &Arc<Feed>, since: Option<u64>) -> Replay {
        Replay {
            shared: Arc::clone(&self.0),
            newest: feed.newest(),
            feed: Arc::clone(feed),
            session,
            seen: since,
            at: At::Outside,
        }
    }
}

impl Replay {
    /// Waits for what comes next. Given up, it has lost nothing.
    pub async fn next(&mut self, out: &mut VecDeque<Batch>) -> Result<(), Over> {
        loop {
            match &self.at {
                At::Outside => self.begin(),
                At::Init { joined, resync } => {
                    let (next, seq) = (joined.next, joined.seq);
                    let init = self.init(seq, *resync).await?;
                    out.push_back(init);
                    push(out, &joined.moment);
                    self.seen = Some(seq);
                    self.at = At::Live(next);
                    return Ok(());
                }
                At::Log(joined) if self.seen.unwrap_or(0) < joined.seq => {
                    if let Some(page) = self.page(joined.seq).await? {
                        self.seen = page.last_seq();
                        out.push_back(page);
                        return Ok(());
                    }
                    self.at = At::Init {
                        joined: joined.clone(),
                        resync: true,
                    };
                }
                At::Log(joined) => {
                    push(out, &joined.moment);
                    self.at = At::Live(joined.next);
                    if !out.is_empty() {
                        return Ok(());
                    }
                }
                At::Live(next) => {
                    let next = *next;
                    self.newest.mark_unchanged();
                    if self.take(next, out)? {
                        return Ok(());
                    }
                    if matches!(self.at, At::Live(_)) && self.newest.changed().await.is_err() {
                        return Err(Over::Elsewhere);
                    }
                }
            }
        }
    }

    /// What is there already, where nothing need be waited for.
    pub fn try_next(&mut self, out: &mut VecDeque<Batch>) -> Result<bool, Over> {
        match self.at {
            At::Live(next) => self.take(next, out),
            _ => Ok(false),
        }
    }

    /// True if everything was given: what comes is written to the client by the feed, until
    /// [`unpark`](Self::unpark).
    pub(crate) fn park(&self, one: &Arc<Direct>) -> bool {
        matches!(self.at, At::Live(next) if self.feed.park(next, one))
    }

    /// What the client has to write before anything else.
    pub(crate) fn unpark(&mut self, one: &Direct) -> Bytes {
        let Some((place, rest)) = one.unpark() else {
            return Bytes::new();
        };
        self.seen = place.seq.or(self.seen);
        self.at = At::Live(place.next);
        rest
    }

    fn take(&mut self, next: u64, out: &mut VecDeque<Batch>) -> Result<bool, Over> {
        match self.feed.give(next, out) {
            Given::Upto(next, seq) => {
                self.seen = seq.or(self.seen);
                self.at = At::Live(next);
                return Ok(true);
            }
            Given::Nothing => {}
            Given::Behind => self.at = At::Outside,
            Given::Over => return Err(Over::Elsewhere),
        }
        Ok(false)
    }

    fn begin(&mut self) {
        let joined = self.feed.join();
        self.at = match self.seen {
            None => At::Init {
                joined,
                resync: false,
            },
            // What a client has not seen of us it may have made up.
            Some(seen)
                if seen > joined.seq || joined.seq - seen > self.shared.settings.replayed =>
            {
                At::Init {
                    joined,
                    resync: true,
                }
            }
            Some(_) => At::Log(joined),
        };
    }

    /// The next events of the log, none after `upto`. None where they are not kept any more.
    async fn page(&self, upto: u64) -> Result<Option<Batch>, Over> {
        let since = self.seen.unwrap_or(0);
        let page = self.shared.store.events_after(self.session, since, PAGE);
        let store::Replay::Events { mut events, .. } = page.await? else {
            return Ok(None);
        };
        events.retain(|event| event.seq <= upto);
        Ok((!events.is_empty()).then(|| Batch::numbered(&events)))
    }

    async fn init(&self, seq: u64, resync: bool) -> Result<Batch, Over> {
        let (store, session) = (&self.shared.store, self.session);
        let record = store.load_session(session).await?;
        let messages = store.last_messages(session, self.shared.settings.messages);
        let messages = messages.await?;
        let questions = store.open_questions(session).await?;
        let prompts = store.open_prompts(session).await?;
        let actions = store.list_actions(session, None, ACTIONS).await?;
        let env_requests = store.open_env_requests(session).await?;
        let now = self.shared.clock.now();
        let work = store.work_of(&[session], now).await?;
        let work = work.get(&session).copied().unwrap_or_default();
        let site = self.shared.settings.preview.as_ref();
        let init = Init {
            r#type: "init".to_owned(),
            runtime: shown::runtime(&record, site),
            session: shown::session(&record, work, site),
            seq,
            messages: messages.into_iter().map(shown::message).collect(),
            questions: questions
                .iter()
                .filter_map(|question| serde_json::from_str(&question.body).ok())
                .collect(),
            prompts: few(&prompts),
            actions: actions
                .iter()
                .filter(|action| action.status == Status::Pending && !action.is_over_time(now))
                .map(|action| shown::action(action, now))
                .collect(),
            env_requests: env_requests
                .iter()
                .filter_map(|asked| serde_json::from_str(&asked.body).ok())
                .collect(),
            resync,
        };
        Ok(Batch::passing(
            &serde_json::to_string(&init).unwrap_or_default(),
        ))
    }
}

/// The first of them, as many as make no long frame.
fn few(prompts: &[Prompt]) -> Vec<v1::Prompt> {
    let mut bytes = 0;
    let short = prompts.iter().take_while(|prompt| {
        bytes += prompt.body.len();
        bytes <= PROMPTS
    });
    short.filter_map(shown::prompt).collect()
}

fn push(out: &mut VecDeque<Batch>, batch: &Batch) {
    if batch.count() > 0 {
        out.push_back(batch.clone());
    }
}
