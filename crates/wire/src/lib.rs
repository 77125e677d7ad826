//! What crosses a process: the frames between host and runner ([`guest`]), between host and keeper
//! ([`keeper`]), between runner and workplace ([`workplace`]), between hub and workplace
//! ([`link`]), between server and clients ([`v1`]), and what lets in at a sandbox's edge ports
//! (`keys`).
//!
//! A sandbox may run for weeks under the runner it was started with while the host is upgraded, so
//! these types only grow: a field is added with a default, never renamed or given another meaning.
//! Whatever comes from a runner is hostile: lengths are checked before anything is allocated.

#![forbid(unsafe_code)]

pub mod frame;
pub mod guest;
pub mod keeper;
#[cfg(feature = "keys")]
pub mod keys;
pub mod link;
#[cfg(feature = "pass")]
pub mod pass;
mod raw;
pub mod v1;
pub mod workplace;

pub use frame::{Channel, Frame, FrameError, MAX_CONTROL, MAX_DATA};
pub use raw::Raw;
