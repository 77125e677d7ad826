use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use model::Timestamp;

/// Until when a session is ours, as far as we know. Whoever acts outside of the store looks at it
/// first: a process that stood still while another took its sessions finds it over when it wakes.
#[derive(Debug, Clone)]
pub(crate) struct Lease(Arc<AtomicI64>);

impl Lease {
    pub(crate) fn until(then: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(then.as_millisecond())))
    }

    pub(crate) fn renew(&self, until: Timestamp) {
        self.0.fetch_max(until.as_millisecond(), Ordering::AcqRel);
    }

    pub(crate) fn holds(&self, now: Timestamp) -> bool {
        now.as_millisecond() < self.0.load(Ordering::Acquire)
    }
}
