//! The proxy from outside: what it lets through, what it refuses, and what it asks nobody.

mod corpus;
mod proxy;
mod resolver;
mod world;
