//! Commits that go wrong where a proof wants it.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What becomes of one commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not made, and says so.
    Fail,
    /// It is made, and its answer is lost.
    Lose,
    /// It takes this much longer.
    Delay(Duration),
}

type Plan = Box<dyn FnMut() -> Option<Fault> + Send>;

/// Asked at each commit of what sessions write.
#[derive(Clone)]
pub struct Faults(Option<Arc<Mutex<Plan>>>);

impl Faults {
    pub fn none() -> Self {
        Self(None)
    }

    pub fn by(plan: impl FnMut() -> Option<Fault> + Send + 'static) -> Self {
        Self(Some(Arc::new(Mutex::new(Box::new(plan)))))
    }

    pub(crate) fn next(&self) -> Option<Fault> {
        let mut plan = self.0.as_ref()?.lock().expect("no holder panics");
        plan()
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Faults" } else { "none" })
    }
}
