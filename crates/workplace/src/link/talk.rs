//! What comes in: the greeting, what concerns the link itself, and what is handed on.

use std::time::Duration;

use bytes::Bytes;
use carrier::Incoming;
use tokio::sync::mpsc::error::TrySendError;
use wire::link::{
    Close, ErrorFrame, FromHub, FromRunner, Hello, HubFrame, HubHello, PROTOCOL, Prompt,
    Unreadable, Wrong, read_hub,
};

use super::journal::Room;
use super::prompts::Arrival;
use super::setup::Link;
use super::task::Phase;

impl Link {
    pub(super) fn greet(&mut self) {
        self.remarks.clear();
        let hello = Hello {
            session: self.me.session.clone(),
            generation: self.me.generation,
            boot: self.me.boot.clone(),
            protocol: PROTOCOL,
            term: self.journal.term(),
            offers: self.journal.offers(),
        };
        self.remark(FromRunner::Hello(hello));
    }

    pub(super) fn hear(&mut self, incoming: Option<Incoming>, now: Duration) {
        if let Some(live) = &mut self.live {
            live.heart.heard(now);
        }
        match incoming {
            Some(Incoming::Frame(bytes)) => self.hear_frame(&bytes, now),
            Some(Incoming::TooLong(bytes)) => self.refuse(&Unreadable {
                wrong: Wrong::TooLong { bytes },
                frame: None,
                request_id: None,
                term: None,
                seq: None,
            }),
            Some(Incoming::Closed(close)) => self.closed(&close, now),
            None => self.lose("the connection ended", now),
        }
    }

    fn hear_frame(&mut self, bytes: &Bytes, now: Duration) {
        let HubFrame { term, body } = match read_hub(bytes) {
            Ok(frame) => frame,
            Err(unreadable) => {
                self.refuse(&unreadable);
                return;
            }
        };
        if let FromHub::Close(close) = &body {
            self.closed(close, now);
            return;
        }
        let is_greeted = self
            .live
            .as_ref()
            .is_some_and(|live| live.phase == Phase::Talking);
        match body {
            FromHub::Hello(hello) if !is_greeted => self.answered(term, &hello, now),
            _ if !is_greeted => self.turn_away(Close::NO_HELLO, now),
            _ if term < self.journal.term() => self.refuse_term(term, &body),
            body => {
                self.note_term(term);
                self.understand(body, now);
            }
        }
    }

    fn note_term(&mut self, term: u64) {
        if term > self.journal.term() {
            self.journal.note_term(term);
        }
    }

    /// The hub said hello.
    fn answered(&mut self, term: u64, hello: &HubHello, now: Duration) {
        let wrong = if hello.session != self.me.session {
            Some(Close::OTHER_SESSION)
        } else if hello.protocol == 0 || hello.protocol > PROTOCOL {
            Some(Close::OTHER_PROTOCOL)
        } else if term < self.journal.term() {
            Some(Close::OLDER_TERM)
        } else {
            None
        };
        if let Some(wrong) = wrong {
            self.turn_away(wrong, now);
            return;
        }
        self.note_term(term);
        for seen in &hello.seen {
            self.journal.acknowledge(&seen.boot, seen.seq);
        }
        let cursor = self.journal.start();
        let Some(live) = &mut self.live else {
            return;
        };
        live.phase = Phase::Talking;
        live.cursor = cursor;
        live.since = now;
        self.connections += 1;
        self.parts.forget_sent();
        if self.refusals > 0 {
            let count = std::mem::take(&mut self.refusals);
            let message = format!("the hub did not let us in {count} times before it did");
            self.say_health(wire::link::HealthKind::UpgradeRefused, message, count);
        }
        self.say_latest_again();
    }

    fn understand(&mut self, body: FromHub, now: Duration) {
        match body {
            FromHub::Hello(_) | FromHub::Pong | FromHub::Close(_) => {}
            FromHub::Ack { seq, boot } => {
                let boot = boot.unwrap_or_else(|| self.me.boot.clone());
                self.journal.acknowledge(&boot, seq);
            }
            FromHub::Result { id, ok, error } => {
                let answer = match error {
                    Some(error) => Err(error),
                    None => Ok(ok.unwrap_or_default()),
                };
                self.pending.answer(&id, answer);
            }
            FromHub::Pending { id, wait_ms } => {
                let by = Duration::from_millis(wait_ms);
                self.pending.extend(&id, now, by);
            }
            FromHub::PromptState { prompt_id } => self.tell_prompt_state(prompt_id),
            FromHub::Error(error) => {
                tracing::warn!(
                    code = error.code,
                    message = error.message,
                    "the hub objects"
                );
            }
            FromHub::Prompt(prompt) => self.prompt(prompt),
            body => self.hand_on(body),
        }
    }

    fn tell_prompt_state(&mut self, prompt_id: String) {
        let state = self.prompts.state(&prompt_id);
        self.remark(FromRunner::PromptState { prompt_id, state });
    }

    fn prompt(&mut self, prompt: Box<Prompt>) {
        let id = prompt.id.clone();
        let channel = prompt.channel.clone();
        if let Arrival::Known(_) = self.prompts.arrive(&id) {
            self.tell_prompt_state(id);
            return;
        }
        let reason = if self.ending.is_some() {
            Some("shutting_down")
        } else if self.journal.room() >= Room::Tight {
            Some(ErrorFrame::JOURNAL_FULL)
        } else {
            match self.hears.try_send(FromHub::Prompt(prompt)) {
                Ok(()) => None,
                Err(TrySendError::Full(_)) => Some(ErrorFrame::OVERLOADED),
                Err(TrySendError::Closed(_)) => Some("shutting_down"),
            }
        };
        if let Some(reason) = reason {
            self.prompts.forget(&id);
            self.remark(FromRunner::Busy {
                prompt_id: id,
                channel,
                reason: Some(reason.to_owned()),
            });
        }
    }

    fn hand_on(&mut self, body: FromHub) {
        let request_id = body.request_id().map(str::to_owned);
        if self.hears.try_send(body).is_err() {
            let message = "more was said than could be taken up; say it again later";
            self.remark(FromRunner::Error(ErrorFrame {
                request_id,
                ..ErrorFrame::new(ErrorFrame::OVERLOADED, message)
            }));
        }
    }

    fn refuse(&mut self, unreadable: &Unreadable) {
        if let Some(answer) = unreadable.answer() {
            self.remark(FromRunner::Error(answer));
        } else {
            tracing::warn!(frame = unreadable.frame, "an unknown frame is ignored");
        }
    }

    fn refuse_term(&mut self, term: u64, body: &FromHub) {
        let highest = self.journal.term();
        let message = format!("term {highest} was heard before; {term} is over");
        let prompt_id = match body {
            FromHub::Prompt(prompt) => Some(prompt.id.clone()),
            _ => None,
        };
        self.remark(FromRunner::Error(ErrorFrame {
            request_id: body.request_id().map(str::to_owned),
            prompt_id,
            ..ErrorFrame::new(ErrorFrame::OLDER_TERM, message)
        }));
    }
}
