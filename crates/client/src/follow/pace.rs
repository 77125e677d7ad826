use std::time::Duration;

use tokio::time::Instant;

/// Who just woke up wants to know soon whether the line is still there.
const NUDGED: Duration = Duration::from_secs(5);

/// How patient a follow is.
#[derive(Debug, Clone)]
pub struct Pace {
    /// A line that is silent for so long is asked whether it lives.
    pub ping_after: Duration,
    /// And is given up when it is silent for so long.
    pub dead_after: Duration,
    /// Between tries; the last one over and over.
    pub waits: Vec<Duration>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            ping_after: Duration::from_secs(15),
            dead_after: Duration::from_secs(35),
            waits: [0, 1, 2, 5, 10, 30].map(Duration::from_secs).to_vec(),
        }
    }
}

/// Whether the other side lives.
#[derive(Debug)]
pub(super) struct Pulse {
    heard: Instant,
    /// It was asked, and has until then.
    asked: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Silence {
    Ask,
    Dead,
}

impl Pulse {
    pub(super) fn at(now: Instant) -> Self {
        Self {
            heard: now,
            asked: None,
        }
    }

    /// When something is to be done about its silence.
    pub(super) fn due(&self, pace: &Pace) -> Instant {
        self.asked.unwrap_or(self.heard + pace.ping_after)
    }

    /// What is to be done by then.
    pub(super) fn is_due(&mut self, pace: &Pace) -> Silence {
        if self.asked.is_some() {
            return Silence::Dead;
        }
        self.asked = Some(self.heard + pace.dead_after);
        Silence::Ask
    }

    /// It is asked out of turn.
    pub(super) fn nudge(&mut self, now: Instant, pace: &Pace) {
        let soon = now + NUDGED.min(pace.dead_after);
        self.asked = Some(self.asked.map_or(soon, |asked| asked.min(soon)));
    }
}

/// Counts tries that came to nothing.
#[derive(Debug, Default)]
pub(super) struct Tries(usize);

impl Tries {
    pub(super) fn came_to_something(&mut self) {
        self.0 = 0;
    }

    /// How long to wait now; `chance` is from 0 to 1, so that not all clients come back at once.
    pub(super) fn next(&mut self, pace: &Pace, chance: f64) -> Duration {
        let last = pace.waits.len().saturating_sub(1);
        let wait = pace.waits.get(self.0.min(last));
        self.0 = self.0.saturating_add(1).min(last + 1);
        wait.copied()
            .unwrap_or(Duration::from_secs(1))
            .mul_f64(0.75 + chance.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_line_is_asked_first_and_a_nudged_one_has_little_time() {
        let (pace, now) = (Pace::default(), Instant::now());
        let mut pulse = Pulse::at(now);
        assert_eq!(pulse.due(&pace), now + pace.ping_after);
        assert_eq!(pulse.is_due(&pace), Silence::Ask);
        assert_eq!(pulse.due(&pace), now + pace.dead_after);
        pulse.nudge(now, &pace);
        assert_eq!(pulse.due(&pace), now + NUDGED);
        assert_eq!(pulse.is_due(&pace), Silence::Dead);
    }

    #[test]
    fn it_comes_back_at_once_and_then_ever_less_often() {
        let (mut tries, pace) = (Tries::default(), Pace::default());
        let waits: Vec<u64> = (0..8).map(|_| tries.next(&pace, 0.5).as_secs()).collect();
        assert_eq!(waits, [0, 1, 2, 5, 10, 30, 30, 30]);
        tries.came_to_something();
        assert_eq!(tries.next(&pace, 1.0), Duration::ZERO);
        assert_eq!(tries.next(&pace, 1.0), Duration::from_millis(1250));
    }
}
