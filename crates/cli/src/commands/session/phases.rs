//! What a session is at while somebody waits for it: its phases, and how long each took.

use client::{Body, Client, Follow, FollowOptions, Update};
use wire::link::{Phase, PhaseState};
use wire::v1::Event;

use super::took;
use crate::output::Progress;

/// Of phases that are over, the last ones.
const SHOWN: usize = 3;

#[derive(Debug, Default)]
pub(super) struct Phases {
    over: Vec<String>,
    now: Option<String>,
}

impl Phases {
    pub(super) fn hear(&mut self, phase: &Phase) {
        match phase.state {
            PhaseState::Started => self.now = Some(phase.name.clone()),
            PhaseState::Skipped => {}
            PhaseState::Done | PhaseState::Failed => {
                if self.now.as_ref() == Some(&phase.name) {
                    self.now = None;
                }
                let time = phase.took_ms.map(took).unwrap_or_default();
                let over = format!("{} {time}", phase.name);
                self.over.push(over.trim_end().to_owned());
            }
        }
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
    let since = client
        .session(id)
        .await
        .ok()
        .map(|session| session.last_seq);
    let options = FollowOptions {
        since,
        wake: false,
        ..FollowOptions::default()
    };
    let Ok(mut follow) = client.follow_with(id, options) else {
        return work.await;
    };
    let mut phases = Phases::default();
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
