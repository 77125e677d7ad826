//! One file of a journal.
//!
//! ```text
//! "nacre journal 1\n" · length · header (JSON: session, boot, number, salt)
//! ( length · sealed record )*        lengths are four bytes, little endian
//! record = 1 · number of the frame (eight bytes) · the frame
//!        | 2 · note (JSON: the highest term seen)
//! ```
//!
//! The first record is a note, so that a segment without frames can be told from a forged one.

use serde::{Deserialize, Serialize};
use wire::link::MAX_LINK_FRAME;

use super::seal::{Seal, TAG};

const MAGIC: &[u8; 16] = b"nacre journal 1\n";
const FRAME: u8 = 1;
const NOTE: u8 = 2;
const FRAME_HEAD: usize = 1 + 8;
const LONGEST_HEADER: usize = 4096;
const LONGEST_RECORD: usize = FRAME_HEAD + MAX_LINK_FRAME + TAG;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) session: String,
    pub(super) boot: String,
    /// The file's own, so that files cannot change places.
    pub(super) number: u64,
    pub(super) salt: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) term: u64,
}

/// Turns records into the bytes of one segment.
pub(super) struct Writer {
    seal: Seal,
    place: u64,
}

impl Writer {
    /// And the bytes that the file begins with.
    pub(super) fn new(key: &[u8], header: &Header, note: Note) -> (Self, Vec<u8>) {
        let json = serde_json::to_vec(header).expect("our own types serialise");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&length(json.len()));
        bytes.extend_from_slice(&json);
        let mut this = Self {
            seal: Seal::new(key, &json),
            place: 0,
        };
        this.note(note, &mut bytes);
        (this, bytes)
    }

    pub(super) fn frame(&mut self, seq: u64, frame: &[u8], to: &mut Vec<u8>) {
        let mut record = Vec::with_capacity(FRAME_HEAD + frame.len() + TAG);
        record.push(FRAME);
        record.extend_from_slice(&seq.to_le_bytes());
        record.extend_from_slice(frame);
        self.record(record, to);
    }

    pub(super) fn note(&mut self, note: Note, to: &mut Vec<u8>) {
        let mut record = vec![NOTE];
        record.extend(serde_json::to_vec(&note).expect("our own types serialise"));
        self.record(record, to);
    }

    fn record(&mut self, mut record: Vec<u8>, to: &mut Vec<u8>) {
        self.seal.close(self.place, &mut record);
        self.place += 1;
        to.extend_from_slice(&length(record.len()));
        to.extend_from_slice(&record);
    }
}

fn length(length: usize) -> [u8; 4] {
    u32::try_from(length)
        .expect("records are bounded far below 4 GiB")
        .to_le_bytes()
}

/// What a segment holds, as far as it can be trusted.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) header: Header,
    pub(super) note: Note,
    pub(super) frames: Vec<(u64, Vec<u8>)>,
    pub(super) end: End,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    /// The last write did not come to its end. What it was to say had not been sent.
    Torn,
    /// Something else is there than what was written.
    Damaged,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    OtherSession,
    /// Whoever began it died over it: nothing was said in it.
    Unbegun,
    /// Nothing in it is ours.
    Forged,
}

/// Reads as far as every record is the one that was written at its place.
pub(super) fn read(
    bytes: &[u8],
    key: &[u8],
    session: &str,
    number: u64,
) -> Result<Segment, Unusable> {
    let is_zero = bytes.iter().all(|byte| *byte == 0);
    if is_zero || MAGIC.starts_with(bytes) {
        return Err(Unusable::Unbegun);
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or(Unusable::Forged)?;
    let Some((json, rest)) = piece(rest, LONGEST_HEADER) else {
        return Err(if is_incomplete(rest, LONGEST_HEADER) {
            Unusable::Unbegun
        } else {
            Unusable::Forged
        });
    };
    let header: Header = serde_json::from_slice(json).map_err(|_| Unusable::Forged)?;
    if header.session != session {
        return Err(Unusable::OtherSession);
    }
    if header.number != number {
        return Err(Unusable::Forged);
    }
    let mut records = Records {
        seal: Seal::new(key, json),
        rest,
        place: 0,
    };
    let note = match records.next() {
        Ok(Some(Record::Note(note))) => note,
        Ok(None) | Err(End::Torn) => return Err(Unusable::Unbegun),
        _ => return Err(Unusable::Forged),
    };
    let mut segment = Segment {
        header,
        note,
        frames: Vec::new(),
        end: End::Whole,
    };
    loop {
        match records.next() {
            Ok(Some(Record::Note(note))) => segment.note = note,
            Ok(Some(Record::Frame(seq, frame))) => segment.frames.push((seq, frame)),
            Ok(None) => return Ok(segment),
            Err(end) => {
                segment.end = end;
                return Ok(segment);
            }
        }
    }
}

enum Record {
    Note(Note),
    Frame(u64, Vec<u8>),
}

struct Records<'a> {
    seal: Seal,
    rest: &'a [u8],
    place: u64,
}

impl Records<'_> {
    fn next(&mut self) -> Result<Option<Record>, End> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        // A file that grew without its content, as after the host lost power, ends in zeros.
        if self.rest.iter().all(|byte| *byte == 0) {
            return Err(End::Torn);
        }
        let Some((sealed, rest)) = piece(self.rest, LONGEST_RECORD) else {
            return Err(if is_incomplete(self.rest, LONGEST_RECORD) {
                End::Torn
            } else {
                End::Damaged
            });
        };
        let mut record = sealed.to_vec();
        self.seal
            .open(self.place, &mut record)
            .map_err(|_| End::Damaged)?;
        self.place += 1;
        self.rest = rest;
        parse(&record).map(Some).ok_or(End::Damaged)
    }
}

fn parse(record: &[u8]) -> Option<Record> {
    match record.split_first()? {
        (&NOTE, json) => serde_json::from_slice(json).ok().map(Record::Note),
        (&FRAME, rest) => {
            let (seq, frame) = rest.split_first_chunk::<8>()?;
            Some(Record::Frame(u64::from_le_bytes(*seq), frame.to_vec()))
        }
        _ => None,
    }
}

/// Of what holds no whole piece: a write that broke off, or a length that nobody wrote.
fn is_incomplete(bytes: &[u8], limit: usize) -> bool {
    bytes
        .first_chunk::<4>()
        .is_none_or(|length| u32::from_le_bytes(*length) as usize <= limit)
}

/// A piece with its length before it.
fn piece(bytes: &[u8], limit: usize) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > limit {
        return None;
    }
    rest.split_at_checked(length)
}
