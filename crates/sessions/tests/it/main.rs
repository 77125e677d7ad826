//! Sessions on the fake provider and a real SQLite.

mod life;
mod owners;
mod world;
