use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use hyper::{Method, Response};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::recording::{Deed, Recording, What};
use super::store::Store;
use crate::http::{self, Asked, Body};
use crate::memory::MemoryListener;

const HEARTBEAT: Duration = Duration::from_secs(10);
/// How long an event waits for somebody to hear it: a little longer than a client rests before it
/// comes back.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Where the stream is cut: after so many events, once.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    pub after: usize,
    pub by: CutBy,
    pub lost: Lost,
}

#[derive(Debug, Clone, Copy)]
pub enum CutBy {
    End,
    Error,
}

/// How many events pass before the client can be back.
#[derive(Debug, Clone, Copy)]
pub enum Lost {
    Events(usize),
    /// All up to the next thing that the client has to do.
    AllThatCan,
}

/// The double. [`Replay::run`] is to be polled.
#[derive(Debug)]
pub struct Replay {
    shared: Arc<Shared>,
    listener: MemoryListener,
}

/// What a test sees and does beside the client.
#[derive(Debug, Clone)]
pub struct ReplayControl(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    recording: Recording,
    /// Lines with deeds that somebody else does, not the client.
    foreign: Vec<usize>,
    cut: Option<Cut>,
    state: Mutex<State>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    place: usize,
    store: Store,
    played: usize,
    /// Pieces for the client that listens; `None` while nobody does.
    queue: Option<VecDeque<Piece>>,
    was_cut: bool,
    lose: usize,
    done: Vec<Deed>,
    ids: HashMap<String, String>,
    answers: Vec<(Deed, u16, Value)>,
    waits_for: Option<Deed>,
    requests: Vec<String>,
    ended: bool,
}

#[derive(Debug)]
enum Piece {
    Text(String),
    End,
    Error,
}

impl Replay {
    /// `foreign` counts the deeds of the recording, and names those that somebody else does.
    pub fn new(
        recording: Recording,
        foreign: &[usize],
        cut: Option<Cut>,
        listener: MemoryListener,
    ) -> (Replay, ReplayControl) {
        let mut state = State::default();
        // Conversations that began before the recording did.
        for (deed, _) in recording.deeds() {
            if let Deed::Prompt { session } | Deed::Summarize { session } = deed {
                let info = json!({ "id": session, "version": recording.version() });
                state.store.sessions.entry(session.clone()).or_insert(info);
            }
        }
        let lines = recording.lines.iter().enumerate();
        let foreign = lines
            .filter(|(_, line)| matches!(line.what, What::Did { .. }))
            .enumerate()
            .filter(|(deed, _)| foreign.contains(deed))
            .map(|(_, (line, _))| line)
            .collect();
        let shared = Arc::new(Shared {
            recording,
            foreign,
            cut,
            state: Mutex::new(state),
            changed: Arc::new(Notify::new()),
        });
        let control = ReplayControl(shared.clone());
        (Replay { shared, listener }, control)
    }

    /// Plays and answers until nobody can dial any more.
    pub async fn run(mut self) {
        let mut connections = JoinSet::new();
        let player = self.shared.clone();
        connections.spawn(async move { player.play().await });
        while let Some(stream) = self.listener.accept().await {
            let shared = self.shared.clone();
            connections.spawn(async move {
                http::serve(stream, |asked| {
                    let shared = shared.clone();
                    async { Some(shared.answer(asked).await) }
                })
                .await;
            });
        }
    }
}

impl ReplayControl {
    /// The deed that the recording waits for, as soon as there is one after that place, and its
    /// place; `None` at the end.
    pub async fn next_deed(&self, after: Option<usize>) -> Option<(usize, Deed)> {
        loop {
            let changed = self.0.changed.notified();
            {
                let state = self.0.lock();
                if let Some(deed) = &state.waits_for
                    && Some(state.place) > after
                {
                    return Some((state.place, deed.clone()));
                }
                if state.ended {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// What was asked for, as `GET /path`.
    pub fn requests(&self) -> Vec<String> {
        self.0.lock().requests.clone()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    async fn play(self: Arc<Shared>) {
        let mut ms = 0;
        loop {
            let place = self.lock().place;
            let Some(line) = self.recording.lines.get(place) else {
                self.lock().ended = true;
                self.changed.notify_waiters();
                return;
            };
            sleep(Duration::from_millis(line.ms.saturating_sub(ms))).await;
            ms = line.ms;
            match &line.what {
                What::Event(event) => self.event(event).await,
                What::Did { .. } if self.foreign.contains(&place) => {}
                What::Did { deed, .. } => self.wait_for(deed).await,
                What::Answer { deed, status, body } => {
                    let mut state = self.lock();
                    let body = state.rewrite(body);
                    state.answers.push((deed.clone(), *status, body));
                }
            }
            let mut state = self.lock();
            // An abort that was not recorded has put the place at the end.
            state.place = (state.place + 1).max(place + 1);
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Plays an event, when somebody listens or it is to be lost.
    async fn event(&self, event: &Value) {
        let began = Instant::now();
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.lock();
                let to_be_lost = state.was_cut && state.lose > 0;
                if state.is_heard() || to_be_lost {
                    state.lose = state.lose.saturating_sub(1);
                    if event["type"] != "server.connected" {
                        state.send(event);
                    }
                    state.played += 1;
                    self.cut_if_due(&mut state);
                    return;
                }
                // The real one does not wait: what nobody hears is lost.
                if began.elapsed() >= PATIENCE {
                    state.send(event);
                    state.played += 1;
                    return;
                }
            }
            let _ = timeout(PATIENCE, changed).await;
        }
    }

    fn cut_if_due(&self, state: &mut State) {
        let Some(cut) = self.cut else {
            return;
        };
        if state.was_cut || state.played < cut.after {
            return;
        }
        state.was_cut = true;
        state.lose = match cut.lost {
            Lost::Events(count) => count,
            Lost::AllThatCan => usize::MAX,
        };
        if let Some(queue) = &mut state.queue {
            queue.push_back(match cut.by {
                CutBy::End => Piece::End,
                CutBy::Error => Piece::Error,
            });
        }
    }

    async fn wait_for(&self, deed: &Deed) {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.lock();
                if let Some(at) = state.done.iter().position(|done| done == deed) {
                    state.done.remove(at);
                    state.waits_for = None;
                    return;
                }
                if state.place >= self.recording.lines.len() {
                    state.waits_for = None;
                    return;
                }
                if state.waits_for.is_none() {
                    state.waits_for = Some(deed.clone());
                    // This is news to others, and wakes this loop once more.
                    self.changed.notify_waiters();
                }
            }
            changed.await;
        }
    }

    async fn answer(self: Arc<Shared>, asked: Asked) -> Response<Body> {
        let line = format!("{} {}", asked.method, asked.path);
        self.lock().requests.push(line);
        if asked.path == "/global/event" {
            return self.listen();
        }
        if let Some(deed) = Deed::of(asked.method.as_str(), &asked.path) {
            return self.act(deed, asked).await;
        }
        self.look(&asked)
    }

    fn listen(self: Arc<Shared>) -> Response<Body> {
        let connected = json!({ "type": "server.connected", "properties": {} });
        let first = Piece::Text(frame(&connected));
        self.lock().queue = Some(VecDeque::from([first]));
        self.changed.notify_waiters();
        let pieces = futures::stream::unfold(Some(self), |shared| async {
            let shared = shared?;
            loop {
                let changed = shared.changed.clone().notified_owned();
                let piece = shared.lock().queue.as_mut().and_then(VecDeque::pop_front);
                match piece {
                    Some(Piece::Text(text)) => return Some((Ok(text), Some(shared))),
                    Some(Piece::End) => {
                        shared.lock().queue = None;
                        return None;
                    }
                    Some(Piece::Error) => {
                        shared.lock().queue = None;
                        return Some((Err(io::Error::other("cut")), None));
                    }
                    None => {}
                }
                if timeout(HEARTBEAT, changed).await.is_err() {
                    let beat = json!({ "type": "server.heartbeat", "properties": {} });
                    return Some((Ok(frame(&beat)), Some(shared)));
                }
            }
        });
        http::stream(200, "text/event-stream", pieces)
    }

    /// Does what the client asks for, if it was done in the recording too, and answers as it was
    /// answered there.
    async fn act(&self, deed: Deed, asked: Asked) -> Response<Body> {
        let place = self.lock().place;
        let lines = self.recording.lines.iter().enumerate().skip(place);
        let recorded = lines
            .filter(|(at, line)| {
                let is_same = matches!(&line.what, What::Did { deed: did, .. } if *did == deed);
                is_same && !self.foreign.contains(at)
            })
            .map(|(at, _)| at)
            .next();
        let Some(at) = recorded else {
            return self.act_unrecorded(&deed);
        };
        {
            let mut state = self.lock();
            if let (Deed::Prompt { session }, Some(id)) = (&deed, asked.body["messageID"].as_str())
                && let Some(recorded) = self.recording.message_after(at, session)
            {
                state.ids.insert(recorded, id.to_owned());
            }
            state.done.push(deed.clone());
        }
        self.changed.notify_waiters();
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.lock();
                let answer = state.answers.iter().position(|(of, _, _)| *of == deed);
                if let Some(answer) = answer {
                    let (_, status, body) = state.answers.remove(answer);
                    return http::json(status, &body);
                }
                if state.ended {
                    return http::json(200, &json!(true));
                }
            }
            changed.await;
        }
    }

    fn act_unrecorded(&self, deed: &Deed) -> Response<Body> {
        if let Deed::Abort { session } = deed {
            let mut state = self.lock();
            for event in state.store.end_of(session) {
                state.send(&event);
            }
            state.place = self.recording.lines.len();
            drop(state);
            self.changed.notify_waiters();
        }
        http::json(200, &json!(true))
    }

    fn look(&self, asked: &Asked) -> Response<Body> {
        let state = self.lock();
        let words: Vec<&str> = asked.path.trim_start_matches('/').split('/').collect();
        let value = match (&asked.method, words.as_slice()) {
            (_, ["global", "health"]) => {
                json!({ "healthy": true, "version": self.recording.version() })
            }
            (_, ["sync", "history"]) => {
                let after = asked.body.as_object().cloned().unwrap_or_default();
                state.store.history_after(&after)
            }
            (_, ["session", "status"]) => state.store.status(),
            (_, ["permission"]) => state.store.permissions(),
            (_, ["question"]) => state.store.questions(),
            (_, ["session"]) => state.store.sessions.values().cloned().collect(),
            (_, ["session", id, "message"]) => state.store.messages(id),
            (_, ["session", _, "diff"]) => json!([]),
            (&Method::DELETE, ["session", _] | ["session", _, "message", _]) => json!(true),
            (_, ["session", id]) => match state.store.sessions.get(*id) {
                Some(session) => session.clone(),
                None => return http::json(404, &json!({ "name": "NotFoundError" })),
            },
            // As the real one: a page for everything else.
            _ => return http::whole(200, "text/html", "<html></html>"),
        };
        http::json(200, &value)
    }
}

impl State {
    /// Whether somebody listens, and not to the end of a stream that was cut.
    fn is_heard(&self) -> bool {
        let last = self.queue.as_ref().map(VecDeque::back);
        last.is_some_and(|last| !matches!(last, Some(Piece::End | Piece::Error)))
    }

    fn send(&mut self, event: &Value) {
        let event = self.rewrite(event);
        let copy = self.store.take(&event);
        if self.is_heard()
            && let Some(queue) = &mut self.queue
        {
            queue.push_back(Piece::Text(frame(&event)));
            queue.extend(copy.map(|copy| Piece::Text(frame(&copy))));
        }
    }

    /// The client's ids for those of the recording.
    fn rewrite(&self, value: &Value) -> Value {
        if self.ids.is_empty() {
            return value.clone();
        }
        let mut text = value.to_string();
        for (recorded, ours) in &self.ids {
            text = text.replace(recorded, ours);
        }
        serde_json::from_str(&text).expect("ids hold nothing that JSON escapes")
    }
}

fn frame(event: &Value) -> String {
    let wrapped = json!({ "directory": "/workspace", "payload": event });
    format!("data: {wrapped}\n\n")
}
