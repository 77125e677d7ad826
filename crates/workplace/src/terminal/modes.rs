//! Which of a terminal's lasting modes are on. Not a screen: of all the sequences a program can
//! send, only those are read that stay in force when the output around them is forgotten.

use std::collections::BTreeMap;

/// DEC private modes worth restoring: cursor keys, wrap, mouse, focus, other screen, paste.
const KEPT: [u16; 14] = [
    1, 7, 25, 47, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1047, 1049, 2004,
];
/// Longer ones are none.
const LONGEST: usize = 64;

#[derive(Debug, Clone, Default)]
pub(super) struct Modes {
    set: BTreeMap<u16, bool>,
    sequence: Sequence,
}

#[derive(Debug, Clone, Default)]
enum Sequence {
    #[default]
    None,
    Escape,
    /// After `ESC [`.
    Control(Vec<u8>),
}

impl Modes {
    pub(super) fn read(&mut self, bytes: impl Iterator<Item = u8>) {
        for byte in bytes {
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        self.sequence = match (std::mem::take(&mut self.sequence), byte) {
            (_, 0x1b) => Sequence::Escape,
            (Sequence::Escape, b'[') => Sequence::Control(Vec::new()),
            (Sequence::Escape, b'c') => {
                self.set.clear();
                Sequence::None
            }
            (Sequence::Control(sequence), b'h') => {
                self.switch(&sequence, true);
                Sequence::None
            }
            (Sequence::Control(sequence), b'l') => {
                self.switch(&sequence, false);
                Sequence::None
            }
            (Sequence::Control(mut sequence), 0x20..=0x3f) if sequence.len() < LONGEST => {
                sequence.push(byte);
                Sequence::Control(sequence)
            }
            _ => Sequence::None,
        };
    }

    fn switch(&mut self, sequence: &[u8], on: bool) {
        let Some(numbers) = sequence.strip_prefix(b"?") else {
            return;
        };
        let numbers = String::from_utf8_lossy(numbers);
        for number in numbers.split(';').filter_map(|text| text.parse().ok()) {
            if KEPT.contains(&number) {
                self.set.insert(number, on);
            }
        }
    }

    pub(super) fn is_on_another_screen(&self) -> bool {
        [47, 1047, 1049]
            .iter()
            .any(|mode| self.set.get(mode) == Some(&true))
    }

    /// What puts a terminal that was reset into these modes.
    pub(super) fn sequences(&self) -> Vec<u8> {
        self.set
            .iter()
            .flat_map(|(mode, on)| {
                format!("\x1b[?{mode}{}", if *on { 'h' } else { 'l' }).into_bytes()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(text: &[u8]) -> String {
        let mut modes = Modes::default();
        modes.read(text.iter().copied());
        String::from_utf8(modes.sequences())
            .unwrap()
            .replace('\x1b', "^")
    }

    #[test]
    fn what_stays_in_force_is_remembered() {
        assert_eq!(
            after(b"text \x1b[?1049h\x1b[?25l\x1b[31m"),
            "^[?25l^[?1049h"
        );
        assert_eq!(after(b"\x1b[?1;2004h\x1b[?2004l"), "^[?1h^[?2004l");
        assert_eq!(after(b"\x1b[?1049h\x1bc"), "");
        assert_eq!(after(b"\x1b[?99999999h\x1b[4h\x1b[?25"), "");
    }

    proptest! {
        #[test]
        fn no_output_makes_it_fail_or_grow(bytes: Vec<u8>) {
            let mut modes = Modes::default();
            modes.read(bytes.into_iter());
            prop_assert!(modes.sequences().len() < 16 * KEPT.len());
        }
    }
}
