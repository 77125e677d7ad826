//! What a hub has committed, and what it saw in passing.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};
use wire::link::{FromRunner, Offer, Part, PartContent, RunnerFrame};

/// A numbered frame that is here for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Committed {
    pub boot: String,
    pub seq: u64,
    pub frame: FromRunner,
}

#[derive(Debug, Default)]
pub struct Ledger {
    /// In the order in which they came.
    pub frames: Vec<Committed>,
    /// Numbered frames that came once more.
    pub repeated: u64,
    /// Numbered frames before which one was missing.
    pub gaps: u64,
    /// Deltas that did not fit what was there.
    pub misfits: u64,
    pub deltas: u64,
    /// Frames that could not be read.
    pub unreadable: u64,
    seen: BTreeMap<String, u64>,
    /// Where frames are committed to, one JSON line each.
    file: Option<fs_err::File>,
    /// Text under way, by message and part. It is not committed.
    open: BTreeMap<(String, String), String>,
    /// Text that was closed.
    texts: BTreeMap<(String, String), String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    Committed,
    /// It was here before.
    Known,
    Passing,
    Refused,
}

impl Ledger {
    /// What is in the file, and everything from now on goes there.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut this = Self::default();
        let kept = match fs_err::read_to_string(path) {
            Ok(kept) => kept,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        for line in kept.lines() {
            // The last one may not have come to its end, and was not acknowledged then.
            if let Ok(committed) = serde_json::from_str(line) {
                this.put(committed);
            }
        }
        let file = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)?;
        this.file = Some(file);
        Ok(this)
    }

    /// How far it has the frames of a boot.
    pub fn seen(&self, boot: &str) -> Option<u64> {
        self.seen.get(boot).copied()
    }

    /// Text of a part that was closed.
    pub fn text(&self, message_id: &str, part_id: &str) -> Option<&str> {
        let key = (message_id.to_owned(), part_id.to_owned());
        self.texts.get(&key).map(String::as_str)
    }

    /// Text of a part that is still open.
    pub fn open_text(&self, message_id: &str, part_id: &str) -> Option<&str> {
        let key = (message_id.to_owned(), part_id.to_owned());
        self.open.get(&key).map(String::as_str)
    }

    pub fn bodies(&self) -> impl Iterator<Item = &FromRunner> {
        self.frames.iter().map(|committed| &committed.frame)
    }

    pub(super) fn forget_passing(&mut self) {
        self.open.clear();
    }

    /// What a runner still has of boots that we know nothing of begins there.
    pub(super) fn expect(&mut self, offers: &[Offer]) {
        for offer in offers {
            self.seen
                .entry(offer.boot.clone())
                .or_insert(offer.first - 1);
        }
    }

    pub(super) fn take(&mut self, boot: &str, frame: &RunnerFrame) -> Taken {
        let Some(seq) = frame.seq else {
            self.pass(&frame.body);
            return Taken::Passing;
        };
        let seen = self.seen.entry(boot.to_owned()).or_insert(0);
        if seq <= *seen {
            self.repeated += 1;
            return Taken::Known;
        }
        if seq > *seen + 1 {
            self.gaps += 1;
            return Taken::Refused;
        }
        let committed = Committed {
            boot: boot.to_owned(),
            seq,
            frame: frame.body.clone(),
        };
        if self.write(&committed).is_err() {
            return Taken::Refused;
        }
        self.put(committed);
        Taken::Committed
    }

    fn write(&mut self, committed: &Committed) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut line = serde_json::to_vec(committed)?;
        line.push(b'\n');
        file.write_all(&line)?;
        file.sync_data()
    }

    fn put(&mut self, committed: Committed) {
        self.seen.insert(committed.boot.clone(), committed.seq);
        self.settle(&committed.frame);
        self.frames.push(committed);
    }

    fn pass(&mut self, body: &FromRunner) {
        match body {
            FromRunner::PartDelta {
                message_id,
                part_id,
                offset,
                text,
            } => {
                self.deltas += 1;
                let key = (message_id.clone(), part_id.clone());
                let held = self.open.entry(key).or_default();
                if held.len() as u64 == *offset {
                    held.push_str(text);
                } else {
                    self.misfits += 1;
                }
            }
            FromRunner::Part(part) => {
                if let Some((key, text)) = text_of(part) {
                    self.open.insert(key, text);
                }
            }
            _ => {}
        }
    }

    fn settle(&mut self, body: &FromRunner) {
        if let FromRunner::Part(part) = body
            && let Some((key, text)) = text_of(part)
        {
            // What was streamed is the beginning of what it became.
            if let Some(streamed) = self.open.remove(&key)
                && !text.starts_with(&streamed)
            {
                self.misfits += 1;
            }
            self.texts.insert(key, text);
        }
    }
}

fn text_of(part: &Part) -> Option<((String, String), String)> {
    let key = (part.message_id.clone(), part.part_id.clone());
    match &part.content {
        PartContent::Text { text } | PartContent::Reasoning { text } => Some((key, text.clone())),
        _ => None,
    }
}
