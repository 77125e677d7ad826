//! Sessions on the fake provider and a real SQLite.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod collect;
mod dressing;
mod faults;
mod hostile;
mod life;
mod owners;
mod prompts;
mod rest;
mod time;
mod twice;
mod way_out;
mod world;
