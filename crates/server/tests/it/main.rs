//! The front door over the fake provider, asked over real connections.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod access;
mod attacks;
mod bodies;
mod description;
mod egress;
mod git_apps;
mod git_tokens;
mod hostility;
mod members;
mod once;
mod page;
mod public_doors;
mod pulls;
mod repos;
mod rights;
mod runner;
mod sessions;
mod stand_in;
mod tools;
mod usage;
mod watched;
mod world;
