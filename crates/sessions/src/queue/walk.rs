//! Whatever happens in whatever order, a prompt runs at most once.

use std::collections::{BTreeMap, HashSet};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Move {
    Ask(u8, Mode),
    Connect,
    /// A new boot of the workplace, or a new sandbox.
    Reboot(bool),
    CatchUp,
    Dress,
    Ready(bool),
    Open(bool),
    Disconnect,
    Lose,
    /// The runner acts on what it holds of a channel.
    Accept(u8),
    Busy(u8),
    End(u8),
    Tell(u8),
    Later,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let mode = prop_oneof![Just(Mode::Followup), Just(Mode::Steer), Just(Mode::Collect)];
    let channel = 0..3_u8;
    let one = prop_oneof![
        4 => (channel.clone(), mode).prop_map(|(channel, mode)| Move::Ask(channel, mode)),
        2 => Just(Move::Connect),
        1 => any::<bool>().prop_map(Move::Reboot),
        2 => Just(Move::CatchUp),
        2 => Just(Move::Dress),
        3 => prop_oneof![3 => Just(true), 1 => Just(false)].prop_map(Move::Ready),
        3 => prop_oneof![3 => Just(true), 1 => Just(false)].prop_map(Move::Open),
        1 => Just(Move::Disconnect),
        1 => Just(Move::Lose),
        3 => channel.clone().prop_map(Move::Accept),
        1 => channel.clone().prop_map(Move::Busy),
        3 => channel.clone().prop_map(Move::End),
        1 => channel.prop_map(Move::Tell),
        2 => Just(Move::Later),
    ];
    prop::collection::vec(one, 0..120)
}

/// A runner that does as it is told, and everything that anybody was told.
#[derive(Debug)]
struct World {
    queue: Queue,
    now: i64,
    asked: u32,
    generation: u64,
    boot: u32,
    /// What the runner of this boot got, by channel; whether it took it.
    holds: BTreeMap<String, (String, bool)>,
    channel_of: BTreeMap<String, String>,
    /// What the agent was called with.
    ran: HashSet<String>,
    over: HashSet<String>,
}

impl World {
    fn new() -> Self {
        Self {
            queue: Queue::default(),
            now: 0,
            asked: 0,
            generation: 1,
            boot: 1,
            holds: BTreeMap::new(),
            channel_of: BTreeMap::new(),
            ran: HashSet::new(),
            over: HashSet::new(),
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + self.now).unwrap()
    }

    fn here(&self) -> Destination {
        Destination {
            generation: self.generation,
            boot: format!("b{}", self.boot),
        }
    }

    fn act(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Dispatch { prompt, to } => {
                    assert_eq!(to, self.here(), "sent to somebody who is not there");
                    assert!(!self.over.contains(&prompt), "{prompt} was over");
                    let channel = self.channel_of[&prompt].clone();
                    let before = self.holds.insert(channel, (prompt, false));
                    assert_eq!(before, None, "two at once on a channel");
                }
                Step::End { prompt, .. } => {
                    assert!(self.over.insert(prompt.clone()), "{prompt} ended twice");
                }
                Step::Join { prompt, others } => {
                    assert!(!self.over.contains(&prompt));
                    for other in others {
                        assert!(self.over.insert(other.clone()), "{other} was over");
                    }
                }
                Step::GiveBack { .. }
                | Step::Accept { .. }
                | Step::Cancel { .. }
                | Step::Ask { .. } => {}
            }
        }
    }

    fn is_connected(&self) -> bool {
        self.queue.runner.is_some()
    }

    fn held(&self, channel: u8) -> Option<(String, bool)> {
        self.holds.get(&format!("c{channel}")).cloned()
    }

    #[expect(clippy::too_many_lines, reason = "a table: one arm for each move")]
    fn step(&mut self, one: &Move) {
        let (now, here) = (self.time(), self.here());
        match one {
            Move::Ask(channel, mode) => {
                self.asked += 1;
                let (id, channel) = (format!("p{}", self.asked), format!("c{channel}"));
                self.channel_of.insert(id.clone(), channel.clone());
                let prompt = Prompt {
                    id,
                    position: self.asked.into(),
                    channel,
                    mode: *mode,
                    status: Status::Queued,
                    destination: None,
                    reason: None,
                    body: String::new(),
                    created_at: now,
                    dispatched_at: None,
                    accepted_at: None,
                    ended_at: None,
                };
                let steps = self.queue.add(&prompt, now);
                self.act(steps);
            }
            Move::Connect => {
                let steps = self.queue.connected(here);
                self.act(steps);
            }
            Move::Reboot(is_new_sandbox) => {
                self.queue.disconnected();
                self.holds.clear();
                self.boot += 1;
                if *is_new_sandbox {
                    let gone = self.generation;
                    self.generation += 1;
                    let steps = self.queue.sandbox_gone(gone, now);
                    self.act(steps);
                }
            }
            Move::CatchUp if self.is_connected() => {
                let steps = self.queue.caught_up(now);
                self.act(steps);
            }
            Move::Dress if self.is_connected() => {
                let steps = self.queue.dressed(now);
                self.act(steps);
            }
            Move::Ready(is_ready) if self.is_connected() => {
                let steps = self.queue.agent_ready(*is_ready, now);
                self.act(steps);
            }
            Move::Open(is_open) => {
                let steps = self.queue.open(*is_open, now);
                self.act(steps);
            }
            Move::Disconnect => self.queue.disconnected(),
            // What was said on a connection that broke did not arrive.
            Move::Lose => {
                self.queue.disconnected();
                self.holds.retain(|_, (_, taken)| *taken);
            }
            Move::Accept(channel) if self.is_connected() => {
                if let Some((prompt, false)) = self.held(*channel) {
                    assert!(self.ran.insert(prompt.clone()), "{prompt} ran twice");
                    self.holds
                        .insert(format!("c{channel}"), (prompt.clone(), true));
                    let steps = self.queue.accepted(&prompt, &here);
                    self.act(steps);
                }
            }
            Move::Busy(channel) if self.is_connected() => {
                if let Some((prompt, false)) = self.held(*channel) {
                    self.holds.remove(&format!("c{channel}"));
                    let steps = self.queue.busy(&prompt, &here, now);
                    self.act(steps);
                }
            }
            Move::End(channel) if self.is_connected() => {
                if let Some((prompt, true)) = self.held(*channel) {
                    self.holds.remove(&format!("c{channel}"));
                    let steps = self.queue.ended(&prompt, Ended::Completed, now);
                    self.act(steps);
                }
            }
            Move::Tell(channel) if self.is_connected() => {
                let Some(prompt) = self
                    .queue
                    .channels
                    .get(&format!("c{channel}"))
                    .and_then(|channel| channel.current.as_ref())
                    .map(|current| current.id.clone())
                else {
                    return;
                };
                let state = match self.held(*channel) {
                    Some((held, true)) if held == prompt => PromptState::Accepted,
                    Some((held, false)) if held == prompt => PromptState::Received,
                    _ => PromptState::NeverSeen,
                };
                let steps = self.queue.state_is(&prompt, &here, state, now);
                self.act(steps);
            }
            Move::Later => {
                self.now += 2;
                let now = self.time();
                let steps = self.queue.go_on(now);
                self.act(steps);
            }
            _ => {}
        }
    }
}

proptest! {
    #[test]
    fn a_prompt_runs_at_most_once_on_any_walk(moves in moves()) {
        let mut world = World::new();
        for one in &moves {
            world.step(one);
        }
        // And none is forgotten: with everything in order, all of them end.
        world.step(&Move::Reboot(true));
        for one in [Move::Connect, Move::CatchUp, Move::Dress, Move::Open(true), Move::Ready(true)] {
            world.step(&one);
        }
        for _ in 0..=2 * world.asked {
            world.step(&Move::Later);
            for channel in 0..3 {
                world.step(&Move::Accept(channel));
                world.step(&Move::End(channel));
            }
        }
        prop_assert!(world.queue.is_idle(), "{:?}", world.queue);
        prop_assert_eq!(world.over.len(), world.asked as usize);
    }
}
