//! The auth gateway. Each test has one of its own, with a backend behind it that says what it got.

mod access;
mod ask;
mod backend;
mod express;
mod flood;
mod hostile;
mod proxy;
mod sockets;
mod tunnels;
mod world;
