//! Terminals: login shells of the user that go on whether or not anybody looks.
//!
//! ```text
//! viewer ── keystrokes ──► Terminal ── PID 1 ── shell
//!    ▲                        │
//!    └── screen, by offset ── Ring (the last output, and the modes in force where it begins)
//! ```
//!
//! A viewer keeps nothing but how far it has read. One that falls behind the ring is shown the
//! screen anew, so that nobody is ever buffered for.

mod modes;
mod page;
mod plain;
mod ring;
mod silence;
mod ttyd;
mod viewer;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::Clock;
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wire::guest::{Exited, WindowSize};

use crate::command::{exec_as, run};
use crate::hands::{Hands, HandsError, Said, Writer};
use crate::place::Place;

pub use page::answer as page;
pub use plain::serve as serve_plain;
pub use ttyd::{SUBPROTOCOL as TTYD_SUBPROTOCOL, serve as serve_ttyd};

use ring::Ring;

pub const MAX_TERMINALS: usize = 16;
pub const MAX_VIEWERS: usize = 32;
pub const DEFAULT_NAME: &str = "main";
const MAX_NAME: usize = 32;
/// Keystrokes and pastes that wait for the shell.
const INPUTS: usize = 32;
/// A viewer that keeps up sees everything: the shell waits for it this far behind, this long.
const LEAD: u64 = 128 << 10;
const PATIENCE: Duration = Duration::from_millis(20);
/// In the place of how far a viewer has read.
const NOT_WAITED_FOR: u64 = u64::MAX;
const PROBE: Duration = Duration::from_secs(10);
const OUTPUT_OF_PROBE: usize = 4 << 10;

const LOGIN_SHELL: &str = r#"exec "${SHELL:-/bin/sh}" -l"#;
const LOGIN_PROBE: &str = r#"exec "${SHELL:-/bin/sh}" -lc 'exit 0'"#;
const DEFAULT_SIZE: WindowSize = WindowSize {
    rows: 24,
    columns: 80,
};
/// Programs draw for the size they are told, and some take memory for it.
const MAX_SIDE: u16 = 1000;

#[derive(Debug, thiserror::Error)]
pub enum TerminalError {
    #[error("a terminal's name has 1 to {MAX_NAME} letters, digits, `_` or `-`")]
    BadName,
    #[error("there are {MAX_TERMINALS} terminals already; close one first")]
    TooMany,
    #[error("{MAX_VIEWERS} viewers look at this terminal already")]
    TooManyViewers,
    #[error("there is no terminal {0}")]
    NotFound(String),
    #[error("the shell cannot be started")]
    Shell(#[from] HandsError),
    #[error("the login shell fails with code {0}; look at its start-up files")]
    Fails(i32),
}

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Terminals {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    hands: Rc<Hands>,
    place: Place,
    clock: Arc<dyn Clock>,
    open: RefCell<BTreeMap<String, Rc<Terminal>>>,
    typed_at: watch::Sender<Option<Timestamp>>,
    tasks: TaskTracker,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Info {
    pub name: String,
    pub pid: i32,
    pub rows: u16,
    pub columns: u16,
    pub viewers: usize,
    pub started_at: Timestamp,
    pub typed_at: Option<Timestamp>,
}

/// One shell.
#[derive(Debug)]
pub struct Terminal {
    name: String,
    pid: i32,
    started_at: Timestamp,
    size: Cell<WindowSize>,
    typed_at: Cell<Option<Timestamp>>,
    ring: RefCell<Ring>,
    /// Where the ring ends; moves with every output.
    end: watch::Sender<u64>,
    /// How far each viewer that keeps up has read.
    viewers: RefCell<BTreeMap<u64, u64>>,
    /// Moves with every step of a viewer.
    progress: watch::Sender<u64>,
    input: mpsc::Sender<Input>,
    close: CancellationToken,
    exited: RefCell<Option<Exited>>,
    ended: CancellationToken,
}

#[derive(Debug)]
enum Input {
    Keys(Vec<u8>),
    Size(WindowSize),
    /// Asks full-screen programs to draw again.
    Redraw,
}

impl Terminals {
    pub fn new(hands: Rc<Hands>, place: Place, clock: Arc<dyn Clock>) -> Self {
        Self {
            shared: Rc::new(Shared {
                hands,
                place,
                clock,
                open: RefCell::default(),
                typed_at: watch::Sender::new(None),
                tasks: TaskTracker::new(),
            }),
        }
    }

    /// The terminal of that name, started if need be.
    pub async fn open(
        &self,
        name: &str,
        size: Option<WindowSize>,
    ) -> Result<Rc<Terminal>, TerminalError> {
        if !is_name(name) {
            return Err(TerminalError::BadName);
        }
        if let Some(terminal) = self.find(name) {
            return Ok(terminal);
        }
        if self.shared.open.borrow().len() >= MAX_TERMINALS {
            return Err(TerminalError::TooMany);
        }
        let size = bounded(size.unwrap_or(DEFAULT_SIZE));
        let mut exec = exec_as(&self.shared.place.user, ["sh", "-c", LOGIN_SHELL]);
        exec.cwd = Some(self.shared.place.workspace.as_str().into());
        exec.env = vec![("COLORTERM".into(), "truecolor".into())];
        exec.pty = Some(size);
        let running = self.shared.hands.exec_whole(exec).await?;
        if let Some(terminal) = self.find(name) {
            // Somebody else was quicker; ours ends as it is dropped.
            return Ok(terminal);
        }
        let (input, inputs) = mpsc::channel(INPUTS);
        let terminal = Rc::new(Terminal {
            name: name.to_owned(),
            pid: running.pid,
            started_at: self.shared.clock.now(),
            size: Cell::new(size),
            typed_at: Cell::new(None),
            ring: RefCell::default(),
            end: watch::Sender::new(0),
            viewers: RefCell::default(),
            progress: watch::Sender::new(0),
            input,
            close: CancellationToken::new(),
            exited: RefCell::new(None),
            ended: CancellationToken::new(),
        });
        let open = &self.shared.open;
        open.borrow_mut()
            .insert(name.to_owned(), Rc::clone(&terminal));
        let shared = Rc::clone(&self.shared);
        let kept = Rc::clone(&terminal);
        self.shared.tasks.spawn_local(async move {
            let (name, pid) = (kept.name.as_str(), kept.pid);
            tracing::info!(component = "terminal", name, pid, "opened");
            kept.keep(running.output, running.input, inputs).await;
            tracing::info!(component = "terminal", name, pid, "ended");
            shared.open.borrow_mut().remove(&kept.name);
        });
        Ok(terminal)
    }

    pub fn list(&self) -> Vec<Info> {
        let open = self.shared.open.borrow();
        open.values().map(|terminal| terminal.info()).collect()
    }

    /// Ends it with everything that runs in it.
    pub async fn close(&self, name: &str) -> Result<(), TerminalError> {
        let found = self.find(name);
        let terminal = found.ok_or_else(|| TerminalError::NotFound(name.to_owned()))?;
        terminal.close.cancel();
        terminal.ended.cancelled().await;
        Ok(())
    }

    /// Whether a login shell would come up in the workspace. Opens no terminal.
    pub async fn probe(&self) -> Result<(), TerminalError> {
        let mut exec = exec_as(&self.shared.place.user, ["sh", "-c", LOGIN_PROBE]);
        exec.cwd = Some(self.shared.place.workspace.as_str().into());
        exec.pty = Some(DEFAULT_SIZE);
        exec.timeout_ms = Some(u64::try_from(PROBE.as_millis()).unwrap_or(u64::MAX));
        let outcome = run(&self.shared.hands, exec, OUTPUT_OF_PROBE).await?;
        match outcome.code {
            0 => Ok(()),
            code => Err(TerminalError::Fails(code)),
        }
    }

    /// When somebody last typed in any of them.
    pub fn typed_at(&self) -> Option<Timestamp> {
        *self.shared.typed_at.borrow()
    }

    /// Every time somebody types from now on.
    pub fn typed(&self) -> watch::Receiver<Option<Timestamp>> {
        self.shared.typed_at.subscribe()
    }

    fn find(&self, name: &str) -> Option<Rc<Terminal>> {
        let open = self.shared.open.borrow();
        let terminal = open.get(name)?;
        (!terminal.ended.is_cancelled()).then(|| Rc::clone(terminal))
    }

    fn notice(&self, terminal: &Terminal, keys: &[u8]) {
        if silence::is_report(keys) {
            return;
        }
        let now = self.shared.clock.now();
        terminal.typed_at.set(Some(now));
        self.shared.typed_at.send_replace(Some(now));
    }
}

impl Terminal {
    pub fn info(&self) -> Info {
        let size = self.size.get();
        Info {
            name: self.name.clone(),
            pid: self.pid,
            rows: size.rows,
            columns: size.columns,
            viewers: self.viewers.borrow().len(),
            started_at: self.started_at,
            typed_at: self.typed_at.get(),
        }
    }

    /// What to tell the shell of a new size; nothing when it has it.
    fn resized(&self, size: WindowSize) -> Option<Input> {
        let size = bounded(size);
        (self.size.replace(size) != size).then_some(Input::Size(size))
    }

    /// Hands over what waits, once there is room. Dropping it half-way loses nothing.
    async fn deliver(&self, waiting: &mut Option<Input>) {
        match self.input.reserve().await {
            Ok(room) => {
                if let Some(input) = waiting.take() {
                    room.send(input);
                }
            }
            Err(_) => *waiting = None,
        }
    }

    /// Until the shell ends or is to end.
    async fn keep(
        &self,
        mut output: crate::hands::Output,
        mut writer: Writer,
        mut inputs: mpsc::Receiver<Input>,
    ) {
        let reading = async {
            loop {
                match output.next().await {
                    Ok(Said::Stdout(bytes) | Said::Stderr(bytes)) => self.show(&bytes).await,
                    Ok(Said::Exited(exited)) => return Some(exited),
                    Err(_) => return None,
                }
            }
        };
        let writing = async {
            while let Some(input) = inputs.recv().await {
                let written = match input {
                    Input::Keys(keys) => writer.write(&keys).await,
                    Input::Size(size) => writer.resize(size).await,
                    Input::Redraw => redraw(&mut writer, self.size.get()).await,
                };
                if written.is_err() {
                    break;
                }
            }
            std::future::pending::<()>().await;
        };
        let exited = tokio::select! {
            exited = reading => exited,
            () = writing => None,
            () = self.close.cancelled() => None,
        };
        *self.exited.borrow_mut() = exited;
        self.ended.cancel();
    }

    async fn show(&self, bytes: &[u8]) {
        let end = {
            let mut ring = self.ring.borrow_mut();
            ring.push(bytes);
            ring.end()
        };
        self.end.send_replace(end);
        let mut progress = self.progress.subscribe();
        let caught_up = async {
            while self.is_far_ahead(end) {
                if progress.changed().await.is_err() {
                    return;
                }
            }
        };
        if tokio::time::timeout(PATIENCE, caught_up).await.is_err() {
            self.leave_behind(end);
        }
    }

    fn is_far_ahead(&self, end: u64) -> bool {
        let viewers = self.viewers.borrow();
        viewers
            .values()
            .any(|read| end.saturating_sub(*read) > LEAD)
    }

    /// Those far behind are not waited for until they move again; they get the screen anew.
    fn leave_behind(&self, end: u64) {
        let mut viewers = self.viewers.borrow_mut();
        for read in viewers.values_mut() {
            if end.saturating_sub(*read) > LEAD {
                *read = NOT_WAITED_FOR;
            }
        }
    }
}

/// A size that was never there and back: the kernel tells the programs only of changes.
async fn redraw(writer: &mut Writer, size: WindowSize) -> Result<(), HandsError> {
    let other = WindowSize {
        rows: if size.rows > 2 {
            size.rows - 1
        } else {
            size.rows + 1
        },
        ..size
    };
    writer.resize(other).await?;
    writer.resize(size).await
}

fn bounded(size: WindowSize) -> WindowSize {
    WindowSize {
        rows: size.rows.clamp(1, MAX_SIDE),
        columns: size.columns.clamp(1, MAX_SIDE),
    }
}

fn is_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
