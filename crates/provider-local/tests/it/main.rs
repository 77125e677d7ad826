//! The local engine, for real: it needs root, and says so when it has not.

mod contract;
mod damage;
mod dial;
mod egress;
mod engine;
mod home;
mod moving;
mod rest;
mod runsc;
mod sealed;
mod workplace;
