//! The queue as its users see it, over SQLite. That the rows under it behave alike on PostgreSQL is
//! tested with the store.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod office;
mod queue;
mod workers;
