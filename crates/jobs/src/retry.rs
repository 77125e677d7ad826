use std::time::Duration;

/// How often a job is tried, and how long apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in all.
    pub attempts: u64,
    /// Before the second attempt. Doubled before each that follows.
    pub first: Duration,
    pub longest: Duration,
}

impl Retry {
    pub const USUAL: Self = Self {
        attempts: 10,
        first: Duration::from_secs(1),
        longest: Duration::from_mins(5),
    };

    /// How long to wait after the attempt of this number; nothing after the last. `chance` is from
    /// 0 to 1 and makes it up to a fifth more or less, so that what failed together does not come
    /// back together.
    pub fn after(self, attempt: u64, chance: f64) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let doubled = u32::try_from(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2u32.checked_pow(doubled).unwrap_or(u32::MAX);
        let wait = self.first.saturating_mul(factor).min(self.longest);
        Some(spread(wait, chance))
    }
}

pub(crate) fn spread(wait: Duration, chance: f64) -> Duration {
    wait.mul_f64(0.8 + 0.4 * chance.clamp(0.0, 1.0))
}

/// From 0 to 1.
pub(crate) fn chance() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness everybody waits equally long, which is not wrong.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEW: Retry = Retry {
        attempts: 5,
        first: Duration::from_secs(5),
        longest: Duration::from_secs(30),
    };

    #[test]
    fn waits_double_up_to_the_longest_and_end_with_the_attempts() {
        let waits: Vec<Option<u64>> = (1..=5)
            .map(|attempt| FEW.after(attempt, 0.5).map(|wait| wait.as_secs()))
            .collect();
        assert_eq!(waits, [Some(5), Some(10), Some(20), Some(30), None]);
    }

    #[test]
    fn chance_makes_a_wait_a_fifth_shorter_or_longer() {
        assert_eq!(FEW.after(1, 0.0), Some(Duration::from_secs(4)));
        assert_eq!(FEW.after(1, 1.0), Some(Duration::from_secs(6)));
        assert_eq!(FEW.after(1, 7.0), Some(Duration::from_secs(6)));
    }

    #[test]
    fn many_attempts_do_not_overflow() {
        let endless = Retry {
            attempts: u64::MAX,
            ..FEW
        };
        assert_eq!(endless.after(u64::MAX - 1, 0.5), Some(FEW.longest));
    }
}
