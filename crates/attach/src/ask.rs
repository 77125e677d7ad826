//! What waits for a person: a question, a permission, an action to approve or values to give; and
//! the answer as it is chosen.

use std::collections::{HashMap, HashSet};

use client::Transcript;
use serde::Deserialize as _;
use wire::link::{Answer, Choose, Permission, Question, QuestionItem};
use wire::v1::{Action, ActionStatus};

use crate::action;
use crate::editor::Editor;
use crate::env::{Env, Given};
use crate::screen::Deed;

/// One thing to decide.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ask {
    Question {
        question: Question,
        item: usize,
    },
    Permission(Permission),
    Action {
        action: Box<Action>,
        /// It is refused, and the reason is being typed.
        is_why: bool,
    },
    Env(Env),
}

/// How far a person is with it.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Which one it is about.
    key: Option<(String, usize)>,
    pub(crate) chosen: usize,
    pub(crate) marked: HashSet<usize>,
    /// A value or a reason as it is typed. Never in the line that prompts are typed in.
    pub(crate) reply: Editor,
    /// Of an action that is refused: the reason is asked for.
    is_why: bool,
    /// Answered here; the session has not told of it yet.
    answered: HashSet<(String, usize)>,
    /// Values that were typed, by the request that asked for them.
    given: HashMap<String, Given>,
}

impl Asked {
    /// The one that was asked last while it is open, then the oldest that nobody has answered.
    pub(crate) fn now(&mut self, transcript: &Transcript, actions: &[Action]) -> Option<Ask> {
        let requests = transcript.env_requests();
        self.given
            .retain(|id, _| requests.iter().any(|asked| asked["id"] == **id));
        let open = self.open(transcript, actions);
        let is_same = |ask: &&Ask| Some(ask.key()) == self.key;
        let last = self.key.as_ref().map(|(id, _)| id.clone());
        let is_next = |ask: &&Ask| Some(ask.key().0) == last;
        let ask = open.iter().find(is_same);
        let ask = ask.or_else(|| open.iter().find(is_next));
        let mut ask = ask.or_else(|| open.first()).cloned();
        let key = ask.as_ref().map(Ask::key);
        if self.key != key {
            self.key = key;
            self.chosen = ask.as_ref().map_or(0, Ask::first_choice);
            self.marked.clear();
            self.reply = Editor::default();
            self.is_why = false;
        }
        if let Some(Ask::Action { is_why, .. }) = &mut ask {
            *is_why = self.is_why;
        }
        ask
    }

    /// Of each that waits, what is to be decided next.
    fn open(&self, transcript: &Transcript, actions: &[Action]) -> Vec<Ask> {
        let is_open = |id: &str, at: usize| !self.answered.contains(&(id.to_owned(), at));
        let questions = transcript.questions().iter().filter_map(|value| {
            if value["type"] == "permission" {
                let permission = Permission::deserialize(value).ok()?;
                return is_open(&permission.id, 0).then_some(Ask::Permission(permission));
            }
            let question = Question::deserialize(value).ok()?;
            let items = 0..question.items.len();
            let item = items
                .into_iter()
                .find(|item| is_open(&question.question_id, *item))?;
            Some(Ask::Question { question, item })
        });
        let actions = actions
            .iter()
            .filter(|action| action.status == ActionStatus::Pending && is_open(&action.id, 0));
        let actions = actions.map(|action| Ask::Action {
            action: Box::new(action.clone()),
            is_why: false,
        });
        let values = transcript.env_requests().iter().filter_map(|value| {
            let id = value["id"].as_str()?;
            let env = Env::read(value, |at| is_open(id, at), self.given.get(id))?;
            Some(Ask::Env(env))
        });
        questions.chain(actions).chain(values).collect()
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

    /// Nobody here answers it now; it waits for somebody else, or for the next time.
    pub(crate) fn put_off(&mut self, ask: &Ask) {
        let (id, at) = ask.key();
        let last = match ask {
            Ask::Env(env) => env.steps(),
            _ => at + 1,
        };
        self.given.remove(&id);
        self.answered
            .extend((at..last).map(|step| (id.clone(), step)));
    }

    /// The answer did not arrive: it is asked for again.
    pub(crate) fn again(&mut self, id: &str) {
        let steps = self.answered.iter().filter(|(of, _)| of == id);
        if let Some(last) = steps.map(|(_, step)| *step).max() {
            self.answered.remove(&(id.to_owned(), last));
        }
    }

    /// What Enter does with what is chosen, or with what was typed.
    pub(crate) fn decide(&mut self, ask: &Ask, typed: &str) -> Decided {
        let decided = match ask {
            Ask::Permission(_) | Ask::Action { is_why: false, .. } if !typed.is_empty() => {
                return Decided::Missing("Ctrl-U empties the line, then choose");
            }
            Ask::Permission(permission) => Decided::Deed(Deed::Permission {
                id: permission.id.clone(),
                allow: self.chosen == 0,
            }),
            Ask::Action { action, is_why } => {
                if !is_why && self.chosen == action::REFUSE_WHY {
                    self.is_why = true;
                    return Decided::Step;
                }
                let why = Some(self.reply.take().trim().to_owned());
                Decided::Deed(Deed::Action {
                    id: action.id.clone(),
                    approve: !is_why && self.chosen == action::APPROVE,
                    why: why.filter(|why| *is_why && !why.is_empty()),
                })
            }
            Ask::Env(env) => {
                let given = self.given.entry(env.id.clone()).or_default();
                match env.decide(given, &mut self.reply, self.chosen) {
                    Decided::Missing(why) => return Decided::Missing(why),
                    Decided::PutOff => {
                        self.put_off(ask);
                        return Decided::Step;
                    }
                    decided => decided,
                }
            }
            Ask::Question { .. } => match self.answer(ask, typed.trim()) {
                Some(deed) => Decided::Deed(deed),
                None => return Decided::Missing("type an answer, then Enter"),
            },
        };
        self.answered.insert(ask.key());
        decided
    }

    fn answer(&self, ask: &Ask, typed: &str) -> Option<Deed> {
        let Ask::Question { question, item } = ask else {
            return None;
        };
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
        Some(Deed::Answer {
            question: question.question_id.clone(),
            item: *item,
            answer,
        })
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

/// What came of Enter.
#[derive(Debug, PartialEq)]
pub(crate) enum Decided {
    Deed(Deed),
    /// The next of several things is asked.
    Step,
    /// It is not answered here, for now.
    PutOff,
    /// Something has to be done first.
    Missing(&'static str),
}

impl Ask {
    fn key(&self) -> (String, usize) {
        match self {
            Self::Question { question, item } => (question.question_id.clone(), *item),
            Self::Permission(permission) => (permission.id.clone(), 0),
            Self::Action { action, .. } => (action.id.clone(), 0),
            Self::Env(env) => (env.id.clone(), env.step),
        }
    }

    /// What stands chosen before anybody chose. An Enter that was meant for a prompt does nothing
    /// outside.
    fn first_choice(&self) -> usize {
        match self {
            Self::Action { .. } => action::REFUSE,
            Self::Env(env) => env.first_choice(),
            _ => 0,
        }
    }

    pub(crate) fn item(&self) -> Option<&QuestionItem> {
        match self {
            Self::Question { question, item } => question.items.get(*item),
            _ => None,
        }
    }

    pub(crate) fn takes_text(&self) -> bool {
        self.item()
            .is_some_and(|item| item.free_text || item.options.is_empty())
    }

    /// Typed in a line of its own, not in that of prompts.
    pub(crate) fn takes_reply(&self) -> bool {
        match self {
            Self::Action { is_why, .. } => *is_why,
            Self::Env(_) => true,
            _ => false,
        }
    }

    /// There is something to type there, not only to choose.
    pub(crate) fn wants_words(&self) -> bool {
        match self {
            Self::Env(env) => env.wants().is_some(),
            ask => ask.takes_reply(),
        }
    }

    /// What is typed is not shown.
    pub(crate) fn is_hidden(&self) -> bool {
        matches!(self, Self::Env(_))
    }

    /// Decided by one letter.
    pub(crate) fn is_yes_or_no(&self) -> bool {
        matches!(
            self,
            Self::Permission(_) | Self::Action { is_why: false, .. }
        )
    }

    /// Esc leaves it to somebody else.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self, Self::Action { .. } | Self::Env(_))
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
            Self::Action { action, .. } => action::text(action),
            Self::Env(env) => env.text(),
        }
    }

    /// What there is to choose from, each with what it means.
    pub(crate) fn options(&self) -> Vec<(String, String)> {
        let plain = |label: &str| (label.to_owned(), String::new());
        match self {
            Self::Permission(_) => vec![plain("allow"), plain("refuse")],
            Self::Action { is_why: true, .. } => Vec::new(),
            Self::Action { .. } => action::options(),
            Self::Env(env) => env.options(),
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
        let first = asked.now(&transcript, &[]).unwrap();
        asked.down(&first);
        let Decided::Deed(Deed::Answer { answer, item, .. }) = asked.decide(&first, "") else {
            panic!("no answer");
        };
        assert_eq!((item, answer), (0, Some(Answer::Text("b".into()))));
        let second = asked.now(&transcript, &[]).unwrap();
        assert_eq!(asked.chosen, 0);
        assert!(second.text().ends_with("Why?"));
        let Decided::Deed(Deed::Answer { answer, item, .. }) = asked.decide(&second, "because")
        else {
            panic!("no answer");
        };
        assert_eq!((item, answer), (1, Some(Answer::Text("because".into()))));
        assert_eq!(asked.now(&transcript, &[]), None);
    }

    #[test]
    fn several_can_be_marked() {
        let transcript = asked(&json!({"seq": 1, "type": "question", "question_id": "q",
            "channel": "c", "items": [{"text": "Which?", "choose": "several",
                "options": [{"label": "a"}, {"label": "b"}, {"label": "c"}]}]}));
        let mut asked = Asked::default();
        let ask = asked.now(&transcript, &[]).unwrap();
        asked.mark();
        asked.down(&ask);
        asked.down(&ask);
        asked.mark();
        let Decided::Deed(Deed::Answer { answer, .. }) = asked.decide(&ask, "") else {
            panic!("no answer");
        };
        assert_eq!(answer, Some(Answer::Several(vec!["a".into(), "c".into()])));
    }

    #[test]
    fn a_question_can_be_declined_and_a_permission_refused() {
        let transcript = asked(&json!({"seq": 1, "type": "question", "question_id": "q",
            "channel": "c", "items": [{"text": "Which?", "options": [{"label": "a"}]}]}));
        let mut asked_now = Asked::default();
        let ask = asked_now.now(&transcript, &[]).unwrap();
        asked_now.down(&ask);
        let declined = asked_now.decide(&ask, "");
        assert!(matches!(
            declined,
            Decided::Deed(Deed::Answer { answer: None, .. })
        ));
        let transcript = asked(&json!({"seq": 1, "type": "permission", "id": "p",
            "channel": "c", "tool": "bash", "targets": ["rm -rf target"]}));
        let ask = asked_now.now(&transcript, &[]).unwrap();
        assert_eq!(ask.text(), "May the agent use bash? rm -rf target");
        asked_now.down(&ask);
        let refused = asked_now.decide(&ask, "");
        assert!(matches!(
            refused,
            Decided::Deed(Deed::Permission { allow: false, .. })
        ));
    }
}
