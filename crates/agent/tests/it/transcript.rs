//! What a plain reader of events ends up with.

use agent::event::{Content, Event, Happening, Reason, TextKind, Usage};
use model::Id;
use serde_json::{Value, json};

pub(crate) type TurnId = Id<agent::event::Turn>;
type PartId = Id<agent::event::Part>;

#[derive(Debug, Default)]
pub(crate) struct Transcript {
    pub(crate) turns: Vec<Read>,
}

#[derive(Debug)]
pub(crate) struct Read {
    id: TurnId,
    parts: Vec<(PartId, Content)>,
    pub(crate) done: Option<(Reason, String, Option<String>, Usage)>,
}

impl Transcript {
    /// Panics where events contradict each other.
    pub(crate) fn of<'a>(events: impl IntoIterator<Item = &'a Event>) -> Transcript {
        let mut transcript = Transcript::default();
        for event in events {
            transcript.take(&event.happening);
        }
        transcript
    }

    fn take(&mut self, happening: &Happening) {
        match happening {
            Happening::TurnOpened { turn, .. } => self.turns.push(Read {
                id: *turn,
                parts: Vec::new(),
                done: None,
            }),
            Happening::PartDelta {
                turn,
                part,
                kind,
                offset,
                text,
            } => {
                let held = self.part(*turn, *part, || match kind {
                    TextKind::Text => Content::Text {
                        text: String::new(),
                    },
                    TextKind::Reasoning => Content::Reasoning {
                        text: String::new(),
                    },
                });
                let (Content::Text { text: known } | Content::Reasoning { text: known }) = held
                else {
                    panic!("a delta for a tool");
                };
                assert_eq!(known.len() as u64, *offset, "a delta leaves a gap");
                known.push_str(text);
            }
            Happening::PartWhole {
                turn,
                part,
                content,
            } => *self.part(*turn, *part, || content.clone()) = content.clone(),
            Happening::PartRemoved { turn, part } => {
                let turn = self.open(*turn);
                let before = turn.parts.len();
                turn.parts.retain(|(id, _)| id != part);
                assert!(turn.parts.len() < before, "a part goes that never came");
            }
            Happening::TurnDone {
                turn,
                reason,
                text,
                error,
                usage,
                ..
            } => {
                let error = error.as_ref().map(|error| error.message.clone());
                self.open(*turn).done = Some((*reason, text.clone(), error, *usage));
            }
            _ => {}
        }
    }

    fn open(&mut self, id: TurnId) -> &mut Read {
        let turn = self.turns.iter_mut().find(|turn| turn.id == id);
        let turn = turn.expect("a turn is opened first");
        assert!(turn.done.is_none(), "something comes after the end");
        turn
    }

    fn part(&mut self, turn: TurnId, part: PartId, new: impl FnOnce() -> Content) -> &mut Content {
        let turn = self.open(turn);
        let at = turn.parts.iter().position(|(id, _)| *id == part);
        let at = at.unwrap_or_else(|| {
            turn.parts.push((part, new()));
            turn.parts.len() - 1
        });
        &mut turn.parts[at].1
    }

    /// Without ids, to be compared and shown.
    pub(crate) fn value(&self) -> Value {
        let turns = self.turns.iter().map(|turn| {
            let parts: Vec<Value> = turn
                .parts
                .iter()
                .map(|(_, content)| {
                    let mut value = serde_json::to_value(content).unwrap();
                    if let Some(under) = value.get_mut("under") {
                        *under = json!(true);
                    }
                    value
                })
                .collect();
            let (reason, text, error, usage) = turn.done.as_ref().expect("every turn ends");
            let joined: Vec<&str> = turn.parts.iter().filter_map(text_of).collect();
            assert_eq!(joined.join("\n\n"), *text, "the parts are the answer");
            json!({
                "parts": parts, "reason": reason, "text": text, "error": error,
                "usage": [usage.input, usage.output],
            })
        });
        turns.collect()
    }
}

fn text_of((_, content): &(PartId, Content)) -> Option<&str> {
    match content {
        Content::Text { text } if !text.is_empty() => Some(text),
        _ => None,
    }
}
