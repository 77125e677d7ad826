//! The link to the hub: one connection at a time, for as long as the workplace lives.
//!
//! ```text
//!  turns, tools, services                 Link, one task                        the hub
//!   Handle::say ──────► commands ──► journal ──► cursor ──► Connection ──► door, dialled or
//!   Handle::ask ──────►          └─► open parts ───────────►    │          dialling WebSocket
//!   Hears ◄──────────── what is not the link's own ◄────────────┘
//! ```
//!
//! Everything but the moving of bytes and the disk is decided in one place, [`Link::run`], one thing
//! at a time. Frames that count are written to the [`journal`] before they are sent and stay there
//! until the hub has them; text under way is held whole and sent as it grows. Whoever
//! connects last is heard; losing a connection changes nothing but that.
//!
//! What the hub says is not trusted further than its term: a frame is bounded, a prompt is handed
//! on once, and a queue that is full is said to be full.

mod backoff;
pub mod bench;
mod dial;
mod fit;
mod handle;
mod heart;
pub mod journal;
mod outbound;
mod parts;
mod pending;
mod prompts;
mod setup;
mod talk;
mod task;

pub use backoff::{Jitter, random};
pub use carrier::{Connection, Io};
pub use dial::{Address, Dial, DialError, Dialling, Door};
pub use handle::{Handle, SayError, State, Who};
pub use heart::{BootClock, Clock};
pub use pending::AskError;
pub use setup::{Dice, Link, Makings, Me, SetupError, from_order};
pub use tokio_tungstenite::tungstenite::protocol::Role;

/// What the hub says, but for what concerns the link alone.
pub type Hears = tokio::sync::mpsc::Receiver<wire::link::FromHub>;
