//! The proxy from outside: what it lets through, what it refuses, and what it asks nobody.

mod corpus;
mod passes;
mod proxy;
mod resolver;
mod world;
