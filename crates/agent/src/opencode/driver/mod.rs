mod commands;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use super::api::Api;
use super::conversation::{Conversation, Look, Out, list_changes};
use super::handle::{Command, OpenCode};
use super::http::HttpError;
use super::watch::{Item, Watch};
use super::wire;
use super::work::{Done, Readiness, Worker};
use super::{Connected, Settings};
use crate::channel::ChannelKey;
use crate::event::{Event, SessionRef};
use crate::prompt::Prompt;

const MOST_EVENTS: usize = 256;
const MOST_COMMANDS: usize = 64;
/// Channels that nothing runs on are forgotten first; their callers remember their sessions.
const MOST_CHANNELS: usize = 64;
/// Sessions whose place in the history is remembered.
const MOST_NUMBERED: usize = 1024;

pub struct Driver {
    settings: Settings,
    worker: Worker,
    readiness: watch::Sender<Readiness>,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Event>,
    outbox: VecDeque<Event>,
    watch: Watch,
    work: FuturesUnordered<BoxFuture<'static, Finished>>,
    slots: BTreeMap<ChannelKey, Slot>,
    numbers: HashMap<String, u64>,
    was_open: bool,
    /// While what was missed is read, what is new waits: else it would come before it.
    catching_up: bool,
}

struct Slot {
    conversation: Conversation,
    taken: Taken,
    /// Whoever waits for the end of a canceled turn.
    cancels: Vec<oneshot::Sender<()>>,
}

/// Who has the channel, apart from a turn that runs.
enum Taken {
    Free,
    /// Accepted, and not started yet.
    Reserved {
        canceled: bool,
    },
    /// Started, and waiting for the end of a canceled turn.
    Waiting {
        prompt: Box<Prompt>,
        canceled: bool,
    },
    /// Something else is done with the session.
    Borrowed,
}

enum Finished {
    Call(ChannelKey, Done),
    Started(Box<Prompt>),
    /// Dropped without being started, or borrowed and given back.
    Released(ChannelKey),
    CaughtUp(CaughtUp),
}

/// What was missed: the history, which has each state that a tool went through, then the
/// conversations as they are, which is what counts.
struct CaughtUp {
    history: Result<Vec<wire::Recorded>, HttpError>,
    looks: Vec<(ChannelKey, u64, Result<Look, HttpError>)>,
}

enum Step {
    Command(Command),
    Finished(Finished),
    Item(Item),
    Tick,
}

pub(super) fn start(api: Api, settings: Settings) -> Connected {
    let (events, received) = mpsc::channel(MOST_EVENTS);
    let (commander, commands) = mpsc::channel(MOST_COMMANDS);
    let (readiness, ready) = watch::channel(Readiness::Up);
    let agent = OpenCode::new(commander, api.clone(), &settings);
    let mut driver = Driver {
        worker: Worker::new(api.clone(), &settings, ready),
        watch: Watch::off(api),
        settings,
        readiness,
        commands,
        events,
        outbox: VecDeque::new(),
        work: FuturesUnordered::new(),
        slots: BTreeMap::new(),
        numbers: HashMap::new(),
        was_open: false,
        catching_up: false,
    };
    driver.watch.turn_on();
    Connected {
        agent,
        driver,
        events: received,
    }
}

impl Driver {
    /// Ends when every handle is dropped.
    pub async fn run(mut self) {
        loop {
            let deadline = self.deadline();
            let has_mail = !self.outbox.is_empty();
            let step = tokio::select! {
                biased;
                permit = self.events.reserve(), if has_mail => {
                    match (permit, self.outbox.pop_front()) {
                        (Ok(permit), Some(event)) => permit.send(event),
                        // Nobody listens any more; what happens is still done.
                        _ => self.outbox.clear(),
                    }
                    continue;
                }
                // Before commands, so that a channel given back is free for the next one.
                Some(finished) = self.work.next(), if !self.work.is_empty() => {
                    Step::Finished(finished)
                }
                command = self.commands.recv() => match command {
                    Some(command) => Step::Command(command),
                    None => return,
                },
                // A full mailbox holds the stream back, and nothing else.
                item = self.watch.next(), if !has_mail && !self.catching_up => Step::Item(item),
                () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    Step::Tick
                }
            };
            match step {
                Step::Command(command) => self.command(command),
                Step::Finished(finished) => self.finished(finished),
                Step::Item(item) => self.item(item),
                Step::Tick => self.each(Conversation::tick),
            }
            self.hand_over();
        }
    }

    fn finished(&mut self, finished: Finished) {
        match finished {
            Finished::Call(channel, done) => {
                self.at(&channel, |conversation, now, out| match done {
                    Done::Prepared(serial, result) => {
                        conversation.prepared(serial, result, now, out);
                    }
                    Done::Sent(serial, result) => conversation.sent(serial, result, now, out),
                    Done::Aborted(serial, result) => {
                        conversation.aborted(serial, result, now, out);
                    }
                    Done::Looked(serial, result) => conversation.looked(serial, result, now, out),
                    Done::Changes(turn, Ok(diffs)) => {
                        list_changes(turn, &diffs, out);
                    }
                    Done::Changes(_, Err(error)) => {
                        tracing::warn!(%error, "changed files are not known");
                    }
                    Done::Replied(Err(error)) => {
                        tracing::warn!(%error, "the agent did not take an answer");
                        conversation.look_soon(now);
                    }
                    Done::Replied(Ok(())) => {}
                });
            }
            Finished::Started(prompt) => {
                if let Some(slot) = self.slots.get_mut(&prompt.channel) {
                    let canceled = matches!(slot.taken, Taken::Reserved { canceled: true });
                    slot.taken = Taken::Waiting { prompt, canceled };
                }
            }
            Finished::Released(channel) => {
                if let Some(slot) = self.slots.get_mut(&channel) {
                    slot.taken = Taken::Free;
                }
            }
            Finished::CaughtUp(caught) => self.caught_up(caught),
        }
    }

    fn item(&mut self, item: Item) {
        match item {
            Item::Opened => {
                self.readiness.send_replace(Readiness::Listening);
                if std::mem::replace(&mut self.was_open, true) {
                    self.read_what_was_missed();
                }
            }
            Item::Lost => {
                self.readiness.send_replace(Readiness::Up);
                self.each(|conversation, _, _| conversation.lost_stream());
            }
            Item::Event(event) => self.event(*event),
        }
    }

    fn event(&mut self, event: wire::Event) {
        let session = match &event {
            wire::Event::Session(session) => {
                for slot in self.slots.values_mut() {
                    slot.conversation.session_seen(session);
                }
                return;
            }
            wire::Event::Numbered { session, number } => {
                return self.number(session.clone(), *number);
            }
            wire::Event::PermissionReplied { request }
            | wire::Event::QuestionClosed { request } => {
                let asked = self
                    .slots
                    .values()
                    .find(|slot| slot.conversation.asks(request));
                let Some(channel) = asked.map(|slot| slot.conversation.channel.clone()) else {
                    return;
                };
                return self.at(&channel, |conversation, now, out| {
                    conversation.event(event, now, out);
                });
            }
            wire::Event::Disposed => return self.read_what_was_missed(),
            other => session_of(other),
        };
        let Some(session) = session else {
            return;
        };
        // Whose session it is comes before whose subagent it is said to be.
        let is_theirs = |slot: &&Slot| slot.conversation.session.as_deref() == Some(session);
        let owner = self.slots.values().find(is_theirs).or_else(|| {
            let mut slots = self.slots.values();
            slots.find(|slot| slot.conversation.owns(session))
        });
        // Else a stranger's: somebody else uses the same server.
        let Some(channel) = owner.map(|slot| slot.conversation.channel.clone()) else {
            return;
        };
        self.at(&channel, |conversation, now, out| {
            conversation.event(event, now, out);
        });
    }

    fn number(&mut self, session: String, number: u64) {
        let is_ours = self
            .slots
            .values()
            .any(|slot| slot.conversation.owns(&session));
        if is_ours && (self.numbers.len() < MOST_NUMBERED || self.numbers.contains_key(&session)) {
            self.numbers.insert(session, number);
        }
    }

    fn read_what_was_missed(&mut self) {
        let mut wanted = Vec::new();
        for (channel, slot) in &mut self.slots {
            if let Some((serial, session, mark)) = slot.conversation.catch_up() {
                wanted.push((channel.clone(), serial, session, mark));
            }
        }
        if wanted.is_empty() {
            return;
        }
        self.catching_up = true;
        let worker = self.worker.clone();
        let known = self.numbers.clone();
        self.work.push(Box::pin(async move {
            let history = worker.history(known).await;
            let mut looks = Vec::new();
            for (channel, serial, session, mark) in wanted {
                looks.push((channel, serial, worker.look(&session, &mark).await));
            }
            Finished::CaughtUp(CaughtUp { history, looks })
        }));
    }

    fn caught_up(&mut self, caught: CaughtUp) {
        self.catching_up = false;
        for line in caught.history.unwrap_or_default() {
            self.number(line.session.clone(), line.seq);
            self.event(line.event());
        }
        for (channel, serial, look) in caught.looks {
            self.at(&channel, |conversation, now, out| {
                conversation.lost_stream();
                conversation.looked(serial, look, now, out);
            });
        }
    }

    /// Starts prompts whose turn it is, and tells those who waited for an end.
    fn hand_over(&mut self) {
        let idle: Vec<ChannelKey> = self
            .slots
            .iter()
            .filter(|(_, slot)| !slot.conversation.is_busy())
            .map(|(channel, _)| channel.clone())
            .collect();
        for channel in idle {
            let Some(slot) = self.slots.get_mut(&channel) else {
                continue;
            };
            for waiter in slot.cancels.drain(..) {
                let _ = waiter.send(());
            }
            if !matches!(slot.taken, Taken::Waiting { .. }) {
                continue;
            }
            let taken = std::mem::replace(&mut slot.taken, Taken::Free);
            if let Taken::Waiting { prompt, canceled } = taken {
                self.at(&channel, |conversation, now, out| {
                    conversation.start(*prompt, now, out);
                    if canceled {
                        conversation.cancel(now, out);
                    }
                });
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let slots = self.slots.values();
        slots.filter_map(|slot| slot.conversation.deadline()).min()
    }

    fn each(&mut self, act: impl Fn(&mut Conversation, Instant, &mut Out)) {
        let channels: Vec<ChannelKey> = self.slots.keys().cloned().collect();
        for channel in channels {
            self.at(&channel, &act);
        }
    }

    fn at(&mut self, channel: &ChannelKey, act: impl FnOnce(&mut Conversation, Instant, &mut Out)) {
        let Some(slot) = self.slots.get_mut(channel) else {
            return;
        };
        let mut out = Out::default();
        let before = slot.conversation.prompt().cloned();
        act(&mut slot.conversation, Instant::now(), &mut out);
        // What ends a prompt is about it, too.
        let prompt = slot.conversation.prompt().cloned().or(before);
        let session = slot.conversation.session.clone().map(SessionRef);
        for happening in out.happenings {
            self.outbox.push_back(Event {
                channel: channel.clone(),
                prompt: prompt.clone(),
                session: session.clone(),
                happening,
            });
        }
        for call in out.calls {
            let worker = self.worker.clone();
            let channel = channel.clone();
            self.work.push(Box::pin(async move {
                let done = worker.perform(channel.clone(), call).await;
                Finished::Call(channel, done)
            }));
        }
    }
}

/// Ends of canceled turns, to be waited for outside the driver.
pub(super) type Waiting = Vec<oneshot::Receiver<()>>;

fn session_of(event: &wire::Event) -> Option<&str> {
    Some(match event {
        wire::Event::Status { session, .. }
        | wire::Event::Idle { session }
        | wire::Event::MessageRemoved { session, .. }
        | wire::Event::PartRemoved { session, .. } => session,
        wire::Event::Error { session, .. } => session.as_deref()?,
        wire::Event::Message(message) => &message.session,
        wire::Event::Part(part) => &part.session,
        wire::Event::Delta(delta) => &delta.session,
        wire::Event::PermissionAsked(request) => &request.session,
        wire::Event::QuestionAsked(request) => &request.session,
        _ => return None,
    })
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Driver({} channels)", self.slots.len())
    }
}
