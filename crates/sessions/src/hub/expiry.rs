use std::time::Duration;

use model::session::{Generation, Lifecycle, State};
use model::{SignedDuration, Timestamp};

/// Never tried again sooner: its end may be over, and it lives all the same.
const SOON: SignedDuration = SignedDuration::from_secs(1);

/// When to leave a sandbox that its provider will end.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    of: Option<(Generation, Timestamp)>,
    leave_at: Option<Timestamp>,
    /// Something is being done about it.
    is_under_way: bool,
}

impl Expiry {
    /// After each move. A sandbox that is still there after what was tried is left again when half
    /// of its time is over.
    pub(super) fn follow(&mut self, lifecycle: &Lifecycle, now: Timestamp, grace: Duration) {
        let State::Running(running) = &lifecycle.state else {
            self.leave_at = None;
            return;
        };
        let of = running
            .expires_at
            .map(|expires_at| (running.place.generation, expires_at));
        let is_new = of != self.of;
        if is_new {
            self.of = of;
            self.is_under_way = false;
        }
        self.leave_at = match of {
            Some(_) if running.leaving.is_some() || self.is_under_way => None,
            Some((_, expires_at)) if is_new => Some(leave_at(expires_at, now, grace)),
            Some((_, expires_at)) if self.leave_at.is_none() => {
                let half = expires_at.duration_since(now) / 2;
                now.checked_add(half.max(SOON)).ok()
            }
            Some(_) => self.leave_at,
            None => None,
        };
    }

    pub(super) fn leave_at(&self) -> Option<Timestamp> {
        self.leave_at
    }

    pub(super) fn begin(&mut self) {
        self.leave_at = None;
        self.is_under_way = true;
    }

    /// What was tried is over.
    pub(super) fn end(&mut self) {
        self.is_under_way = false;
    }
}

/// So long before its end a sandbox is left: the grace, or a tenth of what it has.
pub(super) fn leave_at(expires_at: Timestamp, now: Timestamp, grace: Duration) -> Timestamp {
    let left = expires_at.duration_since(now);
    let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
    expires_at
        .checked_sub(grace.min(left / 10))
        .unwrap_or(expires_at)
}
