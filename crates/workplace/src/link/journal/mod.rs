//! What the hub has not acknowledged: numbered, in order, in memory and on the sandbox's disk.
//!
//! ```text
//!            append            write              send              ack
//!  a frame ─────────► staged ─────────► written ─────────► sent ─────────► gone
//!                                          └── sync: survives the machine, not only us
//! ```
//!
//! A frame is written before it is sent, so a number that the hub has seen is never given out again.
//! Each start of the workplace begins a boot of its own; what earlier ones left is offered under
//! their names. The journal is bounded, and never drops: when it is tight no more work is taken,
//! when it is full its writers wait.
//!
//! Segments are sealed (decision 0010). A tail that a crash tore off is cut; whatever else is not as
//! it was written is set aside and reported.

mod disk;
mod finding;
mod recover;
mod seal;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use wire::link::{FromRunner, MAX_LINK_FRAME, Offer, RunnerFrame};

pub use disk::{Directory, Disk, Tail};
pub use finding::Finding;
use segment::{Header, Note, Writer};

/// How much may wait for the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub bytes: usize,
    pub records: usize,
    /// A segment is closed when it has grown to this.
    pub segment: usize,
}

impl Limits {
    /// Some thousand events: hours of an agent's work, and small beside it.
    pub const USUAL: Self = Self {
        bytes: 16 << 20,
        records: 20_000,
        segment: 1 << 20,
    };

    /// No genuine segment is longer: it is closed by the frame that fills it.
    fn longest_segment(self) -> usize {
        self.segment + 2 * MAX_LINK_FRAME
    }
}

/// What a frame costs besides its bytes.
const OVERHEAD: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    Free,
    /// What is under way can be finished; nothing is begun.
    Tight,
    Full,
}

/// Whose journal, and by which start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub session: String,
    pub boot: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame has at most {MAX_LINK_FRAME} bytes; this one has {0}")]
pub struct TooLong(pub usize);

pub struct Journal {
    limits: Limits,
    identity: Identity,
    /// The oldest boot first; the last is our own.
    logs: VecDeque<Log>,
    bytes: usize,
    records: usize,
    term: u64,
    /// Our own frames up to this number were handed to some connection.
    sent: u64,
    keeping: Keeping,
}

/// The frames of one boot that are not acknowledged.
struct Log {
    serial: u64,
    boot: String,
    /// The number of the first of them, or of the next one.
    first: u64,
    frames: VecDeque<Bytes>,
    segments: VecDeque<Kept>,
}

/// A closed segment on disk.
struct Kept {
    number: u64,
    /// Of its last frame.
    last: u64,
    when_spent: WhenSpent,
}

#[derive(Clone, Copy)]
enum WhenSpent {
    Remove,
    /// It was damaged behind what it was good for.
    SetAside,
}

enum Keeping {
    InMemory,
    OnDisk(OnDisk),
}

struct OnDisk {
    disk: Box<dyn Disk>,
    key: Vec<u8>,
    next_number: u64,
    /// Our own frames up to this number are in segments.
    upto: u64,
    active: Option<Active>,
    /// Tails with something that is not synced, the oldest first.
    unsynced: Vec<Arc<dyn Tail>>,
}

struct Active {
    number: u64,
    tail: Arc<dyn Tail>,
    writer: Writer,
    length: usize,
    staged: Vec<u8>,
}

/// Where a connection has got to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    serial: u64,
    next: u64,
}

/// Makes what was written survive the machine. May take its time; run it aside.
#[derive(Debug)]
pub struct Sync {
    tails: Vec<Arc<dyn Tail>>,
    /// Everything up to this number of our own.
    pub upto: u64,
}

impl Sync {
    pub fn run(&self) -> io::Result<()> {
        self.tails.iter().try_for_each(|tail| tail.sync())
    }
}

impl Journal {
    /// In memory alone: nothing to seal it with.
    pub fn in_memory(identity: Identity, limits: Limits) -> Self {
        Self::new(identity, limits, Keeping::InMemory)
    }

    /// On disk, after what earlier boots left there.
    pub fn open(
        disk: Box<dyn Disk>,
        key: &[u8],
        identity: Identity,
        limits: Limits,
    ) -> (Self, Vec<Finding>) {
        let keeping = Keeping::OnDisk(OnDisk {
            disk,
            key: key.to_vec(),
            next_number: 1,
            upto: 0,
            active: None,
            unsynced: Vec::new(),
        });
        let mut this = Self::new(identity, limits, keeping);
        let mut findings = this.load();
        // Ours comes before the rest goes: the highest term is never without a file that knows it.
        findings.extend(this.begin_segment());
        let spent = this.logs.iter_mut().rev().skip(1);
        let spent: Vec<Kept> = spent
            .filter(|log| log.frames.is_empty())
            .flat_map(|log| log.segments.drain(..))
            .collect();
        this.dispose(&spent);
        let own = this.logs.pop_back();
        this.logs.retain(|log| !log.frames.is_empty());
        this.logs.extend(own);
        (this, findings)
    }

    fn new(identity: Identity, limits: Limits, keeping: Keeping) -> Self {
        let own = Log::new(0, identity.boot.clone());
        Self {
            limits,
            identity,
            logs: VecDeque::from([own]),
            bytes: 0,
            records: 0,
            term: 0,
            sent: 0,
            keeping,
        }
    }

    pub fn is_on_disk(&self) -> bool {
        matches!(self.keeping, Keeping::OnDisk(_))
    }

    /// Everything that was said so far is on disk, or there is none.
    pub fn is_well(&self) -> bool {
        match &self.keeping {
            Keeping::InMemory => true,
            Keeping::OnDisk(on_disk) => on_disk.active.is_some(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub fn records(&self) -> usize {
        self.records
    }

    pub fn room(&self) -> Room {
        let Limits { bytes, records, .. } = self.limits;
        if self.bytes >= bytes || self.records >= records {
            Room::Full
        } else if self.bytes >= bytes / 8 * 7 || self.records >= records / 8 * 7 {
            Room::Tight
        } else {
            Room::Free
        }
    }

    /// The highest that was ever noted.
    pub fn term(&self) -> u64 {
        self.term
    }

    pub fn note_term(&mut self, term: u64) {
        self.term = term;
        if let Keeping::OnDisk(on_disk) = &mut self.keeping
            && let Some(active) = &mut on_disk.active
        {
            active.writer.note(Note { term }, &mut active.staged);
        }
    }

    /// Something was written that may not survive the machine.
    pub fn has_unsynced(&self) -> bool {
        match &self.keeping {
            Keeping::InMemory => false,
            Keeping::OnDisk(on_disk) => !on_disk.unsynced.is_empty(),
        }
    }

    /// Of our own frames, the first that is not acknowledged, or the next one.
    pub fn first_seq(&self) -> u64 {
        self.own().first
    }

    /// The number that the next frame gets.
    pub fn next_seq(&self) -> u64 {
        self.own().end()
    }

    /// Numbers a frame and stages it. Nobody sees it before [`Journal::write`].
    pub fn append(&mut self, body: FromRunner) -> Result<u64, TooLong> {
        let seq = self.next_seq();
        let frame = wire::link::write(&RunnerFrame::numbered(seq, body));
        if frame.len() > MAX_LINK_FRAME {
            return Err(TooLong(frame.len()));
        }
        if let Keeping::OnDisk(on_disk) = &mut self.keeping
            && let Some(active) = &mut on_disk.active
        {
            active.writer.frame(seq, &frame, &mut active.staged);
        }
        self.take_in(frame.into());
        Ok(seq)
    }

    fn take_in(&mut self, frame: Bytes) {
        self.bytes += frame.len() + OVERHEAD;
        self.records += 1;
        self.own_mut().frames.push_back(frame);
    }

    /// Writes what is staged, in one go. After this it may be sent.
    pub fn write(&mut self) -> Vec<Finding> {
        let written = self.next_seq() - 1;
        let Keeping::OnDisk(on_disk) = &mut self.keeping else {
            return Vec::new();
        };
        let Some(active) = &mut on_disk.active else {
            return Vec::new();
        };
        if active.staged.is_empty() {
            return Vec::new();
        }
        let staged = std::mem::take(&mut active.staged);
        if let Err(error) = active.tail.append(&staged) {
            return vec![self.give_up(&error)];
        }
        active.length += staged.len();
        on_disk.upto = written;
        on_disk.mark_unsynced();
        let is_full = on_disk
            .active
            .as_ref()
            .is_some_and(|active| active.length >= self.limits.segment);
        if is_full {
            self.close_segment();
            return self.begin_segment();
        }
        Vec::new()
    }

    /// After the disk failed: begins a new segment with everything that is only in memory.
    pub fn try_again(&mut self) -> Vec<Finding> {
        if self.is_well() {
            return Vec::new();
        }
        let findings = self.begin_segment();
        if !findings.is_empty() {
            return findings;
        }
        self.write()
    }

    /// `None` when nothing waits for it.
    pub fn sync(&mut self) -> Option<Sync> {
        let Keeping::OnDisk(on_disk) = &mut self.keeping else {
            return None;
        };
        let upto = on_disk.upto;
        let tails = std::mem::take(&mut on_disk.unsynced);
        (!tails.is_empty()).then_some(Sync { tails, upto })
    }

    /// A sync failed: what the disk has is anybody's guess, and everything is written anew.
    pub fn distrust_disk(&mut self, error: &io::Error) -> Finding {
        let finding = self.give_up(error);
        if let Keeping::OnDisk(on_disk) = &mut self.keeping {
            on_disk.upto = 0;
        }
        finding
    }

    /// What stands before the cursor is on its way, and the hub may say that it has it.
    pub fn mark_sent(&mut self, cursor: Cursor) {
        if cursor.serial == self.own().serial {
            self.sent = self.sent.max(cursor.next.saturating_sub(1));
        }
    }

    /// The hub has everything of that boot up to this number. A frame that was never sent is not
    /// forgotten, whatever it says.
    pub fn acknowledge(&mut self, boot: &str, seq: u64) {
        let Some(index) = self.logs.iter().position(|log| log.boot == boot) else {
            return;
        };
        let is_own = index + 1 == self.logs.len();
        let seq = if is_own { seq.min(self.sent) } else { seq };
        let log = &mut self.logs[index];
        let mut spent = Vec::new();
        while log.first <= seq
            && let Some(frame) = log.frames.pop_front()
        {
            log.first += 1;
            self.bytes -= frame.len() + OVERHEAD;
            self.records -= 1;
        }
        while let Some(kept) = log.segments.front()
            && kept.last < log.first
        {
            spent.extend(log.segments.pop_front());
        }
        if !is_own && log.frames.is_empty() {
            spent.extend(log.segments.drain(..));
            self.logs.remove(index);
        }
        self.dispose(&spent);
    }

    pub fn offers(&self) -> Vec<Offer> {
        let logs = self.logs.iter().filter(|log| !log.frames.is_empty());
        logs.map(|log| Offer {
            boot: log.boot.clone(),
            first: log.first,
            last: log.end() - 1,
        })
        .collect()
    }

    /// Before everything that is here.
    pub fn start(&self) -> Cursor {
        self.logs
            .front()
            .map_or(Cursor { serial: 0, next: 0 }, |log| Cursor {
                serial: log.serial,
                next: log.first,
            })
    }

    /// The next frame, and where that leaves us.
    pub fn after(&self, cursor: Cursor) -> Option<(Bytes, Cursor)> {
        let logs = self.logs.iter().filter(|log| log.serial >= cursor.serial);
        for log in logs {
            let next = if log.serial == cursor.serial {
                cursor.next.max(log.first)
            } else {
                log.first
            };
            let index = usize::try_from(next - log.first).unwrap_or(usize::MAX);
            if let Some(frame) = log.frames.get(index) {
                let cursor = Cursor {
                    serial: log.serial,
                    next: next + 1,
                };
                return Some((frame.clone(), cursor));
            }
        }
        None
    }

    fn own(&self) -> &Log {
        self.logs.back().expect("our own log is always there")
    }

    fn own_mut(&mut self) -> &mut Log {
        self.logs.back_mut().expect("our own log is always there")
    }

    fn close_segment(&mut self) {
        let Keeping::OnDisk(on_disk) = &mut self.keeping else {
            return;
        };
        let last = on_disk.upto;
        if let Some(Active { number, .. }) = on_disk.active.take() {
            let when_spent = WhenSpent::Remove;
            self.own_mut().segments.push_back(Kept {
                number,
                last,
                when_spent,
            });
        }
    }

    /// A new one takes what is not yet on disk.
    fn begin_segment(&mut self) -> Vec<Finding> {
        let note = Note { term: self.term };
        let Self {
            identity,
            logs,
            keeping: Keeping::OnDisk(on_disk),
            ..
        } = self
        else {
            return Vec::new();
        };
        let number = on_disk.next_number;
        on_disk.next_number += 1;
        let header = Header {
            session: identity.session.clone(),
            boot: identity.boot.clone(),
            number,
            salt: salt(),
        };
        let (mut writer, bytes) = Writer::new(&on_disk.key, &header, note);
        let begun = on_disk.disk.create(number).and_then(|tail| {
            tail.append(&bytes)?;
            Ok(tail)
        });
        let tail = match begun {
            Ok(tail) => tail,
            Err(error) => {
                let _ = on_disk.disk.remove(number);
                let reason = error.to_string();
                return vec![Finding::Unwritable { reason }];
            }
        };
        let own = logs.back().expect("our own log is always there");
        let mut staged = Vec::new();
        for (seq, frame) in (own.first..).zip(&own.frames) {
            if seq > on_disk.upto {
                writer.frame(seq, frame, &mut staged);
            }
        }
        on_disk.active = Some(Active {
            number,
            tail,
            writer,
            length: bytes.len(),
            staged,
        });
        on_disk.mark_unsynced();
        Vec::new()
    }

    /// The active segment cannot be written any more. What it holds stays; a new one gets the rest.
    fn give_up(&mut self, error: &io::Error) -> Finding {
        self.close_segment();
        Finding::Unwritable {
            reason: error.to_string(),
        }
    }

    fn dispose(&self, segments: &[Kept]) {
        let Keeping::OnDisk(on_disk) = &self.keeping else {
            return;
        };
        for Kept {
            number, when_spent, ..
        } in segments
        {
            let disposed = match when_spent {
                WhenSpent::Remove => on_disk.disk.remove(*number),
                WhenSpent::SetAside => on_disk.disk.set_aside(*number),
            };
            if let Err(error) = disposed {
                tracing::warn!(segment = number, %error, "a spent segment of the journal stays");
            }
        }
    }
}

impl OnDisk {
    fn mark_unsynced(&mut self) {
        let Some(active) = &self.active else {
            return;
        };
        let is_marked = self
            .unsynced
            .last()
            .is_some_and(|tail| Arc::ptr_eq(tail, &active.tail));
        if !is_marked {
            self.unsynced.push(Arc::clone(&active.tail));
        }
    }
}

impl Log {
    fn new(serial: u64, boot: String) -> Self {
        Self {
            serial,
            boot,
            first: 1,
            frames: VecDeque::new(),
            segments: VecDeque::new(),
        }
    }

    /// One past its last frame.
    fn end(&self) -> u64 {
        self.first + self.frames.len() as u64
    }
}

fn salt() -> String {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .expect("the kernel has some bytes of randomness");
    format!("{:032x}", u128::from_ne_bytes(bytes))
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("records", &self.records)
            .field("bytes", &self.bytes)
            .field("term", &self.term)
            .finish_non_exhaustive()
    }
}
