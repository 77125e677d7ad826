//! The front door: `/v1`, sign-in, secrets, OpenAPI.

#![forbid(unsafe_code)]

pub mod vault;
