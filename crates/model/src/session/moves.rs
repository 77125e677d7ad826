//! What several events end in.

use super::{
    Boot, Degraded, Effect, Fault, FaultCode, Generation, Held, Lifecycle, Migrating, PauseReason,
    Paused, Place, Rest, Resting, Running, Starting, State, StopReason, Stopped, SuspendReason,
    Suspended, Way,
};
use crate::{Origin, SignedDuration, SnapshotId, Timestamp};

/// How long sealing the disk of a sandbox that stands still may take before it is tried again.
const STORING: SignedDuration = SignedDuration::from_mins(5);

impl Lifecycle {
    pub(super) fn unchanged(self) -> (Self, Vec<Effect>) {
        (self, Vec::new())
    }

    pub(super) fn at_same(self, effects: Vec<Effect>) -> (Self, Vec<Effect>) {
        (self, effects)
    }

    pub(super) fn at(self, state: State, effects: Vec<Effect>) -> (Self, Vec<Effect>) {
        let generation = self.generation;
        (Self { generation, state }, effects)
    }

    /// An answer about a sandbox that is not the session's: it is ended, its disk sealed.
    pub(super) fn ending_strangers(self, generation: Generation) -> (Self, Vec<Effect>) {
        if self.generations().contains(&generation) {
            return self.unchanged();
        }
        self.at_same(vec![Effect::End { generation }])
    }

    pub(super) fn booting_new(
        mut self,
        held: Held,
        origin: Origin,
        until: Timestamp,
    ) -> (Self, Vec<Effect>) {
        self.generation = self.generation.next();
        let generation = self.generation;
        self.booting(held, generation, Way::New { origin }, until)
    }

    pub(super) fn booting(
        self,
        held: Held,
        generation: Generation,
        way: Way,
        until: Timestamp,
    ) -> (Self, Vec<Effect>) {
        let boot = Boot::UnderWay {
            generation,
            way: way.clone(),
            until,
        };
        self.at(
            State::Starting(Starting { held, boot }),
            vec![Effect::Boot {
                generation,
                way,
                until,
            }],
        )
    }

    pub(super) fn serving(
        self,
        place: Place,
        expires_at: Option<Timestamp>,
        last: Option<SnapshotId>,
        effects: Vec<Effect>,
    ) -> (Self, Vec<Effect>) {
        let running = Running {
            place,
            expires_at,
            last,
            leaving: None,
        };
        self.at(State::Running(running), effects)
    }

    /// It may be half awake: its memory is given up, its disk is not.
    pub(super) fn wake_failed(
        self,
        held: Held,
        fault: Fault,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        let mut resting = Resting {
            fault: Some(fault),
            ..Resting::on(held, at)
        };
        let effects = resting.store_again(at);
        self.start_failed(resting, effects)
    }

    pub(super) fn new_one_failed(
        self,
        generation: Generation,
        held: Held,
        fault: Fault,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        let effects = vec![Effect::Discard { generation }];
        let Held::Stored { snapshot } = &held else {
            let boot = Boot::Failed { fault, at };
            return self.at(State::Starting(Starting { held, boot }), effects);
        };
        // What was kept stays named: whoever consents to the loss has seen what it was.
        let degraded = (fault.code == FaultCode::OriginGone).then(|| Degraded {
            kept: None,
            lost: format!("the disk of {snapshot}: {}", fault.message),
            since: at,
        });
        let resting = Resting {
            fault: Some(fault),
            degraded,
            ..Resting::on(held, at)
        };
        self.start_failed(resting, effects)
    }

    fn start_failed(self, resting: Resting, effects: Vec<Effect>) -> (Self, Vec<Effect>) {
        let reason = PauseReason::StartFailed;
        self.at(State::Paused(Paused { reason, resting }), effects)
    }

    /// A migration that did not come about: the old one goes on.
    pub(super) fn stay(self, migrating: Migrating) -> (Self, Vec<Effect>) {
        // One that was never made is discarded easily.
        let effects = vec![
            Effect::Thaw {
                generation: migrating.old.generation,
            },
            Effect::Discard {
                generation: migrating.step.new_generation(),
            },
        ];
        self.serving(migrating.old, migrating.expires_at, migrating.last, effects)
    }

    pub(super) fn resting(self, to: Rest, resting: Resting, at: Timestamp) -> (Self, Vec<Effect>) {
        match to {
            Rest::Paused(reason) => self.at(State::Paused(Paused { reason, resting }), Vec::new()),
            Rest::Suspended(reason) => self.suspended(reason, resting, Vec::new(), at),
        }
    }

    /// Nobody pays for memory that stands still.
    pub(super) fn suspended(
        self,
        reason: SuspendReason,
        mut resting: Resting,
        mut effects: Vec<Effect>,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        effects.extend(resting.store_again(at));
        self.at(State::Suspended(Suspended { reason, resting }), effects)
    }

    /// Its sandbox is no more: what was saved of it, else the last snapshot, else the end.
    pub(super) fn gone(
        self,
        to: Rest,
        last: Option<SnapshotId>,
        recovered: Option<SnapshotId>,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        if last.is_none() && recovered.is_none() {
            let stopped = Stopped {
                reason: StopReason::SandboxTerminated,
                at,
                last: None,
                ending: Vec::new(),
            };
            return self.at(State::Stopped(stopped), Vec::new());
        }
        let to = match to {
            Rest::Paused(_) => Rest::Paused(PauseReason::Recovered),
            suspended @ Rest::Suspended(_) => suspended,
        };
        let mut resting = Resting::on(Held::stored(last), at);
        resting.settle(recovered, at);
        self.resting(to, resting, at)
    }
}

impl Resting {
    pub(super) fn on(held: Held, since: Timestamp) -> Self {
        Self {
            held,
            since,
            fault: None,
            degraded: None,
        }
    }

    /// What is held from now on, its sandbox being gone.
    pub(super) fn settle(&mut self, sealed: Option<SnapshotId>, at: Timestamp) {
        if let Some(snapshot) = sealed {
            self.held = Held::Stored { snapshot };
            return;
        }
        let last = self.held.snapshot().cloned();
        self.degraded = Some(Degraded {
            kept: last.clone(),
            lost: match &last {
                Some(_) => "what changed after the last snapshot".to_owned(),
                None => "its disk".to_owned(),
            },
            since: at,
        });
        self.held = Held::stored(last);
    }

    pub(super) fn store_again(&mut self, at: Timestamp) -> Vec<Effect> {
        let Held::InPlace {
            place,
            storing_until,
            ..
        } = &mut self.held
        else {
            return Vec::new();
        };
        *storing_until = Some(after(at));
        vec![Effect::End {
            generation: place.generation,
        }]
    }
}

fn after(at: Timestamp) -> Timestamp {
    at.checked_add(STORING).unwrap_or(Timestamp::MAX)
}
