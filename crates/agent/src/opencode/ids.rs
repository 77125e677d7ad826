//! Ids in OpenCode's form. It sorts messages by them, so ours carry the time as its own do: 48 bits
//! of milliseconds and a counter, in hexadecimal, then 14 characters at random.

use model::Clock;

const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[derive(Debug, Default)]
pub(super) struct Ids {
    last: u64,
}

impl Ids {
    pub(super) fn message(&mut self, clock: &dyn Clock) -> String {
        self.next("msg", clock)
    }

    pub(super) fn part(&mut self, clock: &dyn Clock) -> String {
        self.next("prt", clock)
    }

    fn next(&mut self, prefix: &str, clock: &dyn Clock) -> String {
        let millis = u64::try_from(clock.now().as_millisecond()).unwrap_or(0);
        self.last = (self.last + 1).max(millis * 0x1000 + 1);
        let random = model::Id::<crate::event::Part>::new(clock).uuid().as_u128();
        let tail: String = (0..14)
            .scan(random & ((1 << 74) - 1), |rest, _| {
                let digit = usize::try_from(*rest % 62).unwrap_or(0);
                *rest /= 62;
                Some(char::from(ALPHABET[digit]))
            })
            .collect();
        format!("{prefix}_{:012x}{tail}", self.last & 0xffff_ffff_ffff)
    }
}

#[cfg(test)]
mod tests {
    use model::ManualClock;

    use super::*;

    #[test]
    fn an_id_carries_the_time_as_opencodes_own_do() {
        let clock = ManualClock::starting_at("2026-11-15T18:17:00.920Z".parse().unwrap());
        let id = Ids::default().message(&clock);
        assert!(id.starts_with("msg_1e06d48f8001"), "{id}");
        assert_eq!(id.len(), "msg_1e06d48f8001KxdZCFVFJbN7rD".len());
    }

    #[test]
    fn ids_of_one_moment_are_in_order() {
        let clock = ManualClock::starting_at("2026-11-15T18:17:00Z".parse().unwrap());
        let mut ids = Ids::default();
        let made: Vec<String> = (0..50).map(|_| ids.message(&clock)).collect();
        assert!(made.is_sorted());
    }
}
