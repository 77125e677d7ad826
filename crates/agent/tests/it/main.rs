//! What an agent's client makes of recordings of the real agent, and of the real agent itself.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod real;
mod recordings;
mod transcript;
mod world;
