//! What a session is at while somebody waits for it: its phases, and how long each took.

use client::{Body, Client, Follow, FollowOptions, Update};
use tokio::time::timeout;
use wire::link::{Phase, PhaseState};
use wire::v1::{ClientStatus, Event, Session};

use super::took;
use crate::output::{APPEARS_AFTER, Progress};

/// Of phases that are over, the last ones.
const SHOWN: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Phases {
    over: Vec<String>,
    now: Option<String>,
}

impl Phases {
    /// Those of a start that is under way.
    fn of(session: &Session) -> Self {
        let mut phases = Self::default();
        let is_starting = matches!(
            session.client_status,
            ClientStatus::Creating | ClientStatus::Resuming | ClientStatus::Migrating
        );
        for phase in session.phases.iter().filter(|_| is_starting) {
            match phase.state.as_str() {
                "started" => phases.now = Some(phase.name.clone()),
                "done" | "failed" => phases.end(&phase.name, phase.took_ms),
                _ => {}
            }
        }
        phases
    }

    fn is_empty(&self) -> bool {
        self.over.is_empty() && self.now.is_none()
    }

    pub(super) fn hear(&mut self, phase: &Phase) {
        match phase.state {
            PhaseState::Started => self.now = Some(phase.name.clone()),
            PhaseState::Skipped => {}
            PhaseState::Done | PhaseState::Failed => self.end(&phase.name, phase.took_ms),
        }
    }

    fn end(&mut self, name: &str, took_ms: Option<u64>) {
        if self.now.as_deref() == Some(name) {
            self.now = None;
        }
        let time = took_ms.map(took).unwrap_or_default();
        let over = format!("{name} {time}");
        self.over.push(over.trim_end().to_owned());
    }

    /// In one line: `starting: sandbox 80 ms, clone 2.1 s, agent …`.
    pub(super) fn line(&self, doing: &str) -> String {
        let over = &self.over[self.over.len().saturating_sub(SHOWN)..];
        let now = self.now.iter().map(|now| format!("{now} …"));
        let all: Vec<String> = over.iter().cloned().chain(now).collect();
        if all.is_empty() {
            return doing.to_owned();
        }
        format!("{doing}: {}", all.join(", "))
    }
}

/// Waits for the work, and meanwhile says what the session is at.
pub(super) async fn shown<T>(
    client: &Client,
    id: &str,
    doing: &str,
    progress: &Progress,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    if !progress.is_shown() {
        return work.await;
    }
    // What is quick is not looked at.
    if let Ok(done) = timeout(APPEARS_AFTER, &mut work).await {
        return done;
    }
    let session = tokio::select! {
        done = &mut work => return done,
        session = client.session(id) => session.ok(),
    };
    let mut phases = session.as_ref().map(Phases::of).unwrap_or_default();
    if !phases.is_empty() {
        progress.say(&phases.line(doing));
    }
    let options = FollowOptions {
        since: session.map(|session| session.last_seq),
        wake: false,
        ..FollowOptions::default()
    };
    let Ok(mut follow) = client.follow_with(id, options) else {
        return work.await;
    };
    loop {
        tokio::select! {
            done = &mut work => return done,
            phase = next_phase(&mut follow) => {
                phases.hear(&phase);
                progress.say(&phases.line(doing));
            }
        }
    }
}

/// Never, when nothing more is told: the work says why.
async fn next_phase(follow: &mut Follow) -> Phase {
    while let Some(update) = follow.next().await {
        if let Update::Frame(frame) = update
            && let Body::Event(event) = &frame.body
            && let Event::Status {
                phase: Some(phase), ..
            } = &**event
        {
            return phase.clone();
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, state: PhaseState, took_ms: Option<u64>) -> Phase {
        Phase {
            name: name.to_owned(),
            state,
            took_ms,
            detail: None,
        }
    }

    #[test]
    fn who_comes_later_is_told_what_is_over() {
        let told = |status: &str| {
            let session = serde_json::json!({"id": "ses_1", "org_id": "org_1", "title": "pearls",
                "status": "starting", "client_status": status, "type": "coding", "channel": "cli",
                "provider": "local", "agent": "opencode", "generation": 1,
                "created_at": "2026-01-01T00:00:00Z", "last_active_at": "2026-01-01T00:00:00Z",
                "last_seq": 9, "phases": [
                    {"name": "sandbox", "state": "started", "started_at": "2026-01-01T00:00:00Z"},
                    {"name": "sandbox", "state": "done", "took_ms": 80,
                        "started_at": "2026-01-01T00:00:00Z"},
                    {"name": "agent", "state": "started", "started_at": "2026-01-01T00:00:00Z"}]});
            Phases::of(&serde_json::from_value(session).unwrap()).line("moving")
        };
        assert_eq!(told("migrating"), "moving: sandbox 80 ms, agent …");
        // Those of a start that is long over are not.
        assert_eq!(told("running"), "moving");
    }

    #[test]
    fn phases_are_told_with_their_times() {
        let mut phases = Phases::default();
        assert_eq!(phases.line("starting"), "starting");
        for told in [
            phase("sandbox", PhaseState::Started, None),
            phase("sandbox", PhaseState::Done, Some(80)),
            phase("prebuild", PhaseState::Skipped, None),
            phase("clone", PhaseState::Done, Some(2100)),
            phase("agent", PhaseState::Started, None),
        ] {
            phases.hear(&told);
        }
        assert_eq!(
            phases.line("starting"),
            "starting: sandbox 80 ms, clone 2.1 s, agent …"
        );
    }
}
