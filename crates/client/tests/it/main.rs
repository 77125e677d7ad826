//! The client against servers that say what a test wants.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod fold;
mod follow;
mod http;
mod server;
mod vectors;
mod world;
