//! What earlier boots left, as far as it can be trusted.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::segment::{self, End, Segment, Unusable};
use super::{Finding, Journal, Keeping, Kept, Limits, Log, OVERHEAD, OnDisk, WhenSpent};

/// More files than a full journal has are not ours.
const MOST_SEGMENTS: usize = 256;

impl Journal {
    /// Takes in what is on disk.
    pub(super) fn load(&mut self) -> Vec<Finding> {
        let Keeping::OnDisk(on_disk) = &mut self.keeping else {
            return Vec::new();
        };
        let mut findings = Vec::new();
        let read = on_disk.read_all(&self.identity.session, self.limits, &mut findings);
        let own = self.logs.pop_back();
        for (serial, segments) in (0..).zip(read) {
            let term = segments.iter().map(|segment| segment.note.term).max();
            self.term = self.term.max(term.unwrap_or(0));
            let (log, gaps) = Log::assemble(serial, segments);
            for segment in gaps {
                findings.push(Finding::Gap { segment });
                let _ = on_disk.disk.set_aside(segment);
            }
            self.records += log.frames.len();
            self.bytes += log
                .frames
                .iter()
                .map(|frame| frame.len() + OVERHEAD)
                .sum::<usize>();
            self.logs.push_back(log);
        }
        let serial = self.logs.back().map_or(0, |log| log.serial + 1);
        self.logs.extend(own.map(|own| Log { serial, ..own }));
        findings
    }
}

impl OnDisk {
    /// All segments that can be trusted, by boot, the oldest boot first. Others are put away.
    fn read_all(
        &mut self,
        session: &str,
        limits: Limits,
        findings: &mut Vec<Finding>,
    ) -> Vec<Vec<Segment>> {
        let numbers = match self.disk.numbers() {
            Ok(numbers) => numbers,
            Err(error) => {
                let reason = error.to_string();
                findings.push(Finding::Unreadable { segment: 0, reason });
                return Vec::new();
            }
        };
        // One that nobody could have reached by counting must not end the counting.
        let plausible = numbers.iter().copied().filter(|n| *n < u64::MAX / 2);
        self.next_number = plausible.max().map_or(1, |highest| highest + 1);
        let mut boots: BTreeMap<u64, Vec<Segment>> = BTreeMap::new();
        let mut first_of: BTreeMap<String, u64> = BTreeMap::new();
        for (place, number) in numbers.into_iter().enumerate() {
            if place >= MOST_SEGMENTS {
                findings.push(Finding::Forged { segment: number });
                let _ = self.disk.set_aside(number);
                continue;
            }
            let bytes = match self.disk.read(number, limits.longest_segment()) {
                Ok(bytes) => bytes,
                Err(error) => {
                    let reason = error.to_string();
                    let segment = number;
                    findings.push(Finding::Unreadable { segment, reason });
                    let _ = self.disk.set_aside(number);
                    continue;
                }
            };
            match segment::read(&bytes, &self.key, session, number) {
                Ok(segment) => {
                    if segment.end == End::Damaged {
                        findings.push(Finding::Damaged { segment: number });
                    }
                    let first = *first_of
                        .entry(segment.header.boot.clone())
                        .or_insert(number);
                    boots.entry(first).or_default().push(segment);
                }
                Err(Unusable::OtherSession | Unusable::Unbegun) => {
                    let _ = self.disk.remove(number);
                }
                Err(Unusable::Forged) => {
                    findings.push(Finding::Forged { segment: number });
                    let _ = self.disk.set_aside(number);
                }
            }
        }
        boots.into_values().collect()
    }
}

impl Log {
    /// From the segments of one earlier boot, as far as no frame is missing between them. Returns
    /// the numbers of those after a gap, too.
    fn assemble(serial: u64, segments: Vec<Segment>) -> (Self, Vec<u64>) {
        let boot = segments
            .first()
            .map_or_else(String::new, |segment| segment.header.boot.clone());
        let mut log = Self::new(serial, boot);
        let mut expected = None;
        let mut gaps = Vec::new();
        for segment in segments {
            let number = segment.header.number;
            let when_spent = match segment.end {
                End::Whole | End::Torn => WhenSpent::Remove,
                End::Damaged => WhenSpent::SetAside,
            };
            let mut is_whole = true;
            for (seq, frame) in segment.frames {
                let next = *expected.get_or_insert(seq);
                if !gaps.is_empty() || seq > next {
                    is_whole = false;
                    break;
                }
                // After a failed disk a new segment says again what the lost one may have said.
                if seq < next {
                    continue;
                }
                let Some(frame) = under_its_boot(&frame, &log.boot) else {
                    is_whole = false;
                    break;
                };
                if log.frames.is_empty() {
                    log.first = seq;
                }
                log.frames.push_back(frame);
                expected = Some(seq + 1);
            }
            if is_whole {
                let last = expected.map_or(0, |next| next - 1);
                log.segments.push_back(Kept {
                    number,
                    last,
                    when_spent,
                });
            } else {
                gaps.push(number);
            }
        }
        (log, gaps)
    }
}

/// The frame as it is sent for an earlier boot. Fields that we do not know are kept.
fn under_its_boot(frame: &[u8], boot: &str) -> Option<Bytes> {
    let mut fields: serde_json::Map<String, Value> = serde_json::from_slice(frame).ok()?;
    fields.insert("from_boot".to_owned(), boot.into());
    Some(wire::link::write(&fields).into())
}
