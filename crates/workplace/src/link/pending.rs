//! Requests that wait for the hub's answer.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use wire::link::Failed;

/// An agent asks for one thing after another; this many at once are a flood.
const MOST: usize = 256;
/// An approval may take a while, not for ever.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// The hub said no, or could not.
    #[error("{}", .0.message)]
    Failed(Failed),
    #[error(
        "no answer to {kind} within {seconds} s; whether it was done is unknown, so look before asking again"
    )]
    OutcomeUnknown { kind: String, seconds: u64 },
    #[error("the answer to {kind} cannot be used: {reason}")]
    BadAnswer { kind: String, reason: String },
    #[error("too many requests wait for an answer already; ask again when one has come")]
    TooMany,
    #[error(
        "the hub is away and no more can be kept for it; ask again when the connection is back"
    )]
    JournalFull,
    #[error("the request is too long: {0} bytes")]
    TooLong(usize),
    #[error("the workplace is shutting down; whether it was done is unknown")]
    ShuttingDown,
}

pub(super) type Answer = Result<Value, AskError>;

#[derive(Debug, Default)]
pub(super) struct Pending {
    waiting: HashMap<String, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    kind: String,
    since: Duration,
    until: Duration,
    reply: oneshot::Sender<Answer>,
}

impl Pending {
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST
    }

    pub(super) fn add(
        &mut self,
        id: String,
        kind: String,
        now: Duration,
        reply: oneshot::Sender<Answer>,
    ) {
        let waiting = Waiting {
            since: now,
            until: now + wire::link::patience(&kind),
            kind,
            reply,
        };
        self.waiting.insert(id, waiting);
    }

    pub(super) fn answer(&mut self, id: &str, answer: Result<Value, Failed>) {
        if let Some(waiting) = self.waiting.remove(id) {
            waiting.tell(answer.map_err(AskError::Failed));
        } else {
            tracing::warn!(id, "an answer came too late, or to nothing; it is dropped");
        }
    }

    /// A person has to decide first.
    pub(super) fn extend(&mut self, id: &str, now: Duration, by: Duration) {
        if let Some(waiting) = self.waiting.get_mut(id) {
            let longest = waiting.since + LONGEST_WAIT;
            waiting.until = (now + by).min(longest).max(waiting.until);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.waiting.values().map(|waiting| waiting.until).min()
    }

    pub(super) fn expire(&mut self, now: Duration) {
        let due = self.waiting.extract_if(|_, waiting| waiting.until <= now);
        for (_, waiting) in due.collect::<Vec<_>>() {
            let kind = waiting.kind.clone();
            let seconds = (waiting.until.saturating_sub(waiting.since)).as_secs();
            waiting.tell(Err(AskError::OutcomeUnknown { kind, seconds }));
        }
    }

    /// While we were frozen nobody could answer: all of them have their time again.
    pub(super) fn restart(&mut self, now: Duration) {
        for waiting in self.waiting.values_mut() {
            waiting.since = now;
            waiting.until = now + wire::link::patience(&waiting.kind);
        }
    }

    pub(super) fn end(&mut self) {
        for (_, waiting) in self.waiting.drain() {
            waiting.tell(Err(AskError::ShuttingDown));
        }
    }
}

impl Waiting {
    fn tell(self, answer: Answer) {
        // Whoever asked may have gone.
        let _ = self.reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn asked(kind: &str) -> (Pending, oneshot::Receiver<Answer>) {
        let mut pending = Pending::default();
        let (reply, answer) = oneshot::channel();
        pending.add("r1".to_owned(), kind.to_owned(), at(0), reply);
        (pending, answer)
    }

    #[test]
    fn each_kind_has_its_patience() {
        let patience = |kind| asked(kind).0.next_deadline().unwrap().as_secs();
        assert_eq!(patience("spawn_child"), 60);
        assert_eq!(patience("terminate_child"), 30);
        assert_eq!(patience("create_pr"), 30);
        assert_eq!(patience("call_tool"), 30);
        assert_eq!(patience("memory_read"), 15);
    }

    #[test]
    fn a_request_that_nobody_answers_says_that_the_outcome_is_unknown() {
        let (mut pending, mut answer) = asked("memory_write");
        pending.expire(at(14));
        assert!(answer.try_recv().is_err());
        pending.expire(at(15));
        let error = answer.try_recv().unwrap().unwrap_err();
        assert!(error.to_string().contains("unknown"), "{error}");
        pending.answer("r1", Ok(Value::Null));
    }

    #[test]
    fn the_hubs_error_reaches_whoever_asked() {
        let (mut pending, mut answer) = asked("verify");
        let failed = Failed {
            code: "refused".to_owned(),
            message: "no such folder".to_owned(),
        };
        pending.answer("r1", Err(failed));
        let error = answer.try_recv().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "no such folder");
    }

    #[test]
    fn an_approval_is_waited_for_but_not_for_ever() {
        let (mut pending, _answer) = asked("actions");
        pending.extend("r1", at(10), at(300));
        assert_eq!(pending.next_deadline(), Some(at(310)));
        pending.extend("r1", at(20), Duration::MAX / 4);
        assert_eq!(pending.next_deadline(), Some(LONGEST_WAIT));
    }

    #[test]
    fn shutting_down_answers_everybody() {
        let (mut pending, mut answer) = asked("verify");
        pending.end();
        assert_eq!(answer.try_recv().unwrap(), Err(AskError::ShuttingDown));
    }
}
