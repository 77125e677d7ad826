//! What one viewer has seen of a terminal.

use std::rc::Rc;

use tokio::sync::watch;

use super::{Input, MAX_VIEWERS, NOT_WAITED_FOR, Terminal, TerminalError};

/// The most that is sent at once, so that a keystroke does not wait behind more.
const CHUNK: usize = 32 << 10;

#[derive(Debug)]
pub(super) struct Viewer {
    pub(super) terminal: Rc<Terminal>,
    number: u64,
    /// `None` before the first screen.
    read: Option<u64>,
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
        let (bytes, end) = {
            let ring = self.terminal.ring.borrow();
            let there = self
                .read
                .and_then(|read| Some((read, ring.after(read, CHUNK)?)));
            if let Some((read, bytes)) = there {
                let end = read + bytes.len() as u64;
                (bytes, end)
            } else {
                if ring.is_cut_on_another_screen() {
                    let _ = self.terminal.input.try_send(Input::Redraw);
                }
                ring.prologue()
            }
        };
        self.read = Some(end);
        self.tell(Some(end));
        bytes
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
