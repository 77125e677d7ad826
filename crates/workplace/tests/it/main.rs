//! The workplace over real sockets, and with a real PID 1 outside a sandbox. Needs `cargo build -p
//! nacre-runner -p nacre-testkit` and root.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod agent_process;
mod api;
mod files;
mod gateway;
mod git;
mod inside;
mod link;
mod mcp;
mod services;
mod terminal;
mod whole;
mod world;
