//! A session's conversation, full-screen in a terminal: `nacre session attach`.
//!
//! ```text
//!  keys ──► Screen ──► deeds ──► the session
//!              ▲  │
//!     updates ─┘  └─► draw ──► the terminal
//! ```
//!
//! A [`Screen`] is all that is shown and all that was typed. It does nothing by itself: keys and
//! updates change it and say what is to be done ([`Deed`]), [`draw`] shows it. Only [`run`] has a
//! terminal and a server.

#![forbid(unsafe_code)]

mod action;
mod ask;
mod blocks;
mod editor;
mod env;
mod keys;
mod markdown;
mod run;
mod screen;
mod terminal;
mod tool;
mod view;
mod words;

pub use run::{AttachError, Left, run};
pub use screen::{Deed, Link, Screen};
pub use view::draw;
pub use words::Palette;
