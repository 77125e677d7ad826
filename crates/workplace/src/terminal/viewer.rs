//! What one viewer has seen of a terminal.

use std::rc::Rc;

use tokio::sync::watch;

use super::silence::Silence;
use super::{Input, MAX_VIEWERS, NOT_WAITED_FOR, Terminal, TerminalError};

/// The most that is sent at once, so that a keystroke does not wait behind more.
const CHUNK: usize = 32 << 10;

#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) terminal: Rc<Terminal>,
    number: u64,
    /// `None` before the first screen.
    read: Option<u64>,
    /// What is shown again goes through here, up to this offset.
    silence: Silence,
    shown_before: u64,
    end: watch::Receiver<u64>,
}

impl Viewer {
    pub(super) fn new(terminal: Rc<Terminal>) -> Result<Self, TerminalError> {
        let mut viewers = terminal.viewers.borrow_mut();
        if viewers.len() >= MAX_VIEWERS {
            return Err(TerminalError::TooManyViewers);
        }
        let number = viewers.last_key_value().map_or(0, |(number, _)| number + 1);
        viewers.insert(number, terminal.end.borrow().to_owned());
        drop(viewers);
        Ok(Self {
            end: terminal.end.subscribe(),
            terminal,
            number,
            read: None,
            silence: Silence::default(),
            shown_before: 0,
        })
    }

    /// Waits for the next bytes to show. `None` after the last of a terminal that ended.
    /// Dropping it half-way loses nothing.
    pub(super) async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            self.end.mark_unchanged();
            let bytes = self.ready();
            if !bytes.is_empty() {
                return Some(bytes);
            }
            let ended = self.terminal.ended.clone();
            tokio::select! {
                biased;
                _ = self.end.changed() => {}
                () = ended.cancelled() => {
                    let last = self.ready();
                    return (!last.is_empty()).then_some(last);
                }
            }
        }
    }

    fn ready(&mut self) -> Vec<u8> {
        loop {
            let (bytes, end) = self.step();
            let moved = self.read != Some(end);
            self.read = Some(end);
            self.tell(Some(end));
            if !bytes.is_empty() || !moved {
                return bytes;
            }
        }
    }

    /// The next bytes to show, and how far they go.
    fn step(&mut self) -> (Vec<u8>, u64) {
        let ring = self.terminal.ring.borrow();
        let most = match self
            .read
            .and_then(|read| self.shown_before.checked_sub(read))
        {
            Some(rest) if rest > 0 => usize::try_from(rest).unwrap_or(CHUNK).min(CHUNK),
            _ => CHUNK,
        };
        let there = self
            .read
            .and_then(|read| Some((read, ring.after(read, most)?)));
        let Some((read, bytes)) = there else {
            if ring.is_cut_on_another_screen() {
                let _ = self.terminal.input.try_send(Input::Redraw);
            }
            self.silence = Silence::default();
            self.shown_before = ring.end();
            return ring.prologue();
        };
        let end = read + bytes.len() as u64;
        if end > self.shown_before || bytes.is_empty() {
            return (bytes, end);
        }
        let mut passed = self.silence.pass(&bytes);
        if end == self.shown_before {
            passed.extend(self.silence.end());
        }
        (passed, end)
    }

    /// The shell need not wait for this one.
    pub(super) fn pause(&self) {
        self.tell(None);
    }

    fn tell(&self, read: Option<u64>) {
        let mut viewers = self.terminal.viewers.borrow_mut();
        viewers.insert(self.number, read.unwrap_or(NOT_WAITED_FOR));
        drop(viewers);
        self.terminal
            .progress
            .send_modify(|steps| *steps = steps.wrapping_add(1));
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.terminal.viewers.borrow_mut().remove(&self.number);
        self.terminal
            .progress
            .send_modify(|steps| *steps = steps.wrapping_add(1));
    }
}
