//! Sandboxes that die one after the other are not made anew at once: whatever kills them would have
//! the machine to itself. Whoever wants one nevertheless says so.

use std::collections::VecDeque;
use std::time::Duration;

use model::{SignedDuration, Timestamp};

use crate::registry::later;

/// So many losses in so long are one too many.
const LOSSES: usize = 3;
const WITHIN: SignedDuration = SignedDuration::from_mins(10);
/// The first time, the second, and from then on.
const PAUSES: [Duration; 3] = [
    Duration::from_mins(1),
    Duration::from_mins(5),
    Duration::from_mins(15),
];

#[derive(Debug, Default)]
pub(super) struct Cooling {
    lost: VecDeque<Timestamp>,
    times: usize,
    until: Option<Timestamp>,
}

impl Cooling {
    /// Another is gone. How long it is waited before the next is made, if it is.
    pub(super) fn lost(&mut self, now: Timestamp) -> Option<Duration> {
        self.lost.retain(|at| now.duration_since(*at) < WITHIN);
        if self.lost.is_empty() {
            self.times = 0;
        }
        self.lost.push_back(now);
        if self.lost.len() < LOSSES {
            return None;
        }
        // As many as count.
        while self.lost.len() > LOSSES {
            self.lost.pop_front();
        }
        let pause = PAUSES[self.times.min(PAUSES.len() - 1)];
        self.times += 1;
        self.until = Some(later(now, pause));
        Some(pause)
    }

    /// Until when nothing is woken by itself.
    pub(super) fn until(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).unwrap()
    }

    #[test]
    fn three_losses_in_ten_minutes_cool_it_longer_each_time() {
        let mut cooling = Cooling::default();
        let pauses: Vec<Option<u64>> = [0, 1, 2, 4, 9, 12]
            .map(|minute| cooling.lost(at(minute)).map(|pause| pause.as_secs() / 60))
            .into();
        assert_eq!(pauses, [None, None, Some(1), Some(5), Some(15), Some(15)]);
        assert_eq!(cooling.until(at(26)), Some(at(27)));
        assert_eq!(cooling.until(at(27)), None);
    }

    #[test]
    fn losses_that_are_far_apart_cool_nothing_and_are_forgotten() {
        let mut cooling = Cooling::default();
        for minute in [0, 6, 12, 18, 40] {
            assert_eq!(cooling.lost(at(minute)), None, "{minute}");
        }
        assert_eq!(cooling.lost(at(41)), None);
        assert_eq!(cooling.lost(at(42)), Some(PAUSES[0]));
    }
}
