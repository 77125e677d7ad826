use std::collections::VecDeque;

use serde_json::Value;
use wire::link::ErrorFrame;
use wire::v1::{Event, FromClient, Init};

use crate::{Body, ClientError, Frame};

const MOST: usize = 64;

/// Commands with names, which may be said twice and mean one thing. Kept until the session tells
/// what became of them.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: VecDeque<FromClient>,
}

impl Outbox {
    /// False if it has no name: it is to be said now or not at all.
    pub(super) fn keep(&mut self, command: &FromClient) -> Result<bool, ClientError> {
        let is_named = match command {
            FromClient::Prompt(prompt) => prompt.id.is_some(),
            FromClient::Answer { .. } | FromClient::Permission { .. } => true,
            _ => false,
        };
        if !is_named {
            return Ok(false);
        }
        // The newest answer to a question is the one that counts.
        self.waiting.retain(|waiting| !is_same(waiting, command));
        if self.waiting.len() >= MOST {
            return Err(ClientError::TooManyWaiting { limit: MOST });
        }
        self.waiting.push_back(command.clone());
        Ok(true)
    }

    /// In the order in which they were given.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &FromClient> {
        self.waiting.iter()
    }

    pub(super) fn settle(&mut self, frame: &Frame) {
        if self.waiting.is_empty() {
            return;
        }
        match &frame.body {
            Body::Init(init) => self.settle_all(init),
            Body::Event(event) => match &**event {
                Event::Prompt { id, .. } => self.prompt_is_known(id),
                Event::QuestionClosed { question_id, .. } => self.waiting.retain(|waiting| {
                    !matches!(waiting, FromClient::Answer { question_id: of, .. } if of == question_id)
                }),
                Event::PermissionClosed { id, .. } => self.waiting.retain(
                    |waiting| !matches!(waiting, FromClient::Permission { id: of, .. } if of == id),
                ),
                Event::Error(error) => self.settle_refused(error, &frame.value()),
                _ => {}
            },
        }
    }

    /// What the server will not do is not insisted on. It says of what it speaks by `frame` and `id`.
    fn settle_refused(&mut self, error: &ErrorFrame, whole: &Value) {
        if let Some(id) = &error.prompt_id {
            self.prompt_is_known(id);
        }
        let is_of = |kind: &str| error.frame.as_deref() == Some(kind);
        self.waiting.retain(|waiting| match waiting {
            FromClient::Prompt(prompt) => {
                !is_of("prompt") || prompt.id.as_deref() != whole["id"].as_str()
            }
            FromClient::Permission { id, .. } => !is_of("permission") || whole["id"] != **id,
            // An answer is not named there.
            FromClient::Answer { .. } => !is_of("answer"),
            _ => true,
        });
    }

    fn settle_all(&mut self, init: &Init) {
        let is_asked = |key: &str, id: &str| init.questions.iter().any(|asked| asked[key] == id);
        self.waiting.retain(|waiting| match waiting {
            FromClient::Prompt(prompt) => !init
                .messages
                .iter()
                .any(|message| message.prompt_id.is_some() && message.prompt_id == prompt.id),
            FromClient::Answer { question_id, .. } => is_asked("question_id", question_id),
            FromClient::Permission { id, .. } => is_asked("id", id),
            _ => false,
        });
    }

    fn prompt_is_known(&mut self, id: &str) {
        self.waiting.retain(|waiting| {
            !matches!(waiting, FromClient::Prompt(prompt) if prompt.id.as_deref() == Some(id))
        });
    }
}

fn is_same(one: &FromClient, other: &FromClient) -> bool {
    use FromClient::{Answer, Permission, Prompt};
    match (one, other) {
        (Prompt(one), Prompt(other)) => one.id == other.id,
        (Permission { id: one, .. }, Permission { id: other, .. }) => one == other,
        (
            Answer {
                question_id: one,
                item: one_item,
                ..
            },
            Answer {
                question_id: other,
                item: other_item,
                ..
            },
        ) => one == other && one_item == other_item,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use wire::v1::NewPrompt;

    use super::*;

    fn prompt(id: &str) -> FromClient {
        FromClient::Prompt(NewPrompt {
            id: Some(id.to_owned()),
            ..NewPrompt::default()
        })
    }

    fn told(text: &str) -> Frame {
        Frame::read(text).unwrap()
    }

    #[test]
    fn a_prompt_waits_until_the_session_tells_of_it() {
        let mut outbox = Outbox::default();
        assert!(outbox.keep(&prompt("a")).unwrap());
        assert!(outbox.keep(&prompt("a")).unwrap());
        assert_eq!(outbox.waiting().count(), 1);
        outbox.settle(&told(
            r#"{"seq":1,"type":"prompt","id":"b","status":"queued"}"#,
        ));
        assert_eq!(outbox.waiting().count(), 1);
        outbox.settle(&told(
            r#"{"seq":2,"type":"prompt","id":"a","status":"queued"}"#,
        ));
        assert_eq!(outbox.waiting().count(), 0);
    }

    #[test]
    fn a_prompt_that_was_refused_is_not_insisted_on() {
        let mut outbox = Outbox::default();
        outbox.keep(&prompt("a")).unwrap();
        outbox.keep(&prompt("b")).unwrap();
        outbox.settle(&told(
            r#"{"type":"error","code":"stopped","message":"no","frame":"prompt","id":"a"}"#,
        ));
        let left: Vec<&FromClient> = outbox.waiting().collect();
        assert_eq!(left, [&prompt("b")]);
    }

    #[test]
    fn a_cancel_is_not_for_later() {
        assert!(
            !Outbox::default()
                .keep(&FromClient::Cancel { channel: None })
                .unwrap()
        );
        assert!(!Outbox::default().keep(&FromClient::Pause).unwrap());
    }

    #[test]
    fn not_everything_can_wait() {
        let mut outbox = Outbox::default();
        for number in 0..MOST {
            outbox.keep(&prompt(&number.to_string())).unwrap();
        }
        assert!(outbox.keep(&prompt("one more")).is_err());
    }

    #[test]
    fn an_answer_waits_until_its_question_is_closed() {
        let mut outbox = Outbox::default();
        let answer = FromClient::Answer {
            question_id: "q".to_owned(),
            item: 0,
            answer: None,
        };
        outbox.keep(&answer).unwrap();
        outbox.settle(&told(
            r#"{"seq":1,"type":"question_closed","question_id":"q","outcome":{"kind":"gone"}}"#,
        ));
        assert_eq!(outbox.waiting().count(), 0);
    }
}
