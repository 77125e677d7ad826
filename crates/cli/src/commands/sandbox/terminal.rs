//! The user's own terminal while a command in a sandbox has one.

use std::io::{self, IsTerminal as _};

use provider::WindowSize;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Keys go to the sandbox as they are typed, Ctrl-C included, until this is dropped: at the end,
/// at a signal, and when a panic unwinds.
#[derive(Debug)]
pub(crate) struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Nothing when standard input is no terminal.
    pub(crate) fn enter() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        Ok(Some(Self { before }))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // The terminal may be gone, and then there is nothing to put back.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

pub(crate) fn window_size() -> WindowSize {
    let size = tcgetwinsize(io::stdout()).or_else(|_| tcgetwinsize(io::stdin()));
    match size {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => WindowSize {
            rows: size.ws_row,
            columns: size.ws_col,
        },
        _ => WindowSize {
            rows: 24,
            columns: 80,
        },
    }
}

/// The signals that end a command.
#[derive(Debug)]
pub(crate) struct Endings {
    signals: [(u8, Signal); 4],
}

impl Endings {
    pub(crate) fn listen() -> io::Result<Self> {
        let of = |number: u8| {
            Ok::<_, io::Error>((number, signal(SignalKind::from_raw(i32::from(number)))?))
        };
        Ok(Self {
            signals: [of(HANGUP)?, of(INTERRUPT)?, of(QUIT)?, of(TERMINATE)?],
        })
    }

    /// The number of the next one.
    pub(crate) async fn next(&mut self) -> u8 {
        let [hangup, interrupt, quit, terminate] = &mut self.signals;
        tokio::select! {
            _ = hangup.1.recv() => hangup.0,
            _ = interrupt.1.recv() => interrupt.0,
            _ = quit.1.recv() => quit.0,
            _ = terminate.1.recv() => terminate.0,
        }
    }
}

const HANGUP: u8 = 1;
const INTERRUPT: u8 = 2;
const QUIT: u8 = 3;
const TERMINATE: u8 = 15;
/// What a program that writes to nobody dies of.
pub(crate) const BROKEN_PIPE: u8 = 13;
