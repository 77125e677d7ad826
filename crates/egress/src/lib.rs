//! A sandbox's way out: an HTTP proxy (`CONNECT` and absolute form) with an allowlist.
//!
//! One small process, `nacre-egress`, for each sandbox with `--net proxy`. It runs in the host's
//! network namespace as a child of the keeper, which makes the listeners and hands them over:
//!
//! ```text
//! sandbox                         │ host
//!   127.0.0.1:3128 ───┐           │
//!   /run/nacre/egress ┴── fds ────┼──► nacre-egress ──► target ─► policy ─► resolve, class, dial
//!                                 │         └── egress.log          ▲
//!                                 │                         passes ─┘ written by nacre
//! ```
//!
//! [`target`], [`policy`], [`address`] and [`mod@write`] are pure. nacre itself uses them to check rules
//! and [`log`] to show what was decided.

pub mod address;
mod carry;
mod defaults;
mod dial;
pub mod log;
pub mod passes;
pub mod policy;
mod proxy;
mod reason;
mod server;
mod tail;
pub mod target;
mod upstream;
pub mod write;

pub use defaults::DEFAULT_RULES;
pub use dial::Lookup;
pub use proxy::{Limits, Proxy};
pub use reason::{Reason, TargetError};
pub use server::serve;
pub use tail::refused_since;
pub use upstream::{Upstream, UpstreamError};
