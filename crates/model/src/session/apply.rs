//! The table of moves, state by event.

use super::{
    Boot, Degraded, Effect, Event, Fault, FaultCode, Held, Leaving, Lifecycle, Migrating,
    PauseReason, Paused, Place, Refused, Rest, Resting, Running, Starting, State, Step, StopReason,
    Stopped, Suspended, Way,
};
use crate::{Id, Origin, Sandbox, SignedDuration, SnapshotId, Timestamp};

/// How long sealing the disk of a sandbox that stands still may take before it is tried again.
const STORING: SignedDuration = SignedDuration::from_mins(5);

type Moved = Result<(Lifecycle, Vec<Effect>), Refused>;

impl Lifecycle {
    /// Takes what happened. Refused moves change nothing; what is repeated changes nothing either.
    pub fn apply(self, event: Event) -> Moved {
        match event {
            Event::Begin {
                sandbox,
                origin,
                until,
            } => self.begin(sandbox, origin, until),
            Event::Ready { place, expires_at } => Ok(self.ready(place, expires_at)),
            Event::BootFailed { place, fault, at } => Ok(self.boot_failed(place, fault, at)),
            Event::Rest { to, at, until } => self.rest(to, at, until),
            Event::Rested {
                place,
                snapshot,
                at,
            } => Ok(self.rested(place, snapshot, at)),
            Event::RestFailed { place } => Ok(self.rest_failed(place)),
            Event::Store { until } => self.store(until),
            Event::Sealed {
                place,
                snapshot,
                at,
            } => Ok(self.sealed(place, snapshot, at)),
            Event::SnapshotTaken { place, snapshot } => Ok(self.snapshot_taken(place, snapshot)),
            Event::Extended { place, expires_at } => Ok(self.extended(place, expires_at)),
            Event::Migrate { sandbox, until } => self.migrate(sandbox, until),
            Event::Captured {
                place,
                snapshot,
                until,
            } => Ok(self.captured(place, snapshot, until)),
            Event::Lost {
                place,
                recovered,
                at,
            } => Ok(self.lost(place, recovered, at)),
            Event::DeadlinePassed { at } => Ok(self.deadline_passed(at)),
            Event::Recover {
                sandbox,
                origin,
                until,
            } => self.recover(sandbox, origin, until),
            Event::Cleared => self.cleared(),
            Event::Stop { reason, at } => Ok(self.stop(reason, at)),
        }
    }

    fn begin(self, sandbox: Id<Sandbox>, origin: Origin, until: Timestamp) -> Moved {
        let held = match &self.state {
            State::Starting(starting) => match starting.boot {
                Boot::UnderWay { .. } => return Ok(self.unchanged()),
                Boot::Unasked | Boot::Failed { .. } => starting.held.clone(),
            },
            State::Running(running) if running.leaving.is_some() => return Err(Refused::Leaving),
            State::Running(_) | State::Migrating(_) => return Ok(self.unchanged()),
            State::Paused(paused) if paused.resting.degraded.is_some() => {
                return Err(Refused::Degraded);
            }
            State::Paused(paused) => paused.resting.held.clone(),
            State::Suspended(_) => return Err(Refused::Suspended),
            State::Stopped(_) => return Err(Refused::Stopped),
        };
        match &held {
            Held::InPlace {
                storing_until: Some(_),
                ..
            } => Err(Refused::Leaving),
            Held::InPlace { place, .. } => {
                let place = *place;
                Ok(self.booting(held, place, Way::Wake, until))
            }
            Held::Stored { snapshot } => {
                let origin = Origin::Session(snapshot.clone());
                Ok(self.booting_new(held, sandbox, origin, until))
            }
            Held::Nothing => Ok(self.booting_new(held, sandbox, origin, until)),
        }
    }

    fn ready(self, place: Place, expires_at: Option<Timestamp>) -> (Self, Vec<Effect>) {
        match &self.state {
            State::Starting(Starting {
                boot: Boot::UnderWay { place: ours, .. },
                held,
            }) if *ours == place => {
                let last = held.snapshot().cloned();
                self.serving(place, expires_at, last, Vec::new())
            }
            State::Migrating(Migrating {
                old,
                step: Step::Moving { new, from },
                ..
            }) if *new == place => {
                let (old, from) = (*old, from.clone());
                self.serving(
                    place,
                    expires_at,
                    Some(from),
                    vec![Effect::Discard { place: old }],
                )
            }
            _ => self.ending_strangers(place),
        }
    }

    fn boot_failed(self, place: Place, fault: Fault, at: Timestamp) -> (Self, Vec<Effect>) {
        match self.state.clone() {
            State::Starting(Starting {
                boot: Boot::UnderWay {
                    place: ours, way, ..
                },
                held,
            }) if ours == place => match way {
                Way::Wake => self.wake_failed(place, held, fault, at),
                Way::New { .. } => self.new_one_failed(place, held, fault, at),
            },
            State::Migrating(migrating)
                if migrating.step.new_place() == place
                    && matches!(migrating.step, Step::Moving { .. }) =>
            {
                self.stay(migrating)
            }
            _ => self.ending_strangers(place),
        }
    }

    /// It may be half awake: its memory is given up, its disk is not.
    fn wake_failed(
        self,
        place: Place,
        held: Held,
        fault: Fault,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        let held = match held {
            Held::InPlace { place, last, .. } => Held::InPlace {
                place,
                last,
                storing_until: Some(after(at)),
            },
            other => other,
        };
        let paused = Paused {
            reason: PauseReason::StartFailed,
            resting: Resting {
                held,
                since: at,
                fault: Some(fault),
                degraded: None,
            },
        };
        self.at(State::Paused(paused), vec![Effect::End { place }])
    }

    fn new_one_failed(
        self,
        place: Place,
        held: Held,
        fault: Fault,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        let effects = vec![Effect::Discard { place }];
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
        let paused = Paused {
            reason: PauseReason::StartFailed,
            resting: Resting {
                held,
                since: at,
                fault: Some(fault),
                degraded,
            },
        };
        self.at(State::Paused(paused), effects)
    }

    fn rest(self, to: Rest, at: Timestamp, until: Timestamp) -> Moved {
        match (self.state.clone(), to) {
            (State::Running(mut running), to) => {
                match (&running.leaving, to) {
                    (Some(leaving), _) if leaving.to == to => return Ok(self.unchanged()),
                    (Some(leaving), Rest::Paused(_)) => {
                        return match leaving.to {
                            Rest::Paused(_) => Ok(self.unchanged()),
                            Rest::Suspended(_) => Err(Refused::Suspended),
                        };
                    }
                    _ => {}
                }
                let place = running.place;
                running.leaving = Some(Leaving { to, until });
                Ok(self.at(State::Running(running), vec![Effect::Rest { place, until }]))
            }
            (State::Migrating(_), _) => Err(Refused::Migrating),
            (State::Paused(_), Rest::Paused(_)) | (State::Suspended(_), Rest::Suspended(_)) => {
                Ok(self.unchanged())
            }
            (State::Paused(paused), Rest::Suspended(reason)) => {
                Ok(self.suspended(reason, paused.resting, Vec::new(), at))
            }
            (State::Starting(starting), Rest::Suspended(reason)) => {
                let discarded = match &starting.boot {
                    Boot::UnderWay {
                        place,
                        way: Way::New { .. },
                        ..
                    } => vec![Effect::Discard { place: *place }],
                    _ => Vec::new(),
                };
                let resting = Resting {
                    held: starting.held,
                    since: at,
                    fault: None,
                    degraded: None,
                };
                Ok(self.suspended(reason, resting, discarded, at))
            }
            (State::Starting(_), Rest::Paused(_)) => Err(Refused::NotRunning),
            (State::Suspended(_), Rest::Paused(_)) => Err(Refused::Suspended),
            (State::Stopped(_), _) => Err(Refused::Stopped),
        }
    }

    fn rested(
        self,
        place: Place,
        snapshot: Option<SnapshotId>,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        let State::Running(running) = &self.state else {
            return self.ending_strangers(place);
        };
        if running.place != place {
            return self.ending_strangers(place);
        }
        let Some(leaving) = &running.leaving else {
            // Given up by its deadline, and yet it came about.
            return match snapshot {
                None => self.at_same(vec![Effect::Thaw { place }]),
                Some(_) => self.lost(place, snapshot, at),
            };
        };
        let held = match snapshot {
            Some(snapshot) => Held::Stored { snapshot },
            None => Held::InPlace {
                place,
                last: running.last.clone(),
                storing_until: None,
            },
        };
        let to = leaving.to;
        let resting = Resting {
            held,
            since: at,
            fault: None,
            degraded: None,
        };
        self.resting(to, resting, at)
    }

    fn rest_failed(self, place: Place) -> (Self, Vec<Effect>) {
        match self.state.clone() {
            State::Running(mut running) if running.place == place && running.leaving.is_some() => {
                running.leaving = None;
                self.at(State::Running(running), vec![Effect::Thaw { place }])
            }
            State::Migrating(migrating)
                if migrating.old == place && matches!(migrating.step, Step::Capturing { .. }) =>
            {
                self.stay(migrating)
            }
            _ => self.unchanged(),
        }
    }

    fn store(self, until: Timestamp) -> Moved {
        let State::Paused(mut paused) = self.state.clone() else {
            return Err(Refused::NotInPlace);
        };
        let Held::InPlace {
            place,
            storing_until,
            ..
        } = &mut paused.resting.held
        else {
            return Err(Refused::NotInPlace);
        };
        if storing_until.is_some() {
            return Ok(self.unchanged());
        }
        *storing_until = Some(until);
        let place = *place;
        Ok(self.at(State::Paused(paused), vec![Effect::End { place }]))
    }

    fn sealed(
        mut self,
        place: Place,
        snapshot: Option<SnapshotId>,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        match &mut self.state {
            State::Stopped(stopped) => {
                let before = stopped.ending.len();
                stopped.ending.retain(|ending| *ending != place);
                if stopped.ending.len() < before && snapshot.is_some() {
                    stopped.last = snapshot;
                }
            }
            State::Paused(Paused { resting, .. }) | State::Suspended(Suspended { resting, .. }) => {
                if resting.held.place() == Some(place) {
                    resting.settle(snapshot, at);
                }
            }
            State::Starting(_) | State::Running(_) | State::Migrating(_) => {}
        }
        self.unchanged()
    }

    fn snapshot_taken(mut self, place: Place, snapshot: SnapshotId) -> (Self, Vec<Effect>) {
        match &mut self.state {
            State::Running(running) if running.place == place => running.last = Some(snapshot),
            State::Migrating(migrating)
                if migrating.old == place && matches!(migrating.step, Step::Capturing { .. }) =>
            {
                migrating.last = Some(snapshot);
            }
            _ => {}
        }
        self.unchanged()
    }

    fn extended(mut self, place: Place, expires_at: Timestamp) -> (Self, Vec<Effect>) {
        match &mut self.state {
            State::Running(running) if running.place == place => {
                running.expires_at = Some(expires_at);
            }
            State::Migrating(migrating) if migrating.old == place => {
                migrating.expires_at = Some(expires_at);
            }
            _ => {}
        }
        self.unchanged()
    }

    fn migrate(mut self, sandbox: Id<Sandbox>, until: Timestamp) -> Moved {
        match self.state.clone() {
            State::Running(running) if running.leaving.is_some() => Err(Refused::Leaving),
            State::Running(Running {
                place,
                expires_at,
                last,
                ..
            }) => {
                self.generation = self.generation.next();
                let new = Place {
                    sandbox,
                    generation: self.generation,
                };
                let migrating = Migrating {
                    old: place,
                    expires_at,
                    last,
                    step: Step::Capturing { new },
                    until,
                };
                Ok(self.at(
                    State::Migrating(migrating),
                    vec![Effect::Capture { place, until }],
                ))
            }
            State::Migrating(_) => Ok(self.unchanged()),
            State::Starting(_) | State::Paused(_) => Err(Refused::NotRunning),
            State::Suspended(_) => Err(Refused::Suspended),
            State::Stopped(_) => Err(Refused::Stopped),
        }
    }

    fn captured(self, place: Place, snapshot: SnapshotId, until: Timestamp) -> (Self, Vec<Effect>) {
        match self.state.clone() {
            State::Migrating(mut migrating) if migrating.old == place => {
                let Step::Capturing { new } = migrating.step else {
                    return self.unchanged();
                };
                migrating.last = Some(snapshot.clone());
                migrating.until = until;
                migrating.step = Step::Moving {
                    new,
                    from: snapshot.clone(),
                };
                let boot = Effect::Boot {
                    place: new,
                    way: Way::New {
                        origin: Origin::Session(snapshot),
                    },
                    until,
                };
                self.at(State::Migrating(migrating), vec![boot])
            }
            // Given up by its deadline, and yet it came about: it stands still for nothing.
            State::Running(mut running) if running.place == place => {
                running.last = Some(snapshot);
                let effects = match running.leaving {
                    // The pause under way ends that.
                    Some(_) => Vec::new(),
                    None => vec![Effect::Thaw { place }],
                };
                self.at(State::Running(running), effects)
            }
            _ => self.ending_strangers(place),
        }
    }

    fn lost(
        self,
        place: Place,
        recovered: Option<SnapshotId>,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        match self.state.clone() {
            State::Running(running) if running.place == place => {
                let to = running
                    .leaving
                    .map_or(Rest::Paused(PauseReason::Recovered), |leaving| leaving.to);
                self.gone(to, running.last, recovered, at)
            }
            State::Migrating(migrating) if migrating.old == place => match migrating.step {
                Step::Capturing { .. } => self.gone(
                    Rest::Paused(PauseReason::Recovered),
                    migrating.last,
                    recovered,
                    at,
                ),
                // All it had is in the snapshot that the new one starts from.
                Step::Moving { .. } => self.unchanged(),
            },
            State::Starting(Starting {
                boot:
                    Boot::UnderWay {
                        place: ours,
                        way: Way::Wake,
                        ..
                    },
                held,
            }) if ours == place => self.gone(
                Rest::Paused(PauseReason::Recovered),
                held.snapshot().cloned(),
                recovered,
                at,
            ),
            State::Paused(Paused { resting, reason }) if resting.held.place() == Some(place) => {
                let last = resting.held.snapshot().cloned();
                self.gone(Rest::Paused(reason), last, recovered, at)
            }
            State::Suspended(Suspended { resting, reason })
                if resting.held.place() == Some(place) =>
            {
                let last = resting.held.snapshot().cloned();
                self.gone(Rest::Suspended(reason), last, recovered, at)
            }
            State::Stopped(_) => self.sealed(place, recovered, at),
            State::Starting(_)
            | State::Migrating(_)
            | State::Running(_)
            | State::Paused(_)
            | State::Suspended(_) => {
                let fault = Fault {
                    code: FaultCode::Provider,
                    message: "the new sandbox ended while it was starting".to_owned(),
                };
                if self.places().contains(&place) {
                    self.boot_failed(place, fault, at)
                } else {
                    self.unchanged()
                }
            }
        }
    }

    fn deadline_passed(self, at: Timestamp) -> (Self, Vec<Effect>) {
        if self.deadline().is_none_or(|deadline| at < deadline) {
            return self.unchanged();
        }
        match self.state.clone() {
            State::Starting(Starting {
                boot: Boot::UnderWay { place, .. },
                ..
            }) => {
                let fault = Fault {
                    code: FaultCode::DeadlinePassed,
                    message: "it did not start in time".to_owned(),
                };
                self.boot_failed(place, fault, at)
            }
            State::Running(running) => self.rest_failed(running.place),
            State::Migrating(migrating) => self.stay(migrating),
            State::Paused(mut paused) => {
                let effects = paused.resting.store_again(at);
                self.at(State::Paused(paused), effects)
            }
            State::Suspended(mut suspended) => {
                let effects = suspended.resting.store_again(at);
                self.at(State::Suspended(suspended), effects)
            }
            State::Starting(_) | State::Stopped(_) => self.unchanged(),
        }
    }

    fn recover(self, sandbox: Id<Sandbox>, origin: Origin, until: Timestamp) -> Moved {
        match &self.state {
            State::Paused(paused) if paused.resting.degraded.is_some() => {
                let held = match &origin {
                    Origin::Session(snapshot) => Held::Stored {
                        snapshot: snapshot.clone(),
                    },
                    _ => Held::Nothing,
                };
                Ok(self.booting_new(held, sandbox, origin, until))
            }
            State::Suspended(_) => Err(Refused::Suspended),
            State::Stopped(_) => Err(Refused::Stopped),
            _ => Err(Refused::NotDegraded),
        }
    }

    fn cleared(self) -> Moved {
        match self.state.clone() {
            State::Suspended(Suspended { resting, .. }) => {
                let paused = Paused {
                    reason: PauseReason::Cleared,
                    resting,
                };
                Ok(self.at(State::Paused(paused), Vec::new()))
            }
            State::Stopped(_) => Err(Refused::Stopped),
            _ => Err(Refused::NotSuspended),
        }
    }

    fn stop(self, reason: StopReason, at: Timestamp) -> (Self, Vec<Effect>) {
        let last = self.snapshot().cloned();
        let (ending, discarded) = match &self.state {
            State::Stopped(_) => return self.unchanged(),
            State::Starting(Starting {
                boot:
                    Boot::UnderWay {
                        place,
                        way: Way::New { .. },
                        ..
                    },
                ..
            }) => (Vec::new(), Some(*place)),
            State::Migrating(migrating) => (vec![migrating.old], Some(migrating.step.new_place())),
            _ => (self.places(), None),
        };
        let effects = ending
            .iter()
            .map(|place| Effect::End { place: *place })
            .chain(discarded.map(|place| Effect::Discard { place }))
            .collect();
        let stopped = Stopped {
            reason,
            at,
            last,
            ending,
        };
        self.at(State::Stopped(stopped), effects)
    }
}

/// Moves that several events end in.
impl Lifecycle {
    fn unchanged(self) -> (Self, Vec<Effect>) {
        (self, Vec::new())
    }

    fn at_same(self, effects: Vec<Effect>) -> (Self, Vec<Effect>) {
        (self, effects)
    }

    fn at(self, state: State, effects: Vec<Effect>) -> (Self, Vec<Effect>) {
        let generation = self.generation;
        (Self { generation, state }, effects)
    }

    /// An answer about a sandbox that is not the session's: it is ended, its disk sealed.
    fn ending_strangers(self, place: Place) -> (Self, Vec<Effect>) {
        if self.places().contains(&place) {
            return self.unchanged();
        }
        self.at_same(vec![Effect::End { place }])
    }

    fn booting_new(
        mut self,
        held: Held,
        sandbox: Id<Sandbox>,
        origin: Origin,
        until: Timestamp,
    ) -> (Self, Vec<Effect>) {
        self.generation = self.generation.next();
        let place = Place {
            sandbox,
            generation: self.generation,
        };
        self.booting(held, place, Way::New { origin }, until)
    }

    fn booting(self, held: Held, place: Place, way: Way, until: Timestamp) -> (Self, Vec<Effect>) {
        let boot = Boot::UnderWay {
            place,
            way: way.clone(),
            until,
        };
        self.at(
            State::Starting(Starting { held, boot }),
            vec![Effect::Boot { place, way, until }],
        )
    }

    fn serving(
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

    /// A migration that did not come about: the old one goes on.
    fn stay(self, migrating: Migrating) -> (Self, Vec<Effect>) {
        // One that was never made is discarded easily.
        let effects = vec![
            Effect::Thaw {
                place: migrating.old,
            },
            Effect::Discard {
                place: migrating.step.new_place(),
            },
        ];
        self.serving(migrating.old, migrating.expires_at, migrating.last, effects)
    }

    fn resting(self, to: Rest, resting: Resting, at: Timestamp) -> (Self, Vec<Effect>) {
        match to {
            Rest::Paused(reason) => self.at(State::Paused(Paused { reason, resting }), Vec::new()),
            Rest::Suspended(reason) => self.suspended(reason, resting, Vec::new(), at),
        }
    }

    /// Nobody pays for memory that stands still.
    fn suspended(
        self,
        reason: super::SuspendReason,
        mut resting: Resting,
        mut effects: Vec<Effect>,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        effects.extend(resting.store_again(at));
        self.at(State::Suspended(Suspended { reason, resting }), effects)
    }

    /// Its sandbox is no more: what was saved of it, else the last snapshot, else the end.
    fn gone(
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
        let mut resting = Resting {
            held: Held::stored(last),
            since: at,
            fault: None,
            degraded: None,
        };
        resting.settle(recovered, at);
        self.resting(to, resting, at)
    }
}

impl Resting {
    /// What is held from now on, its sandbox being gone.
    fn settle(&mut self, sealed: Option<SnapshotId>, at: Timestamp) {
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

    fn store_again(&mut self, at: Timestamp) -> Vec<Effect> {
        let Held::InPlace {
            place,
            storing_until,
            ..
        } = &mut self.held
        else {
            return Vec::new();
        };
        *storing_until = Some(after(at));
        vec![Effect::End { place: *place }]
    }
}

fn after(at: Timestamp) -> Timestamp {
    at.checked_add(STORING).unwrap_or(Timestamp::MAX)
}
