//! What a session tells, for all who watch it in this process.
//!
//! The newest frames lie in one place, encoded. Whoever watches holds a position in them and writes
//! from there: a thousand clients cost no copy each, one that is slow costs nothing but its place,
//! and one whose place is gone begins anew from the log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use sessions::{OpenParts, Told};
use store::Event;
use tokio::sync::{Notify, watch};
use wire::link::FromRunner;
use wire::v1::{Presence, Watcher};

use crate::frame::{Batch, Builder};

/// What is held for those who are behind.
const HELD_BYTES: usize = 4 << 20;
const HELD_BATCHES: usize = 4096;

/// What one is given at a time.
const GIVEN_BYTES: usize = 256 << 10;
const GIVEN_BATCHES: usize = 64;

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

    /// Tells everybody, in one piece.
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
                    batch.numbered(event.seq, &event.body);
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
        self.newest.send_replace(ring.first);
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
        ring.batches.push_back(batch);
        while ring.batches.len() > 1
            && (ring.bytes > HELD_BYTES || ring.batches.len() > HELD_BATCHES)
        {
            let oldest = ring.batches.pop_front();
            ring.bytes -= oldest.map_or(0, |batch| batch.bytes().len());
            ring.first += 1;
        }
        let newest = ring.first + ring.batches.len() as u64;
        drop(ring);
        self.newest.send_replace(newest);
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

/// So many are named.
const WATCHERS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, body: &str) -> Told {
        let new = store::NewEvent::from_json(body).unwrap();
        Told::Numbered(Event {
            seq,
            at: model::Timestamp::UNIX_EPOCH,
            kind: new.kind().to_owned(),
            body: Arc::clone(new.body()),
        })
    }

    fn frames(out: &VecDeque<Batch>) -> Vec<String> {
        let frames = out.iter().flat_map(Batch::frames);
        frames
            .map(|(_, json)| String::from_utf8(json.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn whoever_joins_gets_what_follows_and_nothing_before() {
        let feed = Feed::new(3, &[]);
        feed.tell(&[event(4, r#"{"type":"title","title":"a"}"#)]);
        let joined = feed.join();
        assert_eq!(joined.seq, 4);
        feed.tell(&[event(5, r#"{"type":"title","title":"b"}"#)]);
        let mut out = VecDeque::new();
        let given = feed.give(joined.next, &mut out);
        assert_eq!(given, Given::Upto(joined.next + 1, Some(5)));
        assert_eq!(frames(&out), [r#"{"seq":5,"type":"title","title":"b"}"#]);
    }

    #[test]
    fn one_who_falls_behind_what_is_held_is_told_so() {
        let feed = Feed::new(0, &[]);
        let joined = feed.join();
        let long = format!(r#"{{"type":"title","title":"{}"}}"#, "x".repeat(900_000));
        for seq in 1..=6 {
            feed.tell(&[event(seq, &long)]);
        }
        let given = feed.give(joined.next, &mut VecDeque::new());
        assert_eq!(given, Given::Behind);
    }

    #[test]
    fn an_open_part_is_given_whole_until_it_closes() {
        let feed = Feed::new(0, &[]);
        let delta = |offset: u64, text: &str| {
            let frame = FromRunner::PartDelta {
                message_id: "m".to_owned(),
                part_id: "p".to_owned(),
                offset,
                text: text.to_owned(),
            };
            Told::Passing(serde_json::to_string(&frame).unwrap().into())
        };
        feed.tell(&[delta(0, "ab"), delta(2, "cd")]);
        let moment = VecDeque::from([feed.join().moment]);
        assert!(frames(&moment)[0].contains("abcd"), "{moment:?}");
        feed.tell(&[event(
            1,
            r#"{"type":"part","message_id":"m","part_id":"p","kind":"text","text":"abcd"}"#,
        )]);
        assert_eq!(feed.join().moment.count(), 0);
    }

    #[test]
    fn what_was_told_already_is_not_told_again() {
        let feed = Feed::new(5, &[]);
        let joined = feed.join();
        feed.tell(&[event(5, r#"{"type":"title","title":"b"}"#)]);
        assert_eq!(feed.give(joined.next, &mut VecDeque::new()), Given::Nothing);
    }
}
