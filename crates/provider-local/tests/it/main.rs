//! The local engine, for real: it needs root, and says so when it has not.

mod contract;
mod engine;
mod home;
mod moving;
mod rest;
mod sealed;
