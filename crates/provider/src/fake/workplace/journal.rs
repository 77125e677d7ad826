use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wire::link::{FromRunner, Offer, RunnerFrame};
use wire::workplace::STATE;

use crate::fake::disk::Disk;
use crate::fake::node::{Content, Who};
use crate::fake::tree;

/// What was said and nobody has acknowledged, the oldest boot first.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Journal {
    session: String,
    pub(super) term: u64,
    records: Vec<Record>,
    #[serde(skip)]
    next: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    boot: String,
    seq: u64,
    body: FromRunner,
}

fn path() -> Vec<u8> {
    format!("{STATE}/journal.json").into_bytes()
}

impl Journal {
    /// What earlier boots left; another session's is none of ours.
    pub(super) fn open(disk: &mut Disk, session: &str, boot: &str) -> Self {
        let found = disk.find(&path()).ok();
        let left = found
            .and_then(|inode| disk.content(inode).ok())
            .and_then(|content| serde_json::from_slice(&content.whole()).ok())
            .filter(|left: &Self| left.session == session);
        debug_assert!(!boot.is_empty());
        Self {
            session: session.to_owned(),
            next: 1,
            ..left.unwrap_or_default()
        }
    }

    pub(super) fn append(&mut self, boot: &str, body: FromRunner) -> u64 {
        let seq = self.next;
        self.next += 1;
        self.records.push(Record {
            boot: boot.to_owned(),
            seq,
            body,
        });
        seq
    }

    pub(super) fn acknowledge(&mut self, boot: &str, upto: u64) {
        self.records
            .retain(|record| record.boot != boot || record.seq > upto);
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (String, u64)> {
        self.records
            .iter()
            .map(|record| (record.boot.clone(), record.seq))
    }

    pub(super) fn frame(&self, boot: &str, seq: u64, own: &str) -> Option<RunnerFrame> {
        let record = self
            .records
            .iter()
            .find(|record| record.boot == boot && record.seq == seq)?;
        Some(RunnerFrame {
            seq: Some(seq),
            from_boot: (boot != own).then(|| boot.to_owned()),
            body: record.body.clone(),
        })
    }

    pub(super) fn offers(&self) -> Vec<Offer> {
        let mut order = Vec::new();
        let mut ranges: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for record in &self.records {
            let range = ranges.entry(&record.boot).or_insert_with(|| {
                order.push(record.boot.as_str());
                (record.seq, record.seq)
            });
            range.1 = record.seq;
        }
        let offer = |boot: &str| {
            let (first, last) = ranges[boot];
            Offer {
                boot: boot.to_owned(),
                first,
                last,
            }
        };
        order.into_iter().map(offer).collect()
    }

    pub(super) fn write(&self, disk: &mut Disk, session: &str) {
        debug_assert_eq!(self.session, session);
        let text = serde_json::to_vec(self).unwrap_or_default();
        let _ = disk.make_directories(STATE.as_bytes(), Who::SUPERUSER);
        let _ = tree::write(disk, Who::SUPERUSER, &path(), Content::from(&text[..]));
    }
}
