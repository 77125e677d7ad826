//! The doors, from outside: small servers as upstreams, streams as a provider hands them over.

#![expect(clippy::unwrap_used, reason = "the helpers of a test may fail it")]

mod backend;
mod demo;
mod forge;
mod git;
mod git_refusals;
mod models;
mod models_errors;
mod models_limits;
mod models_usage;
mod upstream;
mod world;
