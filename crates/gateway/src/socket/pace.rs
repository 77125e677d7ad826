use tokio::time::Instant;

/// So many at once, and so many each second.
#[derive(Debug)]
pub(crate) struct Pace {
    left: f64,
    burst: f64,
    each_second: f64,
    since: Instant,
}

impl Pace {
    pub(crate) fn new(burst: u32, each_second: u32, now: Instant) -> Self {
        Self {
            left: f64::from(burst),
            burst: f64::from(burst),
            each_second: f64::from(each_second),
            since: now,
        }
    }

    /// False if this one is too many.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        let passed = now.duration_since(self.since).as_secs_f64();
        self.since = now;
        self.left = (self.left + passed * self.each_second).min(self.burst);
        let allows = self.left >= 1.0;
        if allows {
            self.left -= 1.0;
        }
        allows
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_burst_is_allowed_and_then_so_many_each_second() {
        let start = Instant::now();
        let mut pace = Pace::new(3, 2, start);
        assert!((0..3).all(|_| pace.allows(start)));
        assert!(!pace.allows(start));
        let later = start + Duration::from_secs(1);
        assert!(pace.allows(later) && pace.allows(later));
        assert!(!pace.allows(later));
    }
}
