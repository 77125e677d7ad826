//! The last output of a terminal, and how to show it to somebody who was not there.

use std::collections::VecDeque;

use super::modes::Modes;

pub(super) const CAPACITY: usize = 256 << 10;
/// What is dropped at once, so that a busy terminal does not drop byte by byte.
const SLICE: usize = 16 << 10;
/// A line longer than this is cut wherever it is.
const LONGEST_LINE: usize = 4 << 10;

#[derive(Debug, Default)]
pub(super) struct Ring {
    bytes: VecDeque<u8>,
    /// How many were dropped before the first.
    start: u64,
    /// What the dropped bytes left switched on.
    before: Modes,
}

impl Ring {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        if self.bytes.len() <= CAPACITY {
            return;
        }
        let least = self.bytes.len() - (CAPACITY - SLICE);
        // To the end of a line where there is one near: what begins in the middle of a sequence
        // would show its rest as text.
        let near = self.bytes.iter().skip(least).take(LONGEST_LINE);
        let count = near
            .enumerate()
            .find(|(_, byte)| **byte == b'\n')
            .map_or(least, |(index, _)| least + index + 1);
        self.before.read(self.bytes.drain(..count));
        self.start += count as u64;
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// At most `most` bytes from `offset` on; `None` when they are no longer kept.
    pub(super) fn after(&self, offset: u64, most: usize) -> Option<Vec<u8>> {
        let skip = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        Some(self.bytes.iter().skip(skip).take(most).copied().collect())
    }

    /// Brings a screen to where [`Ring::after`] can go on from the ring's beginning.
    pub(super) fn prologue(&self) -> (Vec<u8>, u64) {
        let mut bytes = RESET.to_vec();
        bytes.extend(self.before.sequences());
        (bytes, self.start)
    }

    /// Whether a full-screen program is at work, whose picture may have begun before the ring.
    pub(super) fn is_cut_on_another_screen(&self) -> bool {
        if self.start == 0 {
            return false;
        }
        let mut now = self.before.clone();
        now.read(self.bytes.iter().copied());
        now.is_on_another_screen()
    }
}

/// Full reset, and the lines above the screen too.
const RESET: &[u8] = b"\x1bc\x1b[3J";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_its_end_and_its_modes() {
        let mut ring = Ring::default();
        ring.push(b"\x1b[?1049h\x1b[?2004h");
        for number in 0..100_000 {
            ring.push(format!("line {number}\n").as_bytes());
        }
        assert!(ring.bytes.len() <= CAPACITY);
        let (prologue, start) = ring.prologue();
        let text = String::from_utf8(prologue).unwrap();
        assert!(text.starts_with("\x1bc") && text.contains("?1049h") && text.contains("?2004h"));
        let kept = ring.after(start, usize::MAX).unwrap();
        assert!(kept.starts_with(b"line "), "from the start of a line");
        assert!(kept.ends_with(b"line 99999\n"));
        assert!(ring.is_cut_on_another_screen());
        assert_eq!(ring.after(start - 1, 1), None);
        assert_eq!(ring.after(ring.end(), 10).unwrap(), b"");
    }
}
