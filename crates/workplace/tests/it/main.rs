//! The workplace from outside: over real sockets, one thread, no sandbox.

mod gateway;
