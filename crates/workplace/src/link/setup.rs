//! What a link is made of.

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use carrier::Connection;
use tokio::sync::{mpsc, oneshot, watch};
use wire::workplace::{self, Order};

use super::Hears;
use super::backoff::{self, Backoff, Jitter};
use super::dial::{Address, Dial, Door};
use super::handle::{Command, Handle, SayError, State};
use super::heart::{BootClock, Clock, Wakefulness};
use super::journal::{Directory, Finding, Identity, Journal, Limits, Room};
use super::outbound::Latest;
use super::parts::Parts;
use super::pending::Pending;
use super::prompts::Prompts;
use super::task::{Away, Ending, Live, Syncing};
use crate::hands::Hands;

/// What is said and not yet taken up. Beyond it speakers wait.
const COMMANDS: usize = 256;
/// What the hub said and nobody has taken up. Beyond it the hub is told so.
const HEARD: usize = 64;

/// Who we are to the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Me {
    pub session: String,
    pub generation: u64,
    /// One numbering: the order's boot, and which start of the workplace within it.
    pub boot: String,
}

/// Everything that a link needs and a test may want to choose.
#[derive(Debug)]
pub struct Makings {
    pub me: Me,
    pub journal: Journal,
    /// What was found when the journal was opened.
    pub findings: Vec<Finding>,
    /// `None`: the hub dials.
    pub dial: Option<Box<dyn Dial>>,
    pub clock: Box<dyn Clock>,
    pub jitter: Dice,
}

/// Where jitter comes from.
pub struct Dice(pub Jitter);

impl fmt::Debug for Dice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dice")
    }
}

/// The task. Whoever makes it runs it, and owns it.
pub struct Link {
    pub(super) me: Me,
    pub(super) journal: Journal,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) adopted: mpsc::Receiver<Connection>,
    pub(super) end: mpsc::Receiver<oneshot::Sender<()>>,
    pub(super) hears: mpsc::Sender<wire::link::FromHub>,
    pub(super) state: watch::Sender<State>,
    pub(super) clock: Box<dyn Clock>,
    pub(super) wakefulness: Wakefulness,
    pub(super) backoff: Backoff,
    pub(super) dial: Option<Box<dyn Dial>>,
    pub(super) away: Away,
    pub(super) live: Option<Live>,
    /// A connection that is being closed, and how long it may take.
    pub(super) retiring: Option<(Connection, Duration)>,
    pub(super) connections: u64,
    /// Upgrades that were refused since the last that was not.
    pub(super) refusals: u64,
    /// Remarks about the connection itself, which go first.
    pub(super) remarks: VecDeque<bytes::Bytes>,
    pub(super) parts: Parts,
    pub(super) latest: Latest,
    pub(super) prompts: Prompts,
    pub(super) pending: Pending,
    pub(super) syncing: Option<Syncing>,
    pub(super) sync_at: Option<Duration>,
    /// Those who wait until a number survives the machine.
    pub(super) durable: Vec<(u64, oneshot::Sender<Result<(), SayError>>)>,
    pub(super) write_again_at: Option<Duration>,
    pub(super) has_said_tight: bool,
    pub(super) tight_times: u64,
    pub(super) drains: Vec<oneshot::Sender<()>>,
    pub(super) ending: Option<Ending>,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("me", &self.me)
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

impl Link {
    pub fn new(makings: Makings) -> (Self, Handle, Hears) {
        let (to_link, commands) = mpsc::channel(COMMANDS);
        let (adopt, adopted) = mpsc::channel(1);
        let (ask_to_end, end) = mpsc::channel(1);
        let (hears, ears) = mpsc::channel(HEARD);
        let (state, watched) = watch::channel(State {
            is_connected: false,
            connections: 0,
            room: Room::Free,
            unacknowledged: makings.journal.records(),
        });
        let now = makings.clock.now();
        let mut this = Self {
            me: makings.me,
            journal: makings.journal,
            commands,
            adopted,
            end,
            hears,
            state,
            clock: makings.clock,
            wakefulness: Wakefulness::default(),
            backoff: Backoff::new(makings.jitter.0),
            dial: makings.dial,
            away: Away::Until(now),
            live: None,
            retiring: None,
            connections: 0,
            refusals: 0,
            remarks: VecDeque::new(),
            parts: Parts::default(),
            latest: Latest::default(),
            prompts: Prompts::default(),
            pending: Pending::default(),
            syncing: None,
            sync_at: None,
            durable: Vec::new(),
            write_again_at: None,
            has_said_tight: false,
            tight_times: 0,
            drains: Vec::new(),
            ending: None,
        };
        this.report(makings.findings);
        if !this.journal.is_well() {
            this.write_again_at = Some(now);
        }
        // The first try is at once; the plan goes on from there.
        let _ = this.backoff.next();
        let handle = Handle {
            commands: to_link,
            adopted: adopt,
            end: ask_to_end,
            state: watched,
        };
        (this, handle, ears)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("the order names no session, so there is no hub to talk to")]
    NoSession,
    #[error("the order does not say how hub and runner find each other")]
    NoLink,
}

/// The link that an order asks for. `state` is the directory that outlives the sandbox.
pub fn from_order(
    order: &Order,
    hands: &Arc<Hands>,
    state: &Path,
) -> Result<(Link, Handle, Hears), SetupError> {
    let session = order.session.clone().ok_or(SetupError::NoSession)?;
    let dial: Option<Box<dyn Dial>> = match order.link.clone().ok_or(SetupError::NoLink)? {
        workplace::Link::Door => Some(Box::new(Door(Arc::clone(hands)))),
        workplace::Link::Dial { url, token } => Some(Box::new(Address { url, token })),
        workplace::Link::Listen => None,
    };
    let mut jitter = backoff::random();
    // A workplace that died and was started again within a boot numbers anew.
    let boot = format!("{}.{:08x}{:08x}", order.boot, jitter(), jitter());
    let identity = Identity {
        session: session.clone(),
        boot: boot.clone(),
    };
    let (journal, findings) = journal(order.journal_key.as_deref(), state, identity);
    Ok(Link::new(Makings {
        me: Me {
            session,
            generation: order.generation,
            boot,
        },
        journal,
        findings,
        dial,
        clock: Box::new(BootClock),
        jitter: Dice(jitter),
    }))
}

/// Whoever is root inside can spoil the directory; that costs what would lie in it, not the link.
fn journal(key: Option<&str>, state: &Path, identity: Identity) -> (Journal, Vec<Finding>) {
    let Some(key) = key else {
        return (Journal::in_memory(identity, Limits::USUAL), Vec::new());
    };
    match Directory::open(&state.join("journal")) {
        Ok(directory) => {
            Journal::open(Box::new(directory), key.as_bytes(), identity, Limits::USUAL)
        }
        Err(error) => {
            let reason = error.to_string();
            let findings = vec![Finding::Unwritable { reason }];
            (Journal::in_memory(identity, Limits::USUAL), findings)
        }
    }
}
