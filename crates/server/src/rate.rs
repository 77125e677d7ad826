use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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

/// Who was let in lately is not stopped for what others at the same address do.
const LATELY: Duration = Duration::from_mins(10);

#[derive(Debug)]
pub(crate) struct Rate {
    callers: DefaultKeyedRateLimiter<String>,
    failures: DefaultKeyedRateLimiter<String>,
    /// From where nobody unknown is looked at before then.
    barred: Mutex<HashMap<String, Instant>>,
    /// What lets in, as digests under a key that this process made up; and when it last did.
    known: Mutex<HashMap<u64, Instant>>,
    digest: RandomState,
}

impl Rate {
    pub(crate) fn new() -> Self {
        let quota = |a_second, at_once| Quota::per_second(a_second).allow_burst(at_once);
        Self {
            callers: RateLimiter::keyed(quota(A_SECOND, AT_ONCE)),
            failures: RateLimiter::keyed(quota(FAILURES_A_SECOND, FAILURES_AT_ONCE)),
            barred: Mutex::default(),
            known: Mutex::default(),
            digest: RandomState::new(),
        }
    }

    pub(crate) fn take(&self, caller: &str) -> Answer<()> {
        take(&self.callers, caller).map_err(|wait| too_fast(wait, "slow down"))
    }

    /// Before what somebody brings is looked up: guesses from where too many came cost us nothing.
    pub(crate) fn may_try(&self, from: &str, credential: &str) -> Answer<()> {
        let now = Instant::now();
        let until = lock(&self.barred).get(from).copied();
        let Some(wait) = until.and_then(|until| until.checked_duration_since(now)) else {
            return Ok(());
        };
        let last = lock(&self.known)
            .get(&self.digest.hash_one(credential))
            .copied();
        if last.is_some_and(|last| now.duration_since(last) < LATELY) {
            return Ok(());
        }
        Err(too_fast(wait, GUESSING))
    }

    pub(crate) fn let_in(&self, credential: &str) {
        let mut known = lock(&self.known);
        let now = Instant::now();
        if known.len() > REMEMBERED {
            known.retain(|_, last| now.duration_since(*last) < LATELY);
        }
        if known.len() <= REMEMBERED {
            known.insert(self.digest.hash_one(credential), now);
        }
    }

    /// Somebody from there could not say who they are.
    pub(crate) fn failed(&self, from: &str) -> Answer<()> {
        let Err(wait) = take(&self.failures, from) else {
            return Ok(());
        };
        let mut barred = lock(&self.barred);
        let now = Instant::now();
        if barred.len() > REMEMBERED {
            barred.retain(|_, until| *until > now);
        }
        if barred.len() <= REMEMBERED {
            barred.insert(from.to_owned(), now + wait);
        }
        Err(too_fast(wait, GUESSING))
    }
}

const GUESSING: &str = "too many tries without a good token";

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn too_fast(wait: Duration, why: &str) -> Problem {
    Problem::throttled(wait.as_secs() + 1, why)
}

/// Or how long to wait.
fn take(limiter: &DefaultKeyedRateLimiter<String>, key: &str) -> Result<(), Duration> {
    if limiter.len() > REMEMBERED {
        limiter.retain_recent();
    }
    let checked = limiter.check_key(&key.to_owned());
    checked.map_err(|until| until.wait_time_from(DefaultClock::default().now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_guesses_too_often_is_not_looked_at_and_who_is_known_is() {
        let rate = Rate::new();
        rate.let_in("good");
        assert!(rate.may_try("there", "guess").is_ok());
        while rate.failed("there").is_ok() {}
        assert!(rate.may_try("there", "guess").is_err());
        assert!(rate.may_try("there", "good").is_ok());
        assert!(rate.may_try("elsewhere", "guess").is_ok());
    }
}
