//! `kill -9` of any nacre process, at any point, and what the next start makes of it.

mod chance;
mod client;
mod invariants;
mod keeper;
mod move_store;
mod points;
mod points_of_life;
mod process;
mod restart;
mod runner;
mod stage;
mod storm;
mod storm_model;
mod twice;
