//! What goes out: commands taken up, frames numbered, batches made.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use carrier::Outgoing;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use wire::link::{Asked, FromRunner, Health, HealthKind, MAX_LINK_FRAME, RunnerFrame};

use super::handle::{Command, SayError, Who};
use super::journal::{Finding, Room};
use super::pending::{Answer, AskError};
use super::setup::Link;
use super::task::{Ending, Phase};

/// One write: what has piled up, up to this.
const BATCH_BYTES: usize = 256 << 10;
const BATCH_FRAMES: usize = 64;
/// Commands that are taken up before the disk is written and the hub is told.
const GROUP: usize = 64;
/// Remarks that wait. A flood of nonsense is not answered word for word.
const MOST_REMARKS: usize = 64;
/// What the hub has not acknowledged by then is worth a sync.
const SYNC_AFTER: Duration = Duration::from_millis(50);
/// A disk that failed is tried again after this.
const WRITE_AGAIN: Duration = Duration::from_secs(5);
/// How long goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// What a hub that may have forgotten is told again: the models, what the sandbox is used for, and
/// the latest status of each channel.
#[derive(Debug, Default)]
pub(super) struct Latest {
    models: Option<(FromRunner, u64)>,
    activity: Option<(FromRunner, u64)>,
    statuses: BTreeMap<Option<String>, (FromRunner, u64)>,
}

/// More channels than a workplace has at a time.
const MOST_STATUSES: usize = 256;

impl Latest {
    fn is_kept(frame: &FromRunner) -> bool {
        matches!(
            frame,
            FromRunner::AgentStatus { .. }
                | FromRunner::Models { .. }
                | FromRunner::Activity { .. }
        )
    }

    fn passing(&mut self, frame: FromRunner, seq: u64) {
        match &frame {
            FromRunner::Models { .. } => self.models = Some((frame, seq)),
            FromRunner::Activity { .. } => self.activity = Some((frame, seq)),
            FromRunner::AgentStatus { channel, .. }
                if self.statuses.len() < MOST_STATUSES || self.statuses.contains_key(channel) =>
            {
                self.statuses.insert(channel.clone(), (frame, seq));
            }
            _ => {}
        }
    }

    /// Those that are no longer in the journal, which begins at `first`. That it is idle is the
    /// last word, by which a hub knows that all is said.
    fn acknowledged(&self, first: u64) -> Vec<FromRunner> {
        let latest = self.models.iter().chain(&self.activity);
        let latest = latest.chain(self.statuses.values());
        latest
            .filter(|(_, seq)| *seq < first)
            .map(|(frame, _)| frame.clone())
            .collect()
    }
}

impl Link {
    /// Takes up what is said, as much as has come meanwhile.
    pub(super) fn take_up(&mut self, first: Option<Command>) {
        let Some(first) = first else {
            // Nobody is left who could say anything.
            self.begin_ending(None);
            return;
        };
        self.take(first);
        for _ in 1..GROUP {
            if self.journal.room() == Room::Full {
                return;
            }
            match self.commands.try_recv() {
                Ok(command) => self.take(command),
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Say(frame) => {
                self.say(frame);
            }
            // What is known not to hold is not promised.
            Command::SayDurably(_, reply) if !self.journal.is_well() => {
                let _ = reply.send(Err(SayError::NotDurable));
            }
            Command::SayDurably(frame, reply) => {
                let said = self.say(frame);
                self.durable.push((said.unwrap_or(0), reply));
            }
            Command::Ask {
                kind,
                payload,
                who,
                reply,
            } => self.ask(kind, payload, who, reply),
            Command::Drain(reply) => self.drains.push(reply),
        }
    }

    /// Its number, if it gets one.
    pub(super) fn say(&mut self, frame: FromRunner) -> Option<u64> {
        self.parts.passing(&frame);
        if !frame.is_kept() {
            return None;
        }
        self.prompts.passing(&frame);
        let latest = Latest::is_kept(&frame).then(|| frame.clone());
        match self.journal.append(frame) {
            Ok(seq) => {
                if let Some(frame) = latest {
                    self.latest.passing(frame, seq);
                }
                Some(seq)
            }
            Err(error) => {
                tracing::error!(%error, "a frame could not be said");
                None
            }
        }
    }

    fn ask(&mut self, kind: String, payload: Value, who: Who, reply: oneshot::Sender<Answer>) {
        let refused = if self.ending.is_some() {
            Some(AskError::ShuttingDown)
        } else if self.journal.room() >= Room::Tight {
            Some(AskError::JournalFull)
        } else if self.pending.is_full() {
            Some(AskError::TooMany)
        } else {
            None
        };
        if let Some(refused) = refused {
            let _ = reply.send(Err(refused));
            return;
        }
        // The number is unique within the boot, and the boot everywhere.
        let id = format!("{}-{}", self.me.boot, self.journal.next_seq());
        let asked = Asked {
            id: id.clone(),
            kind: kind.clone(),
            payload,
            channel: who.channel,
            prompt_id: who.prompt_id,
        };
        if self.say(FromRunner::Request(asked)).is_none() {
            let _ = reply.send(Err(AskError::TooLong(MAX_LINK_FRAME)));
            return;
        }
        self.pending.add(id, kind, self.clock.now(), reply);
    }

    /// Takes up what has been said, however full the journal is, and then no more.
    pub(super) fn begin_ending(&mut self, reply: Option<oneshot::Sender<()>>) {
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            self.take(command);
        }
        self.pending.end();
        let until = self.clock.now() + GOODBYE;
        match &mut self.ending {
            Some(ending) => ending.replies.extend(reply),
            None => {
                self.ending = Some(Ending {
                    until,
                    replies: reply.into_iter().collect(),
                });
            }
        }
    }

    /// A remark about this connection. It is not kept.
    pub(super) fn remark(&mut self, frame: FromRunner) {
        if self.remarks.len() < MOST_REMARKS {
            let frame = RunnerFrame::passing(frame);
            self.remarks.push_back(wire::link::write(&frame).into());
        }
    }

    pub(super) fn report(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            tracing::warn!("{finding}");
            let kind = match finding {
                Finding::Unwritable { .. } => HealthKind::JournalUnwritable,
                _ => HealthKind::JournalDamaged,
            };
            self.say_health(kind, finding.to_string(), 1);
        }
    }

    pub(super) fn say_health(&mut self, kind: HealthKind, message: String, count: u64) {
        self.say(FromRunner::RunnerHealth(Health {
            kind,
            message,
            count,
            exit_code: None,
        }));
    }

    /// Says that the journal is filling up, once each time.
    pub(super) fn watch_room(&mut self) {
        let room = self.journal.room();
        if room == Room::Free {
            self.has_said_tight = false;
        } else if !self.has_said_tight {
            self.has_said_tight = true;
            self.tight_times += 1;
            let message = "the hub is away and the journal is filling up: no more work is taken";
            self.say_health(
                HealthKind::JournalFull,
                message.to_owned(),
                self.tight_times,
            );
        }
    }

    /// Writes what was said to the journal. Only then it may be sent.
    pub(super) fn write(&mut self, now: Duration) {
        self.watch_room();
        let findings = self.journal.write();
        if self.journal.has_unsynced() && !self.journal.is_empty() {
            self.sync_at.get_or_insert(now + SYNC_AFTER);
        }
        self.mind_disk(findings, now);
        if self.durable.is_empty() {
            return;
        }
        // Without a disk there is nothing to wait for; with a broken one there is no use in it.
        let outcome = match (self.journal.is_on_disk(), self.journal.is_well()) {
            (false, _) => Ok(()),
            (true, false) => Err(SayError::NotDurable),
            (true, true) => return,
        };
        for (_, reply) in self.durable.drain(..) {
            let _ = reply.send(outcome.clone());
        }
    }

    pub(super) fn mind_disk(&mut self, findings: Vec<Finding>, now: Duration) {
        if findings.is_empty() {
            return;
        }
        // It is said in memory, and written with the rest when the disk takes it.
        if self.write_again_at.is_none() {
            self.report(findings);
        }
        self.write_again_at = Some(now + WRITE_AGAIN);
    }

    pub(super) fn say_latest_again(&mut self) {
        let first = self.journal.first_seq();
        for frame in self.latest.acknowledged(first) {
            self.say(frame);
        }
    }

    /// Whether something waits for the connection to take it.
    pub(super) fn has_unsent(&self) -> bool {
        let Some(live) = &self.live else {
            return false;
        };
        !self.remarks.is_empty()
            || (live.phase == Phase::Talking
                && (self.parts.has_unsent() || self.journal.after(live.cursor).is_some()))
    }

    /// Hands the next batch to the connection, if it takes one.
    pub(super) fn flush(&mut self) {
        while self.has_unsent() {
            let Some(live) = &self.live else {
                return;
            };
            let permit = match live.connection.outgoing.clone().try_reserve_owned() {
                Ok(permit) => permit,
                // It says when it has room, or ends.
                Err(mpsc::error::TrySendError::Full(_) | mpsc::error::TrySendError::Closed(_)) => {
                    return;
                }
            };
            permit.send(Outgoing::Frames(self.batch()));
        }
    }

    /// Remarks first, then numbered frames in order, then text under way.
    fn batch(&mut self) -> Vec<Bytes> {
        let mut frames: Vec<Bytes> = self.remarks.drain(..).collect();
        let mut bytes: usize = frames.iter().map(Bytes::len).sum();
        let Some(live) = &mut self.live else {
            return frames;
        };
        if live.phase != Phase::Talking {
            return frames;
        }
        while frames.len() < BATCH_FRAMES && bytes < BATCH_BYTES {
            let frame = match self.journal.after(live.cursor) {
                Some((frame, cursor)) => {
                    self.journal.mark_sent(cursor);
                    live.cursor = cursor;
                    frame
                }
                None => match self.parts.next() {
                    Some(frame) => wire::link::write(&RunnerFrame::passing(frame)).into(),
                    None => break,
                },
            };
            bytes += frame.len();
            frames.push(frame);
        }
        frames
    }
}
