use std::collections::BTreeMap;
use std::time::Duration;

use model::{SignedDuration, Timestamp};
use provider::Blocked;

use crate::registry::later;

/// The same host and port are told again after so long.
const AGAIN: Duration = Duration::from_mins(10);
/// So many are told at once, and one more for each of these spans.
const BURST: u32 = 20;
const REFILL: SignedDuration = SignedDuration::from_secs(30);
/// Hosts and ports that are remembered.
const MOST: usize = 256;
const LONGEST_HOST: usize = 255;

/// Which of a sandbox's refusals are worth an event. A sandbox may try a thousand hosts a second: the
/// log and those who watch get a few of them, and a count of the rest.
#[derive(Debug)]
pub(super) struct Sieve {
    told: BTreeMap<(String, u16), Timestamp>,
    /// What is older was looked at by an owner before us.
    since: Option<Timestamp>,
    left: u32,
    refilled_at: Timestamp,
    untold: u64,
}

/// One that is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Telling {
    pub(super) blocked: Blocked,
    /// Attempts since the last one told that nobody hears of.
    pub(super) untold: u64,
}

impl Sieve {
    /// What was told before, the newest last.
    pub(super) fn new(before: impl IntoIterator<Item = Blocked>, now: Timestamp) -> Self {
        let mut sieve = Self {
            told: BTreeMap::new(),
            since: None,
            left: BURST,
            refilled_at: now,
            untold: 0,
        };
        for blocked in before {
            sieve.since = sieve.since.max(Some(blocked.at));
            sieve.remember(blocked.host, blocked.port, blocked.at);
        }
        sieve
    }

    pub(super) fn sift(&mut self, all: Vec<Blocked>, now: Timestamp) -> Vec<Telling> {
        self.refill(now);
        let mut tellings = Vec::new();
        for blocked in all {
            if !is_a_host(&blocked) || self.since.is_some_and(|since| blocked.at <= since) {
                continue;
            }
            let pair = (blocked.host.clone(), blocked.port);
            let told = self.told.get(&pair);
            if told.is_some_and(|at| later(*at, AGAIN) > blocked.at) {
                continue;
            }
            if self.left == 0 {
                self.untold += 1;
                continue;
            }
            self.left -= 1;
            self.remember(pair.0, pair.1, blocked.at);
            tellings.push(Telling {
                blocked,
                untold: std::mem::take(&mut self.untold),
            });
        }
        tellings
    }

    fn refill(&mut self, now: Timestamp) {
        while self.left < BURST {
            let Ok(next) = self.refilled_at.checked_add(REFILL) else {
                return;
            };
            if next > now {
                return;
            }
            self.refilled_at = next;
            self.left += 1;
        }
        self.refilled_at = now;
    }

    fn remember(&mut self, host: String, port: u16, at: Timestamp) {
        self.told.insert((host, port), at);
        if self.told.len() > MOST {
            let oldest = self.told.iter().min_by_key(|(_, at)| **at);
            if let Some(pair) = oldest.map(|(pair, _)| pair.clone()) {
                self.told.remove(&pair);
            }
        }
    }
}

/// What could not be read as one is in the proxy's own log.
fn is_a_host(blocked: &Blocked) -> bool {
    let host = blocked.host.as_bytes();
    blocked.port != 0
        && (1..=LONGEST_HOST).contains(&host.len())
        && host.iter().all(u8::is_ascii_graphic)
        && blocked.reason.len() <= 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    fn blocked(host: &str, at: Timestamp) -> Blocked {
        Blocked {
            at,
            host: host.to_owned(),
            port: 443,
            reason: "not-listed".to_owned(),
        }
    }

    fn hosts(tellings: &[Telling]) -> Vec<&str> {
        let hosts = tellings.iter().map(|telling| &*telling.blocked.host);
        hosts.collect()
    }

    #[test]
    fn a_host_is_told_once_and_again_after_a_while() {
        let mut sieve = Sieve::new([], start());
        let soon = later(start(), Duration::from_secs(1));
        let all = vec![blocked("a", soon), blocked("a", soon), blocked("b", soon)];
        assert_eq!(hosts(&sieve.sift(all, soon)), ["a", "b"]);
        let minutes = later(start(), Duration::from_mins(5));
        assert!(sieve.sift(vec![blocked("a", minutes)], minutes).is_empty());
        let long = later(start(), Duration::from_mins(11));
        assert_eq!(hosts(&sieve.sift(vec![blocked("a", long)], long)), ["a"]);
    }

    #[test]
    fn a_thousand_hosts_are_a_few_events_and_a_count() {
        let mut sieve = Sieve::new([], start());
        let flood = |from: u32| {
            let all = (from..from + 1000).map(|n| blocked(&format!("h{n}.example"), start()));
            all.collect::<Vec<_>>()
        };
        assert_eq!(sieve.sift(flood(0), start()).len(), 20);
        assert_eq!(sieve.sift(flood(1000), start()).len(), 0);
        let minute = later(start(), Duration::from_mins(1));
        let told = sieve.sift(flood(2000), minute);
        assert_eq!(told.len(), 2);
        assert_eq!((told[0].untold, told[1].untold), (1980, 0));
        // However long it waited, it gets no more at once than at first.
        let day = later(start(), Duration::from_hours(24));
        assert_eq!(sieve.sift(flood(3000), day).len(), 20);
        assert!(sieve.told.len() <= MOST);
    }

    #[test]
    fn what_an_owner_before_told_is_not_told_again() {
        let told = later(start(), Duration::from_secs(10));
        let mut sieve = Sieve::new([blocked("a", told)], told);
        let now = later(start(), Duration::from_secs(20));
        let all = vec![
            blocked("older", start()),
            blocked("a", now),
            blocked("b", now),
        ];
        assert_eq!(hosts(&sieve.sift(all, now)), ["b"]);
    }

    #[test]
    fn what_is_no_host_is_not_told() {
        let mut sieve = Sieve::new([], start());
        let mut all = vec![
            blocked("", start()),
            blocked("a b", start()),
            blocked("a\u{1b}[31m", start()),
            blocked(&"a".repeat(300), start()),
        ];
        all.push(Blocked {
            port: 0,
            ..blocked("a", start())
        });
        assert_eq!(sieve.sift(all, start()), []);
    }
}
