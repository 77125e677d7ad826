//! The table of moves, state by event.

use super::{
    Boot, Effect, Event, Fault, FaultCode, Generation, Held, Leaving, Lifecycle, Migrating,
    PauseReason, Paused, Place, Refused, Rest, Resting, Running, Starting, State, Step, StopReason,
    Stopped, Suspended, Way,
};
use crate::{Origin, SnapshotId, Timestamp};

type Moved = Result<(Lifecycle, Vec<Effect>), Refused>;

impl Lifecycle {
    /// Takes what happened. Refused moves change nothing; what is repeated changes nothing either.
    pub fn apply(self, event: Event) -> Moved {
        match event {
            Event::Begin { origin, until } => self.begin(origin, until),
            Event::Ready { place, expires_at } => Ok(self.ready(place, expires_at)),
            Event::BootFailed {
                generation,
                fault,
                at,
            } => Ok(self.boot_failed(generation, fault, at)),
            Event::Rest { to, at, until } => self.rest(to, at, until),
            Event::Rested {
                generation,
                snapshot,
                at,
            } => Ok(self.rested(generation, snapshot, at)),
            Event::RestFailed { generation } => Ok(self.rest_failed(generation)),
            Event::Store { until } => self.store(until),
            Event::Sealed {
                generation,
                snapshot,
                at,
            } => Ok(self.sealed(generation, snapshot, at)),
            Event::SnapshotTaken {
                generation,
                snapshot,
            } => Ok(self.snapshot_taken(generation, snapshot)),
            Event::Extended {
                generation,
                expires_at,
            } => Ok(self.extended(generation, expires_at)),
            Event::Migrate { until } => self.migrate(until),
            Event::Captured {
                generation,
                snapshot,
                until,
            } => Ok(self.captured(generation, snapshot, until)),
            Event::Lost {
                generation,
                recovered,
                at,
            } => Ok(self.lost(generation, recovered, at)),
            Event::DeadlinePassed { at } => Ok(self.deadline_passed(at)),
            Event::Recover { origin, until } => self.recover(origin, until),
            Event::Cleared => self.cleared(),
            Event::Stop { reason, at } => Ok(self.stop(reason, at)),
        }
    }

    fn begin(self, origin: Origin, until: Timestamp) -> Moved {
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
                let generation = place.generation;
                Ok(self.booting(held, generation, Way::Wake, until))
            }
            Held::Stored { snapshot } => {
                let origin = Origin::Session(snapshot.clone());
                Ok(self.booting_new(held, origin, until))
            }
            Held::Nothing => Ok(self.booting_new(held, origin, until)),
        }
    }

    fn ready(self, place: Place, expires_at: Option<Timestamp>) -> (Self, Vec<Effect>) {
        match &self.state {
            State::Starting(Starting {
                boot: Boot::UnderWay { generation, .. },
                held,
            }) if *generation == place.generation => {
                let last = held.snapshot().cloned();
                self.serving(place, expires_at, last, Vec::new())
            }
            State::Migrating(Migrating {
                old,
                step: Step::Moving { new, from },
                ..
            }) if *new == place.generation => {
                let (generation, from) = (old.generation, from.clone());
                self.serving(
                    place,
                    expires_at,
                    Some(from),
                    vec![Effect::Discard { generation }],
                )
            }
            _ => self.ending_strangers(place.generation),
        }
    }

    fn boot_failed(
        self,
        generation: Generation,
        fault: Fault,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        match self.state.clone() {
            State::Starting(Starting {
                boot:
                    Boot::UnderWay {
                        generation: ours,
                        way,
                        ..
                    },
                held,
            }) if ours == generation => match way {
                Way::Wake => self.wake_failed(held, fault, at),
                Way::New { .. } => self.new_one_failed(generation, held, fault, at),
            },
            State::Migrating(migrating)
                if migrating.step.new_generation() == generation
                    && matches!(migrating.step, Step::Moving { .. }) =>
            {
                self.stay(migrating)
            }
            _ => self.ending_strangers(generation),
        }
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
                let generation = running.place.generation;
                running.leaving = Some(Leaving { to, until });
                Ok(self.at(
                    State::Running(running),
                    vec![Effect::Rest { generation, until }],
                ))
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
                        generation,
                        way: Way::New { .. },
                        ..
                    } => vec![Effect::Discard {
                        generation: *generation,
                    }],
                    _ => Vec::new(),
                };
                let resting = Resting::on(starting.held, at);
                Ok(self.suspended(reason, resting, discarded, at))
            }
            (State::Starting(_), Rest::Paused(_)) => Err(Refused::NotRunning),
            (State::Suspended(_), Rest::Paused(_)) => Err(Refused::Suspended),
            (State::Stopped(_), _) => Err(Refused::Stopped),
        }
    }

    fn rested(
        self,
        generation: Generation,
        snapshot: Option<SnapshotId>,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        let State::Running(running) = &self.state else {
            return self.ending_strangers(generation);
        };
        if running.place.generation != generation {
            return self.ending_strangers(generation);
        }
        let Some(leaving) = &running.leaving else {
            // Given up by its deadline, and yet it came about.
            return match snapshot {
                None => self.at_same(vec![Effect::Thaw { generation }]),
                Some(_) => self.lost(generation, snapshot, at),
            };
        };
        let held = match snapshot {
            Some(snapshot) => Held::Stored { snapshot },
            None => Held::InPlace {
                place: running.place,
                last: running.last.clone(),
                storing_until: None,
            },
        };
        let to = leaving.to;
        self.resting(to, Resting::on(held, at), at)
    }

    fn rest_failed(self, generation: Generation) -> (Self, Vec<Effect>) {
        match self.state.clone() {
            State::Running(mut running)
                if running.place.generation == generation && running.leaving.is_some() =>
            {
                running.leaving = None;
                self.at(State::Running(running), vec![Effect::Thaw { generation }])
            }
            State::Migrating(migrating)
                if migrating.old.generation == generation
                    && matches!(migrating.step, Step::Capturing { .. }) =>
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
        let generation = place.generation;
        Ok(self.at(State::Paused(paused), vec![Effect::End { generation }]))
    }

    fn sealed(
        mut self,
        generation: Generation,
        snapshot: Option<SnapshotId>,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        match &mut self.state {
            State::Stopped(stopped) => {
                let before = stopped.ending.len();
                stopped.ending.retain(|ending| *ending != generation);
                if stopped.ending.len() < before && snapshot.is_some() {
                    stopped.last = snapshot;
                }
            }
            State::Paused(Paused { resting, .. }) | State::Suspended(Suspended { resting, .. }) => {
                if resting.held.generation() == Some(generation) {
                    resting.settle(snapshot, at);
                }
            }
            State::Starting(_) | State::Running(_) | State::Migrating(_) => {}
        }
        self.unchanged()
    }

    fn snapshot_taken(
        mut self,
        generation: Generation,
        snapshot: SnapshotId,
    ) -> (Self, Vec<Effect>) {
        match &mut self.state {
            State::Running(running) if running.place.generation == generation => {
                running.last = Some(snapshot);
            }
            State::Migrating(migrating)
                if migrating.old.generation == generation
                    && matches!(migrating.step, Step::Capturing { .. }) =>
            {
                migrating.last = Some(snapshot);
            }
            State::Paused(Paused { resting, .. }) | State::Suspended(Suspended { resting, .. }) => {
                if let Held::InPlace { place, last, .. } = &mut resting.held
                    && place.generation == generation
                {
                    *last = Some(snapshot);
                }
            }
            _ => {}
        }
        self.unchanged()
    }

    fn extended(mut self, generation: Generation, expires_at: Timestamp) -> (Self, Vec<Effect>) {
        match &mut self.state {
            State::Running(running) if running.place.generation == generation => {
                running.expires_at = Some(expires_at);
            }
            State::Migrating(migrating) if migrating.old.generation == generation => {
                migrating.expires_at = Some(expires_at);
            }
            _ => {}
        }
        self.unchanged()
    }

    fn migrate(mut self, until: Timestamp) -> Moved {
        match self.state.clone() {
            State::Running(running) if running.leaving.is_some() => Err(Refused::Leaving),
            State::Running(Running {
                place,
                expires_at,
                last,
                ..
            }) => {
                self.generation = self.generation.next();
                let new = self.generation;
                let migrating = Migrating {
                    old: place,
                    expires_at,
                    last,
                    step: Step::Capturing { new },
                    until,
                };
                Ok(self.at(
                    State::Migrating(migrating),
                    vec![Effect::Capture {
                        generation: place.generation,
                        until,
                    }],
                ))
            }
            State::Migrating(_) => Ok(self.unchanged()),
            State::Starting(_) | State::Paused(_) => Err(Refused::NotRunning),
            State::Suspended(_) => Err(Refused::Suspended),
            State::Stopped(_) => Err(Refused::Stopped),
        }
    }

    fn captured(
        self,
        generation: Generation,
        snapshot: SnapshotId,
        until: Timestamp,
    ) -> (Self, Vec<Effect>) {
        match self.state.clone() {
            State::Migrating(mut migrating) if migrating.old.generation == generation => {
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
                    generation: new,
                    way: Way::New {
                        origin: Origin::Session(snapshot),
                    },
                    until,
                };
                self.at(State::Migrating(migrating), vec![boot])
            }
            // Given up by its deadline, and yet it came about: it stands still for nothing.
            State::Running(mut running) if running.place.generation == generation => {
                running.last = Some(snapshot);
                let effects = match running.leaving {
                    // The pause under way ends that.
                    Some(_) => Vec::new(),
                    None => vec![Effect::Thaw { generation }],
                };
                self.at(State::Running(running), effects)
            }
            _ => self.ending_strangers(generation),
        }
    }

    fn lost(
        self,
        generation: Generation,
        recovered: Option<SnapshotId>,
        at: Timestamp,
    ) -> (Self, Vec<Effect>) {
        match self.state.clone() {
            State::Running(running) if running.place.generation == generation => {
                let to = running
                    .leaving
                    .map_or(Rest::Paused(PauseReason::Recovered), |leaving| leaving.to);
                self.gone(to, running.last, recovered, at)
            }
            State::Migrating(migrating) if migrating.old.generation == generation => {
                match migrating.step {
                    Step::Capturing { .. } => self.gone(
                        Rest::Paused(PauseReason::Recovered),
                        migrating.last,
                        recovered,
                        at,
                    ),
                    // All it had is in the snapshot that the new one starts from.
                    Step::Moving { .. } => self.unchanged(),
                }
            }
            State::Starting(Starting {
                boot:
                    Boot::UnderWay {
                        generation: ours,
                        way: Way::Wake,
                        ..
                    },
                held,
            }) if ours == generation => self.gone(
                Rest::Paused(PauseReason::Recovered),
                held.snapshot().cloned(),
                recovered,
                at,
            ),
            State::Paused(Paused { resting, reason })
                if resting.held.generation() == Some(generation) =>
            {
                let last = resting.held.snapshot().cloned();
                self.gone(Rest::Paused(reason), last, recovered, at)
            }
            State::Suspended(Suspended { resting, reason })
                if resting.held.generation() == Some(generation) =>
            {
                let last = resting.held.snapshot().cloned();
                self.gone(Rest::Suspended(reason), last, recovered, at)
            }
            State::Stopped(_) => self.sealed(generation, recovered, at),
            State::Starting(_)
            | State::Migrating(_)
            | State::Running(_)
            | State::Paused(_)
            | State::Suspended(_) => {
                let fault = Fault {
                    code: FaultCode::Provider,
                    message: "the new sandbox ended while it was starting".to_owned(),
                };
                if self.generations().contains(&generation) {
                    self.boot_failed(generation, fault, at)
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
                boot: Boot::UnderWay { generation, .. },
                ..
            }) => {
                let fault = Fault {
                    code: FaultCode::DeadlinePassed,
                    message: "it did not start in time".to_owned(),
                };
                self.boot_failed(generation, fault, at)
            }
            State::Running(running) => self.rest_failed(running.place.generation),
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

    fn recover(self, origin: Origin, until: Timestamp) -> Moved {
        match &self.state {
            State::Paused(paused) if paused.resting.degraded.is_some() => {
                let held = match &origin {
                    Origin::Session(snapshot) => Held::Stored {
                        snapshot: snapshot.clone(),
                    },
                    _ => Held::Nothing,
                };
                Ok(self.booting_new(held, origin, until))
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
                        generation,
                        way: Way::New { .. },
                        ..
                    },
                ..
            }) => (Vec::new(), Some(*generation)),
            State::Migrating(migrating) => (
                vec![migrating.old.generation],
                Some(migrating.step.new_generation()),
            ),
            _ => (self.generations(), None),
        };
        let effects = ending
            .iter()
            .map(|generation| Effect::End {
                generation: *generation,
            })
            .chain(discarded.map(|generation| Effect::Discard { generation }))
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
