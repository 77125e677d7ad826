//! The phases of a start that are the hub's own: context, origin, sandbox, link. Those of the
//! workplace follow.

use std::time::Duration;

use model::Timestamp;
use model::session::{Effect, Way};
use serde_json::json;
use store::{NewEvent, Write};

use super::commits::Then;
use super::{End, Hub};

#[derive(Debug, Default)]
pub(super) struct Phases {
    /// When somebody last wished it to run.
    wished: Option<Timestamp>,
    /// Of a start: when its last phase was over.
    since: Option<Timestamp>,
}

impl Phases {
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.wished = Some(now);
    }
}

impl Hub {
    /// What was read and what was chosen, where that leads to a start.
    pub(super) async fn tell_what_it_starts_from(&mut self, effects: &[Effect]) -> Result<(), End> {
        let way = effects.iter().find_map(|effect| match effect {
            Effect::Boot { way, .. } => Some(way),
            _ => None,
        });
        let Some(way) = way else { return Ok(()) };
        let now = self.shared.clock.now();
        self.phases.since = Some(self.phases.wished.take().unwrap_or(now));
        self.phase_is_over("context").await?;
        let origin = match way {
            Way::Wake => "memory",
            Way::New { origin } => origin.name(),
        };
        self.tell_phase("origin", Some(origin)).await
    }

    /// Told with the time since the phase before it was over.
    pub(super) async fn phase_is_over(&mut self, name: &str) -> Result<(), End> {
        self.tell_phase(name, None).await
    }

    async fn tell_phase(&mut self, name: &str, detail: Option<&str>) -> Result<(), End> {
        let now = self.shared.clock.now();
        let Some(since) = self.phases.since.replace(now) else {
            return Ok(());
        };
        let took = now.duration_since(since).as_millis();
        let took_ms = u64::try_from(took).unwrap_or_default();
        // The sandbox's own is timed by whoever makes it.
        if name != "sandbox" {
            let took = Duration::from_millis(took_ms);
            self.traces.phase(name, took, None);
        }
        tracing::info!(phase = name, took_ms, "a phase of a start is over");
        let mut phase = json!({ "name": name, "state": "done", "took_ms": took_ms });
        if let Some(detail) = detail {
            phase["detail"] = detail.into();
        }
        let status = self.lifecycle.client_status();
        let body = json!({ "type": "status", "status": status, "phase": phase });
        let event = NewEvent::from_json(body.to_string())?;
        let write = Write::new(self.fence, now).event(event);
        self.submit(write, Then::default()).await
    }
}
