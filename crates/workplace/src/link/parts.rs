//! Text that is still being said: held whole, sent as it grows.
//!
//! A delta is not kept anywhere else, so what a connection has not carried is simply what lies
//! behind the place it got to. Under backlog several deltas become one; after a reconnect each part
//! is sent whole.

use wire::link::{FromRunner, Part, PartContent};

/// One frame's share of a long text: escaped, it still fits.
const PIECE: usize = 128 << 10;
/// More open parts, or longer ones, than any agent has. The whole part tells at its end.
const MOST: usize = 64;
const LONGEST: usize = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct Parts {
    open: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    message_id: String,
    part_id: String,
    kind: Kind,
    text: String,
    /// How much of it this connection has carried. `None`: it does not know of the part.
    sent: Option<usize>,
    /// Nothing more of it is held.
    is_overgrown: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Reasoning,
}

impl Parts {
    /// Takes note of what is said. Deltas and open parts end here; others pass.
    pub(super) fn passing(&mut self, frame: &FromRunner) {
        match frame {
            FromRunner::PartDelta {
                message_id,
                part_id,
                offset,
                text,
            } => self.grow(message_id, part_id, *offset, text),
            FromRunner::Part(part) if part.open => self.put(part),
            FromRunner::Part(Part {
                message_id,
                part_id,
                ..
            })
            | FromRunner::PartRemoved {
                message_id,
                part_id,
            } => self.open.retain(|open| !open.is(message_id, part_id)),
            FromRunner::MessageDone { message_id, .. }
            | FromRunner::MessageRemoved { message_id } => {
                self.open.retain(|open| open.message_id != *message_id);
            }
            _ => {}
        }
    }

    fn grow(&mut self, message_id: &str, part_id: &str, offset: u64, text: &str) {
        let known = self
            .open
            .iter()
            .position(|open| open.is(message_id, part_id));
        let open = match known {
            Some(index) => &mut self.open[index],
            None if self.open.len() >= MOST => return,
            None => {
                self.open.push(Open {
                    message_id: message_id.to_owned(),
                    part_id: part_id.to_owned(),
                    kind: Kind::Text,
                    text: String::new(),
                    sent: Some(0),
                    is_overgrown: false,
                });
                self.open.last_mut().expect("it was pushed just now")
            }
        };
        let held = open.text.len() as u64;
        if open.is_overgrown {
            return;
        }
        if offset > held {
            tracing::warn!(
                part_id,
                offset,
                held,
                "a delta does not follow what is held"
            );
            return;
        }
        // Something of it may be here already: said twice, it counts once.
        let repeated = usize::try_from(held - offset).unwrap_or(usize::MAX);
        let Some(new) = text.get(repeated..) else {
            return;
        };
        if open.text.len() + new.len() > LONGEST {
            tracing::warn!(
                part_id,
                "an open part is too long to be held; its end tells the rest"
            );
            open.is_overgrown = true;
            return;
        }
        open.text.push_str(new);
    }

    fn put(&mut self, part: &Part) {
        let (kind, text) = match &part.content {
            PartContent::Text { text } => (Kind::Text, text),
            PartContent::Reasoning { text } => (Kind::Reasoning, text),
            _ => return,
        };
        self.open
            .retain(|open| !open.is(&part.message_id, &part.part_id));
        if self.open.len() >= MOST || text.len() > LONGEST {
            return;
        }
        self.open.push(Open {
            message_id: part.message_id.clone(),
            part_id: part.part_id.clone(),
            kind,
            text: text.clone(),
            sent: None,
            is_overgrown: false,
        });
    }

    /// A new connection knows nothing.
    pub(super) fn forget_sent(&mut self) {
        for open in &mut self.open {
            open.sent = None;
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.open.iter().any(Open::has_unsent)
    }

    /// The next thing to say about an open part.
    pub(super) fn next(&mut self) -> Option<FromRunner> {
        let open = self.open.iter_mut().find(|open| open.has_unsent())?;
        let from = open.sent.unwrap_or(0);
        let upto = floor(&open.text, from + PIECE);
        let text = open.text[from..upto].to_owned();
        let message_id = open.message_id.clone();
        let part_id = open.part_id.clone();
        let is_known = open.sent.replace(upto).is_some();
        if is_known {
            return Some(FromRunner::PartDelta {
                message_id,
                part_id,
                offset: from as u64,
                text,
            });
        }
        let content = match open.kind {
            Kind::Text => PartContent::Text { text },
            Kind::Reasoning => PartContent::Reasoning { text },
        };
        Some(FromRunner::Part(Part {
            message_id,
            part_id,
            open: true,
            content,
        }))
    }
}

impl Open {
    fn is(&self, message_id: &str, part_id: &str) -> bool {
        self.part_id == part_id && self.message_id == message_id
    }

    fn has_unsent(&self) -> bool {
        self.sent.is_none_or(|sent| sent < self.text.len())
    }
}

/// The last place at or before this one where a character begins.
fn floor(text: &str, place: usize) -> usize {
    let place = place.min(text.len());
    (0..=place)
        .rev()
        .find(|place| text.is_char_boundary(*place))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(offset: u64, text: &str) -> FromRunner {
        FromRunner::PartDelta {
            message_id: "m".to_owned(),
            part_id: "p".to_owned(),
            offset,
            text: text.to_owned(),
        }
    }

    fn whole(text: &str) -> FromRunner {
        FromRunner::Part(Part {
            message_id: "m".to_owned(),
            part_id: "p".to_owned(),
            open: true,
            content: PartContent::Text {
                text: text.to_owned(),
            },
        })
    }

    #[test]
    fn deltas_go_out_as_they_come_and_become_one_under_backlog() {
        let mut parts = Parts::default();
        parts.passing(&delta(0, "a "));
        assert_eq!(parts.next(), Some(delta(0, "a ")));
        parts.passing(&delta(2, "string "));
        parts.passing(&delta(9, "of "));
        parts.passing(&delta(12, "pearls"));
        assert_eq!(parts.next(), Some(delta(2, "string of pearls")));
        assert_eq!(parts.next(), None);
    }

    #[test]
    fn after_a_reconnect_an_open_part_is_sent_whole() {
        let mut parts = Parts::default();
        parts.passing(&delta(0, "mother "));
        let _ = parts.next();
        parts.forget_sent();
        parts.passing(&delta(7, "of"));
        assert_eq!(parts.next(), Some(whole("mother of")));
        parts.passing(&delta(9, " pearl"));
        assert_eq!(parts.next(), Some(delta(9, " pearl")));
    }

    #[test]
    fn a_delta_said_twice_counts_once() {
        let mut parts = Parts::default();
        parts.passing(&delta(0, "pearl"));
        parts.passing(&delta(0, "pearl"));
        parts.passing(&delta(2, "arly"));
        parts.passing(&delta(900, "lost"));
        assert_eq!(parts.next(), Some(delta(0, "pearly")));
    }

    #[test]
    fn nothing_is_said_of_a_part_that_was_closed() {
        let mut parts = Parts::default();
        parts.passing(&delta(0, "pearl"));
        parts.passing(&FromRunner::PartRemoved {
            message_id: "m".to_owned(),
            part_id: "p".to_owned(),
        });
        assert!(!parts.has_unsent());
    }

    #[test]
    fn a_text_without_end_is_not_held_without_end() {
        let mut parts = Parts::default();
        let piece = "x".repeat(1 << 20);
        for n in 0..8 {
            parts.passing(&delta(n << 20, &piece));
        }
        assert_eq!(parts.open[0].text.len(), LONGEST);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let mut parts = Parts::default();
        let text = "é".repeat(PIECE);
        parts.passing(&whole(&text));
        let mut got = String::new();
        while let Some(frame) = parts.next() {
            match frame {
                FromRunner::Part(Part {
                    content: PartContent::Text { text },
                    ..
                }) => got = text,
                FromRunner::PartDelta { offset, text, .. } => {
                    assert_eq!(offset, got.len() as u64);
                    got.push_str(&text);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(got, text);
    }
}
