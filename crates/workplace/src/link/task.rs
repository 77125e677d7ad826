//! The loop: one thing happens, is dealt with, and what follows from it goes out.

use std::pin::Pin;
use std::time::Duration;

use carrier::{Connection, Incoming, Outgoing};
use tokio::sync::{mpsc, oneshot};
use wire::link::{Close, FromRunner, RunnerFrame};

use super::dial::{DialError, Dialling};
use super::handle::{Command, SayError, State};
use super::heart::{Beat, Heart, INTERVAL};
use super::journal::{Cursor, Room};
use super::setup::Link;

/// A hub that has not said hello by then is not there.
const GREETING: Duration = Duration::from_secs(10);
/// How long a connection that was closed may take to end.
const RETIREMENT: Duration = Duration::from_secs(2);
/// A connection that lived this long was a good one: the next try is at once.
const GOOD: Duration = Duration::from_secs(1);

/// Without a connection.
pub(super) enum Away {
    /// Until it is time to dial.
    Until(Duration),
    Dialling(Dialling),
}

pub(super) struct Live {
    pub(super) connection: Connection,
    pub(super) phase: Phase,
    pub(super) heart: Heart,
    pub(super) cursor: Cursor,
    pub(super) since: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Greeting { until: Duration },
    Talking,
}

/// Work on the disk, beside us.
pub(super) struct Syncing {
    upto: u64,
    done: Pin<Box<dyn Future<Output = std::io::Result<()>> + Send>>,
}

pub(super) struct Ending {
    pub(super) until: Duration,
    pub(super) replies: Vec<oneshot::Sender<()>>,
}

enum Event {
    Heard(Option<Incoming>),
    HasRoom,
    Adopted(Connection),
    Dialled(Result<Connection, DialError>),
    Said(Option<Command>),
    MustEnd(oneshot::Sender<()>),
    Synced(std::io::Result<()>),
    Retired,
    Woke,
}

impl Link {
    /// Until it is shut down, or nobody is left who could speak.
    pub async fn run(mut self) {
        while !self.is_over() {
            self.settle();
            let event = self.next().await;
            let now = self.clock.now();
            if self.wakefulness.wake(now) {
                self.thaw(now);
            }
            self.deal_with(event, now);
        }
        self.end().await;
    }

    async fn next(&mut self) -> Event {
        let now = self.clock.now();
        let until = self.next_deadline(now);
        self.wakefulness.sleep(until);
        let sleep = tokio::time::sleep(until.saturating_sub(now));
        let waits_for_room = self.has_unsent();
        let takes_commands = self.journal.room() != Room::Full && self.ending.is_none();
        let outgoing = match &self.live {
            Some(live) if waits_for_room => Some(live.connection.outgoing.clone()),
            _ => None,
        };
        tokio::select! {
            biased;
            heard = hear(&mut self.live) => Event::Heard(heard),
            () = has_room(outgoing) => Event::HasRoom,
            Some(connection) = self.adopted.recv() => Event::Adopted(connection),
            dialled = dialled(&mut self.away) => Event::Dialled(dialled),
            Some(reply) = self.end.recv() => Event::MustEnd(reply),
            command = self.commands.recv(), if takes_commands => Event::Said(command),
            synced = synced(&mut self.syncing) => Event::Synced(synced),
            () = retired(&mut self.retiring) => Event::Retired,
            () = sleep => Event::Woke,
        }
    }

    fn next_deadline(&self, now: Duration) -> Duration {
        let live = self.live.as_ref().map(|live| match live.phase {
            Phase::Greeting { until } => until,
            Phase::Talking => live.heart.next(),
        });
        let dial = match &self.away {
            Away::Until(until) if self.live.is_none() && self.dial.is_some() => Some(*until),
            _ => None,
        };
        let deadlines = [
            live,
            dial,
            self.retiring.as_ref().map(|(_, until)| *until),
            self.pending.next_deadline(),
            self.sync_at.filter(|_| self.syncing.is_none()),
            self.write_again_at,
            self.ending.as_ref().map(|ending| ending.until),
        ];
        let soonest = deadlines.into_iter().flatten().min();
        soonest.unwrap_or(Duration::MAX).min(now + INTERVAL)
    }

    fn deal_with(&mut self, event: Event, now: Duration) {
        match event {
            Event::Heard(heard) => self.hear(heard, now),
            Event::Adopted(connection) => {
                self.retire(Close::normal(Close::REPLACED), now);
                self.connect(connection, now);
            }
            Event::Dialled(Ok(connection)) => self.connect(connection, now),
            Event::Dialled(Err(error)) => {
                if let DialError::Refused { .. } = error {
                    self.refusals += 1;
                }
                tracing::debug!(%error, "the hub was not reached");
                self.away = Away::Until(now + self.backoff.next());
            }
            Event::Said(command) => self.take_up(command),
            Event::MustEnd(reply) => self.begin_ending(Some(reply)),
            Event::Synced(synced) => self.synced(synced, now),
            Event::Retired => self.retiring = None,
            Event::HasRoom | Event::Woke => {}
        }
    }

    /// Everything that follows without waiting for anybody.
    fn settle(&mut self) {
        let now = self.clock.now();
        self.mind_time(now);
        self.write(now);
        self.begin_sync(now);
        self.flush();
        if self.journal.is_empty() {
            for drained in self.drains.drain(..) {
                let _ = drained.send(());
            }
        }
        self.show();
    }

    fn mind_time(&mut self, now: Duration) {
        self.pending.expire(now);
        if self
            .retiring
            .as_ref()
            .is_some_and(|(_, until)| now >= *until)
        {
            self.retiring = None;
        }
        if self.write_again_at.is_some_and(|at| now >= at) {
            self.write_again_at = None;
            let findings = self.journal.try_again();
            if !findings.is_empty() {
                self.write_again_at = Some(now);
                self.mind_disk(findings, now);
            }
        }
        let beat = self.live.as_mut().map(|live| match live.phase {
            Phase::Greeting { until } if now >= until => Beat::Dead,
            Phase::Greeting { .. } => Beat::Nothing,
            Phase::Talking => live.heart.beat(now),
        });
        match beat {
            Some(Beat::Ping) => self.remark(FromRunner::Ping),
            Some(Beat::Dead) => self.lose("nobody answers", now),
            Some(Beat::Nothing) | None => {}
        }
        if self.live.is_none()
            && self.ending.is_none()
            && let Away::Until(until) = &self.away
            && now >= *until
            && let Some(dial) = &mut self.dial
        {
            self.away = Away::Dialling(dial.dial());
        }
    }

    /// We were frozen, or the machine slept: nothing that happened meanwhile means anything, and
    /// nothing is waited for on account of what was before.
    fn thaw(&mut self, now: Duration) {
        tracing::info!("the clock jumped; timers are set anew");
        self.backoff.reset();
        self.pending.restart(now);
        match &mut self.live {
            Some(live) => match &mut live.phase {
                Phase::Greeting { until } => *until = now + GREETING,
                Phase::Talking => live.heart.jumped(now),
            },
            None => {
                if let Away::Until(until) = &mut self.away {
                    *until = now;
                    let _ = self.backoff.next();
                }
            }
        }
    }

    fn connect(&mut self, connection: Connection, now: Duration) {
        self.live = Some(Live {
            connection,
            phase: Phase::Greeting {
                until: now + GREETING,
            },
            heart: Heart::new(now),
            cursor: self.journal.start(),
            since: now,
        });
        // Whatever was being dialled is not needed now.
        self.away = Away::Until(now);
        self.greet();
    }

    /// The connection is gone.
    pub(super) fn lose(&mut self, why: &str, now: Duration) {
        let Some(live) = self.live.take() else {
            return;
        };
        tracing::info!(why, "the link is down");
        self.remarks.clear();
        if live.phase == Phase::Talking && now >= live.since + GOOD {
            self.backoff.reset();
        }
        self.away = Away::Until(now + self.backoff.next());
    }

    /// The hub closed it, and says why. Coming back at once would not change its mind.
    pub(super) fn closed(&mut self, close: &Close, now: Duration) {
        tracing::info!(
            code = close.code,
            reason = close.reason,
            "the hub closed the link"
        );
        let is_final = close.code == Close::REFUSED || close.reason == Close::REPLACED;
        if is_final && let Some(live) = &mut self.live {
            live.since = now;
        }
        self.lose("the hub closed it", now);
    }

    /// We close it, and say why.
    pub(super) fn turn_away(&mut self, reason: &str, now: Duration) {
        tracing::warn!(reason, "the hub is turned away");
        self.retire(Close::refused(reason), now);
        self.away = Away::Until(now + self.backoff.next());
    }

    fn retire(&mut self, close: Close, now: Duration) {
        let Some(live) = self.live.take() else {
            return;
        };
        self.remarks.clear();
        let outgoing = live.connection.outgoing.clone();
        let last = RunnerFrame::passing(FromRunner::Close(close.clone()));
        let said = Outgoing::Close {
            close,
            line: wire::link::write(&last).into(),
        };
        if outgoing.try_send(said).is_ok() {
            self.retiring = Some((live.connection, now + RETIREMENT));
        }
    }

    fn begin_sync(&mut self, now: Duration) {
        if self.syncing.is_some() {
            return;
        }
        let is_due = self.sync_at.is_some_and(|at| now >= at);
        if is_due && self.journal.is_empty() && self.durable.is_empty() {
            // The hub has it all: its disk is as good as ours.
            self.sync_at = None;
            return;
        }
        if !is_due && self.durable.is_empty() {
            return;
        }
        self.sync_at = None;
        let Some(sync) = self.journal.sync() else {
            // An earlier sync has covered them.
            self.tell_durable(u64::MAX, &Ok(()));
            return;
        };
        let upto = sync.upto;
        // A disk may take its time, and text must not wait for it.
        let work = tokio::task::spawn_blocking(move || sync.run());
        let done = Box::pin(async move { work.await.map_err(std::io::Error::other)? });
        self.syncing = Some(Syncing { upto, done });
    }

    fn synced(&mut self, synced: std::io::Result<()>, now: Duration) {
        let Some(Syncing { upto, .. }) = self.syncing.take() else {
            return;
        };
        match synced {
            Ok(()) => self.tell_durable(upto, &Ok(())),
            Err(error) => {
                let finding = self.journal.distrust_disk(&error);
                self.tell_durable(u64::MAX, &Err(SayError::NotDurable));
                self.mind_disk(vec![finding], now);
            }
        }
    }

    fn tell_durable(&mut self, upto: u64, outcome: &Result<(), SayError>) {
        for (_, reply) in self.durable.extract_if(.., |(seq, _)| *seq <= upto) {
            let _ = reply.send(outcome.clone());
        }
    }

    fn show(&mut self) {
        let state = State {
            is_connected: self
                .live
                .as_ref()
                .is_some_and(|live| live.phase == Phase::Talking),
            connections: self.connections,
            room: self.journal.room(),
            unacknowledged: self.journal.records(),
        };
        self.state.send_if_modified(|shown| {
            let is_new = *shown != state;
            *shown = state;
            is_new
        });
    }

    fn is_over(&self) -> bool {
        let Some(ending) = &self.ending else {
            return false;
        };
        let is_said = self.live.is_none() || (!self.has_unsent() && self.journal.is_empty());
        is_said || self.clock.now() >= ending.until
    }

    /// Says goodbye, and leaves on disk what the hub does not have.
    async fn end(mut self) {
        let now = self.clock.now();
        self.write(now);
        if let Some(sync) = self.journal.sync() {
            let synced = sync.run().map_err(|_| SayError::NotDurable);
            self.tell_durable(u64::MAX, &synced);
        }
        self.retire(Close::normal(Close::SHUTTING_DOWN), now);
        if self.retiring.is_some() {
            let goodbye = retired(&mut self.retiring);
            let _ = tokio::time::timeout(RETIREMENT, goodbye).await;
        }
        for reply in self.ending.into_iter().flat_map(|ending| ending.replies) {
            let _ = reply.send(());
        }
    }
}

async fn hear(live: &mut Option<Live>) -> Option<Incoming> {
    match live {
        Some(live) => live.connection.hear().await,
        None => std::future::pending().await,
    }
}

async fn has_room(outgoing: Option<mpsc::Sender<Outgoing>>) {
    match outgoing {
        Some(outgoing) => {
            // One that has ended says so to whoever listens.
            if outgoing.reserve().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}

async fn dialled(away: &mut Away) -> Result<Connection, DialError> {
    match away {
        Away::Dialling(dialling) => dialling.await,
        Away::Until(_) => std::future::pending().await,
    }
}

async fn synced(syncing: &mut Option<Syncing>) -> std::io::Result<()> {
    match syncing {
        Some(syncing) => (&mut syncing.done).await,
        None => std::future::pending().await,
    }
}

/// Listens to a connection that is being closed until it has ended.
async fn retired(retiring: &mut Option<(Connection, Duration)>) {
    match retiring {
        Some((connection, _)) => while connection.hear().await.is_some() {},
        None => std::future::pending().await,
    }
}
