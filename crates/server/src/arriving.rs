//! What is on its way: files that arrive at the same time have one limit together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Id, Organisation};

/// Of one organisation, at the same time.
const FILES: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Arriving(Mutex<HashMap<Id<Organisation>, Held>>);

#[derive(Debug, Default, Clone, Copy)]
struct Held {
    files: usize,
    bytes: u64,
}

/// The room of one file, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    arriving: Arc<Arriving>,
    organisation: Id<Organisation>,
    bytes: u64,
}

impl Arriving {
    /// None where too many arrive already.
    pub(crate) fn one(self: &Arc<Self>, organisation: Id<Organisation>) -> Option<Room> {
        let mut all = self.lock();
        let held = all.entry(organisation).or_default();
        if held.files >= FILES {
            return None;
        }
        held.files += 1;
        Some(Room {
            arriving: Arc::clone(self),
            organisation,
            bytes: 0,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id<Organisation>, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    /// Whether so many bytes more fit, where all that arrive may be `most` together; then they are
    /// taken.
    pub(crate) fn grow(&mut self, by: u64, most: u64) -> bool {
        let mut all = self.arriving.lock();
        let held = all.entry(self.organisation).or_default();
        if held.bytes.saturating_add(by) > most {
            return false;
        }
        held.bytes += by;
        self.bytes += by;
        true
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut all = self.arriving.lock();
        if let Some(held) = all.get_mut(&self.organisation) {
            held.files -= 1;
            held.bytes -= self.bytes;
            if held.files == 0 {
                all.remove(&self.organisation);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::SystemClock;

    use super::*;

    #[test]
    fn files_that_arrive_together_share_their_room_and_give_it_back() {
        let arriving = Arc::new(Arriving::default());
        let (here, there) = (Id::new(&SystemClock), Id::new(&SystemClock));
        let mut one = arriving.one(here).unwrap();
        let mut other = arriving.one(here).unwrap();
        assert!(one.grow(60, 100));
        assert!(!other.grow(60, 100));
        assert!(other.grow(40, 100));
        assert!(arriving.one(there).unwrap().grow(60, 100));
        drop(one);
        assert!(other.grow(60, 100));
        assert_eq!(other.bytes(), 100);
    }

    #[test]
    fn only_so_many_arrive_at_a_time() {
        let arriving = Arc::new(Arriving::default());
        let here = Id::new(&SystemClock);
        let mut rooms: Vec<Room> = (0..FILES).filter_map(|_| arriving.one(here)).collect();
        assert_eq!(rooms.len(), FILES);
        assert!(arriving.one(here).is_none());
        rooms.pop();
        assert!(arriving.one(here).is_some());
    }
}
