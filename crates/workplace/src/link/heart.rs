//! Is the other side there? Pings, and what a jump of the clock means for them. Pure.

use std::fmt;
use std::time::Duration;

/// Time that goes on while we are frozen or the machine sleeps.
pub trait Clock: fmt::Debug + Send {
    fn now(&self) -> Duration;
}

/// The kernel's `CLOCK_BOOTTIME`.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or_default(),
            u32::try_from(time.tv_nsec).unwrap_or_default(),
        )
    }
}

pub(super) const INTERVAL: Duration = Duration::from_secs(30);
/// Silence for this long, with pings unanswered.
const SILENCE: Duration = Duration::from_mins(1);
/// After a thaw the other side is asked at once, and may be slow to wake.
const AFTER_JUMP: Duration = Duration::from_secs(5);
/// Waking so much later than asked is no slow machine: we were frozen.
const JUMP: Duration = Duration::from_secs(3);

/// Of one connection, in the clock's time.
#[derive(Debug)]
pub(super) struct Heart {
    ping_at: Duration,
    dead_at: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Beat {
    Nothing,
    Ping,
    /// Nobody is there.
    Dead,
}

impl Heart {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            ping_at: now + INTERVAL,
            dead_at: now + SILENCE,
        }
    }

    /// When to look again.
    pub(super) fn next(&self) -> Duration {
        self.ping_at.min(self.dead_at)
    }

    pub(super) fn heard(&mut self, now: Duration) {
        self.dead_at = now + SILENCE;
    }

    /// The clock jumped: what was not answered meanwhile says nothing. Ask again, now.
    pub(super) fn jumped(&mut self, now: Duration) {
        self.ping_at = now;
        self.dead_at = now + AFTER_JUMP;
    }

    pub(super) fn beat(&mut self, now: Duration) -> Beat {
        if now >= self.dead_at {
            return Beat::Dead;
        }
        if now >= self.ping_at {
            self.ping_at = now + INTERVAL;
            return Beat::Ping;
        }
        Beat::Nothing
    }
}

/// Notices that we were frozen.
#[derive(Debug, Default)]
pub(super) struct Wakefulness {
    wake_by: Option<Duration>,
}

impl Wakefulness {
    /// Before a sleep that ends by then.
    pub(super) fn sleep(&mut self, until: Duration) {
        self.wake_by = Some(until);
    }

    /// Whether it ended much later than it should.
    pub(super) fn wake(&mut self, now: Duration) -> bool {
        self.wake_by.take().is_some_and(|by| now > by + JUMP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_ping_goes_out_every_half_minute() {
        let mut heart = Heart::new(at(0));
        assert_eq!(heart.beat(at(29)), Beat::Nothing);
        assert_eq!(heart.beat(at(30)), Beat::Ping);
        heart.heard(at(30));
        assert_eq!(heart.next(), at(60));
        assert_eq!(heart.beat(at(60)), Beat::Ping);
    }

    #[test]
    fn whoever_answers_nothing_for_two_intervals_is_dead() {
        let mut heart = Heart::new(at(0));
        assert_eq!(heart.beat(at(30)), Beat::Ping);
        assert_eq!(heart.beat(at(59)), Beat::Nothing);
        assert_eq!(heart.beat(at(60)), Beat::Dead);
    }

    #[test]
    fn a_thaw_is_not_taken_for_a_dead_peer() {
        let mut heart = Heart::new(at(0));
        let mut wakefulness = Wakefulness::default();
        wakefulness.sleep(at(30));
        let now = at(3600);
        assert!(wakefulness.wake(now));
        heart.jumped(now);
        assert_eq!(heart.beat(now), Beat::Ping);
        heart.heard(at(3601));
        assert_eq!(heart.beat(at(3610)), Beat::Nothing);
    }

    #[test]
    fn after_a_thaw_a_peer_that_is_gone_is_noticed_soon() {
        let mut heart = Heart::new(at(0));
        heart.jumped(at(3600));
        assert_eq!(heart.beat(at(3600)), Beat::Ping);
        assert_eq!(heart.beat(at(3605)), Beat::Dead);
    }

    #[test]
    fn a_slow_machine_is_not_a_jump() {
        let mut wakefulness = Wakefulness::default();
        wakefulness.sleep(at(30));
        assert!(!wakefulness.wake(at(32)));
        assert!(!wakefulness.wake(at(4000)), "nobody slept");
    }
}
