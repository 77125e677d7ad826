//! Questions and permissions that wait for somebody.

use std::collections::BTreeMap;
use std::time::Duration;

use model::SignedDuration;
use tokio::time::Instant;

use super::{Call, Conversation, Look, Out};
use crate::agent::Failed;
use crate::configuration::PermissionPolicy;
use crate::event::{
    Choice, Choose, DecidedBy, Happening, Outcome, Permission, PermissionId, Question, QuestionId,
    QuestionItem, Status,
};
use crate::opencode::wire;

const EXPIRY: Duration = Duration::from_mins(5);
/// An agent that asks more at once is not waiting for an answer.
const MOST_OPEN: usize = 32;
const MOST_ITEMS: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Asks {
    questions: BTreeMap<String, OpenQuestion>,
    permissions: BTreeMap<String, OpenPermission>,
}

#[derive(Debug)]
struct OpenQuestion {
    question: Question,
    answers: Vec<Option<Vec<String>>>,
    until: Instant,
}

#[derive(Debug)]
struct OpenPermission {
    permission: Permission,
    until: Instant,
}

impl Asks {
    pub(super) fn is_waiting(&self) -> bool {
        !self.questions.is_empty() || !self.permissions.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let questions = self.questions.values().map(|open| open.until);
        let permissions = self.permissions.values().map(|open| open.until);
        questions.chain(permissions).min()
    }

    pub(super) fn questions(&self) -> Vec<Question> {
        let open = self.questions.values();
        open.map(|open| open.question.clone()).collect()
    }

    pub(super) fn permissions(&self) -> Vec<Permission> {
        let open = self.permissions.values();
        open.map(|open| open.permission.clone()).collect()
    }

    fn is_full(&self) -> bool {
        self.questions.len() + self.permissions.len() >= MOST_OPEN
    }
}

impl Conversation {
    pub(in crate::opencode) fn decide_by(&mut self, policy: PermissionPolicy) {
        self.policy = policy;
    }

    pub(in crate::opencode) fn asks(&self, id: &str) -> bool {
        self.asks.questions.contains_key(id) || self.asks.permissions.contains_key(id)
    }

    pub(super) fn question_asked(
        &mut self,
        request: wire::QuestionRequest,
        now: Instant,
        out: &mut Out,
    ) {
        if self.asks.questions.contains_key(&request.id) {
            return;
        }
        if !self.is_busy() || self.asks.is_full() || request.questions.len() > MOST_ITEMS {
            out.calls.push(Call::RejectQuestion {
                id: QuestionId(request.id),
            });
            return;
        }
        let question = Question {
            question: QuestionId(request.id.clone()),
            items: request.questions.iter().map(item).collect(),
            expires_at: self.expires_at(),
        };
        out.happenings.push(Happening::Question(question.clone()));
        self.asks.questions.insert(
            request.id,
            OpenQuestion {
                answers: vec![None; question.items.len()],
                question,
                until: now + EXPIRY,
            },
        );
        self.set_status(Status::Waiting, out);
    }

    pub(super) fn permission_asked(
        &mut self,
        request: &wire::PermissionRequest,
        now: Instant,
        out: &mut Out,
    ) {
        if self.asks.permissions.contains_key(&request.id) {
            return;
        }
        let permission = Permission {
            permission: PermissionId(request.id.clone()),
            action: request.permission.clone(),
            targets: request.patterns.clone(),
            expires_at: self.expires_at(),
        };
        if self.policy == PermissionPolicy::Allow || self.asks.is_full() {
            let outcome = match self.policy {
                PermissionPolicy::Allow => Outcome::Allowed,
                PermissionPolicy::Ask => Outcome::Refused,
            };
            return close_permission(permission, outcome, DecidedBy::Policy, out);
        }
        out.happenings
            .push(Happening::Permission(permission.clone()));
        self.asks.permissions.insert(
            request.id.clone(),
            OpenPermission {
                permission,
                until: now + EXPIRY,
            },
        );
        self.set_status(Status::Waiting, out);
    }

    /// One item of a question. The agent is told when all have an answer.
    pub(in crate::opencode) fn answer_item(
        &mut self,
        id: &QuestionId,
        item: usize,
        chosen: Vec<String>,
        out: &mut Out,
    ) -> Result<(), Failed> {
        let not_open = || Failed::NotOpen(id.to_string());
        let open = self.asks.questions.get_mut(&id.0).ok_or_else(not_open)?;
        let asked = open.question.items.get(item);
        let asked = asked.ok_or_else(|| Failed::BadAnswer(format!("it has no item {item}")))?;
        fits(asked, &chosen).map_err(Failed::BadAnswer)?;
        open.answers[item] = Some(chosen);
        let Some(answers) = open.answers.iter().cloned().collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        self.asks.questions.remove(&id.0);
        out.calls.push(Call::ReplyQuestion {
            id: id.clone(),
            answers: answers.clone(),
        });
        out.happenings.push(Happening::QuestionClosed {
            question: id.clone(),
            outcome: Outcome::Answered { answers },
        });
        self.go_on(out);
        Ok(())
    }

    pub(in crate::opencode) fn decide(
        &mut self,
        id: &PermissionId,
        outcome: Outcome,
        out: &mut Out,
    ) -> Result<(), Failed> {
        let open = self.asks.permissions.remove(&id.0);
        let open = open.ok_or_else(|| Failed::NotOpen(id.to_string()))?;
        close_permission(open.permission, outcome, DecidedBy::Person, out);
        self.go_on(out);
        Ok(())
    }

    pub(super) fn expire_asks(&mut self, now: Instant, out: &mut Out) {
        let late: Vec<String> = self
            .asks
            .questions
            .iter()
            .filter(|(_, open)| now >= open.until)
            .map(|(id, _)| id.clone())
            .collect();
        for id in late {
            self.asks.questions.remove(&id);
            let id = QuestionId(id);
            out.calls.push(Call::RejectQuestion { id: id.clone() });
            out.happenings.push(Happening::QuestionClosed {
                question: id,
                outcome: Outcome::Expired,
            });
            self.go_on(out);
        }
        let late = self
            .asks
            .permissions
            .extract_if(.., |_, open| now >= open.until);
        let late: Vec<OpenPermission> = late.map(|(_, open)| open).collect();
        for open in late {
            close_permission(open.permission, Outcome::Expired, DecidedBy::Nobody, out);
            self.go_on(out);
        }
    }

    /// Answered elsewhere, or forgotten with the agent's process.
    pub(super) fn question_gone(&mut self, id: &str, out: &mut Out) {
        if self.asks.questions.remove(id).is_some() {
            out.happenings.push(Happening::QuestionClosed {
                question: QuestionId(id.to_owned()),
                outcome: Outcome::Gone,
            });
            self.go_on(out);
        }
    }

    pub(super) fn permission_gone(&mut self, id: &str, out: &mut Out) {
        if let Some(open) = self.asks.permissions.remove(id) {
            close_permission(open.permission, Outcome::Gone, DecidedBy::Nobody, out);
            self.go_on(out);
        }
    }

    /// With the turn goes whatever it asked.
    pub(super) fn close_asks(&mut self, out: &mut Out) {
        let questions: Vec<String> = self.asks.questions.keys().cloned().collect();
        let permissions: Vec<String> = self.asks.permissions.keys().cloned().collect();
        for id in questions {
            self.question_gone(&id, out);
        }
        for id in permissions {
            self.permission_gone(&id, out);
        }
    }

    /// After a gap: what was asked meanwhile, and what is no longer.
    pub(super) fn match_asks(&mut self, look: &Look, now: Instant, out: &mut Out) {
        let is_there = |id: &String| {
            look.questions.iter().any(|request| request.id == *id)
                || look.permissions.iter().any(|request| request.id == *id)
        };
        let questions = self.asks.questions.iter();
        let questions = questions.map(|(id, open)| (id, open.until));
        let permissions = self.asks.permissions.iter();
        let permissions = permissions.map(|(id, open)| (id, open.until));
        let gone: Vec<String> = questions
            .chain(permissions)
            .filter(|(id, until)| *until < look.begun + EXPIRY && !is_there(id))
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.question_gone(&id, out);
            self.permission_gone(&id, out);
        }
        for request in &look.questions {
            if self.owns(&request.session) {
                self.question_asked(request.clone(), now, out);
            }
        }
        for request in &look.permissions {
            if self.owns(&request.session) {
                self.permission_asked(request, now, out);
            }
        }
    }

    fn go_on(&mut self, out: &mut Out) {
        if self.is_busy() {
            self.show_work(out);
        }
    }

    fn expires_at(&self) -> model::Timestamp {
        let expiry = SignedDuration::try_from(EXPIRY).unwrap_or_default();
        self.clock.now() + expiry
    }
}

fn close_permission(permission: Permission, outcome: Outcome, by: DecidedBy, out: &mut Out) {
    let reply = match outcome {
        Outcome::Allowed => Some("once"),
        Outcome::Gone | Outcome::Answered { .. } => None,
        Outcome::Refused | Outcome::Expired => Some("reject"),
    };
    if let Some(reply) = reply {
        let id = permission.permission.clone();
        out.calls.push(Call::ReplyPermission { id, reply });
    }
    out.happenings.push(Happening::PermissionClosed {
        permission: permission.permission,
        action: permission.action,
        targets: permission.targets,
        outcome,
        by,
    });
}

fn item(question: &wire::Question) -> QuestionItem {
    QuestionItem {
        header: question.header.clone(),
        text: question.text.clone(),
        options: question
            .options
            .iter()
            .map(|option| Choice {
                label: option.label.clone(),
                description: option.description.clone(),
            })
            .collect(),
        choose: if question.multiple {
            Choose::Several
        } else {
            Choose::One
        },
        free_text: question.custom.unwrap_or(true),
    }
}

fn fits(item: &QuestionItem, chosen: &[String]) -> Result<(), String> {
    if chosen.is_empty() {
        return Err("choose something".to_owned());
    }
    if item.choose == Choose::One && chosen.len() > 1 {
        return Err("choose one".to_owned());
    }
    let is_offered = |label: &String| item.options.iter().any(|option| option.label == *label);
    match chosen.iter().find(|label| !is_offered(label)) {
        Some(other) if !item.free_text => Err(format!("`{other}` is not among the options")),
        _ => Ok(()),
    }
}
