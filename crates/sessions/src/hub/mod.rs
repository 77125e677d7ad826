//! The one task that owns a live session.
//!
//! It never waits for a provider: what an effect comes to arrives as an event. A move is written
//! first, with what it tells clients, and acted on then; whoever waits is answered from the state
//! that was written. What a runner says is committed before it is acknowledged or told.
//!
//! ```text
//!  commands ─┐                         ┌─► told to clients
//!  outcomes ─┼─► a move, a step ─► store ─► effects
//!  words ────┘                         └─► said to the runner
//! ```

mod asks;
mod commands;
mod commits;
mod cooling;
mod costs;
mod dressing;
mod effects;
mod expiry;
mod frames;
mod history;
mod idle;
pub(crate) mod label;
mod line;
mod moves;
mod parts;
mod phases;
mod prompts;
mod receipts;
mod sieve;
mod talk;
mod traces;
mod waiting;
mod way_out;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::session::{
    Event, Fault, Generation, Lifecycle, Place, Refused, Rest, State, StopReason,
};
use model::{Id, Organisation, Origin, SnapshotId, Timestamp};
use provider::{Blocked, Pass, Provider};
use store::prompts::{NewPrompt, Prompt};
use store::snapshots::Snapshot as Receipt;
use store::transcript::OpenMessage;
use store::{Fence, NewEvent, Write, sessions};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tracing::Instrument as _;
use wire::link::{Failed, FromHub};

use self::asks::Asks;
use self::commits::{Commits, Settled, Then};
use self::cooling::Cooling;
use self::costs::Costs;
use self::dressing::Dressing;
pub(crate) use self::effects::Wish;
use self::effects::{Hand, Notes};
use self::expiry::Expiry;
use self::idle::Idle;
use self::line::Line;
pub use self::parts::OpenParts;
use self::phases::Phases;
use self::sieve::Sieve;
use self::talk::Link;
pub(crate) use self::traces::Letter;
use self::traces::Traces;
use self::waiting::Waiting;
pub(crate) use self::way_out::Granted;
use self::way_out::WayOut;
use crate::lease::Lease;
use crate::queue::Queue;
use crate::registry::{Shared, later};
use crate::{Ask, Handle, HubError, Seen, Spec, Told, Watch, Work};

pub(crate) type Reply<T> = oneshot::Sender<Result<T, HubError>>;

/// What is on its way into the log at a time; nothing more is heard of a runner then.
const ON_THE_WAY: usize = 256;

#[derive(Debug)]
pub(crate) enum Command {
    EnsureReady(Reply<Place>),
    Begin(Reply<()>),
    Rest(Rest, Reply<Option<Receipt>>),
    Clear(Reply<()>),
    Recover(Origin, Reply<Place>),
    Migrate(Reply<Place>),
    /// Of whoever wants it kept.
    Snapshot(Option<Wish>, Reply<SnapshotId>),
    Stop(StopReason, Reply<()>),
    /// With the line of who asked.
    Prompt(NewPrompt, Option<Box<store::audit::Line>>, Reply<Prompt>),
    Edit {
        prompt: String,
        ask: Box<Ask>,
        reply: Reply<()>,
    },
    Withdraw(String, Reply<()>),
    Announce(NewEvent, Reply<()>),
    Rename(String, Reply<()>),
    Archive(bool, Reply<()>),
    /// Something that only concerns the runner.
    Say(FromHub, Reply<()>),
    Watch(Reply<Watch>),
    /// Memory is to be given up for the disk.
    Store(Reply<()>),
    /// Something may be reached that was not.
    LetOut(Pass, NewEvent, Reply<Granted>),
    /// What that sandbox asked for and did not get.
    Blocked(Place, Vec<Blocked>),
    /// Somebody saw that this sandbox does not live any more.
    Died(Place),
    /// Its term is over.
    LetGo,
}

/// What came of work that the hub started.
#[derive(Debug)]
enum Outcome {
    Effect {
        generation: Generation,
        event: Option<Event>,
        notes: Notes,
    },
    Snapshot {
        place: Place,
        taken: Result<SnapshotId, Fault>,
        notes: Notes,
        reply: Reply<SnapshotId>,
    },
    Extended {
        place: Place,
        until: Result<Timestamp, provider::ProviderError>,
    },
    /// What was said to a tool inside.
    Answered {
        id: String,
        answer: Result<serde_json::Value, Failed>,
    },
    Dressed(Dressing),
}

/// What a hub starts from.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) record: sessions::Record,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) channels: Vec<store::channels::Channel>,
    pub(crate) messages: Vec<OpenMessage>,
    /// Where somebody last spoke.
    pub(crate) last_channel: Option<String>,
    pub(crate) lease: Lease,
}

#[derive(Debug)]
pub(crate) struct Hub {
    shared: Arc<Shared>,
    fence: Fence,
    organisation: Id<Organisation>,
    provider_name: String,
    spec: Spec,
    hand: Hand,
    lifecycle: Lifecycle,
    commands: mpsc::Receiver<Letter>,
    work: JoinSet<Outcome>,
    line: Line,
    waiting: Waiting,
    expiry: Expiry,
    idle: Idle,
    commits: Commits,
    costs: Costs,
    traces: Traces,
    asks: Asks,
    /// Moves that came out of what was committed.
    next: VecDeque<Event>,
    link: Option<Link>,
    way_out: Option<WayOut>,
    /// There once something was refused.
    sieve: Option<Sieve>,
    /// A sandbox that is up, and whose agent is waited for.
    booting: Option<Booting>,
    queue: Queue,
    phases: Phases,
    /// Since when nothing is to be done and nobody is there.
    quiet_since: Option<Timestamp>,
    /// How many prompts are under way, for those who wait for them to end.
    turns: watch::Sender<usize>,
    /// When turns that still run are to be ended.
    stop_turns_at: Option<Timestamp>,
    /// Somebody asked for an answer: it is to run again once it rests.
    is_wanted: bool,
    cooling: Cooling,
    /// A frame was refused after what it means was taken for done.
    is_torn: bool,
    /// Where the last prompt came from.
    last_channel: Option<String>,
    messages: BTreeMap<String, OpenMessage>,
    parts: OpenParts,
    agent_sessions: BTreeMap<String, String>,
    /// The number of the newest event.
    last_seq: u64,
    clients: Arc<AtomicUsize>,
    inbox: mpsc::Sender<Letter>,
    seen: watch::Sender<Seen>,
    told: broadcast::Sender<Told>,
}

#[derive(Debug, Clone, Copy)]
struct Booting {
    place: Place,
    expires_at: Option<Timestamp>,
}

/// Why a hub ends.
#[derive(Debug)]
enum End {
    /// Somebody else owns the session.
    Fenced,
    ShutDown,
    /// Nobody needs it now.
    Unneeded,
    /// The store does not take what must be written first.
    Store(store::Error),
}

impl From<store::Error> for End {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Fenced { .. } => Self::Fenced,
            error => Self::Store(error),
        }
    }
}

pub(crate) async fn run(mut hub: Hub) {
    let session = hub.fence.session;
    match hub.live().await {
        End::Fenced => tracing::info!(%session, "the session has another owner"),
        End::Store(error) => {
            tracing::error!(%session, %error, "the session cannot be written");
            // Whoever looks for what was left may take it up at once.
            let _ = hub.shared.store.release(hub.fence).await;
        }
        End::ShutDown | End::Unneeded => {
            // Sandboxes run on; the next owner need not wait for the lease to run out.
            if let Err(error) = hub.shared.store.release(hub.fence).await {
                tracing::warn!(%session, %error, "the session was not let go");
            }
        }
    }
}

impl Hub {
    pub(crate) fn new(shared: Arc<Shared>, fence: Fence, loaded: Loaded) -> Result<Self, HubError> {
        let record = loaded.record;
        let provider: Arc<dyn Provider> = shared
            .providers
            .get(&record.provider)
            .cloned()
            .ok_or_else(|| HubError::NoProvider(record.provider.clone()))?;
        let spec: Spec = serde_json::from_str(&record.spec)
            .map_err(|error| HubError::BadSpec(error.to_string()))?;
        let lifecycle = record.state.lifecycle()?;
        let (inbox, commands) = mpsc::channel(shared.settings.inbox);
        let (told, _) = broadcast::channel(shared.settings.behind);
        let (seen, _) = watch::channel(moves::seen_of(&lifecycle));
        let traces = Traces::new(fence.session, &loaded.prompts);
        let queue = Queue::load(loaded.prompts);
        let (turns, _) = watch::channel(queue.under_way());
        let hand = Hand {
            organisation: record.organisation,
            session: fence.session,
            link: (spec.work == Work::Workplace).then(|| spec.link_by(&*provider)),
            provider,
            clock: Arc::clone(&shared.clock),
            pauses: Arc::clone(&shared.settings.retries),
            call: shared.settings.call,
            migrate: shared.settings.migrate,
            machine: spec.machine.clone(),
            lease: loaded.lease,
            trace: None,
            notes: Notes::default(),
        };
        let channels = loaded.channels.into_iter();
        let messages = loaded.messages.into_iter();
        Ok(Self {
            idle: Idle::new(shared.clock.now()),
            shared,
            fence,
            organisation: record.organisation,
            provider_name: record.provider,
            spec,
            hand,
            lifecycle,
            commands,
            work: JoinSet::new(),
            line: Line::default(),
            waiting: Waiting::default(),
            expiry: Expiry::default(),
            commits: Commits::default(),
            costs: Costs::default(),
            traces,
            asks: Asks::default(),
            next: VecDeque::new(),
            link: None,
            way_out: None,
            sieve: None,
            booting: None,
            phases: Phases::default(),
            quiet_since: None,
            queue,
            turns,
            stop_turns_at: None,
            is_wanted: false,
            cooling: Cooling::default(),
            is_torn: false,
            last_channel: loaded.last_channel,
            messages: messages.map(|one| (one.id.clone(), one)).collect(),
            parts: OpenParts::default(),
            agent_sessions: channels
                .filter_map(|channel| Some((channel.name, channel.agent_session?)))
                .collect(),
            last_seq: record.last_seq,
            clients: Arc::default(),
            inbox,
            seen,
            told,
        })
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle {
            session: self.fence.session,
            term: self.fence.term,
            provider: self.provider_name.as_str().into(),
            lease: self.hand.lease.clone(),
            clients: Arc::clone(&self.clients),
            inbox: self.inbox.clone(),
            seen: self.seen.subscribe(),
        }
    }

    async fn live(&mut self) -> End {
        // What the owner before us may not have done.
        self.act(self.lifecycle.owed());
        if let Err(end) = self.catch_up_with_prompts().await {
            return end;
        }
        self.follow();
        loop {
            let fields = self.traces.fields.clone();
            if let Err(end) = self.once().instrument(fields).await {
                return end;
            }
        }
    }

    /// One thing happens, and all that follows from it.
    async fn once(&mut self) -> Result<(), End> {
        let now = self.shared.clock.now();
        let until = |then: Option<Timestamp>| until_then(then, now);
        let limit = self.idle_limit();
        let (deadline, leaving) = (self.lifecycle.deadline(), self.expiry.leave_at());
        let (idle, look) = (
            limit.and_then(|limit| self.idle.until(limit)),
            self.queue.next_look(),
        );
        let stop_turns = self.stop_turns_at;
        let cool = self.cooling.until(now).filter(|_| self.is_wanted);
        let linger = self.shared.settings.linger;
        // Nobody says that they do not look any more.
        let look_again = self.is_still().then(|| later(now, linger));
        let let_go = self.quiet_since.map(|since| later(since, linger));
        let may_hear = self.commits.len() < ON_THE_WAY;
        tokio::select! {
            biased;
            () = self.shared.stop.cancelled() => return Err(End::ShutDown),
            settled = self.commits.next() => self.settled(settled).await?,
            Some(done) = self.work.join_next() => self.took(done).await?,
            Some(letter) = self.commands.recv() => self.read(letter).await?,
            word = talk::next(&mut self.link, may_hear) => {
                if let Some(word) = word {
                    self.word(word).await?;
                }
            }
            () = until(deadline) => {
                let at = self.shared.clock.now();
                self.happen(Event::DeadlinePassed { at }).await?.ok();
                self.tell_waiting().await?;
            }
            () = until(leaving) => self.leave().await?,
            () = until(stop_turns) => self.stop_turns().await?,
            () = until(cool) => self.tell_waiting().await?,
            () = until(look) => {
                let steps = self.queue.go_on(self.shared.clock.now());
                self.take_steps(steps).await?;
            }
            () = until(idle) => self.rest_for_want_of_use().await?,
            () = until(let_go.or(look_again)) => {
                if self.quiet_since.is_some() {
                    return Err(End::Unneeded);
                }
            }
        }
        while let Some(event) = self.next.pop_front() {
            let is_wish = matches!(event, Event::Begin { .. });
            let happened = self.happen(event).await?;
            let must_wait = matches!(happened, Err(Refused::Leaving | Refused::Suspended));
            self.is_wanted |= is_wish && must_wait;
            self.tell_waiting().await?;
        }
        self.follow();
        Ok(())
    }

    /// What is derived from everything else.
    fn follow(&mut self) {
        let now = self.shared.clock.now();
        self.traces.follow(&self.lifecycle);
        self.idle.follow(!self.queue.is_idle(), now);
        self.follow_turns();
        self.follow_expiry();
        self.attend();
        self.follow_way_out();
        self.flush();
        if !self.is_unneeded() {
            self.quiet_since = None;
        } else if self.quiet_since.is_none() {
            self.quiet_since = Some(now);
        }
    }

    fn follow_turns(&self) {
        let under_way = self.queue.under_way();
        self.turns.send_if_modified(|turns| {
            let before = std::mem::replace(turns, under_way);
            before != under_way
        });
    }

    /// Nothing is to be done for it.
    fn is_still(&self) -> bool {
        match &self.lifecycle.state {
            State::Running(_) | State::Migrating(_) => false,
            State::Stopped(stopped) => stopped.ending.is_empty(),
            State::Starting(_) | State::Paused(_) | State::Suspended(_) => {
                self.lifecycle.deadline().is_none()
            }
        }
    }

    /// It rests, nothing is being done, and nobody looks.
    fn is_unneeded(&self) -> bool {
        self.is_still()
            && !self.is_wanted
            && self.work.is_empty()
            && self.waiting.is_empty()
            && self.commits.len() == 0
            && self.commands.is_empty()
            && self.told.receiver_count() == 0
            && self.clients.load(Ordering::Relaxed) == 0
    }

    /// For how long the sandbox may be idle, while it can be let go.
    fn idle_limit(&self) -> Option<Duration> {
        match &self.lifecycle.state {
            State::Running(running) if running.leaving.is_none() => {
                Some(self.shared.settings.idle_on(self.last_channel.as_deref()))
            }
            _ => None,
        }
    }

    /// Hands a write in; it is told when it is there, in the order in which it was handed in.
    async fn submit(&mut self, write: Write, then: Then) -> Result<(), End> {
        let pending = self.shared.store.submit(write).await?;
        self.commits.put(pending, then);
        Ok(())
    }

    /// Until all that was handed in is in the log, and told.
    async fn settle(&mut self) -> Result<(), End> {
        while self.commits.len() > 0 {
            let settled = self.commits.next().await;
            self.settled(settled).await?;
        }
        Ok(())
    }

    async fn settled(&mut self, settled: Settled) -> Result<(), End> {
        let (committed, then) = match settled {
            Settled::Passing(text) => {
                self.tell(Told::Passing(text));
                return Ok(());
            }
            Settled::Committed(committed, then) => (*committed, then),
        };
        let committed = match committed {
            Ok(committed) => committed,
            Err(error) => return self.refused(error, then),
        };
        for event in committed.events {
            self.last_seq = event.seq;
            self.tell(Told::Numbered(event));
        }
        if let Some(frame) = then.frame {
            self.acknowledge(frame);
        }
        for say in then.says {
            self.say(say).await?;
        }
        if let Some(reply) = then.wanted {
            answer(reply, Ok(()));
        }
        if let (Some(reply), Some(queued)) = (then.asked, committed.prompt) {
            self.traces.cause = then.cause;
            let prompt = self.is_queued(queued).await?;
            answer(reply, Ok(prompt));
        }
        Ok(())
    }

    /// Nothing of it was written: whoever sent it is told, and the session goes on.
    fn refused(&mut self, error: store::Error, then: Then) -> Result<(), End> {
        use store::Error as E;
        let is_of_the_sender = matches!(
            error,
            E::Misfit(_)
                | E::TooLarge { .. }
                | E::Full(_)
                | E::Forbidden { .. }
                | E::FrameGap { .. }
                | E::PromptMoved(_)
                | E::NotFound(_)
        );
        if !is_of_the_sender {
            return Err(error.into());
        }
        match then {
            Then {
                frame: Some(frame), ..
            } => self.reject(frame, &error),
            Then {
                asked: Some(reply), ..
            } => answer(reply, Err(error.into())),
            Then {
                wanted: Some(reply),
                ..
            } => answer(reply, Err(error.into())),
            _ => return Err(error.into()),
        }
        Ok(())
    }

    /// Nobody may be listening.
    fn tell(&self, told: Told) {
        let _ = self.told.send(told);
    }
}

impl Handle {
    pub(crate) async fn died(&self, place: Place) {
        let _ = self.inbox.send(Command::Died(place).into()).await;
    }

    /// Tells the hub that its term is over.
    pub(crate) async fn let_go(&self) {
        let _ = self.inbox.send(Command::LetGo.into()).await;
    }
}

/// Whoever asked may have gone.
fn answer<T>(reply: Reply<T>, answer: Result<T, HubError>) {
    let _ = reply.send(answer);
}

async fn until_then(then: Option<Timestamp>, now: Timestamp) {
    match then {
        Some(then) => {
            let left = then.duration_since(now);
            tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
        None => std::future::pending().await,
    }
}
