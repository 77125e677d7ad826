//! The queue as its users see it, over SQLite. That the rows under it behave alike on PostgreSQL is
//! tested with the store.

mod office;
mod queue;
mod workers;
