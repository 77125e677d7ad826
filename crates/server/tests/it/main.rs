//! The front door over the fake provider, asked over real connections.

mod access;
mod bodies;
mod description;
mod sessions;
mod world;
