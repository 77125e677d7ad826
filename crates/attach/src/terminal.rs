//! The user's terminal, given back as it was: at the end, after a signal, and when something panics.

use std::io::{self, stdout};

use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::execute;
use ratatui::DefaultTerminal;

#[derive(Debug)]
pub(crate) struct FullScreen {
    pub(crate) terminal: DefaultTerminal,
}

impl FullScreen {
    /// A panic from here on gives the terminal back before it says anything.
    pub(crate) fn enter() -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        let screen = Self { terminal };
        // So that a paste of several lines is no several prompts.
        execute!(stdout(), EnableBracketedPaste)?;
        Ok(screen)
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        // The terminal may be gone, and then there is nothing to give back.
        let _ = execute!(stdout(), DisableBracketedPaste);
        let _ = ratatui::try_restore();
    }
}
