//! The fake provider passes the contract, in memory and as a process of its own.

#![expect(clippy::unwrap_used, reason = "tests")]

mod as_a_process;
mod in_memory;
