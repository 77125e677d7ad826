//! Who asked for what is being done, and how long each step of it took.
//!
//! A request has a [`Context`] while it is answered: its id, and its place in a trace. What is done
//! for it later or elsewhere takes the context along. A [`Span`] is one step; those of a process that
//! was told where to send them ([`start`]) go there as OTLP, and all others cost nothing.
//!
//! ```text
//!  request ── Context ──► hub ──► effect ──► provider call
//!     │                    └────► prompt ──► agent's turn
//!     └ Span ─┬─ Span ── … each at its end ──► queue ──► collector
//! ```
//!
//! We write OTLP's JSON ourselves: it is one document, and the libraries for it weigh more than the
//! rest of the server's tracing together.

#![forbid(unsafe_code)]

mod context;
mod export;
mod otlp;
mod span;
mod trace;

pub use context::{Context, RequestId, current, within};
pub use export::{Exporter, Settings, StartError, start};
pub use span::{Kind, Span, Value, is_on, span};
pub use trace::{NotATrace, Trace};
