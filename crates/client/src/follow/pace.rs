use std::time::Duration;

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
    fn it_comes_back_at_once_and_then_ever_less_often() {
        let (mut tries, pace) = (Tries::default(), Pace::default());
        let waits: Vec<u64> = (0..8).map(|_| tries.next(&pace, 0.5).as_secs()).collect();
        assert_eq!(waits, [0, 1, 2, 5, 10, 30, 30, 30]);
        tries.came_to_something();
        assert_eq!(tries.next(&pace, 1.0), Duration::ZERO);
        assert_eq!(tries.next(&pace, 1.0), Duration::from_millis(1250));
    }
}
