//! Sessions that outlive their sandboxes.
//!
//! A session is a record, a log and, while it is alive, a hub: the one task that owns it. The hub
//! holds the session's [`Lifecycle`](model::session::Lifecycle), writes every move to the store
//! before it acts on it, and lets a provider do the rest. Sandboxes come and go under it.
//!
//! ```text
//!  Sessions ── open ──► Handle ── command ──► hub ── write ──► store
//!                                              │ ▲
//!                                       effect ▼ │ what came of it
//!                                            provider
//! ```
//!
//! Whoever opens a session takes it over: its term is raised, and what an owner of an earlier term
//! still tries to write is refused. A hub that is refused ends.

#![forbid(unsafe_code)]

mod collect;
mod direct;
mod expire;
mod handle;
mod hub;
mod inherited;
mod lease;
mod link;
mod measure;
mod outside;
mod queue;
mod records;
mod registry;
mod settings;
mod spec;
mod sweep;
mod told;

pub use expire::Expire;
pub use handle::{Attendance, Handle, HubError, Seen};
pub use hub::OpenParts;
pub use outside::{Nothing, Outside, Visitor};
pub use records::{New, Planned};
pub use registry::{Makings, Sessions};
pub use settings::Settings;
pub use spec::{Ask, Machine, Spec, Work};
pub use told::{Told, Watch};
