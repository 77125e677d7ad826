//! What waits for a person: a question or a permission, and the answer as it is chosen.

use std::collections::HashSet;

use client::Transcript;
use serde::Deserialize as _;
use wire::link::{Answer, Choose, Permission, Question, QuestionItem};

use crate::screen::Deed;

/// One thing to decide.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ask {
    Question { question: Question, item: usize },
    Permission(Permission),
}

/// How far a person is with it.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Which one it is about.
    key: Option<(String, usize)>,
    pub(crate) chosen: usize,
    pub(crate) marked: HashSet<usize>,
    /// Answered here; the session has not told of it yet.
    answered: HashSet<(String, usize)>,
}

impl Asked {
    /// The oldest that nobody has answered.
    pub(crate) fn now(&mut self, transcript: &Transcript) -> Option<Ask> {
        let ask = transcript.questions().iter().find_map(|value| {
            if value["type"] == "permission" {
                let permission = Permission::deserialize(value).ok()?;
                let key = (permission.id.clone(), 0);
                return (!self.answered.contains(&key)).then_some(Ask::Permission(permission));
            }
            let question = Question::deserialize(value).ok()?;
            let open = (0..question.items.len()).find(|item| {
                !self
                    .answered
                    .contains(&(question.question_id.clone(), *item))
            })?;
            Some(Ask::Question {
                question,
                item: open,
            })
        });
        let key = ask.as_ref().map(Ask::key);
        if self.key != key {
            self.key = key;
            self.chosen = 0;
            self.marked.clear();
        }
        ask
    }

    pub(crate) fn up(&mut self) {
        self.chosen = self.chosen.saturating_sub(1);
    }

    pub(crate) fn down(&mut self, ask: &Ask) {
        self.chosen = (self.chosen + 1).min(ask.options().len().saturating_sub(1));
    }

    pub(crate) fn mark(&mut self) {
        if !self.marked.remove(&self.chosen) {
            self.marked.insert(self.chosen);
        }
    }

    /// What Enter does with what is chosen, or with what was typed. None: an answer is missing.
    pub(crate) fn decide(&mut self, ask: &Ask, typed: &str) -> Option<Deed> {
        let typed = typed.trim();
        let deed = match ask {
            Ask::Permission(permission) => Deed::Permission {
                id: permission.id.clone(),
                allow: self.chosen == 0,
            },
            Ask::Question { question, item } => {
                let asked = ask.item()?;
                let answer = if !typed.is_empty() && ask.takes_text() {
                    Some(Answer::Text(typed.to_owned()))
                } else if self.chosen >= asked.options.len() {
                    if asked.options.is_empty() && self.chosen == 0 {
                        return None;
                    }
                    None
                } else {
                    Some(self.options_of(asked))
                };
                Deed::Answer {
                    question: question.question_id.clone(),
                    item: *item,
                    answer,
                }
            }
        };
        self.answered.insert(ask.key());
        Some(deed)
    }

    fn options_of(&self, asked: &QuestionItem) -> Answer {
        let label = |at: usize| asked.options.get(at).map(|option| option.label.clone());
        if asked.choose == Choose::One || self.marked.is_empty() {
            return Answer::Text(label(self.chosen).unwrap_or_default());
        }
        let mut marked: Vec<usize> = self.marked.iter().copied().collect();
        marked.sort_unstable();
        Answer::Several(marked.into_iter().filter_map(label).collect())
    }
}

impl Ask {
    fn key(&self) -> (String, usize) {
        match self {
            Self::Question { question, item } => (question.question_id.clone(), *item),
            Self::Permission(permission) => (permission.id.clone(), 0),
        }
    }

    pub(crate) fn item(&self) -> Option<&QuestionItem> {
        match self {
            Self::Question { question, item } => question.items.get(*item),
            Self::Permission(_) => None,
        }
    }

    pub(crate) fn takes_text(&self) -> bool {
        self.item()
            .is_some_and(|item| item.free_text || item.options.is_empty())
    }

    pub(crate) fn takes_several(&self) -> bool {
        self.item()
            .is_some_and(|item| item.choose == Choose::Several)
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Question { question, item } => {
                let text = self.item().map_or("", |item| item.text.as_str());
                match question.items.len() {
                    0 | 1 => text.to_owned(),
                    all => format!("({} of {all}) {text}", item + 1),
                }
            }
            Self::Permission(permission) => format!(
                "May the agent use {}? {}",
                permission.tool,
                permission.targets.join(" ")
            ),
        }
    }

    /// What there is to choose from, each with what it means.
    pub(crate) fn options(&self) -> Vec<(String, String)> {
        match self {
            Self::Permission(_) => vec![
                ("allow".to_owned(), String::new()),
                ("refuse".to_owned(), String::new()),
            ],
            Self::Question { .. } => {
                let options = self.item().map(|item| item.options.as_slice());
                let options = options.unwrap_or_default().iter();
                let options =
                    options.map(|option| (option.label.clone(), option.description.clone()));
                let decline = ("decline".to_owned(), "give no answer".to_owned());
                options.chain([decline]).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use client::Frame;
    use serde_json::json;

    use super::*;

    fn asked(value: &serde_json::Value) -> Transcript {
        let mut transcript = Transcript::default();
        transcript.apply(&Frame::read(&value.to_string()).unwrap());
        transcript
    }

    #[test]
    fn the_items_of_a_question_are_answered_one_after_the_other() {
        let transcript = asked(&json!({"seq": 1, "type": "question", "question_id": "q",
            "channel": "c", "items": [
                {"text": "Which?", "options": [{"label": "a"}, {"label": "b"}]},
                {"text": "Why?", "free_text": true}]}));
        let mut asked = Asked::default();
        let first = asked.now(&transcript).unwrap();
        asked.down(&first);
        let Some(Deed::Answer { answer, item, .. }) = asked.decide(&first, "") else {
            panic!("no answer");
        };
        assert_eq!((item, answer), (0, Some(Answer::Text("b".into()))));
        let second = asked.now(&transcript).unwrap();
        assert_eq!(asked.chosen, 0);
        assert!(second.text().ends_with("Why?"));
        let Some(Deed::Answer { answer, item, .. }) = asked.decide(&second, "because") else {
            panic!("no answer");
        };
        assert_eq!((item, answer), (1, Some(Answer::Text("because".into()))));
        assert_eq!(asked.now(&transcript), None);
    }

    #[test]
    fn several_can_be_marked() {
        let transcript = asked(&json!({"seq": 1, "type": "question", "question_id": "q",
            "channel": "c", "items": [{"text": "Which?", "choose": "several",
                "options": [{"label": "a"}, {"label": "b"}, {"label": "c"}]}]}));
        let mut asked = Asked::default();
        let ask = asked.now(&transcript).unwrap();
        asked.mark();
        asked.down(&ask);
        asked.down(&ask);
        asked.mark();
        let Some(Deed::Answer { answer, .. }) = asked.decide(&ask, "") else {
            panic!("no answer");
        };
        assert_eq!(answer, Some(Answer::Several(vec!["a".into(), "c".into()])));
    }

    #[test]
    fn a_question_can_be_declined_and_a_permission_refused() {
        let transcript = asked(&json!({"seq": 1, "type": "question", "question_id": "q",
            "channel": "c", "items": [{"text": "Which?", "options": [{"label": "a"}]}]}));
        let mut asked_now = Asked::default();
        let ask = asked_now.now(&transcript).unwrap();
        asked_now.down(&ask);
        let declined = asked_now.decide(&ask, "");
        assert!(matches!(declined, Some(Deed::Answer { answer: None, .. })));
        let transcript = asked(&json!({"seq": 1, "type": "permission", "id": "p",
            "channel": "c", "tool": "bash", "targets": ["rm -rf target"]}));
        let ask = asked_now.now(&transcript).unwrap();
        assert_eq!(ask.text(), "May the agent use bash? rm -rf target");
        asked_now.down(&ask);
        let refused = asked_now.decide(&ask, "");
        assert!(matches!(
            refused,
            Some(Deed::Permission { allow: false, .. })
        ));
    }
}
