//! The way out of the sandbox that serves: what it was refused is told, and what people let through
//! is handed to its provider.

use std::sync::Arc;
use std::time::Duration;

use model::session::{Place, Refused, State};
use provider::{Blocked, Capability, Network, Pass, Provider, SandboxId};
use serde_json::json;
use store::{NewEvent, Write};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::commits::Then;
use super::sieve::{Sieve, Telling};
use super::{Command, End, Hub, Letter, Reply, answer};
use crate::{HubError, Spec};

/// Hosts that one session may have let through: for good, and for a time.
const ALWAYS: usize = 256;
const SOME_TIME: usize = 64;
/// Of what was told before, as much as is remembered.
const BEFORE: u32 = 256;

/// To the way out of one sandbox.
#[derive(Debug)]
pub(super) struct WayOut {
    place: Place,
    wanted: watch::Sender<Wanted>,
    /// The number of what the provider has last agreed to.
    agreed: watch::Receiver<u64>,
    _watching: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone)]
struct Wanted {
    number: u64,
    passes: Vec<Pass>,
}

/// What somebody waits for who let something through.
#[derive(Debug)]
pub(crate) struct Granted {
    /// None where no sandbox runs: the next one has it from its start.
    pub(crate) agreed: Option<(watch::Receiver<u64>, u64)>,
}

impl Hub {
    /// Whoever serves the session is looked after. One that is on its way has what is let through
    /// from its start, and what it is refused meanwhile is told when it serves; of one that is being
    /// left nobody asks anything more.
    pub(super) fn follow_way_out(&mut self) {
        let serves = match &self.lifecycle.state {
            State::Running(_) if self.booting.is_none() => self.lifecycle.place(),
            _ => None,
        };
        let wanted = serves.filter(|_| {
            self.spec.machine.network == Network::Proxy
                && self.hand.provider.capabilities().has(Capability::Egress)
        });
        if self.way_out.as_ref().map(|way| way.place) == wanted {
            return;
        }
        self.way_out = wanted.map(|place| self.look_after(place));
    }

    fn look_after(&self, place: Place) -> WayOut {
        let passes = self.spec.machine.all_passes(self.shared.clock.now());
        let first = Wanted {
            // What nobody ever let through need not be said.
            number: u64::from(!passes.is_empty()),
            passes,
        };
        let (wanted, orders) = watch::channel(first);
        let (agreeing, agreed) = watch::channel(0);
        let watching = Watching {
            provider: Arc::clone(&self.hand.provider),
            sandbox: place.sandbox,
            place,
            every: self.shared.settings.look_out,
            call: self.shared.settings.call,
            inbox: self.inbox.clone(),
        };
        let watching = self.shared.tasks.spawn(watching.run(orders, agreeing));
        WayOut {
            place,
            wanted,
            agreed,
            _watching: AbortOnDropHandle::new(watching),
        }
    }

    /// Its sandbox asked for these and did not get them.
    pub(super) async fn tell_blocked(
        &mut self,
        place: Place,
        blocked: Vec<Blocked>,
    ) -> Result<(), End> {
        if self.way_out.as_ref().map(|way| way.place) != Some(place) {
            return Ok(());
        }
        let now = self.shared.clock.now();
        let sieve = match &mut self.sieve {
            Some(sieve) => sieve,
            none => {
                let store = &self.shared.store;
                let told = store.blocked_events(self.fence.session, BEFORE).await?;
                let told = told.iter().rev();
                let before = told.filter_map(|event| serde_json::from_str(&event.body).ok());
                none.insert(Sieve::new(before, now))
            }
        };
        let tellings = sieve.sift(blocked, now);
        if tellings.is_empty() {
            return Ok(());
        }
        let events: Vec<NewEvent> = tellings
            .iter()
            .filter_map(|telling| NewEvent::from_json(told(telling)).ok())
            .collect();
        let write = Write::new(self.fence, now).events(events);
        self.submit(write, Then::default()).await
    }

    /// Written first, and handed to the sandbox then.
    pub(super) async fn let_out(
        &mut self,
        pass: Pass,
        event: NewEvent,
        reply: Reply<Granted>,
    ) -> Result<(), End> {
        if matches!(self.lifecycle.state, State::Stopped(_)) {
            answer(reply, Err(Refused::Stopped.into()));
            return Ok(());
        }
        let now = self.shared.clock.now();
        let record = self.shared.store.load_session(self.fence.session).await?;
        let read = serde_json::from_str::<Spec>(&record.spec);
        let mut spec = match read {
            Ok(spec) => spec,
            Err(error) => {
                answer(reply, Err(HubError::BadSpec(error.to_string())));
                return Ok(());
            }
        };
        let machine = &mut spec.machine;
        machine.passes.retain(|known| {
            known.rule != pass.rule && known.until.is_some_and(|until| until > now)
        });
        match pass.until {
            Some(_) => machine.passes.push(pass),
            None if machine.allow.contains(&pass.rule) => {}
            None => machine.allow.push(pass.rule),
        }
        if machine.allow.len() > ALWAYS || machine.passes.len() > SOME_TIME {
            let full = store::Error::Full("the list of hosts that the session may reach");
            answer(reply, Err(full.into()));
            return Ok(());
        }
        let write = Write::new(self.fence, now)
            .spec(serde_json::to_string(&spec).unwrap_or_default())
            .event(event);
        let (done, mut is_done) = oneshot::channel();
        self.submit(write, Then::wanted(done)).await?;
        self.settle().await?;
        if let Err(error) = is_done.try_recv().unwrap_or(Err(HubError::Gone)) {
            answer(reply, Err(error));
            return Ok(());
        }
        self.hand.machine = spec.machine.clone();
        self.spec = spec;
        let agreed = self.way_out.as_ref().map(|way| {
            let passes = self.spec.machine.all_passes(now);
            way.wanted.send_modify(|wanted| {
                wanted.number += 1;
                wanted.passes = passes;
            });
            (way.agreed.clone(), way.wanted.borrow().number)
        });
        answer(reply, Ok(Granted { agreed }));
        Ok(())
    }
}

/// As it is in the log; read again by whoever owns the session next.
fn told(telling: &Telling) -> String {
    let Telling { blocked, untold } = telling;
    let mut event = json!({
        "type": "egress_blocked",
        "at": blocked.at,
        "host": blocked.host,
        "port": blocked.port,
        "reason": blocked.reason,
        "can_allow": blocked.is_unlisted(),
    });
    if *untold > 0 {
        event["untold"] = (*untold).into();
    }
    event.to_string()
}

/// Looks after the way out of one sandbox, until it is dropped.
struct Watching {
    provider: Arc<dyn Provider>,
    sandbox: SandboxId,
    place: Place,
    every: Duration,
    call: Duration,
    inbox: mpsc::Sender<Letter>,
}

impl Watching {
    async fn run(self, mut orders: watch::Receiver<Wanted>, agreeing: watch::Sender<u64>) {
        let mut mark: Option<String> = None;
        let mut looks = interval(self.every);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = orders.changed() => if changed.is_err() {
                    return;
                },
                _ = looks.tick() => {}
            }
            let wanted = orders.borrow_and_update().clone();
            if wanted.number != *agreeing.borrow() {
                let letting = self.provider.let_out(self.sandbox, &wanted.passes);
                match timeout(self.call, letting).await {
                    Ok(Ok(())) => drop(agreeing.send_replace(wanted.number)),
                    // Asked again at the next look.
                    Ok(Err(error)) => {
                        tracing::debug!(sandbox = %self.sandbox, %error, "nothing is let through yet");
                    }
                    Err(_) => {}
                }
            }
            let looking = self.provider.refusals(self.sandbox, mark.as_deref());
            let Ok(Ok(refusals)) = timeout(self.call, looking).await else {
                continue;
            };
            mark = Some(refusals.mark);
            if refusals.blocked.is_empty() {
                continue;
            }
            let told = Command::Blocked(self.place, refusals.blocked);
            if self.inbox.send(told.into()).await.is_err() {
                return;
            }
        }
    }
}
