use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use model::{Id, Session, SignedDuration, Timestamp};

/// Between two of one session.
const APART: SignedDuration = SignedDuration::from_mins(1);
/// Sessions that are remembered before those that waited long enough are forgotten.
const REMEMBERED: usize = 1024;

/// How often sessions have something done that costs.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<HashMap<Id<Session>, Timestamp>>);

impl Pace {
    /// Whether it is time; then it is counted.
    pub(super) fn may(&self, session: Id<Session>, now: Timestamp) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() >= REMEMBERED {
            last.retain(|_, at| now.duration_since(*at) < APART);
        }
        let is_due = last
            .get(&session)
            .is_none_or(|at| now.duration_since(*at) >= APART);
        if is_due {
            last.insert(session, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use model::{Clock as _, SystemClock};

    use super::*;

    #[test]
    fn what_costs_is_done_once_in_a_minute_for_each_session() {
        let (pace, now) = (Pace::default(), SystemClock.now());
        let (one, other) = (Id::new(&SystemClock), Id::new(&SystemClock));
        assert!(pace.may(one, now));
        assert!(!pace.may(one, now + SignedDuration::from_secs(59)));
        assert!(pace.may(other, now));
        assert!(pace.may(one, now + SignedDuration::from_secs(60)));
    }
}
