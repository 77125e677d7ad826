//! Who waits for the agent, on each channel, as one pure machine.
//!
//! ```text
//!             Dispatch                Accept
//!  waiting ────────────► sent ───────────────► accepted ──► ended
//!     ▲                   │  busy, never seen     │
//!     └──── GiveBack ─────┘                       └─ the sandbox is gone, or its boot is over:
//!                                                    ended as interrupted
//! ```
//!
//! A channel has one prompt under way at most. What was sent is sent again only when a runner of the
//! same generation and boot says that it never saw it. Each call answers what is to be written and
//! said, in that order: a [`Step`] is written before it is acted on, and so may be done twice.

#[cfg(test)]
mod tests;
#[cfg(test)]
mod walk;

use std::collections::{BTreeMap, VecDeque};

use model::{SignedDuration, Timestamp};
use store::prompts::{Destination, End, Mode, Prompt, Status};
use wire::link::PromptState;

/// For so long prompts that are to be collected are waited for.
const GATHERING: SignedDuration = SignedDuration::from_secs(3);
/// So many more become one with the first.
const TOGETHER: usize = 15;
/// A runner that did not take a prompt is not asked again before.
const AGAIN: SignedDuration = SignedDuration::from_secs(2);

/// What is to be written, and then said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// `others` become part of it, in order, and are over with that.
    Join {
        prompt: String,
        others: Vec<String>,
    },
    /// To be sent, once it is written where to.
    Dispatch {
        prompt: String,
        to: Destination,
    },
    Accept {
        prompt: String,
        from: Destination,
    },
    GiveBack {
        prompt: String,
        from: Destination,
    },
    End {
        prompt: String,
        end: End,
        reason: Option<&'static str>,
    },
    /// The turn of a channel is to end: another prompt is more urgent.
    Cancel {
        channel: String,
    },
    /// A runner is to be asked what it knows of the prompt.
    Ask {
        prompt: String,
    },
}

/// How a runner says that a prompt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    Completed,
    Canceled,
    Failed,
}

/// Why a prompt was interrupted.
pub(crate) const SANDBOX_GONE: &str = "its sandbox is gone";
pub(crate) const STARTED_ANEW: &str = "the workplace was started anew while it ran";
pub(crate) const LEFT: &str = "the session left its sandbox while it ran";
pub(crate) const STOPPED: &str = "the session was stopped";

#[derive(Debug, Default)]
pub(crate) struct Queue {
    channels: BTreeMap<String, Channel>,
    runner: Option<Runner>,
    /// The session runs, and is not about to rest or to move.
    is_open: bool,
}

/// The runner that is connected.
#[derive(Debug)]
struct Runner {
    at: Destination,
    /// All that it had to say of earlier boots was heard.
    is_caught_up: bool,
    agent_is_ready: bool,
    /// It has what it is to have before it is asked anything.
    is_dressed: bool,
}

#[derive(Debug, Default)]
struct Channel {
    waiting: VecDeque<Waiting>,
    current: Option<Current>,
}

#[derive(Debug)]
struct Waiting {
    id: String,
    mode: Mode,
    /// Not sent before.
    from: Timestamp,
}

#[derive(Debug)]
struct Current {
    id: String,
    to: Destination,
    is_accepted: bool,
    /// It is to end for another one, and the runner was told.
    is_cancelled: bool,
    /// It is to end because the session leaves its sandbox.
    is_stopped: bool,
}

impl Queue {
    /// What the store has of prompts that are not over, in order.
    pub(crate) fn load(prompts: impl IntoIterator<Item = Prompt>) -> Self {
        let mut queue = Self::default();
        for prompt in prompts {
            let channel = queue.channels.entry(prompt.channel.clone()).or_default();
            match (prompt.status, prompt.destination) {
                (Status::Dispatched | Status::Accepted, Some(to)) => {
                    channel.current = Some(Current {
                        id: prompt.id,
                        to,
                        is_accepted: prompt.status == Status::Accepted,
                        is_cancelled: false,
                        is_stopped: false,
                    });
                }
                _ => channel.put(prompt.id, prompt.mode, prompt.created_at),
            }
        }
        queue
    }

    /// A new one, which is written already.
    pub(crate) fn add(&mut self, prompt: &Prompt, now: Timestamp) -> Vec<Step> {
        let channel = self.channels.entry(prompt.channel.clone()).or_default();
        channel.put(prompt.id.clone(), prompt.mode, prompt.created_at);
        let mut steps = Vec::new();
        if prompt.mode == Mode::Steer
            && let Some(current) = channel.current.as_mut().filter(|c| !c.is_cancelled)
        {
            // Without a runner there is nobody to tell; whoever connects is told.
            let runner = self.runner.as_ref();
            current.is_cancelled = runner.is_some_and(|runner| runner.at == current.to);
            if current.is_cancelled {
                steps.push(Step::Cancel {
                    channel: prompt.channel.clone(),
                });
            }
        }
        steps.extend(self.go_on(now));
        steps
    }

    /// Takes back one that waits; false if it does not.
    pub(crate) fn withdraw(&mut self, prompt: &str) -> bool {
        for channel in self.channels.values_mut() {
            let place = channel.waiting.iter().position(|one| one.id == prompt);
            if let Some(place) = place {
                channel.waiting.remove(place);
                return true;
            }
        }
        false
    }

    /// A runner was greeted.
    pub(crate) fn connected(&mut self, runner: Destination) -> Vec<Step> {
        let mut steps = Vec::new();
        for (name, channel) in &mut self.channels {
            let steered = channel.is_steered();
            let Some(current) = channel.current.as_mut().filter(|c| c.to == runner) else {
                continue;
            };
            if !current.is_accepted {
                steps.push(Step::Ask {
                    prompt: current.id.clone(),
                });
            }
            if steered || current.is_stopped {
                current.is_cancelled = true;
                steps.push(Step::Cancel {
                    channel: name.clone(),
                });
            }
        }
        self.runner = Some(Runner {
            at: runner,
            is_caught_up: false,
            agent_is_ready: false,
            is_dressed: false,
        });
        steps
    }

    /// Everything that the runner offered of earlier boots was taken in: nothing more will come of
    /// what was sent to them.
    pub(crate) fn caught_up(&mut self, now: Timestamp) -> Vec<Step> {
        let Some(runner) = &mut self.runner else {
            return Vec::new();
        };
        runner.is_caught_up = true;
        let here = runner.at.clone();
        let mut steps = self.interrupt(STARTED_ANEW, |to| *to != here);
        steps.extend(self.go_on(now));
        steps
    }

    /// What is under way is the runner's still.
    pub(crate) fn disconnected(&mut self) {
        self.runner = None;
    }

    pub(crate) fn agent_ready(&mut self, is_ready: bool, now: Timestamp) -> Vec<Step> {
        if let Some(runner) = &mut self.runner {
            runner.agent_is_ready = is_ready;
        }
        self.go_on(now)
    }

    pub(crate) fn dressed(&mut self, now: Timestamp) -> Vec<Step> {
        if let Some(runner) = &mut self.runner {
            runner.is_dressed = true;
        }
        self.go_on(now)
    }

    /// Whether prompts may be sent: not while the session rests, moves, or is about to.
    pub(crate) fn open(&mut self, is_open: bool, now: Timestamp) -> Vec<Step> {
        self.is_open = is_open;
        self.go_on(now)
    }

    /// The disk that it worked on is gone, or set back.
    pub(crate) fn sandbox_gone(&mut self, generation: u64, now: Timestamp) -> Vec<Step> {
        if self
            .runner
            .as_ref()
            .is_some_and(|runner| runner.at.generation == generation)
        {
            self.disconnected();
        }
        let mut steps = self.interrupt(SANDBOX_GONE, |to| to.generation == generation);
        steps.extend(self.go_on(now));
        steps
    }

    pub(crate) fn accepted(&mut self, prompt: &str, from: &Destination) -> Vec<Step> {
        match self.current(prompt, from) {
            Some(current) if !current.is_accepted => {
                current.is_accepted = true;
                vec![Step::Accept {
                    prompt: prompt.to_owned(),
                    from: current.to.clone(),
                }]
            }
            _ => Vec::new(),
        }
    }

    /// The runner did not take it, or gave it back without a call to the agent.
    pub(crate) fn busy(&mut self, prompt: &str, from: &Destination, now: Timestamp) -> Vec<Step> {
        self.give_back(prompt, from, after(now, AGAIN))
    }

    /// It waits again, as the first.
    fn give_back(&mut self, prompt: &str, from: &Destination, then: Timestamp) -> Vec<Step> {
        let Some(from) = self.current(prompt, from).map(|current| current.to.clone()) else {
            return Vec::new();
        };
        for channel in self.channels.values_mut() {
            if let Some(current) = channel.current.take_if(|current| current.id == prompt) {
                channel.waiting.push_front(Waiting {
                    id: current.id,
                    mode: Mode::Followup,
                    from: then,
                });
            }
        }
        vec![Step::GiveBack {
            prompt: prompt.to_owned(),
            from,
        }]
    }

    /// What the runner knows of a prompt that was sent to it.
    pub(crate) fn state_is(
        &mut self,
        prompt: &str,
        from: &Destination,
        state: PromptState,
        now: Timestamp,
    ) -> Vec<Step> {
        match state {
            PromptState::NeverSeen => {
                let mut steps = self.give_back(prompt, from, now);
                steps.extend(self.go_on(now));
                steps
            }
            PromptState::Accepted => self.accepted(prompt, from),
            // Its end is on its way, or it is not decided yet.
            PromptState::Received
            | PromptState::Finished
            | PromptState::Failed
            | PromptState::Canceled
            | PromptState::Unknown => Vec::new(),
        }
    }

    /// Its one end, whichever boot tells it.
    pub(crate) fn ended(&mut self, prompt: &str, how: Ended, now: Timestamp) -> Vec<Step> {
        let mut steps = Vec::new();
        for channel in self.channels.values_mut() {
            if let Some(current) = channel.current.take_if(|current| current.id == prompt) {
                let (end, reason) = match how {
                    Ended::Canceled if current.is_stopped => (End::Interrupted, Some(LEFT)),
                    Ended::Completed | Ended::Canceled => (End::Finished, None),
                    Ended::Failed => (End::Failed, None),
                };
                steps.push(Step::End {
                    prompt: current.id,
                    end,
                    reason,
                });
            }
        }
        steps.extend(self.go_on(now));
        steps
    }

    /// The session leaves its sandbox: what runs there is to end.
    pub(crate) fn stop_turns(&mut self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (name, channel) in &mut self.channels {
            if let Some(current) = channel.current.as_mut().filter(|c| !c.is_stopped) {
                current.is_stopped = true;
                steps.push(Step::Cancel {
                    channel: name.clone(),
                });
            }
        }
        steps
    }

    /// The session leaves after all not.
    pub(crate) fn stay(&mut self) {
        for current in self
            .channels
            .values_mut()
            .filter_map(|c| c.current.as_mut())
        {
            current.is_stopped = false;
        }
    }

    /// Nothing will be sent any more.
    pub(crate) fn stop(&mut self) -> Vec<Step> {
        let mut steps = self.interrupt(STOPPED, |_| true);
        for channel in self.channels.values_mut() {
            steps.extend(channel.waiting.drain(..).map(|waiting| Step::End {
                prompt: waiting.id,
                end: End::Failed,
                reason: Some(STOPPED),
            }));
        }
        self.channels.clear();
        steps
    }

    /// Those whose runners were sent something.
    pub(crate) fn generations(&self) -> Vec<u64> {
        let sent = self.channels.values().filter_map(|c| c.current.as_ref());
        sent.map(|current| current.to.generation).collect()
    }

    /// When the newest that waits may be sent.
    pub(crate) fn newest(&self) -> Option<Timestamp> {
        let all = self.channels.values();
        all.flat_map(|channel| &channel.waiting)
            .map(|waiting| waiting.from)
            .max()
    }

    /// Whether something is to be sent.
    pub(crate) fn has_waiting(&self) -> bool {
        let mut all = self.channels.values();
        all.any(|channel| !channel.waiting.is_empty())
    }

    /// Whether this one is still to be sent.
    pub(crate) fn waits(&self, prompt: &str) -> bool {
        let mut all = self.channels.values().flat_map(|channel| &channel.waiting);
        all.any(|waiting| waiting.id == prompt)
    }

    /// How many are under way.
    pub(crate) fn under_way(&self) -> usize {
        let all = self.channels.values();
        all.filter(|channel| channel.current.is_some()).count()
    }

    /// When to [go on](Self::go_on) though nothing happened.
    pub(crate) fn next_look(&self) -> Option<Timestamp> {
        if !self.may_send() {
            return None;
        }
        let idle = self.channels.values().filter(|c| c.current.is_none());
        idle.filter_map(|channel| channel.waiting.front())
            .map(|first| first.from)
            .min()
    }

    /// Sends what may be sent.
    pub(crate) fn go_on(&mut self, now: Timestamp) -> Vec<Step> {
        self.channels
            .retain(|_, channel| channel.current.is_some() || !channel.waiting.is_empty());
        let runner = self.runner.as_ref().filter(|_| self.may_send());
        let Some(to) = runner.map(|runner| runner.at.clone()) else {
            return Vec::new();
        };
        let mut steps = Vec::new();
        for channel in self.channels.values_mut() {
            let Some((prompt, others)) = channel.next(now) else {
                continue;
            };
            if !others.is_empty() {
                let prompt = prompt.clone();
                steps.push(Step::Join { prompt, others });
            }
            steps.push(Step::Dispatch {
                prompt: prompt.clone(),
                to: to.clone(),
            });
            channel.current = Some(Current {
                id: prompt,
                to: to.clone(),
                is_accepted: false,
                is_cancelled: false,
                is_stopped: false,
            });
        }
        steps
    }

    /// Whether the agent is at work, or would be.
    pub(crate) fn is_idle(&self) -> bool {
        self.channels.is_empty()
    }

    fn may_send(&self) -> bool {
        let is_ready =
            |runner: &Runner| runner.is_caught_up && runner.agent_is_ready && runner.is_dressed;
        self.is_open && self.runner.as_ref().is_some_and(is_ready)
    }

    fn current(&mut self, prompt: &str, from: &Destination) -> Option<&mut Current> {
        let all = self.channels.values_mut();
        all.filter_map(|channel| channel.current.as_mut())
            // A boot happens once, whatever its generation.
            .find(|current| current.id == prompt && current.to.boot == from.boot)
    }

    fn interrupt(
        &mut self,
        reason: &'static str,
        is_it: impl Fn(&Destination) -> bool,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for channel in self.channels.values_mut() {
            if let Some(current) = channel.current.take_if(|current| is_it(&current.to)) {
                steps.push(Step::End {
                    prompt: current.id,
                    end: End::Interrupted,
                    reason: Some(reason),
                });
            }
        }
        steps
    }
}

impl Channel {
    /// One that steers goes before all that do not.
    fn put(&mut self, id: String, mode: Mode, asked_at: Timestamp) {
        let from = match mode {
            Mode::Collect => after(asked_at, GATHERING),
            Mode::Followup | Mode::Steer => asked_at,
        };
        let one = Waiting { id, mode, from };
        if mode == Mode::Steer {
            let before = self.waiting.iter().take_while(|w| w.mode == Mode::Steer);
            self.waiting.insert(before.count(), one);
        } else {
            self.waiting.push_back(one);
        }
    }

    fn is_steered(&self) -> bool {
        let first = self.waiting.front();
        first.is_some_and(|first| first.mode == Mode::Steer)
    }

    /// The next that is to be sent, and those that become part of it.
    fn next(&mut self, now: Timestamp) -> Option<(String, Vec<String>)> {
        if self.current.is_some() {
            return None;
        }
        let first = self.waiting.pop_front_if(|first| first.from <= now)?;
        if first.mode != Mode::Collect {
            return Some((first.id, Vec::new()));
        }
        let mut others = Vec::new();
        while others.len() < TOGETHER
            && let Some(next) = self.waiting.pop_front_if(|one| one.mode == Mode::Collect)
        {
            others.push(next.id);
        }
        Some((first.id, others))
    }
}

fn after(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
