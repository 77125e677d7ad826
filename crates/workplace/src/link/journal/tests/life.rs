//! Random lives of a journal, beside a model that remembers everything.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::memory::Memory;
use super::{acknowledge, offered, open, say};
use crate::link::journal::Journal;

#[derive(Debug, Clone)]
enum Step {
    Say {
        length: usize,
    },
    Sync,
    /// The hub has so many more of ours.
    Acknowledge {
        more: u64,
    },
    /// The hub has everything that earlier boots left.
    AcknowledgeEarlier,
    /// The workplace is killed between two steps.
    Kill,
    /// It is killed in the middle of saying something.
    KillWhileSaying,
    /// The machine goes with everything that was not synced.
    LosePower,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (1usize..900).prop_map(|length| Step::Say { length }),
        2 => Just(Step::Sync),
        2 => (0u64..6).prop_map(|more| Step::Acknowledge { more }),
        1 => Just(Step::AcknowledgeEarlier),
        1 => Just(Step::Kill),
        1 => Just(Step::KillWhileSaying),
        1 => Just(Step::LosePower),
    ];
    prop::collection::vec(step, 1..80)
}

/// What became of a frame, by boot and number.
#[derive(Debug)]
struct Frame {
    text: String,
    is_synced: bool,
    is_acknowledged: bool,
}

struct Life {
    disk: Memory,
    journal: Journal,
    boot: u32,
    said: BTreeMap<(u32, u64), Frame>,
}

impl Life {
    fn new() -> Self {
        let disk = Memory::default();
        let (journal, _) = open(&disk, "1");
        Self {
            disk,
            journal,
            boot: 1,
            said: BTreeMap::new(),
        }
    }

    fn live(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Say { length } => {
                let seq = self.journal.next_seq();
                let text = format!("{}/{seq}/{}", self.boot, "x".repeat(*length));
                let findings = say(&mut self.journal, &text);
                prop_assert!(findings.is_empty(), "{findings:?}");
                self.note(seq, text);
            }
            Step::Sync => {
                if let Some(sync) = self.journal.sync() {
                    prop_assert!(sync.run().is_ok());
                }
                for frame in self.said.values_mut() {
                    frame.is_synced = true;
                }
            }
            Step::Acknowledge { more } => {
                let last = self.journal.next_seq() - 1;
                let upto = (self.journal.first_seq() - 1 + more).min(last);
                acknowledge(&mut self.journal, &self.boot.to_string(), upto);
                self.forget(|boot, seq, own| boot == own && seq <= upto);
            }
            Step::AcknowledgeEarlier => {
                for offer in self.journal.offers() {
                    if offer.boot != self.boot.to_string() {
                        self.journal.acknowledge(&offer.boot, offer.last);
                    }
                }
                self.forget(|boot, _, own| boot < own);
            }
            Step::Kill => self.start_again()?,
            Step::KillWhileSaying => {
                let seq = self.journal.next_seq();
                let text = format!("{}/{seq}/cut short", self.boot);
                self.disk.killed_after(0);
                say(&mut self.journal, &text);
                self.start_again()?;
            }
            Step::LosePower => {
                self.disk.lose_power();
                self.said
                    .retain(|_, frame| frame.is_synced || frame.is_acknowledged);
                self.start_again()?;
            }
        }
        Ok(())
    }

    fn note(&mut self, seq: u64, text: String) {
        let frame = Frame {
            text,
            is_synced: false,
            is_acknowledged: false,
        };
        self.said.insert((self.boot, seq), frame);
    }

    fn forget(&mut self, is_known: impl Fn(u32, u64, u32) -> bool) {
        let own = self.boot;
        for ((boot, seq), frame) in &mut self.said {
            frame.is_acknowledged |= is_known(*boot, *seq, own);
        }
    }

    fn start_again(&mut self) -> Result<(), TestCaseError> {
        self.disk.restarted();
        self.boot += 1;
        let (journal, findings) = open(&self.disk, &self.boot.to_string());
        prop_assert!(findings.is_empty(), "{findings:?}");
        self.journal = journal;
        let mut offered: Vec<((u32, u64), String)> = offered(&self.journal)
            .into_iter()
            .map(|(boot, seq, text)| ((boot.unwrap().parse().unwrap(), seq), text))
            .collect();
        prop_assert!(
            offered.is_sorted_by(|(a, _), (b, _)| a < b),
            "out of order or twice"
        );
        for (key, text) in &offered {
            if let Some(frame) = self.said.get(key) {
                prop_assert_eq!(&frame.text, text);
            }
        }
        offered.retain(|(key, _)| self.said.contains_key(key));
        for (key, frame) in &self.said {
            let is_there = offered.iter().any(|(offered, _)| offered == key);
            prop_assert!(is_there || frame.is_acknowledged, "{key:?} is lost");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_happens_nothing_is_lost_doubled_or_invented(steps in steps()) {
        let mut life = Life::new();
        for step in &steps {
            life.live(step)?;
        }
        life.start_again()?;
    }
}
