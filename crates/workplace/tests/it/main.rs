//! The workplace from outside: over real sockets, one thread, no sandbox.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod gateway;
