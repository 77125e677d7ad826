//! What a session tells, for all who watch it in this process.
//!
//! The newest frames lie in one place, encoded. Whoever watches holds a position in them and writes
//! from there: a thousand clients cost no copy each, one that is slow costs nothing but its place,
//! and one whose place is gone begins anew from the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use sessions::{OpenParts, Told};
use store::Event;
use tokio::sync::{Notify, watch};
use wire::link::FromRunner;
use wire::v1::{Presence, Watcher};

use crate::direct::Direct;
use crate::frame::{Batch, Builder};

/// What is held for those who are behind.
const HELD_BYTES: usize = 4 << 20;
const HELD_BATCHES: usize = 4096;

/// What one is given at a time.
const GIVEN_BYTES: usize = 256 << 10;
const GIVEN_BATCHES: usize = 64;

/// So many are written to in no time.
const FEW: usize = 8;

/// What a session tells.
#[derive(Debug)]
pub struct Feed {
    ring: Mutex<Ring>,
    /// The position after the newest batch.
    newest: watch::Sender<u64>,
    /// Who is there has changed.
    pub(crate) stirred: Notify,
    pub(crate) seats: AtomicUsize,
    is_over: AtomicBool,
}

#[derive(Debug)]
struct Ring {
    batches: VecDeque<Batch>,
    /// The position of the oldest batch.
    first: u64,
    bytes: usize,
    /// The number of the last event that was told.
    seq: u64,
    open: OpenParts,
    present: BTreeMap<String, Watcher>,
    /// Who has everything, and is written to from here.
    parked: Vec<Arc<Direct>>,
    /// When they were last written to, and how long that took.
    pushed: Instant,
    took: Duration,
}

/// Where one begins to watch.
#[derive(Debug, Clone)]
pub(crate) struct Joined {
    /// All that is told from here on has a higher number than `seq`.
    pub(crate) next: u64,
    pub(crate) seq: u64,
    /// What is so at this moment and has no number: open parts, each whole, and who is there.
    pub(crate) moment: Batch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// The position after what was given, and the last number in it.
    Upto(u64, Option<u64>),
    Nothing,
    /// What was to follow is not held any more.
    Behind,
    /// Nothing more will be told here.
    Over,
}

impl Feed {
    /// `open` are parts that are open after the event with this number.
    pub fn new(seq: u64, open: &[Arc<str>]) -> Self {
        let mut ring = Ring {
            batches: VecDeque::new(),
            first: 0,
            bytes: 0,
            seq,
            open: OpenParts::default(),
            present: BTreeMap::new(),
            parked: Vec::new(),
            pushed: Instant::now(),
            took: Duration::ZERO,
        };
        ring.set_open(open);
        Self {
            ring: Mutex::new(ring),
            newest: watch::Sender::new(0),
            stirred: Notify::new(),
            seats: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// Tells everybody, in one piece. One task does.
    pub fn tell(&self, told: &[Told]) {
        let mut ring = self.ring();
        let mut batch = Builder::default();
        for told in told {
            match told {
                // Said already, when the hub was asked anew.
                Told::Numbered(event) if event.seq <= ring.seq => {}
                Told::Numbered(event) => {
                    ring.seq = event.seq;
                    ring.close_parts(event);
                    batch.numbered(event);
                }
                Told::Passing(json) => {
                    ring.follow(json);
                    batch.passing(json);
                }
            }
        }
        self.put(ring, batch);
    }

    /// After a time in which nothing was heard: these are open now.
    pub(crate) fn set_open(&self, open: &[Arc<str>]) {
        let mut ring = self.ring();
        ring.set_open(open);
        let mut batch = Builder::default();
        for json in open {
            batch.passing(json);
        }
        self.put(ring, batch);
    }

    /// Too much was missed: everybody begins anew, after the event with this number.
    pub(crate) fn skip_to(&self, seq: u64, open: &[Arc<str>]) {
        let mut ring = self.ring();
        ring.seq = seq;
        ring.set_open(open);
        // A position that nobody has been at.
        ring.first += ring.batches.len() as u64 + 1;
        ring.batches.clear();
        ring.bytes = 0;
        let parked = std::mem::take(&mut ring.parked);
        self.newest.send_replace(ring.first);
        drop(ring);
        wake(&parked);
    }

    /// Tells who is there.
    pub(crate) fn tell_presence(&self) {
        let ring = self.ring();
        let mut batch = Builder::default();
        batch.passing(&ring.presence());
        self.put(ring, batch);
    }

    fn put(&self, mut ring: MutexGuard<'_, Ring>, batch: Builder) {
        if batch.is_empty() {
            return;
        }
        let batch = batch.build();
        ring.bytes += batch.bytes().len();
        ring.batches.push_back(batch.clone());
        while ring.batches.len() > 1
            && (ring.bytes > HELD_BYTES || ring.batches.len() > HELD_BATCHES)
        {
            let oldest = ring.batches.pop_front();
            ring.bytes -= oldest.map_or(0, |batch| batch.bytes().len());
            ring.first += 1;
        }
        let newest = ring.first + ring.batches.len() as u64;
        let mut parked = std::mem::take(&mut ring.parked);
        // More comes than can be written one by one: each takes what there is, in one piece.
        let begun = Instant::now();
        let is_backlog = parked.len() > FEW && begun - ring.pushed < ring.took / 4;
        ring.took = Duration::ZERO;
        drop(ring);
        self.newest.send_replace(newest);
        if is_backlog {
            wake(&parked);
            return;
        }
        // Nobody else waits meanwhile: whoever is not parked reads from the ring.
        parked.retain(|one| one.push(newest - 1, &batch));
        let mut ring = self.ring();
        ring.pushed = Instant::now();
        ring.took = ring.pushed - begun;
        ring.parked.append(&mut parked);
    }

    /// True if nothing is there after this position: what comes is written to the client from here.
    pub(crate) fn park(&self, next: u64, one: &Arc<Direct>) -> bool {
        let mut ring = self.ring();
        let newest = ring.first + ring.batches.len() as u64;
        if next != newest || self.is_over() {
            return false;
        }
        if one.park(next) {
            ring.parked.push(Arc::clone(one));
        }
        true
    }

    /// The number of the last event that was told.
    pub fn seq(&self) -> u64 {
        self.ring().seq
    }

    pub(crate) fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    pub(crate) fn join(&self) -> Joined {
        let ring = self.ring();
        let mut moment = Builder::default();
        for json in ring.open.whole() {
            moment.passing(&json);
        }
        if !ring.present.is_empty() {
            moment.passing(&ring.presence());
        }
        Joined {
            next: ring.first + ring.batches.len() as u64,
            seq: ring.seq,
            moment: moment.build(),
        }
    }

    /// What follows a position, as much as is written at once.
    pub(crate) fn give(&self, next: u64, out: &mut VecDeque<Batch>) -> Given {
        let ring = self.ring();
        let Some(skip) = next.checked_sub(ring.first) else {
            return Given::Behind;
        };
        let (mut given, mut bytes, mut seq) = (0, 0, None);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        for batch in ring.batches.iter().skip(skip).take(GIVEN_BATCHES) {
            bytes += batch.bytes().len();
            if given > 0 && bytes > GIVEN_BYTES {
                break;
            }
            given += 1;
            seq = batch.last_seq().or(seq);
            out.push_back(batch.clone());
        }
        match given {
            0 if self.is_over.load(Ordering::Acquire) => Given::Over,
            0 => Given::Nothing,
            given => Given::Upto(next + given, seq),
        }
    }

    /// Whoever watches is told what there is, and then that it is over.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        let parked = std::mem::take(&mut self.ring().parked);
        wake(&parked);
        self.newest.send_modify(|_| {});
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn come(&self, id: &str, name: &str) {
        let mut ring = self.ring();
        let watcher = ring.present.entry(id.to_owned());
        watcher
            .or_insert_with(|| Watcher {
                id: id.to_owned(),
                name: name.to_owned(),
                connections: 0,
            })
            .connections += 1;
        drop(ring);
        self.stirred.notify_one();
    }

    pub(crate) fn leave(&self, id: &str) {
        let mut ring = self.ring();
        if let Some(watcher) = ring.present.get_mut(id) {
            watcher.connections -= 1;
            if watcher.connections == 0 {
                ring.present.remove(id);
            }
        }
        drop(ring);
        self.stirred.notify_one();
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().expect("no holder of this lock panics")
    }
}

impl Ring {
    fn set_open(&mut self, open: &[Arc<str>]) {
        self.open = OpenParts::default();
        for json in open {
            self.follow(json);
        }
    }

    /// Keeps what is said of open parts, for those who come in the middle.
    fn follow(&mut self, json: &str) {
        match serde_json::from_str(json) {
            Ok(FromRunner::PartDelta {
                message_id,
                part_id,
                offset,
                text,
            }) => {
                self.open.grow(&message_id, &part_id, offset, &text);
            }
            Ok(FromRunner::Part(part)) => self.open.put(&part),
            _ => {}
        }
    }

    fn close_parts(&mut self, event: &Event) {
        #[derive(serde::Deserialize)]
        struct About {
            #[serde(default)]
            message_id: String,
            #[serde(default)]
            part_id: String,
        }
        if !matches!(
            &*event.kind,
            "part" | "part.removed" | "message.done" | "message.removed"
        ) {
            return;
        }
        let Ok(about) = serde_json::from_str::<About>(&event.body) else {
            return;
        };
        match &*event.kind {
            "part" | "part.removed" => self.open.close(&about.message_id, &about.part_id),
            _ => drop(self.open.close_all(&about.message_id)),
        }
    }

    fn presence(&self) -> String {
        let presence = Presence {
            r#type: "presence".to_owned(),
            watchers: self.present.values().take(WATCHERS).cloned().collect(),
        };
        serde_json::to_string(&presence).unwrap_or_default()
    }
}

fn wake(parked: &[Arc<Direct>]) {
    for one in parked {
        one.wake();
    }
}

/// So many are named.
const WATCHERS: usize = 200;

#[cfg(test)]
mod tests;
