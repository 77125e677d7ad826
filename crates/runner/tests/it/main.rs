//! The runner, driven over its protocol as an ordinary process. Needs root, as the runner does.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod exec;
mod files;
mod life;
mod runner;
mod terminal;
