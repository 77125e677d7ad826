//! When to try again.

use std::time::Duration;

/// After these, and then after the last for ever.
const DELAYS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
];

/// A number from anywhere, so that a thousand runners do not come back at once.
pub type Jitter = Box<dyn FnMut() -> u32 + Send>;

pub(super) struct Backoff {
    tried: usize,
    jitter: Jitter,
}

impl Backoff {
    pub(super) fn new(jitter: Jitter) -> Self {
        Self { tried: 0, jitter }
    }

    /// How long to wait before the next try: a fifth more or less than the plan says.
    pub(super) fn next(&mut self) -> Duration {
        let delay = DELAYS[self.tried.min(DELAYS.len() - 1)];
        self.tried += 1;
        let share = f64::from((self.jitter)()) / f64::from(u32::MAX);
        delay.mul_f64(0.8 + 0.4 * share)
    }

    /// The next try is at once.
    pub(super) fn reset(&mut self) {
        self.tried = 0;
    }
}

/// From the kernel.
pub fn random() -> Jitter {
    Box::new(|| {
        let mut bytes = [0; 4];
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        u32::from_ne_bytes(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_try_is_at_once_and_later_ones_come_ever_more_slowly() {
        let mut backoff = Backoff::new(Box::new(|| u32::MAX / 2));
        let mut delays = || backoff.next().as_secs_f64().round();
        let waited: Vec<f64> = std::iter::repeat_with(&mut delays).take(8).collect();
        assert_eq!(waited, [0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 30.0, 30.0]);
        backoff.reset();
        assert_eq!(backoff.next(), Duration::ZERO);
    }

    #[test]
    fn no_delay_is_further_from_the_plan_than_a_fifth() {
        for edge in [0, u32::MAX] {
            let mut backoff = Backoff::new(Box::new(move || edge));
            for plan in [0.0, 1.0, 2.0, 5.0, 10.0, 30.0] {
                let off = (backoff.next().as_secs_f64() - plan).abs();
                assert!(off <= plan * 0.2 + 1e-6, "{plan} {off}");
            }
        }
    }
}
