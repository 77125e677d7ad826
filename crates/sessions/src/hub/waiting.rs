use model::session::{Boot, Fault, FaultCode, Lifecycle, Place, Refused, State};

use store::snapshots::Snapshot as Receipt;

use super::Reply;
use crate::HubError;

/// Whoever waits for the session to be somewhere. Dropped with the hub, they all learn that it is
/// gone.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    ready: Vec<Reply<Place>>,
    /// With the sandbox that it is to leave.
    moved: Vec<(Place, Reply<Place>)>,
    rested: Vec<Reply<Option<Receipt>>>,
}

impl Waiting {
    pub(super) fn for_ready(&mut self, reply: Reply<Place>) {
        self.ready.push(reply);
    }

    pub(super) fn for_move(&mut self, from: Place, reply: Reply<Place>) {
        self.moved.push((from, reply));
    }

    pub(super) fn for_rest(&mut self, reply: Reply<Option<Receipt>>) {
        self.rested.push(reply);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.moved.is_empty() && self.rested.is_empty()
    }

    pub(super) fn wants_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(super) fn tell_ready(&mut self, lifecycle: &Lifecycle) {
        if let Some(answer) = ready(lifecycle) {
            tell(&mut self.ready, &answer);
            for (from, reply) in self.moved.drain(..) {
                let answer = match &answer {
                    Ok(place) if *place == from => Err(HubError::Failed(Fault {
                        code: FaultCode::Provider,
                        message: "the move did not come about; the session runs on".to_owned(),
                    })),
                    answer => answer.clone(),
                };
                // Whoever asked may have gone.
                let _ = reply.send(answer);
            }
        }
    }

    pub(super) fn wants_rest(&self) -> bool {
        !self.rested.is_empty()
    }

    /// With the receipt for what was kept, if there was anything.
    pub(super) fn tell_rested(&mut self, lifecycle: &Lifecycle, receipt: Option<&Receipt>) {
        if let Some(answer) = rested(lifecycle) {
            let answer = answer.map(|()| receipt.cloned());
            tell(&mut self.rested, &answer);
        }
    }
}

fn tell<T: Clone>(waiting: &mut Vec<Reply<T>>, answer: &Result<T, HubError>) {
    for reply in waiting.drain(..) {
        // Whoever asked may have gone.
        let _ = reply.send(answer.clone());
    }
}

/// None while it is on its way.
fn ready(lifecycle: &Lifecycle) -> Option<Result<Place, HubError>> {
    match &lifecycle.state {
        State::Running(running) => running.leaving.is_none().then_some(Ok(running.place)),
        State::Migrating(_) => None,
        State::Starting(starting) => match &starting.boot {
            Boot::Failed { fault, .. } => Some(Err(HubError::Failed(fault.clone()))),
            Boot::UnderWay { .. } | Boot::Unasked => None,
        },
        State::Paused(paused) => {
            let resting = &paused.resting;
            let is_storing = lifecycle.deadline().is_some();
            if is_storing && resting.fault.is_none() && resting.degraded.is_none() {
                // Once it is on disk it is begun again.
                return None;
            }
            Some(Err(match (&resting.degraded, &resting.fault) {
                (Some(_), _) => Refused::Degraded.into(),
                (None, Some(fault)) => HubError::Failed(fault.clone()),
                (None, None) => Refused::NotRunning.into(),
            }))
        }
        State::Suspended(_) => Some(Err(Refused::Suspended.into())),
        State::Stopped(_) => Some(Err(Refused::Stopped.into())),
    }
}

fn rested(lifecycle: &Lifecycle) -> Option<Result<(), HubError>> {
    match &lifecycle.state {
        State::Running(running) => running.leaving.is_none().then(|| {
            Err(HubError::Failed(Fault {
                code: FaultCode::Provider,
                message: "the pause did not come about; the session runs on".to_owned(),
            }))
        }),
        State::Paused(_) | State::Suspended(_) => Some(Ok(())),
        State::Stopped(_) => Some(Err(Refused::Stopped.into())),
        State::Starting(_) | State::Migrating(_) => None,
    }
}
