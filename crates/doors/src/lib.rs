//! What the host serves into sandboxes: models and git, with keys that stay outside.
//!
//! ```text
//!   sandbox                          host
//!   agent  → 127.0.0.1:4002 ─ door ─→ Models ─ key put on ─→ Anthropic, OpenAI, …
//!                                       │                    or the demo model in here
//!                                       └ Meter: what was used
//!   git    → 127.0.0.1:4003 ─ door ─→ Git ─ Grants: repository and verb ─→ https://host/…
//! ```
//!
//! Each door takes connections that a provider hands over ([`Models::serve`], [`Git::serve`]), or
//! single requests that came in at the public address and were let in there ([`Models::handle`],
//! [`Git::handle`]; the path starts where the door's own part of it starts). [`forge::Forges`] is no
//! door: the host asks forges itself, with the same tokens. Nothing here knows of
//! stores or sessions: keys, grants and meters are traits. What a sandbox sends is hostile, and
//! what a model's server or a git host sends is not trusted either.

#![forbid(unsafe_code)]

mod content;
pub mod demo;
pub mod forge;
mod gate;
pub mod git;
mod headers;
mod intake;
pub mod models;
mod network;
mod scrub;
mod serve;
mod visitor;

pub use content::{Answer, BoxError, Content};
pub use gate::Limits;
pub use git::{Git, Grants};
pub use models::{Keys, Meter, Models};
pub use network::{Network, NetworkError};
pub use visitor::{Visitor, credential};
