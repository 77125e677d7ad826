//! A workplace, simulated: it connects to the link door, keeps what it says in a journal on the
//! sandbox's disk until the hub has it, and answers prompts by doing what they say.
//!
//! A prompt is a script, a line each: `say WORDS`, `write PATH WORDS`, `wait MILLISECONDS`, `ask
//! WORDS`, `fail WORDS`. Whatever else is said is answered. Every run is [counted](super::Fake::runs)
//! outside of the sandbox, where neither a restore nor a restart takes it back.

mod journal;
mod turn;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use model::{Id, SystemClock};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::sleep;
use wire::link::{
    AgentStatus, FromHub, FromRunner, Hello, HubFrame, HubHello, PROTOCOL, Part, PartContent,
    Prompt, PromptState, RunnerFrame, read_hub,
};
use wire::workplace::LINK_DOOR;

use self::journal::Journal;
use super::machine::Inside;

/// Between two knocks at a door that nobody serves.
const AGAIN: Duration = Duration::from_millis(10);

/// A hub that has not greeted by then is not there.
const GREETING: Duration = Duration::from_secs(1);

/// Until its sandbox ends. Each time it is killed it starts anew, as another boot.
pub(super) async fn live(inside: Arc<Inside>, session: String, generation: u64) {
    while !inside.is_silent() {
        let runner = Arc::new(Runner::start(&inside, &session, generation));
        let killed = inside.runner_killed();
        tokio::select! {
            () = runner.run() => {}
            () = killed => {}
        }
    }
}

struct Runner {
    inside: Arc<Inside>,
    session: String,
    generation: u64,
    boot: String,
    state: Mutex<State>,
    /// There is something to send.
    more: Notify,
}

struct State {
    journal: Journal,
    is_connected: bool,
    out: VecDeque<Out>,
    open: Vec<Part>,
    prompts: HashMap<String, PromptState>,
    /// By channel: what ends the turn there, and how.
    turns: HashMap<String, Arc<turn::Ending>>,
    answers: HashMap<String, Arc<Notify>>,
}

enum Out {
    Kept { boot: String, seq: u64 },
    Passing(Box<FromRunner>),
}

impl State {
    /// All that the hub may not have is to be sent.
    fn connect(&mut self) {
        self.is_connected = true;
        let kept = self.journal.names();
        let kept = kept.map(|(boot, seq)| Out::Kept { boot, seq });
        let open = self.open.iter().cloned().map(FromRunner::Part);
        let open = open.map(|part| Out::Passing(Box::new(part)));
        self.out = kept.chain(open).collect();
    }
}

impl Runner {
    fn start(inside: &Arc<Inside>, session: &str, generation: u64) -> Self {
        let boot = Id::<model::Boot>::new(&SystemClock).to_string();
        let journal = Journal::open(&mut inside.disk(), session, &boot);
        Self {
            inside: Arc::clone(inside),
            session: session.to_owned(),
            generation,
            boot,
            state: Mutex::new(State {
                journal,
                is_connected: false,
                out: VecDeque::new(),
                open: Vec::new(),
                prompts: HashMap::new(),
                turns: HashMap::new(),
                answers: HashMap::new(),
            }),
            more: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    async fn run(self: Arc<Self>) {
        let mut turns = JoinSet::new();
        loop {
            self.inside.pass().await;
            if let Some(stream) = self.inside.connect_door(LINK_DOOR) {
                // Whether the hub went or sent us away: we come again.
                let _ = self.talk(stream, &mut turns).await;
                self.state().is_connected = false;
            }
            tokio::select! {
                () = sleep(AGAIN) => {}
                () = self.agent_dies() => {}
            }
        }
    }

    async fn talk(
        self: &Arc<Self>,
        stream: DuplexStream,
        turns: &mut JoinSet<()>,
    ) -> std::io::Result<()> {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut lines = BufReader::new(reader).lines();
        writer.write_all(&line(&self.hello())).await?;
        loop {
            let more = self.more.notified();
            for frame in self.to_send() {
                self.inside.pass().await;
                writer.write_all(&line(&frame)).await?;
            }
            let is_greeted = self.state().is_connected;
            tokio::select! {
                () = sleep(GREETING), if !is_greeted => return Ok(()),
                said = lines.next_line() => {
                    let Some(said) = said? else { return Ok(()) };
                    self.inside.pass().await;
                    let Ok(HubFrame { term, body }) = read_hub(said.as_bytes()) else {
                        continue;
                    };
                    if matches!(body, FromHub::Close(_)) || !self.hear(term, body, turns).await {
                        return Ok(());
                    }
                }
                () = more => {}
                () = self.agent_dies() => {}
            }
        }
    }

    /// Every turn ends as badly as it does when the agent's process does.
    async fn agent_dies(&self) {
        self.inside.agent_killed().await;
        for ending in self.state().turns.values() {
            ending.crash();
        }
    }

    fn hello(&self) -> RunnerFrame {
        let state = self.state();
        RunnerFrame::passing(FromRunner::Hello(Hello {
            session: self.session.clone(),
            generation: self.generation,
            boot: self.boot.clone(),
            protocol: PROTOCOL,
            term: state.journal.term,
            offers: state.journal.offers(),
        }))
    }

    fn to_send(&self) -> Vec<RunnerFrame> {
        let mut state = self.state();
        if !state.is_connected {
            return Vec::new();
        }
        let out = std::mem::take(&mut state.out);
        out.into_iter()
            .filter_map(|out| match out {
                Out::Passing(body) => Some(RunnerFrame::passing(*body)),
                // What was acknowledged meanwhile is not sent.
                Out::Kept { boot, seq } => state.journal.frame(&boot, seq, &self.boot),
            })
            .collect()
    }

    /// False if this hub is not to be heard.
    async fn hear(self: &Arc<Self>, term: u64, body: FromHub, turns: &mut JoinSet<()>) -> bool {
        let is_old = {
            let mut state = self.state();
            let is_old = term < state.journal.term;
            state.journal.term = state.journal.term.max(term);
            is_old
        };
        if is_old {
            return false;
        }
        match body {
            FromHub::Hello(hello) => self.greeted(&hello).await,
            FromHub::Ack { seq, boot } => {
                let boot = boot.unwrap_or_else(|| self.boot.clone());
                let acknowledge = |state: &mut State| state.journal.acknowledge(&boot, seq);
                self.change(acknowledge).await;
            }
            FromHub::Prompt(prompt) => self.prompt(prompt, turns),
            FromHub::PromptState { prompt_id } => {
                let state = self.state().prompts.get(&prompt_id).copied();
                let state = state.unwrap_or(PromptState::NeverSeen);
                self.remark(FromRunner::PromptState { prompt_id, state });
            }
            FromHub::Cancel { channel } => {
                let state = self.state();
                let named = |name: &String| channel.as_ref().is_none_or(|channel| channel == name);
                for (_, ending) in state.turns.iter().filter(|(name, _)| named(name)) {
                    ending.cancel();
                }
            }
            FromHub::Answer { question_id, .. } => {
                if let Some(waiting) = self.state().answers.remove(&question_id) {
                    waiting.notify_one();
                }
            }
            _ => {}
        }
        true
    }

    async fn greeted(&self, hello: &HubHello) {
        let forget = |state: &mut State| {
            for seen in &hello.seen {
                state.journal.acknowledge(&seen.boot, seen.seq);
            }
        };
        self.change(forget).await;
        self.state().connect();
        self.say(FromRunner::AgentStatus {
            status: AgentStatus::Idle,
            detail: None,
            prompt_id: None,
            channel: None,
        })
        .await;
    }

    fn prompt(self: &Arc<Self>, prompt: Box<Prompt>, turns: &mut JoinSet<()>) {
        while turns.try_join_next().is_some() {}
        let ending = {
            let mut state = self.state();
            let known = state.prompts.get(&prompt.id).copied();
            if known.is_some() || state.turns.contains_key(&prompt.channel) {
                drop(state);
                let (prompt_id, channel) = (prompt.id.clone(), prompt.channel.clone());
                return self.remark(match known {
                    Some(state) => FromRunner::PromptState { prompt_id, state },
                    None => FromRunner::Busy {
                        prompt_id,
                        channel,
                        reason: None,
                    },
                });
            }
            let received = PromptState::Received;
            state.prompts.insert(prompt.id.clone(), received);
            let ending = Arc::<turn::Ending>::default();
            state
                .turns
                .insert(prompt.channel.clone(), Arc::clone(&ending));
            ending
        };
        turns.spawn(turn::run(Arc::clone(self), prompt, ending));
    }

    /// Kept on the disk until the hub has it.
    async fn say(&self, body: FromRunner) {
        let boot = self.boot.clone();
        self.change(move |state| {
            let seq = state.journal.append(&boot, body);
            state.out.push_back(Out::Kept { boot, seq });
        })
        .await;
        self.more.notify_one();
    }

    /// Said now or not at all.
    fn remark(&self, body: FromRunner) {
        let mut state = self.state();
        if state.is_connected {
            state.out.push_back(Out::Passing(Box::new(body)));
        }
        drop(state);
        self.more.notify_one();
    }

    /// More of a part that is open.
    async fn grow(&self, message_id: &str, part_id: &str, text: &str) {
        self.inside.pass().await;
        let offset = {
            let mut state = self.state();
            let is_it = |part: &&mut Part| part.message_id == message_id && part.part_id == part_id;
            if let Some(PartContent::Text { text: held }) =
                state.open.iter_mut().find(is_it).map(|p| &mut p.content)
            {
                let offset = held.len();
                held.push_str(text);
                offset
            } else {
                state.open.push(Part {
                    message_id: message_id.to_owned(),
                    part_id: part_id.to_owned(),
                    open: true,
                    content: PartContent::Text {
                        text: text.to_owned(),
                    },
                });
                0
            }
        };
        self.remark(FromRunner::PartDelta {
            message_id: message_id.to_owned(),
            part_id: part_id.to_owned(),
            offset: offset as u64,
            text: text.to_owned(),
        });
    }

    /// One step, and the journal on the disk is as the change left it.
    async fn change(&self, change: impl FnOnce(&mut State)) {
        let step = |disk: &mut super::disk::Disk| {
            let mut state = self.state();
            change(&mut state);
            state.journal.write(disk, &self.session);
        };
        self.inside.step(step).await;
        // A provider that cannot write ends soon enough.
        let _ = self.inside.save();
    }
}

fn line(frame: &RunnerFrame) -> Vec<u8> {
    let mut line = wire::link::write(frame);
    line.push(b'\n');
    line
}
