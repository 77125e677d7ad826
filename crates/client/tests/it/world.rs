//! A session that is made up: its log, what is said in passing, and what a server holds of it at
//! each moment.

use std::collections::BTreeMap;

use nacre_client::{Frame, HeldMessage, Transcript};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What may happen. Numbers choose among what there is; what cannot be is not done.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Open(u8),
    Say(u8, u8, String),
    Whole(u8, u8),
    Tool(u8, u8),
    Withdraw(u8, u8),
    Done(u8),
    Remove(u8),
    Revert(u8),
    Prompt(u8, u8),
    Ask(u8),
    Close(u8),
    Title(String),
    Status(bool),
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let few = || 0..3u8;
    let step = prop_oneof![
        3 => few().prop_map(Step::Open),
        8 => (few(), few(), "[a-zäß€😀]{0,4}").prop_map(|(m, p, t)| Step::Say(m, p, t)),
        3 => (few(), few()).prop_map(|(m, p)| Step::Whole(m, p)),
        2 => (few(), 3..5u8).prop_map(|(m, p)| Step::Tool(m, p)),
        1 => (few(), few()).prop_map(|(m, p)| Step::Withdraw(m, p)),
        1 => few().prop_map(Step::Done),
        1 => few().prop_map(Step::Remove),
        1 => few().prop_map(Step::Revert),
        2 => (few(), 0..4u8).prop_map(|(p, s)| Step::Prompt(p, s)),
        1 => few().prop_map(Step::Ask),
        1 => few().prop_map(Step::Close),
        1 => "[a-z]{1,5}".prop_map(Step::Title),
        1 => any::<bool>().prop_map(Step::Status),
    ];
    proptest::collection::vec(step, 0..60)
}

#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) seq: Option<u64>,
    pub(crate) text: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    pub(crate) told: Vec<Told>,
    /// After each of `told`: open parts by message and part.
    open_after: Vec<BTreeMap<(String, String), String>>,
    open: BTreeMap<(String, String), String>,
    /// Messages, and whether they are done.
    messages: BTreeMap<String, bool>,
    asked: BTreeMap<String, bool>,
    /// How often a part of that name was whole or taken back. It is not added to after that: the
    /// next one has another name.
    ended: BTreeMap<(String, u8), u32>,
    seq: u64,
}

impl World {
    pub(crate) fn of(steps: &[Step]) -> Self {
        let mut world = Self::default();
        for step in steps {
            world.take(step);
        }
        world
    }

    /// With so many titles, and nothing else.
    pub(crate) fn of_titles(count: u64) -> Self {
        let title = |number: u64| Step::Title(format!("t{number}"));
        Self::of(&(1..=count).map(title).collect::<Vec<_>>())
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Open(m) => {
                let id = format!("m{m}");
                if self.messages.contains_key(&id) {
                    return;
                }
                self.messages.insert(id.clone(), false);
                self.number(json!({"type": "message", "message_id": id, "channel": "web:default"}));
            }
            Step::Say(m, p, text) => {
                let Some((id, part)) = self.part_of_open(*m, *p) else {
                    return;
                };
                let held = self.open.entry((id.clone(), part.clone())).or_default();
                let offset = held.len();
                held.push_str(text);
                self.pass(
                    json!({"type": "part.delta", "message_id": id, "part_id": part,
                    "offset": offset, "text": text}),
                );
            }
            Step::Whole(m, p) => {
                let Some((id, part)) = self.part_of_open(*m, *p) else {
                    return;
                };
                let Some(text) = self.open.remove(&(id.clone(), part.clone())) else {
                    return;
                };
                self.end(*m, *p);
                self.number(json!({"type": "part", "message_id": id, "part_id": part,
                    "content": {"kind": "text", "text": text}}));
            }
            Step::Tool(m, p) => {
                let Some((id, part)) = self.part_of_open(*m, *p) else {
                    return;
                };
                let seq = self.seq;
                self.number(json!({"type": "part", "message_id": id, "part_id": part,
                    "content": {"kind": "tool", "name": "bash", "args": {"n": seq}}}));
            }
            Step::Withdraw(m, p) => {
                let Some((id, part)) = self.part_of_open(*m, *p) else {
                    return;
                };
                self.open.remove(&(id.clone(), part.clone()));
                self.end(*m, *p);
                self.number(json!({"type": "part.removed", "message_id": id, "part_id": part}));
            }
            Step::Done(m) => {
                let id = format!("m{m}");
                if self.messages.get(&id) != Some(&false) {
                    return;
                }
                self.messages.insert(id.clone(), true);
                self.open.retain(|(of, _), _| *of != id);
                self.number(json!({"type": "message.done", "message_id": id,
                    "reason": "end_turn", "usage": {"input_tokens": 2, "output_tokens": 3}}));
            }
            Step::Remove(m) => {
                let id = format!("m{m}");
                if self.messages.remove(&id).is_some() {
                    self.open.retain(|(of, _), _| *of != id);
                    self.number(json!({"type": "message.removed", "message_id": id}));
                }
            }
            Step::Revert(m) => {
                self.number(json!({"type": "reverted", "message_ids": [format!("m{m}")]}));
            }
            _ => self.take_aside(step),
        }
    }

    fn take_aside(&mut self, step: &Step) {
        match step {
            Step::Prompt(p, status) => {
                let status = ["queued", "dispatched", "accepted", "finished"][usize::from(*status)];
                self.number(json!({"type": "prompt", "id": format!("p{p}"), "status": status}));
            }
            Step::Ask(q) => {
                let id = format!("q{q}");
                if self.asked.insert(id.clone(), true).is_none() {
                    self.number(json!({"type": "question", "question_id": id,
                        "channel": "web:default", "items": [{"text": "which?"}]}));
                }
            }
            Step::Close(q) => {
                let id = format!("q{q}");
                if self.asked.get(&id) == Some(&true) {
                    self.asked.insert(id.clone(), false);
                    self.number(json!({"type": "question_closed", "question_id": id,
                        "outcome": {"kind": "gone"}}));
                }
            }
            Step::Title(title) => self.number(json!({"type": "title", "title": title})),
            Step::Status(runs) => {
                let status = if *runs { "running" } else { "paused" };
                self.number(json!({"type": "status", "status": status, "message": null}));
            }
            _ => {}
        }
    }

    fn part_of_open(&self, message: u8, part: u8) -> Option<(String, String)> {
        let id = format!("m{message}");
        let ended = self.ended.get(&(id.clone(), part)).copied();
        let name = format!("{part}-{}", ended.unwrap_or(0));
        (self.messages.get(&id) == Some(&false)).then_some((id, name))
    }

    fn end(&mut self, message: u8, part: u8) {
        let ended = self.ended.entry((format!("m{message}"), part));
        *ended.or_default() += 1;
    }

    fn number(&mut self, mut event: Value) {
        self.seq += 1;
        event["seq"] = self.seq.into();
        self.tell(Some(self.seq), &event);
    }

    #[expect(clippy::needless_pass_by_value, reason = "as its neighbour")]
    fn pass(&mut self, event: Value) {
        self.tell(None, &event);
    }

    fn tell(&mut self, seq: Option<u64>, event: &Value) {
        let text = event.to_string();
        self.told.push(Told { seq, text });
        self.open_after.push(self.open.clone());
    }

    /// The number of the last event among the first so many that were told.
    pub(crate) fn seq_at(&self, index: usize) -> u64 {
        let mut before = self.told[..index].iter().rev();
        before.find_map(|told| told.seq).unwrap_or(0)
    }

    /// What a server says to one who connects when so many were told.
    pub(crate) fn greeting(&self, index: usize, since: Option<u64>) -> Vec<String> {
        let told = &self.told[..index];
        let mut greeting: Vec<String> = match since {
            Some(since) => told
                .iter()
                .filter(|told| told.seq.is_some_and(|seq| seq > since))
                .map(|told| told.text.clone())
                .collect(),
            None => vec![self.init(index, false)],
        };
        greeting.extend(self.open_at(index));
        greeting
    }

    /// Parts that are open then, each whole.
    pub(crate) fn open_at(&self, index: usize) -> Vec<String> {
        let Some(open) = index.checked_sub(1).map(|last| &self.open_after[last]) else {
            return Vec::new();
        };
        let open = open.iter().map(|((message, part), text)| {
            json!({"type": "part", "message_id": message, "part_id": part, "open": true,
                "content": {"kind": "text", "text": text}})
            .to_string()
        });
        open.collect()
    }

    pub(crate) fn init(&self, index: usize, resync: bool) -> String {
        let mut kept = Transcript::default();
        for told in self.told[..index].iter().filter(|told| told.seq.is_some()) {
            kept.apply(&Frame::read(&told.text).unwrap());
        }
        let status = kept.status.as_ref().map(|standing| standing.status);
        let status = status.map_or(json!("creating"), |status| json!(status));
        let prompts = kept.prompts().iter().filter(|held| !held.status.is_over());
        let prompts: Vec<Value> = prompts
            .map(|held| {
                json!({"id": held.id, "status": held.status, "channel": "web:default",
                    "mode": "followup", "content": "", "created_at": "2026-01-01T00:00:00Z"})
            })
            .collect();
        json!({
            "type": "init",
            "session": session(kept.title.as_deref().unwrap_or_default(), &status),
            "seq": self.seq_at(index),
            "messages": kept.messages().iter().map(message).collect::<Vec<_>>(),
            "questions": kept.questions(),
            "prompts": prompts,
            "runtime": {},
            "resync": resync,
        })
        .to_string()
    }
}

pub(crate) fn session(title: &str, status: &Value) -> Value {
    json!({
        "id": "ses_1", "org_id": "org_1", "title": title, "status": "running",
        "client_status": status, "type": "coding", "channel": "web", "provider": "local",
        "agent": "opencode", "generation": 1, "created_at": "2026-01-01T00:00:00Z",
        "last_active_at": "2026-01-01T00:00:00Z", "last_seq": 0,
    })
}

fn message(held: &HeldMessage) -> Value {
    let parts = held.parts().iter();
    let parts: Vec<Value> = parts
        .map(|part| json!({"part_id": part.part_id, "content": part.content}))
        .collect();
    let at = "2026-01-01T00:00:00Z";
    json!({
        "id": held.id, "position": held.position, "role": held.role, "channel": held.channel,
        "created_at": at, "done_at": held.done.then_some(at), "reason": held.reason,
        "usage": held.usage, "reverted": held.reverted, "parts": parts,
    })
}
