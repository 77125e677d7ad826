//! The front door over the fake provider, asked over real connections.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod access;
mod attacks;
mod bodies;
mod description;
mod egress;
mod sessions;
mod world;
