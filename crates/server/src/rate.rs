use std::num::NonZeroU32;

use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::problem::{Answer, Problem};

/// What one caller may ask for, in the long run and at once.
const A_SECOND: NonZeroU32 = NonZeroU32::new(100).expect("not zero");
const AT_ONCE: NonZeroU32 = NonZeroU32::new(400).expect("not zero");
/// For those who bring nothing that lets in: guessing is slow.
const FAILURES_A_SECOND: NonZeroU32 = NonZeroU32::new(5).expect("not zero");
const FAILURES_AT_ONCE: NonZeroU32 = NonZeroU32::new(100).expect("not zero");
/// Callers that are remembered before those at rest are forgotten.
const REMEMBERED: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Rate {
    callers: DefaultKeyedRateLimiter<String>,
    failures: DefaultKeyedRateLimiter<String>,
}

impl Rate {
    pub(crate) fn new() -> Self {
        let quota = |a_second, at_once| Quota::per_second(a_second).allow_burst(at_once);
        Self {
            callers: RateLimiter::keyed(quota(A_SECOND, AT_ONCE)),
            failures: RateLimiter::keyed(quota(FAILURES_A_SECOND, FAILURES_AT_ONCE)),
        }
    }

    pub(crate) fn take(&self, caller: &str) -> Answer<()> {
        take(&self.callers, caller, "slow down")
    }

    /// Somebody from there could not say who they are.
    pub(crate) fn failed(&self, from: &str) -> Answer<()> {
        take(&self.failures, from, "too many tries without a good token")
    }
}

fn take(limiter: &DefaultKeyedRateLimiter<String>, key: &str, why: &str) -> Answer<()> {
    if limiter.len() > REMEMBERED {
        limiter.retain_recent();
    }
    limiter.check_key(&key.to_owned()).map_err(|until| {
        let wait = until.wait_time_from(DefaultClock::default().now());
        Problem::throttled(wait.as_secs() + 1, why)
    })
}
