//! Kills everything at random and looks whether anything was lost.
//!
//! ```text
//!  storm ── commands ──► server ── provider ──► sandboxes
//!    │  ◄── frames ─────    ▲            ▲           ▲
//!    └──── kill -9, SIGSTOP, faults ─────┴───────────┘
//! ```
//!
//! A [storm](Storm) is made of rounds. In each, some sessions are asked to do some things at once,
//! something is killed in the middle of it, everything is started again, and then what is there is
//! compared with what anybody was told. All choices come from a seed: the same seed makes the same
//! choices, though processes that run side by side need not meet at the same points again.

#![forbid(unsafe_code)]

mod book;
mod checks;
mod fake;
mod ground;
mod processes;
mod protocol;
mod report;
mod restart;
mod server;
mod settings;
mod storm;

pub use fake::FakeGround;
pub use ground::{Ground, Server, Victim, Work};
pub use report::{Report, Round};
pub use restart::restart;
pub use server::{ServerOptions, serve};
pub use settings::Pace;
pub use storm::{Plan, Storm};
