//! What a test tells the fake to do wrong, and what the fake tells a test.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{ProviderError, SandboxId};

/// Every method that can fail; a test that names another would wait for ever.
const OPERATIONS: [&str; 24] = [
    "ensure",
    "create",
    "terminate",
    "stop",
    "remove",
    "snapshot",
    "pause",
    "resume",
    "fork",
    "extend",
    "exec",
    "read_files",
    "write_files",
    "dial",
    "serve",
    "endpoints",
    "alive",
    "health",
    "list",
    "snapshot_memory",
    "restore_memory",
    "delete_snapshot",
    "let_out",
    "refusals",
];

/// One thing the fake was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The method's name.
    pub operation: &'static str,
    pub sandbox: Option<SandboxId>,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    next: Mutex<HashMap<&'static str, VecDeque<ProviderError>>>,
    out_of_reach: AtomicBool,
    calls: Mutex<Vec<Call>>,
}

impl Faults {
    pub(super) fn fail_next(&self, operation: &'static str, error: ProviderError) {
        assert!(
            OPERATIONS.contains(&operation),
            "a provider has no operation {operation}"
        );
        let mut next = self.next.lock().expect("no holder panics");
        next.entry(operation).or_default().push_back(error);
    }

    pub(super) fn outage(&self, out_of_reach: bool) {
        self.out_of_reach.store(out_of_reach, Ordering::Relaxed);
    }

    pub(super) fn is_out_of_reach(&self) -> bool {
        self.out_of_reach.load(Ordering::Relaxed)
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("no holder panics").clone()
    }

    /// At the start of every operation.
    pub(super) fn begin(
        &self,
        operation: &'static str,
        sandbox: Option<SandboxId>,
    ) -> Result<(), ProviderError> {
        self.calls
            .lock()
            .expect("no holder panics")
            .push(Call { operation, sandbox });
        if self.is_out_of_reach() {
            return Err(ProviderError::unavailable(
                operation,
                "the provider is out of reach",
            ));
        }
        let mut next = self.next.lock().expect("no holder panics");
        match next.get_mut(operation).and_then(VecDeque::pop_front) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
