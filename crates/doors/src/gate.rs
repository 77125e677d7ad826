//! How much one session may ask for at a time.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock as _, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};
use serde::Deserialize;

use crate::visitor::Visitor;

/// Limits of one session at one door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Requests that run at the same time, until the last byte of their answers.
    pub at_a_time: u32,
    pub per_minute: NonZeroU32,
    /// Connections, idle ones too.
    pub connections: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            at_a_time: 16,
            per_minute: NonZeroU32::MIN.saturating_add(239),
            connections: 64,
        }
    }
}

/// Sessions whose pace is remembered before those at rest are forgotten.
const REMEMBERED: usize = 4096;

pub(crate) struct Gate {
    limits: Limits,
    running: Arc<Counts>,
    connected: Arc<Counts>,
    pace: RateLimiter<String, HashMapStateStore<String>, DefaultClock>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) reason: String,
    pub(crate) wait: Duration,
}

impl Gate {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            running: Arc::default(),
            connected: Arc::default(),
            pace: RateLimiter::hashmap(Quota::per_minute(limits.per_minute)),
        }
    }

    /// For one request. It counts until the slot is dropped.
    pub(crate) fn enter(&self, visitor: &Visitor) -> Result<Slot, Full> {
        let Some(slot) = Counts::take(&self.running, visitor, self.limits.at_a_time) else {
            return Err(Full {
                reason: format!(
                    "this session already has {} requests running; wait for one to end",
                    self.limits.at_a_time
                ),
                wait: Duration::from_secs(1),
            });
        };
        if self.pace.len() > REMEMBERED {
            self.pace.retain_recent();
        }
        match self.pace.check_key(&visitor.session) {
            Ok(()) => Ok(slot),
            Err(until) => Err(Full {
                reason: format!(
                    "this session has made {} requests within a minute; slow down",
                    self.limits.per_minute
                ),
                wait: until.wait_time_from(DefaultClock::default().now()),
            }),
        }
    }

    /// For one connection.
    pub(crate) fn connect(&self, visitor: &Visitor) -> Option<Slot> {
        Counts::take(&self.connected, visitor, self.limits.connections)
    }
}

/// How many of something each session has. Who has none is not in it.
#[derive(Debug, Default)]
struct Counts(Mutex<HashMap<String, u32>>);

impl Counts {
    fn take(counts: &Arc<Self>, visitor: &Visitor, most: u32) -> Option<Slot> {
        let mut map = counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = map.get(&visitor.session).copied().unwrap_or(0);
        if count >= most {
            return None;
        }
        map.insert(visitor.session.clone(), count + 1);
        Some(Slot {
            counts: Arc::clone(counts),
            session: visitor.session.clone(),
        })
    }
}

#[derive(Debug)]
pub(crate) struct Slot {
    counts: Arc<Counts>,
    session: String,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut map = self.counts.0.lock().unwrap_or_else(PoisonError::into_inner);
        match map.get_mut(&self.session) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                map.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visitor(session: &str) -> Visitor {
        Visitor {
            organisation: "org".to_owned(),
            session: session.to_owned(),
            generation: 1,
        }
    }

    fn gate(at_a_time: u32, per_minute: u32) -> Gate {
        Gate::new(Limits {
            at_a_time,
            per_minute: NonZeroU32::new(per_minute).unwrap(),
            connections: 1,
        })
    }

    #[test]
    fn a_session_gets_its_slots_back_and_takes_none_of_another() {
        let gate = gate(2, 100);
        let first = gate.enter(&visitor("a")).unwrap();
        let _second = gate.enter(&visitor("a")).unwrap();
        assert!(gate.enter(&visitor("a")).is_err());
        assert!(gate.enter(&visitor("b")).is_ok());
        drop(first);
        assert!(gate.enter(&visitor("a")).is_ok());
    }

    #[test]
    fn nothing_is_kept_of_a_session_at_rest() {
        let gate = gate(2, 100);
        drop(gate.enter(&visitor("a")).unwrap());
        assert!(gate.running.0.lock().unwrap().is_empty());
    }

    #[test]
    fn a_session_that_hurries_is_told_when_to_come_back() {
        let gate = gate(10, 2);
        drop(gate.enter(&visitor("a")).unwrap());
        drop(gate.enter(&visitor("a")).unwrap());
        let full = gate.enter(&visitor("a")).unwrap_err();
        assert!(full.wait > Duration::ZERO && full.wait <= Duration::from_secs(30));
        assert!(full.reason.contains("2 requests"));
    }

    #[test]
    fn connections_are_counted_apart() {
        let gate = gate(1, 100);
        let held = gate.connect(&visitor("a")).unwrap();
        assert!(gate.connect(&visitor("a")).is_none());
        drop(held);
        assert!(gate.connect(&visitor("a")).is_some());
    }
}
