//! What the agent asks, put to whoever sits at the terminal while an answer is printed.

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};

use client::{ClientError, Commands, Frame};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines, Stdin};
use wire::link::{Answer, Choose, Permission, Question, QuestionItem};
use wire::v1::Event;

use crate::output::Output;

/// Agents ask one thing at a time; a server that tells of more is not believed.
const MOST: usize = 32;

/// A person at the terminal.
#[derive(Debug)]
pub(super) struct Desk {
    output: Output,
    lines: Lines<BufReader<Stdin>>,
    waiting: VecDeque<Ask>,
}

/// One thing to decide.
#[derive(Debug, Clone, PartialEq)]
enum Ask {
    Item {
        question: String,
        at: usize,
        item: QuestionItem,
    },
    Permission(Permission),
}

#[derive(Debug, PartialEq)]
enum Said {
    /// None declines.
    Answer(Option<Answer>),
    Allow(bool),
}

impl Desk {
    /// Nobody, unless somebody can both read what is asked and type.
    pub(super) fn of(output: Output) -> Option<Self> {
        let is_manned =
            !output.is_json() && io::stdin().is_terminal() && io::stderr().is_terminal();
        is_manned.then(|| Self {
            output,
            lines: BufReader::new(tokio::io::stdin()).lines(),
            waiting: VecDeque::new(),
        })
    }

    pub(super) fn hear(&mut self, frame: &Frame) {
        let first = self.waiting.front().cloned();
        match frame.event() {
            Some(Event::Question(question)) => self.waiting.extend(items(question)),
            Some(Event::Permission(permission)) => {
                self.waiting.push_back(Ask::Permission(permission.clone()));
            }
            Some(Event::QuestionClosed { question_id, .. }) => self.close(question_id),
            Some(Event::PermissionClosed { id, .. }) => self.close(id),
            _ => return,
        }
        self.waiting.truncate(MOST);
        if self.waiting.front() != first.as_ref() {
            self.put();
        }
    }

    /// Until somebody has typed a line, which is told to the session if it is an answer. Never, while
    /// nothing is asked.
    pub(super) async fn answer(&mut self, commands: &Commands) -> Result<(), ClientError> {
        let Some(ask) = self.waiting.front() else {
            return std::future::pending().await;
        };
        let Ok(Some(line)) = self.lines.next_line().await else {
            // Nobody types any more: whoever else watches may answer.
            self.waiting.clear();
            return Ok(());
        };
        match ask.read(&line) {
            Ok(said) => {
                ask.tell(said, commands).await?;
                self.waiting.pop_front();
                self.put();
            }
            Err(why) => self.output.aside(&format!("  {why}")),
        }
        Ok(())
    }

    fn close(&mut self, id: &str) {
        self.waiting.retain(|ask| match ask {
            Ask::Item { question, .. } => question != id,
            Ask::Permission(permission) => permission.id != id,
        });
    }

    fn put(&self) {
        if let Some(ask) = self.waiting.front() {
            for line in ask.lines() {
                self.output.aside(&line);
            }
        }
    }
}

fn items(question: &Question) -> impl Iterator<Item = Ask> {
    let id = &question.question_id;
    let items = question.items.iter().enumerate();
    items.map(|(at, item)| Ask::Item {
        question: id.clone(),
        at,
        item: item.clone(),
    })
}

impl Ask {
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Permission(_) => vec!["  y allows it, n refuses it".to_owned()],
            Self::Item { item, .. } => {
                let options = item.options.iter().enumerate();
                let mut lines: Vec<String> = options
                    .map(|(at, option)| {
                        let line = format!("  {} {}  {}", at + 1, option.label, option.description);
                        line.trim_end().to_owned()
                    })
                    .collect();
                lines.push(match (item.options.is_empty(), item.choose) {
                    (true, _) => "  type an answer; - declines".to_owned(),
                    (false, Choose::One) => "  type a number; - declines".to_owned(),
                    (false, Choose::Several) => "  type numbers, as in 1,3; - declines".to_owned(),
                });
                lines
            }
        }
    }

    fn read(&self, line: &str) -> Result<Said, String> {
        let line = line.trim();
        let item = match self {
            Self::Permission(_) => {
                return match line {
                    "y" | "yes" => Ok(Said::Allow(true)),
                    "n" | "no" => Ok(Said::Allow(false)),
                    _ => Err("y or n".to_owned()),
                };
            }
            Self::Item { item, .. } => item,
        };
        if line == "-" {
            return Ok(Said::Answer(None));
        }
        let takes_text = item.free_text || item.options.is_empty();
        let numbers: Option<Vec<usize>> = line
            .split([',', ' '])
            .filter(|word| !word.is_empty())
            .map(|word| word.parse::<usize>().ok()?.checked_sub(1))
            .collect();
        let labels = numbers.and_then(|numbers| {
            let labels = numbers.iter();
            let labels = labels.map(|at| item.options.get(*at).map(|one| one.label.clone()));
            labels.collect::<Option<Vec<_>>>()
        });
        match (labels, item.choose) {
            (Some(labels), Choose::Several) if !labels.is_empty() => {
                Ok(Said::Answer(Some(Answer::Several(labels))))
            }
            (Some(labels), Choose::One) if labels.len() == 1 => {
                Ok(Said::Answer(labels.into_iter().next().map(Answer::Text)))
            }
            _ if takes_text && !line.is_empty() => {
                Ok(Said::Answer(Some(Answer::Text(line.to_owned()))))
            }
            _ => Err(format!("a number from 1 to {}", item.options.len())),
        }
    }

    async fn tell(&self, said: Said, commands: &Commands) -> Result<(), ClientError> {
        match (self, said) {
            (Self::Item { question, at, .. }, Said::Answer(answer)) => {
                commands.answer(question, *at, answer).await
            }
            (Self::Permission(permission), Said::Allow(true)) => {
                commands.allow(&permission.id).await
            }
            (Self::Permission(permission), _) => commands.refuse(&permission.id).await,
            (Self::Item { .. }, Said::Allow(_)) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item(value: &Value) -> Ask {
        Ask::Item {
            question: "q".to_owned(),
            at: 0,
            item: serde_json::from_value(value.clone()).unwrap(),
        }
    }

    fn text(text: &str) -> Said {
        Said::Answer(Some(Answer::Text(text.to_owned())))
    }

    #[test]
    fn a_number_chooses() {
        let ask = item(&json!({"text": "?", "options": [{"label": "round"}, {"label": "flat"}]}));
        assert_eq!(ask.read(" 2 "), Ok(text("flat")));
        assert_eq!(ask.read("-"), Ok(Said::Answer(None)));
        for bad in ["", "0", "3", "1,2", "round"] {
            assert!(ask.read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn several_numbers_choose_several() {
        let ask = item(&json!({"text": "?", "choose": "several",
            "options": [{"label": "a"}, {"label": "b"}, {"label": "c"}]}));
        let both = Answer::Several(vec!["a".into(), "c".into()]);
        assert_eq!(ask.read("1, 3"), Ok(Said::Answer(Some(both))));
    }

    #[test]
    fn text_is_an_answer_where_it_may_be() {
        let ask = item(&json!({"text": "?", "free_text": true, "options": [{"label": "a"}]}));
        assert_eq!(ask.read("something else"), Ok(text("something else")));
        assert_eq!(ask.read("1"), Ok(text("a")));
        assert_eq!(item(&json!({"text": "?"})).read("7"), Ok(text("7")));
    }
}
