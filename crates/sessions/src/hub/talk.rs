//! The conversation with the runner: who is connected, and what is owed to it.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;

use model::Origin;
use model::session::{Boot as BootState, Effect, Event, Fault, FaultCode, Place, State, Step, Way};
use provider::{Capability, LinkBy};
use store::limits::FOREIGN_ID;
use store::prompts::Destination;
use store::{Write, frames};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use wire::link::{
    Boot, Close, ErrorFrame, FromHub, Hello, HubFrame, HubHello, PROTOCOL, RunnerFrame, Seen,
};
use wire::workplace::AGENT_PORT;

use super::commits::{Say, Taken};
use super::parts::OpenParts;
use super::{Booting, End, Hub};
use crate::Work;
use crate::direct::{self, Plain};
use crate::link::{self, Out, Word};
use crate::outside::{self, Visitor};
use crate::queue::Queue;

/// What a runner said and the hub has not heard yet.
const WORDS: usize = 16;
/// Frames that wait for a connection to take them. One that takes none is not worth keeping.
const UNSENT: usize = 256;
/// Boots that a runner can have something of.
const OFFERS: usize = 1000;
/// Asked of a runner that may have been away, to see whether it is there.
pub(super) const ARE_YOU_THERE: &str = "are-you-there";

type Attendance = Pin<Box<dyn Future<Output = ()> + Send>>;

/// To the runner of one sandbox.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) place: Place,
    words: mpsc::Receiver<Word>,
    _attending: Vec<AbortOnDropHandle<()>>,
    pub(super) live: Option<Live>,
    /// A frame that does not fit: it is taken when it comes again, and what it says is not.
    pub(super) poison: Option<(String, u64)>,
}

/// A connection that was greeted.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) connection: u64,
    pub(super) boot: String,
    outbox: mpsc::Sender<Out>,
    /// The highest that is to be acknowledged, by boot; its own has no name.
    acks: BTreeMap<Option<String>, u64>,
    unsent: VecDeque<FromHub>,
    /// By boot: handed in up to this number.
    pub(super) seen: HashMap<String, u64>,
    /// By earlier boot: what it has of it.
    pub(super) owed: HashMap<String, u64>,
    pub(super) generations: HashMap<String, u64>,
    /// Earlier boots that it has something of.
    pub(super) offered: HashSet<String>,
    pub(super) is_ready: bool,
}

/// The next word of the runner, if it may be heard; nothing when there is room for what is to be
/// said. Never without a link.
pub(super) async fn next(link: &mut Option<Link>, may_hear: bool) -> Option<Word> {
    let Some(link) = link else {
        return std::future::pending().await;
    };
    let live = link.live.as_ref().filter(|live| live.has_unsent());
    let outbox = live.map(|live| live.outbox.clone());
    tokio::select! {
        Some(word) = link.words.recv(), if may_hear => Some(word),
        () = has_room(outbox) => None,
    }
}

async fn has_room(outbox: Option<mpsc::Sender<Out>>) {
    match outbox {
        Some(outbox) if outbox.reserve().await.is_ok() => {}
        _ => std::future::pending().await,
    }
}

impl Live {
    fn has_unsent(&self) -> bool {
        !self.acks.is_empty() || !self.unsent.is_empty()
    }

    fn flush(&mut self, term: u64) {
        while let Some((boot, seq)) = self.acks.pop_first() {
            let ack = FromHub::Ack {
                seq,
                boot: boot.clone(),
            };
            if !self.hand_on(term, ack) {
                self.acks.insert(boot, seq);
                return;
            }
        }
        while let Some(frame) = self.unsent.pop_front() {
            if self.outbox.capacity() == 0 {
                self.unsent.push_front(frame);
                return;
            }
            self.hand_on(term, frame);
        }
    }

    fn hand_on(&self, term: u64, frame: FromHub) -> bool {
        let frame = Out::Frame(HubFrame::new(term, frame));
        self.outbox.try_send(frame).is_ok()
    }

    pub(super) fn say(&mut self, frame: FromHub) {
        self.unsent.push_back(frame);
    }

    pub(super) fn acknowledge(&mut self, from_boot: Option<String>, number: u64) {
        let ack = self.acks.entry(from_boot).or_default();
        *ack = number.max(*ack);
    }

    /// Nothing of it follows, and what it has come again.
    fn close(self, close: Close) {
        let _ = self.outbox.try_send(Out::Close(close));
    }
}

impl Hub {
    /// The link leads to the sandbox that serves the session, or is about to.
    pub(super) fn attend(&mut self) {
        if self.spec.work == Work::Machine {
            return;
        }
        let booting = self.booting.map(|booting| booting.place);
        let at = match self.spec.work {
            // A runner that stands still keeps its connection. A plain agent has none of its own:
            // while it rests there is nobody to drive.
            Work::Agent => self.lifecycle.place(),
            Work::Workplace | Work::Machine => self.lifecycle.whereabouts(),
        };
        let wanted = booting.or(at);
        if self.link.as_ref().map(|link| link.place) == wanted {
            return;
        }
        if self.link.take().is_some() {
            self.queue.disconnected();
        }
        let Some(place) = wanted else { return };
        let (said, words) = mpsc::channel(WORDS);
        let mut attending = vec![self.attendance(place, said)];
        attending.extend(self.doors(place));
        let attending = attending
            .into_iter()
            .map(|one| self.shared.tasks.spawn(one));
        self.link = Some(Link {
            place,
            words,
            _attending: attending.map(AbortOnDropHandle::new).collect(),
            live: None,
            poison: None,
        });
    }

    /// Whose sandbox it is.
    fn visitor(&self, place: Place) -> Visitor {
        Visitor {
            organisation: self.organisation,
            session: self.fence.session,
            generation: place.generation.0,
        }
    }

    /// What else the sandbox finds outside, where its provider has doors.
    fn doors(&self, place: Place) -> Vec<Attendance> {
        let provider = &self.hand.provider;
        if self.spec.work != Work::Workplace || !provider.capabilities().has(Capability::Serve) {
            return Vec::new();
        }
        let settings = &self.shared.settings;
        let outside = &self.shared.outside;
        let doors = outside.doors().iter().map(|door| -> Attendance {
            let patience = link::Patience {
                call: settings.call,
                pauses: Arc::clone(&settings.retries),
            };
            let (provider, outside) = (Arc::clone(provider), Arc::clone(outside));
            let visitor = self.visitor(place);
            let attending =
                outside::attend(provider, place.sandbox, visitor, door, outside, patience);
            Box::pin(attending)
        });
        doors.collect()
    }

    /// Whoever speaks for the agent in that sandbox, in the way that leads there.
    fn attendance(&self, place: Place, said: mpsc::Sender<Word>) -> Attendance {
        let settings = &self.shared.settings;
        let provider = Arc::clone(&self.hand.provider);
        let clock = Arc::clone(&self.shared.clock);
        let (sandbox, term) = (place.sandbox, self.fence.term);
        if self.spec.work == Work::Agent {
            let plain = Plain {
                provider,
                sandbox,
                session: self.fence.session.to_string(),
                generation: place.generation.0,
                port: AGENT_PORT,
                start: self.spec.start.clone(),
                clock,
            };
            let pauses = Arc::clone(&settings.retries);
            return Box::pin(direct::attend(plain, pauses, said));
        }
        let patience = link::Patience {
            call: settings.call,
            pauses: Arc::clone(&settings.retries),
        };
        match self.spec.link_by(&*provider) {
            LinkBy::Door => Box::pin(link::attend(provider, sandbox, term, patience, said)),
            LinkBy::Hub => Box::pin(link::dial(provider, sandbox, term, patience, clock, said)),
        }
    }

    /// A sandbox is up; the session runs when its agent does.
    pub(super) fn wait_for_agent(&mut self, booting: Booting) {
        self.booting = Some(booting);
        self.attend();
        let link = self.link.as_mut().and_then(|link| link.live.as_mut());
        // One that stood still is asked; one that is not there any more will greet.
        if let Some(live) = link.filter(|live| live.is_ready) {
            live.say(FromHub::PromptState {
                prompt_id: ARE_YOU_THERE.to_owned(),
            });
        }
    }

    pub(super) async fn word(&mut self, word: Word) -> Result<(), End> {
        match word {
            Word::Up {
                connection,
                hello,
                outbox,
            } => self.greet(connection, hello, outbox).await,
            Word::Frame { connection, frame } => {
                let link = self.link.as_ref().and_then(|link| link.live.as_ref());
                if link.is_some_and(|live| live.connection == connection) {
                    self.frame(*frame).await?;
                }
                Ok(())
            }
            Word::Down { connection } => {
                self.hang_up(connection, None);
                // A closed link changes nothing; whether a plain agent's sandbox lives only the
                // provider knows.
                if self.spec.work == Work::Agent
                    && let State::Running(running) = &self.lifecycle.state
                    && running.leaving.is_none()
                {
                    let generation = running.place.generation;
                    self.act(vec![Effect::Thaw { generation }]);
                }
                Ok(())
            }
        }
    }

    /// Hands on what can be handed on. A connection that takes nothing is given up.
    pub(super) fn flush(&mut self) {
        let link = self.link.as_mut().and_then(|link| link.live.as_mut());
        let Some(live) = link else { return };
        live.flush(self.fence.term);
        if live.unsent.len() > UNSENT {
            let connection = live.connection;
            self.hang_up(connection, None);
        }
    }

    /// Its link is over; what runs, runs on.
    pub(super) fn hang_up(&mut self, connection: u64, close: Option<Close>) {
        let Some(link) = &mut self.link else { return };
        if let Some(live) = link.live.take_if(|live| live.connection == connection) {
            if let Some(close) = close {
                live.close(close);
            }
            self.queue.disconnected();
        }
    }

    async fn greet(
        &mut self,
        connection: u64,
        hello: Hello,
        outbox: mpsc::Sender<Out>,
    ) -> Result<(), End> {
        let Some(place) = self.link.as_ref().map(|link| link.place) else {
            return Ok(());
        };
        if let Some(wrong) = self.wrong_with(&hello, place) {
            let _ = outbox.try_send(Out::Close(Close::refused(wrong)));
            return Ok(());
        }
        // What an earlier connection said is committed before anybody is told how far we are.
        self.settle().await?;
        if std::mem::take(&mut self.is_torn) {
            self.load_again().await?;
        }
        let stored = self.shared.store.frames_seen(self.fence.session).await?;
        let offered =
            |boot: &str| boot == hello.boot || hello.offers.iter().any(|offer| offer.boot == boot);
        let stored = stored.into_iter().filter(|seen| offered(&seen.boot));
        let mut live = Live {
            connection,
            boot: hello.boot.clone(),
            outbox,
            acks: BTreeMap::new(),
            unsent: VecDeque::new(),
            seen: HashMap::new(),
            owed: HashMap::new(),
            generations: HashMap::new(),
            offered: hello
                .offers
                .iter()
                .map(|offer| offer.boot.clone())
                .collect(),
            is_ready: false,
        };
        for seen in stored {
            live.generations.insert(seen.boot.clone(), seen.generation);
            live.seen.insert(seen.boot, seen.number);
        }
        live.say(FromHub::Hello(HubHello {
            session: self.fence.session.to_string(),
            generation: place.generation.0,
            boot: hello.boot.clone(),
            protocol: PROTOCOL.min(hello.protocol),
            seen: live
                .seen
                .iter()
                .map(|(boot, seq)| Seen {
                    boot: boot.clone(),
                    seq: *seq,
                })
                .collect(),
        }));
        self.dress(&mut live, place);
        let mut write = Write::new(self.fence, self.shared.clock.now());
        let mut has_lost = false;
        for offer in hello.offers.iter().take(OFFERS) {
            let seen = live.seen.entry(offer.boot.clone()).or_default();
            if offer.first > *seen + 1 {
                // Its journal was damaged: what is missing will not come.
                *seen = offer.first - 1;
                has_lost = true;
                write = write.skip_frames(frames::Frame {
                    generation: place.generation.0,
                    boot: offer.boot.clone(),
                    number: *seen,
                });
            }
            if offer.boot != hello.boot && offer.last > *seen {
                live.owed.insert(offer.boot.clone(), offer.last);
            }
        }
        if has_lost {
            use store::Error as E;
            match self.shared.store.append(write).await {
                Ok(_) => {}
                Err(E::Full(_) | E::TooLarge { .. } | E::Misfit(_)) => {
                    live.close(Close::refused("more than can be kept"));
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
        if self.booting.is_some() {
            self.phase_is_over("link").await?;
            self.traces.is_at("agent");
        }
        let is_caught_up = live.owed.is_empty();
        if let Some(link) = &mut self.link {
            link.live = Some(live);
        }
        let mut steps = self.queue.connected(Destination {
            generation: place.generation.0,
            boot: hello.boot,
        });
        if is_caught_up {
            steps.extend(self.queue.caught_up(self.shared.clock.now()));
        }
        self.take_steps(steps).await
    }

    /// What the workplace is to become, and what it asked and may not have heard the answer to.
    fn dress(&mut self, live: &mut Live, place: Place) {
        let mut boot = Boot {
            agent_sessions: self.agent_sessions.clone(),
            ..self.spec.boot.clone()
        };
        if let Some(origin) = self.starts_from() {
            boot.has_deps |= origin.has_deps();
            boot.freshness.restored |= !matches!(origin, Origin::Base(_) | Origin::Bare);
        }
        let boot = self.shared.outside.dress(&self.visitor(place), boot);
        live.say(FromHub::Init(Box::new(boot)));
        for answer in self.answers() {
            live.say(answer);
        }
        self.begin_dressing(live.connection, place);
    }

    /// What a sandbox that is on its way was made from; of one that serves it does not matter.
    fn starts_from(&self) -> Option<Origin> {
        match &self.lifecycle.state {
            State::Starting(starting) => match &starting.boot {
                BootState::UnderWay {
                    way: Way::New { origin },
                    ..
                } => Some(origin.clone()),
                _ => None,
            },
            State::Migrating(migrating) => match &migrating.step {
                Step::Moving { from, .. } => Some(Origin::Session(from.clone())),
                Step::Capturing { .. } => None,
            },
            _ => None,
        }
    }

    /// What is in memory says more than what was written: the store counts.
    async fn load_again(&mut self) -> Result<(), End> {
        let (store, session) = (&self.shared.store, self.fence.session);
        let prompts = store.open_prompts(session).await?;
        let messages = store.open_messages(session).await?.into_iter();
        self.messages = messages.map(|one| (one.id.clone(), one)).collect();
        self.parts = OpenParts::default();
        self.queue = Queue::load(prompts);
        let is_open =
            matches!(&self.lifecycle.state, State::Running(running) if running.leaving.is_none());
        // Nobody is connected: there is nothing to send.
        self.queue.open(is_open, self.shared.clock.now());
        Ok(())
    }

    fn wrong_with(&self, hello: &Hello, place: Place) -> Option<&'static str> {
        let is_name = |name: &str| (1..=FOREIGN_ID).contains(&name.len()) && !name.contains('\0');
        let names = hello.offers.iter().map(|offer| &*offer.boot);
        if hello.offers.len() > OFFERS || !names.chain([&*hello.boot]).all(is_name) {
            Some("names that cannot be")
        } else if hello.session != self.fence.session.to_string() {
            Some(Close::OTHER_SESSION)
        } else if hello.generation != place.generation.0 {
            Some(Close::OLDER_GENERATION)
        } else if hello.protocol == 0 {
            Some(Close::OTHER_PROTOCOL)
        } else if hello.term > self.fence.term {
            // It has heard of an owner after us.
            Some(Close::OLDER_TERM)
        } else {
            None
        }
    }

    pub(super) fn acknowledge(&mut self, frame: Taken) {
        let link = self.link.as_mut().and_then(|link| link.live.as_mut());
        if let Some(live) = link.filter(|live| live.connection == frame.connection) {
            live.acknowledge(frame.from_boot, frame.number);
        }
    }

    /// A frame does not fit. The runner sends it again on its next connection, and all that came
    /// after it.
    pub(super) fn reject(&mut self, frame: Taken, error: &store::Error) {
        let link = self.link.as_mut();
        let is_live = |link: &&mut Link| {
            let live = link.live.as_ref();
            live.is_some_and(|live| live.connection == frame.connection)
        };
        let Some(link) = link.filter(is_live) else {
            return;
        };
        tracing::warn!(number = frame.number, %error, "a runner's frame is not taken");
        self.is_torn = true;
        if !matches!(error, store::Error::FrameGap { .. }) {
            link.poison = Some((frame.boot, frame.number));
        }
        let close = Close {
            code: Close::INTERNAL,
            reason: Close::INTERNAL_ERROR.to_owned(),
        };
        self.hang_up(frame.connection, Some(close));
    }

    /// False without a runner to say it to.
    pub(super) fn say_now(&mut self, frame: FromHub) -> bool {
        let link = self.link.as_mut().and_then(|link| link.live.as_mut());
        match link {
            Some(live) => {
                live.say(frame);
                true
            }
            None => false,
        }
    }

    pub(super) async fn say(&mut self, say: Say) -> Result<(), End> {
        match say {
            Say::Frame(frame) => {
                self.say_now(frame);
            }
            Say::Answer(asked) => self.carry_out(*asked),
            Say::Prompt { id, to } => {
                let is_there = |hub: &Self| {
                    let link = hub.link.as_ref();
                    link.is_some_and(|link| {
                        let live = link.live.as_ref();
                        link.place.generation.0 == to.generation
                            && live.is_some_and(|live| live.boot == to.boot)
                    })
                };
                // One that went is asked when it comes again.
                if is_there(self)
                    && let Some(prompt) = self.prompt_to_send(&id).await?
                {
                    self.say_now(FromHub::Prompt(Box::new(prompt)));
                }
            }
        }
        Ok(())
    }

    /// The agent does its work, or cannot.
    pub(super) fn agent_is(&mut self, fault: Option<String>) {
        let link = self.link.as_mut();
        let Some((place, live)) = link.and_then(|link| Some((link.place, link.live.as_mut()?)))
        else {
            return;
        };
        live.is_ready = fault.is_none();
        let Some(booting) = self.booting.filter(|booting| booting.place == place) else {
            return;
        };
        self.booting = None;
        self.next.push_back(match fault {
            None => Event::Ready {
                place,
                expires_at: booting.expires_at,
            },
            Some(message) => Event::BootFailed {
                generation: place.generation,
                fault: Fault {
                    code: FaultCode::Boot,
                    message: message.chars().take(500).collect(),
                },
                at: self.shared.clock.now(),
            },
        });
    }

    pub(super) fn object(&mut self, code: &str, message: &str, frame: &RunnerFrame) {
        let kind = serde_json::to_value(&frame.body).ok();
        let kind = kind.and_then(|body| Some(body["type"].as_str()?.to_owned()));
        self.say_now(FromHub::Error(ErrorFrame {
            frame: kind,
            ..ErrorFrame::new(code, message)
        }));
    }
}
