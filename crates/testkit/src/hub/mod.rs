//! A hub for those who have none: a double, not the real thing. It greets runners, commits what
//! they say and acknowledges it after that, and has no sessions, no store and no people. What it was
//! told it can show, and it can misbehave on purpose: cut connections at any frame, keep silent,
//! forget what it had not committed, speak with an old term, say everything twice.
//!
//! The program `nacre-hub` is the same for people.

mod carry;
mod ledger;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, watch};
use wire::link::{
    Asked, Boot, Close, Failed, FromHub, FromRunner, Hello, HubFrame, HubHello, PROTOCOL,
    RunnerFrame, Seen, read_runner,
};

pub use carry::{Carrier, Way};
pub use ledger::{Committed, Ledger, Taken};

/// Answers a request, or keeps silent.
pub type Answers = Box<dyn FnMut(&Asked) -> Option<Result<Value, Failed>> + Send>;

/// How it behaves. What is not set is as a good hub does it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Manners {
    /// Cuts the connection when so many frames have come over it.
    pub cut_after: Option<Cut>,
    /// Acknowledges only so long after the commit.
    pub ack_delay: Duration,
    /// Commits, and acknowledges only when it behaves again.
    pub withholds_acks: bool,
    /// Says nothing at all: no hello, no acknowledgement, no pong.
    pub is_silent: bool,
    /// Says everything twice.
    pub repeats: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    pub frames: u64,
    pub when: When,
}

/// Whether the frame at which it cuts is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    BeforeCommit,
    /// And not acknowledged.
    AfterCommit,
}

/// Cheap to clone; all clones are one hub.
#[derive(Clone)]
pub struct Hub {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<watch::Sender<u64>>,
    outgoing: Arc<Notify>,
}

struct Inner {
    session: String,
    generation: u64,
    term: u64,
    manners: Manners,
    boot: Boot,
    ledger: Ledger,
    answers: Answers,
    /// By the request's id: the same id has one effect.
    answered: HashMap<String, Option<Result<Value, Failed>>>,
    outbox: VecDeque<HubFrame>,
    /// Acknowledgements that are due on the newest connection, by boot.
    owed: BTreeMap<Option<String>, u64>,
    /// Which connection is the newest; older ones are replaced.
    newest: u64,
    /// Every frame that came, as it came.
    heard: Vec<RunnerFrame>,
    hellos: Vec<Hello>,
    open: u64,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// The runner went.
    Gone,
    /// The runner went, and said why.
    Said(Close),
    /// We cut it, as asked.
    Cut,
    Replaced,
    Refused(&'static str),
}

impl Hub {
    pub fn new(session: &str, generation: u64) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                session: session.to_owned(),
                generation,
                term: 1,
                manners: Manners::default(),
                boot: Boot::default(),
                ledger: Ledger::default(),
                answers: Box::new(|_| Some(Ok(Value::Null))),
                answered: HashMap::new(),
                outbox: VecDeque::new(),
                owed: BTreeMap::new(),
                newest: 0,
                heard: Vec::new(),
                hellos: Vec::new(),
                open: 0,
            })),
            changed: Arc::new(watch::channel(0).0),
            outgoing: Arc::new(Notify::new()),
        }
    }

    /// With a ledger that survives it.
    #[must_use]
    pub fn with_ledger(self, ledger: Ledger) -> Self {
        self.inner().ledger = ledger;
        self
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of this lock panics")
    }

    fn touch(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    pub fn behave(&self, manners: Manners) {
        self.inner().manners = manners;
        self.outgoing.notify_waiters();
    }

    /// Another owner: what this one says counts more.
    /// The owner after this one, of the session's next sandbox. It has heard nothing yet, and has
    /// everything that was committed.
    #[must_use]
    pub fn successor(&self) -> Self {
        let mut before = self.inner();
        let next = Self::new(&before.session, before.generation + 1);
        {
            let mut inner = next.inner();
            inner.term = before.term + 1;
            inner.ledger = std::mem::take(&mut before.ledger);
        }
        next
    }

    /// What runners that come from now on are to become.
    pub fn boot_with(&self, boot: Boot) {
        self.inner().boot = boot;
    }

    pub fn set_term(&self, term: u64) {
        self.inner().term = term;
    }

    pub fn answer_with(&self, answers: Answers) {
        self.inner().answers = answers;
    }

    /// Says something with its own term, now or when somebody connects.
    pub fn say(&self, body: FromHub) {
        let term = self.inner().term;
        self.say_with_term(term, body);
    }

    pub fn say_with_term(&self, term: u64, body: FromHub) {
        self.inner().outbox.push_back(HubFrame::new(term, body));
        self.outgoing.notify_waiters();
    }

    /// Dies and comes back with a higher term: it knows what it had committed, and nothing else.
    pub fn die_and_come_back(&self) {
        {
            let mut inner = self.inner();
            inner.term += 1;
            inner.newest += 1;
            inner.outbox.clear();
            inner.ledger.forget_passing();
        }
        self.outgoing.notify_waiters();
        self.touch();
    }

    /// A look at what it knows.
    pub fn look<T>(&self, look: impl FnOnce(&Ledger) -> T) -> T {
        look(&self.inner().ledger)
    }

    pub fn heard(&self) -> Vec<RunnerFrame> {
        self.inner().heard.clone()
    }

    /// Waits for more than that, and returns what has come since.
    pub async fn heard_from(&self, place: usize) -> Vec<RunnerFrame> {
        let mut changed = self.changed.subscribe();
        loop {
            let new = self.inner().heard.get(place..).map(<[_]>::to_vec);
            if let Some(new) = new.filter(|new| !new.is_empty()) {
                return new;
            }
            let _ = changed.changed().await;
        }
    }

    pub fn hellos(&self) -> Vec<Hello> {
        self.inner().hellos.clone()
    }

    /// Connections that are open now.
    pub fn open(&self) -> u64 {
        self.inner().open
    }

    /// Returns when what it knows is as asked.
    pub async fn wait_until(&self, mut is_so: impl FnMut(&Ledger) -> bool) {
        let mut changed = self.changed.subscribe();
        loop {
            if self.look(&mut is_so) {
                return;
            }
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns when a frame like this has come, numbered or not.
    pub async fn wait_for(&self, is_it: impl Fn(&FromRunner) -> bool) -> RunnerFrame {
        let mut changed = self.changed.subscribe();
        loop {
            let found = self
                .inner()
                .heard
                .iter()
                .find(|frame| is_it(&frame.body))
                .cloned();
            if let Some(frame) = found {
                return frame;
            }
            let _ = changed.changed().await;
        }
    }

    /// Serves one connection to its end.
    pub async fn serve(&self, mut carrier: Carrier) -> Ended {
        let mine = {
            let mut inner = self.inner();
            inner.newest += 1;
            inner.open += 1;
            inner.owed.clear();
            inner.newest
        };
        self.outgoing.notify_waiters();
        let ended = self.converse(&mut carrier, mine).await;
        let close = match &ended {
            Ended::Replaced => Some(Close::normal(Close::REPLACED)),
            Ended::Refused(reason) => Some(Close::refused(reason)),
            _ => None,
        };
        if let Some(close) = close {
            let term = self.inner().term;
            carrier.close(term, close).await;
        }
        self.inner().open -= 1;
        self.touch();
        ended
    }

    async fn converse(&self, carrier: &mut Carrier, mine: u64) -> Ended {
        let mut boot = None;
        let mut count = 0;
        loop {
            let notified = self.outgoing.notified();
            if self.inner().newest != mine {
                return Ended::Replaced;
            }
            if boot.is_some() {
                let due = self.inner().due();
                for frame in due {
                    if self.send(carrier, &frame).await.is_err() {
                        return Ended::Gone;
                    }
                }
            }
            let received = tokio::select! {
                received = carrier.receive() => received,
                () = notified => continue,
            };
            let bytes = match received {
                carry::Received::Frame(bytes) => bytes,
                carry::Received::Closed(close) => return Ended::Said(close),
                carry::Received::End => return Ended::Gone,
            };
            count += 1;
            let cut = self.inner().manners.cut_after;
            let is_cut = cut.filter(|cut| count >= cut.frames).map(|cut| cut.when);
            if is_cut == Some(When::BeforeCommit) {
                return Ended::Cut;
            }
            let replies = match self.take(&bytes, &mut boot) {
                Ok(replies) => replies,
                Err(ended) => return ended,
            };
            self.touch();
            if is_cut == Some(When::AfterCommit) {
                return Ended::Cut;
            }
            let Manners {
                ack_delay,
                is_silent,
                ..
            } = self.inner().manners;
            if is_silent {
                continue;
            }
            if !ack_delay.is_zero() {
                tokio::time::sleep(ack_delay).await;
            }
            for reply in replies {
                if self.send(carrier, &reply).await.is_err() {
                    return Ended::Gone;
                }
            }
        }
    }

    async fn send(&self, carrier: &mut Carrier, frame: &HubFrame) -> std::io::Result<()> {
        let bytes = wire::link::write(frame);
        carrier.send(&bytes).await?;
        if self.inner().manners.repeats && !matches!(frame.body, FromHub::Hello(_)) {
            carrier.send(&bytes).await?;
        }
        Ok(())
    }

    /// Commits a frame, and says what is answered after that.
    fn take(&self, bytes: &[u8], boot: &mut Option<String>) -> Result<Vec<HubFrame>, Ended> {
        let mut inner = self.inner();
        let term = inner.term;
        let say = |body| HubFrame::new(term, body);
        let frame = match read_runner(bytes) {
            Ok(frame) => frame,
            Err(unreadable) => {
                inner.ledger.unreadable += 1;
                let answer = unreadable.answer();
                return Ok(answer.map(FromHub::Error).map(say).into_iter().collect());
            }
        };
        inner.heard.push(frame.clone());
        let Some(known) = boot.clone() else {
            let FromRunner::Hello(hello) = &frame.body else {
                return Err(Ended::Refused(Close::NO_HELLO));
            };
            *boot = Some(hello.boot.clone());
            return inner.greet(hello);
        };
        let owner = frame.from_boot.clone();
        let taken = inner
            .ledger
            .take(owner.as_deref().unwrap_or(&known), &frame);
        let mut replies = Vec::new();
        if let FromRunner::Ping = frame.body {
            replies.push(say(FromHub::Pong));
        }
        if let FromRunner::Close(close) = &frame.body {
            return Err(Ended::Said(close.clone()));
        }
        if let FromRunner::Request(asked) = &frame.body
            && let Some(answer) = inner.answer(asked)
        {
            let id = asked.id.clone();
            let (ok, error) = match answer {
                Ok(value) => (Some(value), None),
                Err(failed) => (None, Some(failed)),
            };
            replies.push(say(FromHub::Result { id, ok, error }));
        }
        if let (Some(seq), Taken::Committed | Taken::Known) = (frame.seq, taken) {
            inner.owed.insert(owner, seq);
        }
        Ok(replies)
    }
}

impl Inner {
    /// What is to be said now: acknowledgements of what is committed, then the rest.
    fn due(&mut self) -> Vec<HubFrame> {
        let mut due = Vec::new();
        if !self.manners.withholds_acks && !self.manners.is_silent {
            let owed = std::mem::take(&mut self.owed);
            let acks = owed.into_iter();
            due.extend(
                acks.map(|(boot, seq)| HubFrame::new(self.term, FromHub::Ack { seq, boot })),
            );
        }
        due.extend(self.outbox.drain(..));
        due
    }

    fn greet(&mut self, hello: &Hello) -> Result<Vec<HubFrame>, Ended> {
        self.hellos.push(hello.clone());
        if hello.session != self.session {
            return Err(Ended::Refused(Close::OTHER_SESSION));
        }
        if hello.generation < self.generation {
            return Err(Ended::Refused(Close::OLDER_GENERATION));
        }
        if hello.protocol > PROTOCOL {
            return Err(Ended::Refused(Close::OTHER_PROTOCOL));
        }
        let boots = hello.offers.iter().map(|offer| &offer.boot);
        let seen = boots
            .filter_map(|boot| {
                let seq = self.ledger.seen(boot)?;
                Some(Seen {
                    boot: boot.clone(),
                    seq,
                })
            })
            .collect();
        self.ledger.expect(&hello.offers);
        let say = |body| HubFrame::new(self.term, body);
        Ok(vec![
            say(FromHub::Hello(HubHello {
                session: self.session.clone(),
                generation: self.generation,
                boot: hello.boot.clone(),
                protocol: hello.protocol.min(PROTOCOL),
                seen,
            })),
            say(FromHub::Init(Box::new(self.boot.clone()))),
            say(FromHub::AgentConfig(Box::new(self.boot.agent.clone()))),
        ])
    }

    fn answer(&mut self, asked: &Asked) -> Option<Result<Value, Failed>> {
        if let Some(answer) = self.answered.get(&asked.id) {
            return answer.clone();
        }
        let answer = (self.answers)(asked);
        self.answered.insert(asked.id.clone(), answer.clone());
        answer
    }
}
