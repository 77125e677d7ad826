//! A gateway over sessions on the fake provider and a real SQLite.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod client;
mod frames;
mod pipe;
mod preview;
mod replay;
mod shown;
mod stream;
mod world;
