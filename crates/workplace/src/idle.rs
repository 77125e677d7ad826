//! Whether anybody has a use for this sandbox, apart from the agent: a service that works or is
//! asked, a terminal that is typed in.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::services::Name;

/// How long a use counts.
pub const WINDOW: Duration = Duration::from_mins(5);
/// Of one core over the window: a service that does more is at work.
const SHARE: f64 = 0.05;
/// Looked at more often, the older half goes.
const MAX_SAMPLES: usize = 64;

/// Why it is not idle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    Service { name: Name },
    Request,
    Terminal,
}

/// What was seen at one moment.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub processor_time: BTreeMap<Name, Duration>,
    pub served_at: Option<Timestamp>,
    pub typed_at: Option<Timestamp>,
}

/// Remembers what it is shown. Once or twice a minute is enough.
#[derive(Debug, Default)]
pub struct Watch {
    samples: VecDeque<(Timestamp, BTreeMap<Name, Duration>)>,
}

impl Watch {
    /// What the sandbox is used for; nothing when it is idle.
    pub fn look(&mut self, now: Timestamp, seen: Seen) -> Vec<Use> {
        let mut uses = Vec::new();
        for (name, used) in &seen.processor_time {
            if self.is_at_work(now, name, *used) {
                uses.push(Use::Service { name: name.clone() });
            }
        }
        if is_recent(now, seen.served_at) {
            uses.push(Use::Request);
        }
        if is_recent(now, seen.typed_at) {
            uses.push(Use::Terminal);
        }
        if self.samples.len() >= MAX_SAMPLES {
            let mut place = 0;
            self.samples.retain(|_| {
                place += 1;
                place % 2 == 0
            });
        }
        self.samples.push_back((now, seen.processor_time));
        while self.samples.len() > 1 && age(now, self.samples[1].0) >= WINDOW {
            self.samples.pop_front();
        }
        uses
    }

    /// Against the oldest sample in the window; one that is new has all its time in it.
    fn is_at_work(&self, now: Timestamp, name: &Name, used: Duration) -> bool {
        let before = self
            .samples
            .iter()
            .find_map(|(at, used)| Some((*at, *used.get(name)?)))
            // One that was started again counts from nothing.
            .filter(|(_, before)| *before <= used);
        let (since, spent) = match before {
            Some((at, before)) => (age(now, at).min(WINDOW), used.saturating_sub(before)),
            None => (WINDOW, used),
        };
        spent.as_secs_f64() > SHARE * since.as_secs_f64().max(1.0)
    }
}

fn age(now: Timestamp, at: Timestamp) -> Duration {
    now.duration_since(at).try_into().unwrap_or_default()
}

fn is_recent(now: Timestamp, at: Option<Timestamp>) -> bool {
    at.is_some_and(|at| age(now, at) < WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn used(millis: u64) -> Seen {
        let name = Name::new("web").unwrap();
        Seen {
            processor_time: BTreeMap::from([(name, Duration::from_millis(millis))]),
            ..Seen::default()
        }
    }

    #[test]
    fn a_service_counts_while_it_works() {
        let mut watch = Watch::default();
        assert!(watch.look(at(0), used(100)).is_empty());
        assert!(watch.look(at(60), used(1000)).is_empty(), "1.5 % of a core");
        assert!(!watch.look(at(120), used(9000)).is_empty(), "7.5 %");
        for minute in 3..=7 {
            watch.look(at(minute * 60), used(9000));
        }
        assert!(
            watch.look(at(480), used(9100)).is_empty(),
            "five minutes of rest"
        );
        assert!(watch.look(at(540), used(50)).is_empty(), "started again");
    }

    #[test]
    fn a_request_and_a_keystroke_count_for_a_while() {
        let mut watch = Watch::default();
        let seen = |second| Seen {
            served_at: Some(at(0)),
            typed_at: Some(at(second)),
            ..Seen::default()
        };
        assert_eq!(
            watch.look(at(299), seen(100)),
            [Use::Request, Use::Terminal]
        );
        assert_eq!(watch.look(at(301), seen(100)), [Use::Terminal]);
        assert!(watch.look(at(1000), seen(100)).is_empty());
    }

    #[test]
    fn however_often_it_looks_it_keeps_little() {
        let mut watch = Watch::default();
        for second in 0..1000 {
            watch.look(at(second), used(0));
        }
        assert!(watch.samples.len() <= MAX_SAMPLES);
    }
}
