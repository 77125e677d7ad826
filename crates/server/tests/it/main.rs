//! The front door over the fake provider, asked over real connections.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod access;
mod bodies;
mod description;
mod hostility;
mod members;
mod page;
mod sessions;
mod tools;
mod world;
